#include "external/command_line.h"

#include <stdbool.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Copies one word to *to with a NUL behind it, and moves both. The word never grows.
static enum tern_result take_word(const char **from, char **to, const char **why)
{
    char quote = '\0';
    const char *at = *from;
    char *out = *to;
    for (; *at != '\0' && (quote != '\0' || !is_blank(*at)); at++) {
        if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
        } else if (*at == quote) {
            quote = '\0';
        } else if (*at == '\\' && quote != '\'') {
            at++;
            if (*at == '\0') {
                *why = "it ends with a backslash that has nothing behind it";
                return TERN_ERR_CONFIG;
            }
            *out++ = *at;
        } else {
            *out++ = *at;
        }
    }
    *out++ = '\0';
    *from = at;
    *to = out;
    if (quote != '\0') {
        *why = "a quote is opened and not closed";
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

enum tern_result tern_command_line_split(const char *text, struct tern_command_line *line,
                                         const char **why)
{
    char *to = line->text;
    line->count = 0;
    if (strlen(text) >= sizeof line->text) {
        *why = "it is too long";
        return TERN_ERR_TOO_LARGE;
    }
    for (;;) {
        while (is_blank(*text)) {
            text++;
        }
        if (*text == '\0') {
            break;
        }
        if (line->count == TERN_COMMAND_WORDS_MAX) {
            *why = "it has too many words";
            return TERN_ERR_TOO_LARGE;
        }
        line->words[line->count++] = to;
        TERN_TRY(take_word(&text, &to, why));
    }
    line->words[line->count] = NULL;
    if (line->count == 0 || line->words[0][0] == '\0') {
        *why = "it names no command";
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}
