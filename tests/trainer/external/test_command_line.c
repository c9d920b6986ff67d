// How client.trainer_command is split: what is one word, and what is refused.
#include <string.h>

#include "external/command_trainer.h"
#include "tests/cases.h"

static struct tern_command_line line;
static const char *why;

static void expect(const char *text, const char *const *words)
{
    assert_int_equal(tern_command_line_split(text, &line, &why), TERN_OK);
    size_t count = 0;
    for (; words[count] != NULL; count++) {
        assert_true(count < line.count);
        assert_string_equal(line.words[count], words[count]);
    }
    assert_int_equal(line.count, count);
    assert_null(line.words[count]);
}

#define EXPECT(text, ...) expect(text, (const char *const[]){__VA_ARGS__, NULL})

CASE(words_are_parted_by_blanks)
{
    EXPECT("train", "train");
    EXPECT("  python3\ttrain.py  --data  x ", "python3", "train.py", "--data", "x");
}

CASE(quotes_and_backslashes_keep_words_together)
{
    EXPECT("a 'b c' d", "a", "b c", "d");
    EXPECT("a \"b 'c'\" d", "a", "b 'c'", "d");
    EXPECT("a --x='b c'\" d\"e", "a", "--x=b c de");
    EXPECT("a b\\ c \\'", "a", "b c", "'");
    EXPECT("a \"x\\\"y\\\\\" 'x\\y'", "a", "x\"y\\", "x\\y");
    EXPECT("a '' \"\"", "a", "", "");
}

CASE(nothing_is_expanded)
{
    EXPECT("a $HOME `id` $(id) *; b | c > d & #e ~", "a", "$HOME", "`id`", "$(id)", "*;", "b", "|",
           "c", ">", "d", "&", "#e", "~");
}

CASE(what_has_no_end_is_refused)
{
    static const char *const bad[] = {"", "  ", "'a", "a \"b", "a\\", "''", "\"\" a"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        why = NULL;
        assert_int_equal(tern_command_line_split(bad[i], &line, &why), TERN_ERR_CONFIG);
        assert_non_null(why);
    }
}

CASE(too_much_is_refused)
{
    char text[TERN_COMMAND_TEXT_MAX + 1];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(tern_command_line_split(text, &line, &why), TERN_ERR_TOO_LARGE);
    text[sizeof text - 2] = '\0';
    assert_int_equal(tern_command_line_split(text, &line, &why), TERN_OK);
    for (size_t i = 1; i < sizeof text - 2; i += 2) {
        text[i] = ' ';
    }
    assert_int_equal(tern_command_line_split(text, &line, &why), TERN_ERR_TOO_LARGE);
    text[2 * TERN_COMMAND_WORDS_MAX] = '\0';
    assert_int_equal(tern_command_line_split(text, &line, &why), TERN_OK);
    assert_int_equal(line.count, TERN_COMMAND_WORDS_MAX);
}
