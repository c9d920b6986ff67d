// Whether the link is metered, asked over a real bus of a NetworkManager that the test plays.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/harness/private_bus.h"
#include "posix/conditions.h"
#define TERN_CASES_OWN_MAIN
#include "tests/cases.h"

#define SKIPPED 77
#define LONGEST_MS 10000 // a second of waiting, and a slow machine; libdbus would wait 25 s

static struct tern_metered_probe probe;
static struct tern_reading reading;

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// Asks, and asserts that it did not block for long.
static void ask(void)
{
    const uint64_t start = now_ms();
    memset(&reading, 0xa5, sizeof reading);
    tern_probe_metered(&probe, "", &reading);
    assert_in_range(now_ms() - start, 0, LONGEST_MS);
}

static int set_up(void **state)
{
    (void)state;
    fake_manager_start();
    fake_manager_set(FAKE_MANAGER_ANSWERS, 2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tern_probe_metered_close(&probe);
    fake_manager_stop();
    return 0;
}

#define TEST(name) CASE_WITH(name, set_up, tear_down)

TEST(every_answer_of_network_manager)
{
    static const struct {
        uint32_t metered;
        bool known;
        double value;
        const char *said;
    } answers[] = {
        {0, false, 0, "NetworkManager does not know whether the link is metered"},
        {1, true, 1, "NetworkManager says yes"},
        {2, true, 0, "NetworkManager says no"},
        {3, true, 1, "NetworkManager says guess-yes"},
        {4, true, 0, "NetworkManager says guess-no"},
        {5, false, 0, "NetworkManager's reply is not one of the values of its documentation"},
        {4294967295u, false, 0,
         "NetworkManager's reply is not one of the values of its documentation"},
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        fake_manager_set(FAKE_MANAGER_ANSWERS, answers[i].metered);
        ask();
        assert_string_equal(reading.text, answers[i].said);
        assert_int_equal(reading.known, answers[i].known);
        assert_true(reading.value == answers[i].value);
        assert_non_null(strstr(reading.source, "NetworkManager on unix:path="));
    }
}

TEST(answers_that_make_no_sense)
{
    fake_manager_set(FAKE_MANAGER_SENDS_TEXT, 1);
    ask();
    assert_string_equal(reading.text,
                        "NetworkManager's reply is not one of the values of its documentation");
    assert_false(reading.known);
    fake_manager_set(FAKE_MANAGER_SENDS_NOTHING, 1);
    ask();
    assert_false(reading.known);
    fake_manager_set(FAKE_MANAGER_REFUSES, 1);
    ask();
    assert_false(reading.known);
    assert_string_equal(reading.text, "the bus does not answer: no");
    fake_manager_set(FAKE_MANAGER_ANSWERS, 1);
    ask();
    assert_true(reading.known);
}

TEST(manager_that_is_silent_or_gone)
{
    fake_manager_set(FAKE_MANAGER_IS_SILENT, 1);
    ask();
    assert_false(reading.known);
    fake_manager_stop();
    ask();
    assert_false(reading.known);
    assert_string_equal(reading.text, "NetworkManager is not running");
    fake_manager_start();
    fake_manager_set(FAKE_MANAGER_ANSWERS, 1);
    ask();
    assert_true(reading.known && reading.value == 1);
}

TEST(bus_that_hangs_is_given_up)
{
    ask();
    assert_true(reading.known);
    private_bus_freeze();
    ask(); // on the connection that is there
    assert_false(reading.known);
    ask(); // and while a new one is opened
    assert_false(reading.known);
    private_bus_thaw();
    ask();
    assert_true(reading.known);
}

// A bus that has hung for hours: its queue of connections is full, and one more would wait for
// ever.
TEST(full_queue_is_given_up)
{
    enum { MOST = 16 };
    char kept[256];
    char address[128];
    int waiting[MOST];
    int count = 0;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(kept, sizeof kept, "%s", getenv("DBUS_SYSTEM_BUS_ADDRESS"));
    snprintf(name.sun_path, sizeof name.sun_path, "/tmp/tern-full-%d", (int)getpid());
    snprintf(address, sizeof address, "unix:path=%s", name.sun_path);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(listener, 0), 0);
    for (bool full = false; !full && count < MOST; count++) {
        waiting[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        full = connect(waiting[count], (struct sockaddr *)&name, sizeof name) != 0;
    }
    assert_true(count < MOST);
    setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1);
    ask();
    assert_false(reading.known);
    assert_string_equal(reading.text, "the bus does not answer: it accepts no more connections");
    setenv("DBUS_SYSTEM_BUS_ADDRESS", kept, 1);
    while (count > 0) {
        close(waiting[--count]);
    }
    close(listener);
    unlink(name.sun_path);
}

TEST(no_bus_is_unknown)
{
    char kept[256];
    snprintf(kept, sizeof kept, "%s", getenv("DBUS_SYSTEM_BUS_ADDRESS"));
    setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
    ask();
    assert_false(reading.known);
    setenv("DBUS_SYSTEM_BUS_ADDRESS", "what:is=this", 1);
    ask();
    assert_false(reading.known);
    unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
    tern_probe_metered(&probe, "/nonexistent root", &reading);
    assert_false(reading.known);
    assert_non_null(strstr(reading.source, "/nonexistent%20root/run/dbus/system_bus_socket"));
    setenv("DBUS_SYSTEM_BUS_ADDRESS", kept, 1);
}

TEST(conditions_follow_the_manager)
{
    struct tern_posix_conditions conditions = {.metered = TERN_METERED_ASK};
    const struct tern_condition_port port = tern_posix_conditions_port(&conditions);
    struct tern_conditions now;
    const char *why = NULL;
    assert_true(port.may_work(port.ctx, &now, &why)); // what only check-ins tell is asked seldom
    const unsigned first = fake_manager_questions();
    conditions.has_readings = false;
    assert_true(port.may_work(port.ctx, &now, &why));
    assert_int_equal(fake_manager_questions(), first);
    conditions.next_bus_query_ms = 0;
    conditions.has_readings = false;
    conditions.when.required[TERN_CONDITION_UNMETERED] = true;
    assert_true(port.may_work(port.ctx, &now, &why));
    assert_false(now.metered);
    fake_manager_set(FAKE_MANAGER_ANSWERS, 3);
    conditions.has_readings = false; // instead of waiting for a second
    assert_false(port.may_work(port.ctx, &now, &why));
    assert_true(now.metered);
    assert_string_equal(why, "unmetered is not met: NetworkManager says guess-yes");
    const unsigned asked = fake_manager_questions();
    conditions.metered = TERN_METERED_NO; // the owner's word is stronger, and nobody is asked
    conditions.has_readings = false;
    assert_true(port.may_work(port.ctx, &now, &why));
    assert_false(now.metered);
    assert_int_equal(fake_manager_questions(), asked);
    tern_posix_conditions_close(&conditions);
}

int main(void)
{
    const char *address = private_bus_start();
    if (address == NULL) {
        fprintf(stderr, "skipped: dbus-daemon is not installed\n");
        return SKIPPED;
    }
    setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1);
    const int failed = test_cases_run(&cases_of_this_file, __FILE__);
    private_bus_stop();
    return failed;
}
