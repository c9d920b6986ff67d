// Calls the C interface of bindings/swift as TernClient.swift does: app SERVER CA-FILE FOLDER CODE BUSY-SERVER
// RESETTING-SERVER OTHER-CA-FILE.
#include "tern_app.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned uploads;
static unsigned failures;
static const char *last_event = "";

static void on_event(void *ctx, const char *name, uint32_t round, uint64_t bytes)
{
    last_event = name;
    failures += strcmp(name, "failure") == 0;
    *(unsigned *)ctx += strcmp(name, "uploaded") == 0 && round > 0 && bytes > 0;
}

static bool is_charging(void *ctx)
{
    return *(const bool *)ctx;
}

static int fail(const char *what, const char *why)
{
    printf("%s: %s\n", what, why);
    return 1;
}

// Enrols a new client, and compares the result and the time to come back.
static bool enroll_fails(const char *server, const char *ca_file, const char *folder,
                         const char *result, uint32_t wait_ms)
{
    static const float row[] = {0.9f, 0.1f};
    static const uint16_t label[] = {0};
    char why[512] = "";
    tern_app *app =
        tern_app_open(server, ca_file, folder, row, label, 1, 2, 2, NULL, NULL, why, sizeof why);
    const bool right =
        app != NULL && tern_app_enroll(app, "aaaa-bbbb-cccc-dddd") == TERN_APP_FAILED &&
        strcmp(tern_app_result(app), result) == 0 && tern_app_wait_ms(app) == wait_ms;
    if (!right) {
        printf("not %s, %u ms but %s, %u ms: %s\n", result, (unsigned)wait_ms,
               app != NULL ? tern_app_result(app) : why,
               app != NULL ? (unsigned)tern_app_wait_ms(app) : 0,
               app != NULL ? tern_app_why(app) : "");
    }
    if (app != NULL) {
        tern_app_close(app);
    }
    return right;
}

int main(int argc, char **argv)
{
    static const float rows[] = {0.9f, 0.1f, 0.2f, 0.8f, 0.7f, 0.3f, 0.1f, 0.9f};
    static const uint16_t labels[] = {0, 1, 0, 1};
    char why[512] = "";
    if (argc != 8) {
        return 2;
    }
    if (!enroll_fails(argv[5], argv[2], argv[3], "busy", 30000) ||
        !enroll_fails(argv[6], argv[2], argv[3], "network", 1000) ||
        !enroll_fails(argv[1], argv[7], argv[3], "tls", UINT32_MAX)) {
        return 1;
    }
    tern_app *app = tern_app_open(argv[1], argv[2], argv[3], rows, labels, 4, 2, 2, on_event,
                                  &uploads, why, sizeof why);
    if (app == NULL) {
        return fail("open", why);
    }
    if (tern_app_run_round(app) != TERN_APP_FAILED ||
        strstr(tern_app_why(app), "join code") == NULL) {
        return fail("a round before the enrolment", tern_app_why(app));
    }
    if (tern_app_enroll(app, "aaaa-bbbb-cccc-dddd") != TERN_APP_FAILED ||
        strstr(tern_app_why(app), "HTTP 4") == NULL || tern_app_wait_ms(app) != UINT32_MAX) {
        return fail("a wrong code", tern_app_why(app));
    }
    char longest[300];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    if (tern_app_enroll(app, longest) != TERN_APP_FAILED ||
        strstr(tern_app_why(app), "the join code is longer") == NULL ||
        tern_app_wait_ms(app) != UINT32_MAX) {
        return fail("a long code", tern_app_why(app));
    }
    if (tern_app_enroll(app, argv[4]) != TERN_APP_DONE || !tern_app_is_enrolled(app)) {
        return fail("enroll", tern_app_why(app));
    }
    tern_app_cancel(app);
    if (tern_app_run_round(app) != TERN_APP_CANCELLED) {
        return fail("cancel", tern_app_why(app));
    }
    bool charges = false;
    tern_app_set_conditions(app, is_charging, &charges);
    if (tern_app_run_round(app) != TERN_APP_WAITING || strcmp(last_event, "paused") != 0) {
        return fail("conditions", last_event);
    }
    charges = true;
    enum tern_app_outcome outcome = TERN_APP_WAITING;
    for (int i = 0; i < 500 && (outcome == TERN_APP_DONE || outcome == TERN_APP_WAITING); i++) {
        outcome = tern_app_run_round(app);
        if (strcmp(last_event, "task") == 0) {
            return fail("a round", "it has taken a task that it did not train");
        }
        (void)usleep(outcome == TERN_APP_WAITING ? 10000 : 0);
    }
    if (tern_app_wait_ms(app) != UINT32_MAX || strcmp(tern_app_result(app), "ok") != 0) {
        return fail("the end", tern_app_result(app));
    }
    printf("outcome=%d uploads=%u wire=%u\n", (int)outcome, uploads,
           (unsigned)tern_app_wire_bytes(app));
    tern_app_close(app);
    // The same client without a network: it repeats its request for ten seconds, and later calls do not.
    app = tern_app_open("https://127.0.0.1:1", argv[2], argv[3], rows, labels, 4, 2, 2, on_event,
                        &uploads, why, sizeof why);
    for (int i = 0; i < 3; i++) {
        failures = 0;
        if (app == NULL || tern_app_run_round(app) != TERN_APP_FAILED ||
            strcmp(tern_app_result(app), "network") != 0 || failures < (i == 0 ? 4u : 1u) ||
            failures > (i == 0 ? 5u : 1u) || tern_app_wait_ms(app) == 0 ||
            tern_app_wait_ms(app) == UINT32_MAX) {
            return fail("no network", app == NULL ? why : tern_app_why(app));
        }
    }
    tern_app_close(app);
    return 0;
}
