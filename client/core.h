// What the files of the client core share among themselves. Programs include client.h only.
// Thread rule: as client.h.
#ifndef TERN_CLIENT_CORE_H
#define TERN_CLIENT_CORE_H

#include "client.h"
#include "codec/container_source.h"
#include "meter/price.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records hold float32 values as the processor does: little-endian is assumed"
#endif

// What only some codecs need, for the compiler to leave out.
#define TERN_CLIENT_MOMENTUM TERN_CODEC_BUILT(TERN_CODEC_DGC)
#define TERN_CLIENT_SHARING TERN_CODEC_BUILT(TERN_CODEC_SCALECOM)

// A reason in an event.
#if TERN_FOR_PEOPLE
#define TERN_WHY(sentence) sentence
#else
#define TERN_WHY(sentence) ""
#endif

// Calls go one way: client.c calls the phases; they and follow.c, which reads answers for them, call
// exchange.c, budget.c, partial.c, anchor.c and wait.c; these records.c, and all of them workspace.c and events.c. A
// phase never calls another, it sets client->phase.

// --- Events and waiting (events.c, phases/wait.c)

// A connection that idles longer is likely dead at some address translator on the way; opening a
// new one with a ticket costs less than finding that out by a timeout.
#define TERN_CLIENT_CLOSE_AFTER_MS 600000

void tern_client_emit(const struct tern_client *client, const struct tern_client_event *event);

uint64_t tern_client_now_ms(const struct tern_client *client);

// `ms` and at random up to `most` more, so that clients that were told the same do not return as
// one.
uint32_t tern_client_spread(struct tern_client *client, uint32_t ms, uint32_t most);

// Whether the conditions allow the next piece of work (phases/pause.c); client->conditions is what
// they are. TERN_AGAIN: not now; looked at again after config.look_again_ms. Says when that begins
// and when it ends.
TERN_MUST_USE enum tern_result tern_client_allowed(struct tern_client *client);

// Does nothing for `ms` (at least 100, at most a day) and says why. Returns TERN_AGAIN.
TERN_MUST_USE enum tern_result tern_client_wait(struct tern_client *client, uint32_t ms,
                                                const char *why);

// Tries again after a failure: exponential backoff with jitter, or what Retry-After asks for.
// Returns TERN_AGAIN.
TERN_MUST_USE enum tern_result tern_client_trouble(struct tern_client *client,
                                                   enum tern_result result, const char *why);

// The same, and forgets the task: the client goes on with a check-in.
TERN_MUST_USE enum tern_result tern_client_drop_task(struct tern_client *client,
                                                     enum tern_result result, const char *why);

// The same, where training made no update: the next check-in reports it.
TERN_MUST_USE enum tern_result tern_client_fail_task(struct tern_client *client,
                                                     enum tern_result result, const char *why);

// --- Requests (exchange.c)

// Prepares client->request and client->response; the reply goes to client->reply.
void tern_client_request(struct tern_client *client, enum tern_purpose purpose, const char *method,
                         const char *path);

// Runs the prepared exchange and counts its bytes. TERN_AGAIN while it is under way.
// TERN_OK: an answer arrived. Otherwise an error of tern_transport.exchange.
TERN_MUST_USE enum tern_result tern_client_exchange(struct tern_client *client);

// What the answer says.
// TERN_OK                2xx
// TERN_ERR_UNAUTHORIZED  401, 403
// TERN_ERR_BUSY          429, 503
// TERN_ERR_HTTP          5xx, and any answer that is not one of Tern's
// another code           refused: the name in its Error body
TERN_MUST_USE enum tern_result tern_client_answer(const struct tern_client *client);

// Whether the body that arrived goes on where the request asked it to, as one of an aggregator that
// ignores a Range header does not.
static inline bool tern_client_continues(const struct tern_client *client)
{
    const int status = client->response.status;
    return status == 206 || (status == 200 && client->request.range_from == 0);
}

// --- Downloads (phases/download.c, partial.c)

// The download in hand of the task.
const tern_DownloadRef *tern_client_download(const struct tern_client *client);

#if TERN_PARTIALS
// More bytes than this of downloads that were applied, and than this share of the replica's record,
// are not left to a kill: the replica is saved.
#define TERN_CLIENT_UNSAVED_MIN 65536u
#define TERN_CLIENT_UNSAVED_SHARE 16u

