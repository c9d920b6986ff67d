// The downloads that a search makes for one client: their codec, what they leave, and what a search that is lost leaves in
// the store. Searches on a thread of their own: clients wait for them, and several clients share one.
#include "store/fixture.h"
#include "store/run_sql.h"

#include "downloads/catchup.h"
#include "downloads/search.h"
#include "tests/cases.h"
#include "util/prng.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEC "softmax:64-10"
#define SEED 1
#define CACHED 4 // replicas in memory

static struct tern_merge merge;
static struct tern_replica_book book;
static struct tern_download_store store;
static struct tern_search search;
static uint8_t seed_id[TERN_SHA256_SIZE];

// Version 1, whose global model differs from the seed's by a little at each value.
static int setup_model(void **state, const char *spec)
{
    struct tern_db_federation about = {.seed = SEED};
    struct tern_model model;
    struct tern_prng rng;
    fixture_setup(state);
    struct fixture *f = *state;
    snprintf(about.model_spec, sizeof about.model_spec, "%s", spec);
    assert_int_equal(tern_model_from_spec(&model, spec), TERN_OK);
    memcpy(about.model_hash, model.hash, TERN_SHA256_SIZE);
    assert_int_equal(tern_merge_init(&merge, &about, NULL), TERN_OK);
    tern_merge_seed(&merge, SEED);
    memcpy(seed_id, merge.replica_id, TERN_SHA256_SIZE);
    tern_prng_init(&rng, 3, TERN_PRNG_TEST, 0, 0);
    for (uint32_t i = 0; i < merge.model.count; i++) {
        const float x = tern_prng_float(&rng) - 0.5F;
        merge.global[i] += x * x * x;
    }
    merge.version = 1;
    merge.norm = tern_distance(merge.global, NULL, merge.model.count);
    store = (struct tern_download_store){.db = f->db, .memory.bytes_max = 1 << 20};
    book = (struct tern_replica_book){
        .db = f->db, .model = &merge.model, .seed = SEED, .keep_versions = 8};
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_replica_book_load(&book));
    assert_ok(f, tern_db_commit(f->db));
    return 0;
}

static int setup(void **state)
{
    return setup_model(state, SPEC);
}

// A snapshot in float32 has three parts.
static int setup_large(void **state)
{
    return setup_model(state, "mlp:1024-600-10");
}

// Weights that are stored whole have five parts.
static int setup_larger(void **state)
{
    return setup_model(state, "mlp:1024-1100-10");
}

static int teardown(void **state)
{
    tern_search_free(&search);
    tern_download_store_forget(&store, TERN_ALL_VERSIONS);
    tern_merge_free(&merge);
    return fixture_teardown(state);
}

// Prepares a search with slots for so many replicas in memory and in files, for a client with these codecs and the seed's
// replica, which is to be left at most `bound` away.
static void begin_with(struct fixture *f, uint32_t in_memory, uint32_t in_files, uint32_t codecs,
                       const char *trunk_codec, double bound)
{
    const uint64_t size = (uint64_t)merge.model.count * sizeof(float);
    search = (struct tern_search){
        .merge = &merge, .reader = f->db, .spool_folder = in_files > 0 ? "/tmp" : NULL};
    assert_int_equal(tern_codec_parse("density:p=0.1,coder=range", &search.codec, NULL), TERN_OK);
    const uint64_t sums = tern_exact_mean_bytes(merge.model.count);
    assert_int_equal(tern_search_init(&search, sums + in_memory * size, in_files * size), TERN_OK);
    search.question = (struct tern_search_question){.able.codecs = codecs, .bound = bound};
    memcpy(search.question.replica, seed_id, TERN_SHA256_SIZE);
    assert_int_equal(tern_codec_parse(trunk_codec, &search.question.trunk_codec, NULL), TERN_OK);
}

static void begin(struct fixture *f, uint32_t codecs, const char *trunk_codec, double bound)
{
    begin_with(f, CACHED, 0, codecs, trunk_codec, bound);
}

