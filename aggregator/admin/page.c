// Serves the dashboard, whose pages load nothing from other hosts; the headers forbid it.
#include "admin/page.h"

#include "admin/internal.h"
#include <string.h>

// Headers of "/", which browsers must fetch each time: it has the paths of the other files, which change with them.
#define HEADERS                                                                                    \
    "Cache-Control: no-cache\r\n"                                                                  \
    "Content-Security-Policy: default-src 'none';script-src 'self';style-src 'self';"              \
    "img-src 'self';connect-src 'self';base-uri 'none';form-action 'none';frame-ancestors 'none'"  \
    "\r\n"

#define SAFE "X-Content-Type-Options: nosniff\r\n"

static const struct tern_page_file *find(const char *path)
{
    for (size_t i = 0; i < tern_page_file_count; i++) {
        if (strcmp(tern_page_files[i].path, path) == 0) {
            return &tern_page_files[i];
        }
    }
    return NULL;
}

bool tern_admin_has_page(const char *path)
{
    return find(path) != NULL;
}

void tern_admin_page(struct tern_admin *admin, const struct tern_http_request *request,
                     struct tern_http_reply *reply)
{
    const struct tern_page_file *file = find(request->path);
    const bool is_index = strcmp(request->path, "/") == 0;
    (void)admin;
    *reply = (struct tern_http_reply){.status = 200,
                                      .cache = is_index ? NULL : "max-age=31536000, immutable",
                                      .type = file->type,
                                      .headers = is_index ? HEADERS SAFE : SAFE,
                                      .body = tern_blob_new(file->len)};
    if (reply->body == NULL) {
        *reply = (struct tern_http_reply){.status = 503, .retry_after_s = 1};
        return;
    }
    memcpy(reply->body->data, file->data, file->len);
}
