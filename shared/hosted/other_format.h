// Names files of other formats that are given in the place of a CSV table, and what to do with them. For the reader of
// CSV files. Pure; reentrant.
#ifndef TERN_OTHER_FORMAT_H
#define TERN_OTHER_FORMAT_H

#include <stddef.h>
#include <stdint.h>

// Returns the end of a sentence that the file's name begins, "holds a Parquet table, not CSV text: ...", by the file's
// first bytes; NULL: they may be CSV text. len: 512 or more, or all bytes of a smaller file.
const char *tern_other_format(const uint8_t *bytes, size_t len);

#endif
