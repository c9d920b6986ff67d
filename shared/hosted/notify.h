// What a service tells the manager that started it: systemd, or one that speaks as it does. The message
// is one datagram to the socket that NOTIFY_SOCKET names (sd_notify(3)), which is less than the library
// for it would bring. Any thread.
#ifndef TERN_NOTIFY_H
#define TERN_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

// Whether anybody wants to be told.
bool tern_notify_is_wanted(void);

// Sends "READY=1", "STATUS=..." and the like, several with newlines between. Nothing where nobody wants
// it; what cannot be sent is dropped, as a service does its work without being watched.
void tern_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Within how many ms the manager wants each next "WATCHDOG=1"; 0 = it does not.
uint64_t tern_notify_watchdog_ms(void);

#endif
