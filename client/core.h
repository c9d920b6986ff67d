// The internal interface between the files of the client core. Programs include client.h only. Threads: as in client.h.
#ifndef TERN_CLIENT_CORE_H
#define TERN_CLIENT_CORE_H

#include "client.h"
#include "codec/container.h"
#include "meter/meter.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records hold float32 values in the processor's byte order, which must be little-endian"
#endif

// Features of some codecs, which the compiler removes from builds without them.
#define TERN_CLIENT_MOMENTUM TERN_CODEC_BUILT(TERN_CODEC_DGC)
#define TERN_CLIENT_SHARING TERN_CODEC_BUILT(TERN_CODEC_SCALECOM)

// The reason in an event; empty in builds without TERN_FOR_PEOPLE.
#define TERN_WHY(sentence) (TERN_FOR_PEOPLE ? (sentence) : "")

// Calls go one way: step.c calls the phases; the phases and assignment.c, which reads answers for them, call exchange.c,
// budget.c, partial.c, anchor.c and wait.c; these call records.c, and all of them call workspace.c and events.c. A phase
// never calls another phase: it sets client->phase.

// --- Events and waiting (events.c, phases/wait.c)

// An address translator has probably dropped a connection that idles longer; a new connection with a ticket costs less than
// detecting that by a timeout.
#define TERN_CLIENT_CLOSE_AFTER_MS 600000

void tern_client_emit(const struct tern_client *client, const struct tern_client_event *event);

uint64_t tern_client_now_ms(const struct tern_client *client);

// Returns `ms` plus a random part up to `most`, so that clients with the same answer do not return together.
uint32_t tern_client_add_jitter(struct tern_client *client, uint32_t ms, uint32_t most);

// Reads client->conditions and decides whether they allow the next piece of work. TERN_AGAIN: not now; the next check is
// after config.look_again_ms. Emits an event when a pause begins and when it ends.
TERN_MUST_USE enum tern_result tern_client_check_conditions(struct tern_client *client);

// Waits for `ms` (at least 100, at most a day) and emits the reason. Returns TERN_AGAIN.
TERN_MUST_USE enum tern_result tern_client_wait(struct tern_client *client, uint32_t ms,
                                                const char *why);

// Schedules another attempt after a failure, by exponential backoff with jitter or by Retry-After, and emits
// TERN_EVENT_FAILURE. Returns TERN_AGAIN.
TERN_MUST_USE enum tern_result tern_client_retry_later(struct tern_client *client,
                                                       enum tern_result result, const char *why);

// The same, and drops the task: the client continues with a check-in.
TERN_MUST_USE enum tern_result tern_client_drop_task(struct tern_client *client,
                                                     enum tern_result result, const char *why);

// The same for training without an update: the next check-in reports the failure.
TERN_MUST_USE enum tern_result tern_client_fail_task(struct tern_client *client,
                                                     enum tern_result result, const char *why);

// --- Requests (exchange.c)

// Prepares client->request and client->response; the reply goes to client->reply.
void tern_client_request(struct tern_client *client, enum tern_purpose purpose, const char *method,
                         const char *path);

// Runs the prepared exchange and counts its bytes. TERN_AGAIN while it is incomplete.
// TERN_OK: an answer arrived. Otherwise an error of tern_transport.exchange.
TERN_MUST_USE enum tern_result tern_client_exchange(struct tern_client *client);

// Converts the answer to a result.
// TERN_OK                2xx
// TERN_ERR_UNAUTHORIZED  401, 403
// TERN_ERR_BUSY          429, 503
// TERN_ERR_HTTP          5xx, and any answer that is not one of Tern's
// another code           refused, by the name in its Error body
TERN_MUST_USE enum tern_result tern_client_answer_result(const struct tern_client *client);

// Whether the received body starts at the requested offset; it does not when the aggregator ignores the Range header.
static inline bool tern_client_body_continues(const struct tern_client *client)
{
    const int status = client->response.status;
    return status == 206 || (status == 200 && client->request.range_from == 0);
}

// --- Downloads (phases/download.c, partial.c)

