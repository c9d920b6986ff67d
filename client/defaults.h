// The default durations of a client, and the size above which a broken upload continues. Each duration is available as a
// number, for tern_client_init(), and as text, for the settings of tern-client.
#ifndef TERN_CLIENT_DEFAULTS_H
#define TERN_CLIENT_DEFAULTS_H

// TERN_CLIENT_RETRY_MIN(TERN_AS_MS) is 1000u, TERN_CLIENT_RETRY_MIN(TERN_AS_TEXT) is "1s".
#define TERN_AS_MS(count, unit) (count * TERN_MS_OF_##unit)
#define TERN_AS_TEXT(count, unit) #count #unit
#define TERN_MS_OF_s 1000u
#define TERN_MS_OF_m 60000u
#define TERN_MS_OF_h 3600000u

#define TERN_CLIENT_TIMEOUT(as) as(1, m)
#define TERN_CLIENT_RETRY_MIN(as) as(1, s)
#define TERN_CLIENT_RETRY_MAX(as) as(5, m)
#define TERN_CLIENT_LOOK_AGAIN(as) as(30, s)
#define TERN_CLIENT_BUDGET_WAIT(as) as(1, h)

// Aggregators keep partial request bodies of more than this many bytes (docs/PROTOCOL.md).
#define TERN_CLIENT_RESUME_UPLOAD_ABOVE 65536u

#endif
