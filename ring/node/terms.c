#include "node/terms.h"

#include "util/utf8.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 96 // bytes of a value

size_t tern_ring_terms_add(char text[TERN_RING_TERMS_MAX + 1], size_t len, const char *name,
                           const char *value)
{
    const size_t room = TERN_RING_TERMS_MAX + 1 - len;
    const int wanted = snprintf(text + len, room, "%s %s\n", name, value);
    if (wanted < 0 || (size_t)wanted >= room) {
        text[len] = '\0';
        return len;
    }
    return len + (size_t)wanted;
}

// Returns the value after "NAME " in a line of the text, and its length; NULL = no such line.
static const char *value_of(const char *text, const char *name, size_t name_len, size_t *len)
{
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        const size_t line_len = strcspn(line, "\n");
        if (line_len > name_len && strncmp(line, name, name_len) == 0 && line[name_len] == ' ') {
            *len = line_len - name_len - 1;
            return line + name_len + 1;
        }
        line += line_len;
    }
    return NULL;
}

// Shortens a value for people: the beginning of a long list of peers, a model without its hash.
static void show(const char *name, const char *value, size_t len, char text[SHOWN + 4])
{
    const bool is_model = strcmp(name, "model") == 0;
    const size_t shown = is_model ? strcspn(value, " \n") : len;
    const size_t kept = shown <= SHOWN ? shown : SHOWN;
    memcpy(text, value, kept);
    text[kept] = '\0';
    tern_utf8_show(text, kept);
    if (kept < shown) {
        strcat(text, "...");
    }
}

void tern_ring_terms_compare(const char *mine, const char *theirs,
                             char why[TERN_RING_TERMS_WHY_MAX])
{
    size_t at = 0;
    why[0] = '\0';
    for (const char *line = mine; *line != '\0'; line += *line == '\n') {
        const size_t name_len = strcspn(line, " \n");
        char name[32];
        char here[SHOWN + 4];
        char there[SHOWN + 4];
        size_t own_len = 0;
        size_t other_len = 0;
        snprintf(name, sizeof name, "%.*s", (int)(name_len < 31 ? name_len : 31), line);
        const char *own = value_of(mine, line, name_len, &own_len);
        const char *other = value_of(theirs, line, name_len, &other_len);
        if (own != NULL && other != NULL &&
            (own_len != other_len || memcmp(own, other, own_len) != 0)) {
            show(name, own, own_len, here);
            show(name, other, other_len, there);
            const int more = snprintf(why + at, TERN_RING_TERMS_WHY_MAX - at,
                                      "%sring.%s is %s there and %s here", at > 0 ? "; " : "", name,
                                      there, here);
            at += more > 0 ? (size_t)more : 0;
            if (at >= TERN_RING_TERMS_WHY_MAX) {
                return;
            }
        }
        line += strcspn(line, "\n");
    }
}
