#include "service/internal.h"

#include <string.h>

// The manifest of the model goes by its hash, which every client knows. It is small and asked for
// once by each client, so that it is not kept in the cache.
static enum tern_result manifest_of(const struct tern_service *service,
                                    const uint8_t sha256[TERN_SHA256_SIZE], struct tern_blob **blob)
{
    const struct tern_db_federation *federation = &service->federation;
    if (federation->manifest == NULL ||
        memcmp(sha256, federation->model_hash, TERN_SHA256_SIZE) != 0) {
        return TERN_ERR_NOT_FOUND;
    }
    *blob = tern_blob_new(federation->manifest_len);
    if (*blob == NULL) {
        return TERN_ERR_NO_MEMORY;
    }
    memcpy((*blob)->data, federation->manifest, federation->manifest_len);
    return TERN_OK;
}

enum tern_result handle_download(struct tern_service *service, struct request *request)
{
    const struct download_request *wanted = &request->u.download;
    struct tern_blob *blob = NULL;
    uint32_t payload = 0;
    if (request->parsed != TERN_OK) {
        answer_error(request, status_of(request->parsed), request->parsed);
        return TERN_OK;
    }
    enum tern_result found = manifest_of(service, wanted->sha256, &blob);
    if (found == TERN_ERR_NOT_FOUND) {
        found = blob_of(service, wanted->sha256, &blob, &payload);
    }
    if (found == TERN_ERR_NOT_FOUND) {
        answer_error(request, 404, TERN_ERR_NOT_FOUND);
        return TERN_OK;
    }
    TERN_TRY(found);
    service->counters.downloads++;
    request->tag.round = service->machine.round;
    answer_blob(request, blob, wanted->from, payload);
    return TERN_OK;
}
