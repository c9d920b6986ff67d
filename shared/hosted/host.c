#define _GNU_SOURCE
#include "hosted/host.h"

#include "hosted/files.h"
#include "util/bytes.h"
#include "util/sha256.h"
#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// --- Signals

// ppoll() unblocks the signals and sleeps in one step, so that no signal arrives in between
// unnoticed.

volatile sig_atomic_t tern_interrupted;

static void (*called)(void); // by the handler; NULL: nothing

static void on_signal(int number)
{
    (void)number;
    tern_interrupted = 1;
    if (called != NULL) {
        called();
    }
}

void tern_interrupts_call(void (*function)(void))
{
    called = function;
}

void tern_interrupts_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        sigaction(SIGHUP, &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}

void tern_interrupts_sleep(uint32_t ms)
{
    const struct timespec time = {.tv_sec = (time_t)(ms / 1000),
                                  .tv_nsec = (long)(ms % 1000) * 1000000L};
    sigset_t blocked;
    sigset_t before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGHUP);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    if (!tern_interrupted) {
        ppoll(NULL, 0, &time, &before);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

// --- The service manager

static const char *socket_name(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    return name != NULL && (name[0] == '/' || name[0] == '@') ? name : NULL;
}

bool tern_notify_is_wanted(void)
{
    return socket_name() != NULL;
}

static void send_to(const char *name, const char *text, size_t len)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t name_len = strlen(name);
    if (name_len >= sizeof address.sun_path) {
        return;
    }
    memcpy(address.sun_path, name, name_len);
    if (name[0] == '@') { // a socket in Linux's abstract namespace
        address.sun_path[0] = '\0';
    }
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        const size_t size = offsetof(struct sockaddr_un, sun_path) + name_len;
        (void)sendto(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&address,
                     (socklen_t)size);
        close(fd);
    }
}

void tern_notify(const char *format, ...)
{
    char text[512];
    va_list arguments;
    const char *name = socket_name();
    if (name == NULL) {
        return;
    }
    va_start(arguments, format);
    const int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (len > 0) {
        send_to(name, text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
    }
}

uint64_t tern_notify_watchdog_ms(void)
{
    const char *us = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    const bool is_ours = pid == NULL || strtoll(pid, NULL, 10) == getpid();
    return us != NULL && is_ours ? strtoull(us, NULL, 10) / 1000 : 0;
}

// --- The name of the device

#define DIGITS 6
#define SOURCE_MAX 4096 // bytes of one file
#define NETWORK "sys/class/net"

// Adds the contents of a file to the hash; a missing file adds nothing.
static void add_file(struct tern_sha256 *hash, const char *path)
{
    uint8_t *data = NULL;
    size_t len = 0;
    if (tern_file_read_regular(path, SOURCE_MAX, &data, &len) == TERN_OK) {
        tern_sha256_update(hash, data, len);
        free(data);
    }
}

// Uses only network devices with a hardware driver, because the address of a bridge, container or
// tunnel can change at each start.
static int is_device(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strcmp(entry->d_name, "lo") != 0;
}

static void add_addresses(struct tern_sha256 *hash, const char *root)
{
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    snprintf(path, sizeof path, "%s/" NETWORK, root);
    const int count = scandir(path, &entries, is_device, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/" NETWORK "/%s/device", root, entries[i]->d_name);
        if (access(path, F_OK) == 0) {
            snprintf(path, sizeof path, "%s/" NETWORK "/%s/address", root, entries[i]->d_name);
            add_file(hash, path);
        }
        free(entries[i]);
    }
    free(entries);
}

static void add_path(struct tern_sha256 *hash, const char *folder)
{
    char *whole = realpath(folder, NULL);
    char here[PATH_MAX] = "";
    if (whole == NULL && folder[0] != '/' && getcwd(here, sizeof here) == NULL) {
        here[0] = '\0';
    }
    if (whole != NULL) {
        tern_sha256_update(hash, whole, strlen(whole));
    } else { // the folder does not exist yet; use its future path
        tern_sha256_update(hash, here, strlen(here));
        tern_sha256_update(hash, here[0] != '\0' ? "/" : "", here[0] != '\0');
        tern_sha256_update(hash, folder, strlen(folder));
    }
    free(whole);
}

void tern_device_name(const char *root, const char *state_folder, char name[TERN_DEVICE_NAME_MAX])
{
    struct tern_sha256 hash;
    uint8_t digest[TERN_SHA256_SIZE];
    char digits[2 * TERN_SHA256_SIZE + 1];
    char host[HOST_NAME_MAX + 1] = "";
    char path[PATH_MAX];
    const char *at = strcmp(root, "/") == 0 ? "" : root;
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') {
        snprintf(host, sizeof host, "device");
    }
    tern_sha256_init(&hash);
    snprintf(path, sizeof path, "%s/etc/machine-id", at);
    add_file(&hash, path);
    add_addresses(&hash, at);
    add_path(&hash, state_folder);
    tern_sha256_final(&hash, digest);
    tern_hex_encode(digest, sizeof digest, digits);
    snprintf(name, TERN_DEVICE_NAME_MAX, "%.*s-%.*s", TERN_DEVICE_NAME_MAX - DIGITS - 2, host,
             DIGITS, digits);
}