// The indices of the task's values, if any, follow the downloads for the replica.
static inline bool tern_client_is_at_indices(const struct tern_client *client)
{
    return TERN_CLIENT_SHARING && client->download_index == client->task.downloads_count;
}

// The task's current download.
static inline const tern_DownloadRef *tern_client_download(const struct tern_client *client)
{
    return tern_client_is_at_indices(client) ? &client->task.indices
                                             : &client->task.downloads[client->download_index];
}

// The replica is saved when a kill would lose more applied bytes of downloads than UNSAVED_MIN, and more than 1 / UNSAVED_SHARE
// of the replica's record.
#define TERN_CLIENT_UNSAVED_MIN 65536u
#define TERN_CLIENT_UNSAVED_SHARE 16u

// Whether the port for partial downloads exists (ports.h). Without it only tern_partial_drop() may be called.
static inline bool tern_partial_exists(const struct tern_client *client)
{
    return TERN_PARTIALS && client->config.ports.partial.open != NULL;
}

// Opens the partial download of `ref`; *have: its received bytes. Errors of tern_partial.open.
TERN_MUST_USE enum tern_result tern_partial_open(const struct tern_client *client,
                                                 const tern_DownloadRef *ref, size_t *have);

// Makes the answer to client->request, which requests the missing bytes, append to the partial download.
void tern_partial_receive(struct tern_client *client);

// Checks that the partial download is complete and matches the SHA-256 of `ref`. TERN_ERR_CORRUPT, TERN_ERR_IO
TERN_MUST_USE enum tern_result tern_partial_check(const struct tern_client *client,
                                                  const tern_DownloadRef *ref);

// Points *data at its first `len` bytes, until the next call.
TERN_MUST_USE enum tern_result tern_partial_view(const struct tern_client *client, size_t len,
                                                 const uint8_t **data);

// The container of `len` bytes at offset client->container_offset, which is never in memory as a whole.
struct tern_container_source tern_partial_container(struct tern_client *client, size_t len);

static inline void tern_partial_drop(struct tern_client *client)
{
    if (tern_partial_exists(client)) {
        client->config.ports.partial.drop(client->config.ports.partial.ctx);
    }
}

// --- Variance reduction (anchor.c): only builds with TERN_VARIANCE_REDUCTION call these functions

// Loads the record's anchor, if there is one. Errors of the store.
TERN_MUST_USE enum tern_result tern_anchor_restore(struct tern_client *client);
void tern_anchor_clear(struct tern_client *client);

// Called before the update of a full gradient is saved; makes its base the anchor and saves the record. Does nothing for
// other tasks. Errors of the store.
TERN_MUST_USE enum tern_result tern_anchor_set(struct tern_client *client);

// When the replica is the version after the anchor, saves their difference in the record. Errors of the store.
TERN_MUST_USE enum tern_result tern_anchor_update_step(struct tern_client *client);

// Whether the client can do tasks that build on its anchor.
bool tern_anchor_is_usable(const struct tern_client *client);

// Whether the current task must train at the anchor first. begin and trained: called before and after that training.
// TERN_ERR_WRONG_REPLICA  the client holds another anchor than the task's; errors of the store
static inline bool tern_anchor_must_train(const struct tern_client *client)
{
    return TERN_VARIANCE_REDUCTION && client->task.gradient == tern_Gradient_GRADIENT_REDUCED &&
           !client->trained_at_anchor;
}
TERN_MUST_USE enum tern_result tern_anchor_begin(struct tern_client *client);
void tern_anchor_subtract(struct tern_client *client);

// Adds the result of training at the anchor to the task's local change.
void tern_anchor_add(const struct tern_client *client, float *change, uint32_t count);

// --- Records (records.c)

