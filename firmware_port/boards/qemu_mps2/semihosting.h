// Requests to the debugger, which QEMU answers: how a test reaches an image that has no files, no
// command line and no end. A product has none of this.
#ifndef TERN_SEMIHOSTING_H
#define TERN_SEMIHOSTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The command line (-semihosting-config arg=...), NUL-terminated. false: none, or longer than size.
bool tern_semihosting_command_line(char *dst, size_t size);

// Opens a file of the host for reading. A handle, or -1.
int32_t tern_semihosting_open(const char *name);

// Reads exactly len bytes.
bool tern_semihosting_read(int32_t handle, void *dst, size_t len);

// Bytes of the file, or -1.
int32_t tern_semihosting_length(int32_t handle);

void tern_semihosting_close(int32_t handle);

// Seconds since 1970-01-01 UTC.
uint32_t tern_semihosting_time(void);

_Noreturn void tern_semihosting_exit(int status);

#endif
