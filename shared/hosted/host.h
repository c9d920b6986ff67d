// The machine and the service manager around a program: signals that end it, messages to systemd, and a name for the
// device.
#ifndef TERN_HOSTED_HOST_H
#define TERN_HOSTED_HOST_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

// --- Signals

// Becomes 1 after SIGINT (Ctrl-C), SIGTERM or SIGHUP. The program's main loop reads it between
// pieces of work.
extern volatile sig_atomic_t tern_interrupted;

// Installs handlers for these signals, except for SIGHUP where it is ignored (nohup), and ignores SIGPIPE, so that a
// write to a closed pipe or socket returns an error. Call once, from the main thread.
void tern_interrupts_catch(void);

// Makes the handler of these signals call the function, too, which must be safe there. Before tern_interrupts_catch().
void tern_interrupts_call(void (*function)(void));

// Sleeps for `ms`, or until one of these signals has arrived. From the main thread, after tern_interrupts_catch().
void tern_interrupts_sleep(uint32_t ms);

// --- The service manager

// The protocol of sd_notify(3): one datagram to the socket that NOTIFY_SOCKET names. Any thread.

// Returns true if NOTIFY_SOCKET names a socket.
bool tern_notify_is_wanted(void);

// Sends "READY=1", "STATUS=..." and the like; newlines separate several of them. Does nothing without a socket, and
// drops messages that cannot be sent: a service works without its manager.
void tern_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Returns the longest allowed time between two "WATCHDOG=1" messages, in milliseconds; 0: the
// manager expects none.
uint64_t tern_notify_watchdog_ms(void);

// --- The name of the device

#define TERN_DEVICE_NAME_MAX 64 // bytes, with the NUL

// Writes the name of a device without a configured one, "HOST-1f3a5c": the host's name, cut where
// it is long, and six digits of a hash of the machine ID, the addresses of its network devices and
// the path of the state folder. The digits differ between clones of an image and between clients of
// one machine; the name is the same at each call. root: the folder that contains /etc and /sys;
// tests pass another one than "/".
void tern_device_name(const char *root, const char *state_folder, char name[TERN_DEVICE_NAME_MAX]);

#endif
