#include "admin/sso.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

// --- The setting

__attribute__((format(printf, 2, 3))) static enum tern_result fault(char why[256],
                                                                    const char *format, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(why, 256, "admin.sso: %s", text);
    return TERN_ERR_CONFIG;
}

// Returns where the value of this key is stored; NULL = the key is unknown.
static const char **place_of(struct tern_sso *sso, const char *key)
{
    if (strcmp(key, "user") == 0) {
        return &sso->user;
    }
    if (strcmp(key, "groups") == 0) {
        return &sso->groups;
    }
    if (strcmp(key, "origin") == 0) {
        return &sso->origin;
    }
    for (uint32_t role = TERN_ROLE_VIEWER; role < TERN_ROLES; role++) {
        if (strcmp(key, tern_role_name(role)) == 0) {
            return &sso->groups_of[role];
        }
    }
    return NULL;
}

// Reads "KEY=VALUE", and cuts it after the key.
static enum tern_result read_part(struct tern_sso *sso, char *part, char why[256])
{
    char *value = strchr(part, '=');
    if (value == NULL || value[1] == '\0') {
        return fault(why, "\"%.60s\" is not KEY=VALUE", part);
    }
    *value++ = '\0';
    const char **place = place_of(sso, part);
    if (place == NULL) {
        return fault(
            why,
            "the key \"%.40s\" is unknown; use user, groups, origin, viewer, operator and admin",
            part);
    }
    if (*place != NULL) {
        return fault(why, "%s occurs twice; separate the groups of a role by |", part);
    }
    *place = value;
    return TERN_OK;
}

static enum tern_result read_parts(struct tern_sso *sso, char why[256])
{
    for (char *part = sso->text, *next; part != NULL; part = next) {
        next = strchr(part, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        part += strspn(part, " ");
        for (size_t len = strlen(part); len > 0 && part[len - 1] == ' '; len--) {
            part[len - 1] = '\0';
        }
        TERN_TRY(read_part(sso, part, why));
    }
    return TERN_OK;
}

#define HEADER_NAME_MAX 63 // longest name that the listener's reader compares

// Refuses a name that no header can have, and a header that has another meaning in each request.
static enum tern_result check_header(const char *key, const char *name, char why[256])
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    static const char *const others[] = {"host",   "origin",         "authorization",
                                         "cookie", "content-length", "transfer-encoding",
                                         "range",  "content-range",  "expect"};
    if (name == NULL) {
        return fault(why, "%s=HEADER is missing: the header in which the proxy sends the user's %s",
                     key, strcmp(key, "user") == 0 ? "name" : "groups");
    }
    if (name[strspn(name, allowed)] != '\0' || strlen(name) > HEADER_NAME_MAX) {
        return fault(why, "%s=%.70s is no header: use up to %d letters, digits, - and _", key, name,
                     HEADER_NAME_MAX);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcasecmp(name, others[i]) == 0) {
            return fault(
                why, "%s=%s: this header has another meaning; name one that only the proxy sets",
                key, name);
        }
    }
    return TERN_OK;
}

// Returns the host of "http://HOST" or "https://HOST"; NULL for other texts.
static const char *host_of(const char *origin)
{
    const size_t scheme = strncmp(origin, "https://", 8) == 0  ? 8
                          : strncmp(origin, "http://", 7) == 0 ? 7
                                                               : 0;
    return scheme != 0 ? origin + scheme : NULL;
}

static enum tern_result check_origin(const char *origin, char why[256])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789.-:[]";
    if (origin == NULL) {
        return fault(why, "origin=URL is missing: the address of the dashboard in browsers, e.g. "
                          "https://tern.example.com");
    }
    const char *host = host_of(origin);
    if (host == NULL || *host == '\0' || host[strspn(host, allowed)] != '\0') {
        return fault(
            why,
            "origin=%.80s is not https://HOST or https://HOST:PORT in lower case, without a path",
            origin);
    }
    return TERN_OK;
}

static enum tern_result check_groups(struct tern_sso *sso, char why[256])
{
    size_t len = 0;
    for (uint32_t role = TERN_ROLE_VIEWER; role < TERN_ROLES; role++) {
        const char *groups = sso->groups_of[role];
        if (groups == NULL) {
            continue;
        }
        if (groups[0] == '|' || groups[strlen(groups) - 1] == '|' || strstr(groups, "||") != NULL) {
            return fault(why, "%s=%.80s has a group without a name", tern_role_name(role), groups);
        }
        len += (size_t)snprintf(sso->no_role + len, sizeof sso->no_role - len, "%s%s=%s",
                                len == 0 ? "The proxy sent no group of this user that has a role: "
                                         : ", ",
                                tern_role_name(role), groups);
    }
    if (len == 0) {
        return fault(why, "no group has a role; add viewer=GROUP, operator=GROUP or admin=GROUP");
    }
    snprintf(sso->no_role + len, sizeof sso->no_role - len, " (admin.sso).");
    return TERN_OK;
}

