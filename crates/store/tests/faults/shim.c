/* Lets calls of a process fail: a library to preload.
 *
 * It looks at the calls that write to, cut or sync a file FOLDER/fault.CALLS.MODE.ERRNO.NTH/lanes.db*,
 * counts them per folder and lets some fail without doing anything. The folder's name says which:
 * CALLS count ("writes" or "syncs"), and with the number NTH among them (none for 0) fail with ERRNO
 *   once    the one with that number;
 *   twice   that one and the next;
 *   always  all from that one on;
 *   sticky  the same, as long as lanes.db.ballast holds bytes: a full disk.
 * The first that fails leaves a file "fired" in the folder.
 *
 * A folder "disk" in there is kept as a disk would be found after a loss of power, by the harshest
 * rules: what was written gets there with the next sync of its file; when that sync fails, it never
 * gets there. Real syncs are left out, since the machine will not lose its power.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define PATH_SIZE 4096

/* What a file was told since its last sync; a cut has no bytes. */
struct change {
    struct change *next;
    off64_t at;
    ssize_t size;
    char name[32], bytes[];
};

struct run {
    struct run *next;
    struct change *first, **end;
    char folder[PATH_SIZE], calls[16], mode[16];
    int error, keeps_disk;
    long nth, count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct run *runs;
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static int (*real_cut)(int, off64_t);
static int (*real_sync)(int);

__attribute__((constructor)) static void begin(void) {
    real_write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    real_pwrite = (ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    real_cut = (int (*)(int, off64_t))dlsym(RTLD_NEXT, "ftruncate64");
    real_sync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
}

/* The run that a file belongs to, if it does; `name` is what it is called there. */
static struct run *run_of(int fd, char *name) {
    char link[64], path[PATH_SIZE];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return NULL;
    path[length] = 0;
    char *fault = strstr(path, "/fault.");
    char *file = fault ? strchr(fault + 1, '/') : NULL;
    if (!file || strncmp(file, "/lanes.db", 9) || strlen(file) > 31) return NULL;
    strcpy(name, file + 1);
    *file = 0;
    struct run *run = runs;
    while (run && strcmp(run->folder, path)) run = run->next;
    if (run) return run;
    run = calloc(1, sizeof *run);
    if (!run) abort();
    strcpy(run->folder, path);
    if (sscanf(fault, "/fault.%15[a-z].%15[a-z].%d.%ld", run->calls, run->mode, &run->error, &run->nth) != 4) abort();
    strcat(path, "/disk");
    run->keeps_disk = !access(path, F_OK);
    run->end = &run->first;
    run->next = runs;
    return runs = run;
}

static int fails(struct run *run, const char *calls) {
    char path[PATH_SIZE + 32];
    if (strcmp(run->calls, calls)) return 0;
    long number = ++run->count;
    if (!run->nth || number < run->nth) return 0;
    if (!strcmp(run->mode, "once") && number > run->nth) return 0;
    if (!strcmp(run->mode, "twice") && number > run->nth + 1) return 0;
    snprintf(path, sizeof path, "%s/lanes.db.ballast", run->folder);
    struct stat ballast;
    if (!strcmp(run->mode, "sticky") && (stat(path, &ballast) || !ballast.st_size)) return 0;
    snprintf(path, sizeof path, "%s/fired", run->folder);
    int fired = open(path, O_CREAT | O_WRONLY, 0600);
    if (fired >= 0) close(fired);
    return 1;
}

static void remember(struct run *run, const char *name, const void *bytes, ssize_t size, off64_t at) {
    if (!run->keeps_disk) return;
    struct change *change = malloc(sizeof *change + (bytes ? size : 0));
    if (!change) abort();
    change->next = NULL;
    change->at = at;
    change->size = bytes ? size : -1;
    strcpy(change->name, name);
    if (bytes) memcpy(change->bytes, bytes, size);
    *run->end = change;
    run->end = &change->next;
}

/* What a file was told reaches the disk, or never will. */
static void settle(struct run *run, const char *name, int reaches) {
    char path[PATH_SIZE + 40];
    snprintf(path, sizeof path, "%s/disk/%s", run->folder, name);
    int disk = reaches && run->keeps_disk ? open(path, O_CREAT | O_RDWR, 0600) : -1;
    struct change **at = &run->first, *change;
    while ((change = *at)) {
        if (strcmp(change->name, name)) {
            at = &change->next;
            continue;
        }
        if (disk >= 0 && change->size >= 0 && real_pwrite(disk, change->bytes, change->size, change->at) != change->size) abort();
        if (disk >= 0 && change->size < 0 && real_cut(disk, change->at)) abort();
        *at = change->next;
        free(change);
    }
    run->end = at;
    if (disk >= 0) close(disk);
}

/* Does CALL unless it is to fail, then what is TOLD about it to the disk that is kept. */
#define FAULTY(CALLS, CALL, TOLD)                          \
    char name[32];                                         \
    int before = errno;                                    \
    pthread_mutex_lock(&lock);                             \
    struct run *run = run_of(fd, name);                    \
    int failed = run && fails(run, CALLS);                 \
    int error = run ? run->error : 0;                      \
    errno = before;                                        \
    ssize_t end = failed ? -1 : (CALL);                    \
    before = errno;                                        \
    if (run) TOLD;                                         \
    pthread_mutex_unlock(&lock);                           \
    errno = failed ? error : before;                       \
    return end;

static ssize_t do_write(int fd, const void *from, size_t size, off64_t at) {
    FAULTY("writes", real_pwrite(fd, from, size, at), { if (end > 0) remember(run, name, from, end, at); })
}

static int do_cut(int fd, off64_t size) {
    FAULTY("writes", real_cut(fd, size), { if (!end) remember(run, name, NULL, 0, size); })
}

static int do_sync(int fd) {
    FAULTY("syncs", run ? 0 : real_sync(fd), settle(run, name, !failed))
}

ssize_t write(int fd, const void *from, size_t size) {
    FAULTY("writes", real_write(fd, from, size), { if (run->keeps_disk && !strstr(name, "ballast")) abort(); })
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at) { return do_write(fd, from, size, at); }
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) { return do_write(fd, from, size, at); }
int ftruncate(int fd, off_t size) { return do_cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return do_cut(fd, size); }
int fsync(int fd) { return do_sync(fd); }
int fdatasync(int fd) { return do_sync(fd); }
