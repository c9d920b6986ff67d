// The internal interface between the files of the client core (client/*.c and client/phases). Programs include client.h only.
// Threads: as in client.h.
#ifndef TERN_CLIENT_CORE_H
#define TERN_CLIENT_CORE_H

#include "client.h"
#include "codec/container.h"
#include "meter/meter.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records hold float32 values in the processor's byte order, which must be little-endian"
#endif

// Whether this build has a codec with momentum, and one whose clients share indices. The compiler removes code that a false
// constant disables.
#define TERN_CLIENT_MOMENTUM TERN_CODEC_BUILT(TERN_CODEC_DGC)
#define TERN_CLIENT_SHARING TERN_CODEC_BUILT(TERN_CODEC_SCALECOM)

// The text of `why` in an event; "" in builds without TERN_FOR_PEOPLE.
#define TERN_WHY(sentence) (TERN_FOR_PEOPLE ? (sentence) : "")

// Calls have one direction: step.c calls the phases; the phases and assignment.c, which handles the aggregator's assignments
// for them, call exchange.c, watch.c, budget.c, partial.c, anchor.c, secure.c and wait.c; those call records.c; and every file calls workspace.c
// and events.c. A phase never calls another phase: it sets client->phase.

// --- Events and waiting (events.c, phases/wait.c)

// A connection is closed when it will be idle for this long. Address translators drop such connections silently; opening
// another one with a session ticket costs less than waiting for a timeout.
#define TERN_CLIENT_CLOSE_AFTER_MS 600000

void tern_client_emit(const struct tern_client *client, const struct tern_client_event *event);

uint64_t tern_client_now_ms(const struct tern_client *client);

// Returns `ms` plus a random time of at most `most` ms, so that clients with the same answer do not all return at once.
uint32_t tern_client_add_jitter(struct tern_client *client, uint32_t ms, uint32_t most);

// Updates client->conditions from the condition port. Returns TERN_OK if they allow work, and TERN_AGAIN if not; the next check
// is then due after config.look_again_ms. Emits an event when a pause begins, and when it ends.
TERN_MUST_USE enum tern_result tern_client_check_conditions(struct tern_client *client);

// Makes the next step due after `ms` (at least 100 ms, at most a day), and emits TERN_EVENT_WAITING. Returns TERN_AGAIN.
TERN_MUST_USE enum tern_result tern_client_wait(struct tern_client *client, uint32_t ms,
                                                const char *why);

// Makes the next step due after exponential backoff with jitter or, if that is longer, after the response's Retry-After. Emits
// TERN_EVENT_FAILURE. Returns TERN_AGAIN.
TERN_MUST_USE enum tern_result tern_client_retry_later(struct tern_client *client,
                                                       enum tern_result result, const char *why);

// Drops the current task, so that the client continues with a check-in, after the time of tern_client_retry_later().
TERN_MUST_USE enum tern_result tern_client_drop_task(struct tern_client *client,
                                                     enum tern_result result, const char *why);

// Drops the current task like tern_client_drop_task(), and reports in the next check-in that training failed.
TERN_MUST_USE enum tern_result tern_client_fail_task(struct tern_client *client,
                                                     enum tern_result result, const char *why);

// --- Requests (exchange.c)

// Prepares client->request and client->response. The response's body goes to client->reply unless the caller changes that.
void tern_client_request(struct tern_client *client, enum tern_purpose purpose, const char *method,
                         const char *path);

// Runs the prepared exchange, and counts its bytes. Returns TERN_AGAIN while the exchange is incomplete, TERN_OK when a
// response has arrived, otherwise an error of tern_transport.exchange.
TERN_MUST_USE enum tern_result tern_client_exchange(struct tern_client *client);

// Makes client->request watched (watch.c), and forgets why the last request was ended.
void tern_watch_start(struct tern_client *client);

// Returns whether tern_client_cancel() was called and no call has reported it yet.
bool tern_watch_is_cancelled(const struct tern_client *client);

// Returns the same, and clears it: the caller returns TERN_ERR_CANCELLED.
bool tern_watch_take_cancel(struct tern_client *client);

// Converts the response to a result:
// TERN_OK                status 2xx
// TERN_ERR_UNAUTHORIZED  status 401 or 403
// TERN_ERR_BUSY          status 429 or 503
// TERN_ERR_HTTP          another status, without an Error message of an aggregator
// another error          status 4xx: the error that the Error message names
TERN_MUST_USE enum tern_result tern_client_answer_result(const struct tern_client *client);

