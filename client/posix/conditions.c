#define _GNU_SOURCE
#include "posix/conditions.h"
#include "hosted/system.h"
#include "posix/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifdef TERN_HAVE_DBUS
#include <dbus/dbus.h>
#endif

// --- Readings

void tern_reading_known(struct tern_reading *reading, double value, const char *format, ...)
{
    va_list arguments;
    reading->known = true;
    reading->value = value;
    va_start(arguments, format);
    vsnprintf(reading->text, sizeof reading->text, format, arguments);
    va_end(arguments);
}

void tern_reading_unknown(struct tern_reading *reading, const char *format, ...)
{
    va_list arguments;
    reading->known = false;
    reading->value = 0;
    va_start(arguments, format);
    vsnprintf(reading->text, sizeof reading->text, format, arguments);
    va_end(arguments);
}

// --- Files of the kernel

// Reads up to size - 1 bytes of the file root/path, without waiting. Returns false, and sets text to "", if the file cannot be
// read, is empty, or is not text.
static bool read_text(const char *root, const char *path, char *text, size_t size)
{
    char whole[TERN_PROBE_PATH];
    text[0] = '\0';
    if (snprintf(whole, sizeof whole, "%s/%s", root, path) >= (int)sizeof whole) {
        return false;
    }
    // O_NONBLOCK: the path may name a device or pipe.
    const int fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    const ssize_t got = read(fd, text, size - 1);
    close(fd);
    const size_t len = got > 0 ? (size_t)got : 0;
    text[memchr(text, '\0', len) == NULL ? len : 0] = '\0';
    return text[0] != '\0';
}

// Reads the first line of the file root/path, without its newline.
static bool read_line(const char *root, const char *path, char *line, size_t size)
{
    read_text(root, path, line, size);
    line[strcspn(line, "\n")] = '\0';
    return line[0] != '\0';
}

// Parses an integer. Returns false if other text follows it, or if it does not fit.
static bool parse_number(const char *text, long *number)
{
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0) {
        return false;
    }
    *number = value;
    return true;
}

// --- Load: how busy the processors are with other work

#define LOAD_MAX 1e6 // a higher load average is implausible
#define CPUS_MAX 65536

// Counts the processors in a list of ranges such as "0-3,6,8-11". Returns 0 if the text is no such list.
static long count_cpus(const char *list)
{
    long count = 0;
    const char *at = list;
    for (;;) {
        char *end = NULL;
        const long first = strtol(at, &end, 10);
        long last = first;
        if (end == at) {
            return 0;
        }
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
            if (end == at) {
                return 0;
            }
        }
        if (first < 0 || last < first || last >= CPUS_MAX) {
            return 0;
        }
        count += last - first + 1;
        if (*end != ',') {
            return *end == '\0' ? count : 0;
        }
        at = end + 1;
    }
}

// Reads the load average over one minute, which is the first number of /proc/loadavg.
static bool read_average(const char *root, double *load)
{
    char line[128];
    char *end = NULL;
    if (!read_line(root, "proc/loadavg", line, sizeof line)) {
        return false;
    }
    *load = strtod(line, &end);
    return end != line && *end == ' ' && *load >= 0 && *load <= LOAD_MAX;
}

void tern_probe_load(const char *root, double own, struct tern_reading *reading)
{
    char cpus[256];
    double load = 0;
    snprintf(reading->source, sizeof reading->source, "%.80s/proc/loadavg", root);
    if (!read_average(root, &load)) {
        tern_reading_unknown(reading, "the load cannot be read");
        return;
    }
    read_line(root, "sys/devices/system/cpu/online", cpus, sizeof cpus);
    const long count = count_cpus(cpus);
    if (count == 0) {
        tern_reading_unknown(reading,
                             "%.80s/sys/devices/system/cpu/online does not contain the "
                             "number of processors",
                             root);
        return;
    }
    const double others = load > own ? load - own : 0;
    tern_reading_known(reading, others / (double)count,
                       "%.2f of others on %ld processor%s: %.2f per core", others, count,
                       count == 1 ? "" : "s", others / (double)count);
}

// --- Power, from the kernel's power_supply class

#define POWER_FOLDER "sys/class/power_supply"

// Supplies with longer names are ignored.
#define NAME_MAX_SHOWN 47

