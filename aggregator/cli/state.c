#include "cli/state.h"

#include "hosted/files.h"
#include "hosted/system.h"
#include "rounds/error_watch.h"
#include "rounds/tags.h"
#include "util/bytes.h"
#include "util/text.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TOKEN_BYTES 24

const struct tern_aggregator_settings *tern_state_settings(const struct tern_cli *cli)
{
    struct tern_aggregator_settings *settings = cli->program->values;
    const char *state = tern_cli_option(cli, "state", NULL);
    if (state == NULL) {
        return settings;
    }
    size_t size = sizeof settings->federation_state;
    if (state[0] == '\0' || strlen(state) >= size) {
        // A truncated path could name another federation.
        exit(
            tern_cli_fail(cli, TERN_ERR_CONFIG, "--state must have 1 to %zu characters", size - 1));
    }
    memcpy(settings->federation_state, state, strlen(state) + 1);
    return settings;
}

void tern_state_path(const struct tern_cli *cli, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", tern_state_settings(cli)->federation_state, name);
}

void tern_state_file(const struct tern_cli *cli, const char *configured, const char *name,
                     char path[PATH_MAX])
{
    if (configured[0] != '\0') {
        snprintf(path, PATH_MAX, "%s", configured);
    } else {
        tern_state_path(cli, name, path);
    }
}

const char *tern_state_client_port(const struct tern_cli *cli, char text[TERN_STATE_PORT_MAX])
{
    const uint32_t port = tern_state_settings(cli)->server_port;
    snprintf(text, TERN_STATE_PORT_MAX, "%" PRIu32, port);
    return port != 0 ? text : "PORT";
}

bool tern_state_is_postgres(const struct tern_cli *cli)
{
    return tern_state_settings(cli)->store_url[0] != '\0';
}

// Returns the length of a URL's scheme; 0: not a URL.
static size_t scheme_len(const char *name)
{
    const char *end = strstr(name, "://");
    size_t len = 0;
    while (isalnum((unsigned char)name[len]) || name[len] == '+' || name[len] == '-' ||
           name[len] == '.') {
        len++;
    }
    return end == name + len ? len : 0;
}

int tern_state_check_scheme(const struct tern_cli *cli, const char *what, const char *name)
{
    const size_t len = scheme_len(name);
    if (len == 0 || tern_db_is_url(name)) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "%s%.*s:// is not a kind of database that Tern knows: use postgresql:// or "
        "postgres:// for PostgreSQL, or the path of an SQLite file",
        what, len < 32 ? (int)len : 32, name);
}

void tern_state_database(const struct tern_cli *cli, char path[PATH_MAX])
{
    const char *url = tern_state_settings(cli)->store_url;
    const int code = tern_state_check_scheme(cli, "store.url: ", url);
    if (code != TERN_EXIT_OK) {
        exit(code);
    }
    if (url[0] != '\0' && !tern_db_is_url(url)) {
        // As a file name, this text would name another federation than the operator means.
        exit(tern_cli_fail(
            cli, TERN_ERR_CONFIG,
            "store.url must be empty or begin with postgresql://. federation.state sets the "
            "directory of the database file"));
    }
    tern_state_file(cli, url, TERN_STATE_DATABASE, path);
}

bool tern_state_has_federation(const struct tern_cli *cli)
{
    char database[PATH_MAX];
    char why[256];
    struct tern_db *db;
    tern_state_database(cli, database);
    if (!tern_db_is_url(database)) {
        return access(database, F_OK) == 0;
    }
    const bool found = tern_db_open(database, 0, &db, why) == TERN_OK;
    if (found) {
        tern_db_close(db);
    }
    return found;
}

bool tern_state_is_gateway(const struct tern_cli *cli)
{
    char path[PATH_MAX];
    tern_state_path(cli, TERN_STATE_UPSTREAM, path);
    return access(path, F_OK) == 0;
}

bool tern_state_is_served(const struct tern_cli *cli)
{
    char path[PATH_MAX];
    tern_state_path(cli, TERN_STATE_LOCK, path);
    const int lock = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // a FIFO would block
    if (lock < 0) {
        return false;
    }
    const bool held = flock(lock, LOCK_SH | LOCK_NB) != 0;
    close(lock);
    return held;
}

