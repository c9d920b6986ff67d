// One client of an app, as Swift imports it: opaque, with nullability, without unions, bit fields and macros that stand for values.
// It trains a built-in model on rows of float32 by libtern-client. One thread at a time calls a client; tern_app_cancel() may be
// called by any other.
#ifndef TERN_APP_H
#define TERN_APP_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang assume_nonnull begin
#define TERN_APP_NULLABLE _Nullable
#else
#define TERN_APP_NULLABLE
#endif

// An enumeration with a fixed type, where the language has it: Objective-C, which Swift reads headers as, and C++.
#if defined(__OBJC__) || defined(__cplusplus)
#define TERN_APP_ENUM(name) enum name : int32_t
#else
#define TERN_APP_ENUM(name) enum name
#endif

#ifdef __cplusplus
extern "C" {
#endif

// How a call has ended.
TERN_APP_ENUM(tern_app_outcome){
    TERN_APP_FAILED = 0,    // tern_app_why() has the sentence
    TERN_APP_DONE = 1,      // enrolled; or the aggregator has accepted the update
    TERN_APP_LATE = 2,      // the update came after the round's end
    TERN_APP_REFUSED = 3,   // the aggregator has refused the update
    TERN_APP_WAITING = 4,   // the aggregator has no task now
    TERN_APP_CANCELLED = 5, // tern_app_cancel() was called: the next call continues
    TERN_APP_FINISHED = 6   // the federation has completed its rounds
};

typedef struct tern_app tern_app;

// Called for each event of the client. name: the event's name in logs, for example "uploaded". bytes of "progress": those of a
// transfer that have moved.
typedef void (*tern_app_listener)(void *TERN_APP_NULLABLE ctx, const char *name, uint32_t round,
                                  uint64_t bytes);

// Opens the client in `folder`, which is made where it is missing. server: "https://host:port". ca_file: trusted CAs in PEM; NULL:
// the system's. rows: [count][columns], labels: [count] from 0 to classes - 1; both are borrowed until tern_app_close(). Returns
// NULL after a failure, whose sentence is in why[0..why_size).
tern_app *TERN_APP_NULLABLE tern_app_open(const char *server, const char *TERN_APP_NULLABLE ca_file,
                                          const char *folder, const float *rows,
                                          const uint16_t *labels, uint32_t count, uint32_t columns,
                                          uint32_t classes,
                                          tern_app_listener TERN_APP_NULLABLE listener,
                                          void *TERN_APP_NULLABLE ctx, char *why,
                                          uint32_t why_size);

// Returns whether the app's conditions allow work now. Called before requests and local steps, and after every 16 KB of a
// transfer, so it must be fast.
typedef bool (*tern_app_conditions)(void *TERN_APP_NULLABLE ctx);

// Makes the client work only while `conditions` returns true: else a round ends as TERN_APP_WAITING. Call it between rounds.
void tern_app_set_conditions(tern_app *app, tern_app_conditions conditions,
                             void *TERN_APP_NULLABLE ctx);

// Returns whether the client has enrolled, now or in an earlier process.
bool tern_app_is_enrolled(const tern_app *app);

// Enrols with a join code.
enum tern_app_outcome tern_app_enroll(tern_app *app, const char *code);

// Takes part in one round, as io.tern.TernClient.runRound() does. Blocks.
enum tern_app_outcome tern_app_run_round(tern_app *app);

// Cancels the call in progress or, if there is none, the next one.
void tern_app_cancel(tern_app *app);

// Returns why the last call has failed; valid until the next call.
const char *tern_app_why(const tern_app *app);

// Returns the name of the last call's result: "ok", "network", "unauthorized" and so on.
const char *tern_app_result(const tern_app *app);

// Returns the milliseconds after which another call like the last one may get further; UINT32_MAX: never, or only after a change,
// such as another join code.
uint32_t tern_app_wait_ms(const tern_app *app);

// Returns all bytes on the wire since enrolment, both directions.
uint64_t tern_app_wire_bytes(const tern_app *app);

// Frees the client. Its folder stays.
void tern_app_close(tern_app *app);

#ifdef __cplusplus
}
#endif

#if defined(__clang__)
#pragma clang assume_nonnull end
#endif

#endif
