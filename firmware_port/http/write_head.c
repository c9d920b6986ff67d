#include "http/message.h"
#include "util/bytes.h"

#include <string.h>

// The header written so far. After an error further calls write nothing, so callers check once at the end.
struct head {
    char *dst;
    size_t size;
    size_t len;
    enum tern_result result;
};

static void put(struct head *head, const char *text)
{
    const size_t len = strlen(text);
    if (len > head->size - head->len) {
        head->result = TERN_ERR_NO_SPACE;
        return;
    }
    memcpy(head->dst + head->len, text, len);
    head->len += len;
}

// Writes text from outside, which must not contain a space or a line end.
static void put_word(struct head *head, const char *word)
{
    for (const char *c = word; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f) {
            head->result = TERN_ERR_ARGUMENT;
            return;
        }
    }
    put(head, word);
}

static void put_number(struct head *head, size_t number)
{
    char text[TERN_DECIMAL_MAX + 1];
    tern_put_decimal(text, number);
    put(head, text);
}

enum tern_result tern_http_write_head(const struct tern_request *request, const char *host,
                                      uint16_t port, char *dst, size_t size, size_t *len)
{
    struct head head = {.dst = dst, .size = size, .result = TERN_OK};
    put_word(&head, request->method);
    put(&head, " ");
    put_word(&head, request->path);
    put(&head, " HTTP/1.1\r\nHost: ");
    put_word(&head, host);
    if (port != 443) {
        put(&head, ":");
        put_number(&head, port);
    }
    if (request->token != NULL) {
        put(&head, "\r\nAuthorization: Bearer ");
        put_word(&head, request->token);
    }
    if (request->body_len > 0) {
        put(&head, "\r\nContent-Length: ");
        put_number(&head, request->body_len);
    }
    if (TERN_PARTIALS && request->range_from > 0 && request->body_len > 0) {
        const size_t end = request->range_from + request->body_len;
        put(&head, "\r\nContent-Range: bytes ");
        put_number(&head, request->range_from);
        put(&head, "-");
        put_number(&head, end - 1);
        put(&head, "/");
        put_number(&head, end);
    }
    if (request->range_from > 0 && request->body_len == 0) {
        put(&head, "\r\nRange: bytes=");
        put_number(&head, request->range_from);
        put(&head, "-");
    }
    put(&head, "\r\n\r\n");
    *len = head.len;
    return head.result;
}
