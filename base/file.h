/* Owns: opening and mapping regular files; writing a file so that readers see the old one or the new one, never a part.
 * Does not own: what is read or written, and the readers' limits.
 * Next: file.c. */
#ifndef QF_BASE_FILE_H
#define QF_BASE_FILE_H

#include "base/context.h"

/* Opens a regular file of at most `max_bytes` for reading; what is none (a FIFO, a device, a folder) is refused, and
 * not waited for. A failure's message is at `location` and names the path: QF_ERROR_NOT_FOUND, IO or LIMIT. */
qf_status qf_open_file(qf_context *context, const char *path, uint64_t max_bytes, const char *location, int *out_file,
                       uint64_t *out_size);

/* A file mapped for reading, which must not be cut meanwhile. Empty: NULL and 0. */
typedef struct qf_mapping {
    const uint8_t *data;
    uint64_t size;
} qf_mapping;

/* Fails as qf_open_file does, and leaves an empty mapping then. */
qf_status qf_map_file(qf_context *context, const char *path, uint64_t max_bytes, const char *location,
                      qf_mapping *out_mapping);
void qf_unmap_file(qf_mapping *mapping);

/* Writes to a temporary file in the same folder, then renames it. A link keeps pointing where it did: its target is
 * replaced. What is no regular file (a device, a pipe) is written in place, for renaming over it would put a file where
 * it was. On failure QF_ERROR_IO with the reason at `path`, and nothing is left behind. */
qf_status qf_write_file(qf_context *context, const char *path, const void *data, size_t size);

#endif