// Returns whether the response's body starts at the requested offset. It does not if the aggregator or a proxy has ignored the
// Range header.
static inline bool tern_client_body_continues(const struct tern_client *client)
{
    const int status = client->response.status;
    return status == 206 || (status == 200 && client->request.range_from == 0);
}

// --- Downloads (phases/download.c, partial.c)

// Returns whether the current download has the indices of the task's values, which follow the downloads for the replica.
static inline bool tern_client_is_at_indices(const struct tern_client *client)
{
    return TERN_CLIENT_SHARING && client->download_index == client->task.downloads_count;
}

// Returns the task's current download.
static inline const tern_DownloadRef *tern_client_download(const struct tern_client *client)
{
    return tern_client_is_at_indices(client) ? &client->task.indices
                                             : &client->task.downloads[client->download_index];
}

// During the downloads of one task, the replica is saved when the applied downloads that its record lacks have more than
// UNSAVED_MIN bytes, and more than 1 / UNSAVED_SHARE of the record's size. So a killed process loses little.
#define TERN_CLIENT_UNSAVED_MIN 65536u
#define TERN_CLIENT_UNSAVED_SHARE 16u

// Returns whether the program has implemented the port for partial downloads. If not, only tern_partial_drop() may be called.
static inline bool tern_partial_exists(const struct tern_client *client)
{
    return TERN_PARTIALS && client->config.ports.partial.open != NULL;
}

// Opens the partial download of `ref`, and sets *have to the number of its stored bytes. Errors of tern_partial.open.
TERN_MUST_USE enum tern_result tern_partial_open(const struct tern_client *client,
                                                 const tern_DownloadRef *ref, size_t *have);

// Makes the transport append the response of client->request, which requests the missing bytes, to the partial download.
void tern_partial_receive(struct tern_client *client);

// Returns TERN_OK if the partial download is complete and matches the SHA-256 of `ref`, else TERN_ERR_CORRUPT or TERN_ERR_IO.
TERN_MUST_USE enum tern_result tern_partial_check(const struct tern_client *client,
                                                  const tern_DownloadRef *ref);

// Points *data to the first `len` bytes of the partial download, which stay valid until the next call of the port.
TERN_MUST_USE enum tern_result tern_partial_view(const struct tern_client *client, size_t len,
                                                 const uint8_t **data);

// Returns a reader for the container of `len` bytes at offset client->container_offset of the partial download. The container
// is never completely in memory.
struct tern_container_source tern_partial_container(struct tern_client *client, size_t len);

static inline void tern_partial_drop(struct tern_client *client)
{
    if (tern_partial_exists(client)) {
        client->config.ports.partial.drop(client->config.ports.partial.ctx);
    }
}

// --- Variance reduction (anchor.c): only builds with TERN_VARIANCE_REDUCTION call these functions

// Loads the anchor from its record, if there is one. Errors of the store.
TERN_MUST_USE enum tern_result tern_anchor_restore(struct tern_client *client);

// Forgets the anchor in memory.
void tern_anchor_clear(struct tern_client *client);

// Makes the base model of a full gradient's task the anchor, and saves its record; called before the update is saved. Does
// nothing for other tasks. Errors of the store.
TERN_MUST_USE enum tern_result tern_anchor_set(struct tern_client *client);

// If the replica is the version after the anchor, computes the difference of both and saves it in the anchor's record. Errors
// of the store.
TERN_MUST_USE enum tern_result tern_anchor_update_step(struct tern_client *client);

// Returns whether the client can do tasks with variance reduction: it has an anchor, and knows the anchor's step or needs it
// later.
bool tern_anchor_is_usable(const struct tern_client *client);

// Returns whether the current task must first train from the anchor, before it trains from the replica.
static inline bool tern_anchor_must_train(const struct tern_client *client)
{
    return TERN_VARIANCE_REDUCTION && client->task.gradient == tern_Gradient_GRADIENT_REDUCED &&
           !client->trained_at_anchor;
}

// Prepares training from the anchor.
// TERN_ERR_WRONG_REPLICA  the client has another anchor than the task needs; errors of the store
TERN_MUST_USE enum tern_result tern_anchor_begin(struct tern_client *client);

// Subtracts the change that training from the anchor has made, client->trained, from the anchor's step.
void tern_anchor_subtract(struct tern_client *client);

// Adds the anchor's step minus the change at the anchor to change[0..count), the local change of the task.
void tern_anchor_add(const struct tern_client *client, float *change, uint32_t count);

// --- Secure rounds (secure.c): only builds with TERN_SECURE call the functions that secure.c defines

// Returns whether the client trains in secure rounds alone.
static inline bool tern_secure_is_on(const struct tern_client *client)
{
    return TERN_SECURE && client->config.helper_key != NULL;
}

