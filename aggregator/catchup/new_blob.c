#include "catchup/new_blob.h"

#include "hosted/log.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

// Too little disk, memory or descriptors for one blob is no failure of the store. errno says which it was. Clients ask
// again and again while it lasts, so that only the 1st, 2nd, 4th and so on since the start is logged.
static enum tern_result without_file(void)
{
    static atomic_uint failures;
    const int why = errno;
    const unsigned count = atomic_fetch_add(&failures, 1) + 1;
    if ((count & (count - 1)) == 0) {
        tern_log(TERN_LOG_WARN, "download-without-file", "count=%u error=%s", count,
                 TERN_LOG_TEXT(strerror(why)));
    }
    return TERN_ERR_BUSY;
}

enum tern_result tern_new_blob_begin(struct tern_new_blob *made, const char *folder, size_t most)
{
    *made = (struct tern_new_blob){.spool = TERN_SPOOL_CLOSED, .most = most};
    if (most > TERN_BLOB_LONG && folder != NULL) {
        return tern_spool_open(&made->spool, folder) ? TERN_OK : without_file();
    }
    made->blob = tern_blob_new(most);
    return made->blob != NULL ? TERN_OK : TERN_ERR_NO_MEMORY;
}

enum tern_result tern_new_blob_begin_anyhow(struct tern_new_blob *made, const char *folder,
                                            size_t most)
{
    const enum tern_result result = tern_new_blob_begin(made, folder, most);
    return result == TERN_ERR_BUSY ? tern_new_blob_begin(made, NULL, most) : result;
}

static enum tern_result take(void *ctx, const uint8_t *data, size_t len)
{
    struct tern_new_blob *made = ctx;
    if (len > made->most - made->len) {
        return TERN_ERR_NO_SPACE;
    }
    if (made->blob != NULL) {
        memcpy(made->blob->data + made->len, data, len);
    } else if (!tern_spool_append(&made->spool, data, len)) {
        return without_file();
    }
    made->len += len;
    return TERN_OK;
}

struct tern_download_sink tern_new_blob_sink(struct tern_new_blob *made)
{
    return (struct tern_download_sink){made, take};
}

enum tern_result tern_new_blob_end(struct tern_new_blob *made, struct tern_blob **blob)
{
    if (made->blob == NULL) {
        *blob = tern_blob_of_file(&made->spool);
        return *blob != NULL ? TERN_OK : without_file();
    }
    made->blob->len = made->len;
    *blob = made->blob;
    made->blob = NULL;
    return TERN_OK;
}

void tern_new_blob_drop(struct tern_new_blob *made)
{
    tern_spool_close(&made->spool);
    tern_blob_release(made->blob);
    made->blob = NULL;
}

bool tern_blob_is_in_file(const struct tern_blob *blob)
{
    return blob->spool.fd >= 0;
}
