/* Beneath a process, by LD_PRELOAD: it writes down the calls that a process makes on the files of one folder, and on
 * its sockets, and makes some of them fail.
 *
 *     FAULTS_FOLDER    the folder; only what lies directly in it is looked at
 *     FAULTS_GRAVES    another one on the same disk: files that lose their names are linked into it, by inode
 *     FAULTS_RULES     a file with RULES rules, which its maker may change at any time
 *     FAULTS_RECORD    the file to which records are appended; optional
 *     FAULTS_BYTES     "1": records have what was written and sent
 *     FAULTS_BOOT_ID   a file that is opened in the place of the kernel's boot id; optional
 *     FAULTS_IPV4      "1": the machine has no IPv6
 *
 * A call is written down twice: before it is made ("began") and after it has returned ("ended"), each by one
 * append, so that the order of the records is one in which these moments were. tests/faults/record.py reads them,
 * tests/faults/shim.py writes the rules.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN, WRITE, PWRITE, SYNC, SYNC_FOLDER, RENAME, UNLINK, TRUNCATE, SEND };
enum { BEGAN, ENDED };
enum { RULES = 16, FILES = 4096, NAME = 56 };

struct rule {
    uint32_t calls;      /* bits: 1 << OPEN and so on */
    int32_t error;       /* what the call fails with; 0: it writes only a part, if it writes */
    uint32_t skip;       /* so many calls are let through first */
    uint32_t left;       /* so many fail after that; 0: the rule is not in force */
    uint32_t per_mille;  /* the chance of a call that is up */
    uint32_t held;       /* not 0: the call waits until it is 0, and does not fail */
    char part[40];       /* what the file's name must have in it; empty: any */
};

struct record {
    uint32_t length;     /* of the whole: this, the name, the bytes */
    uint8_t call;
    uint8_t phase;
    uint16_t name_length;
    int32_t fd;
    int32_t error;       /* 0: it worked */
    int64_t result;      /* of an ended call; of a sync that began, the file's size; of an open: 1 if it made the file */
    int64_t offset;      /* where it wrote */
    uint64_t inode;
    uint64_t thread;     /* which makes one call at a time; a descriptor may be synced by several at once */
    uint64_t nanoseconds;
};

static char folder[PATH_MAX], graves[PATH_MAX];
static size_t folder_length;
static struct rule *rules;
static int record_fd = -1, with_bytes;
static const char *boot_id;
static char names[FILES][NAME];   /* of the files and folders that are open; empty: none of ours */
static uint64_t inodes[FILES];
static uint64_t chance = 88172645463325252ull;

