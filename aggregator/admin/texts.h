// Texts for people that the command line and the admin API have in common. Reentrant.
#ifndef TERN_ADMIN_TEXTS_H
#define TERN_ADMIN_TEXTS_H

#include <stdint.h>

#define TERN_TEXT 192

// "250 ms", "3 m 20 s", "2 d 4 h".
const char *tern_text_duration(uint64_t ms, char text[TERN_TEXT]);

#endif
