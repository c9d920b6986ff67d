// When certificates begin and end, read from their PEM file: so that an operator is told before
// clients are turned away. Any thread.
#ifndef TERN_HTTP_CERTIFICATE_H
#define TERN_HTTP_CERTIFICATE_H

#include "result.h"
#include <stdint.h>

struct tern_certificate_times {
    uint64_t begins_s; // Unix seconds
    uint64_t ends_s;
};

// The time in which every certificate of the file is valid: a chain ends with the first of them.
// TERN_ERR_CONFIG  the file cannot be read, or is no PEM file of certificates; why says which
TERN_MUST_USE enum tern_result
tern_certificate_times(const char *path, struct tern_certificate_times *times, char why[256]);

#endif
