/* Owns: mapping the file, listing the archive's entries, inflating them.
 * Does not own: JSON (json.c), tensors (weights.c).
 * Next: json.c. */
#include "frontends/pt2/archive.h"

#include <string.h>
#include <zip.h>

#define MAX_ENTRIES 1000000

qf_pt2_storage *qf_pt2_storage_create(qf_context *context) {
    qf_pt2_storage *storage = qf_allocate(context, sizeof *storage);
    if (!storage) return NULL;
    storage->context = context;
    storage->arena.context = context;
    return storage;
}

void qf_pt2_storage_destroy(qf_context *context, void *object) {
    qf_pt2_storage *storage = object;
    if (!storage) return;
    qf_unmap_file(&storage->mapping);
    qf_arena_destroy(&storage->arena);
    qf_release(context, storage, sizeof *storage);
}

qf_status qf_pt2_storage_map(qf_pt2_storage *storage, const char *path, uint64_t max_bytes) {
    qf_context *context = storage->context;
    storage->path = qf_arena_copy(&storage->arena, path, strlen(path) + 1);
    if (!storage->path) return QF_ERROR_OUT_OF_MEMORY;
    qf_status status = qf_map_file(context, path, max_bytes, path, &storage->mapping);
    storage->data = storage->mapping.data;
    storage->size = storage->mapping.size;
    return status;
}

/* --- the central directory: libzip lists entries, but does not say where their bytes lie --- */
static uint64_t little(const uint8_t *bytes, uint32_t count) {
    uint64_t number = 0;
    for (uint32_t i = count; i-- > 0;) number = number << 8 | bytes[i];
    return number;
}

enum { END_SIZE = 22, LOCATOR_SIZE = 20, END64_SIZE = 56, HEADER_SIZE = 46, LOCAL_SIZE = 30 };

static qf_status bad_archive(const qf_pt2_archive *archive, const char *what) {
    qf_position position = {.location = archive->name};
    return qf_fail(archive->storage->context, QF_ERROR_PARSE, &position,
                   "not a zip archive as torch.export writes it: %s", what);
}

/* Where the central directory begins, and how many entries it has. */
static qf_status find_directory(const qf_pt2_archive *archive, uint64_t *out_offset, uint64_t *out_count) {
    const uint8_t *data = archive->storage->data;
    uint64_t size = archive->storage->size;
    if (size < END_SIZE) return bad_archive(archive, "it is too short");
    uint64_t last = size - END_SIZE, least = last > 0xffff ? last - 0xffff : 0, at = last;
    while (little(data + at, 4) != 0x06054b50) {
        if (at == least) return bad_archive(archive, "it has no end of central directory");
        at--;
    }
    *out_count = little(data + at + 10, 2);
    *out_offset = little(data + at + 16, 4);
    if (at < LOCATOR_SIZE || little(data + at - LOCATOR_SIZE, 4) != 0x07064b50) return QF_OK;
    uint64_t end64 = little(data + at - LOCATOR_SIZE + 8, 8);
    if (end64 > size - END64_SIZE || size < END64_SIZE || little(data + end64, 4) != 0x06064b50)
        return bad_archive(archive, "its zip64 end of central directory lies outside");
    *out_count = little(data + end64 + 32, 8);
    *out_offset = little(data + end64 + 48, 8);
    return QF_OK;
}

/* Sizes and offset of 0xffffffff stand in the zip64 extra field, in this order, each only where it overflowed. */
static bool read_zip64(const uint8_t *extra, uint64_t extra_size, uint64_t *size, uint64_t *compressed,
                       uint64_t *local) {
    uint64_t *fields[] = {size, compressed, local};
    for (uint64_t at = 0; at + 4 <= extra_size;) {
        uint64_t length = little(extra + at + 2, 2), next = at + 4;
        if (length > extra_size - next) return false;
        if (little(extra + at, 2) == 1)
            for (uint32_t i = 0; i < 3; i++) {
                if (*fields[i] != 0xffffffff) continue;
                if (next + 8 > at + 4 + length) return false;
                *fields[i] = little(extra + next, 8);
                next += 8;
            }
        at += 4 + length;
    }
    return true;
}

/* One header of the directory; *at moves to the next. */
static const char *read_header(qf_pt2_archive *archive, uint64_t *at, qf_pt2_entry *entry) {
    const uint8_t *data = archive->storage->data;
    uint64_t size = archive->storage->size;
    if (*at > size || size - *at < HEADER_SIZE || little(data + *at, 4) != 0x02014b50)
        return "an entry of its central directory is damaged";
    const uint8_t *header = data + *at;
    uint64_t name_size = little(header + 28, 2), extra = little(header + 30, 2), comment = little(header + 32, 2);
    uint64_t local = little(header + 42, 4);
    if (size - *at - HEADER_SIZE < name_size + extra + comment) return "its central directory is cut off";
    entry->stored = little(header + 10, 2) == 0 && !(little(header + 8, 2) & 1);
    entry->compressed_size = little(header + 20, 4);
    entry->size = little(header + 24, 4);
    if (!read_zip64(header + HEADER_SIZE + name_size, extra, &entry->size, &entry->compressed_size, &local))
        return "a zip64 field is damaged";
    if (local > size || size - local < LOCAL_SIZE || little(data + local, 4) != 0x04034b50)
        return "an entry lies outside of the file";
    entry->offset = local + LOCAL_SIZE + little(data + local + 26, 2) + little(data + local + 28, 2);
    if (entry->offset > size || entry->compressed_size > size - entry->offset)
        return "the bytes of an entry lie outside of the file";
    if (entry->stored && entry->size != entry->compressed_size) return "a stored entry has two sizes";
    char *name = qf_arena_allocate(archive->scratch, name_size + 1);
    if (!name) return NULL;
    memcpy(name, header + HEADER_SIZE, name_size);
    entry->name = name;
    *at += HEADER_SIZE + name_size + extra + comment;
    return NULL;
}

