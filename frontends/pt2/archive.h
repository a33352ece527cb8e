/* Owns: the zip archive: finding entries, reading them, and where stored ones lie in the file.
 * Does not own: what the entries mean (import.c, weights.c).
 * Next: archive.c. */
#ifndef QF_FRONTENDS_PT2_ARCHIVE_H
#define QF_FRONTENDS_PT2_ARCHIVE_H

#include "base/file.h"

/* What outlives the import: the mapped file, and weights that could not be used in place. A graph adopts it. */
typedef struct qf_pt2_storage {
    qf_context *context;
    qf_arena arena;
    const char *path;   /* NULL: memory of the caller */
    qf_mapping mapping; /* of the file at `path` */
    const uint8_t *data;
    uint64_t size;
} qf_pt2_storage;

qf_pt2_storage *qf_pt2_storage_create(qf_context *context); /* NULL on failure */
void qf_pt2_storage_destroy(qf_context *context, void *storage);
qf_status qf_pt2_storage_map(qf_pt2_storage *storage, const char *path, uint64_t max_bytes);

typedef struct qf_pt2_entry {
    const char *name; /* in the scratch arena */
    uint64_t offset;  /* of the first byte of data in the file */
    uint64_t size, compressed_size;
    bool stored; /* not compressed: its bytes are data + offset */
} qf_pt2_entry;

typedef struct qf_pt2_archive {
    qf_pt2_storage *storage;
    const char *name; /* for messages */
    void *zip;        /* libzip's */
    qf_arena *scratch;
    qf_pt2_entry *entries; /* from 1; their number is libzip's plus 1 */
    uint32_t entry_count, entry_capacity;
    qf_index index; /* by name */
} qf_pt2_archive;

/* Opens the archive in `storage`. The caller zero-initialises, sets storage, name and scratch, and closes also after a
 * failure. */
qf_status qf_pt2_archive_open(qf_pt2_archive *archive);
void qf_pt2_archive_close(qf_pt2_archive *archive);
const qf_pt2_entry *qf_pt2_archive_find(const qf_pt2_archive *archive, const char *name); /* NULL: none */
/* The bytes of an entry, in place where stored, else inflated into `arena`; checksums of inflated ones are verified. */
qf_status qf_pt2_archive_read(qf_pt2_archive *archive, const qf_pt2_entry *entry, uint64_t limit, qf_arena *arena,
                              const uint8_t **out_data);

#endif
