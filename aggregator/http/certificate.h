// X.509 certificates and the PEM files that hold them: reads the server's files, reports until when their certificates
// are valid and which names they have, and checks the certificates that clients show. The listener and the command
// line (status, doctor) call it. Any thread.
#ifndef TERN_HTTP_CERTIFICATE_H
#define TERN_HTTP_CERTIFICATE_H

#include "http/http.h"
#include "result.h"
#include <stddef.h>
#include <stdint.h>

struct mbedtls_x509_crt;

// --- PEM files

// The content of a PEM file at one moment, so that all who parse it see the same bytes.
struct tern_pem {
    const char *path; // borrowed, for messages
    uint8_t *bytes;   // with a NUL behind them; NULL = not read
    size_t size;      // with the NUL
};

// what: the file's name in sentences. TERN_ERR_CONFIG: the file cannot be read; `why` tells the reason.
TERN_MUST_USE enum tern_result tern_pem_read(const char *path, const char *what,
                                             struct tern_pem *pem, char why[256]);
// Wipes the bytes, which may be a private key, and frees them. Does nothing for a file that was not read.
void tern_pem_free(struct tern_pem *pem);

struct tern_certificate_times {
    uint64_t begins_s; // Unix seconds
    uint64_t ends_s;
};

// Returns the time in which every certificate of the file is valid: a chain ends with the first of them.
// TERN_ERR_CONFIG  the file holds no certificates in PEM; `why` tells the reason
TERN_MUST_USE enum tern_result tern_pem_times(const struct tern_pem *pem,
                                              struct tern_certificate_times *times, char why[256]);
// Reads the file and returns its tern_pem_times().
// TERN_ERR_CONFIG  like tern_pem_read() and tern_pem_times()
TERN_MUST_USE enum tern_result
tern_certificate_times(const char *path, struct tern_certificate_times *times, char why[256]);

#define TERN_CERTIFICATE_NAMES 512

// Lists the host names and addresses of the file's first certificate, with ", " between, as many as fit. "": the
// certificate has none, and clients refuse it.
// TERN_ERR_CONFIG  like tern_certificate_times()
TERN_MUST_USE enum tern_result
tern_certificate_names(const char *path, char names[TERN_CERTIFICATE_NAMES], char why[256]);

// --- Certificates of clients

struct tern_client_certificate {
    char name[TERN_HTTP_NAME_SIZE]; // its common name; "" = the client has shown no certificate
    uint64_t ends_s;                // Unix seconds
};

// Reads name and end. False: the certificate has no common name, several, or one that no client can have (empty, more
// than 63 bytes, not UTF-8).
bool tern_client_certificate_read(const struct mbedtls_x509_crt *certificate,
                                  struct tern_client_certificate *out);

// Describes what is wrong with a client's certificate. flags: mbedTLS's MBEDTLS_X509_BADCERT_*.
const char *tern_client_certificate_why(uint32_t flags);

#endif
