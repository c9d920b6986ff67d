// The one list of result codes. Every fallible function of Tern returns an
// enum tern_result; nothing uses errno or -1. Safe from any thread.
#ifndef TERN_RESULT_H
#define TERN_RESULT_H

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_MUST_USE __attribute__((warn_unused_result))

// X(symbol, wire name, one sentence for a person)
#define TERN_RESULT_LIST(X)                                                                        \
    X(TERN_OK, "ok", "It worked.")                                                                 \
    X(TERN_AGAIN, "again", "Not finished yet; call again.")                                        \
    X(TERN_ERR_ARGUMENT, "bad-argument", "An argument is outside its documented range.")           \
    X(TERN_ERR_CORRUPT, "corrupt", "The bytes are damaged or not of the documented format.")       \
    X(TERN_ERR_UNKNOWN, "unknown",                                                                 \
      "A codec, mode or field has an id that this version does not "                               \
      "know.")                                                                                     \
    X(TERN_ERR_NON_FINITE, "non-finite", "The values hold NaN, an infinity, or overflow float32.") \
    X(TERN_ERR_TOO_LARGE, "too-large", "It is larger than the configured limit.")                  \
    X(TERN_ERR_NO_SPACE, "no-space", "The buffer given is too small.")                             \
    X(TERN_ERR_NOT_FOUND, "not-found", "There is no such thing.")                                  \
    X(TERN_ERR_CONFLICT, "conflict", "Other bytes are already stored under this key.")             \
    X(TERN_ERR_LATE, "late", "The round is closed; the update was not applied.")                   \
    X(TERN_ERR_UNKNOWN_ROUND, "unknown-round", "There is no such round.")                          \
    X(TERN_ERR_WRONG_REPLICA, "wrong-replica", "The update was trained from another replica.")     \
    X(TERN_ERR_NOT_IN_COHORT, "not-in-cohort", "The client was not asked to train this round.")    \
    X(TERN_ERR_NORM_LIMIT, "norm-limit", "The update's norm is over the configured limit.")        \
    X(TERN_ERR_UNAUTHORIZED, "unauthorized", "The credentials are missing, wrong or revoked.")     \
    X(TERN_ERR_BUSY, "busy", "The peer has reached a limit; try again later.")                     \
    X(TERN_ERR_NETWORK, "network", "The connection failed or was cut.")                            \
    X(TERN_ERR_TLS, "tls", "TLS failed: the peer could not be verified or broke the protocol.")    \
    X(TERN_ERR_HTTP, "http", "The peer answered with an HTTP status that has no meaning here.")    \
    X(TERN_ERR_IO, "io", "Reading or writing storage failed.")                                     \
    X(TERN_ERR_CONFIG, "config", "A setting is unknown, malformed or out of range.")               \
    X(TERN_ERR_BUDGET, "budget",                                                                   \
      "The byte budget is too small for this transfer now (see budget.*).")                        \
    X(TERN_ERR_MODEL_MISMATCH, "model-mismatch",                                                   \
      "The model or trainer differs from the "                                                     \
      "federation's.")                                                                             \
    X(TERN_ERR_TRAINER, "trainer", "The trainer failed or diverged.")                              \
    X(TERN_ERR_NO_MEMORY, "no-memory", "Memory could not be had.")                                 \
    X(TERN_ERR_STATE, "bad-state", "The call is not allowed in the present state.")                \
    X(TERN_ERR_CANCELLED, "cancelled", "The program has cancelled it; it can be repeated.")        \
    X(TERN_ERR_FORBIDDEN, "forbidden", "The credentials are valid, and do not allow this.")

enum tern_result {
#define TERN_RESULT_ENUM(symbol, name, sentence) symbol,
    TERN_RESULT_LIST(TERN_RESULT_ENUM)
#undef TERN_RESULT_ENUM
        TERN_RESULT_COUNT
};

// Returns the name used on the wire, in logs and in metrics ("late"). Static string.
const char *tern_result_name(enum tern_result result);

// Returns one sentence for people. Static string.
const char *tern_result_sentence(enum tern_result result);

// Returns the code with that name, or TERN_ERR_UNKNOWN.
enum tern_result tern_result_from_name(const char *name);

// Returns the value of `expression` from the enclosing function if it is not TERN_OK.
#define TERN_TRY(expression)                                                                       \
    do {                                                                                           \
        enum tern_result tern_try_result_ = (expression);                                          \
        if (tern_try_result_ != TERN_OK) {                                                         \
            return tern_try_result_;                                                               \
        }                                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