// The state of all power supplies together. Each name is that of the last supply in this state.
struct supplies {
    unsigned outside; // number of external supplies: mains, USB, wireless
    unsigned online;  // number of external supplies that deliver power
    unsigned batteries;
    char online_name[NAME_MAX_SHOWN + 1];
    char discharging[NAME_MAX_SHOWN + 1];
    char charging[NAME_MAX_SHOWN + 1];
    char full[NAME_MAX_SHOWN + 1];
    char emptiest[NAME_MAX_SHOWN + 1];
    long charge; // percent of the emptiest battery
};

static bool read_attribute(const char *root, const char *supply, const char *attribute, char *word,
                           size_t size)
{
    char path[TERN_PROBE_PATH];
    snprintf(path, sizeof path, POWER_FOLDER "/%s/%s", supply, attribute);
    return read_line(root, path, word, size);
}

static void set_name(char name[NAME_MAX_SHOWN + 1], const char *supply)
{
    snprintf(name, NAME_MAX_SHOWN + 1, "%s", supply);
}

static void add_battery(const char *root, const char *supply, struct supplies *all)
{
    char word[32];
    long charge = 0;
    if (read_attribute(root, supply, "present", word, sizeof word) && strcmp(word, "0") == 0) {
        return; // an empty slot
    }
    all->batteries++;
    read_attribute(root, supply, "status", word, sizeof word);
    if (strcmp(word, "Discharging") == 0) {
        set_name(all->discharging, supply);
    } else if (strcmp(word, "Charging") == 0) {
        set_name(all->charging, supply);
    } else if (strcmp(word, "Full") == 0) {
        set_name(all->full, supply);
    }
    read_attribute(root, supply, "capacity", word, sizeof word);
    if (parse_number(word, &charge) && charge >= 0 && charge <= 100 &&
        (all->emptiest[0] == '\0' || charge < all->charge)) {
        all->charge = charge;
        set_name(all->emptiest, supply);
    }
}

// Adds an external supply. Its attribute `online` is 1 for a fixed and 2 for a programmable voltage, 0 without power.
static void add_outside(const char *root, const char *supply, struct supplies *all)
{
    char word[32];
    long online = 0;
    read_attribute(root, supply, "online", word, sizeof word);
    if (!parse_number(word, &online)) {
        return;
    }
    all->outside++;
    if (online > 0) {
        all->online++;
        set_name(all->online_name, supply);
    }
}

static void add_supply(const char *root, const char *supply, struct supplies *all)
{
    char type[32];
    char scope[32];
    read_attribute(root, supply, "scope", scope, sizeof scope);
    if (strlen(supply) > NAME_MAX_SHOWN || strcmp(scope, "Device") == 0) {
        return; // a peripheral's battery, e.g. of a mouse
    }
    read_attribute(root, supply, "type", type, sizeof type);
    if (strcmp(type, "Battery") == 0 || strcmp(type, "UPS") == 0) {
        add_battery(root, supply, all);
    } else {
        add_outside(root, supply, all);
    }
}

static bool read_supplies(const char *root, struct supplies *all)
{
    char path[TERN_PROBE_PATH];
    snprintf(path, sizeof path, "%s/" POWER_FOLDER, root);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return false;
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            add_supply(root, entry->d_name, all);
        }
    }
    closedir(folder);
    return true;
}

// Decides whether the machine is charging, from the most reliable sign that is available. A discharging battery decides even if
// a supply is online, since that supply is then too weak. "Full" is the last sign, since some batteries report it for some time
// without power.
static void judge_charging(const struct supplies *all, struct tern_reading *charging)
{
    if (all->discharging[0] != '\0') {
        tern_reading_known(charging, 0, "%s is discharging", all->discharging);
    } else if (all->online > 0) {
        tern_reading_known(charging, 1, "%s is online", all->online_name);
    } else if (all->charging[0] != '\0') {
        tern_reading_known(charging, 1, "%s is charging", all->charging);
    } else if (all->outside > 0 && all->batteries > 0) {
        tern_reading_known(charging, 0, "there is a battery and no supply is online");
    } else if (all->full[0] != '\0') {
        tern_reading_known(charging, 1, "%s is full", all->full);
    } else if (all->batteries > 0) {
        tern_reading_unknown(charging,
                             "no battery reports whether it charges, no supply is listed");
    } else if (all->outside > 0) {
        tern_reading_unknown(charging, "no supply is online, and no battery is listed");
    } else {
        tern_reading_unknown(charging, "no power supply is listed");
    }
}

