// Small devices: no task holds more downloads than a client announced, or any that it cannot
// decode, whatever happened between its check-in and the task.
#include "harness.h"

#include "tests/cases.h"
#include "util/bytes.h"
#include <stdlib.h>
#include <string.h>

#define FLOAT32 (1u << TERN_CODEC_FLOAT32)
#define THREE_LC (1u << TERN_CODEC_3LC)

static const struct tern_codec dense = {.id = TERN_CODEC_FLOAT32, .sparsity = 1.0F};
static const struct tern_codec ternary = {.id = TERN_CODEC_3LC, .sparsity = 1.0F};

static struct harness harness;
static uint64_t one;
static uint64_t two;

// Whoever reports first closes the round; both are always invited.
static int setup(void **state)
{
    (void)state;
    harness_make(&harness);
    harness.config.federation.round.cohort = 1;
    harness.config.federation.round.over_selection = 1.0;
    harness.config.federation.downloads.codec = ternary;
    harness_start(&harness);
    one = enroll(&harness, false);
    two = enroll(&harness, false);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_free(&harness);
    return 0;
}

static void run_rounds(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        do_round(&harness, two, NULL, 0.25F * (float)(i + 1));
    }
}

static void configure(const struct tern_codec *up, const struct tern_codec *down)
{
    harness_stop(&harness);
    harness.config.federation.codec_up = *up;
    harness.config.federation.downloads.codec = *down;
    harness_start(&harness);
}

// Client one's check-in, from the seed unless it holds something else.
static tern_CheckinReply checkin_as(tern_CheckinRequest request)
{
    return checkin_with(&harness, one, &request);
}

static void expect_unknown(tern_CheckinRequest request, const char *sentence)
{
    tern_Error error;
    struct answer answer = put_checkin(&harness, one, &request);
    assert_int_equal(answer.status, 422);
    assert_int_equal(answer_error_name(&answer), TERN_ERR_UNKNOWN);
    assert_int_equal(tern_wire_decode_error(answer.body->data, answer.body->len, &error), TERN_OK);
    assert_non_null(strstr(error.sentence, sentence));
    answer_free(&answer);
}