// Returns whether the task's update is masked.
static inline bool tern_secure_has_task(const tern_Task *task)
{
#if TERN_SECURE
    return task->has_secure;
#else
    (void)task;
    return false;
#endif
}

// Checks the configuration, and initialises the crypto library.
// TERN_ERR_ARGUMENT  the helper's code is missing or too long, or the client is an evaluator
TERN_MUST_USE enum tern_result tern_secure_init(const struct tern_client *client);

// Loads the ticket, and whether it is due, from the record if there is a valid one. Errors of the store.
TERN_MUST_USE enum tern_result tern_secure_restore(struct tern_client *client);

// Adds the ticket and the unsettled round to a check-in, and removes what it would reveal about the error buffer.
void tern_secure_fill_checkin(const struct tern_client *client, tern_CheckinRequest *message);

// Handles the settlement and the helper's key in an answer of the aggregator. TERN_AGAIN: the client must check in again before
// it accepts a task or waits; unless a failure was reported, the next step is due at once.
TERN_MUST_USE enum tern_result tern_secure_handle_reply(struct tern_client *client,
                                                        const tern_CheckinReply *reply);

// Checks a task that was just received. *why: the reason of the refusal.
TERN_MUST_USE enum tern_result tern_secure_check_task(const struct tern_client *client,
                                                      const tern_Task *task, const char **why);

// Notes for the next check-in that tern_secure_check_task() refused a round that is not newer than the client's last one, or whose
// helper has an older log or another: the aggregator abandons a round that too many clients refuse.
void tern_secure_note_refusal(struct tern_client *client, const tern_Task *task);

// Checks the current task's scales, once the client has the task's replica: against those of the client's last masked update
// or, before the first one, those that follow from the replica. *why: the reason of the refusal.
TERN_MUST_USE enum tern_result tern_secure_check_scales(const struct tern_client *client,
                                                        const char **why);

// Returns the bytes of a packed vector with the share and bits of *masked.
size_t tern_secure_packed_size(const struct tern_client *client,
                               const struct tern_client_masked *masked);

// Returns the bytes of the task's packed vector.
size_t tern_secure_update_size(const struct tern_client *client, const tern_Task *task);

// Weighs the client's change by tern_masked_weigh().
void tern_secure_weigh(const struct tern_client *client, float *change);

// Quantises client->trained into dst, tern_secure_update_size() bytes, and masks it by the key of this nonce. Leaves the residual
// error in client->trained. *masked: the facts about the update, for client->masked once the update is saved.
TERN_MUST_USE enum tern_result tern_secure_encode(struct tern_client *client, uint64_t nonce,
                                                  uint8_t *dst, struct tern_client_masked *masked);

// Removes the mask from packed[0..size), and adds its values to *buffer again.
TERN_MUST_USE enum tern_result tern_secure_give_back(const struct tern_client *client,
                                                     const struct tern_client_masked *masked,
                                                     uint8_t *packed, size_t size,
                                                     struct tern_error_buffer *buffer);

// Copies the pending update to the blob, removes its mask, and adds its values to the error buffer again.
TERN_MUST_USE enum tern_result tern_secure_give_back_pending(struct tern_client *client);

// --- Records (records.c)