// Whether there is a partial download (ports.h). Without it nothing but tern_partial_drop() may be
// called.
bool tern_partial_kept(const struct tern_client *client);

// Makes the partial download that of `ref`; *have: bytes of it that are there. Errors of
// tern_partial.open.
TERN_MUST_USE enum tern_result tern_partial_open(const struct tern_client *client,
                                                 const tern_DownloadRef *ref, size_t *have);

// Has the answer to client->request, which asks for the rest of it, appended to it.
void tern_partial_receive(struct tern_client *client);

// Whether it is whole and has the SHA-256 of `ref`. TERN_ERR_CORRUPT, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_partial_check(const struct tern_client *client,
                                                  const tern_DownloadRef *ref);

// Points *data at its first `len` bytes, until the next call.
TERN_MUST_USE enum tern_result tern_partial_view(const struct tern_client *client, size_t len,
                                                 const uint8_t **data);

// The container of `len` bytes that begins behind its first client->container_at bytes, which is
// never in memory as a whole.
struct tern_container_source tern_partial_container(struct tern_client *client, size_t len);

void tern_partial_drop(struct tern_client *client);
#else
static inline void tern_partial_drop(struct tern_client *client)
{
    (void)client;
}
#endif

// --- Variance reduction (anchor.c)

#if TERN_VARIANCE_REDUCTION
// The record's anchor, if it has one. Errors of the store.
TERN_MUST_USE enum tern_result tern_anchor_restore(struct tern_client *client);
void tern_anchor_forget(struct tern_client *client);

// Before the update of a full gradient is saved: its base is the anchor, and is in its record. Errors of the store, as
// of the next one.
TERN_MUST_USE enum tern_result tern_anchor_take(struct tern_client *client);

// Where the replica is the version after the anchor: how far that is from the anchor is in its record.
TERN_MUST_USE enum tern_result tern_anchor_measure(struct tern_client *client);

// Whether the client can do tasks that build on its anchor, as far as it knows.
bool tern_anchor_is_held(const struct tern_client *client);

// Whether the task in hand is to be trained at the anchor first; before and after that.
// TERN_ERR_WRONG_REPLICA  another anchor than the task's is held; errors of the store
bool tern_anchor_is_due(const struct tern_client *client);
TERN_MUST_USE enum tern_result tern_anchor_begin(struct tern_client *client);
void tern_anchor_trained(struct tern_client *client);

// Adds to the local change of such a task what was found at the anchor.
void tern_anchor_add(const struct tern_client *client, float *change, uint32_t count);
#else
static inline enum tern_result tern_anchor_take(struct tern_client *client)
{
    (void)client;
    return TERN_OK;
}
static inline bool tern_anchor_is_due(const struct tern_client *client)
{
    (void)client;
    return false;
}
static inline void tern_anchor_trained(struct tern_client *client)
{
    (void)client;
}
static inline void tern_anchor_add(const struct tern_client *client, float *change, uint32_t count)
{
    (void)client;
    (void)change;
    (void)count;
}
#endif

// --- Records (records.c)

