// The flat JSON of a run and the tables made from it.
#include "fleet/results.h"
#include "tests/cases.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tern_fleet_results sample(void)
{
    struct tern_fleet_results run = {
        .codec = "3lc:s=1",
        .model = "mlp:784-128-10",
        .model_hash = "00ff",
        .seed = 7,
        .clients = 50,
        .cohort = 10,
        .rounds = 2,
        .seconds = 3.5,
        .float32_payload = 407090,
        .up = {.payload = 12000, .http = 13000, .tls = 14000, .wire = 15000},
        .down = {.payload = 50000, .http = 51000, .tls = 52000, .wire = 53000},
        .participations = 20,
    };
    run.accuracy = calloc(2, sizeof *run.accuracy);
    run.accuracy[0] = 0.5;
    run.accuracy[1] = 0.75;
    run.encode_ms = 1.25;
    run.round_up = calloc(2, sizeof *run.round_up);
    run.round_down = calloc(2, sizeof *run.round_down);
    run.replica_figure = calloc(50, sizeof *run.replica_figure);
    run.replica_version = calloc(50, sizeof *run.replica_version);
    run.replica_figure[49] = 0.7;
    run.replica_version[49] = 2;
    const struct tern_participation participation = {.version = 2,
                                                     .client = 3,
                                                     .local_steps = 20,
                                                     .up = {.payload = 60, .wire = 900},
                                                     .down = {.payload = 70, .wire = 1800},
                                                     .train_ms = 1.23456,
                                                     .codec_ms = 0.5,
                                                     .device_ms = 2000};
    const struct tern_arrival arrival = {.client = 3, .version = 1, .missed = 1, .accuracy = 0.5};
    assert_int_equal(tern_records_add(&run.records, &participation), TERN_OK);
    assert_int_equal(tern_records_add_arrival(&run.records, &arrival), TERN_OK);
    run.round_up[1] = 900;
    run.round_down[1] = 1800;
    return run;
}

static double number(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static double of_list(const cJSON *json, const char *key, int i)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, key);
    assert_true(cJSON_IsArray(list) && cJSON_GetArraySize(list) > i);
    return cJSON_GetArrayItem(list, i)->valuedouble;
}

CASE(the_json_is_flat_and_has_means_per_participation)
{
    struct tern_fleet_results run = sample();
    char *text = tern_fleet_results_text(&run);
    cJSON *json = cJSON_Parse(text);
    assert_true(number(json, "final_accuracy") == 0.75);
    assert_true(number(json, "rounds") == 2);
    assert_true(number(json, "clients") == 50);
    assert_true(number(json, "cohort") == 10);
    assert_true(number(json, "seed") == 7);
    assert_true(number(json, "seconds") == 3.5);
    assert_true(number(json, "float32_payload") == 407090);
    assert_true(number(json, "encode_ms") == 1.25);
    const cJSON *round_up = cJSON_GetObjectItem(json, "round_wire_up");
    const cJSON *round_down = cJSON_GetObjectItem(json, "round_wire_down");
    assert_true(cJSON_GetArrayItem(round_up, 1)->valuedouble == 900);
    assert_true(cJSON_GetArrayItem(round_down, 1)->valuedouble == 1800);
    assert_true(number(json, "payload_up") == 600);
    assert_true(number(json, "http_up") == 650);
    assert_true(number(json, "tls_up") == 700);
    assert_true(number(json, "wire_up") == 750);
    assert_true(number(json, "payload_down") == 2500);
    assert_true(number(json, "wire_down") == 2650);
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        assert_false(cJSON_IsObject(item));
    }
    assert_true(of_list(json, "replica_accuracy", 49) == 0.7);
    assert_true(of_list(json, "replica_version", 49) == 2);
    assert_true(of_list(json, "record_version", 0) == 2);
    assert_true(of_list(json, "record_client", 0) == 3);
    assert_true(of_list(json, "record_steps", 0) == 20);
    assert_true(of_list(json, "record_payload_up", 0) == 60);
    assert_true(of_list(json, "record_payload_down", 0) == 70);
    assert_true(of_list(json, "record_wire_up", 0) == 900);
    assert_true(of_list(json, "record_wire_down", 0) == 1800);
    assert_true(of_list(json, "record_train_ms", 0) == 1.235);
    assert_true(of_list(json, "record_codec_ms", 0) == 0.5);
    assert_true(of_list(json, "record_device_ms", 0) == 2000);
    assert_true(of_list(json, "arrival_missed", 0) == 1);
    assert_true(of_list(json, "arrival_accuracy", 0) == 0.5);
    assert_string_equal(cJSON_GetObjectItem(json, "codec")->valuestring, "3lc:s=1");
    assert_string_equal(cJSON_GetObjectItem(json, "model_hash")->valuestring, "00ff");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "accuracy")), 2);
    cJSON_Delete(json);
    free(text);
    tern_fleet_results_clear(&run);
}

