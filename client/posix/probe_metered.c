// Asks NetworkManager over D-Bus whether the link is paid by the byte. Both the bus and NetworkManager may hang, so
// connecting and asking have time limits.
#define _GNU_SOURCE
#include "hosted/system.h"
#include "posix/conditions.h"

#include <stdio.h>

#ifdef TERN_HAVE_DBUS

#include <dbus/dbus.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SERVICE "org.freedesktop.NetworkManager"
#define ANSWER_MS 500 // longest wait for one reply

// The enum NMMetered of NetworkManager's D-Bus interface.
enum { NM_UNKNOWN = 0, NM_YES = 1, NM_NO = 2, NM_GUESS_YES = 3, NM_GUESS_NO = 4, NM_COUNT };

static const char *const answers[NM_COUNT] = {"unknown", "yes", "no", "guess-yes", "guess-no"};

// --- The bus

static void find_address(const char *root, char *address, size_t size)
{
    const char *given = getenv("DBUS_SYSTEM_BUS_ADDRESS");
    if (given != NULL && given[0] != '\0') {
        snprintf(address, size, "%s", given);
        return;
    }
    char path[TERN_PROBE_PATH];
    snprintf(path, sizeof path, "%s/run/dbus/system_bus_socket", root);
    char *escaped = dbus_address_escape_value(path);
    snprintf(address, size, "unix:path=%s", escaped != NULL ? escaped : path);
    dbus_free(escaped);
}

// Sends and receives until the reply has arrived, the bus has disconnected, or ANSWER_MS have passed.
static void wait_for(DBusConnection *bus, DBusPendingCall *call)
{
    const uint64_t end = tern_monotonic_ms() + ANSWER_MS;
    uint64_t now = tern_monotonic_ms();
    while (!dbus_pending_call_get_completed(call) && now < end &&
           dbus_connection_read_write_dispatch(bus, (int)(end - now))) {
        now = tern_monotonic_ms();
    }
}

// Returns the reply of a call. Without a reply, or with an error as reply, returns NULL and sets *error.
static DBusMessage *take_reply(DBusPendingCall *call, DBusError *error)
{
    if (!dbus_pending_call_get_completed(call)) {
        dbus_pending_call_cancel(call);
        dbus_set_error_const(error, DBUS_ERROR_NO_REPLY, "no reply within half a second");
        return NULL;
    }
    DBusMessage *reply = dbus_pending_call_steal_reply(call);
    if (dbus_set_error_from_message(error, reply)) {
        dbus_message_unref(reply);
        return NULL;
    }
    return reply;
}

// Sends the message, takes ownership of it, and returns the reply, or NULL with *error set. The time limit of
// dbus_connection_send_with_reply_and_block() starts only after the message was sent, which a hanging bus can prevent.
static DBusMessage *query(DBusConnection *bus, DBusMessage *message, DBusError *error)
{
    DBusPendingCall *call = NULL;
    DBusMessage *reply = NULL;
    const bool sent = message != NULL &&
                      dbus_connection_send_with_reply(bus, message, &call, DBUS_TIMEOUT_INFINITE);
    if (!sent) {
        dbus_set_error_const(error, DBUS_ERROR_NO_MEMORY, "no memory");
    } else if (call == NULL) {
        dbus_set_error_const(error, DBUS_ERROR_DISCONNECTED, "the bus has disconnected");
    } else {
        wait_for(bus, call);
        reply = take_reply(call, error);
        dbus_pending_call_unref(call);
    }
    if (message != NULL) {
        dbus_message_unref(message);
    }
    return reply;
}

// Whether connecting to the socket at this path would block because its queue is full, as after a long hang of the bus.
static bool would_block(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof name.sun_path) {
        return false; // a path that is too long for any socket
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return true;
    }
    memcpy(name.sun_path, path, strlen(path));
    const bool full =
        connect(fd, (const struct sockaddr *)&name, sizeof name) != 0 && errno == EAGAIN;
    close(fd);
    return full;
}

// Whether every socket of the address accepts a connection at once. libdbus itself connects with a blocking socket.
static bool can_connect(const char *address)
{
    DBusAddressEntry **entries = NULL;
    int count = 0;
    bool can = true;
    if (!dbus_parse_address(address, &entries, &count, NULL)) {
        return true; // libdbus reports the invalid address when it opens it
    }
    for (int i = 0; i < count; i++) {
        const char *path = dbus_address_entry_get_value(entries[i], "path");
        can = can && (path == NULL || !would_block(path));
    }
    dbus_address_entries_free(entries);
    return can;
}