static bool is_snapshot(const tern_DownloadRef *ref)
{
    tern_Download download;
    struct tern_span container;
    char path[TERN_PATH_MAX];
    tern_path_download(ref->sha256.bytes, path);
    struct answer answer = call(&harness, "GET", path, harness.tokens[one], NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_int_equal(
        tern_wire_decode_download(answer.body->data, answer.body->len, &download, &container),
        TERN_OK);
    answer_free(&answer);
    return download.kind == tern_DownloadKind_DOWNLOAD_SNAPSHOT;
}

static void expect_snapshot(const tern_CheckinReply *reply)
{
    assert_true(reply->has_task);
    assert_int_equal(reply->task.downloads_count, 1);
    assert_true(is_snapshot(&reply->task.downloads[0]));
}

// --- Downloads in one task

#define TEST(name) CASE_WITH(name, setup, teardown)

TEST(test_no_more_downloads_than_announced)
{
    run_rounds(5);
    tern_CheckinReply all = checkin_as((tern_CheckinRequest){.downloads_max = 0});
    assert_int_equal(all.task.downloads_count, 5);
    tern_CheckinReply five = checkin_as((tern_CheckinRequest){.downloads_max = 5});
    assert_int_equal(five.task.downloads_count, 5);
    tern_CheckinReply four = checkin_as((tern_CheckinRequest){.downloads_max = 4});
    expect_snapshot(&four);
}

static struct tern_db_client stored(uint64_t id)
{
    struct tern_db *db = NULL;
    struct tern_db_client client;
    char why[256];
    assert_int_equal(tern_db_open(harness.path, 0, &db, why), TERN_OK);
    assert_int_equal(tern_db_client_get(db, id, &client), TERN_OK);
    tern_db_close(db);
    return client;
}

// The clock stands still, so that nothing is written but what must be.
TEST(test_what_a_client_can_do_is_stored_before_its_answer)
{
    checkin_as(
        (tern_CheckinRequest){.downloads_max = 9}); // a round has just opened: all is written
    checkin_as((tern_CheckinRequest){.downloads_max = 8});
    checkin_as((tern_CheckinRequest){
        .downloads_max = 3, .codecs = FLOAT32 | THREE_LC, .coders = 1u << TERN_CODER_ZERO_RUN});
    struct tern_db_client client = stored(one);
    assert_int_equal(client.downloads_max, 3);
    assert_int_equal(client.codecs, FLOAT32 | THREE_LC);
    assert_int_equal(client.coders, 1u << TERN_CODER_ZERO_RUN);
}

// The reply to an update that comes again brings a task too, perhaps of another process.
static void expect_next_after_restart(uint32_t downloads_max, unsigned downloads)
{
    uint8_t *body;
    tern_UpdateReply reply;
    tern_CheckinReply task = checkin_as((tern_CheckinRequest){.downloads_max = downloads_max});
    size_t len = encode_update(&harness, &task.task, 0.5F, 10, &body);
    struct answer answer = put_update(&harness, one, task.task.round, 1, body, len);
    answer_expect(answer, 200);
    run_rounds(3);
    harness_restart(&harness);
    answer = put_update(&harness, one, task.task.round, 1, body, len);
    assert_int_equal(answer.status, 200);
    assert_int_equal(tern_wire_decode_update_reply(answer.body->data, answer.body->len, &reply),
                     TERN_OK);
    assert_int_equal(reply.status, tern_UpdateStatus_UPDATE_DUPLICATE);
    assert_true(reply.next.has_task);
    assert_int_equal(reply.next.task.downloads_count, downloads);
    answer_free(&answer);
    free(body);
}

TEST(test_the_reply_to_an_update_keeps_to_it)
{
    expect_next_after_restart(2, 1);
}

TEST(test_the_reply_to_an_update_of_a_large_client)
{
    expect_next_after_restart(0, 4);
}

// --- Codecs

TEST(test_deltas_of_a_codec_that_was_not_announced_are_not_given)
{
    run_rounds(2);
    configure(&dense, &dense); // the stored deltas stay what they are
    tern_CheckinReply small = checkin_as((tern_CheckinRequest){.codecs = FLOAT32});
    expect_snapshot(&small);
    tern_CheckinReply both = checkin_as((tern_CheckinRequest){.codecs = FLOAT32 | THREE_LC});
    assert_int_equal(both.task.downloads_count, 2);
}

TEST(test_deltas_of_a_coder_that_was_not_announced_are_not_given)
{
    struct tern_codec range = ternary;
    range.coder = TERN_CODER_RANGE;
    configure(&dense, &range);
    run_rounds(1); // it was open already, under the former codec
    tern_CheckinRequest request = {.codecs = 0};
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, checkin_as(request).task.base.bytes, TERN_WIRE_REPLICA_BYTES);
    run_rounds(2);
    configure(&dense, &dense);
    request.codecs = FLOAT32 | THREE_LC;
    request.coders = 1u << TERN_CODER_ZERO_RUN;
    tern_CheckinReply small = checkin_as(request);
    expect_snapshot(&small);
    request.codecs = FLOAT32; // a coder is all it takes to decode
    request.coders = 1u << TERN_CODER_RANGE;
    tern_CheckinReply other = checkin_as(request);
    assert_int_equal(other.task.downloads_count, 2);
    request.coders = UINT32_MAX; // with bits that name no coder yet
    other = checkin_as(request);
    assert_int_equal(other.task.downloads_count, 2);
    request.coders = 0; // those of its codecs, of which none is ternary
    other = checkin_as(request);
    expect_snapshot(&other);
}

// Which of the two a delta took is not looked at.
TEST(test_a_client_has_both_coders_of_a_balanced_download)
{
    struct tern_codec balanced = ternary;
    balanced.coder = TERN_CODER_BALANCED;
    configure(&dense, &balanced);
    run_rounds(1); // it was open already, under the former codec
    tern_CheckinRequest request = {.codecs = FLOAT32 | THREE_LC};
    request.replica.size = TERN_WIRE_REPLICA_BYTES;
    memcpy(request.replica.bytes, checkin_as(request).task.base.bytes, TERN_WIRE_REPLICA_BYTES);
    run_rounds(2);
    configure(&dense, &dense);
    request.coders = TERN_CODERS_BALANCED;
    tern_CheckinReply both = checkin_as(request);
    assert_int_equal(both.task.downloads_count, 2);
    request.coders = 1u << TERN_CODER_RANGE;
    tern_CheckinReply lacking = checkin_as(request);
    expect_snapshot(&lacking);
}