static bool name_equal(const void *owner, uint32_t id, const void *key) {
    return strcmp(((const qf_pt2_archive *)owner)->entries[id].name, key) == 0;
}

static uint64_t hash_name(const char *name) {
    return qf_hash_bytes(name, strlen(name), 3);
}

static qf_status read_directory(qf_pt2_archive *archive) {
    qf_context *context = archive->storage->context;
    uint64_t at = 0, count = 0;
    qf_status status = find_directory(archive, &at, &count);
    if (status != QF_OK) return status;
    if (count > MAX_ENTRIES || count > archive->storage->size / HEADER_SIZE)
        return bad_archive(archive, "it claims more entries than fit");
    if (!QF_GROW(context, archive->entries, archive->entry_capacity, count + 1)) return QF_ERROR_OUT_OF_MEMORY;
    archive->entry_count = 1;
    for (uint64_t i = 0; i < count; i++) {
        qf_pt2_entry entry = {0};
        const char *fault = read_header(archive, &at, &entry);
        if (fault) return bad_archive(archive, fault);
        if (!entry.name) return QF_ERROR_OUT_OF_MEMORY;
        archive->entries[archive->entry_count] = entry;
        if (!qf_index_add(context, &archive->index, hash_name(entry.name), archive->entry_count++))
            return QF_ERROR_OUT_OF_MEMORY;
    }
    return QF_OK;
}

qf_status qf_pt2_archive_open(qf_pt2_archive *archive) {
    qf_status status = read_directory(archive);
    if (status != QF_OK) return status;
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(archive->storage->data, archive->storage->size, 0, &error);
    if (source) archive->zip = zip_open_from_source(source, ZIP_RDONLY, &error);
    if (!archive->zip) {
        status = zip_error_code_zip(&error) == ZIP_ER_MEMORY
                     ? qf_record(archive->storage->context, QF_ERROR_OUT_OF_MEMORY)
                     : bad_archive(archive, zip_error_strerror(&error));
        if (source) zip_source_free(source);
    }
    zip_error_fini(&error);
    return status;
}

void qf_pt2_archive_close(qf_pt2_archive *archive) {
    if (archive->zip) zip_discard(archive->zip);
    if (!archive->storage) return;
    QF_FREE_ITEMS(archive->storage->context, archive->entries, archive->entry_capacity);
    qf_index_destroy(archive->storage->context, &archive->index);
}

const qf_pt2_entry *qf_pt2_archive_find(const qf_pt2_archive *archive, const char *name) {
    uint32_t id = qf_index_find(&archive->index, hash_name(name), name_equal, archive, name);
    return id ? &archive->entries[id] : NULL;
}

qf_status qf_pt2_archive_read(qf_pt2_archive *archive, const qf_pt2_entry *entry, uint64_t limit, qf_arena *arena,
                              const uint8_t **out_data) {
    qf_context *context = archive->storage->context;
    qf_position position = {.location = entry->name};
    if (entry->size > limit)
        return qf_fail(context, QF_ERROR_LIMIT, &position, "entry of %llu bytes; the limit is %llu",
                       (unsigned long long)entry->size, (unsigned long long)limit);
    if (entry->stored) {
        *out_data = archive->storage->data + entry->offset;
        return QF_OK;
    }
    /* Deflate gives at most 1032 bytes a byte. */
    if (entry->size / 1032 > entry->compressed_size)
        return qf_fail(context, QF_ERROR_PARSE, &position, "entry claims more bytes than its compressed ones can hold");
    uint8_t *data = qf_arena_allocate(arena, (size_t)entry->size + 1);
    if (!data) return QF_ERROR_OUT_OF_MEMORY;
    zip_file_t *file = zip_fopen(archive->zip, entry->name, 0);
    uint64_t size = 0;
    zip_int64_t got = file ? 1 : -1;
    while (got > 0 && size <= entry->size) {
        got = zip_fread(file, data + size, entry->size + 1 - size);
        if (got > 0) size += (uint64_t)got;
    }
    bool good = got >= 0 && size == entry->size;
    if (file) (void)zip_fclose(file);
    if (!good) return qf_fail(context, QF_ERROR_PARSE, &position, "entry is damaged: it does not inflate to its size");
    *out_data = data;
    return QF_OK;
}