long tern_state_service_process(const struct tern_cli *cli)
{
    char path[PATH_MAX];
    char line[256];
    struct stat status;
    long found = 0;
    tern_state_path(cli, TERN_STATE_LOCK, path);
    FILE *locks = fopen("/proc/locks", "re");
    if (locks == NULL || stat(path, &status) != 0) {
        status.st_ino = 0;
    }
    while (locks != NULL && fgets(line, sizeof line, locks) != NULL) {
        long process = 0;
        unsigned long long inode = 0;
        if (sscanf(line, "%*s FLOCK %*s WRITE %ld %*x:%*x:%llu", &process, &inode) == 2 &&
            inode == (unsigned long long)status.st_ino && process > 0) {
            found = process;
        }
    }
    if (locks != NULL) {
        fclose(locks);
    }
    return found;
}

// Retries, because tern_state_is_served() holds the lock for a moment.
static bool take_lock(int fd)
{
    const struct timespec moment = {.tv_nsec = 20000000L};
    for (int i = 0; i < 5 && flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK) {
            return false;
        }
        nanosleep(&moment, NULL);
    }
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

// Writes " 4711", or "" if the process is unknown. Returns text.
static const char *server_process(const struct tern_cli *cli, char text[24])
{
    const long process = tern_state_service_process(cli);
    snprintf(text, 24, process != 0 ? " %ld" : "", process);
    return text;
}

static int lock_failed(const struct tern_cli *cli, const char *path)
{
    char process[24];
    const char *folder = tern_state_settings(cli)->federation_state;
    switch (errno) {
    case ENOENT:
        return tern_cli_fail(
            cli, TERN_ERR_IO,
            "there is no state directory %s: make one with `tern-aggregator init`, or with "
            "mkdir -m 700 for a federation that is already in PostgreSQL",
            folder);
    case EWOULDBLOCK:
        return tern_cli_fail(cli, TERN_ERR_STATE,
                             "%s is served by another process%s: stop that process, or set another "
                             "state directory (federation.state)",
                             folder, server_process(cli, process));
    default:
        return tern_cli_fail(cli, TERN_ERR_IO, "%s cannot be locked: %s", path, strerror(errno));
    }
}

int tern_state_lock(const struct tern_cli *cli, int *lock)
{
    char path[PATH_MAX];
    tern_state_path(cli, TERN_STATE_LOCK, path);
    *lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *lock >= 0 && take_lock(*lock) ? TERN_EXIT_OK : lock_failed(cli, path);
}

enum tern_result tern_state_make_token(const char *path, bool *made)
{
    uint8_t bytes[TOKEN_BYTES];
    char text[TERN_BASE64URL_LENGTH(TOKEN_BYTES) + 2];
    struct stat there;
    *made = false;
    if (lstat(path, &there) == 0) {
        return TERN_OK;
    }
    if (errno != ENOENT) {
        return TERN_ERR_IO;
    }
    TERN_TRY(tern_random_fill(bytes, sizeof bytes));
    tern_base64url_encode(bytes, sizeof bytes, text);
    text[TERN_BASE64URL_LENGTH(TOKEN_BYTES)] = '\n';
    TERN_TRY(tern_file_write(path, text, TERN_BASE64URL_LENGTH(TOKEN_BYTES) + 1, 0600));
    *made = true;
    return TERN_OK;
}

#define USER_NAME_MAX 33      // longest name that useradd makes, with its end
#define NO_LOGIN 4294967295ul // login uid of a process that nobody's login started

// Writes the name of a user, or its number if it has no name, as in a container. Returns name.
static const char *name_user(unsigned long uid, char name[USER_NAME_MAX])
{
    const struct passwd *user = getpwuid((uid_t)uid);
    if (user != NULL) {
        snprintf(name, USER_NAME_MAX, "%s", user->pw_name);
    } else {
        snprintf(name, USER_NAME_MAX, "%lu", uid);
    }
    return name;
}

// Returns the user who logged in, which sudo, su and runuser do not change. Without a login, e.g. in a unit of systemd, returns
// the process's own user.
static unsigned long login_uid(void)
{
    unsigned long uid = NO_LOGIN;
    FILE *file = fopen("/proc/self/loginuid", "re");
    if (file == NULL) {
        return getuid();
    }
    const bool is_read = fscanf(file, "%lu", &uid) == 1;
    fclose(file);
    return is_read && uid != NO_LOGIN ? uid : getuid();
}

struct tern_db_actor tern_state_actor(void)
{
    struct tern_db_actor actor = {.role = TERN_ROLE_NONE};
    char own[USER_NAME_MAX];
    char login[USER_NAME_MAX];
    const unsigned long uid = login_uid();
    name_user(getuid(), own);
    if (uid == getuid()) {
        snprintf(actor.who, sizeof actor.who, "unix:%s", own);
    } else {
        snprintf(actor.who, sizeof actor.who, "unix:%.27s (as %.24s)", name_user(uid, login), own);
    }
    return actor;
}

