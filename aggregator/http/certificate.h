// PEM files, and when the certificates in them begin and end: so that an operator is told before
// clients are turned away. Any thread.
#ifndef TERN_HTTP_CERTIFICATE_H
#define TERN_HTTP_CERTIFICATE_H

#include "result.h"
#include <stddef.h>
#include <stdint.h>

// A PEM file as it was at one moment, for all who parse it.
struct tern_pem {
    const char *path; // borrowed, for messages
    uint8_t *bytes;   // with a NUL behind them; NULL = not read
    size_t size;      // with that
};

// what: the file's name in sentences. TERN_ERR_CONFIG: it cannot be read; why says so.
TERN_MUST_USE enum tern_result tern_pem_read(const char *path, const char *what,
                                             struct tern_pem *pem, char why[256]);
// Wipes it: it may be a private key. One that was not read is nothing.
void tern_pem_free(struct tern_pem *pem);

struct tern_certificate_times {
    uint64_t begins_s; // Unix seconds
    uint64_t ends_s;
};

// The time in which every certificate of the file is valid: a chain ends with the first of them.
// TERN_ERR_CONFIG  it is no PEM file of certificates; why says so
TERN_MUST_USE enum tern_result tern_pem_times(const struct tern_pem *pem,
                                              struct tern_certificate_times *times, char why[256]);
// The same of a file that is read for it.
// TERN_ERR_CONFIG  likewise, or it cannot be read
TERN_MUST_USE enum tern_result
tern_certificate_times(const char *path, struct tern_certificate_times *times, char why[256]);

#define TERN_CERTIFICATE_NAMES 512

// The names and addresses that the first certificate of the file is for, with ", " between; as many as
// fit. "": it has none, and clients refuse it.
// TERN_ERR_CONFIG  as above
TERN_MUST_USE enum tern_result
tern_certificate_names(const char *path, char names[TERN_CERTIFICATE_NAMES], char why[256]);

#endif
