/* Owns: files written whole or not at all.
 * Does not own: the formats.
 * Next: file.h. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `flush`: through to the disk, so that the rename does not overtake the bytes. */
static bool write_all(const char *path, const void *data, size_t size, bool flush) {
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    bool written = size == 0 || fwrite(data, 1, size, file) == size;
    written = fflush(file) == 0 && written;
    if (flush) written = fsync(fileno(file)) == 0 && written;
    return fclose(file) == 0 && written;
}

static bool replace(const char *path, const void *data, size_t size) {
    char temporary[PATH_MAX + 32];
    int length = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (write_all(temporary, data, size, true) && rename(temporary, path) == 0) return true;
    int error = errno;
    (void)remove(temporary);
    errno = error;
    return false;
}

qf_status qf_write_file(qf_context *context, const char *path, const void *data, size_t size) {
    struct stat status;
    char target[PATH_MAX];
    bool exists = stat(path, &status) == 0, written = false;
    if (exists && S_ISDIR(status.st_mode))
        errno = EISDIR;
    else if (exists && !S_ISREG(status.st_mode))
        written = write_all(path, data, size, false);
    else
        written = replace(exists && realpath(path, target) ? target : path, data, size);
    if (written) return QF_OK;
    qf_position position = {.location = path};
    return qf_fail(context, QF_ERROR_IO, &position, "cannot write: %s; check that the folder exists and is writable",
                   strerror(errno));
}
