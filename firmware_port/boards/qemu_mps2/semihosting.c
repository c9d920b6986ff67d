// Implements Arm's "Semihosting for AArch32 and AArch64": operation in r0, arguments in r1, then BKPT 0xAB.
#include "boards/qemu_mps2/mps2.h"

#include <string.h>

enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_READ = 0x06,
    SYS_FLEN = 0x0c,
    SYS_TIME = 0x11,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20,
};

#define OPEN_READ_BINARY 1u       // fopen() mode "rb"
#define APPLICATION_EXIT 0x20026u // ADP_Stopped_ApplicationExit

static int32_t request(uint32_t operation, const void *arguments)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory", "cc");
    return (int32_t)r0;
}

bool tern_semihosting_command_line(char *dst, size_t size)
{
    const uintptr_t arguments[] = {(uintptr_t)dst, size};
    return request(SYS_GET_CMDLINE, arguments) == 0;
}

int32_t tern_semihosting_open(const char *name)
{
    const uintptr_t arguments[] = {(uintptr_t)name, OPEN_READ_BINARY, strlen(name)};
    return request(SYS_OPEN, arguments);
}

bool tern_semihosting_read(int32_t handle, void *dst, size_t len)
{
    const uintptr_t arguments[] = {(uintptr_t)handle, (uintptr_t)dst, len};
    return request(SYS_READ, arguments) == 0; // returns the number of bytes that were not read
}

int32_t tern_semihosting_length(int32_t handle)
{
    const uintptr_t arguments[] = {(uintptr_t)handle};
    return request(SYS_FLEN, arguments);
}

void tern_semihosting_close(int32_t handle)
{
    const uintptr_t arguments[] = {(uintptr_t)handle};
    (void)request(SYS_CLOSE, arguments);
}

uint32_t tern_semihosting_time(void)
{
    return (uint32_t)request(SYS_TIME, NULL);
}

_Noreturn void tern_semihosting_exit(int status)
{
    const uintptr_t arguments[] = {APPLICATION_EXIT, (uintptr_t)status};
    for (;;) {
        (void)request(SYS_EXIT_EXTENDED, arguments);
    }
}