static struct tern_path run_and_store(struct fixture *f)
{
    struct tern_path path = {0};
    assert_ok(f, tern_search_run(&search));
    assert_int_equal(search.choice.kind, TERN_CHOICE_PASSES);
    assert_ok(f, tern_db_begin(f->db));
    bool more = false;
    assert_ok(f, tern_search_store(&search, &store, &book, 2, &path, &more));
    assert_false(more);
    assert_ok(f, tern_db_commit(f->db));
    return path;
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

// The replica from which the download leads is unknown, so that the weights behind it are stored.
CASE_WITH(test_a_replica_appears_behind_its_weights, setup_larger, teardown)
{
    struct fixture *f = *state;
    const size_t size = merge.model.count * sizeof(float);
    float *made = malloc(size);
    float *got = malloc(size);
    struct tern_path path = {.count = 0};
    struct tern_db_replica replica;
    unsigned batches = 0;
    assert_non_null(made);
    assert_non_null(got);
    begin(f, UINT32_MAX, "density:p=0.1,coder=range",
          tern_distance(merge.global, merge.replica, merge.model.count) / 2);
    assert_ok(f, tern_search_run(&search));
    run_sql(f->path, "DELETE FROM replicas");
    memcpy(made, search.weights, size);
    for (bool more = true; more; batches++) {
        path = (struct tern_path){.count = 0};
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_search_store(&search, &store, &book, 2, &path, &more));
        assert_ok(f, tern_db_commit(f->db));
        assert_int_equal(tern_db_replica_get(f->db, path.base, &replica),
                         more ? TERN_ERR_NOT_FOUND : TERN_OK);
    }
    assert_int_equal(batches, 5);
    assert_int_equal(path.count, 1);
    assert_int_equal(replica.form, TERN_REPLICA_WHOLE);
    assert_ok(f, tern_db_replica_weights_get(f->db, path.base, got, merge.model.count));
    assert_memory_equal(got, made, size);
    assert_int_equal(book.bytes, size + path.bytes[0]);
    free(made);
    free(got);
}

#define ALL_BUT_SNAPSHOTS                                                                          \
    (UINT32_MAX & ~(1u << TERN_CODEC_FLOAT32 | 1u << TERN_CODEC_FLOAT16 | 1u << TERN_CODEC_QSGD))

// No share of ternary values leaves so little. Uniform cannot leave it either, but comes closer than the trunk's codec.
CASE_WITH(test_uniform_goes_before_the_codec_of_the_trunk, setup, teardown)
{
    struct fixture *f = *state;
    const double before = tern_distance(merge.global, merge.replica, merge.model.count);
    begin(f, ALL_BUT_SNAPSHOTS, "density:p=0.1,coder=range", before / 1e4);
    assert_ok(f, tern_search_run(&search));
    assert_in_range(search.choice.passes, 1, TERN_PLAN_PASSES_MAX);
    char least[TERN_CODEC_SPEC_MAX];
    const struct tern_codec uniform = {.id = TERN_CODEC_UNIFORM,
                                       .error = TERN_UNIFORM_ERROR_LEAST / 1e6F};
    tern_codec_format(&uniform, least);
    assert_string_equal(search.drafts[0].row.codec, least);
    assert_true(search.drafts[0].residual < before / 10);
}

// A client that does not decode uniform gets passes of the trunk's codec or of the densest ternary one.
CASE_WITH(test_without_uniform_ternary_passes_follow_each_other, setup, teardown)
{
    struct fixture *f = *state;
    const double before = tern_distance(merge.global, merge.replica, merge.model.count);
    begin(f, ALL_BUT_SNAPSHOTS & ~(1u << TERN_CODEC_UNIFORM), "density:p=0.1,coder=range",
          before / 1e4);
    assert_ok(f, tern_search_run(&search));
    assert_in_range(search.choice.passes, 2, TERN_PLAN_PASSES_MAX);
    for (uint32_t i = 0; i < search.choice.count; i++) {
        assert_true(begins_with(search.drafts[i].row.codec, "density:"));
    }
}

// A search writes nothing, so one that a kill interrupts leaves nothing. The next one makes the same download.
CASE_WITH(test_a_lost_search_is_made_again_with_the_same_bytes, setup, teardown)
{
    struct fixture *f = *state;
    struct tern_db_replica_totals before;
    struct tern_db_replica_totals after;
    uint8_t sha256[TERN_SHA256_SIZE];
    const double bound = tern_distance(merge.global, merge.replica, merge.model.count) / 2;
    begin(f, 0, "density:p=0.1,coder=range", bound);
    assert_ok(f, tern_db_replica_totals(f->db, &before));
    assert_ok(f, tern_search_run(&search));
    assert_int_equal(search.draft_count, 1);
    memcpy(sha256, search.drafts[0].row.sha256, TERN_SHA256_SIZE);
    tern_search_free(&search);
    fixture_reopen(f);
    store.db = book.db = f->db;
    assert_ok(f, tern_db_replica_totals(f->db, &after));
    assert_memory_equal(&before, &after, sizeof before);

    begin(f, 0, "density:p=0.1,coder=range", bound);
    const struct tern_path path = run_and_store(f);
    assert_int_equal(path.count, 1);
    assert_memory_equal(path.sha256[0], sha256, TERN_SHA256_SIZE);
}