// Connects and registers at the bus. dbus_bus_get() would wait 25 seconds for a bus that does not reply.
static DBusConnection *open_bus(const char *address, DBusError *error)
{
    if (!can_connect(address)) {
        dbus_set_error_const(error, DBUS_ERROR_NO_SERVER, "it accepts no more connections");
        return NULL;
    }
    DBusConnection *bus = dbus_connection_open_private(address, error);
    if (bus == NULL) {
        return NULL;
    }
    DBusMessage *welcome = query(bus,
                                 dbus_message_new_method_call(DBUS_SERVICE_DBUS, DBUS_PATH_DBUS,
                                                              DBUS_INTERFACE_DBUS, "Hello"),
                                 error);
    if (welcome == NULL) {
        dbus_connection_close(bus);
        dbus_connection_unref(bus);
        return NULL;
    }
    dbus_message_unref(welcome);
    return bus;
}

void tern_probe_metered_close(struct tern_metered_probe *probe)
{
    DBusConnection *bus = probe->connection;
    if (bus != NULL) {
        dbus_connection_close(bus);
        dbus_connection_unref(bus);
        probe->connection = NULL;
    }
}

// --- The property Metered

static DBusMessage *make_request(void)
{
    const char *interface = SERVICE;
    const char *property = "Metered";
    DBusMessage *message = dbus_message_new_method_call(SERVICE, "/org/freedesktop/NetworkManager",
                                                        DBUS_INTERFACE_PROPERTIES, "Get");
    if (message == NULL) {
        return NULL;
    }
    dbus_message_set_auto_start(message, FALSE);
    if (!dbus_message_append_args(message, DBUS_TYPE_STRING, &interface, DBUS_TYPE_STRING,
                                  &property, DBUS_TYPE_INVALID)) {
        dbus_message_unref(message);
        return NULL;
    }
    return message;
}

static void read_answer(DBusMessage *reply, struct tern_reading *metered)
{
    DBusMessageIter outer;
    DBusMessageIter inner;
    dbus_uint32_t value = NM_COUNT;
    if (dbus_message_iter_init(reply, &outer) &&
        dbus_message_iter_get_arg_type(&outer) == DBUS_TYPE_VARIANT) {
        dbus_message_iter_recurse(&outer, &inner);
        if (dbus_message_iter_get_arg_type(&inner) == DBUS_TYPE_UINT32) {
            dbus_message_iter_get_basic(&inner, &value);
        }
    }
    if (value == NM_UNKNOWN) {
        tern_reading_unknown(metered, "NetworkManager does not know whether the link is metered");
    } else if (value < NM_COUNT) {
        tern_reading_known(metered, value == NM_YES || value == NM_GUESS_YES,
                           "NetworkManager says %s", answers[value]);
    } else {
        tern_reading_unknown(
            metered, "NetworkManager's reply is not one of the values of its documentation");
    }
}

static void explain(const DBusError *error, struct tern_reading *metered)
{
    const bool absent = dbus_error_has_name(error, DBUS_ERROR_NAME_HAS_NO_OWNER) ||
                        dbus_error_has_name(error, DBUS_ERROR_SERVICE_UNKNOWN);
    if (absent) {
        tern_reading_unknown(metered, "NetworkManager is not running");
    } else {
        tern_reading_unknown(metered, "the bus does not answer: %.90s", error->message);
    }
}

void tern_probe_metered(struct tern_metered_probe *probe, const char *root,
                        struct tern_reading *metered)
{
    DBusError error;
    char address[TERN_PROBE_PATH + 16];
    DBusMessage *reply = NULL;
    dbus_error_init(&error);
    find_address(root, address, sizeof address);
    snprintf(metered->source, sizeof metered->source, "NetworkManager on %.100s", address);
    if (probe->connection == NULL) {
        probe->connection = open_bus(address, &error);
    }
    if (probe->connection != NULL) {
        reply = query(probe->connection, make_request(), &error);
    }
    if (reply != NULL) {
        read_answer(reply, metered);
        dbus_message_unref(reply);
    } else {
        explain(&error, metered);
        tern_probe_metered_close(probe);
    }
    dbus_error_free(&error);
}

#else

void tern_probe_metered(struct tern_metered_probe *probe, const char *root,
                        struct tern_reading *metered)
{
    (void)probe;
    (void)root;
    snprintf(metered->source, sizeof metered->source, "NetworkManager");
    tern_reading_unknown(metered, "this tern-client was built without D-Bus");
}

void tern_probe_metered_close(struct tern_metered_probe *probe)
{
    (void)probe;
}

#endif