static enum tern_result check_address(const char *address, bool must_be_unix, char why[256])
{
    const bool is_unix = strncmp(address, "unix:", 5) == 0;
    if (must_be_unix && !is_unix) {
        snprintf(why, 256,
                 "admin.sso needs admin.address = unix:/path: every program of this machine can "
                 "connect to a port, and send the headers of a proxy");
        return TERN_ERR_CONFIG;
    }
    if (!is_unix && strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0) {
        snprintf(why, 256, "admin.address %s is not loopback (127.0.0.1, ::1) or unix:/path",
                 address);
        return TERN_ERR_CONFIG;
    }
    return TERN_OK;
}

enum tern_result tern_sso_read(const char *address, const char *setting, struct tern_sso *sso,
                               char why[256])
{
    memset(sso, 0, sizeof *sso);
    TERN_TRY(check_address(address, setting[0] != '\0', why));
    if (setting[0] == '\0') {
        return TERN_OK;
    }
    if (strlen(setting) >= sizeof sso->text) {
        return fault(why, "the setting is longer than %zu bytes", sizeof sso->text - 1);
    }
    memcpy(sso->text, setting, strlen(setting) + 1);
    TERN_TRY(read_parts(sso, why));
    TERN_TRY(check_header("user", sso->user, why));
    TERN_TRY(check_header("groups", sso->groups, why));
    if (strcasecmp(sso->user, sso->groups) == 0) {
        return fault(why, "user and groups are the same header, %s", sso->user);
    }
    TERN_TRY(check_origin(sso->origin, why));
    return check_groups(sso, why);
}

// --- Requests

#define PREFIX "sso:"

// Whether the audit log can have the name. Commas separate the values of a header that a proxy has merged from two, one
// of which can be the client's.
static bool is_user(const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] > '~' || strchr(",;\"\\", name[i]) != NULL) {
            return false;
        }
    }
    return len > 0 && len < TERN_DB_WHO_MAX - strlen(PREFIX);
}

// Whether the list "GROUP|GROUP" has the group of this length.
static bool has_group(const char *list, const char *group, size_t len)
{
    while (list != NULL && *list != '\0') {
        const size_t here = strcspn(list, "|");
        if (here == len && memcmp(list, group, len) == 0) {
            return true;
        }
        list += here + (list[here] == '|');
    }
    return false;
}

// Returns the highest role of the groups "GROUP, GROUP".
static enum tern_role role_of(const struct tern_sso *sso, const char *groups)
{
    enum tern_role highest = TERN_ROLE_NONE;
    while (*groups != '\0') {
        groups += strspn(groups, " \t,");
        size_t len = strcspn(groups, ",");
        const char *next = groups + len;
        while (len > 0 && (groups[len - 1] == ' ' || groups[len - 1] == '\t')) {
            len--;
        }
        for (enum tern_role role = TERN_ROLE_VIEWER; role < TERN_ROLES; role++) {
            if (role > highest && has_group(sso->groups_of[role], groups, len)) {
                highest = role;
            }
        }
        groups = next;
    }
    return highest;
}

// Whether the request has credentials of its own. Proxies can send "Basic", which this listener never accepts.
static bool has_credentials(const char *authorization)
{
    return strncasecmp(authorization, "Bearer ", 7) == 0 ||
           strncasecmp(authorization, "Session ", 8) == 0;
}

int tern_sso_admit(const struct tern_sso *sso, const struct tern_http_request *request,
                   bool changes, struct tern_db_actor *caller, const char **why)
{
    *caller = (struct tern_db_actor){.role = TERN_ROLE_NONE};
    if (!is_user(request->user)) {
        *why = "The proxy's header of the user has no name of 1 to 59 ASCII characters without "
               "spaces, commas, semicolons, quotes and backslashes (admin.sso).";
        return 400;
    }
    if (has_credentials(request->authorization)) {
        *why = "The request has a token or a session, and the proxy's header of the user "
               "(admin.sso). Send one of them.";
        return 400;
    }
    if (strcasecmp(host_of(sso->origin), request->host) != 0) {
        *why = "The header Host is not that of origin= in admin.sso. Let the proxy keep the "
               "browser's Host.";
        return 421;
    }
    const enum tern_role role = role_of(sso, request->groups);
    if (role == TERN_ROLE_NONE) {
        *why = sso->no_role;
        return 403;
    }
    if (changes && strcasecmp(sso->origin, request->origin) != 0) {
        *why = "A change needs the header Origin that is origin= in admin.sso; programs send a "
               "token instead.";
        return 403;
    }
    snprintf(caller->who, sizeof caller->who, PREFIX "%s", request->user);
    caller->role = role;
    return 0;
}
