// The dashboard's files of admin/page/, which cmake/embed_page.py compiles into the program. Constant.
#ifndef TERN_ADMIN_PAGE_H
#define TERN_ADMIN_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct tern_page_file {
    const char *path; // in URLs: "/", or "/page/HASH/NAME" with a hash over all files
    const char *type; // Content-Type
    const uint8_t *data;
    size_t len;
};

extern const struct tern_page_file tern_page_files[];
extern const size_t tern_page_file_count;

#endif
