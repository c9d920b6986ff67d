#include "hosted/paragraph.h"

#include <string.h>

void tern_paragraph_print(const char *text, const char *first, const char *rest, size_t columns,
                          FILE *out)
{
    size_t column = strlen(first);
    fputs(first, out);
    for (const char *gap = ""; *text != '\0'; gap = " ") {
        const size_t word = strcspn(text, " ");
        if (*gap != '\0' && column + 1 + word > columns) {
            fprintf(out, "\n%s", rest);
            column = strlen(rest);
            gap = "";
        }
        fprintf(out, "%s%.*s", gap, (int)word, text);
        column += strlen(gap) + word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}
