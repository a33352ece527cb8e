/* Owns: writing a file so that readers see the old one or the new one, never a part.
 * Does not own: what is written; reading files (each reader has its own limits).
 * Next: file.c. */
#ifndef QF_BASE_FILE_H
#define QF_BASE_FILE_H

#include "base/context.h"

/* Writes to a temporary file in the same folder, then renames it. A link keeps pointing where it did: its target is
 * replaced. What is no regular file (a device, a pipe) is written in place, for renaming over it would put a file where
 * it was. On failure QF_ERROR_IO with the reason at `path`, and nothing is left behind. */
qf_status qf_write_file(qf_context *context, const char *path, const void *data, size_t size);

#endif