// Each function returns the store's errors. A function that loads also returns TERN_ERR_NOT_FOUND (the record was never saved),
// TERN_ERR_CORRUPT (it is damaged) and TERN_ERR_STATE (it belongs to another enrolment or model).
TERN_MUST_USE enum tern_result tern_record_save_identity(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_identity(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_save_manifest(struct tern_client *client,
                                                         const uint8_t *manifest, size_t len);
// TERN_ERR_NOT_FOUND: there is no manifest of this model. TERN_ERR_TOO_LARGE: it is longer than `size` bytes.
TERN_MUST_USE enum tern_result tern_record_load_manifest(struct tern_client *client, uint8_t *dst,
                                                         size_t size, size_t *len);
TERN_MUST_USE enum tern_result tern_record_save_scaling(struct tern_client *client,
                                                        struct tern_span scaling);
// TERN_ERR_NO_SPACE: the message is longer than `size` bytes.
TERN_MUST_USE enum tern_result tern_record_load_scaling(const struct tern_client *client,
                                                        uint8_t *dst, size_t size, size_t *len);
// Saving includes the anchor's step, if it exists; tern_record_load_anchor_step() loads that step.
TERN_MUST_USE enum tern_result tern_record_save_anchor(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_anchor(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_anchor_step(const struct tern_client *client,
                                                            float *step);
TERN_MUST_USE enum tern_result tern_record_save_replica(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_replica(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_save_ticket(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_ticket(struct tern_client *client);
// The upload record: error buffer, velocity, generation, sequence, local values and, if pending.len > 0, the update in the
// blob. Loading may overwrite the complete blob; tern_client_update() then returns the update.
TERN_MUST_USE enum tern_result tern_record_save_upload(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_upload(struct tern_client *client);
// Returns whether the store can write the upload record while the container is encoded. If so: begin it, append the container
// block by block, then finish it with the message that precedes the container, at most TERN_WIRE_OVERHEAD bytes. If not, the
// functions that do so must not be called.
static inline bool tern_record_is_streamed(const struct tern_client *client)
{
    return TERN_PARTIALS && client->config.ports.store.begin != NULL;
}
TERN_MUST_USE enum tern_result tern_record_begin_upload(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_append_upload(struct tern_client *client,
                                                         const uint8_t *data, size_t len);
// Points *container to the first `len` >= 1 appended bytes, which stay valid until the next call.
TERN_MUST_USE enum tern_result tern_record_view_container(const struct tern_client *client,
                                                          size_t len, const uint8_t **container);
TERN_MUST_USE enum tern_result tern_record_finish_upload(struct tern_client *client,
                                                         struct tern_span message);
// Discards the record in progress.
void tern_record_drop_upload(struct tern_client *client);
// Loads the velocity from the upload record again, after a local change was discarded.
TERN_MUST_USE enum tern_result tern_record_reload_velocity(struct tern_client *client);
// Loads the pending update from the upload record again, after the blob was used for something else.
TERN_MUST_USE enum tern_result tern_record_reload_pending(struct tern_client *client);
// Saves that the aggregator has answered the update of a sequence. settled: the client also knows what became of it, which an
// answer to a masked update leaves open.
TERN_MUST_USE enum tern_result tern_record_save_settled(struct tern_client *client,
                                                        uint32_t sequence, bool settled);
TERN_MUST_USE enum tern_result tern_record_load_settled(struct tern_client *client,
                                                        uint32_t *generation, uint32_t *sequence,
                                                        bool *settled);
TERN_MUST_USE enum tern_result tern_record_save_meter(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_record_load_meter(struct tern_client *client);

// --- Meter and budgets (budget.c)

// Loads the meter. If its record is damaged, counts from zero and emits TERN_EVENT_STARTED_OVER.
TERN_MUST_USE enum tern_result tern_client_restore_meter(struct tern_client *client);

// Returns the expected bytes on the wire of `exchanges` requests with `bodies` bytes of bodies together, including a new
// connection: an upper estimate.
static inline uint64_t tern_budget_cost(uint64_t bodies, uint32_t exchanges)
{
    return tern_price(TERN_PRICE_FULL, exchanges, bodies);
}

// Adds the bytes that the transport has counted to the round, the month and the total.
void tern_budget_collect(struct tern_client *client);

// Adds `len` bytes of encoded tensors to the payload of a purpose.
void tern_budget_count_payload(struct tern_client *client, enum tern_purpose purpose,
                               enum tern_direction direction, size_t len);

// Returns the remaining bytes of the budget that has fewer; UINT64_MAX without a budget.
uint64_t tern_budget_left(struct tern_client *client);

// Checks that `expected` more bytes fit into both budgets. With a monthly budget, saves them as spent before they are sent, so
// that they still count after a power cut.
// TERN_ERR_BUDGET  they do not fit; *why is the reason; errors of the store
TERN_MUST_USE enum tern_result tern_budget_reserve(struct tern_client *client, uint64_t expected,
                                                   const char **why);

// Returns whether a round of mean cost fits into the monthly budget, and the budget has not refused any request this month. If
// not, the client does not check in, because asking for work also costs bytes.
bool tern_budget_month_has_round(struct tern_client *client);

// Emits TERN_EVENT_BUDGET for `expected` bytes, and makes the next step due after config.budget_wait_ms. Returns TERN_AGAIN, or
// an error of the store.
TERN_MUST_USE enum tern_result tern_budget_wait(struct tern_client *client, uint64_t expected,
                                                const char *why);

// Returns the most bytes of downloads that the answer of a check-in may include: what the budgets leave after the expected
// update. 0 with a budget before the first update, whose size is unknown.
uint32_t tern_budget_inline_bytes(struct tern_client *client);

// Reserves the bytes like tern_budget_reserve() and returns TERN_OK; or, if they do not fit, waits like tern_budget_wait() and
// returns
// TERN_AGAIN. Errors of the store.
TERN_MUST_USE enum tern_result tern_budget_reserve_or_wait(struct tern_client *client,
                                                           uint64_t expected);

// Adds the round's bytes to the mean of all rounds, and saves the meter. Called when the aggregator has answered the round's
// update.
TERN_MUST_USE enum tern_result tern_budget_end_round(struct tern_client *client);

// --- Training

// Returns whether client->trained has the local change instead of the trained weights.
static inline bool tern_client_result_is_change(const struct tern_client *client)
{
    return client->train_result.is_change;
}

// --- Phases (phases/)

// Each function does one piece of its phase's work, sets the next phase, and returns what tern_client_step() returns.
TERN_MUST_USE enum tern_result tern_phase_checkin(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_download(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_train(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_encode(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_upload(struct tern_client *client);
TERN_MUST_USE enum tern_result tern_phase_evaluate(struct tern_client *client);

TERN_MUST_USE enum tern_result tern_phase_statistics(struct tern_client *client);
// Applies the stored scaling to the columns of the trainer's data, if there is one.
TERN_MUST_USE enum tern_result tern_client_restore_scaling(struct tern_client *client);

// Sets *body to the request body of the pending update: the update itself or, if the aggregator already has its indices, a copy
// without them in the blob. Sets pending.sent and pending.container.
// TERN_ERR_NO_SPACE  the blob is too small for the copy
TERN_MUST_USE enum tern_result tern_share_body(struct tern_client *client, struct tern_span *body);

// Handles the aggregator's assignment: a task, a time to return, or the end of the federation. downloads: the downloads that
// the answer includes, which the function moves to the blob.
TERN_MUST_USE enum tern_result tern_client_handle_assignment(struct tern_client *client,
                                                             const tern_CheckinReply *reply,
                                                             struct tern_span downloads);

// Called when the global model was downloaded and checked at the end of the federation: an evaluator then evaluates it, other
// clients finish.
TERN_MUST_USE enum tern_result tern_client_finish_with_global(struct tern_client *client);

// Returns whether the answer with the task includes this download; such a download has no SHA-256.
static inline bool tern_client_is_inline(const tern_DownloadRef *ref)
{
    return ref->sha256.size == 0;
}

// --- Memory (workspace.c)

// Returns the codecs for which this client has memory, as a mask: bit i is the codec with id i.
uint32_t tern_client_codecs(const struct tern_client *client);

// Returns whether the workspace has memory for the codec's velocity, if the codec needs one.
bool tern_client_has_state_for(const struct tern_client *client, const struct tern_codec *codec);

// Returns the bytes of the blob that are needed to encode an update of `codec`, and to add a refused update to the error buffer
// again.
size_t tern_client_update_bound(const struct tern_client *client, const struct tern_codec *codec);

// Returns the pending update, pending.len bytes.
static inline const uint8_t *tern_client_update(const struct tern_client *client)
{
    const bool stored = TERN_PARTIALS && client->stored_update != NULL;
    return stored ? client->stored_update : client->work.blob;
}

// Returns the offset in the blob where the pending update ends; 0 if the update is in the store.
static inline size_t tern_client_update_end(const struct tern_client *client)
{
    return tern_client_update(client) == client->work.blob ? client->pending.len : 0;
}

// Returns the working memory for adding a refused update to the error buffer: the blob after the pending update.
float *tern_client_give_back_work(const struct tern_client *client);

// Returns the bytes of the blob for a pending update of `len` bytes and the working memory of tern_client_give_back_work().
size_t tern_client_pending_bound(const struct tern_client *client, size_t len);

// Returns the error buffer in the workspace.
struct tern_error_buffer tern_client_error_buffer(const struct tern_client *client);

// Returns whether this client has trained values of local tensors; false in builds without local tensors.
static inline bool tern_client_has_local(const struct tern_client *client)
{
    return TERN_MANIFESTS && client->has_local;
}

// Copies the trained values of local tensors from the weights to work.local, so that a download may overwrite them; and back.
void tern_client_stash_local(struct tern_client *client);
void tern_client_unstash_local(struct tern_client *client);

// Returns the facts about the error buffer that updates and check-ins report: norm, maximum, generation, sequence.
tern_ErrorFacts tern_client_error_facts(const struct tern_client *client);

// --- Starting (restore.c)

// Sets the replica to version 0, whose weights the seed generates. A model without a seed gets zeros, and no replica id.
void tern_client_start_from_seed(struct tern_client *client);

// Loads the replica from the store or, if there is no valid record, starts from the seed. Errors of the store.
TERN_MUST_USE enum tern_result tern_client_restore_replica(struct tern_client *client);

#endif
