// The log: whole lines, whatever the threads do and whatever the text holds.
#include "capture.h"
#include "hosted/log.h"
#include "tests/cases.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

// The lines without the time that each of them begins with.
static const char *without_times(char *text)
{
    static const char form[] = "time=0000-00-00T00:00:00.000Z ";
    const size_t len = sizeof form - 1;
    char *to = text;
    for (const char *line = text; *line != '\0';) {
        for (size_t i = 0; i < len; i++) {
            const bool digit = line[i] >= '0' && line[i] <= '9';
            assert_int_equal(digit ? '0' : line[i], form[i]);
        }
        const size_t rest = strcspn(line + len, "\n") + 1;
        memmove(to, line + len, rest);
        to += rest;
        line += len + rest;
    }
    *to = '\0';
    return text;
}

static int write_events(void *ctx)
{
    (void)ctx;
    tern_log(TERN_LOG_INFO, "start", NULL);
    tern_log(TERN_LOG_WARN, "slow", "client=%d name=%s", 7, TERN_LOG_TEXT("a \"b\""));
    tern_log(TERN_LOG_DEBUG, "hidden", NULL);
    tern_log_set_level(TERN_LOG_DEBUG);
    tern_log(TERN_LOG_DEBUG, "shown", "text=%s", TERN_LOG_TEXT("two\nlines"));
    tern_log(TERN_LOG_DEBUG, "shown", "text=%s",
             "\x1b[2J\xc2\x9b"
             "2J");
    tern_log_set_request(812);
    tern_log(TERN_LOG_WARN, "caused", "round=%u", 3u);
    tern_log_set_request(0);
    tern_log(TERN_LOG_DEBUG, "shown", "text=%s", "a\u202eb\u200bc\U000e0041d\ufeff\u00e4\xff");
    return 0;
}

CASE(an_event_is_one_line)
{
    struct capture got;
    capture_run(&got, write_events, NULL);
    assert_string_equal(without_times(got.err),
                        "level=info event=start\n"
                        "level=warn event=slow client=7 name=\"a \\\"b\\\"\"\n"
                        "level=debug event=shown text=two?lines\n"
                        "level=debug event=shown text=?[2J??2J\n"
                        "level=warn event=caused request=812 round=3\n"
                        "level=debug event=shown text=a???b???c????d???\u00e4?\n");
}

// Held lines keep their order and their requests. An error is written at once.
static int write_held(void *ctx)
{
    (void)ctx;
    static const char text[] = "0123456789012345678901234567890123456789";
    tern_log_hold();
    tern_log(TERN_LOG_INFO, "undone", NULL);
    tern_log(TERN_LOG_ERROR, "failed", NULL);
    tern_log_release(false);
    tern_log_hold();
    tern_log_set_request(5);
    for (unsigned i = 0; i < 100; i++) {
        tern_log(TERN_LOG_WARN, "done", "i=%u text=%s", i, text);
    }
    tern_log_set_request(0);
    tern_log(TERN_LOG_ERROR, "first", NULL);
    tern_log_release(true);
    tern_log(TERN_LOG_INFO, "at-once", NULL);
    return 0;
}

CASE(held_lines_appear_once_they_are_true)
{
    static struct capture got;
    char expected[128];
    capture_run(&got, write_held, NULL);
    (void)without_times(got.err);
    const char *line = strtok(got.err, "\n");
    assert_string_equal(line, "level=error event=failed");
    assert_string_equal(strtok(NULL, "\n"), "level=error event=first");
    for (unsigned i = 0; i < 100; i++) {
        snprintf(expected, sizeof expected,
                 "level=warn event=done request=5 i=%u "
                 "text=0123456789012345678901234567890123456789",
                 i);
        assert_string_equal(strtok(NULL, "\n"), expected);
    }
    assert_string_equal(strtok(NULL, "\n"), "level=info event=at-once");
    assert_null(strtok(NULL, "\n"));
}

static int write_objects(void *ctx)
{
    (void)ctx;
    tern_log_set_format(TERN_LOG_AS_JSON);
    tern_log(TERN_LOG_INFO, "start", NULL);
    tern_log(TERN_LOG_WARN, "numbers", "a=%u b=%.4g c=%lld d=%08x e=%s f=%g g=%zu", 7u, 0.25, -8ll,
             9u, "10", 1.0 / 0.0, (size_t)1000);
    tern_log(TERN_LOG_WARN, "texts", "name=%s spec=%s none=%s%s advice=\"say \\\"%s\\\"\"",
             TERN_LOG_TEXT("a \"b\" \\ c"), TERN_LOG_TEXT("3lc:s=1"), "", " more=x", "so");
    tern_log_set_request(UINT64_MAX);
    tern_log(TERN_LOG_INFO, "caused", "name=%s", "x");
    return 0;
}