// Each returns the store's errors; loads also TERN_ERR_NOT_FOUND, TERN_ERR_CORRUPT, and
// TERN_ERR_STATE for a record of another enrolment or model.
TERN_MUST_USE enum tern_result tern_record_save_identity(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_identity(struct tern_client *client);
#if TERN_MANIFESTS
TERN_MUST_USE enum tern_result tern_record_save_manifest(struct tern_client *client,
                                                         const uint8_t *manifest, size_t len);
// TERN_ERR_NOT_FOUND  of no enrolment, or of another model; TERN_ERR_TOO_LARGE  above `size` bytes
TERN_MUST_USE enum tern_result tern_record_load_manifest(struct tern_client *client, uint8_t *dst,
                                                         size_t size, size_t *len);
#endif
#if TERN_STATISTICS
TERN_MUST_USE enum tern_result tern_record_save_scaling(struct tern_client *client,
                                                        struct tern_span scaling);
// TERN_ERR_NO_SPACE  above `size` bytes
TERN_MUST_USE enum tern_result tern_record_load_scaling(const struct tern_client *client,
                                                        uint8_t *dst, size_t size, size_t *len);
#endif
#if TERN_VARIANCE_REDUCTION
// Of the anchor, with its step once that is known; loading leaves the step in the store.
TERN_MUST_USE enum tern_result tern_record_save_anchor(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_anchor(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_anchor_step(const struct tern_client *client,
                                                            float *step);
#endif
TERN_MUST_USE enum tern_result tern_record_save_replica(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_replica(struct tern_client *client);
// Error buffer, velocity, generation, sequence and, when pending.len > 0, the update in the blob.
// Loading takes the blob for its own; then the update is where tern_client_update() says.
TERN_MUST_USE enum tern_result tern_record_save_upload(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_upload(struct tern_client *client);
#if TERN_PARTIALS
// The same record, made while the container is: begun, the container appended in pieces, and saved as
// a whole with the message that goes before it, of TERN_WIRE_OVERHEAD bytes at most.
bool tern_record_takes_pieces(const struct tern_client *client); // false: nothing of this is called
TERN_MUST_USE enum tern_result tern_record_begin_upload(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_append_upload(struct tern_client *client,
                                                         const uint8_t *data, size_t len);
// Points *container at what was appended so far, len >= 1 bytes, until the next call.
TERN_MUST_USE enum tern_result tern_record_view_container(const struct tern_client *client,
                                                          size_t len, const uint8_t **container);
TERN_MUST_USE enum tern_result tern_record_finish_upload(struct tern_client *client,
                                                         struct tern_span message);
void tern_record_drop_upload(struct tern_client *client); // in place of finishing it
#endif
// Only the velocity, after a change that is not to be kept.
TERN_MUST_USE enum tern_result tern_record_reload_velocity(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_save_settled(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_settled(struct tern_client *client,
                                                        uint32_t *generation, uint32_t *sequence);
TERN_MUST_USE enum tern_result tern_record_save_meter(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_meter(struct tern_client *client);

// --- Meter and budgets (budget.c)

// Loads the meter and counts from it on; from zero, and says so, where its record is damaged.
TERN_MUST_USE enum tern_result tern_client_restore_meter(struct tern_client *client);

// What `exchanges` requests with `bodies` bytes of bodies between them are expected to cost at most:
// the connection may have to be opened first.
static inline uint64_t tern_budget_cost(uint64_t bodies, uint32_t exchanges)
{
    return tern_price(TERN_PRICE_FULL, exchanges, bodies);
}

// Takes over what the transport counted, into the round, the month and all time.
void tern_budget_collect(struct tern_client *client);

void tern_budget_count_payload(struct tern_client *client, enum tern_purpose purpose,
                               enum tern_direction direction, size_t len);

// Bytes left in the tighter of the budgets; UINT64_MAX without one.
uint64_t tern_budget_left(struct tern_client *client);

// Whether `expected` more bytes fit into both budgets. Counts them as spent in the store first,
// when there is a monthly budget, so that a power cut cannot make them free.
// TERN_OK; TERN_ERR_BUDGET with *why; the store's errors
TERN_MUST_USE enum tern_result tern_budget_reserve(struct tern_client *client, uint64_t expected,
                                                   const char **why);

// Whether a whole round of mean cost fits into the monthly budget, and nothing was refused for it
// in this month yet: asking for work that cannot be paid costs bytes, too.
bool tern_budget_month_has_round(struct tern_client *client);

// Says that the budget forbids `expected` bytes and waits. Returns TERN_AGAIN or the store's errors.
TERN_MUST_USE enum tern_result tern_budget_stop(struct tern_client *client, uint64_t expected,
                                                const char *why);

// The most bytes of downloads that the answer to a check-in may bring unasked. They leave enough of the
// budgets for the update that is likely to follow; before the first update nobody knows that.
uint32_t tern_budget_inline(struct tern_client *client);

// Reserves, or says that the budget forbids it and waits: TERN_AGAIN. Otherwise TERN_OK or the
// store's errors.
TERN_MUST_USE enum tern_result tern_budget_ask(struct tern_client *client, uint64_t expected);

// The round was answered: its cost goes into the mean, and the meter is saved.
TERN_MUST_USE enum tern_result tern_budget_end_round(struct tern_client *client);

// --- Training

// The trainer has given the local change itself.
static inline bool tern_client_was_given_change(const struct tern_client *client)
{
#if TERN_GIVEN_CHANGES
    return client->train_result.is_change;
#else
    (void)client;
    return false;
#endif
}

// --- Phases (phases/)

// Each does one piece of work of its phase and sets the next. Results of tern_client_step().
TERN_MUST_USE enum tern_result tern_phase_checkin(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_download(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_train(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_encode(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_upload(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_evaluate(struct tern_client *client);

#if TERN_STATISTICS
TERN_MUST_USE enum tern_result tern_phase_statistics(struct tern_client *client);
// Gives the columns the scaling that the store has, if it has one.
TERN_MUST_USE enum tern_result tern_client_restore_scaling(struct tern_client *client);
#endif

// Whether the blob has room to make and to send an update at the indices that a task names. Without
// it, the client chooses its own indices, as it may.
bool tern_share_fits(const struct tern_client *client, const tern_Task *task);

// What of the pending update goes out, in the blob: all of it, or without its indices where the
// aggregator has those. Sets pending.sent and pending.container.
// TERN_ERR_NO_SPACE  the blob is too small
TERN_MUST_USE enum tern_result tern_share_body(struct tern_client *client, struct tern_span *body);

// Follows the aggregator's answer: a task, a time to come back, or the end. downloads: those that came
// with it, moved into the blob when the task is taken.
TERN_MUST_USE enum tern_result tern_client_follow(struct tern_client *client,
                                                  const tern_CheckinReply *reply,
                                                  struct tern_span downloads);

#if TERN_HELD_OUT
// Evaluates the task's base before training, for its update (phases/evaluate.c). TERN_AGAIN while it takes.
TERN_MUST_USE enum tern_result tern_client_look(struct tern_client *client);
#endif

#if TERN_FINAL_MODEL
// The last download was taken, and is what it should be: evaluates it, or ends.
TERN_MUST_USE enum tern_result tern_client_final_taken(struct tern_client *client);
#endif

// Whether a download of the task came with it: it has no name.
static inline bool tern_client_is_inline(const tern_DownloadRef *ref)
{
    return ref->sha256.size == 0;
}

// --- Memory (workspace.c)

// Codecs that this client has the memory for, bit i for codec id i.
uint32_t tern_client_codecs(const struct tern_client *client);

// Whether there is memory for a codec's state beside the error buffer.
bool tern_client_has_state_for(const struct tern_client *client, const struct tern_codec *codec);

// Bytes of the blob that encoding an update of `codec`, and giving it back, takes.
size_t tern_client_update_bound(const struct tern_client *client, const struct tern_codec *codec);

// The pending update, pending.len bytes.
static inline const uint8_t *tern_client_update(const struct tern_client *client)
{
#if TERN_PARTIALS
    if (client->stored_update != NULL) {
        return client->stored_update;
    }
#endif
    return client->work.blob;
}

// Where the blob is free beside it.
static inline size_t tern_client_beside_update(const struct tern_client *client)
{
    return tern_client_update(client) == client->work.blob ? client->pending.len : 0;
}

// The blob behind the pending update, as values: what giving it back works in.
float *tern_client_give_back_work(const struct tern_client *client);

// Bytes of the blob that a pending update of `len` bytes and that take.
size_t tern_client_pending_bound(const struct tern_client *client, size_t len);

struct tern_error_buffer tern_client_error_buffer(const struct tern_client *client);

// As tern_client_is_personal(); never where no tensor can be local.
static inline bool tern_client_has_local(const struct tern_client *client)
{
#if TERN_MANIFESTS
    return client->has_local;
#else
    (void)client;
    return false;
#endif
}

// Where the weights have local values of the client's own: puts them aside, so that others may stand there,
// and back.
#if TERN_MANIFESTS
void tern_client_local_aside(struct tern_client *client);
void tern_client_local_back(struct tern_client *client);
#else
static inline void tern_client_local_aside(struct tern_client *client)
{
    (void)client;
}
static inline void tern_client_local_back(struct tern_client *client)
{
    (void)client;
}
#endif

// What an update and a check-in say about the error buffer.
tern_ErrorFacts tern_client_error_facts(const struct tern_client *client);

// --- Starting (restore.c)

// The replica of version 0, in memory alone; nothing, where no seed makes it.
void tern_client_start_from_seed(struct tern_client *client);

// What the store holds, or the seed, in place of the replica in memory. Errors of the store.
TERN_MUST_USE enum tern_result tern_client_restore_replica(struct tern_client *client);

#endif
