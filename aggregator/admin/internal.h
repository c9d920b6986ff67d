// The state and functions that the files of admin/ share.
#ifndef TERN_ADMIN_INTERNAL_H
#define TERN_ADMIN_INTERNAL_H

#include "admin/admin.h"
#include "admin/sessions.h"
#include "admin/sso.h"
#include "rounds/tags.h"
#include "views/view.h"
#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdbool.h>

#define TERN_ADMIN_BODY_MAX 4096

// --- Child processes (admin.c)

// A request can run a verb of this program as a child process: `doctor`, or `export` of the newest model. The child opens the
// database itself and takes no time of the service. One child runs at a time, for at most a minute; its output is held in
// memory until it is sent.
enum tern_tool {
    TERN_TOOL_DOCTOR, // its reply is a JSON array of findings
    TERN_TOOL_EXPORT, // its reply is a .safetensors file
};

struct tern_tools {
    const char *const
        *options; // options for every verb, NULL-terminated, borrowed; NULL: no tool can run
    struct tern_tools_state *state;
};

// --- The listener's state, which its one thread uses

#define TERN_ADMIN_COOKIE_NAME 24

struct tern_admin {
    struct tern_admin_config config;
    uint8_t token_sha256[TERN_SHA256_SIZE];
    char cookie_name[TERN_ADMIN_COOKIE_NAME]; // random for each start
    struct tern_sessions sessions;
    struct tern_sso sso;
    struct tern_tools tools;
    // Rows of the audit log for requests refused by role, in the minute that began at refusals_ms.
    uint32_t refusals;
    uint64_t refusals_ms;
    pthread_mutex_t settings_lock;
    cJSON *settings; // settings in force; NULL = unknown
    struct tern_http_server *server;
};

// --- Authentication (login.c)

// Authenticates a request by token, session or single sign-on. Returns 0 or the status of a refusal. changes: the request changes
// something, so that it must come from the page's own origin. caller: gets the name and the role of the token. why: gets the sentence
// of a refusal, which lives as long as the listener; NULL = follows from the status.
int tern_admin_admit(struct tern_admin *admin, const struct tern_http_request *request,
                     bool changes, struct tern_db_actor *caller, const char **why);
void tern_admin_login(struct tern_admin *admin, const struct tern_http_request *request,
                      struct tern_http_reply *reply);
void tern_admin_logout(struct tern_admin *admin, const struct tern_http_request *request,
                       struct tern_http_reply *reply);

// --- Jobs: see tern_service_job

#define TERN_ADMIN_ARGUMENT_MAX 16 // longest argument of a path, with its end

// The arguments of a job; malloc'ed, freed by the service.
struct admin_job {
    tern_service_job run;
    struct tern_db_actor actor;      // who sent the request
    char action[TERN_DB_ACTION_MAX]; // method and path of the route, for the audit log
    uint64_t number;                 // client or round in the path
    char code[TERN_JOIN_CODE_ID];    // id of the join code in the path
    const struct tern_view *view;    // view of a list; NULL = the job is no list
    bool arrays; // the reply has an array for each column, not an object for each row
    struct tern_view_query query; // its texts point to the following members
    char columns[1024];
    char where[512];
    char sort[64];
    // The values in the body of POST /enroll-codes.
    uint32_t uses;
    uint64_t expires_ms; // time until the code expires
    char label[TERN_DB_NAME_MAX];
    char tags[TERN_TAGS_MAX];
    bool evaluator;
    char subject[TERN_ADMIN_ARGUMENT_MAX]; // argument of the path of a request that was refused
    enum tern_role needed; // of a request that was refused: the role that the route needs
};

#define TERN_ADMIN_WHY_MAX 320

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

// --- Requests and replies (api.c)

// Parses a body that is one JSON object, which the caller deletes. NULL: the body is no JSON object, or has a text with
// U+0000.
cJSON *tern_admin_read_object(const struct tern_http_request *request);

// Replies with the JSON and deletes it; replies with 503 if memory is short. Always returns TERN_OK, since a failed
// read must not fail the transaction, which also has clients' updates.
enum tern_result tern_admin_reply_json(struct tern_http_reply *reply, int status, cJSON *json);
// Replies with the JSON, or with 503 if `result` is an error of the store. Always returns TERN_OK.
enum tern_result tern_admin_reply_read(struct tern_http_reply *reply, cJSON *json,
                                       enum tern_result result);
// Replies with {"error": name, "message": sentence}. A tern_service_refuse.
void tern_admin_reply_error(struct tern_http_reply *reply, int status, enum tern_result result,
                            const char *message);

// --- Metrics (metrics.c)

// Returns the metrics as Prometheus text. NULL: memory is short.
struct tern_blob *tern_admin_metrics(const struct tern_service_facts *facts,
                                     const struct tern_http_counters *counters);

#endif
