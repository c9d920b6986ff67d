// What is said of two peers that are set otherwise, whatever the other one has sent.
#include "node/agree.h"
#include "tests/cases.h"
#include <string.h>

static char mine[TERN_RING_TERMS_MAX + 1];

static int setup(void **state)
{
    (void)state;
    size_t len = tern_ring_terms_add(mine, 0, "model", "mlp:24-32-8 00ff");
    len = tern_ring_terms_add(mine, len, "codec", "float32");
    len = tern_ring_terms_add(mine, len, "peers", "anna ben cleo");
    assert_string_equal(mine, "model mlp:24-32-8 00ff\ncodec float32\npeers anna ben cleo\n");
    return 0;
}

static void says(const char *theirs, const char *expected)
{
    char why[TERN_RING_TERMS_WHY_MAX];
    tern_ring_terms_compare(mine, theirs, why);
    assert_string_equal(why, expected);
}

CASE(each_setting_that_differs_is_named)
{
    says(mine, "");
    says("codec int8\n", "ring.codec is int8 there and float32 here");
    says("peers anna ben\nmodel mlp:24-32-8 00fe",
         "ring.model is mlp:24-32-8 there and mlp:24-32-8 here; ring.peers is anna ben there and "
         "anna ben cleo "
         "here");
    says("codec float32 \n", "ring.codec is float32  there and float32 here");
    says("codec \n", "ring.codec is  there and float32 here");
}

CASE(what_is_no_setting_says_nothing)
{
    says("", "");
    says("\n\n", "");
    says("codec", "");
    says("codecs int8\ncode int8\nother 1\n", "");
}

// It stands on a terminal.
CASE(what_steers_a_terminal_is_not_shown)
{
    says("codec \033[2J\xff", "ring.codec is ?[2J? there and float32 here");
}

CASE(long_values_are_cut)
{
    char theirs[TERN_RING_TERMS_MAX + 1];
    char why[TERN_RING_TERMS_WHY_MAX];
    char value[4000];
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    size_t len = tern_ring_terms_add(theirs, 0, "codec", value);
    len = tern_ring_terms_add(theirs, len, "peers", value);
    assert_int_equal(tern_ring_terms_add(theirs, len, "model", value), len); // there is no room
    assert_int_equal(strlen(theirs), len);
    tern_ring_terms_compare(mine, theirs, why);
    assert_non_null(strstr(why, "xxx... there and float32 here; ring.peers is xxx"));
    assert_true(strlen(why) < sizeof why);
}

CASES_SHARE(setup, NULL)
