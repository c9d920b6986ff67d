// The dashboard's files, of admin/page/, which cmake/embed_page.py puts into the program: there are none
// at run time. Constant.
#ifndef TERN_ADMIN_PAGE_H
#define TERN_ADMIN_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct tern_page_file {
    const char *path; // of the URL: "/" alone, or "/page/HASH/NAME", whose hash is of all files
    const char *type; // of its content
    const uint8_t *data;
    size_t len;
};

extern const struct tern_page_file tern_page_files[];
extern const size_t tern_page_file_count;

#endif
