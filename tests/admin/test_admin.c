// The admin listener over real sockets, beside a public listener in plain TCP.
#include "admin/admin.h"

#include "hosted/files.h"
#include "hosted/log.h"
#include "hosted/system.h"
#include "util/bytes.h"
#include "wire/wire.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"
#include <arpa/inet.h>
#include <cjson/cJSON.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define TOKEN "an-admin-token-of-some-length"

static char folder[128];
static struct tern_db *db;
static struct tern_service *service;
static struct tern_http_server *server;
static struct tern_admin *admin;
static struct tern_statistics_settings statistics; // wanted by few of these
static char reply[1 << 18];
static char why[256];

// Ahead of the system's clock, for tokens that expire.
static atomic_uint_least64_t ahead_ms;

static uint64_t clock_of_tests(void)
{
    return tern_unix_ms() + atomic_load(&ahead_ms);
}

static void path_of(const char *name, char path[192])
{
    snprintf(path, 192, "%s/%s", folder, name);
}

static void make_store(void)
{
    char path[192];
    struct tern_model model;
    struct tern_db_federation federation = {.model_spec = "softmax:64-10", .seed = 7};
    memset(&model, 0, sizeof model);
    assert_int_equal(tern_model_from_spec(&model, federation.model_spec), TERN_OK);
    memcpy(federation.model_hash, model.hash, TERN_SHA256_SIZE);
    path_of("tern.db", path);
    assert_int_equal(tern_db_create(path, &federation, NULL, 0, NULL, why), TERN_OK);
    assert_int_equal(tern_db_open(path, 0, &db, why), TERN_OK);
    path_of("admin.token", path);
    assert_int_equal(tern_file_write(path, TOKEN "\n", strlen(TOKEN) + 1, 0600), TERN_OK);
}

static void start_service(void)
{
    struct tern_codec codec = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
    struct tern_service_config config = {
        .federation =
            {
                .round = {.cohort = 2,
                          .deadline_ms = 60000,
                          .come_back_min_ms = 1000,
                          .come_back_max_ms = 3600000},
                .min_clients = 2,
                .train = {.batch_size = 8, .rate = {.first = 0.1F}},
                .steps = {.local_steps = 5},
                .codec_up = codec,
                .downloads = {.codec = codec, .keep_versions = 100},
                .strategy = &tern_strategy_fedavg,
                .server_learning_rate = 1.0F,
                .limits = {.clients = 100, .num_examples = 1000, .norm = 1e6},
                .statistics = statistics,
            },
        .limits = {.queue = 64},
        .now_ms = clock_of_tests,
    };
    assert_int_equal(tern_service_start(&config, db, &service, why), TERN_OK);
    struct tern_http_config http = {.address = "127.0.0.1", .threads = 1};
    struct tern_http_handler handler = tern_service_handler(service);
    assert_int_equal(tern_http_start(&http, &handler, &server, why), TERN_OK);
}

static const char *sso = ""; // the setting admin.sso

static enum tern_result start_admin(const char *address, struct tern_admin **out)
{
    char path[192];
    path_of("admin.token", path);
    struct tern_admin_config config = {
        .address = address, .sso = sso, .token_file = path, .service = service, .clients = server};
    return tern_admin_start(&config, out, why);
}

static int setup(void **state)
{
    (void)state;
    const char *temporary = getenv("TMPDIR");
    tern_log_set_level(TERN_LOG_ERROR);
    snprintf(folder, sizeof folder, "%s/tern-admin-XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(folder));
    make_store();
    start_service();
    assert_int_equal(start_admin("127.0.0.1", &admin), TERN_OK);
    return 0;
}

static int setup_with_statistics(void **state)
{
    statistics = (struct tern_statistics_settings){.enabled = true, .wait_ms = 3600000};
    return setup(state);
}

static int teardown(void **state)
{
    statistics.enabled = false;
    (void)state;
    char command[192];
    tern_service_quiesce(service);
    tern_admin_stop(admin, 1000);
    tern_http_stop(server, 1000);
    tern_service_stop(service);
    tern_db_close(db);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

// --- A client that fits on a screen

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un target = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof target.sun_path);
    memcpy(target.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&target, sizeof target), 0);
    return fd;
}

static const char *scheme = "Authorization: Bearer ";

// Sends a request on fd, reads the reply into `reply` and returns its status.
static int exchange(int fd, const char *method, const char *path, const char *token,
                    const void *body, size_t len)
{
    char head[512];
    int head_len = snprintf(head, sizeof head,
                            "%s %s HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n"
                            "Content-Length: %zu\r\n%s%s%s\r\n",
                            method, path, len, token != NULL ? scheme : "",
                            token != NULL ? token : "", token != NULL ? "\r\n" : "");
    assert_int_equal(write(fd, head, (size_t)head_len), head_len);
    if (len > 0) {
        assert_int_equal(write(fd, body, len), len);
    }
    size_t got = 0;
    ssize_t more;
    while ((more = read(fd, reply + got, sizeof reply - 1 - got)) > 0) {
        got += (size_t)more;
    }
    reply[got] = '\0';
    close(fd);
    int status = 0;
    assert_int_equal(sscanf(reply, "HTTP/1.1 %d", &status), 1);
    return status;
}

static int ask(const char *method, const char *path, const char *token, const char *body)
{
    return exchange(connect_to(tern_admin_port(admin)), method, path, token, body, strlen(body));
}

static const char *body_of_reply(void)
{
    const char *body = strstr(reply, "\r\n\r\n");
    assert_non_null(body);
    return body + 4;
}

static cJSON *json_of_reply(void)
{
    cJSON *json = cJSON_Parse(body_of_reply());
    assert_non_null(json);
    return json;
}

static double number(const cJSON *json, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(json, name);
    assert_non_null(item);
    return cJSON_GetNumberValue(item);
}

