/* Lets the writes or syncs of an export fail: a library to preload.
 *
 * TURNLANE_TEST_FAULT is "write ERRNO" or "fsync ERRNO". Every such call on a file whose name has the
 * beginning of an export's temporary file fails with that error and does nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(int fd, const char *call) {
    char link[64], path[4096], word[16];
    int error = 0;
    const char *fault = getenv("TURNLANE_TEST_FAULT");
    if (!fault || sscanf(fault, "%15s %d", word, &error) != 2 || strcmp(word, call)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, "/.turnlane-export-") ? error : 0;
}

ssize_t write(int fd, const void *from, size_t size) {
    ssize_t (*real)(int, const void *, size_t) =
        (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    int before = errno, error = fails(fd, "write");
    errno = error ? error : before;
    return error ? -1 : real(fd, from, size);
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int before = errno, error = fails(fd, "fsync");
    errno = error ? error : before;
    return error ? -1 : real(fd);
}