#define REAL(type, name, ...)                              \
    static type (*real_##name)(__VA_ARGS__);               \
    if (!real_##name) *(void **)&real_##name = dlsym(RTLD_NEXT, #name)

/* Called again in a process that was forked, and has an environment of its own. */
__attribute__((constructor)) void begin_faults(void) {
    const char *path = getenv("FAULTS_FOLDER");
    if (!path) return;
    snprintf(folder, sizeof folder, "%s", path);
    folder_length = strlen(folder);
    snprintf(graves, sizeof graves, "%s", getenv("FAULTS_GRAVES"));
    boot_id = getenv("FAULTS_BOOT_ID");
    const char *bytes = getenv("FAULTS_BYTES"), *record = getenv("FAULTS_RECORD");
    with_bytes = bytes && *bytes == '1';
    if (record) record_fd = syscall(SYS_openat, AT_FDCWD, record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int fd = syscall(SYS_openat, AT_FDCWD, getenv("FAULTS_RULES"), O_RDWR | O_CLOEXEC);
    rules = mmap(NULL, RULES * sizeof *rules, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || rules == MAP_FAILED || (record && record_fd < 0)) {
        fprintf(stderr, "faults: can't open %s or %s\n", getenv("FAULTS_RULES"), record ? record : "");
        abort();
    }
    syscall(SYS_close, fd);
    chance ^= (uint64_t)getpid() << 32;
}

/* The name of what lies in the folder; "." is the folder itself, NULL what lies elsewhere. */
static const char *name_of(const char *path) {
    if (!folder_length || !path || strncmp(path, folder, folder_length)) return NULL;
    const char *rest = path + folder_length;
    if (!*rest || !strcmp(rest, "/")) return ".";
    if (*rest != '/') return NULL;
    while (*rest == '/') rest++;
    return strchr(rest, '/') ? NULL : rest;
}

static const char *open_name(int fd) {
    return fd >= 0 && fd < FILES && *names[fd] ? names[fd] : NULL;
}

static void note(int call, int phase, int fd, const char *name, uint64_t inode, int64_t offset, int64_t result,
                 int error, const void *bytes, size_t length) {
    if (record_fd < 0) return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    size_t name_length = name ? strlen(name) : 0;
    struct record record = {
        .length = sizeof record + name_length + length, .call = call, .phase = phase, .name_length = name_length,
        .fd = fd, .error = error, .result = result, .offset = offset, .inode = inode,
        .thread = syscall(SYS_gettid), .nanoseconds = now.tv_sec * 1000000000ull + now.tv_nsec,
    };
    struct iovec parts[] = {{&record, sizeof record}, {(void *)name, name_length}, {(void *)bytes, length}};
    int kept = errno;
    syscall(SYS_writev, record_fd, parts, 3);
    errno = kept;
}

/* Take one of what is left; 0: none is, or another thread has taken the last one just now. */
static int take(uint32_t *left) {
    uint32_t was = __atomic_load_n(left, __ATOMIC_ACQUIRE);
    while (was && !__atomic_compare_exchange_n(left, &was, was - 1, 1, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
    return was != 0;
}

/* What is to become of a call: 0 it is let through, -1 it writes only a part, else it fails with this error. */
static int fate(int call, const char *name) {
    for (int n = 0; n < RULES; n++) {
        struct rule *rule = &rules[n];
        if (!__atomic_load_n(&rule->left, __ATOMIC_ACQUIRE) || !(rule->calls & (1u << call))) continue;
        if (*rule->part && !strstr(name, rule->part)) continue;
        if (rule->per_mille < 1000) {
            uint64_t drawn = __atomic_load_n(&chance, __ATOMIC_RELAXED);
            drawn ^= drawn << 13, drawn ^= drawn >> 7, drawn ^= drawn << 17;
            __atomic_store_n(&chance, drawn, __ATOMIC_RELAXED);
            if (drawn % 1000 >= rule->per_mille) continue;
        }
        if (take(&rule->skip)) continue;
        if (__atomic_load_n(&rule->held, __ATOMIC_ACQUIRE)) {
            while (__atomic_load_n(&rule->held, __ATOMIC_ACQUIRE)) usleep(500);
            return 0;
        }
        if (!take(&rule->left)) continue;
        return rule->error ? rule->error : -1;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------ names */

static int opened(int fd, const char *name, int is_new) {
    struct stat found;
    if (fd < 0 || fd >= FILES || fstat(fd, &found)) return fd;
    snprintf(names[fd], NAME, "%s", name);
    inodes[fd] = found.st_ino;
    note(OPEN, ENDED, fd, name, found.st_ino, found.st_size, is_new, 0, NULL, 0);
    return fd;
}

static int open_it(int at, const char *path, int flags, mode_t mode) {
    if (boot_id && path && !strcmp(path, "/proc/sys/kernel/random/boot_id")) path = boot_id;
    const char *name = name_of(path), *where = open_name(at);
    if (!name && where && path && *path && !strcmp(where, ".") && !strchr(path, '/')) name = path;
    if (!name && path && !strncmp(path, "/proc/self/fd/", 14)) name = open_name(atoi(path + 14));
    if (!name) return syscall(SYS_openat, at, path, flags, mode);
    int is_new = (flags & O_CREAT) && syscall(SYS_faccessat, at, path, F_OK);
    int error = fate(OPEN, name);
    if (error > 0) {
        note(OPEN, ENDED, -1, name, 0, 0, 0, error, NULL, 0);
        errno = error;
        return -1;
    }
    return opened(syscall(SYS_openat, at, path, flags, mode), name, is_new);
}

#define OPEN_CALL(name)                                                        \
    int name(const char *path, int flags, ...) {                               \
        va_list more;                                                          \
        va_start(more, flags);                                                 \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                          \
        return open_it(AT_FDCWD, path, flags, mode);                           \
    }
OPEN_CALL(open)
OPEN_CALL(open64)

#define OPENAT_CALL(name)                                                      \
    int name(int at, const char *path, int flags, ...) {                       \
        va_list more;                                                          \
        va_start(more, flags);                                                 \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more);                                                          \
        return open_it(at, path, flags, mode);                                 \
    }
OPENAT_CALL(openat)
OPENAT_CALL(openat64)

int close(int fd) {
    if (open_name(fd)) *names[fd] = 0;
    REAL(int, close, int);
    return real_close(fd);
}

static int control(int fd, int command, long argument) {
    REAL(int, fcntl, int, int, ...);
    int result = real_fcntl(fd, command, argument);
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && result >= 0 && result < FILES && open_name(fd)) {
        memcpy(names[result], names[fd], NAME);
        inodes[result] = inodes[fd];
    }
    return result;
}

#define FCNTL_CALL(name)                               \
    int name(int fd, int command, ...) {               \
        va_list more;                                  \
        va_start(more, command);                       \
        long argument = va_arg(more, long);            \
        va_end(more);                                  \
        return control(fd, command, argument);         \
    }
FCNTL_CALL(fcntl)
FCNTL_CALL(fcntl64)

/* A file that is about to lose its name stays, by its inode, in the other folder. */
static uint64_t bury(const char *path) {
    struct stat found;
    char grave[PATH_MAX + 32];
    if (stat(path, &found)) return 0;
    snprintf(grave, sizeof grave, "%s/%lu", graves, (unsigned long)found.st_ino);
    int kept = errno;
    syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, grave, 0);
    errno = kept;
    return found.st_ino;
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    const char *old = name_of(from), *new = name_of(to);
    if (!old || !new) return real_rename(from, to);
    char both[2 * NAME];
    snprintf(both, sizeof both, "%s/%s", old, new);
    int error = fate(RENAME, new), result = -1;
    if (error > 0) errno = error;
    else {
        bury(to);
        result = real_rename(from, to);
    }
    note(RENAME, ENDED, -1, both, 0, 0, result, result ? errno : 0, NULL, 0);
    return result;
}

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    const char *name = name_of(path);
    if (!name) return real_unlink(path);
    int error = fate(UNLINK, name), result = -1;
    uint64_t inode = 0;
    if (error > 0) errno = error;
    else {
        inode = bury(path);
        result = real_unlink(path);
    }
    note(UNLINK, ENDED, -1, name, inode, 0, result, result ? errno : 0, NULL, 0);
    return result;
}

/* ------------------------------------------------------------------------------------------------ bytes */

static ssize_t write_it(int call, int fd, const void *bytes, size_t length, off_t at) {
    REAL(ssize_t, write, int, const void *, size_t);
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    const char *name = open_name(fd);
    size_t wanted = length;
    if (name) {
        int error = fate(call, name);
        if (error > 0) {
            note(call, ENDED, fd, name, inodes[fd], 0, -1, error, NULL, 0);
            errno = error;
            return -1;
        }
        if (error < 0 && length > 1) wanted = length / 2;
    }
    ssize_t result = call == PWRITE ? real_pwrite(fd, bytes, wanted, at) : real_write(fd, bytes, wanted);
    if (name) {
        int kept = errno;
        if (call == WRITE && result >= 0) at = lseek(fd, 0, SEEK_CUR) - result;
        errno = kept;
        size_t told = result > 0 && (with_bytes || (call == PWRITE && result <= 4096)) ? (size_t)result : 0;
        note(call, ENDED, fd, name, inodes[fd], at, result, result < 0 ? errno : 0, bytes, told);
    }
    return result;
}

ssize_t write(int fd, const void *bytes, size_t length) { return write_it(WRITE, fd, bytes, length, 0); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return write_it(PWRITE, fd, bytes, length, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return write_it(PWRITE, fd, bytes, length, at); }

static int truncate_it(int fd, off_t size) {
    REAL(int, ftruncate, int, off_t);
    const char *name = open_name(fd);
    if (!name) return real_ftruncate(fd, size);
    int error = fate(TRUNCATE, name), result = -1;
    if (error > 0) errno = error;
    else result = real_ftruncate(fd, size);
    note(TRUNCATE, ENDED, fd, name, inodes[fd], size, result, result ? errno : 0, NULL, 0);
    return result;
}

int ftruncate(int fd, off_t size) { return truncate_it(fd, size); }
int ftruncate64(int fd, off_t size) { return truncate_it(fd, size); }

static int sync_it(int fd, int (*real)(int)) {
    const char *name = open_name(fd);
    if (!name) return real(fd);
    struct stat found;
    if (fstat(fd, &found)) return -1;
    int call = S_ISDIR(found.st_mode) ? SYNC_FOLDER : SYNC, result = -1;
    note(call, BEGAN, fd, name, inodes[fd], 0, found.st_size, 0, NULL, 0);
    int error = fate(call, name);
    if (error > 0) errno = error;
    else result = real(fd);
    note(call, ENDED, fd, name, inodes[fd], 0, result, result ? errno : 0, NULL, 0);
    return result;
}

int fsync(int fd) {
    REAL(int, fsync, int);
    return sync_it(fd, real_fsync);
}

int fdatasync(int fd) {
    REAL(int, fdatasync, int);
    return sync_it(fd, real_fdatasync);
}

/* ------------------------------------------------------------------------------------------------ sockets */

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    REAL(ssize_t, send, int, const void *, size_t, int);
    if (!with_bytes) return real_send(fd, bytes, length, flags);
    note(SEND, BEGAN, fd, NULL, 0, 0, 0, 0, bytes, length);
    ssize_t result = real_send(fd, bytes, length, flags);
    note(SEND, ENDED, fd, NULL, 0, 0, result, result < 0 ? errno : 0, NULL, 0);
    return result;
}

int socket(int domain, int type, int protocol) {
    REAL(int, socket, int, int, int);
    if (domain == AF_INET6 && getenv("FAULTS_IPV4")) {
        errno = EAFNOSUPPORT;
        return -1;
    }
    return real_socket(domain, type, protocol);
}