// A task of a new version names the trunk's older deltas, and no download that was made for one client.
CASE_WITH(test_older_downloads_of_clients_own_leave_the_cache, setup, teardown)
{
    static const uint8_t trunk_bytes[] = "a delta of the trunk";
    struct fixture *f = *state;
    struct tern_db_download trunk = {
        .to_version = 1, .size = sizeof trunk_bytes, .codec = "float32"};
    struct tern_download_facts facts;
    struct tern_blob *blob = NULL;
    begin(f, 0, "density:p=0.1,coder=range",
          tern_distance(merge.global, merge.replica, merge.model.count) / 2);
    const struct tern_path path = run_and_store(f);
    tern_sha256(trunk_bytes, sizeof trunk_bytes, trunk.sha256);
    memset(trunk.to_replica, 7, TERN_SHA256_SIZE);
    memcpy(trunk.from_replica, seed_id, TERN_SHA256_SIZE);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_replica_add(&book, &trunk, trunk_bytes, NULL, 0.0F, true, 2, NULL));
    assert_ok(f, tern_db_commit(f->db));
    assert_ok(f, tern_download_store_get(&store, trunk.sha256, &blob, &facts));
    tern_blob_release(blob);
    assert_int_equal(store.memory.bytes, path.bytes[0] + sizeof trunk_bytes);

    tern_download_store_forget(&store, 1); // both are of this version
    assert_int_equal(store.memory.bytes, path.bytes[0] + sizeof trunk_bytes);
    tern_download_store_forget(&store, 2);
    assert_int_equal(store.memory.bytes, sizeof trunk_bytes);
    assert_ok(f, tern_download_store_get(&store, path.sha256[0], &blob, &facts)); // from the store
    assert_int_equal(blob->len, path.bytes[0]);
    tern_blob_release(blob);
}

// Leads the client with replica path.base through three versions. Its weights stay in the slot, with the values that the store
// rebuilds.
static void expect_follows(struct fixture *f, struct tern_path path,
                           const struct tern_replica_slot *slot)
{
    static uint8_t blob[1 << 16];
    float rebuilt[1024];
    struct tern_replica_reader reader = {
        .db = f->db, .model = &merge.model, .seed = SEED, .blob = blob, .blob_size = sizeof blob};
    assert_true(merge.model.count <= 1024);
    for (uint32_t step = 0; step < 3; step++) {
        assert_int_equal(slot->used, search.clock);
        assert_memory_equal(slot->id, path.base, TERN_SHA256_SIZE);
        assert_ok(f, tern_replica_weights(&reader, path.base, rebuilt));
        assert_memory_equal(slot->weights, rebuilt, merge.model.count * sizeof rebuilt[0]);
        merge.version++;
        merge.global[step] += 1.0F;
        memcpy(search.question.replica, path.base, TERN_SHA256_SIZE);
        path = run_and_store(f);
        assert_int_equal(path.count, 1);
    }
}

// A search for another client, which has the seed's replica, at the next version.
static struct tern_path search_for_another(struct fixture *f)
{
    merge.version++;
    merge.global[5] += 1.0F;
    memcpy(search.question.replica, seed_id, TERN_SHA256_SIZE);
    return run_and_store(f);
}

static double half_way(void)
{
    return tern_distance(merge.global, merge.replica, merge.model.count) / 2;
}

CASE_WITH(test_weights_in_memory_are_those_that_the_store_rebuilds, setup, teardown)
{
    struct fixture *f = *state;
    begin(f, 0, "density:p=0.1,coder=range", half_way());
    const struct tern_path path = run_and_store(f);
    expect_follows(f, path, &search.slots[0]);
}

// The second client's weights are in a file, because memory has room for one replica.
CASE_WITH(test_weights_in_files_are_those_that_the_store_rebuilds, setup, teardown)
{
    struct fixture *f = *state;
    begin_with(f, 1, 1, 0, "density:p=0.1,coder=range", half_way());
    assert_int_equal(search.slot_count, 2);
    (void)run_and_store(f);
    const struct tern_path path = search_for_another(f);
    expect_follows(f, path, &search.slots[1]);
}

