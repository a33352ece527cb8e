/* Owns: the binary form of a plan, written in memory and to files.
 * Does not own: reading it (read.c), its description (docs/plan.md).
 * Next: format.h, read.c. */
#include <string.h>

#include "base/file.h"
#include "plan/format.h"

static void put_u32(qf_buffer *buffer, uint32_t value) {
    unsigned char bytes[4];
    for (int i = 0; i < 4; i++) bytes[i] = (unsigned char)(value >> (8 * i));
    qf_buffer_append(buffer, bytes, sizeof bytes);
}

static void put_u64(qf_buffer *buffer, uint64_t value) {
    put_u32(buffer, (uint32_t)value);
    put_u32(buffer, (uint32_t)(value >> 32));
}

static void pad(qf_buffer *buffer, size_t alignment) {
    while (buffer->size % alignment && !buffer->failed) qf_buffer_append(buffer, "", 1);
}

typedef struct section {
    uint32_t kind, record_size;
    uint64_t count, offset;
} section;

static void begin(qf_buffer *buffer, section *entry, uint32_t kind, uint32_t record_size, uint64_t count) {
    pad(buffer, kind == QF_PLAN_SECTION_BYTES ? 64 : 8);
    *entry = (section){kind, record_size, count, buffer->size};
}

/* Sections in order; returns how many. */
static uint32_t put_sections(qf_buffer *buffer, const qf_plan *plan, section *entries) {
    uint32_t used = 0;
#define RECORD(number, name, plural, fields)                                                                           \
    begin(buffer, &entries[used++], number, QF_PLAN_SIZE_OF_##name, plan->name##_count);                               \
    for (uint32_t i = 0; i < plan->name##_count; i++) {                                                                \
        const qf_plan_##name##_record *record = &plan->plural[i];                                                      \
        fields                                                                                                         \
    }
#define U32(field) put_u32(buffer, record->field);
#define U64(field) put_u64(buffer, record->field);
#define I64(field) put_u64(buffer, (uint64_t)record->field);
#include "plan/records.def"
    begin(buffer, &entries[used++], QF_PLAN_SECTION_STRINGS, 1, plan->string_size);
    qf_buffer_append(buffer, plan->strings, plan->string_size);
    begin(buffer, &entries[used++], QF_PLAN_SECTION_BYTES, 1, plan->byte_size);
    qf_buffer_append(buffer, plan->bytes, plan->byte_size);
    return used;
}

static void poke_u64(qf_buffer *buffer, size_t at, uint64_t value) {
    for (int i = 0; i < 8; i++) buffer->data[at + (size_t)i] = (char)(value >> (8 * i));
}

static bool encode(qf_buffer *buffer, const qf_plan *plan) {
    section entries[QF_PLAN_SECTION_COUNT];
    qf_buffer_append(buffer, QF_PLAN_MAGIC, 8);
    put_u32(buffer, QF_PLAN_MAJOR);
    put_u32(buffer, QF_PLAN_MINOR);
    put_u64(buffer, 0); /* file size and checksum are filled in at the end */
    put_u64(buffer, 0);
    qf_buffer_append(buffer, plan->fingerprint.bytes, sizeof plan->fingerprint.bytes);
    put_u32(buffer, QF_PLAN_SECTION_COUNT);
    put_u32(buffer, 0);
    size_t table = buffer->size;
    for (uint32_t i = 0; i < QF_PLAN_SECTION_COUNT * 3; i++) put_u64(buffer, 0);
    uint32_t used = put_sections(buffer, plan, entries);
    if (buffer->failed) return false;
    for (uint32_t i = 0; i < used; i++, table += QF_PLAN_SECTION_ENTRY) {
        poke_u64(buffer, table, entries[i].kind | (uint64_t)entries[i].record_size << 32);
        poke_u64(buffer, table + 8, entries[i].count);
        poke_u64(buffer, table + 16, entries[i].offset);
    }
    poke_u64(buffer, 16, buffer->size);
    poke_u64(buffer, 24, qf_plan_checksum(buffer->data + QF_PLAN_CHECKED_FROM, buffer->size - QF_PLAN_CHECKED_FROM));
    return true;
}

uint64_t qf_plan_checksum(const void *data, size_t size) {
    const unsigned char *bytes = data;
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash;
}

qf_status qf_plan_to_bytes(qf_context *context, const qf_plan *plan, qf_write_function write, void *user) {
    qf_buffer buffer = {.context = context};
    bool done = encode(&buffer, plan);
    if (done) write(user, buffer.data, buffer.size);
    qf_buffer_destroy(&buffer);
    return done ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

qf_status qf_plan_save(qf_context *context, const qf_plan *plan, const char *path) {
    qf_buffer buffer = {.context = context};
    qf_status status =
        encode(&buffer, plan) ? qf_write_file(context, path, buffer.data, buffer.size) : QF_ERROR_OUT_OF_MEMORY;
    qf_buffer_destroy(&buffer);
    return status;
}
