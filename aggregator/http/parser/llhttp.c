// llhttp 9, for Debian 13.
#include <llhttp.h>
#include <stdbool.h>

typedef llhttp_t inner_parser;

struct progress {
    // The head's last byte was reported as unused, so the caller passes this byte again.
    bool repeats_last;
};

#define METHOD_NAME(method) llhttp_method_name((llhttp_method_t)(method))
#define KEEPS_ALIVE llhttp_should_keep_alive
#define HAS_LENGTH F_CONTENT_LENGTH

#include "http/parser/common.h"

static int on_headers_complete(inner_parser *inner)
{
    struct tern_parser *parser = inner->data;
    parser->head_done = true;
    return HPE_PAUSED;
}

static int on_body(inner_parser *inner, const char *at, size_t len)
{
    struct tern_parser *parser = inner->data;
    return parser->events->body(parser->ctx, at, len) ? HPE_OK : HPE_USER;
}

static int on_message_complete(inner_parser *inner)
{
    (void)inner;
    return HPE_PAUSED;
}

static const llhttp_settings_t SETTINGS = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

static void init(inner_parser *inner)
{
    llhttp_init(inner, HTTP_REQUEST, &SETTINGS);
    llhttp_set_lenient_version(inner, 1); // the request reader answers a wrong version with 505
}

static enum tern_parser_stop stop_at_pause(struct tern_parser *parser, bool had_head, size_t *used)
{
    llhttp_resume(&parser->parser);
    if (had_head) {
        return TERN_PARSER_COMPLETE;
    }
    parser->parser.upgrade = 0; // no upgrade to another protocol
    parser->progress.repeats_last = true;
    *used -= 1;
    return TERN_PARSER_HEAD;
}

enum tern_parser_stop tern_parser_run(struct tern_parser *parser, const char *data, size_t len,
                                      size_t *used)
{
    const bool had_head = parser->head_done;
    const size_t repeated = parser->progress.repeats_last ? 1 : 0;
    parser->progress.repeats_last = false;
    const llhttp_errno_t error = llhttp_execute(&parser->parser, data + repeated, len - repeated);
    *used = error == HPE_OK ? len : (size_t)(llhttp_get_error_pos(&parser->parser) - data);
    switch ((int)error) {
    case HPE_OK:
        return TERN_PARSER_AGAIN;
    case HPE_PAUSED:
        return stop_at_pause(parser, had_head, used);
    case HPE_USER:
        return TERN_PARSER_UNWANTED;
    default:
        return TERN_PARSER_MALFORMED;
    }
}
