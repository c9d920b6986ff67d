#include "hosted/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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
    if (name[0] == '@') { // of the abstract namespace
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
