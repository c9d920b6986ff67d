// The setting admin.sso, and the role or refusal of each request with a proxy's headers.
#include "admin/sso.h"

#include "tests/cases.h"
#include <stdio.h>
#include <string.h>

#define SETTING                                                                                    \
    "user=X-User, groups=X-Groups,origin=https://tern.example,viewer=staff|lab staff,"             \
    "operator=ops,admin=/tern/admins"

#define NAME_59 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456"

CASE(test_setting_is_split)
{
    struct tern_sso sso;
    char why[256] = "";
    assert_int_equal(tern_sso_read("unix:a", "", &sso, why), TERN_OK);
    assert_null(sso.user);
    assert_int_equal(tern_sso_read("unix:a", SETTING, &sso, why), TERN_OK);
    assert_string_equal(sso.user, "X-User");
    assert_string_equal(sso.groups, "X-Groups");
    assert_string_equal(sso.origin, "https://tern.example");
    assert_string_equal(sso.groups_of[TERN_ROLE_ADMIN], "/tern/admins");
    assert_null(sso.groups_of[TERN_ROLE_NONE]);
}

CASE(test_wrong_settings_are_refused)
{
#define REST ",origin=https://a,viewer=v"
    static const struct {
        const char *setting;
        const char *says;
    } cases[] = {
        {"on", "\"on\" is not KEY=VALUE"},
        {"user=,groups=G" REST, "\"user=\" is not KEY=VALUE"},
        {"user=U,groups=G,", "\"\" is not KEY=VALUE"},
        {"user=U,groups=G,owner=o" REST, "the key \"owner\" is unknown"},
        {"user=U,groups=G,none=o" REST, "the key \"none\" is unknown"},
        {"user=U,user=V,groups=G" REST, "user occurs twice"},
        {"user=U,groups=G,viewer=w" REST,
         "viewer occurs twice; separate the groups of a role by |"},
        {"groups=G" REST, "user=HEADER is missing"},
        {"user=U" REST, "groups=HEADER is missing"},
        {"user=U,groups=G,viewer=v", "origin=URL is missing"},
        {"user=X User,groups=G" REST, "user=X User is no header"},
        {"user=" NAME_59 "12345,groups=G" REST, "is no header"},
        {"user=U,groups=Cookie" REST, "groups=Cookie: this header has another meaning"},
        {"user=host,groups=G" REST, "another meaning"},
        {"user=U,groups=u" REST, "the same header"},
        {"user=U,groups=G,viewer=v,origin=tern.example", "origin=tern.example is not https://HOST"},
        {"user=U,groups=G,viewer=v,origin=https://", "is not https://HOST"},
        {"user=U,groups=G,viewer=v,origin=https://a/", "is not https://HOST"},
        {"user=U,groups=G,viewer=v,origin=https://A", "in lower case"},
        {"user=U,groups=G,origin=https://a", "no group has a role"},
        {"user=U,groups=G,origin=https://a,admin=a||b", "admin=a||b has a group without a name"},
        {"user=U,groups=G,origin=https://a,admin=|", "without a name"},
        {"user=U,groups=G,origin=https://a,admin=a|", "without a name"},
    };
    struct tern_sso sso;
    char why[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        why[0] = '\0';
        const enum tern_result result = tern_sso_read("unix:a", cases[i].setting, &sso, why);
        if (result != TERN_ERR_CONFIG || strncmp(why, "admin.sso: ", 11) != 0 ||
            strstr(why, cases[i].says) == NULL) {
            fail_msg("%s: %d %s", cases[i].setting, (int)result, why);
        }
    }
    char longest[TERN_SSO_MAX + 1];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(tern_sso_read("unix:a", longest, &sso, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "longer than 511 bytes"));
}

enum { READS = 0, CHANGES = 1 };

