/* Owns: files opened without a wait, mapped, written whole or not at all.
 * Does not own: the formats.
 * Next: file.h. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- reading --- */

static qf_status fault(qf_context *context, const char *location, const char *path, const char *what) {
    qf_position position = {.location = location};
    return qf_fail(context, errno == ENOENT ? QF_ERROR_NOT_FOUND : QF_ERROR_IO, &position, "cannot %s '%s': %s", what,
                   path, strerror(errno));
}

qf_status qf_open_file(qf_context *context, const char *path, uint64_t max_bytes, const char *location, int *out_file,
                       uint64_t *out_size) {
    qf_position position = {.location = location};
    struct stat facts = {0};
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    qf_status status = QF_OK;
    if (file < 0 || fstat(file, &facts) != 0)
        status = fault(context, location, path, "open");
    else if (!S_ISREG(facts.st_mode))
        status = qf_fail(context, QF_ERROR_IO, &position, "'%s' is not a regular file", path);
    else if ((uint64_t)facts.st_size > max_bytes)
        status = qf_fail(context, QF_ERROR_LIMIT, &position, "'%s' has %" PRId64 " bytes; the limit is %" PRIu64, path,
                         (int64_t)facts.st_size, max_bytes);
    if (status != QF_OK && file >= 0) (void)close(file);
    if (status != QF_OK) return status;
    *out_file = file;
    *out_size = (uint64_t)facts.st_size;
    return QF_OK;
}

qf_status qf_map_file(qf_context *context, const char *path, uint64_t max_bytes, const char *location,
                      qf_mapping *out_mapping) {
    int file;
    uint64_t size;
    *out_mapping = (qf_mapping){NULL, 0};
    qf_status status = qf_open_file(context, path, max_bytes, location, &file, &size);
    if (status != QF_OK) return status;
    void *data = size ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
    status = data == MAP_FAILED ? fault(context, location, path, "map") : QF_OK;
    if (status == QF_OK) *out_mapping = (qf_mapping){data, size};
    (void)close(file);
    return status;
}

void qf_unmap_file(qf_mapping *mapping) {
    union {
        const void *read_only;
        void *address;
    } data = {.read_only = mapping->data};
    if (mapping->data) (void)munmap(data.address, (size_t)mapping->size);
    *mapping = (qf_mapping){NULL, 0};
}

/* --- writing --- */

static bool write_all(int file, const void *data, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t part = write(file, (const char *)data + done, size - done);
        if (part < 0 && errno != EINTR) return false;
        if (part > 0) done += (size_t)part;
    }
    return true;
}

/* Closes in any case; errno is the first failure's. */
static bool write_and_close(int file, const void *data, size_t size, bool flush) {
    bool written = write_all(file, data, size) && (!flush || fsync(file) == 0);
    int error = errno;
    if (close(file) != 0 && written) return false;
    errno = error;
    return written;
}

/* A new file of this process, for others may write the same path: other processes, and other threads of this one. */
static int create_beside(const char *path, char *temporary, size_t size) {
    for (unsigned attempt = 0; attempt < 10000; attempt++) {
        int length = snprintf(temporary, size, "%s.%ld.%u.tmp", path, (long)getpid(), attempt);
        if (length < 0 || (size_t)length >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST) return file;
    }
    return -1;
}

/* `old`: the file that is replaced, which gives its permissions; or NULL. */
static bool replace(const char *path, const struct stat *old, const void *data, size_t size) {
    char temporary[PATH_MAX + 32];
    int file = create_beside(path, temporary, sizeof temporary);
    if (file < 0) return false;
    if (old) (void)fchmod(file, old->st_mode & 0777); /* the owner may be another: then it stays as it is */
    /* Through to the disk, so that the rename does not overtake the bytes. */
    if (write_and_close(file, data, size, true) && rename(temporary, path) == 0) return true;
    int error = errno;
    (void)remove(temporary);
    errno = error;
    return false;
}

qf_status qf_write_file(qf_context *context, const char *path, const void *data, size_t size) {
    struct stat status;
    char target[PATH_MAX];
    bool exists = stat(path, &status) == 0, written = false;
    if (exists && S_ISDIR(status.st_mode)) {
        errno = EISDIR;
    } else if (exists && !S_ISREG(status.st_mode)) {
        int file = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        written = file >= 0 && write_and_close(file, data, size, false);
    } else {
        written = replace(exists && realpath(path, target) ? target : path, exists ? &status : NULL, data, size);
    }
    if (written) return QF_OK;
    qf_position position = {.location = path};
    return qf_fail(context, QF_ERROR_IO, &position, "cannot write: %s; check that the folder exists and is writable",
                   strerror(errno));
}
