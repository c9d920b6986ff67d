#define _GNU_SOURCE
#include "posix/keep_sessions.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

// Of OpenSSL 3. libcurl has loaded it; its headers are not needed to build Tern for three flags.
#define OP_TLSEXT_PADDING (UINT64_C(1) << 4)
#define OP_IGNORE_UNEXPECTED_EOF (UINT64_C(1) << 7)
#define OP_NO_TICKET (UINT64_C(1) << 14)

typedef uint64_t change_options_fn(void *context, uint64_t options);

static void change_options(const char *function, void *context, uint64_t options)
{
    change_options_fn *change = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, function);
    if (symbol != NULL) {
        memcpy(&change, &symbol, sizeof change);
        change(context, options);
    }
}

static CURLcode on_context(CURL *easy, void *context, void *user)
{
    (void)easy;
    (void)user;
    change_options("SSL_CTX_clear_options", context, OP_NO_TICKET | OP_TLSEXT_PADDING);
    change_options("SSL_CTX_set_options", context, OP_IGNORE_UNEXPECTED_EOF);
    return CURLE_OK;
}

void tern_keep_sessions(CURL *easy)
{
    static const char backend[] = "OpenSSL/3";
    const curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);
    if (version->ssl_version != NULL &&
        strncmp(version->ssl_version, backend, sizeof backend - 1) == 0) {
        curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_context);
    }
}