static void judge_battery(const struct supplies *all, struct tern_reading *battery)
{
    if (all->emptiest[0] != '\0') {
        tern_reading_known(battery, (double)all->charge, "%s is charged to %ld %%", all->emptiest,
                           all->charge);
    } else if (all->batteries > 0) {
        tern_reading_unknown(battery, "no battery reports its charge");
    } else {
        tern_reading_unknown(battery, "no battery is listed");
    }
}

void tern_probe_power(const char *root, struct tern_reading *charging, struct tern_reading *battery)
{
    struct supplies all = {0};
    snprintf(charging->source, sizeof charging->source, "%.80s/" POWER_FOLDER, root);
    snprintf(battery->source, sizeof battery->source, "%s", charging->source);
    if (!read_supplies(root, &all)) {
        tern_reading_unknown(charging, "the folder cannot be read");
        tern_reading_unknown(battery, "the folder cannot be read");
        return;
    }
    judge_charging(&all, charging);
    judge_battery(&all, battery);
}

// --- Temperature, from the kernel's thermal zones

#define THERMAL_FOLDER "sys/class/thermal"
#define ZONE "thermal_zone"

// Plausible temperatures in thousandths of a degree. Sensors that are off or broken report others.
#define COLDEST (-60000)
#define HOTTEST 200000

struct zones {
    unsigned found;
    unsigned believed;
    long hottest;
    char name[32];
};

static void add_zone(const char *root, const char *zone, struct zones *all)
{
    char path[TERN_PROBE_PATH];
    char word[32];
    long millidegrees = 0;
    if (strncmp(zone, ZONE, sizeof ZONE - 1) != 0 || strlen(zone) >= sizeof all->name) {
        return;
    }
    all->found++;
    snprintf(path, sizeof path, THERMAL_FOLDER "/%s/temp", zone);
    read_line(root, path, word, sizeof word);
    if (!parse_number(word, &millidegrees) || millidegrees < COLDEST || millidegrees > HOTTEST) {
        return;
    }
    if (all->believed++ == 0 || millidegrees > all->hottest) {
        all->hottest = millidegrees;
        snprintf(all->name, sizeof all->name, "%.*s", (int)sizeof all->name - 1, zone);
    }
}

static void read_zones(const char *root, struct zones *all)
{
    char path[TERN_PROBE_PATH];
    snprintf(path, sizeof path, "%s/" THERMAL_FOLDER, root);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return;
    }
    const struct dirent *entry = NULL;
    while ((entry = readdir(folder)) != NULL) {
        add_zone(root, entry->d_name, all);
    }
    closedir(folder);
}

void tern_probe_temperature(const char *root, struct tern_reading *temperature)
{
    struct zones all = {0};
    snprintf(temperature->source, sizeof temperature->source, "%.80s/" THERMAL_FOLDER, root);
    read_zones(root, &all);
    if (all.believed > 0) {
        const double degrees = (double)all.hottest / 1000;
        tern_reading_known(temperature, degrees, "%.1f degrees Celsius in %s, the hottest of %u",
                           degrees, all.name, all.believed);
    } else if (all.found > 0) {
        tern_reading_unknown(temperature, "no thermal zone reports a temperature");
    } else {
        tern_reading_unknown(temperature, "no thermal zone is listed");
    }
}

// --- The metered link, from NetworkManager over D-Bus. Connecting and asking have time limits, since the bus and
// NetworkManager may hang.

#ifdef TERN_HAVE_DBUS

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
static DBusMessage *call_bus(DBusConnection *bus, DBusMessage *message, DBusError *error)
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
    DBusMessage *welcome = call_bus(bus,
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

static void explain_no_reply(const DBusError *error, struct tern_reading *metered)
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
        reply = call_bus(probe->connection, make_request(), &error);
    }
    if (reply != NULL) {
        read_answer(reply, metered);
        dbus_message_unref(reply);
    } else {
        explain_no_reply(&error, metered);
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

// --- Conditions

#define POWER_BATTERY 1 // tern_Power of tern.proto
#define POWER_MAINS 2

#define LOAD_SECONDS 60.0 // time constant of the kernel's load average over one minute

enum tern_result tern_metered_word_parse(const char *text, enum tern_metered_word *word)
{
    static const struct {
        const char *text;
        enum tern_metered_word word;
    } table[] = {
        {"auto", TERN_METERED_ASK}, {"yes", TERN_METERED_YES},  {"no", TERN_METERED_NO},
        {"true", TERN_METERED_YES}, {"false", TERN_METERED_NO}, {"on", TERN_METERED_YES},
        {"off", TERN_METERED_NO},   {"1", TERN_METERED_YES},    {"0", TERN_METERED_NO},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcasecmp(text, table[i].text) == 0) {
            *word = table[i].word;
            return TERN_OK;
        }
    }
    return TERN_ERR_CONFIG;
}

