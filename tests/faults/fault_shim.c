// Loaded into an aggregator by LD_PRELOAD: fails the calls by which it reaches its files, or kills the process in
// the middle of one, and moves the time of day. A file that the test maps as well, named by TERN_FAULTS, says
// which and when, and counts the calls: those of the database, and those of all other files in its own folder and
// below. Calls on files elsewhere, on sockets and on the standard streams go through.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { READ, WRITE, SYNC, TRUNCATE, OPEN, MAP, LOCK, DELETE, NAME, CALLS };

enum { DATABASE, OTHERS, FILES }; // as faults.py names them

enum { KILL = 1 << 16 }; // in the place of an error

// As faults.py lays it out.
struct control {
    _Atomic uint32_t call;    // the kind that fails
    _Atomic uint32_t error;   // errno, or KILL: the process is killed, after half of a write
    _Atomic uint32_t cut;     // 1: a read or write does half of its bytes first
    _Atomic uint32_t armed;   // 0: nothing fails
    _Atomic uint64_t at;      // the first to fail, counted from 1 since it was armed
    _Atomic uint64_t until;   // the last
    _Atomic uint64_t counted; // of that kind, since it was armed
    _Atomic uint64_t failed;  // of those
    _Atomic uint64_t seen[FILES][CALLS]; // since the start
    _Atomic int64_t clock_ms;            // the time of day is later by
    _Atomic uint64_t files;              // those whose calls fail
};

static struct control *control;
static char folder[4096]; // of the file above

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("TERN_FAULTS");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    control = mapped == MAP_FAILED ? NULL : mapped;
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
}

// FILES: one that is left alone. Of the database are its log, its index, and what is to become one.
static uint32_t files_of(const char *path)
{
    const char *name = strrchr(path, '/');
    if (name != NULL && strncmp(name, "/tern.db", 8) == 0) {
        return DATABASE;
    }
    const size_t len = strlen(folder);
    const int within = strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
    return within ? OTHERS : FILES;
}

static int fails_on(const char *path, uint32_t call)
{
    const uint32_t files = control == NULL ? FILES : files_of(path);
    if (files == FILES) {
        return 0;
    }
    control->seen[files][call]++;
    if (control->armed == 0 || control->call != call || control->files != files) {
        return 0;
    }
    const uint64_t number = ++control->counted;
    if (number < control->at || number > control->until) {
        return 0;
    }
    control->failed++;
    if (control->error == KILL && call != WRITE) {
        kill(getpid(), SIGKILL);
    }
    errno = (int)control->error;
    return 1;
}

static int fails(int fd, uint32_t call)
{
    char link[64];
    char path[4096];
    if (control == NULL || fd <= STDERR_FILENO) {
        return 0;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    return fails_on(path, call);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pread64(int fd, void *buffer, size_t len, off64_t at)
{
    if (!fails(fd, READ)) {
        return NEXT(pread64)(fd, buffer, len, at);
    }
    return control->cut ? NEXT(pread64)(fd, buffer, len / 2, at) : -1;
}

ssize_t pwrite64(int fd, const void *buffer, size_t len, off64_t at)
{
    if (!fails(fd, WRITE)) {
        return NEXT(pwrite64)(fd, buffer, len, at);
    }
    const ssize_t written = control->cut ? NEXT(pwrite64)(fd, buffer, len / 2, at) : -1;
    if (control->error == KILL) {
        kill(getpid(), SIGKILL);
    }
    return written;
}

ssize_t read(int fd, void *buffer, size_t len)
{
    if (!fails(fd, READ)) {
        return NEXT(read)(fd, buffer, len);
    }
    return control->cut ? NEXT(read)(fd, buffer, len / 2) : -1;
}

ssize_t write(int fd, const void *buffer, size_t len)
{
    if (!fails(fd, WRITE)) {
        return NEXT(write)(fd, buffer, len);
    }
    const ssize_t written = control->cut ? NEXT(write)(fd, buffer, len / 2) : -1;
    if (control->error == KILL) {
        kill(getpid(), SIGKILL);
    }
    return written;
}

int fdatasync(int fd)
{
    return fails(fd, SYNC) ? -1 : NEXT(fdatasync)(fd);
}

int fsync(int fd)
{
    return fails(fd, SYNC) ? -1 : NEXT(fsync)(fd);
}

int ftruncate64(int fd, off64_t len)
{
    return fails(fd, TRUNCATE) ? -1 : NEXT(ftruncate64)(fd, len);
}

// The mode is there when a file is made.
int open64(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const mode_t mode = __OPEN_NEEDS_MODE(flags) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return fails_on(path, OPEN) ? -1 : NEXT(open64)(path, flags, mode);
}

int mkostemp64(char *path, int flags)
{
    return fails_on(path, OPEN) ? -1 : NEXT(mkostemp64)(path, flags);
}

FILE *fopen64(const char *path, const char *mode)
{
    return fails_on(path, OPEN) ? NULL : NEXT(fopen64)(path, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return fails_on(path, NAME) ? -1 : NEXT(mkdir)(path, mode);
}

void *mmap64(void *at, size_t len, int protection, int flags, int fd, off64_t from)
{
    return fails(fd, MAP) ? MAP_FAILED : NEXT(mmap64)(at, len, protection, flags, fd, from);
}

static int takes_lock(int command, const struct flock64 *lock)
{
    return command == F_SETLK64 && lock->l_type != F_UNLCK;
}

int fcntl64(int fd, int command, ...)
{
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return takes_lock(command, argument) && fails(fd, LOCK) ? -1
                                                            : NEXT(fcntl64)(fd, command, argument);
}

int unlink(const char *path)
{
    return fails_on(path, DELETE) ? -1 : NEXT(unlink)(path);
}

int link(const char *from, const char *to)
{
    return fails_on(to, NAME) ? -1 : NEXT(link)(from, to);
}

int rename(const char *from, const char *to)
{
    return fails_on(to, NAME) ? -1 : NEXT(rename)(from, to);
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    const int result = NEXT(clock_gettime)(id, now);
    if (result == 0 && control != NULL && id == CLOCK_REALTIME) {
        now->tv_sec += control->clock_ms / 1000;
    }
    return result;
}

time_t time(time_t *out)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return (time_t)-1;
    }
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