// --- Tests

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_everything_asks_for_the_token)
{
    static const char *const gets[] = {"/metrics",
                                       "/api/v1/status",
                                       "/api/v1/clients",
                                       "/api/v1/rounds",
                                       "/api/v1/waiting",
                                       "/api/v1/clients/columns",
                                       "/api/v1/rounds/columns",
                                       "/api/v1/enroll-codes"};
    static const char *const posts[] = {"/api/v1/enroll-codes", "/api/v1/clients/1/revoke",
                                        "/api/v1/rounds/1/close", "/api/v1/enroll-codes/0/cancel"};
    static const char *const bad[] = {NULL, "", "wrong", TOKEN "x", "an-admin-token"};
    for (size_t t = 0; t < sizeof bad / sizeof bad[0]; t++) {
        for (size_t i = 0; i < sizeof gets / sizeof gets[0]; i++) {
            assert_int_equal(ask("GET", gets[i], bad[t], ""), 401);
        }
        for (size_t i = 0; i < sizeof posts / sizeof posts[0]; i++) {
            assert_int_equal(ask("POST", posts[i], bad[t], ""), 401);
        }
    }
    assert_int_equal(ask("GET", "/healthz", NULL, ""), 200);
    assert_int_equal(ask("GET", "/readyz", NULL, ""), 200);
    assert_int_equal(ask("GET", "/", NULL, ""), 200);
    for (size_t i = 0; i < sizeof gets / sizeof gets[0]; i++) {
        assert_int_equal(ask("GET", gets[i], TOKEN, ""), 200);
    }
    scheme = "Authorization: bearer ";
    assert_int_equal(ask("GET", gets[0], TOKEN, ""), 200);
    scheme = "Authorization: Basic ";
    assert_int_equal(ask("GET", gets[0], TOKEN, ""), 401);
    scheme = "Authorization: Bearer ";
}

TEST(test_unknown_paths_and_methods)
{
    assert_int_equal(ask("GET", "/api/v1/nothing", TOKEN, ""), 404);
    assert_int_equal(ask("POST", "/api/v1/clients/x/revoke", TOKEN, ""), 404);
    assert_int_equal(ask("POST", "/api/v1/clients//revoke", TOKEN, ""), 404);
    assert_int_equal(ask("POST", "/api/v1/status", TOKEN, ""), 405);
    assert_int_equal(ask("GET", "/api/v1/clients/1/revoke", TOKEN, ""), 405);
    assert_int_equal(ask("POST", "/api/v1/clients/99/revoke", TOKEN, ""), 404);
    static const char *const no_rounds[] = {"x",  "0",   "-1",         "+1", "01",
                                            "1x", "0x1", "4294967297", "999"};
    for (size_t i = 0; i < sizeof no_rounds / sizeof no_rounds[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "/api/v1/rounds/%s/close", no_rounds[i]);
        assert_int_equal(ask("POST", path, TOKEN, ""), 404);
    }
    // The public side has no admin, and the admin side no clients.
    int fd = connect_to(tern_http_port(server));
    assert_int_equal(exchange(fd, "GET", "/metrics", TOKEN, NULL, 0), 404);
    assert_int_equal(ask("POST", TERN_PATH_CHECKIN, TOKEN, ""), 404);
}

static int public_post(const char *path, const char *token, const uint8_t *body, size_t len)
{
    return exchange(connect_to(tern_http_port(server)), "POST", path, token, body, len);
}

// Enrols with a code over the public listener; the token is left in `token`.
static int enroll_with(const char *code, char token[24])
{
    tern_EnrollRequest request = tern_EnrollRequest_init_zero;
    tern_EnrollReply enrolled;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    snprintf(request.join_code, sizeof request.join_code, "%s", code);
    snprintf(request.name, sizeof request.name, "gateway \"7\"");
    assert_int_equal(tern_wire_encode_enroll_request(&request, body, sizeof body, &len), TERN_OK);
    int status = public_post(TERN_PATH_ENROLL, NULL, body, len);
    if (status == 200) {
        size_t head = (size_t)(body_of_reply() - reply);
        const char *field = strstr(reply, "Content-Length: ");
        assert_non_null(field);
        size_t body_len = strtoul(field + 16, NULL, 10);
        assert_int_equal(
            tern_wire_decode_enroll_reply((uint8_t *)reply + head, body_len, &enrolled), TERN_OK);
        memcpy(token, enrolled.token, 24);
    }
    return status;
}

TEST(test_code_enrols_and_revoke_shuts_out)
{
    char code[64];
    char token[24];
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    assert_int_equal(
        ask("POST", "/api/v1/enroll-codes", TOKEN,
            "{\"uses\":1,\"label\":\"lab\",\"tags\":\"site=b, line=1\",\"evaluator\":true}"),
        201);
    cJSON *json = json_of_reply();
    snprintf(code, sizeof code, "%s", cJSON_GetStringValue(cJSON_GetObjectItem(json, "code")));
    assert_int_equal(number(json, "uses"), 1);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(json, "tags")), "line=1,site=b");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(json, "evaluator")));
    cJSON_Delete(json);
    assert_int_equal(enroll_with(code, token), 200);
    char other[24];
    assert_int_equal(enroll_with(code, other), 401); // it had one use

    assert_int_equal(tern_wire_encode_checkin_request(&request, body, sizeof body, &len), TERN_OK);
    assert_int_equal(public_post(TERN_PATH_CHECKIN, token, body, len), 200);
    assert_int_equal(ask("POST", "/api/v1/clients/1/revoke", TOKEN, ""), 200);
    assert_int_equal(public_post(TERN_PATH_CHECKIN, token, body, len), 401);

    assert_int_equal(ask("GET", "/api/v1/clients", TOKEN, ""), 200);
    json = json_of_reply();
    assert_int_equal(cJSON_GetArraySize(json), 1);
    const cJSON *client = cJSON_GetArrayItem(json, 0);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(client, "revoked")));
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(client, "name")), "gateway \"7\"");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(client, "tags")), "line=1,site=b");
    cJSON_Delete(json);
}

// --- Roles

#define DAY_MS UINT64_C(86400000)