// --- Reading

static uint64_t now_ms(const struct tern_posix_conditions *conditions)
{
    const struct tern_clock own = tern_posix_clock();
    const struct tern_clock *clock =
        conditions->clock.monotonic_ms != NULL ? &conditions->clock : &own;
    return clock->monotonic_ms(clock->ctx);
}

static const char *root_of(const struct tern_posix_conditions *conditions)
{
    const char *root = conditions->root;
    return root == NULL || strcmp(root, "/") == 0 ? "" : root;
}

static double process_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// Averages the processor time of the caller's work like the kernel averages the load. So a client that waits for an idle
// machine does not stop because of its own training.
static void update_own_load(struct tern_posix_conditions *conditions)
{
    const double cpu =
        conditions->cpu_seconds != NULL ? conditions->cpu_seconds() : process_seconds();
    const uint64_t now = now_ms(conditions);
    const double seconds = (double)(now - conditions->process_load_ms) / 1000;
    if (!conditions->process_load_known) {
        conditions->own_load = 1 - exp(-cpu / LOAD_SECONDS); // assumes uninterrupted work until now
    } else if (seconds <= 0) {
        return;
    } else {
        const double keep = exp(-seconds / LOAD_SECONDS);
        const double used = (cpu - conditions->process_cpu_seconds) / seconds;
        conditions->own_load = conditions->own_load * keep + used * (1 - keep);
    }
    conditions->process_load_known = true;
    conditions->process_cpu_seconds = cpu;
    conditions->process_load_ms = now;
}

static void query_bus(struct tern_posix_conditions *conditions, struct tern_reading *reading)
{
    if (now_ms(conditions) < conditions->next_bus_query_ms) {
        return; // the last reading remains valid
    }
    tern_probe_metered(&conditions->bus, root_of(conditions), reading);
    if (conditions->bus.connection == NULL ||
        !conditions->when.required[TERN_CONDITION_UNMETERED]) {
        conditions->next_bus_query_ms = now_ms(conditions) + TERN_CONDITIONS_BUS_AGAIN_MS;
    }
}

// Reads whether the link is metered: value 1, else 0.
static void read_metered(struct tern_posix_conditions *conditions)
{
    struct tern_reading *reading = &conditions->findings[TERN_CONDITION_UNMETERED].reading;
    if (conditions->metered == TERN_METERED_ASK) {
        query_bus(conditions, reading);
        return;
    }
    const bool yes = conditions->metered == TERN_METERED_YES;
    snprintf(reading->source, sizeof reading->source, "budget.metered");
    tern_reading_known(reading, yes, "the settings declare the link as%s metered",
                       yes ? "" : " not");
}

static void read_power(struct tern_posix_conditions *conditions)
{
    tern_probe_power(root_of(conditions), &conditions->findings[TERN_CONDITION_CHARGING].reading,
                     &conditions->findings[TERN_CONDITION_BATTERY].reading);
}

static void read_load(struct tern_posix_conditions *conditions)
{
    update_own_load(conditions);
    tern_probe_load(root_of(conditions), conditions->own_load,
                    &conditions->findings[TERN_CONDITION_LOAD].reading);
}

static void read_temperature(struct tern_posix_conditions *conditions)
{
    tern_probe_temperature(root_of(conditions),
                           &conditions->findings[TERN_CONDITION_TEMPERATURE].reading);
}

// --- Judging

// The value at which a lost limit counts as met again.
static double limit_after_loss(enum tern_condition condition, double limit)
{
    switch ((int)condition) {
    case TERN_CONDITION_LOAD:
        return limit * 0.8;
    case TERN_CONDITION_TEMPERATURE:
        return limit - 5;
    case TERN_CONDITION_BATTERY:
        return limit + 5;
    default:
        return limit;
    }
}

static bool limit_is_met(enum tern_condition condition, double value, double limit, bool again)
{
    switch (tern_condition_sign(condition)) {
    case '<':
        return again ? value <= limit : value < limit;
    case '>':
        return again ? value >= limit : value > limit;
    default:
        return condition == TERN_CONDITION_UNMETERED ? value == 0 : value != 0;
    }
}

