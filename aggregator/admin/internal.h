// What the files of admin/ share. Not for anybody else.
#ifndef TERN_ADMIN_INTERNAL_H
#define TERN_ADMIN_INTERNAL_H

#include "admin/admin.h"
#include "admin/sessions.h"
#include "admin/tools.h"
#include "rounds/tags.h"
#include "views/view.h"
#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdbool.h>

#define TERN_ADMIN_BODY_MAX 4096

// --- The listener's state, which its one thread uses

#define TERN_ADMIN_COOKIE_NAME 24

struct tern_admin {
    struct tern_admin_config config;
    uint8_t token_sha256[TERN_SHA256_SIZE];
    char cookie_name[TERN_ADMIN_COOKIE_NAME]; // of this start
    struct tern_sessions sessions;
    struct tern_tools tools;
    pthread_mutex_t settings_lock;
    cJSON *settings; // in force; NULL = unknown
    struct tern_http_server *server;
};

// --- Who asks (login.c)

// By the token, or by a session; 0, or the status that refuses. changes: what is asked for changes
// something, so that a page of another origin must not have asked.
int tern_admin_admit(struct tern_admin *admin, const struct tern_http_request *request,
                     bool changes);
TERN_MUST_USE enum tern_result tern_admin_name_cookie(struct tern_admin *admin);
void tern_admin_login(struct tern_admin *admin, const struct tern_http_request *request,
                      struct tern_http_reply *reply);
void tern_admin_logout(struct tern_admin *admin, const struct tern_http_request *request,
                       struct tern_http_reply *reply);

// --- The dashboard's files (page.c). False: there is none of that path

bool tern_admin_has_page(const char *path);
void tern_admin_page(struct tern_admin *admin, const struct tern_http_request *request,
                     struct tern_http_reply *reply);

// --- Jobs: see tern_service_job

// What one is told; malloc'ed, freed by the service.
struct admin_job {
    uint64_t number;              // in the path: of a client, of a round
    const struct tern_view *view; // of lists
    bool arrays;                  // one for each column, not an object for each row
    struct tern_view_query query; // its texts are these:
    char columns[1024];
    char where[512];
    char sort[64];
    uint32_t uses;       // of /enroll-codes
    uint64_t expires_ms; // from now
    char label[TERN_DB_NAME_MAX];
    char tags[TERN_TAGS_MAX];     // likewise
    bool evaluator;               // with has_ as above
    char code[TERN_JOIN_CODE_ID]; // in the path
};

// --- Bodies of requests (bodies.c)

#define TERN_ADMIN_WHY_MAX 320

// The JSON object that a body is, and nothing else; NULL where it is none, or has a text with U+0000. The caller's to delete.
cJSON *tern_admin_read_object(const struct tern_http_request *request);
// Of POST /enroll-codes; an empty body, as an absent key, takes the defaults. False: `why` says what is wrong.
bool tern_admin_read_code(const struct tern_http_request *request, struct admin_job *job,
                          char why[TERN_ADMIN_WHY_MAX]);

// --- What jobs do

#define TERN_ADMIN_JOB(name)                                                                       \
    enum tern_result name(struct tern_service *service, struct tern_db *db, uint64_t now_ms,       \
                          void *ctx, struct tern_http_reply *reply)

TERN_ADMIN_JOB(tern_admin_status);
TERN_ADMIN_JOB(tern_admin_waiting);
TERN_ADMIN_JOB(tern_admin_list);
TERN_ADMIN_JOB(tern_admin_client);
TERN_ADMIN_JOB(tern_admin_client_rounds);
TERN_ADMIN_JOB(tern_admin_enroll_code); // actions.c
TERN_ADMIN_JOB(tern_admin_cancel_code);
TERN_ADMIN_JOB(tern_admin_revoke);
TERN_ADMIN_JOB(tern_admin_close_round);

// --- Replies (api.c)

// Takes the JSON over. Without memory the reply is 503: clients' updates wait in the same transaction,
// and must not fail because of a look at it. TERN_OK
enum tern_result tern_admin_reply_json(struct tern_http_reply *reply, int status, cJSON *json);
// Likewise after a reading that may have failed, which leaves the transaction as it is.
enum tern_result tern_admin_reply_read(struct tern_http_reply *reply, cJSON *json,
                                       enum tern_result result);
// {"error": name, "message": a sentence}; for replies without a job too: a tern_service_refuse.
void tern_admin_reply_error(struct tern_http_reply *reply, int status, enum tern_result result,
                            const char *message);

// Prometheus text. NULL: there was no memory for it.
struct tern_blob *tern_admin_metrics(const struct tern_service_facts *facts,
                                     const struct tern_http_counters *counters);

#endif
