// The log: whole lines, whatever the threads do and whatever the text holds.
#include "capture.h"
#include "hosted/log.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
    tern_log(TERN_LOG_DEBUG, "shown", "text=%s", "a\u202eb\u200bc\U000e0041d\ufeff\u00e4\xff");
    return 0;
}

static void an_event_is_one_line(void **state)
{
    (void)state;
    struct capture got;
    capture_run(&got, write_events, NULL);
    assert_string_equal(got.err, "level=info event=start\n"
                                 "level=warn event=slow client=7 name=\"a \\\"b\\\"\"\n"
                                 "level=debug event=shown text=two?lines\n"
                                 "level=debug event=shown text=?[2J??2J\n"
                                 "level=debug event=shown text=a???b???c????d???\u00e4?\n");
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

static void long_text_is_cut_and_the_line_still_ends(void **state)
{
    (void)state;
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

static void lines_of_several_threads_do_not_mix(void **state)
{
    (void)state;
    struct capture got;
    capture_run(&got, write_from_threads, NULL);
    size_t lines = 0;
    for (char *line = strtok(got.err, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        assert_int_equal(strncmp(line, "level=info event=tick thread=", 29), 0);
        assert_int_equal(strlen(line), 30);
        lines++;
    }
    assert_int_equal(lines, 100);
}

static void levels_have_names(void **state)
{
    (void)state;
    enum tern_log_level level = TERN_LOG_INFO;
    assert_true(tern_log_level_parse("debug", &level));
    assert_int_equal(level, TERN_LOG_DEBUG);
    assert_false(tern_log_level_parse("loud", &level));
    assert_int_equal(level, TERN_LOG_DEBUG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_one_line),
        cmocka_unit_test(long_text_is_cut_and_the_line_still_ends),
        cmocka_unit_test(lines_of_several_threads_do_not_mix),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