// Makes a token whose text is `name` and some more, as a verb of the command line does beside the service. Returns the text.
static const char *make_token(const char *name, enum tern_role role, uint64_t expires_ms)
{
    static char text[80];
    char path[192];
    struct tern_db *other;
    struct tern_db_token token = {.role = (uint32_t)role, .expires_ms = expires_ms};
    snprintf(token.name, sizeof token.name, "%s", name);
    snprintf(text, sizeof text, "%s-has-a-token-of-its-own", name);
    tern_sha256(text, strlen(text), token.sha256);
    path_of("tern.db", path);
    assert_int_equal(tern_db_open(path, TERN_DB_SECOND, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_token_add(other, &token), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
    return text;
}

static void revoke_token(const char *name)
{
    char path[192];
    struct tern_db *other;
    path_of("tern.db", path);
    assert_int_equal(tern_db_open(path, TERN_DB_SECOND, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(tern_db_token_revoke(other, name), TERN_OK);
    assert_int_equal(tern_db_commit(other), TERN_OK);
    tern_db_close(other);
}

// A job makes the service read what the command line has changed.
static void let_service_read(void)
{
    assert_int_equal(ask("GET", "/api/v1/status", TOKEN, ""), 200);
}

static bool says(const char *text)
{
    return strstr(body_of_reply(), text) != NULL;
}

static int rows_of_audit(void)
{
    assert_int_equal(ask("GET", "/api/v1/audit", TOKEN, ""), 200);
    cJSON *json = json_of_reply();
    const int rows = cJSON_GetArraySize(json);
    cJSON_Delete(json);
    return rows;
}

struct walked_route {
    const char *method;
    const char *path;
    enum tern_role role;
};

static const struct walked_route walked_routes[] = {
#define ROUTE(method, path, role, ...) {method, path, TERN_ROLE_##role},
#include "admin/routes.def"
};
#define ROUTES (sizeof walked_routes / sizeof walked_routes[0])

// Sends the request of a route, with 1 for its argument.
static int ask_route(const struct walked_route *route, const char *token)
{
    char path[80];
    const char *gap = strstr(route->path, "{}");
    snprintf(path, sizeof path, "%.*s%s%s",
             (int)(gap != NULL ? gap - route->path : (long)strlen(route->path)), route->path,
             gap != NULL ? "1" : "", gap != NULL ? gap + 2 : "");
    return ask(route->method, path, token, "");
}

static void expect_role(const struct walked_route *route, enum tern_role role, const char *token)
{
    char needed[80];
    const int status = ask_route(route, token);
    snprintf(needed, sizeof needed, "This needs the role %s, and %s has the role %s.",
             tern_role_name((uint32_t)route->role), tern_role_name((uint32_t)role),
             tern_role_name((uint32_t)role));
    const bool is_refused = status == 403 && says(needed) && says("\"error\":\"forbidden\"");
    const bool may = role >= route->role;
    if (may ? is_refused || status == 401 : !is_refused) {
        fail_msg("%s %s as %s: %d %s", route->method, route->path, tern_role_name((uint32_t)role),
                 status, body_of_reply());
    }
}

// Expects 401 with the sentence, by the same name for all reasons.
static void expect_stranger(const struct walked_route *route, const char *token,
                            const char *sentence)
{
    assert_int_equal(ask_route(route, token), 401);
    assert_true(says(sentence));
    assert_true(strncmp(route->path, "/api/", 5) != 0 || says("\"error\":\"unauthorized\""));
}

TEST(test_every_route_with_every_role)
{
    const uint64_t later_ms = clock_of_tests() + DAY_MS;
    char token[TERN_ROLES][80];
    for (enum tern_role role = TERN_ROLE_VIEWER; role < TERN_ROLES; role++) {
        snprintf(token[role], sizeof token[role], "%s",
                 make_token(tern_role_name((uint32_t)role), role, later_ms));
    }
    char revoked[80];
    snprintf(revoked, sizeof revoked, "%s", make_token("gone", TERN_ROLE_ADMIN, later_ms));
    revoke_token("gone");
    const char *expired = make_token("late", TERN_ROLE_ADMIN, clock_of_tests());
    let_service_read();
    assert_true(ROUTES > 20);
    for (size_t i = 0; i < ROUTES; i++) {
        const struct walked_route *route = &walked_routes[i];
        for (enum tern_role role = TERN_ROLE_VIEWER; role < TERN_ROLES; role++) {
            expect_role(route, role, token[role]);
        }
        if (route->role == TERN_ROLE_NONE) {
            assert_int_not_equal(ask_route(route, NULL), 401);
            continue;
        }
        static const char unknown[] = "The credentials are missing, wrong or revoked.";
        expect_stranger(route, NULL, unknown);
        expect_stranger(route, "a-token-that-nobody-has-made", unknown);
        expect_stranger(route, revoked, "This token was revoked.");
        expect_stranger(route, expired, "This token has expired.");
    }
}

// The least role is part of what a release promises: a change of the table changes this list, too.
TEST(test_least_roles)
{
    size_t count[TERN_ROLES] = {0};
    for (size_t i = 0; i < ROUTES; i++) {
        const struct walked_route *route = &walked_routes[i];
        count[route->role]++;
        if (strcmp(route->method, "POST") == 0 && strcmp(route->path, "/api/v1/session") != 0) {
            assert_int_equal(route->role, TERN_ROLE_OPERATOR);
        }
    }
    assert_int_equal(count[TERN_ROLE_NONE], 4); // /healthz, /readyz, session, login
    assert_int_equal(count[TERN_ROLE_ADMIN], 2);
}

TEST(test_token_expires_while_the_service_runs)
{
    const char *token = make_token("ann", TERN_ROLE_VIEWER, clock_of_tests() + DAY_MS);
    let_service_read();
    assert_int_equal(ask("GET", "/metrics", token, ""), 200);
    atomic_store(&ahead_ms, DAY_MS + 1);
    assert_int_equal(ask("GET", "/metrics", token, ""), 401);
    assert_int_equal(ask("GET", "/api/v1/status", token, ""), 401);
    assert_true(says("This token has expired."));
    atomic_store(&ahead_ms, 0);
}

TEST(test_changes_are_in_the_audit_log)
{
    const char *token = make_token("ann", TERN_ROLE_OPERATOR, clock_of_tests() + DAY_MS);
    char code[64];
    char client[24];
    char id[16];
    char path[64];
    let_service_read();
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", token, "{\"uses\":1,\"label\":\"lab\"}"),
                     201);
    cJSON *json = json_of_reply();
    snprintf(code, sizeof code, "%s", cJSON_GetStringValue(cJSON_GetObjectItem(json, "code")));
    snprintf(id, sizeof id, "%s", cJSON_GetStringValue(cJSON_GetObjectItem(json, "id")));
    cJSON_Delete(json);
    assert_int_equal(enroll_with(code, client), 200);
    snprintf(path, sizeof path, "/api/v1/enroll-codes/%s/cancel", id);
    assert_int_equal(ask("POST", path, token, ""), 200);
    assert_int_equal(ask("POST", "/api/v1/clients/99/revoke", token, ""), 404); // changes nothing
    assert_int_equal(ask("POST", "/api/v1/clients/1/revoke", token, ""), 200);
    assert_int_equal(ask("POST", "/api/v1/clients/1/revoke", token, ""), 200); // as before
    assert_int_equal(ask("GET", "/api/v1/audit", TOKEN, ""), 200);
    json = json_of_reply();
    static const char *const actions[] = {"POST /api/v1/enroll-codes",
                                          "POST /api/v1/enroll-codes/{}/cancel",
                                          "POST /api/v1/clients/{}/revoke"};
    assert_int_equal(cJSON_GetArraySize(json), 3);
    for (int i = 0; i < 3; i++) {
        const cJSON *row = cJSON_GetArrayItem(json, i);
        assert_int_equal(number(row, "number"), i + 1);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "who")), "ann");
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "role")), "operator");
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "address")), "127.0.0.1");
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "action")), actions[i]);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "result")), "done");
    }
    const cJSON *row = cJSON_GetArrayItem(json, 2);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "subject")), "client 1");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "before")), "admitted");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "after")), "revoked");
    cJSON_Delete(json);
}

