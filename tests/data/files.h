// A temporary folder with files that a test writes, and the data set opened from them.
#ifndef TERN_TESTS_DATA_FILES_H
#define TERN_TESTS_DATA_FILES_H

#include "data/source.h"
#include <stddef.h>

extern char folder[];                  // the temporary folder
extern char why[TERN_DATA_WHY_MAX];    // of the last open_spec()
extern struct tern_data data;          // of the last open_spec()
extern struct tern_data_limits limits; // for the next open_spec(); zero = defaults

// cmocka fixtures: make the folder; close the data and remove the folder with its files.
int folder_make(void **state);
int folder_remove(void **state);

void write_file(const char *name, const void *bytes, size_t len);
void write_gzip(const char *name, const void *bytes, size_t len);
void cut_file(const char *name, size_t len); // to its first len bytes
size_t file_size(const char *name);
void remove_file(const char *name);

// Writes a spec in which '@' stands for the folder.
#define SPEC_SIZE ((size_t)TERN_DATA_SPEC_MAX * 2)
void name_spec(const char *spec, char text[SPEC_SIZE]);

// Opens a spec in which '@' stands for the folder.
enum tern_result open_spec(const char *spec);

// Opens a spec that must fail with `expected` and a sentence that holds `part`.
void expect_refused(const char *spec, enum tern_result expected, const char *part);

#endif
