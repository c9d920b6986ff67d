// What counts of a certificate that mbedTLS has read: when it ends, and of a client's whose it is. Any thread.
#ifndef TERN_HTTP_X509_H
#define TERN_HTTP_X509_H

#include "http/http.h"
#include <mbedtls/x509_crt.h>

// Unix seconds; 0 for times before 1970.
uint64_t tern_x509_seconds(const mbedtls_x509_time *time);

// What counts of the certificate that a client shows.
struct tern_client_certificate {
    char name[TERN_HTTP_NAME_SIZE]; // its common name; "" = there is no certificate
    uint64_t ends_s;                // Unix seconds
};

// False: it has no common name, several, or one that a client cannot have (empty, above 63 bytes, no
// UTF-8).
bool tern_client_certificate_read(const mbedtls_x509_crt *certificate,
                                  struct tern_client_certificate *out);

// What is wrong with a client's certificate, by mbedTLS's flags.
const char *tern_client_certificate_why(uint32_t flags);

#endif