// A small role, or a stranger, must not fill the disk.
TEST(test_refusals_are_recorded_within_a_limit)
{
    const char *token = make_token("eve", TERN_ROLE_VIEWER, clock_of_tests() + DAY_MS);
    let_service_read();
    for (int i = 0; i < 12; i++) {
        assert_int_equal(ask("POST", "/api/v1/clients/7/revoke", "nobody's", ""), 401);
    }
    assert_int_equal(rows_of_audit(), 0);
    for (int i = 0; i < 15; i++) {
        assert_int_equal(ask("POST", "/api/v1/clients/4294967295/revoke", token, ""), 403);
        assert_true(says("This needs the role operator, and eve has the role viewer."));
    }
    assert_int_equal(rows_of_audit(), 10);
    cJSON *json = json_of_reply();
    const cJSON *row = cJSON_GetArrayItem(json, 9);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "who")), "eve");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "subject")), "4294967295");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "result")),
                        "refused: needs the role operator");
    cJSON_Delete(json);
}

TEST(test_bad_code_requests)
{
    static const char *const bad[] = {
        "{\"uses\":0}",      "{\"uses\":-1}", "{\"uses\":1e9}", "{\"uses\":\"many\"}", "[]",  "{",
        "{\"expires_s\":0}", "{\"label\":7}", "{\"tags\":7}",   "{\"tags\":\"site\"}", "null"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, bad[i]), 422);
    }
    static const struct {
        const char *body;
        const char *says; // of the sentence
    } named[] = {
        {"{\"uses\":1.5}", "\"uses\" must be a whole number, 1..1000000."},
        {"{\"uses\":null}", "\"uses\" must be a whole number"},
        {"{\"uses\":1e400}", "\"uses\" must be a whole number"},
        {"{\"expires_s\":0.5}", "\"expires_s\" must be a whole number, 1..31536000."},
        {"{\"use\":1}",
         "The key \"use\" is unknown. Use uses, expires_s, label, tags or evaluator."},
        {"{\"evaluator\":1}", "\"evaluator\" must be true or false."},
        {"{\"Uses\":1}", "The key \"Uses\" is unknown."},
        {"{\"uses\":1,\"uses\":9}", "The key \"uses\" is given twice."},
        {"{\"uses\":1}{", "a JSON object"},
        {"{\"uses\":1},", "a JSON object"},
        {"{\"label\":\"a\\u0000b\"}", "a JSON object"},
        {"{\"uses\\u0000\":3}", "a JSON object"},
        {"{\"label\":\"\\u001b[2J\"}", "\"label\" must be a text"},
        {"{\"label\":\"\xff\"}", "\"label\" must be a text"},
        {"{\"tags\":\"site\"}", "\"tags\": \"site\" has no value"},
    };
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
        assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, named[i].body), 422);
        cJSON *json = json_of_reply();
        const char *sentence = cJSON_GetStringValue(cJSON_GetObjectItem(json, "message"));
        assert_non_null(strstr(sentence, named[i].says));
        cJSON_Delete(json);
    }
    assert_int_equal(ask("GET", "/api/v1/enroll-codes", TOKEN, ""), 200);
    cJSON *codes = json_of_reply();
    assert_int_equal(cJSON_GetArraySize(codes), 0);
    cJSON_Delete(codes);
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, " {\"uses\":2e1}\r\n"), 201);
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, "{\"label\":\"\\\\u0000\"}"), 201);
    char nested[4001];
    memset(nested, '[', sizeof nested - 1);
    nested[sizeof nested - 1] = '\0';
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, nested), 422);
    char large[5000];
    memset(large, ' ', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, large), 413);
}

TEST(test_status_and_rounds)
{
    char code[64];
    char token[24];
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, "{\"uses\":2}"), 201);
    cJSON *json = json_of_reply();
    snprintf(code, sizeof code, "%s", cJSON_GetStringValue(cJSON_GetObjectItem(json, "code")));
    cJSON_Delete(json);
    assert_int_equal(enroll_with(code, token), 200);
    assert_int_equal(enroll_with(code, token), 200);

    assert_int_equal(ask("GET", "/api/v1/status", TOKEN, ""), 200);
    json = json_of_reply();
    assert_int_equal(number(json, "clients"), 2);
    assert_int_equal(number(json, "clients_revoked"), 0);
    assert_int_equal(number(json, "version"), 0);
    assert_int_equal(number(json, "rounds_committed"), 0);
    assert_int_equal(number(json, "members"), 2);
    const cJSON *open = cJSON_GetObjectItem(json, "open_round");
    assert_int_equal(number(open, "round"), 1);
    assert_int_equal(number(open, "target"), 2);
    assert_int_equal(number(open, "reported"), 0);
    assert_int_equal(number(json, "refused_cohorts"), 0);
    assert_null(cJSON_GetObjectItem(json, "advice"));
    cJSON_Delete(json);

    assert_int_equal(ask("GET", "/api/v1/rounds", TOKEN, ""), 200);
    json = json_of_reply();
    assert_int_equal(cJSON_GetArraySize(json), 1);
    const cJSON *round = cJSON_GetArrayItem(json, 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(round, "state")), "open");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(round, "strategy")), "fedavg");
    cJSON_Delete(json);

    assert_int_equal(ask("GET", "/api/v1/clients", TOKEN, ""), 200);
    json = json_of_reply();
    const cJSON *client = cJSON_GetArrayItem(json, 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(client, "error_norm"))); // has had no task
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(client, "local_steps")));
    cJSON_Delete(json);

    assert_int_equal(ask("GET", "/metrics", TOKEN, ""), 200);
    assert_non_null(
        strstr(body_of_reply(), "\ntern_error_anomalies_total{anomaly=\"restored\"} 0\n"));
    assert_non_null(
        strstr(body_of_reply(), "\ntern_error_directives_total{directive=\"step-ahead\"} 0\n"));
}