static const struct {
    const char *user;
    const char *groups;
    const char *authorization;
    const char *host;
    const char *origin;
    int changes;
    int status;
    enum tern_role role;
    const char *says;
} requests[] = {
#define HOST "tern.example"
#define ORIGIN "https://tern.example"
    // Groups
    {"ann", "staff", "", HOST, "", READS, 0, TERN_ROLE_VIEWER, NULL},
    {"ann", "lab staff", "", HOST, "", READS, 0, TERN_ROLE_VIEWER, NULL},
    {"ann", "ops", "", HOST, "", READS, 0, TERN_ROLE_OPERATOR, NULL},
    {"ann", "/tern/admins", "", HOST, "", READS, 0, TERN_ROLE_ADMIN, NULL},
    {"ann", "x,/tern/admins,staff", "", HOST, "", READS, 0, TERN_ROLE_ADMIN, NULL},
    {"ann", "staff , ops\t", "", "TERN.example", "", READS, 0, TERN_ROLE_OPERATOR, NULL},
    {"ann", ",,ops,", "", HOST, "", READS, 0, TERN_ROLE_OPERATOR, NULL},
    {"ann", "", "", HOST, "", READS, 403, TERN_ROLE_NONE,
     "no group of this user that has a role: viewer=staff|lab staff, operator=ops, "
     "admin=/tern/admins"},
    {"ann", "Ops", "", HOST, "", READS, 403, TERN_ROLE_NONE, "operator=ops"},
    {"ann", "ops2,op,staff|lab staff,lab", "", HOST, "", READS, 403, TERN_ROLE_NONE,
     "operator=ops"},
    {"ann", "ops|staff", "", HOST, "", READS, 403, TERN_ROLE_NONE, "operator=ops"},
    // Names
    {"ann@example.com", "ops", "", HOST, "", READS, 0, TERN_ROLE_OPERATOR, NULL},
    {"auth0|1", "ops", "", HOST, "", READS, 0, TERN_ROLE_OPERATOR, NULL},
    {NAME_59, "ops", "", HOST, "", READS, 0, TERN_ROLE_OPERATOR, NULL},
    {NAME_59 "7", "ops", "", HOST, "", READS, 400, TERN_ROLE_NONE, "1 to 59"},
    {"", "ops", "", HOST, "", READS, 400, TERN_ROLE_NONE, "1 to 59"},
    {"ann b", "ops", "", HOST, "", READS, 400, TERN_ROLE_NONE, "spaces"},
    {"eve,ann", "ops", "", HOST, "", READS, 400, TERN_ROLE_NONE, "commas"},
    {"j\xc3\xb6rg", "ops", "", HOST, "", READS, 400, TERN_ROLE_NONE, "ASCII"},
    {"ann\t", "ops", "", HOST, "", READS, 400, TERN_ROLE_NONE, "ASCII"},
    {"\"ann\"", "ops", "", HOST, "", READS, 400, TERN_ROLE_NONE, "quotes"},
    // Credentials of its own
    {"ann", "ops", "Bearer a-token", HOST, "", READS, 400, TERN_ROLE_NONE, "Send one of them"},
    {"ann", "ops", "bearer ", HOST, "", READS, 400, TERN_ROLE_NONE, "Send one of them"},
    {"ann", "ops", "Session key", HOST, "", READS, 400, TERN_ROLE_NONE, "Send one of them"},
    {"ann", "ops", "Basic YTpi", HOST, "", READS, 0, TERN_ROLE_OPERATOR, NULL},
    // The host in the browser
    {"ann", "ops", "", "localhost", "", READS, 421, TERN_ROLE_NONE, "The header Host"},
    {"ann", "ops", "", "evil.example", "", READS, 421, TERN_ROLE_NONE, "The header Host"},
    {"ann", "ops", "", HOST ":8443", "", READS, 421, TERN_ROLE_NONE, "The header Host"},
    // Changes by other pages
    {"ann", "ops", "", HOST, ORIGIN, CHANGES, 0, TERN_ROLE_OPERATOR, NULL},
    {"ann", "ops", "", HOST, "", CHANGES, 403, TERN_ROLE_NONE, "Origin"},
    {"ann", "ops", "", HOST, "null", CHANGES, 403, TERN_ROLE_NONE, "Origin"},
    {"ann", "ops", "", HOST, "http://tern.example", CHANGES, 403, TERN_ROLE_NONE, "Origin"},
    {"ann", "ops", "", HOST, "https://evil.example", CHANGES, 403, TERN_ROLE_NONE, "Origin"},
    {"ann", "ops", "", HOST, ORIGIN ".evil.example", CHANGES, 403, TERN_ROLE_NONE, "Origin"},
};

CASE(test_role_or_refusal_of_each_request)
{
    struct tern_sso sso;
    char why[256] = "";
    assert_int_equal(tern_sso_read("unix:a", SETTING, &sso, why), TERN_OK);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        const struct tern_http_request request = {.user = requests[i].user,
                                                  .groups = requests[i].groups,
                                                  .authorization = requests[i].authorization,
                                                  .host = requests[i].host,
                                                  .origin = requests[i].origin};
        struct tern_db_actor caller;
        const char *sentence = NULL;
        char who[80] = "";
        const int status =
            tern_sso_admit(&sso, &request, requests[i].changes == CHANGES, &caller, &sentence);
        if (status == 0) {
            snprintf(who, sizeof who, "sso:%s", requests[i].user);
        }
        if (status != requests[i].status || caller.role != requests[i].role ||
            strcmp(caller.who, who) != 0 ||
            (requests[i].says != NULL &&
             (sentence == NULL || strstr(sentence, requests[i].says) == NULL))) {
            fail_msg("request %zu: %d, %s, %s: %s", i, status, caller.who,
                     tern_role_name((uint32_t)caller.role), sentence != NULL ? sentence : "");
        }
    }
}
