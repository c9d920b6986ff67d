// Numbers as people and JSON have them. Reentrant.
#ifndef TERN_FLOAT_TEXT_H
#define TERN_FLOAT_TEXT_H

#include <stdio.h>
#include <stdlib.h>

#define TERN_FLOAT_TEXT 32

// The shortest decimal number that reads back as the same float: 0.9, not 0.89999997615814209.
static inline const char *tern_float_text(float value, char text[TERN_FLOAT_TEXT])
{
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, TERN_FLOAT_TEXT, "%.*g", digits, (double)value);
        if (!(strtof(text, NULL) < value) && !(strtof(text, NULL) > value)) {
            break;
        }
    }
    return text;
}

#endif