static uint64_t first_id(const cJSON *list)
{
    return (uint64_t)number(cJSON_GetArrayItem(list, 0), "id");
}

// A federation of any size is looked at a page at a time.
TEST(test_lists_come_in_pages)
{
    char code[64];
    char token[24];
    static const struct {
        const char *path;
        int count;
        uint64_t first;
    } pages[] = {{"/api/v1/clients", 3, 1},
                 {"/api/v1/clients?limit=2", 2, 1},
                 {"/api/v1/clients?limit=2&after=2", 1, 3},
                 {"/api/v1/clients?after=1", 2, 2},
                 {"/api/v1/clients?after=3", 0, 0},
                 {"/api/v1/clients?last=1", 1, 3},
                 {"/api/v1/clients?where=id%3D2", 1, 2},
                 {"/api/v1/clients?sort=-id&columns=name,id", 3, 3},
                 {"/api/v1/clients?columns=id&where=state=active,revoked=no&last=2", 2, 2},
                 {"/api/v1/rounds?after=1", 0, 0}};
    static const char *const bad[] = {"limit=0",      "limit=1001",   "limit=",
                                      "limit=2x",     "after=-1",     "after=99999999999999999999",
                                      "page=2",       "limit",        "last=0",
                                      "columns=nope", "where=nope=1", "where=id",
                                      "where=id=x",   "sort=nope",    "where=%4",
                                      "where=%00"};
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, "{\"uses\":3}"), 201);
    cJSON *json = json_of_reply();
    snprintf(code, sizeof code, "%s", cJSON_GetStringValue(cJSON_GetObjectItem(json, "code")));
    cJSON_Delete(json);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(enroll_with(code, token), 200);
    }
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        assert_int_equal(ask("GET", pages[i].path, TOKEN, ""), 200);
        json = json_of_reply();
        assert_int_equal(cJSON_GetArraySize(json), pages[i].count);
        assert_true(pages[i].count == 0 || first_id(json) == pages[i].first);
        cJSON_Delete(json);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char path[96];
        snprintf(path, sizeof path, "/api/v1/clients?%s", bad[i]);
        assert_int_equal(ask("GET", path, TOKEN, ""), 422);
    }
}

static atomic_bool memory_is_out;

static void *allocate(size_t size)
{
    return atomic_load(&memory_is_out) ? NULL : malloc(size);
}

// Clients' updates are in the same transaction: it is committed all the same.
TEST(test_a_job_without_memory_fails_alone)
{
    static const char *const gets[] = {"/api/v1/status",          "/api/v1/clients",
                                       "/api/v1/rounds",          "/api/v1/waiting",
                                       "/api/v1/clients/columns", "/api/v1/rounds/columns",
                                       "/api/v1/enroll-codes"};
    atomic_store(&memory_is_out, true);
    for (size_t i = 0; i < sizeof gets / sizeof gets[0]; i++) {
        assert_int_equal(ask("GET", gets[i], TOKEN, ""), 503);
    }
    atomic_store(&memory_is_out, false);
    assert_int_equal(ask("GET", "/api/v1/status", TOKEN, ""), 200);
    assert_int_equal(ask("GET", "/metrics", TOKEN, ""), 200);
    assert_non_null(strstr(reply, "tern_batches_failed_total 0\n"));
    assert_non_null(strstr(reply, "tern_downloads_authorized_total 0\n"));
    assert_non_null(strstr(reply, "tern_cache_wire_bytes_total{direction=\"down\"} 0\n"));
    assert_non_null(strstr(reply, "\ntern_store_writable 1\n"));
    assert_non_null(strstr(reply, "\ntern_database_checked_seconds 0\n")); // no check was due
}