static void explain(const struct tern_when *when, enum tern_condition condition, bool at_limit,
                    struct tern_finding *finding)
{
    char asked[64];
    const struct tern_reading *reading = &finding->reading;
    tern_when_format(when, condition, asked, sizeof asked);
    if (!reading->known) {
        snprintf(finding->why, sizeof finding->why, "%s is unknown: %s", asked, reading->text);
    } else if (at_limit) {
        snprintf(finding->why, sizeof finding->why, "%s was not met and is met again at %g: %s",
                 asked, limit_after_loss(condition, when->limit[condition]), reading->text);
    } else {
        snprintf(finding->why, sizeof finding->why, "%s is not met: %s", asked, reading->text);
    }
}

static void judge(const struct tern_when *when, enum tern_condition condition, bool again,
                  struct tern_finding *finding)
{
    const struct tern_reading *reading = &finding->reading;
    const double limit = when->limit[condition];
    const bool within = reading->known && limit_is_met(condition, reading->value, limit, false);
    const bool lost = again && !finding->met;
    finding->met = within && (!lost || limit_is_met(condition, reading->value,
                                                    limit_after_loss(condition, limit), true));
    finding->why[0] = '\0';
    if (!finding->met) {
        explain(when, condition, within, finding);
    }
}

static bool find_unmet_condition(struct tern_posix_conditions *conditions, const char **why)
{
    for (int i = 0; i < TERN_CONDITION_COUNT; i++) {
        if (conditions->when.required[i] && !conditions->findings[i].met) {
            *why = conditions->findings[i].why;
            return false;
        }
    }
    return true;
}

static void judge_all(struct tern_posix_conditions *conditions)
{
    for (int i = 0; i < TERN_CONDITION_COUNT; i++) {
        if (conditions->when.required[i]) {
            judge(&conditions->when, (enum tern_condition)i, conditions->has_readings,
                  &conditions->findings[i]);
        }
    }
    conditions->has_readings = true;
    conditions->readings_ms = now_ms(conditions);
}

bool tern_posix_conditions_read(struct tern_posix_conditions *conditions, const char **why)
{
    read_metered(conditions);
    read_power(conditions);
    read_load(conditions);
    read_temperature(conditions);
    judge_all(conditions);
    return find_unmet_condition(conditions, why);
}

// --- The port

// Reads the conditions that client.when requires or a check-in reports, and no others, since some sensors are slow.
static void read_required(struct tern_posix_conditions *conditions)
{
    read_metered(conditions);
    read_power(conditions);
    if (conditions->when.required[TERN_CONDITION_LOAD]) {
        read_load(conditions);
    }
    if (conditions->when.required[TERN_CONDITION_TEMPERATURE]) {
        read_temperature(conditions);
    }
    judge_all(conditions);
}

struct tern_conditions tern_posix_conditions_facts(const struct tern_posix_conditions *conditions)
{
    const struct tern_reading *charging = &conditions->findings[TERN_CONDITION_CHARGING].reading;
    struct tern_conditions facts = {
        .metered = conditions->findings[TERN_CONDITION_UNMETERED].reading.value != 0,
    };
    if (charging->known) {
        facts.power = charging->value != 0 ? POWER_MAINS : POWER_BATTERY;
    }
    return facts;
}

static bool may_go_on(void *ctx, struct tern_conditions *now, const char **why)
{
    struct tern_posix_conditions *conditions = ctx;
    read_required(conditions);
    *now = tern_posix_conditions_facts(conditions);
    return find_unmet_condition(conditions, why);
}

static bool may_work(void *ctx, struct tern_conditions *now, const char **why)
{
    struct tern_posix_conditions *conditions = ctx;
    if (!conditions->has_readings ||
        now_ms(conditions) - conditions->readings_ms >= TERN_CONDITIONS_FRESH_MS) {
        return may_go_on(conditions, now, why);
    }
    *now = tern_posix_conditions_facts(conditions);
    return find_unmet_condition(conditions, why);
}

struct tern_condition_port tern_posix_conditions_port(struct tern_posix_conditions *conditions)
{
    return (struct tern_condition_port){
        .ctx = conditions, .may_work = may_work, .may_go_on = may_go_on};
}

void tern_posix_conditions_close(struct tern_posix_conditions *conditions)
{
    tern_probe_metered_close(&conditions->bus);
    conditions->next_bus_query_ms = 0;
}