CASE(versions_that_were_passed_over_have_no_accuracy)
{
    struct tern_fleet_results run = sample();
    run.accuracy[1] = NAN;
    assert_true(tern_fleet_final_accuracy(&run) == 0.5);
    char *text = tern_fleet_results_text(&run);
    cJSON *json = cJSON_Parse(text);
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "accuracy"), 1)));
    assert_true(number(json, "final_accuracy") == 0.5);
    cJSON_Delete(json);
    free(text);
    run.accuracy[0] = NAN;
    assert_true(isnan(tern_fleet_final_accuracy(&run)));
    tern_fleet_results_clear(&run);
}

CASE(what_was_written_is_read_back)
{
    char path[] = "/tmp/tern-results-XXXXXX";
    char why[256];
    close(mkstemp(path));
    struct tern_fleet_results run = sample();
    struct tern_fleet_results back;
    assert_int_equal(tern_fleet_results_write(&run, path), TERN_OK);
    assert_int_equal(tern_fleet_results_read(path, &back, why), TERN_OK);
    assert_int_equal(back.rounds, 2);
    assert_true(back.accuracy[1] == 0.75);
    assert_int_equal(back.up.wire, 15000);
    assert_int_equal(back.down.payload, 50000);
    assert_int_equal(back.participations, 20);
    assert_string_equal(back.codec, "3lc:s=1");
    tern_fleet_results_clear(&run);
    tern_fleet_results_clear(&back);
    unlink(path);
}