// Where no file can be made, the search uses the slot of the least recently used replica.
CASE_WITH(test_without_files_the_memory_is_reused, setup, teardown)
{
    struct fixture *f = *state;
    begin_with(f, 1, 1, 0, "density:p=0.1,coder=range", half_way());
    search.spool_folder = "/nowhere";
    (void)run_and_store(f);
    const struct tern_path path = search_for_another(f);
    assert_null(search.slots[1].weights);
    expect_follows(f, path, &search.slots[0]);
}

// Memory that the sums of a round fill has no room for a replica: its only slot is in a file, or in memory for want of one.
CASE_WITH(test_sums_come_before_replicas_in_memory, setup, teardown)
{
    static const char *const folders[] = {"/tmp", "/nowhere"};
    for (int i = 0; i < 2; i++) {
        begin_with(*state, 0, 1, 0, "density:p=0.1,coder=range", half_way());
        search.spool_folder = folders[i];
        assert_int_equal(search.memory_slots, 0);
        assert_int_equal(search.slot_count, 1);
        assert_int_equal(tern_search_run(&search), TERN_OK);
        assert_int_equal(search.slot->in_file, i == 0);
        tern_search_free(&search);
    }
}

// --- Searches on a thread of their own

static struct tern_catchup *catchup;
static atomic_uint woken;

static void wake(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&woken, 1);
}

// Opens version 1, whose delta is not stored, so that clients with the seed's replica need a search.
static void open_catchup(struct fixture *f, uint32_t inline_values)
{
    const struct tern_catchup_config config = {
        .plan = TERN_DOWNLOADS_CHEAPEST,
        .codec = {.id = TERN_CODEC_DENSITY, .density = 0.1F, .coder = TERN_CODER_RANGE},
        .residual = 0.5,
        .keep_versions = 8,
        .replica_cache = 1 << 20,
        .download_cache = 1 << 20,
        .inline_values = inline_values};
    struct tern_db_version versions[2] = {{.version = 0}, {.version = 1}};
    merge.residual = tern_distance(merge.global, merge.replica, merge.model.count);
    memset(merge.replica_id, 9, TERN_SHA256_SIZE);
    memcpy(versions[0].replica, seed_id, TERN_SHA256_SIZE);
    memcpy(versions[1].replica, merge.replica_id, TERN_SHA256_SIZE);
    assert_ok(f, tern_db_begin(f->db));
    for (uint32_t i = 0; i < 2; i++) {
        struct tern_db_version known;
        if (tern_db_version_get(f->db, i, &known) == TERN_ERR_NOT_FOUND) {
            assert_ok(f, tern_db_version_put(f->db, &versions[i]));
        }
    }
    assert_ok(f, tern_db_commit(f->db));
    atomic_store(&woken, 0);
    assert_ok(f, tern_catchup_new(&config, f->db, &merge, wake, NULL, &catchup));
    assert_ok(f, tern_catchup_load(catchup, 1));
}

static struct tern_path ask(struct fixture *f)
{
    struct tern_db_client client = {.version = 0};
    struct tern_searches searches = {0};
    struct tern_path path;
    memcpy(client.replica, seed_id, TERN_SHA256_SIZE);
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_catchup_trainer(catchup, &client, &searches, false, 2, &path));
    assert_ok(f, tern_db_commit(f->db));
    return path;
}

static bool store_found(struct fixture *f)
{
    bool found = false;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_catchup_store_found(catchup, 2, &found));
    assert_ok(f, tern_db_commit(f->db));
    return found;
}

CASE_WITH(test_clients_of_one_replica_wait_for_one_search, setup, teardown)
{
    struct fixture *f = *state;
    open_catchup(f, 0);
    for (uint32_t clients = 0; clients < 3; clients++) {
        const struct tern_path path = ask(f);
        assert_true(path.pending && !path.exists);
        assert_true(tern_catchup_is_searching(catchup));
    }
    tern_catchup_wait(catchup);
    assert_true(tern_catchup_has_found(catchup));
    assert_int_equal(atomic_load(&woken), 1);
    assert_true(ask(f).pending); // the downloads are not stored yet
    assert_true(store_found(f));
    assert_false(tern_catchup_is_searching(catchup));
    const struct tern_path first = ask(f);
    const struct tern_path second = ask(f);
    assert_true(first.exists && first.is_private && !first.pending);
    assert_int_equal(first.count, 1);
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(tern_catchup_cost(catchup).searches, 1);
    assert_true(tern_catchup_cost(catchup).cpu_ns > 0);
    assert_false(store_found(f));
    tern_catchup_free(catchup);
}

