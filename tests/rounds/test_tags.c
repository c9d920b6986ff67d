// Tags of clients, and draws by them.
#include "rounds/tags.h"
#include "tests/cases.h"

#include <string.h>

#define CLIENTS 60

CASE(test_tags_are_read)
{
    static const struct {
        const char *text, *tags;
    } rows[] = {
        {"", ""},
        {"  ", ""},
        {"site=a", "site=a"},
        {" site=Oslo-2 ,  line=3.1", "line=3.1,site=Oslo-2"},
        {"b=1,a=2,ab=3,a.b=4", "a=2,a.b=4,ab=3,b=1"},
    };
    char tags[TERN_TAGS_MAX];
    char why[TERN_TAG_WHY_MAX];
    size_t len = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(tern_tags_parse(rows[i].text, tags, why), TERN_OK);
        assert_string_equal(tags, rows[i].tags);
    }
    assert_int_equal(*tern_tags_value(tags, "ab", &len), '3');
    assert_int_equal(len, 1);
    assert_null(tern_tags_value(tags, "abc", &len));
    assert_null(tern_tags_value("", "a", &len));
}

CASE(test_what_is_wrong_with_tags_is_said)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"site", "\"site\" has no value"},
        {"site=", "has no value"},
        {"=a", "has no key"},
        {"site=a,", "ends with a comma"},
        {"site=a,,b=1", "has no key"},
        {"site=a b=1", "has no value"},
        {"site=a,line=1,site=b", "occurs twice"},
        {"a234567890123456789012345678901234=1", "has no key"},
        {"site=caf\xc3\xa9", "has no value"},
        {"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1", "17th tag"},
    };
    char tags[TERN_TAGS_MAX] = "as=before";
    char why[TERN_TAG_WHY_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(tern_tags_parse(rows[i].text, tags, why), TERN_ERR_CONFIG);
        assert_non_null(strstr(why, rows[i].words));
        assert_string_equal(tags, "as=before");
    }
    char longest[300];
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "k=", 2);
    longest[255] = '\0';
    assert_int_equal(tern_tags_parse(longest, tags, why), TERN_OK);
    longest[255] = 'x';
    longest[256] = '\0';
    assert_int_equal(tern_tags_parse(longest, tags, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "255 bytes"));
}

CASE(test_selections_are_read)
{
    struct tern_tag_selection wanted;
    char why[TERN_TAG_WHY_MAX];
    assert_int_equal(tern_tag_selection_parse("tags:site", &wanted, why), TERN_OK);
    assert_string_equal(wanted.spread_key, "site");
    assert_string_equal(wanted.required, "");
    assert_int_equal(tern_tag_selection_parse("tags:site, line=3,kind=pump", &wanted, why),
                     TERN_OK);
    assert_string_equal(wanted.spread_key, "site");
    assert_string_equal(wanted.required, "kind=pump,line=3");
    assert_int_equal(tern_tag_selection_parse("random", &wanted, why), TERN_ERR_UNKNOWN);
    assert_int_equal(tern_tag_selection_parse("tags:", &wanted, why), TERN_ERR_CONFIG);
    assert_int_equal(tern_tag_selection_parse("tags:site,line", &wanted, why), TERN_ERR_CONFIG);
    assert_non_null(strstr(why, "values of one tag only"));
    assert_string_equal(wanted.required, "kind=pump,line=3");

    assert_true(tern_tags_match("kind=pump,line=3", &wanted));
    assert_true(tern_tags_match("a=1,kind=pump,l=3,line=3,site=a", &wanted));
    assert_false(tern_tags_match("kind=pump,line=33", &wanted));
    assert_false(tern_tags_match("kind=pump", &wanted));
    assert_false(tern_tags_match("", &wanted));
    assert_true(tern_tags_match("", &(struct tern_tag_selection){.required = ""}));
}

// Returns the site of one of 60 clients: 30 of site a, 20 of b, 8 of c, and 2 without a site.
static uint32_t group_of(uint64_t id)
{
    return id <= 30 ? 0 : id <= 50 ? 1 : id <= 58 ? 2 : 3;
}

static void spread(uint32_t round, uint32_t attempt, uint64_t *ids, uint32_t want)
{
    static const char *const tags[] = {"line=1,site=a", "site=b", "site=c,z=1", "line=2"};
    struct tern_tagged_client lots[CLIENTS];
    for (uint32_t i = 0; i < CLIENTS; i++) {
        lots[i] = (struct tern_tagged_client){.id = i + 1, .tags = tags[group_of(i + 1)]};
    }
    tern_tags_select_evenly(7, round, attempt, "site", lots, CLIENTS, ids, want);
    for (uint32_t i = 1; i < want; i++) {
        assert_true(ids[i - 1] < ids[i]);
    }
}

static void count(const uint64_t *ids, uint32_t want, uint32_t groups[4])
{
    memset(groups, 0, 4 * sizeof groups[0]);
    for (uint32_t i = 0; i < want; i++) {
        groups[group_of(ids[i])]++;
    }
}

CASE(test_a_draw_is_even)
{
    uint32_t drawn[CLIENTS + 1] = {0};
    uint32_t more[3] = {0};
    uint64_t ids[CLIENTS];
    uint32_t groups[4];
    for (uint32_t round = 1; round <= 1000; round++) {
        spread(round, 1, ids, 15); // 2 without, and 13 of three sites
        count(ids, 15, groups);
        assert_int_equal(groups[3], 2);
        for (uint32_t i = 0; i < 3; i++) {
            assert_in_range(groups[i], 4, 5);
            more[i] += groups[i] == 5;
        }
        for (uint32_t i = 0; i < 15; i++) {
            drawn[ids[i]]++;
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_in_range(more[i], 270, 400); // of 333, whatever the site's size
    }
    for (uint64_t id = 1; id <= 30; id++) {
        assert_in_range(drawn[id], 95, 195); // of some 144, whose deviation is 11
    }
    spread(1, 1, ids, 45); // more than the small ones have
    count(ids, 45, groups);
    assert_int_equal(groups[3], 2);
    assert_int_equal(groups[2], 8);
    assert_in_range(groups[0], 17, 18);
    spread(1, 1, ids, CLIENTS);
    assert_int_equal(ids[CLIENTS - 1], CLIENTS);
}

CASE(test_a_draw_is_named_by_seed_round_and_attempt)
{
    uint64_t first[CLIENTS];
    uint64_t again[CLIENTS];
    spread(3, 1, first, 12);
    spread(3, 1, again, 12);
    assert_memory_equal(first, again, 12 * sizeof first[0]);
    spread(3, 2, again, 12);
    assert_memory_not_equal(first, again, 12 * sizeof first[0]);
    spread(4, 1, again, 12);
    assert_memory_not_equal(first, again, 12 * sizeof first[0]);
}
