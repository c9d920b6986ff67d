#define _GNU_SOURCE
#include "client/harness/private_bus.h"
#include "tests/asserts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dbus/dbus.h>

#define EXIT_NOT_INSTALLED 66

static char folder[128];
static char config[160];
static char address[256];
static pid_t bus = -1;

// --- Processes

static pid_t fork_child(void)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return child;
}

static void end_child(pid_t *child)
{
    if (*child > 0) {
        kill(*child, SIGKILL);
        waitpid(*child, NULL, 0);
        *child = -1;
    }
}

// --- The bus

static void write_config(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.80s/tern-bus-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(config, sizeof config, "%s/bus.conf", folder);
    FILE *out = fopen(config, "w");
    assert_non_null(out);
    fprintf(out,
            "<busconfig><listen>unix:path=%s/bus</listen><auth>EXTERNAL</auth>"
            "<policy context=\"default\"><allow user=\"*\"/><allow own=\"*\"/>"
            "<allow send_destination=\"*\"/><allow receive_sender=\"*\"/></policy></busconfig>\n",
            folder);
    assert_int_equal(fclose(out), 0);
}

const char *private_bus_start(void)
{
    int ends[2];
    write_config();
    assert_int_equal(pipe(ends), 0);
    bus = fork_child();
    if (bus == 0) {
        char file[200];
        char print[40];
        close(ends[0]);
        snprintf(file, sizeof file, "--config-file=%s", config);
        snprintf(print, sizeof print, "--print-address=%d", ends[1]);
        execlp("dbus-daemon", "dbus-daemon", "--nofork", file, print, (char *)NULL);
        _exit(EXIT_NOT_INSTALLED);
    }
    close(ends[1]);
    const ssize_t got = read(ends[0], address, sizeof address - 1);
    close(ends[0]);
    if (got <= 0) {
        private_bus_stop();
        return NULL;
    }
    address[got] = '\0';
    address[strcspn(address, "\n")] = '\0';
    return address;
}

void private_bus_freeze(void)
{
    assert_int_equal(kill(bus, SIGSTOP), 0);
}

void private_bus_thaw(void)
{
    assert_int_equal(kill(bus, SIGCONT), 0);
}

void private_bus_stop(void)
{
    char socket[160];
    end_child(&bus);
    snprintf(socket, sizeof socket, "%s/bus", folder);
    unlink(socket);
    unlink(config);
    rmdir(folder);
}

// --- NetworkManager

static struct {
    volatile enum fake_manager_manner manner;
    volatile uint32_t metered;
    volatile unsigned questions;
} * shared;

static pid_t manager = -1;

static void append_value(DBusMessage *reply)
{
    DBusMessageIter outer;
    DBusMessageIter inner;
    const char *text = "yes";
    dbus_uint32_t value = shared->metered;
    const bool as_text = shared->manner == FAKE_MANAGER_SENDS_TEXT;
    dbus_message_iter_init_append(reply, &outer);
    dbus_message_iter_open_container(&outer, DBUS_TYPE_VARIANT, as_text ? "s" : "u", &inner);
    if (as_text) {
        dbus_message_iter_append_basic(&inner, DBUS_TYPE_STRING, &text);
    } else {
        dbus_message_iter_append_basic(&inner, DBUS_TYPE_UINT32, &value);
    }
    dbus_message_iter_close_container(&outer, &inner);
}

static bool is_the_question(DBusMessage *message)
{
    const char *interface = "";
    const char *property = "";
    return dbus_message_is_method_call(message, DBUS_INTERFACE_PROPERTIES, "Get") &&
           dbus_message_has_path(message, "/org/freedesktop/NetworkManager") &&
           dbus_message_get_args(message, NULL, DBUS_TYPE_STRING, &interface, DBUS_TYPE_STRING,
                                 &property, DBUS_TYPE_INVALID) &&
           strcmp(interface, "org.freedesktop.NetworkManager") == 0 &&
           strcmp(property, "Metered") == 0;
}

static void answer(DBusConnection *connection, DBusMessage *message)
{
    if (!is_the_question(message)) {
        return;
    }
    shared->questions++;
    if (shared->manner == FAKE_MANAGER_IS_SILENT) {
        return;
    }
    DBusMessage *reply = shared->manner == FAKE_MANAGER_REFUSES
                             ? dbus_message_new_error(message, DBUS_ERROR_ACCESS_DENIED, "no")
                             : dbus_message_new_method_return(message);
    if (shared->manner == FAKE_MANAGER_ANSWERS || shared->manner == FAKE_MANAGER_SENDS_TEXT) {
        append_value(reply);
    }
    dbus_connection_send(connection, reply, NULL);
    dbus_connection_flush(connection);
    dbus_message_unref(reply);
}

static void play_manager(int ready)
{
    DBusConnection *connection = dbus_connection_open_private(address, NULL);
    if (connection == NULL || !dbus_bus_register(connection, NULL) ||
        dbus_bus_request_name(connection, "org.freedesktop.NetworkManager", 0, NULL) !=
            DBUS_REQUEST_NAME_REPLY_PRIMARY_OWNER ||
        write(ready, "!", 1) != 1) {
        _exit(1);
    }
    while (dbus_connection_read_write(connection, -1)) {
        DBusMessage *message = NULL;
        while ((message = dbus_connection_pop_message(connection)) != NULL) {
            answer(connection, message);
            dbus_message_unref(message);
        }
    }
    _exit(0);
}

void fake_manager_start(void)
{
    int ends[2];
    char byte = 0;
    if (shared == NULL) {
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(shared != MAP_FAILED);
    }
    assert_int_equal(pipe(ends), 0);
    manager = fork_child();
    if (manager == 0) {
        close(ends[0]);
        play_manager(ends[1]);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
}

void fake_manager_set(enum fake_manager_manner manner, uint32_t metered)
{
    shared->manner = manner;
    shared->metered = metered;
}

unsigned fake_manager_questions(void)
{
    return shared->questions;
}

void fake_manager_stop(void)
{
    end_child(&manager);
}