static struct tern_path ask_final(struct fixture *f)
{
    struct tern_db_client client = {.codecs = 1u << TERN_CODEC_FLOAT32};
    struct tern_path path;
    assert_ok(f, tern_db_begin(f->db));
    assert_ok(f, tern_catchup_final(catchup, &client, 2, &path));
    assert_ok(f, tern_db_commit(f->db));
    return path;
}

// A kill before the snapshot is stored leaves nothing, and the next snapshot has the same bytes.
CASE_WITH(test_clients_wait_for_the_snapshot_of_the_final_model, setup, teardown)
{
    struct fixture *f = *state;
    for (uint32_t kills = 0; kills < 2; kills++) {
        open_catchup(f, 0);
        for (uint32_t clients = 0; clients < 2; clients++) {
            const struct tern_path path = ask_final(f);
            assert_true(path.pending && !path.exists);
        }
        assert_true(ask(f).pending); // a search waits for the snapshot
        tern_catchup_wait(catchup);
        assert_int_equal(atomic_load(&woken), 1);
        if (kills == 0) {
            tern_catchup_free(catchup);
            fixture_reopen(f);
        }
    }
    assert_true(store_found(f));
    assert_false(tern_catchup_is_searching(catchup));
    const struct tern_path path = ask_final(f);
    assert_true(path.exists && !path.pending);
    assert_int_equal(path.count, 1);
    tern_catchup_free(catchup);

    open_catchup(f, UINT32_MAX);
    const struct tern_path at_once = ask_final(f);
    assert_memory_equal(&path, &at_once, sizeof path);
    tern_catchup_free(catchup);
}

// Each batch stores 1 MiB of a large snapshot. What a kill leaves of it, or a batch that fails, is continued.
CASE_WITH(test_a_large_snapshot_is_stored_by_several_batches, setup_large, teardown)
{
    struct fixture *f = *state;
    struct tern_blob *blob = NULL;
    struct tern_download_facts facts;
    for (uint32_t kills = 0; kills < 2; kills++) {
        bool found = false;
        open_catchup(f, 0);
        assert_true(ask_final(f).pending);
        tern_catchup_wait(catchup);
        assert_false(store_found(f));
        assert_true(tern_catchup_has_found(catchup));
        assert_ok(f, tern_db_begin(f->db));
        assert_ok(f, tern_catchup_store_found(catchup, 2, &found));
        tern_db_rollback(f->db);
        assert_true(found == (kills == 1));
        if (kills == 0) {
            assert_true(ask_final(f).pending);
            tern_catchup_free(catchup);
            fixture_reopen(f);
        }
    }
    tern_catchup_free(catchup); // the batch that failed had ended the work
    open_catchup(f, 0);
    assert_true(ask_final(f).pending);
    tern_catchup_wait(catchup);
    assert_true(store_found(f)); // the last of three parts
    const struct tern_path path = ask_final(f);
    assert_true(path.exists && !path.pending);
    assert_true(path.bytes[0] > merge.model.count * sizeof(float));
    tern_catchup_free(catchup);
    open_catchup(f, 0);
    assert_ok(f, tern_catchup_blob(catchup, path.sha256[0], &blob, &facts)); // from the store
    tern_blob_release(blob);
    tern_catchup_free(catchup);
}

CASE_WITH(test_a_kill_during_a_search_loses_nothing, setup, teardown)
{
    struct fixture *f = *state;
    open_catchup(f, 0);
    assert_true(ask(f).pending);
    tern_catchup_free(catchup);
    fixture_reopen(f);
    open_catchup(f, 0);
    assert_true(ask(f).pending);
    tern_catchup_wait(catchup);
    assert_true(store_found(f));
    const struct tern_path path = ask(f);
    tern_catchup_free(catchup);

    // A search on the caller's thread gives the same path at once.
    open_catchup(f, UINT32_MAX);
    const struct tern_path at_once = ask(f);
    assert_memory_equal(&path, &at_once, sizeof path);
    assert_int_equal(atomic_load(&woken), 0);
    tern_catchup_free(catchup);
}