// Sends what a request begins with and returns the status that it is refused with before its end
// has come; 0 when the listener goes on to wait for the rest.
static int refused_early(uint16_t port, const char *head, size_t body)
{
    char part[1024];
    int status = 0;
    int fd = connect_to(port);
    struct timeval patience = {.tv_sec = 3};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(write(fd, head, strlen(head)), strlen(head));
    memset(part, 'x', sizeof part);
    for (size_t sent = 0; sent < body; sent += sizeof part) {
        assert_int_equal(send(fd, part, sizeof part, MSG_NOSIGNAL), sizeof part);
    }
    ssize_t len = read(fd, reply, sizeof reply - 1);
    reply[len > 0 ? len : 0] = '\0';
    close(fd);
    return sscanf(reply, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

// Nobody can make the listener keep more than the request they may send needs.
TEST(test_a_stranger_cannot_fill_memory)
{
    uint16_t port = tern_http_port(server);
    assert_int_equal(
        refused_early(port, "GET /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 16000000\r\n\r\n",
                      0),
        413);
    assert_int_equal(
        refused_early(port, "POST /v1/enroll HTTP/1.1\r\nHost: h\r\nContent-Length: 4097\r\n\r\n",
                      0),
        413);
    assert_int_equal(
        refused_early(port,
                      "POST /v1/enroll HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "F00000\r\n",
                      5 * 1024),
        411);
    assert_int_equal(
        refused_early(tern_admin_port(admin),
                      "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3840\r\n\r\n", 1024),
        413);
}

static int ask_kept(int fd)
{
    char request[300];
    int status = 0;
    const int len =
        snprintf(request, sizeof request,
                 "GET /healthz HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n\r\n", scheme, TOKEN);
    if (write(fd, request, (size_t)len) != len) {
        return 0;
    }
    const ssize_t got = read(fd, reply, sizeof reply - 1);
    reply[got > 0 ? got : 0] = '\0';
    return sscanf(reply, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

// Any user of this machine can connect; more of that than there are places keeps the operator neither
// out nor away.
TEST(test_idle_connections_do_not_shut_the_operator_out)
{
    int idle[100];
    const int kept = connect_to(tern_admin_port(admin));
    assert_int_equal(ask_kept(kept), 200);
    for (size_t i = 0; i < 100; i++) {
        idle[i] = connect_to(tern_admin_port(admin));
    }
    assert_int_equal(ask("GET", "/api/v1/status", TOKEN, ""), 200);
    assert_int_equal(ask_kept(kept), 200);
    for (size_t i = 0; i < 100; i++) {
        close(idle[i]);
    }
    close(kept);
}

// A name that a stranger's page has turned to this machine's address gets nothing, not even the page.
TEST(test_only_names_of_this_machine_are_answered)
{
    static const struct {
        const char *host;
        int status;
    } cases[] = {
        {"localhost", 200},
        {"LOCALHOST:8081", 200},
        {"127.0.0.1:1", 200},
        {"[::1]:8081", 200},
        {"evil.example", 421},
        {"localhost.evil.example", 421},
        {"evil.example:8081", 421},
        {"127.0.0.1.evil.example", 421},
        {"[::2]", 421},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char request[200];
        snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                 cases[i].host);
        assert_int_equal(refused_early(tern_admin_port(admin), request, 0), cases[i].status);
    }
}

// Every metric has its HELP and TYPE before it, and every line parses.
TEST(test_metrics_are_prometheus_text)
{
    char type_of[64] = "";
    unsigned values = 0;
    int fd = connect_to(tern_http_port(server));
    assert_int_equal(exchange(fd, "GET", "/healthz", NULL, NULL, 0), 200);
    assert_int_equal(ask("GET", "/metrics", TOKEN, ""), 200);
    assert_non_null(strstr(reply, "Content-Type: text/plain"));
    for (char *line = strtok((char *)(uintptr_t)body_of_reply(), "\n"); line != NULL;
         line = strtok(NULL, "\n")) {
        char kind[16];
        double value;
        if (strncmp(line, "# HELP ", 7) == 0) {
            continue;
        }
        if (sscanf(line, "# TYPE %63s %15s", type_of, kind) == 2) {
            continue;
        }
        assert_int_equal(strncmp(line, type_of, strlen(type_of)), 0);
        const char *space = strrchr(line, ' ');
        assert_non_null(space);
        assert_int_equal(sscanf(space, "%lf", &value), 1);
        values++;
        if (strncmp(line, "tern_http_requests_total ", 25) == 0) {
            assert_true(value >= 1.0);
        }
    }
    // 5 purposes, 2 directions, 4 layers, and the rest.
    assert_true(values > 80);
}

// What is not known has no sample, which a graph would show as 0.
TEST(test_metrics_before_the_first_round)
{
    assert_int_equal(ask("GET", "/metrics", TOKEN, ""), 200);
    const char *text = body_of_reply();
    assert_null(strstr(text, "\ntern_round_mean_loss "));
    assert_null(strstr(text, "\ntern_evaluated_version "));
    assert_null(strstr(text, "\ntern_round_service_share "));
    assert_non_null(strstr(text, "\ntern_plan_search_seconds_total 0\n"));
    double worked_s = 0;
    assert_int_equal(sscanf(strstr(text, "\ntern_service_worked_seconds_total "),
                            " tern_service_worked_seconds_total %lf", &worked_s),
                     1);
    assert_true(worked_s > 0 && worked_s < 60);
    double longest_s = 0;
    assert_int_equal(sscanf(strstr(text, "\ntern_service_longest_seconds "),
                            " tern_service_longest_seconds %lf", &longest_s),
                     1);
    assert_true(longest_s > 0 && longest_s <= worked_s);
    assert_null(strstr(text, "\ntern_evaluated{"));
    assert_non_null(strstr(text, "\n# TYPE tern_evaluated gauge\n"));
    assert_non_null(strstr(text, "\ntern_waiting{reason=\"clients\"} 1\n"));
    assert_non_null(strstr(text, "\ntern_waiting{reason=\"members\"} 0\n"));
    assert_non_null(strstr(text, "\ntern_waiting_needs_help 1\n"));
    unsigned long long bytes = 0;
    assert_int_equal(
        sscanf(strstr(text, "\ntern_database_bytes "), " tern_database_bytes %llu", &bytes), 1);
    assert_true(bytes > 4096);
    assert_int_equal(
        sscanf(strstr(text, "\ntern_disk_free_bytes "), " tern_disk_free_bytes %llu", &bytes), 1);
    assert_true(bytes > 0);
    unsigned long long room = 0;
    assert_int_equal(
        sscanf(strstr(text, "\ntern_disk_room_bytes "), " tern_disk_room_bytes %llu", &room), 1);
    assert_true(room > bytes / 2);
    assert_null(strstr(text, "\ntern_disk_needed_bytes ")); // nobody has set it
}

static void check_waiting(const char *reason, const char *advice)
{
    assert_int_equal(ask("GET", "/api/v1/waiting", TOKEN, ""), 200);
    cJSON *json = json_of_reply();
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(json, "reason")), reason);
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(json, "advice"));
    if (strstr(text, advice) == NULL) {
        fail_msg("'%s' is not in '%s'", advice, text);
    }
    cJSON_Delete(json);
}

// By what the service has in memory, at once.
TEST(test_waiting_follows_what_happens)
{
    char code[64];
    char token[24];
    check_waiting("clients", "`tern-aggregator enroll-code --uses 2` makes a join code");
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, "{\"uses\":3}"), 201);
    cJSON *json = json_of_reply();
    snprintf(code, sizeof code, "%s", cJSON_GetStringValue(cJSON_GetObjectItem(json, "code")));
    cJSON_Delete(json);
    check_waiting("clients", "join codes allow 3 more");
    assert_int_equal(enroll_with(code, token), 200);
    check_waiting("clients", "join codes allow 2 more");
    assert_int_equal(enroll_with(code, token), 200);
    check_waiting("members", "its deadline is in");
    assert_int_equal(ask("GET", "/api/v1/waiting", TOKEN, ""), 200);
    json = json_of_reply();
    assert_int_equal(number(json, "waits_for"), 2);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "members")), 2);
    cJSON_Delete(json);
    assert_int_equal(ask("POST", "/api/v1/clients/2/revoke", TOKEN, ""), 200);
    assert_int_equal(ask("GET", "/api/v1/waiting", TOKEN, ""), 200);
    json = json_of_reply();
    assert_int_equal(number(json, "waits_for"), 1);
    cJSON_Delete(json);
}

