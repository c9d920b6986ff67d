// Hand-made answers, and the scores that follow from them by hand.
#include "fleet/data_names.h"
#include "fleet/scores.h"
#include "tests/cases.h"
#include <math.h>
#include <stdbool.h>

// Training examples of four groups, dealt out to three clients; the test set lacks class 2.
static const uint16_t train_labels[8] = {0, 0, 0, 1, 1, 2, 2, 1};
static const uint32_t train_groups[8] = {0, 0, 3, 1, 1, 1, 2, 2};
static uint32_t indices[8] = {0, 1, 2, 3, 4, 5, 6, 7};
static uint32_t starts[4] = {0, 3, 6, 8};
static const uint16_t test_labels[6] = {0, 0, 0, 0, 1, 1};
static const uint32_t test_groups[6] = {0, 0, 3, 1, 1, 4};
static const uint16_t answers[6] = {0, 0, 1, 0, 1, 2};

static struct tern_shares shares_of(enum tern_partition_kind kind)
{
    return (struct tern_shares){
        .kind = kind,
        .data = {.train = {.count = 8,
                           .class_count = 3,
                           .labels = train_labels,
                           .groups = train_groups,
                           .group_count = 5},
                 .test = {.count = 6,
                          .class_count = 3,
                          .labels = test_labels,
                          .groups = test_groups,
                          .group_count = 5}},
        .partition = {.client_count = 3, .indices = indices, .starts = starts},
    };
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

CASE(classes_are_scored_each)
{
    const struct tern_shares shares = shares_of(TERN_PARTITION_IID);
    const uint32_t confusion[9] = {3, 1, 0, 0, 1, 1, 0, 0, 0};
    struct tern_scores scores;
    assert_int_equal(tern_scores_make(&shares, answers, &scores), TERN_OK);
    assert_int_equal(scores.classes, 3);
    assert_memory_equal(scores.confusion, confusion, sizeof confusion);
    assert_true(near(scores.class_accuracy[0], 0.75) && near(scores.class_accuracy[1], 0.5));
    assert_true(isnan(scores.class_accuracy[2]));
    assert_true(near(scores.class_precision[0], 1.0) && near(scores.class_precision[1], 0.5));
    assert_true(near(scores.class_precision[2], 0.0));
    assert_true(near(scores.class_f1[0], 6.0 / 7.0) && near(scores.class_f1[1], 0.5));
    assert_true(near(scores.macro_f1, (6.0 / 7.0 + 0.5 + 0.0) / 3.0));
    tern_scores_clear(&scores);
}

CASE(a_class_that_is_nowhere_is_left_out_of_the_mean)
{
    struct tern_shares shares = shares_of(TERN_PARTITION_IID);
    const uint16_t other[6] = {0, 0, 1, 0, 1, 1};
    struct tern_scores scores;
    assert_int_equal(tern_scores_make(&shares, other, &scores), TERN_OK);
    assert_true(isnan(scores.class_f1[2]) && isnan(scores.class_precision[2]));
    assert_true(near(scores.macro_f1, (6.0 / 7.0 + 0.8) / 2.0));
    tern_scores_clear(&scores);
}

CASE(clients_are_scored_by_their_mix_of_classes)
{
    const struct tern_shares shares = shares_of(TERN_PARTITION_DIRICHLET);
    struct tern_scores scores;
    assert_int_equal(tern_scores_make(&shares, answers, &scores), TERN_OK);
    assert_int_equal(scores.clients, 3);
    assert_true(near(scores.client_accuracy[0], 0.75));
    // Classes 1, 1 and 2, of which the test set does not have the last.
    assert_true(near(scores.client_accuracy[1], 0.5));
    assert_true(near(scores.client_accuracy[2], 0.5));
    assert_true(near(scores.client_examples[0], 3.0) && near(scores.client_examples[2], 2.0));
    tern_scores_clear(&scores);
}

CASE(natural_clients_are_scored_on_their_groups)
{
    const struct tern_shares shares = shares_of(TERN_PARTITION_NATURAL);
    struct tern_scores scores;
    assert_int_equal(tern_scores_make(&shares, answers, &scores), TERN_OK);
    // Groups 0 and 3: two of three right. Group 1: both. Group 2 is not in the test set, and group
    // 4 is no client's.
    assert_true(near(scores.client_accuracy[0], 2.0 / 3.0));
    assert_true(near(scores.client_accuracy[1], 1.0));
    assert_true(isnan(scores.client_accuracy[2]));
    tern_scores_clear(&scores);
}

CASE(natural_clients_have_the_names_of_their_groups)
{
    static const char *const names[5] = {"pump", "P\xc3\xb8lse", "caf\xe9 \x1b[1m", "d", "e"};
    char text[TERN_CLIENT_GROUPS_TEXT];
    struct tern_shares shares = shares_of(TERN_PARTITION_NATURAL);
    for (int named = 0; named < 2; named++) {
        tern_name_set_init(&shares.data.groups, 5);
        for (uint32_t g = 0; named != 0 && g < 5; g++) {
            uint32_t number;
            assert_int_equal(tern_name_set_find(&shares.data.groups, names[g], true, &number),
                             TERN_OK);
            assert_int_equal(number, g);
        }
        cJSON *groups = tern_client_groups(&shares);
        assert_non_null(groups);
        char *json = cJSON_PrintUnformatted(groups);
        assert_string_equal(json, named ? "[[\"pump\",\"d\"],[\"P\xc3\xb8lse\"],[\"caf? ?[1m\"]]"
                                        : "[[\"0\",\"3\"],[\"1\"],[\"2\"]]");
        tern_client_groups_show(groups, 0, text);
        assert_string_equal(text, named ? "pump and 1 more" : "0 and 1 more");
        tern_client_groups_show(groups, 2, text);
        assert_string_equal(text, named ? "caf? ?[1m" : "2");
        cJSON_free(json);
        cJSON_Delete(groups);
        tern_name_set_free(&shares.data.groups);
    }
}
