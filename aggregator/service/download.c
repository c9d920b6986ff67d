#include "service/internal.h"

enum tern_result handle_download(struct tern_service *service, struct request *request)
{
    const struct download_request *wanted = &request->u.download;
    struct tern_blob *blob = NULL;
    uint32_t payload = 0;
    if (request->parsed != TERN_OK) {
        answer_error(request, status_of(request->parsed), request->parsed);
        return TERN_OK;
    }
    enum tern_result found = blob_of(service, wanted->sha256, &blob, &payload);
    if (found == TERN_ERR_NOT_FOUND) {
        answer_error(request, 404, TERN_ERR_NOT_FOUND);
        return TERN_OK;
    }
    TERN_TRY(found);
    // A range from beyond the end asks for something else than this blob: it gets all of it.
    uint64_t from = wanted->from < blob->len ? wanted->from : 0;
    service->counters.downloads++;
    request->tag.round = service->machine.round;
    answer_blob(request, blob, from, payload);
    return TERN_OK;
}
