// Splits the setting client.trainer_command into the words of a command, without a shell: nothing
// is expanded, no pipe is made, no file named, so that no word can become a command. Reentrant.
#ifndef TERN_COMMAND_LINE_H
#define TERN_COMMAND_LINE_H

#include "result.h"
#include <stddef.h>

#define TERN_COMMAND_TEXT_MAX 1024 // bytes with the terminating NUL
#define TERN_COMMAND_WORDS_MAX 64

struct tern_command_line {
    char text[TERN_COMMAND_TEXT_MAX];
    char *words[TERN_COMMAND_WORDS_MAX + 2]; // into text; room for one more and the NULL at the end
    size_t count;
};

// Blanks part words. In 'single quotes' every character stands for itself; in "double quotes" and
// outside of quotes a backslash takes the next character as it is. Parts that touch are one word.
// TERN_ERR_CONFIG     no word, or a quote or a backslash without its end; *why: a sentence
// TERN_ERR_TOO_LARGE  too many words or bytes; *why: likewise
TERN_MUST_USE enum tern_result
tern_command_line_split(const char *text, struct tern_command_line *line, const char **why);

#endif
