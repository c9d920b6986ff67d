// What the files of admin/ share. Not for anybody else.
#ifndef TERN_ADMIN_INTERNAL_H
#define TERN_ADMIN_INTERNAL_H

#include "admin/admin.h"
#include "rounds/tags.h"
#include <stdbool.h>

// What a job is told; malloc'ed, freed by the service.
struct admin_job {
    uint64_t client;     // of /clients/{id}/revoke
    uint32_t after;      // of lists: the id or round before the first
    uint32_t limit;      // of lists: most entries
    uint32_t uses;       // of /enroll-codes
    uint64_t expires_ms; // from now
    char label[TERN_DB_NAME_MAX];
    char tags[TERN_TAGS_MAX]; // likewise
};

// Prometheus text. NULL: there was no memory for it.
struct tern_blob *tern_admin_metrics(const struct tern_service_facts *facts,
                                     const struct tern_http_counters *counters);

// Jobs: see tern_service_job.
enum tern_result tern_admin_status(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply);
enum tern_result tern_admin_clients(struct tern_service *service, struct tern_db *db,
                                    uint64_t now_ms, void *ctx, struct tern_http_reply *reply);
enum tern_result tern_admin_rounds(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply);
enum tern_result tern_admin_enroll_code(struct tern_service *service, struct tern_db *db,
                                        uint64_t now_ms, void *ctx, struct tern_http_reply *reply);
enum tern_result tern_admin_revoke(struct tern_service *service, struct tern_db *db,
                                   uint64_t now_ms, void *ctx, struct tern_http_reply *reply);

// {"error": name, "sentence": ...}; for replies without a job too.
void tern_admin_reply_error(struct tern_http_reply *reply, int status, enum tern_result result,
                            const char *sentence);

// The page at "/".
extern const char tern_admin_page[];

#endif