// A code that could not be stored is none, and the API says so as it says everything.
TEST(test_what_cannot_be_stored_is_told_in_json)
{
    char path[192];
    struct tern_db *other = NULL;
    path_of("tern.db", path);
    assert_int_equal(tern_db_open(path, TERN_DB_SECOND, &other, why), TERN_OK);
    assert_int_equal(tern_db_begin(other), TERN_OK);
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, "{}"), 503);
    assert_non_null(strstr(reply, "Content-Type: application/json\r\n"));
    assert_non_null(strstr(reply, "Retry-After: 1\r\n"));
    cJSON *json = json_of_reply();
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(json, "error")), "busy");
    assert_non_null(
        strstr(cJSON_GetStringValue(cJSON_GetObjectItem(json, "message")), "Nothing changed"));
    cJSON_Delete(json);
    tern_db_rollback(other);
    tern_db_close(other);
}

static void report_statistics(const char *token)
{
    const tern_Statistics message = {.num_examples = 10};
    uint8_t columns[64 * TERN_WIRE_COLUMN_BYTES] = {0};
    uint8_t body[sizeof columns + 64];
    size_t len = 0;
    const struct tern_span span = {columns, sizeof columns};
    assert_int_equal(tern_wire_encode_statistics(&message, span, body, sizeof body, &len), TERN_OK);
    const int fd = connect_to(tern_http_port(server));
    assert_int_equal(exchange(fd, "PUT", TERN_PATH_STATISTICS, token, body, len), 200);
}

static void check_untold(const char *now, double first, int count)
{
    assert_int_equal(ask("GET", "/api/v1/waiting", TOKEN, ""), 200);
    cJSON *json = json_of_reply();
    const cJSON *members = cJSON_GetObjectItem(json, "members");
    assert_non_null(strstr(cJSON_GetStringValue(cJSON_GetObjectItem(json, "now")), now));
    assert_int_equal(number(json, "waits_for"), count);
    assert_int_equal(cJSON_GetArraySize(members), count);
    assert_int_equal(number(cJSON_GetArrayItem(members, 0), "id"), first);
    assert_int_equal(number(cJSON_GetArrayItem(members, 0), "tries"), 0);
    cJSON_Delete(json);
}

CASE_WITH(test_waiting_names_those_whose_statistics_are_awaited, setup_with_statistics, teardown)
{
    char code[64];
    char tokens[4][24];
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, "{\"uses\":4}"), 201);
    cJSON *json = json_of_reply();
    snprintf(code, sizeof code, "%s", cJSON_GetStringValue(cJSON_GetObjectItem(json, "code")));
    cJSON_Delete(json);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(enroll_with(code, tokens[i]), 200);
    }
    assert_int_equal(ask("POST", "/api/v1/clients/3/revoke", TOKEN, ""), 200);
    report_statistics(tokens[0]);
    check_untold("the statistics of 1 more client, which scale", 2, 2);
    check_waiting("statistics", "or lower statistics.min_clients");
    report_statistics(tokens[1]);
    check_untold("1 client that has checked in without, for at most 59 m ", 4, 1);
    check_waiting("statistics", "the 2 that have arrived are enough then");
    report_statistics(tokens[3]);
    check_waiting("members", "its deadline is in");
}

// Each time that a member fetches the same task.
TEST(test_waiting_counts_tries)
{
    char code[64];
    char token[24];
    tern_CheckinRequest request = tern_CheckinRequest_init_zero;
    uint8_t body[TERN_WIRE_MESSAGE_MAX];
    size_t len = 0;
    assert_int_equal(tern_wire_encode_checkin_request(&request, body, sizeof body, &len), TERN_OK);
    assert_int_equal(ask("POST", "/api/v1/enroll-codes", TOKEN, "{\"uses\":2}"), 201);
    cJSON *json = json_of_reply();
    snprintf(code, sizeof code, "%s", cJSON_GetStringValue(cJSON_GetObjectItem(json, "code")));
    cJSON_Delete(json);
    assert_int_equal(enroll_with(code, token), 200);
    assert_int_equal(enroll_with(code, token), 200);
    assert_int_equal(public_post(TERN_PATH_CHECKIN, token, body, len), 200);
    assert_int_equal(public_post(TERN_PATH_CHECKIN, token, body, len), 200);
    assert_int_equal(ask("GET", "/api/v1/waiting", TOKEN, ""), 200);
    json = json_of_reply();
    const cJSON *member = NULL;
    cJSON_ArrayForEach(member, cJSON_GetObjectItem(json, "members"))
    {
        const bool it_came = number(member, "id") == 2;
        assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(member, "has_task")), it_came);
        assert_int_equal(number(member, "tries"), it_came ? 2 : 0);
    }
    assert_int_equal(number(json, "waits_for"), 2);
    cJSON_Delete(json);
}

TEST(test_address_must_be_local)
{
    struct tern_admin *other = NULL;
    assert_int_equal(start_admin("0.0.0.0", &other), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "loopback"));
    assert_null(other);
}

TEST(test_token_file)
{
    char path[192];
    struct tern_admin *other = NULL;
    path_of("admin.token", path);
    assert_int_equal(tern_file_write(path, "short\n", 6, 0600), TERN_OK);
    assert_int_equal(start_admin("127.0.0.1", &other), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "delete it"));
    assert_int_equal(tern_file_write(path, "a token of several words\n", 25, 0600), TERN_OK);
    assert_int_equal(start_admin("127.0.0.1", &other), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "delete it"));
    unlink(path);
    assert_int_equal(start_admin("127.0.0.1", &other), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "cannot be read: No such file"));
}