TEST(test_a_client_without_snapshots_takes_deltas_or_is_told)
{
    configure(&ternary, &ternary);
    run_rounds(30); // by now a snapshot is smaller
    tern_CheckinReply all = checkin_as((tern_CheckinRequest){.codecs = 0});
    expect_snapshot(&all);
    tern_CheckinReply deltas = checkin_as((tern_CheckinRequest){.codecs = THREE_LC});
    assert_true(deltas.has_task);
    assert_int_equal(deltas.task.downloads_count, 30);
    // Too long a chain for this one, which is given a delta of its own.
    tern_CheckinReply own =
        checkin_as((tern_CheckinRequest){.codecs = THREE_LC, .downloads_max = 29});
    assert_true(own.has_task);
    assert_int_equal(own.task.downloads_count, 1);
    tern_CheckinRequest lost = {.codecs = THREE_LC};
    lost.replica.size = TERN_WIRE_REPLICA_BYTES;
    memset(lost.replica.bytes, 9, TERN_WIRE_REPLICA_BYTES);
    expect_unknown(lost, "no snapshots");
}

TEST(test_a_round_in_a_codec_that_was_not_announced_passes_by)
{
    configure(&ternary, &dense);
    run_rounds(1); // and a second one is open, in 3lc
    configure(&dense, &dense);
    tern_CheckinReply small = checkin_as((tern_CheckinRequest){.codecs = FLOAT32});
    assert_false(small.has_task);
    assert_in_range(small.come_back_ms, 3000, 60000); // the round's window
    harness.config.federation.round.come_back_max_ms = 2000;
    configure(&dense, &dense);
    small = checkin_as((tern_CheckinRequest){.codecs = FLOAT32});
    assert_in_range(small.come_back_ms, 1, 2000);
    run_rounds(1);
    small = checkin_as((tern_CheckinRequest){.codecs = FLOAT32});
    assert_true(small.has_task);
    assert_string_equal(small.task.codec, "float32");
}

static void expect_codecs(uint32_t round, const char *up, const char *down)
{
    struct tern_db_round row;
    struct tern_db *db = harness_look(&harness);
    assert_int_equal(tern_db_round_get(db, round, &row), TERN_OK);
    tern_db_close(db);
    assert_string_equal(row.codec_up, up);
    assert_string_equal(row.codec_down, down);
}

TEST(test_the_first_rounds_have_codecs_of_their_own)
{
    harness.config.federation.early =
        (struct tern_early_codecs){.rounds = 3, .up = dense, .down = dense};
    configure(&ternary, &ternary);
    run_rounds(1); // it was open already, under the former codecs
    for (uint32_t round = 2; round <= 4; round++) {
        const char *expected = round <= 3 ? "float32" : "3lc:s=1";
        tern_CheckinReply reply = checkin_as((tern_CheckinRequest){.codecs = FLOAT32 | THREE_LC});
        assert_string_equal(reply.task.codec, expected);
        expect_codecs(round, expected, expected);
        run_rounds(1);
    }
}

TEST(test_a_client_needs_the_codecs_of_the_first_rounds_in_these_alone)
{
    harness.config.federation.early =
        (struct tern_early_codecs){.rounds = 1, .up = ternary, .down = dense};
    configure(&dense, &dense);
    expect_unknown((tern_CheckinRequest){.codecs = FLOAT32},
                   "updates are encoded with 3lc, which this client does not support");
    harness.config.federation.early.up = dense;
    harness.config.federation.early.down = ternary;
    configure(&dense, &dense);
    expect_unknown((tern_CheckinRequest){.codecs = FLOAT32},
                   "downloads are encoded with 3lc, which this client does not support");
    run_rounds(1);
    assert_true(checkin_as((tern_CheckinRequest){.codecs = FLOAT32}).has_task);
}

// Codecs of later rounds are needed only where such rounds are planned.
TEST(test_a_client_needs_no_codec_that_no_round_uses)
{
    harness.config.federation.early =
        (struct tern_early_codecs){.rounds = 3, .up = dense, .down = dense};
    harness.config.federation.round.rounds = 4;
    configure(&ternary, &dense);
    expect_unknown((tern_CheckinRequest){.codecs = FLOAT32},
                   "updates are encoded with 3lc, which this client does not support");
    harness.config.federation.round.rounds = 0; // no end
    configure(&dense, &ternary);
    expect_unknown((tern_CheckinRequest){.codecs = FLOAT32},
                   "downloads are encoded with 3lc, which this client does not support");
    harness.config.federation.round.rounds = 3;
    configure(&ternary, &ternary);
    run_rounds(1); // it was open already, under the former codecs
    for (uint32_t round = 2; round <= 3; round++) {
        tern_CheckinReply small = checkin_as((tern_CheckinRequest){.codecs = FLOAT32});
        assert_true(small.has_task);
        assert_int_equal(small.task.round, round);
        assert_string_equal(small.task.codec, "float32");
        run_rounds(1);
    }
    checkin_as((tern_CheckinRequest){.codecs = FLOAT32}); // no refusal after the last round
}