void tern_state_sign(struct tern_db *db)
{
    const struct tern_db_actor actor = tern_state_actor();
    (void)tern_db_act_as(db, &actor);
}

int tern_state_open_any(const struct tern_cli *cli, unsigned flags, struct tern_db **db)
{
    char path[PATH_MAX];
    char why[256] = "";
    tern_state_database(cli, path);
    TERN_CLI_TRY(tern_cli_check(cli, tern_db_open(path, flags, db, why), "%s", why));
    tern_state_sign(*db);
    return TERN_EXIT_OK;
}

int tern_state_open(const struct tern_cli *cli, struct tern_db **db)
{
    TERN_CLI_TRY(tern_state_open_any(cli, 0, db));
    const int code = tern_state_refuse_copied(cli, *db, "; nothing was changed");
    if (code != TERN_EXIT_OK) {
        tern_db_close(*db);
    }
    return code;
}

int tern_state_upgrade(const struct tern_cli *cli, struct tern_db *db)
{
    if (!tern_db_is_older(db)) {
        return TERN_EXIT_OK;
    }
    enum tern_result result = tern_db_hold(db);
    result = result == TERN_OK ? tern_db_upgrade(db) : result;
    return tern_cli_check(cli, result, "%s", tern_db_error(db));
}

int tern_state_refuse_copied(const struct tern_cli *cli, struct tern_db *db, const char *what)
{
    struct tern_db_federation federation;
    char when[TERN_TEXT];
    TERN_CLI_TRY(tern_cli_check(cli, tern_db_federation(db, &federation), "%s", tern_db_error(db)));
    if (federation.copied_to[0] == '\0') {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(
        cli, TERN_ERR_CONFIG,
        "%s was copied to %s (%s), and the federation continues there%s. Set store.url or "
        "federation.state to the copy. To use this database again, without the changes since: "
        "tern-aggregator copy --forget",
        tern_db_path(db), federation.copied_to, tern_text_time(federation.copied_ms, when), what);
}

int tern_state_open_reading(const struct tern_cli *cli, struct tern_db **db)
{
    TERN_CLI_TRY(tern_state_open_any(cli, TERN_DB_READING, db));
    enum tern_result result = tern_db_begin_reading(*db);
    return result == TERN_OK ? TERN_EXIT_OK : tern_state_fail(cli, *db, result);
}

int tern_state_fail(const struct tern_cli *cli, struct tern_db *db, enum tern_result result)
{
    const char *error = tern_db_error(db);
    int code =
        tern_cli_fail(cli, result, "%s", error[0] != '\0' ? error : tern_result_sentence(result));
    tern_db_close(db);
    return code;
}

int tern_state_client_argument(const struct tern_cli *cli, uint64_t *id)
{
    const char *text = cli->argument_count > 0 ? cli->arguments[0] : NULL;
    char *end;
    *id = 0;
    if (text == NULL) {
        return TERN_EXIT_OK;
    }
    *id = strtoull(text, &end, 10);
    if (text[0] >= '1' && text[0] <= '9' && *end == '\0' && *id <= INT64_MAX) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "'%s' is not a client id; `tern-aggregator clients` lists them", text);
}

int tern_state_fail_for_client(struct tern_cli *cli, struct tern_db *db, uint64_t id,
                               enum tern_result result)
{
    if (result != TERN_ERR_NOT_FOUND) {
        return tern_state_fail(cli, db, result);
    }
    tern_db_close(db);
    return tern_cli_fail(
        cli, result, "there is no client %" PRIu64 "; `tern-aggregator clients` lists them", id);
}

_Static_assert((int)TERN_DB_TAGS_MAX == (int)TERN_TAGS_MAX, "tags are stored as they are");

int tern_state_check_name(const struct tern_cli *cli, const char *what, const char *name,
                          size_t size)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789._-";
    char text[TERN_TEXT];
    if (isalpha((unsigned char)name[0]) && name[strspn(name, characters)] == '\0' &&
        strlen(name) < size) {
        return TERN_EXIT_OK;
    }
    return tern_cli_fail(cli, TERN_ERR_CONFIG,
                         "'%s' cannot be the name of a %s: begin with a letter; then letters, "
                         "digits, dots, underscores and hyphens, at most %zu",
                         tern_text_name(name, text), what, size - 1);
}

int tern_state_tags(struct tern_cli *cli, const char *text, char tags[TERN_DB_TAGS_MAX])
{
    char why[TERN_TAG_WHY_MAX] = "";
    return tern_cli_check(cli, tern_tags_parse(text, tags, why), "tags: %s", why);
}

uint64_t tern_now_ms(void)
{
    return tern_unix_ms();
}