CASE(an_event_is_one_object)
{
    struct capture got;
    capture_run(&got, write_objects, NULL);
    static const char *const objects[] = {
        "\"level\":\"info\",\"event\":\"start\"}",
        "\"level\":\"warn\",\"event\":\"numbers\",\"a\":7,\"b\":0.25,\"c\":-8,\"d\":\"00000009\","
        "\"e\":\"10\",\"f\":\"inf\",\"g\":1000}",
        "\"level\":\"warn\",\"event\":\"texts\",\"name\":\"a \\\"b\\\" \\\\ c\","
        "\"spec\":\"3lc:s=1\",\"none\":\"\",\"more\":\"x\",\"advice\":\"say \\\"so\\\"\"}",
        "\"level\":\"info\",\"event\":\"caused\",\"request\":18446744073709551615,\"name\":\"x\"}"};
    size_t count = 0;
    for (char *line = strtok(got.err, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        static const char head[] = "{\"time\":\"";
        assert_in_range(count, 0, 3);
        assert_int_equal(strncmp(line, head, sizeof head - 1), 0);
        assert_string_equal(strchr(line, ',') + 1, objects[count]);
        count++;
    }
    assert_int_equal(count, 4);
}

// Wherever a line is cut, and whatever it holds, it becomes an object that ends.
CASE(a_line_that_was_cut_is_an_object)
{
    static const char line[] = "time=x a=1.5e+3 b=\"c \\\" \\\\ d\" =  e f=\"\" g=\"h";
    char dst[TERN_LOG_JSON_MAX(sizeof line)];
    for (size_t len = 0; len < sizeof line; len++) {
        const size_t written = tern_log_json("a=%g", line, len, dst);
        size_t quotes = 0;
        assert_in_range(written, 3, sizeof dst);
        for (size_t i = 0; i < written; i++) {
            quotes += dst[i] == '"';
            i += dst[i] == '\\'; // what it escapes
        }
        assert_int_equal(quotes % 2, 0);
        assert_memory_equal(dst + written - 2, "}\n", 2);
    }
}

static int write_long(void *ctx)
{
    (void)ctx;
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    tern_log(TERN_LOG_ERROR, "long", "text=%s", text);
    tern_log(TERN_LOG_ERROR, "long", "text=%s", TERN_LOG_TEXT(text));
    memset(text, '"', sizeof(text) - 1);
    tern_log(TERN_LOG_ERROR, "long", "text=%s", TERN_LOG_TEXT(text));
    return 0;
}

CASE(long_text_is_cut_and_the_line_still_ends)
{
    struct capture got;
    capture_run(&got, write_long, NULL);
    size_t lines = 0;
    for (const char *at = got.err; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, 3);
    assert_int_equal(got.err[strlen(got.err) - 1], '\n');
    assert_int_equal(got.err[strlen(got.err) - 2], '"');
}

// Compares the logged form of `count` times `unit`, followed by `end`, with the expected end and length.
static void expect_logged(const char *unit, size_t count, const char *end, const char *expected,
                          size_t len)
{
    char text[2 * TERN_LOG_TEXT_MAX];
    char dst[TERN_LOG_TEXT_MAX];
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", unit);
    }
    snprintf(text + used, sizeof text - used, "%s", end);
    tern_log_text(dst, text);
    assert_int_equal(strlen(dst), len);
    assert_string_equal(dst + len - strlen(expected), expected);
}

CASE(a_cut_text_ends_with_dots)
{
    const size_t most = TERN_LOG_TEXT_MAX - 1;
    expect_logged("x", most, "", "xx", most);
    expect_logged("x", most + 1, "", "xx...", most);
    expect_logged("x", most - 4, " b", "xx b\"", most);
    expect_logged("x", most - 3, " b", "xx...\"", most);
    expect_logged("\"", most, "", "\\\"...\"", most);
    expect_logged("\xC3\xA9", most, "", "\xC3\xA9...", most); // no half character
}

static void *write_many(void *ctx)
{
    for (int i = 0; i < 25; i++) {
        tern_log(TERN_LOG_INFO, "tick", "thread=%s", (const char *)ctx);
    }
    return NULL;
}

static int write_from_threads(void *ctx)
{
    (void)ctx;
    static char names[4][2] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, write_many, names[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}

CASE(lines_of_several_threads_do_not_mix)
{
    struct capture got;
    capture_run(&got, write_from_threads, NULL);
    size_t lines = 0;
    without_times(got.err);
    for (char *line = strtok(got.err, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        assert_int_equal(strncmp(line, "level=info event=tick thread=", 29), 0);
        assert_int_equal(strlen(line), 30);
        lines++;
    }
    assert_int_equal(lines, 100);
}

static int write_and_recall(void *ctx)
{
    static char lines[TERN_LOG_RECENT_MAX];
    (void)ctx;
    tern_log(TERN_LOG_INFO, "before", NULL);
    tern_log_keep();
    tern_log(TERN_LOG_INFO, "after", NULL);
    const size_t few = tern_log_recent(lines);
    printf("%d %d\n", strstr(lines, "before") == NULL, few == strlen(lines) && few < 60);
    for (unsigned i = 0; i < 3000; i++) {
        tern_log(TERN_LOG_INFO, "count", "i=%u", i);
    }
    const size_t len = tern_log_recent(lines);
    printf("%d %s", len > sizeof lines - 100, strstr(lines, "i=2999"));
    lines[strcspn(lines, "\n")] = '\0';
    printf("%.5s %s\n", lines, strstr(lines, "event="));
    return 0;
}

CASE(the_last_lines_are_kept)
{
    struct capture got;
    unsigned first = 0;
    (void)state;
    capture_run(&got, write_and_recall, NULL);
    assert_int_equal(sscanf(got.out, "1 1\n1 i=2999\ntime= event=count i=%u\n", &first), 1);
    assert_in_range(first, 1000, 2900);
}

CASE(levels_and_formats_have_names)
{
    assert_int_equal(tern_log_level_named("error"), TERN_LOG_ERROR);
    assert_int_equal(tern_log_level_named("debug"), TERN_LOG_DEBUG);
    assert_int_equal(tern_log_level_named("loud"), TERN_LOG_INFO);
    assert_int_equal(tern_log_format_named("json"), TERN_LOG_AS_JSON);
    assert_int_equal(tern_log_format_named("xml"), TERN_LOG_AS_TEXT);
}
