#define _GNU_SOURCE
#include "store/postgres_server.h"

#include <libpq-fe.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// --- A server between, which cuts the connection once

static int socket_at(const char *folder, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "%.90s/.s.PGSQL.5432", folder);
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

// Whether the connection goes on.
static bool pass(int from, int to, const char *until, bool *seen, bool passes)
{
    static char bytes[65536];
    const ssize_t len = read(from, bytes, sizeof bytes);
    if (len <= 0) {
        return false;
    }
    *seen = *seen || memmem(bytes, (size_t)len, until, strlen(until) + 1) != NULL;
    return *seen && !passes ? false : write(to, bytes, (size_t)len) == len;
}

// Both ends say COMMIT, with a NUL behind it: one that it shall be done, the other that it is.
static void pass_on(int client, int server, enum cut cut, bool cuts, bool *has_cut,
                    struct turns *turns)
{
    bool asks = false;
    struct pollfd ends[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    bool asked = false;
    bool done = false;
    for (bool goes_on = true; goes_on && poll(ends, 2, -1) > 0;) {
        if (ends[0].revents != 0) {
            goes_on = pass(client, server, "COMMIT", &asked, !cuts || cut == CUT_BEHIND_COMMIT);
            asks = true;
        }
        if (goes_on && ends[1].revents != 0) {
            goes_on = pass(server, client, "COMMIT", &done, !cuts);
            turns->count += asks;
            asks = false;
        }
    }
    *has_cut = *has_cut || asked;
}

static void serve_between(const char *real, int listener, enum cut cut, struct turns *turns)
{
    bool has_cut = cut == CUT_NEVER;
    prctl(PR_SET_PDEATHSIG, SIGKILL); // also with a test that fails
    for (int client; (client = accept(listener, NULL, NULL)) >= 0;) {
        struct sockaddr_un address;
        const int server = socket_at(real, &address);
        if (connect(server, (const struct sockaddr *)&address, sizeof address) != 0) {
            _exit(1);
        }
        pass_on(client, server, cut, !has_cut, &has_cut, turns);
        close(client);
        close(server);
    }
    _exit(0);
}

// The database's URL has the folder of its socket as its host.
struct between start_between(const struct fixture *fixture, enum cut cut)
{
    struct between between;
    struct sockaddr_un address;
    char real[128];
    const char *host = strstr(fixture->path, "host=") + 5;
    const size_t len = strcspn(host, "&");
    snprintf(real, sizeof real, "%.*s", (int)len, host);
    snprintf(between.path, sizeof between.path, "%.*s%s%s", (int)(host - fixture->path),
             fixture->path, fixture->folder, host + len);
    const int listener = socket_at(fixture->folder, &address);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    between.turns = mmap(NULL, sizeof *between.turns, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(between.turns != MAP_FAILED);
    between.process = fork();
    assert_true(between.process >= 0);
    if (between.process == 0) {
        serve_between(real, listener, cut, between.turns);
    }
    close(listener);
    return between;
}

void stop_between(const struct between *between)
{
    assert_int_equal(kill(between->process, SIGKILL), 0);
    assert_int_equal(waitpid(between->process, NULL, 0), between->process);
    munmap(between->turns, sizeof *between->turns);
}

// --- Connections

struct tern_db *open_at(const char *path)
{
    struct tern_db *db = NULL;
    char why[256] = "";
    if (tern_db_open(path, 0, &db, why) != TERN_OK) {
        fail_msg("%s", why);
    }
    return db;
}

enum tern_result add(struct tern_db *db, uint8_t token)
{
    struct tern_db_client client = {.name = "x"};
    memset(client.token_hash, token, sizeof client.token_hash);
    return tern_db_client_add(db, &client);
}

enum tern_result add_alone(struct tern_db *db, uint8_t token)
{
    TERN_TRY(tern_db_begin(db));
    return tern_db_conclude(db, add(db, token));
}

enum tern_result find(struct tern_db *db, uint64_t id)
{
    struct tern_db_client client;
    return tern_db_client_get(db, id, &client);
}

struct named open_named(const struct fixture *f)
{
    struct named named;
    char path[512];
    snprintf(named.name, sizeof named.name, "test-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s&application_name=%s", f->path, named.name);
    named.db = open_at(path);
    return named;
}

void end_connection(const struct named *named)
{
    char text[256];
    PGconn *connection = PQconnectdb(getenv("TERN_TEST_STORE"));
    snprintf(text, sizeof text,
             "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
             " WHERE application_name = '%s'",
             named->name);
    PGresult *result = PQexec(connection, text);
    assert_int_equal(PQntuples(result), 1);
    PQclear(result);
    PQfinish(connection);
}

void do_sql(const char *url, const char *sql)
{
    PGconn *connection = PQconnectdb(url);
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", sql, PQerrorMessage(connection));
    }
    PQclear(result);
    PQfinish(connection);
}
