// Single sign-on: a proxy has authenticated the user, and sends the user's name and groups in two headers of each request.
// The channel is what makes them true: the listener is a unix socket whose mode lets only its owner and its group connect,
// and it reads these headers on no other address. Called by admin/, on the one thread of the admin listener.
#ifndef TERN_ADMIN_SSO_H
#define TERN_ADMIN_SSO_H

#include "http/http.h"
#include "result.h"
#include "store/store.h"
#include <stdbool.h>

#define TERN_SSO_MAX 512 // bytes of the setting, with its NUL

// The setting admin.sso, split. Must stay where it is: the members point to `text`.
struct tern_sso {
    char text[TERN_SSO_MAX];
    const char *user;                  // header of the user's name; NULL = no single sign-on
    const char *groups;                // header of the user's groups, separated by commas
    const char *origin;                // what browsers send as Origin: "https://HOST[:PORT]"
    const char *groups_of[TERN_ROLES]; // "GROUP|GROUP|..."; NULL = no group gives this role
    char no_role[TERN_SSO_MAX + 128];  // sentence for a user without a role; names the groups
};

// Checks the setting admin.address, and reads admin.sso; "" = no single sign-on. The listener has no TLS and must not leave
// this machine: its address is loopback or a unix socket, and a unix socket with single sign-on.
// TERN_ERR_CONFIG  `why` has the fault
TERN_MUST_USE enum tern_result tern_sso_read(const char *address, const char *setting,
                                             struct tern_sso *sso, char why[256]);

// Authenticates a request that has the header of the user's name, as tern_admin_admit() does.
int tern_sso_admit(const struct tern_sso *sso, const struct tern_http_request *request,
                   bool changes, struct tern_db_actor *caller, const char **why);

#endif