CASE(a_file_that_is_no_run_is_refused_by_the_key_that_is_missing)
{
    static const struct {
        const char *text;
        const char *key;
    } cases[] = {
        {"", "'codec'"},
        {"[1, 2]", "'codec'"},
        {"{\"codec\": 3}", "'codec'"},
        {"{\"codec\": \"3lc\", \"model\": \"m\", \"model_hash\": \"h\", \"seed\": -1}", "'seed'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[] = "/tmp/tern-results-XXXXXX";
        char why[256];
        struct tern_fleet_results back;
        int file = mkstemp(path);
        assert_int_equal(write(file, cases[i].text, strlen(cases[i].text)),
                         (int)strlen(cases[i].text));
        close(file);
        assert_int_equal(tern_fleet_results_read(path, &back, why), TERN_ERR_CORRUPT);
        assert_non_null(strstr(why, cases[i].key));
        unlink(path);
    }
}

CASE(a_missing_file_is_named)
{
    char why[256];
    struct tern_fleet_results back;
    assert_int_equal(tern_fleet_results_read("/nowhere/run.json", &back, why), TERN_ERR_NOT_FOUND);
    assert_non_null(strstr(why, "/nowhere/run.json"));
}

static char *printed(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    print(out);
    fclose(out);
    return text;
}

static void print_comparison(FILE *out)
{
    struct tern_fleet_results run = sample();
    struct tern_fleet_results plain = sample();
    strcpy(plain.codec, "float32");
    plain.accuracy[1] = 0.7525;
    plain.up.payload = 120000;
    plain.down.payload = 1250;
    plain.clients = 20;
    run.local_steps = 57.75;
    plain.local_steps = 20;
    tern_fleet_print_comparison(&run, "mine/run.json", &plain, "other/run.json", out);
    tern_fleet_results_clear(&run);
    tern_fleet_results_clear(&plain);
}

static void print_equal(FILE *out)
{
    struct tern_fleet_results run = sample();
    struct tern_fleet_results other = sample();
    other.accuracy[1] = run.accuracy[1] + 1e-6;
    tern_fleet_print_comparison(&run, "run.json", &other, "other.json", out);
    tern_fleet_results_clear(&run);
    tern_fleet_results_clear(&other);
}

// Compares a regression with its own JSON, whose r2 is changed.
static void print_regressions(FILE *out)
{
    static const struct tern_evaluate_result found = {
        .num_examples = 9,
        .loss = 0.25F,
        .no_accuracy = true,
        .metric_count = 2,
        .metrics = {{.name = "r2", .value = 0.75F}, {.name = "mae", .value = 2.0F}}};
    char path[] = "/tmp/tern-results-XXXXXX";
    char why[256];
    struct tern_fleet_results run = sample();
    struct tern_fleet_results other;
    close(mkstemp(path));
    run.accuracy[0] = run.accuracy[1] = NAN;
    run.found = calloc(2, sizeof *run.found);
    run.found[1] = found;
    assert_int_equal(tern_fleet_results_write(&run, path), TERN_OK);
    assert_int_equal(tern_fleet_results_read(path, &other, why), TERN_OK);
    unlink(path);
    run.found[1].metrics[0].value = 0.5F;
    tern_fleet_print_comparison(&run, "run.json", &other, "other.json", out);
    tern_fleet_results_clear(&run);
    tern_fleet_results_clear(&other);
}

CASE(a_regressions_comparison_has_its_figures)
{
    char *text = printed(print_regressions);
    assert_non_null(strstr(
        text, "\nr2                          0.5                    0.75              -0.25"));
    assert_non_null(strstr(text, "\nmae "));
    assert_non_null(strstr(
        text, "\nloss                       0.25                    0.25                 +0"));
    assert_null(strstr(text, "points"));
    free(text);
}

CASE(no_difference_has_no_minus_sign)
{
    char *text = printed(print_equal);
    assert_non_null(strstr(text, "+0.00 points"));
    free(text);
}

CASE(the_comparison_shows_points_and_ratios)
{
    char *text = printed(print_comparison);
    assert_non_null(strstr(text, "-0.25 points"));
    assert_non_null(strstr(text, "600 B"));
    assert_non_null(strstr(text, "6.0 KB"));
    assert_non_null(strstr(text, "10.0x fewer"));
    assert_non_null(strstr(text, "40.0x more"));
    assert_non_null(strstr(text, " mine/run               other/run "));
    assert_non_null(strstr(text, "3lc:s=1                 float32"));
    assert_non_null(strstr(text, "50 and 20 clients, 2 rounds"));
    assert_non_null(strstr(text, "57.8                    20.0   local steps"));
    free(text);
}

static void print_demo(FILE *out)
{
    struct tern_fleet_results run = sample();
    tern_fleet_print_comparison(&run, "/tmp/x/3LC.json", &run, "/tmp/x/float32.json", out);
    tern_fleet_print_comparison(&run, "json", &run, "/tmp/a-very-long-name-of-a-run.json", out);
    tern_fleet_results_clear(&run);
}

CASE(columns_have_the_names_of_files_without_their_ending)
{
    char *text = printed(print_demo);
    assert_non_null(strstr(text, " 3LC                 float32 "));
    assert_null(strstr(text, ".json"));
    assert_non_null(strstr(text, " json   ry-long-name-of-a-run "));
    free(text);
}

static void print_nothing_done(FILE *out)
{
    const struct tern_fleet_results run = {.model = "m", .codec = "c"};
    tern_fleet_print_table(&run, out);
}

CASE(a_run_without_rounds_prints_without_dividing_by_zero)
{
    char *text = printed(print_nothing_done);
    assert_non_null(strstr(text, "no accuracy after 0 rounds"));
    assert_null(strstr(text, "nan"));
    free(text);
}

CASE(bytes_are_told_in_three_digits)
{
    char text[16];
    assert_string_equal(tern_fleet_format_bytes(0, text), "0 B");
    assert_string_equal(tern_fleet_format_bytes(999, text), "999 B");
    assert_string_equal(tern_fleet_format_bytes(999.6, text), "1.0 KB");
    assert_string_equal(tern_fleet_format_bytes(3140, text), "3.1 KB");
    assert_string_equal(tern_fleet_format_bytes(12.44e6, text), "12.4 MB");
}