// Each returns the store's errors; loads also TERN_ERR_NOT_FOUND, TERN_ERR_CORRUPT, and
// TERN_ERR_STATE for a record of another enrolment or model.
TERN_MUST_USE enum tern_result tern_record_save_identity(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_identity(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_save_manifest(struct tern_client *client,
                                                         const uint8_t *manifest, size_t len);
// TERN_ERR_NOT_FOUND  no record of this model; TERN_ERR_TOO_LARGE  above `size` bytes
TERN_MUST_USE enum tern_result tern_record_load_manifest(struct tern_client *client, uint8_t *dst,
                                                         size_t size, size_t *len);
TERN_MUST_USE enum tern_result tern_record_save_scaling(struct tern_client *client,
                                                        struct tern_span scaling);
// TERN_ERR_NO_SPACE  above `size` bytes
TERN_MUST_USE enum tern_result tern_record_load_scaling(const struct tern_client *client,
                                                        uint8_t *dst, size_t size, size_t *len);
// Saving includes the anchor's step once the step exists; loading leaves the step in the store.
TERN_MUST_USE enum tern_result tern_record_save_anchor(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_anchor(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_anchor_step(const struct tern_client *client,
                                                            float *step);
TERN_MUST_USE enum tern_result tern_record_save_replica(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_replica(struct tern_client *client);
// Error buffer, velocity, generation, sequence and, when pending.len > 0, the update in the blob. Loading uses the whole
// blob; tern_client_update() then returns the update.
TERN_MUST_USE enum tern_result tern_record_save_upload(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_upload(struct tern_client *client);
// Writes the same record while the container is encoded: begin, append the container in pieces, then finish with the message
// that precedes it, at most TERN_WIRE_OVERHEAD bytes.
static inline bool tern_record_is_streamed(const struct tern_client *client)
{
    return TERN_PARTIALS &&
           client->config.ports.store.begin != NULL; // false: none of these is called
}
TERN_MUST_USE enum tern_result tern_record_begin_upload(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_append_upload(struct tern_client *client,
                                                         const uint8_t *data, size_t len);
// Points *container at the appended len >= 1 bytes, until the next call.
TERN_MUST_USE enum tern_result tern_record_view_container(const struct tern_client *client,
                                                          size_t len, const uint8_t **container);
TERN_MUST_USE enum tern_result tern_record_finish_upload(struct tern_client *client,
                                                         struct tern_span message);
void tern_record_drop_upload(struct tern_client *client); // instead of finishing
// Reloads the velocity after a change that is discarded.
TERN_MUST_USE enum tern_result tern_record_reload_velocity(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_save_settled(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_settled(struct tern_client *client,
                                                        uint32_t *generation, uint32_t *sequence);
TERN_MUST_USE enum tern_result tern_record_save_meter(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_meter(struct tern_client *client);

// --- Meter and budgets (budget.c)

// Loads the meter. A damaged record counts from zero and emits TERN_EVENT_STARTED_OVER.
TERN_MUST_USE enum tern_result tern_client_restore_meter(struct tern_client *client);

// The most that `exchanges` requests with `bodies` bytes of bodies are expected to cost, including a new connection.
static inline uint64_t tern_budget_cost(uint64_t bodies, uint32_t exchanges)
{
    return tern_price(TERN_PRICE_FULL, exchanges, bodies);
}

// Adds the transport's counts to the round, the month and the total.
void tern_budget_collect(struct tern_client *client);

void tern_budget_count_payload(struct tern_client *client, enum tern_purpose purpose,
                               enum tern_direction direction, size_t len);

// Bytes left in the smaller budget; UINT64_MAX without a budget.
uint64_t tern_budget_left(struct tern_client *client);

// Checks that `expected` more bytes fit into both budgets. With a monthly budget it first saves them as spent, so that a
// power cut cannot make them free.
// TERN_OK; TERN_ERR_BUDGET with *why; the store's errors
TERN_MUST_USE enum tern_result tern_budget_reserve(struct tern_client *client, uint64_t expected,
                                                   const char **why);

// Whether a round of mean cost fits into the monthly budget, and the budget has refused nothing this month: requesting work
// that cannot be paid costs bytes, too.
bool tern_budget_month_has_round(struct tern_client *client);

// Emits TERN_EVENT_BUDGET for `expected` bytes and waits. Returns TERN_AGAIN or the store's errors.
TERN_MUST_USE enum tern_result tern_budget_wait(struct tern_client *client, uint64_t expected,
                                                const char *why);

// The most bytes of downloads that a check-in's answer may include. They leave room in the budgets for the expected update;
// before the first update its size is unknown.
uint32_t tern_budget_inline_bytes(struct tern_client *client);

// Reserves the bytes, or emits TERN_EVENT_BUDGET and waits (TERN_AGAIN). TERN_OK, TERN_AGAIN or the store's errors.
TERN_MUST_USE enum tern_result tern_budget_reserve_or_wait(struct tern_client *client,
                                                           uint64_t expected);

// Called when a round was answered: adds its cost to the mean, and saves the meter.
TERN_MUST_USE enum tern_result tern_budget_end_round(struct tern_client *client);

// --- Training

// Whether the trainer returned the local change instead of weights.
static inline bool tern_client_trained_is_change(const struct tern_client *client)
{
    return client->train_result.is_change;
}

// --- Phases (phases/)

// Each does one piece of work of its phase and sets the next phase. Results of tern_client_step().
TERN_MUST_USE enum tern_result tern_phase_checkin(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_download(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_train(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_encode(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_upload(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_evaluate(struct tern_client *client);

TERN_MUST_USE enum tern_result tern_phase_statistics(struct tern_client *client);
// Applies the store's scaling to the columns, if there is one.
TERN_MUST_USE enum tern_result tern_client_restore_scaling(struct tern_client *client);

// Prepares the request body of the pending update in the blob: the whole update, or without its indices when the aggregator
// has them. Sets pending.sent and pending.container.
// TERN_ERR_NO_SPACE  the blob is too small
TERN_MUST_USE enum tern_result tern_share_body(struct tern_client *client, struct tern_span *body);

// Takes the aggregator's answer: a task, a time to return, or the end. downloads: those in the answer, which are moved into
// the blob with the task.
TERN_MUST_USE enum tern_result tern_client_handle_assignment(struct tern_client *client,
                                                             const tern_CheckinReply *reply,
                                                             struct tern_span downloads);

// Called when the final download is complete and checked: an evaluator evaluates it, others finish.
TERN_MUST_USE enum tern_result tern_client_finish_with_global(struct tern_client *client);

// Whether a download was included in the task's answer: it has no name.
static inline bool tern_client_is_inline(const tern_DownloadRef *ref)
{
    return ref->sha256.size == 0;
}

// --- Memory (workspace.c)

// The codecs for which this client has memory: bit i for codec id i.
uint32_t tern_client_codecs(const struct tern_client *client);

// Whether there is memory for a codec's state beside the error buffer.
bool tern_client_has_state_for(const struct tern_client *client, const struct tern_codec *codec);

// Bytes of the blob that encoding an update of `codec` and giving it back need.
size_t tern_client_update_bound(const struct tern_client *client, const struct tern_codec *codec);

// The pending update, pending.len bytes.
static inline const uint8_t *tern_client_update(const struct tern_client *client)
{
    const bool stored = TERN_PARTIALS && client->stored_update != NULL;
    return stored ? client->stored_update : client->work.blob;
}

// Offset in the blob after the pending update.
static inline size_t tern_client_update_end(const struct tern_client *client)
{
    return tern_client_update(client) == client->work.blob ? client->pending.len : 0;
}

// The blob after the pending update as values: working memory for giving it back.
float *tern_client_give_back_work(const struct tern_client *client);

// Bytes of the blob for a pending update of `len` bytes and that working memory.
size_t tern_client_pending_bound(const struct tern_client *client, size_t len);

struct tern_error_buffer tern_client_error_buffer(const struct tern_client *client);

// Like tern_client_is_personal(); false in builds without local tensors.
static inline bool tern_client_has_local(const struct tern_client *client)
{
    return TERN_MANIFESTS && client->has_local;
}

// Moves the client's own local values from the weights to work.local, so that others can take their place, and back.
void tern_client_stash_local(struct tern_client *client);
void tern_client_unstash_local(struct tern_client *client);

// The facts about the error buffer in an update and a check-in.
tern_ErrorFacts tern_client_error_facts(const struct tern_client *client);

// --- Starting (restore.c)

// Makes the replica of version 0 in memory; without a seed the client holds no replica.
void tern_client_start_from_seed(struct tern_client *client);

// Replaces the replica in memory by the store's, or by the seed's. Errors of the store.
TERN_MUST_USE enum tern_result tern_client_restore_replica(struct tern_client *client);

#endif
