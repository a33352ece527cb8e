/* Owns: mapping of weight files under one allowed folder.
 * Does not own: which parameter lies where (plan), device copies (memory.c).
 * Next: weights.c. */
#ifndef QF_RUNTIME_WEIGHTS_H
#define QF_RUNTIME_WEIGHTS_H

#include "base/file.h"

typedef struct qf_mapped_file {
    char *name; /* as the plan writes it */
    qf_mapping mapping;
} qf_mapped_file;

typedef struct qf_weights {
    qf_context *context;
    char *root; /* resolved; NULL: no file may be read */
    size_t root_size;
    qf_mapped_file *files;
    uint32_t file_count, file_capacity;
} qf_weights;

/* `root` may be NULL. */
qf_status qf_weights_open(qf_context *context, const char *root, qf_weights *out_weights);
/* Unmaps everything. */
void qf_weights_close(qf_weights *weights);

/* The bytes [offset, offset + size) of a regular file under the root, mapped for reading; the file is mapped once. The
 * file must not be cut while mapped. Absolute names, names with "..", and links that lead out of the root are refused.
 * `parameter` is for messages. */
qf_status qf_weights_find(qf_weights *weights, const char *parameter, const char *file, uint64_t offset, uint64_t size,
                          const void **out_data);
uint64_t qf_weights_mapped_bytes(const qf_weights *weights);

#endif