TEST(test_unix_socket)
{
    char path[192];
    char address[200];
    struct tern_admin *other = NULL;
    path_of("admin.sock", path);
    snprintf(address, sizeof address, "unix:%s", path);
    if (start_admin(address, &other) != TERN_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(exchange(connect_unix(path), "GET", "/api/v1/status", TOKEN, NULL, 0), 200);
    tern_admin_stop(other, 1000);
}

// --- Single sign-on

#define SSO                                                                                        \
    "user=OIDC_CLAIM_preferred_username,groups=X-Groups,origin=https://tern.example,viewer=staff," \
    "operator=ops"
#define USER "OIDC_CLAIM_preferred_username: "
#define PROXIED "Host: tern.example\r\n"

// Starts a listener with single sign-on on a socket of this folder.
static struct tern_admin *start_behind_proxy(char path[192])
{
    static char address[200]; // the listener keeps the pointer
    struct tern_admin *other = NULL;
    path_of("admin.sock", path);
    snprintf(address, sizeof address, "unix:%s", path);
    sso = SSO;
    const enum tern_result result = start_admin(address, &other);
    sso = "";
    if (result != TERN_OK) {
        fail_msg("%s", why);
    }
    return other;
}

// Sends a request with these header lines, reads the reply into `reply` and returns its status.
static int send_lines(int fd, const char *request, const char *lines)
{
    char head[512];
    int status = 0;
    size_t got = 0;
    ssize_t more;
    const int len =
        snprintf(head, sizeof head, "%s HTTP/1.1\r\nConnection: close\r\n%s\r\n", request, lines);
    assert_true(len < (int)sizeof head);
    assert_int_equal(write(fd, head, (size_t)len), len);
    while ((more = read(fd, reply + got, sizeof reply - 1 - got)) > 0) {
        got += (size_t)more;
    }
    reply[got] = '\0';
    close(fd);
    assert_int_equal(sscanf(reply, "HTTP/1.1 %d", &status), 1);
    return status;
}

TEST(test_proxy_names_the_caller)
{
    static const struct {
        const char *request;
        const char *lines;
        int status;
        const char *says;
    } cases[] = {
        {"GET /api/v1/status", PROXIED USER "ann\r\nX-Groups: staff\r\n", 200, NULL},
        {"GET /api/v1/session", PROXIED USER "ann\r\nX-Groups: staff\r\n", 200,
         "{\"sso\":true,\"name\":\"sso:ann\",\"role\":\"viewer\"}"},
        {"GET /api/v1/session", PROXIED USER "ann\r\n", 403, "viewer=staff, operator=ops"},
        {"GET /api/v1/session", PROXIED USER "ann\r\n", 403, "\"error\":\"forbidden\""},
        {"GET /api/v1/session", "Host: localhost\r\n" USER "ann\r\n", 421, "\"error\":\"http\""},
        {"GET /api/v1/session", PROXIED, 200, "{\"sso\":false}"},
        {"GET /api/v1/status", PROXIED USER "ann\r\nX-Groups: other\r\n", 403,
         "viewer=staff, operator=ops"},
        {"GET /api/v1/status", PROXIED USER "\r\nX-Groups: staff\r\n", 400, "(admin.sso)"},
        {"GET /", PROXIED USER "\r\nX-Groups: staff\r\n", 400, "(admin.sso)"},
        {"GET /api/v1/status", PROXIED USER "ann\r\n" USER "ann\r\nX-Groups: staff\r\n", 400, NULL},
        {"GET /api/v1/status", PROXIED USER "ann\r\nX-Groups: staff\r\nX-Groups: ops\r\n", 400,
         NULL},
        {"GET /api/v1/status",
         PROXIED USER "ann\r\nX-Groups: staff\r\nAuthorization: Bearer " TOKEN "\r\n", 400,
         "Send one of them"},
        {"GET /api/v1/status", PROXIED "Authorization: Bearer " TOKEN "\r\n", 200, NULL},
        {"GET /api/v1/status", PROXIED "X-Groups: ops\r\n", 401, NULL},
        {"GET /api/v1/status", "Host: localhost\r\n" USER "ann\r\nX-Groups: staff\r\n", 421,
         "Let the proxy keep"},
        {"POST /api/v1/session",
         PROXIED USER "ann\r\nX-Groups: ops\r\nOrigin: https://tern.example\r\n", 400,
         "has logged this user in already"},
        {"POST /api/v1/enroll-codes", PROXIED USER "ann\r\nX-Groups: ops\r\n", 403, "Origin"},
        {"POST /api/v1/enroll-codes", PROXIED USER "ann\r\nX-Groups: ops\r\n", 403,
         "\"error\":\"forbidden\""},
        {"POST /api/v1/enroll-codes",
         PROXIED USER "ann\r\nX-Groups: staff\r\nOrigin: https://tern.example\r\n", 403,
         "This needs the role operator, and sso:ann has the role viewer."},
        {"POST /api/v1/enroll-codes",
         PROXIED USER "ann\r\nX-Groups: ops\r\nOrigin: https://tern.example\r\n", 201, NULL},
    };
    char path[192];
    struct tern_admin *other = start_behind_proxy(path);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0660);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int got = send_lines(connect_unix(path), cases[i].request, cases[i].lines);
        if (got != cases[i].status || (cases[i].says != NULL && !says(cases[i].says))) {
            fail_msg("%s %s: %s", cases[i].request, cases[i].lines, reply);
        }
    }
    assert_int_equal(rows_of_audit(), 2);
    static const char *const rows[][3] = {{"sso:ann", "viewer", "refused: needs the role operator"},
                                          {"sso:ann", "operator", "done"}};
    cJSON *json = json_of_reply();
    for (int i = 0; i < 2; i++) {
        const cJSON *row = cJSON_GetArrayItem(json, i);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "who")), rows[i][0]);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "role")), rows[i][1]);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "result")), rows[i][2]);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "address")), "unix");
    }
    cJSON_Delete(json);
    tern_admin_stop(other, 1000);
}

// Over TCP, and over a socket without the setting, the headers are like any unknown header.
TEST(test_headers_of_others_are_never_believed)
{
    static const char lines[] = "Host: localhost\r\n" USER "ann\r\nX-Groups: ops\r\n";
    char path[192];
    char address[200];
    struct stat status;
    struct tern_admin *other = NULL;
    sso = SSO;
    static const char *const ports[] = {"127.0.0.1", "::1", ""};
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        assert_int_equal(start_admin(ports[i], &other), TERN_ERR_CONFIG);
        assert_non_null(strstr(why, "admin.sso needs admin.address = unix:/path"));
    }
    other = start_behind_proxy(path);
    assert_int_equal(send_lines(connect_to(tern_admin_port(admin)), "GET /api/v1/status", lines),
                     401);
    assert_int_equal(send_lines(connect_to(tern_admin_port(admin)), "GET /api/v1/session", lines),
                     200);
    assert_true(says("{\"sso\":false}"));
    tern_admin_stop(other, 1000);
    snprintf(address, sizeof address, "unix:%s", path);
    assert_int_equal(start_admin(address, &other), TERN_OK);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(send_lines(connect_unix(path), "GET /api/v1/status", lines), 401);
    tern_admin_stop(other, 1000);
}

int main(void)
{
    cJSON_Hooks hooks = {.malloc_fn = allocate, .free_fn = free};
    cJSON_InitHooks(&hooks); // before there are threads
    return test_cases_run(&cases_of_this_file, __FILE__);
}
