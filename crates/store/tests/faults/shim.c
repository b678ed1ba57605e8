/* Lets calls of a process fail: a library to preload.
 *
 * It counts the calls that write to, cut or sync a file whose path begins with $FAULT_PREFIX, and
 * lets one of them fail with $FAULT_ERRNO without doing anything. $FAULT_CALLS says which calls
 * count: "writes", "syncs" or "all". $FAULT_MODE says which of them fail:
 *   once    the one with the number $FAULT_NTH;
 *   sticky  from that one on all, as long as $FAULT_PREFIX.ballast exists: a full disk.
 * At the end the number of counted calls is written to the file $FAULT_COUNT.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long calls;
static const char *prefix, *which, *mode;
static long nth;
static int fault;

__attribute__((constructor)) static void begin(void) {
    prefix = getenv("FAULT_PREFIX");
    which = getenv("FAULT_CALLS");
    mode = getenv("FAULT_MODE");
    nth = getenv("FAULT_NTH") ? atol(getenv("FAULT_NTH")) : 0;
    fault = getenv("FAULT_ERRNO") ? atoi(getenv("FAULT_ERRNO")) : EIO;
    if (!which) which = "all";
    if (!mode) mode = "once";
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAULT_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld\n", atomic_load(&calls));
    fclose(file);
}

/* Whether this call on this file is to fail; errno is set then. */
static int fails(const char *kind, int fd) {
    char link[64], path[4096];
    int before = errno;
    if (!prefix || (strcmp(which, "all") && strcmp(which, kind))) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, prefix, strlen(prefix))) return 0;
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (!nth || number < nth) return 0;
    if (!strcmp(mode, "once")) {
        if (number != nth) return 0;
    } else {
        snprintf(path, sizeof path, "%s.ballast", prefix);
        int gone = access(path, F_OK);
        errno = before;
        if (gone) return 0;
    }
    errno = fault;
    return 1;
}

#define FAULTY(kind, type, name, parameters, arguments)                   \
    type name parameters {                                                \
        static type(*real) parameters;                                    \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name);    \
        return fails(kind, fd) ? -1 : real arguments;                     \
    }

FAULTY("writes", ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
FAULTY("writes", ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
FAULTY("writes", ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
FAULTY("writes", int, ftruncate, (int fd, off_t size), (fd, size))
FAULTY("writes", int, ftruncate64, (int fd, off64_t size), (fd, size))
FAULTY("syncs", int, fsync, (int fd), (fd))
FAULTY("syncs", int, fdatasync, (int fd), (fd))
