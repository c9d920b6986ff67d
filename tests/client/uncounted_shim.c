// Loaded into a client by LD_PRELOAD: TCP_INFO is as short as qemu's user emulation makes it, which takes every
// option of TCP for a number. Linux before 4.19 likewise ends before the counters of bytes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict len)
{
    static int (*real)(int, int, int, void *restrict, socklen_t *restrict);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "getsockopt");
    }
    if (level == IPPROTO_TCP && name == TCP_INFO && *len > sizeof(int)) {
        *len = sizeof(int);
    }
    return real(fd, level, name, value, len);
}
