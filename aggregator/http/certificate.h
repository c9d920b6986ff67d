// Reads X.509 certificates and their PEM files: validity and names of the server's certificates, and the certificates that
// clients send. The listener and the command line (status, doctor) call it. Any thread.
#ifndef TERN_HTTP_CERTIFICATE_H
#define TERN_HTTP_CERTIFICATE_H

#include "http/http.h"
#include "result.h"
#include <stddef.h>
#include <stdint.h>

struct mbedtls_x509_crt;

// --- PEM files

// The content of a PEM file. The file is read once, so that every parser gets the same bytes.
struct tern_pem {
    const char *path; // borrowed, for messages
    uint8_t *bytes;   // followed by a NUL; NULL = not read
    size_t size;      // including the NUL
};

// what: names the file in `why`, such as "the certificate". TERN_ERR_CONFIG: the file cannot be read.
TERN_MUST_USE enum tern_result tern_pem_read(const char *path, const char *what,
                                             struct tern_pem *pem, char why[256]);
// Overwrites the bytes, which may be a private key, and frees them. Does nothing if the file was not read.
void tern_pem_free(struct tern_pem *pem);
// Writes to `why` that mbedTLS cannot parse the file. error: the error code of mbedTLS. Returns TERN_ERR_CONFIG.
TERN_MUST_USE enum tern_result tern_pem_refuse(const char *path, const char *what, int error,
                                               char why[256]);

struct tern_certificate {
    uint64_t begins_s; // Unix seconds; from this time on every certificate of the file is valid
    uint64_t ends_s;   // Unix seconds; the earliest expiry of a certificate of the file
    // Host names and addresses of the file's first certificate, separated by ", ", as many as fit. "": the certificate
    // has no names, so clients refuse a server with it.
    char names[512];
};

// TERN_ERR_CONFIG  the file has no certificates in PEM; `why` has the reason
TERN_MUST_USE enum tern_result tern_pem_certificate(const struct tern_pem *pem,
                                                    struct tern_certificate *certificate,
                                                    char why[256]);
// Reads the PEM file and its certificates.
// TERN_ERR_CONFIG  like tern_pem_read() and tern_pem_certificate()
TERN_MUST_USE enum tern_result
tern_certificate_read(const char *path, struct tern_certificate *certificate, char why[256]);

// --- Certificates of clients

struct tern_client_certificate {
    char name[TERN_HTTP_NAME_SIZE]; // common name; "" = the client sent no certificate
    uint64_t ends_s;                // Unix seconds
};

// Reads the client's name and the expiry. False: the certificate does not have exactly one common name of 1 to 63 bytes
// of UTF-8.
bool tern_client_certificate_read(const struct mbedtls_x509_crt *certificate,
                                  struct tern_client_certificate *out);

// Describes the fault of a client's certificate. flags: mbedTLS's MBEDTLS_X509_BADCERT_*.
const char *tern_client_certificate_why(uint32_t flags);

#endif
