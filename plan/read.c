/* Owns: reading the binary form of a plan out of bytes that nobody vouches for.
 * Does not own: what the records may say (validate.c).
 * Next: format.h, validate.c. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "plan/format.h"

typedef struct reader {
    qf_context *context;
    qf_plan *plan;
    const unsigned char *data;
    size_t size;
    qf_position position;
    uint32_t minor;
    uint32_t seen[QF_PLAN_SECTION_COUNT];
} reader;

static uint32_t get_u32(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t get_u64(const unsigned char *at) {
    return get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

#define BAD(reader, ...) qf_fail((reader)->context, QF_ERROR_PARSE, &(reader)->position, __VA_ARGS__)

/* Room for exactly `count` items, so that memory follows the file's size. */
static void *exactly(reader *in, uint64_t count, size_t item_size, uint32_t *out_capacity) {
    void *items = qf_allocate(in->context, (size_t)count * item_size);
    *out_capacity = items ? (uint32_t)count : 0;
    return items;
}

#define RECORD(section, name, plural, fields)                                                                          \
    static qf_status read_##plural(reader *in, const unsigned char *at, uint32_t stride, uint32_t count) {             \
        qf_plan *plan = in->plan;                                                                                      \
        if (!count) return QF_OK;                                                                                      \
        plan->plural = exactly(in, count, sizeof *plan->plural, &plan->name##_capacity);                               \
        if (!plan->plural) return QF_ERROR_OUT_OF_MEMORY;                                                              \
        plan->name##_count = count;                                                                                    \
        for (uint32_t i = 0; i < count; i++, at += stride) {                                                           \
            qf_plan_##name##_record *record = &plan->plural[i];                                                        \
            const unsigned char *next = at;                                                                            \
            fields                                                                                                     \
        }                                                                                                              \
        return QF_OK;                                                                                                  \
    }
#define U32(field) record->field = get_u32(next), next += 4;
#define U64(field) record->field = get_u64(next), next += 8;
#define I64(field) record->field = (int64_t)get_u64(next), next += 8;
#include "plan/records.def"

static const struct {
    uint32_t section, record_size;
    const char *name;
    qf_status (*read)(reader *in, const unsigned char *at, uint32_t stride, uint32_t count);
} kinds[QF_PLAN_RECORD_KINDS] = {
#define RECORD(section, name, plural, fields) {section, QF_PLAN_SIZE_OF_##name, #plural, read_##plural},
#include "plan/records.def"
};

static qf_status read_strings(reader *in, const unsigned char *at, uint64_t count) {
    qf_plan *plan = in->plan;
    if (!count || count > UINT32_MAX || at[0] != 0 || at[count - 1] != 0)
        return BAD(in, "strings: expected the empty string first and a NUL last");
    QF_FREE_ITEMS(in->context, plan->strings, plan->string_capacity);
    plan->strings = exactly(in, count, 1, &plan->string_capacity);
    if (!plan->strings) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(plan->strings, at, (size_t)count);
    plan->string_size = (uint32_t)count;
    return QF_OK;
}

static qf_status read_byte_section(reader *in, const unsigned char *at, uint64_t count) {
    if (!count) return QF_OK;
    if (count > UINT32_MAX) return BAD(in, "bytes: %" PRIu64 " bytes, expected at most %u", count, UINT32_MAX);
    in->plan->bytes = exactly(in, count, 1, &in->plan->byte_capacity);
    if (!in->plan->bytes) return QF_ERROR_OUT_OF_MEMORY;
    memcpy(in->plan->bytes, at, (size_t)count);
    in->plan->byte_size = (uint32_t)count;
    return QF_OK;
}

/* The row of a section number; QF_PLAN_SECTION_COUNT: unknown. */
static uint32_t row_of(uint32_t section) {
    if (section == QF_PLAN_SECTION_STRINGS) return QF_PLAN_RECORD_KINDS;
    if (section == QF_PLAN_SECTION_BYTES) return QF_PLAN_RECORD_KINDS + 1;
    for (uint32_t i = 0; i < QF_PLAN_RECORD_KINDS; i++)
        if (kinds[i].section == section) return i;
    return QF_PLAN_SECTION_COUNT;
}

static qf_status read_section(reader *in, const unsigned char *entry, uint64_t *end) {
    uint32_t section = get_u32(entry), stride = get_u32(entry + 4), row = row_of(section);
    uint64_t count = get_u64(entry + 8), offset = get_u64(entry + 16);
    if (offset < *end || offset > in->size || !stride || count > (in->size - offset) / stride)
        return BAD(in,
                   "section %u: expected %" PRIu64 " records of %u bytes after byte %" PRIu64
                   " and inside of the file's %zu bytes, found them at %" PRIu64,
                   section, count, stride, *end, in->size, offset);
    *end = offset + count * stride;
    if (row == QF_PLAN_SECTION_COUNT) {
        if (in->minor > QF_PLAN_MINOR) return QF_OK; /* a later minor version may add sections */
        return BAD(in, "section %u is not known to version %d.%d", section, QF_PLAN_MAJOR, QF_PLAN_MINOR);
    }
    if (in->seen[row]++) return BAD(in, "section %u occurs twice", section);
    uint32_t expected = row < QF_PLAN_RECORD_KINDS ? kinds[row].record_size : 1;
    if (stride < expected || (stride > expected && (in->minor <= QF_PLAN_MINOR || expected == 1)) ||
        count > UINT32_MAX - 1)
        return BAD(in, "section %u: records of %u bytes, expected %u", section, stride, expected);
    if (row == QF_PLAN_RECORD_KINDS) return read_strings(in, in->data + offset, count);
    if (row == QF_PLAN_RECORD_KINDS + 1) return read_byte_section(in, in->data + offset, count);
    return kinds[row].read(in, in->data + offset, stride, (uint32_t)count);
}

static qf_status read_header(reader *in, uint32_t *out_sections) {
    if (in->size < QF_PLAN_HEADER || memcmp(in->data, QF_PLAN_MAGIC, 8) != 0)
        return BAD(in, "not a QFuse plan: expected the magic \"QFPLAN\" and a header of %d bytes", QF_PLAN_HEADER);
    uint32_t major = get_u32(in->data + 8);
    in->minor = get_u32(in->data + 12);
    if (major != QF_PLAN_MAJOR)
        return qf_fail(in->context, QF_ERROR_VERSION, &in->position,
                       "plan format %u.%u; this library reads %d.x; compile the graph again", major, in->minor,
                       QF_PLAN_MAJOR);
    if (get_u64(in->data + 16) != in->size)
        return BAD(in, "the header says %" PRIu64 " bytes, the file has %zu; it was cut or extended",
                   get_u64(in->data + 16), in->size);
    uint64_t sum = qf_plan_checksum(in->data + QF_PLAN_CHECKED_FROM, in->size - QF_PLAN_CHECKED_FROM);
    if (get_u64(in->data + 24) != sum) return BAD(in, "the checksum does not match; the file was damaged");
    memcpy(in->plan->fingerprint.bytes, in->data + 32, 16);
    *out_sections = get_u32(in->data + 48);
    if (*out_sections > (in->size - QF_PLAN_HEADER) / QF_PLAN_SECTION_ENTRY)
        return BAD(in, "the header says %u sections, the file has no room for them", *out_sections);
    return QF_OK;
}

static qf_status read_all(reader *in) {
    uint32_t sections = 0;
    qf_status status = read_header(in, &sections);
    uint64_t end = QF_PLAN_HEADER + (uint64_t)sections * QF_PLAN_SECTION_ENTRY;
    for (uint32_t i = 0; i < sections && status == QF_OK; i++)
        status = read_section(in, in->data + QF_PLAN_HEADER + (size_t)i * QF_PLAN_SECTION_ENTRY, &end);
    if (status == QF_OK) status = qf_plan_validate(in->context, in->plan, in->position.location);
    return status;
}

static qf_status from_bytes(qf_context *context, const void *data, size_t size, const char *name, qf_plan **out_plan) {
    *out_plan = NULL;
    reader in = {
        .context = context, .plan = qf_plan_new(context), .data = data, .size = size, .position = {.location = name}};
    if (!in.plan) return QF_ERROR_OUT_OF_MEMORY;
    qf_status status = read_all(&in);
    if (status == QF_OK)
        *out_plan = in.plan;
    else
        qf_plan_destroy(in.plan);
    return status;
}

qf_status qf_plan_from_bytes(qf_context *context, const void *data, size_t size, qf_plan **out_plan) {
    return from_bytes(context, data, size, "plan", out_plan);
}

static qf_status read_whole(qf_context *context, int file, const qf_position *position, unsigned char *data,
                            size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t part = read(file, data + done, size - done);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0)
            return qf_fail(context, QF_ERROR_IO, position, "the file could not be read: %s",
                           part ? strerror(errno) : "it became shorter");
        done += (size_t)part;
    }
    return QF_OK;
}

qf_status qf_plan_load(qf_context *context, const char *path, qf_plan **out_plan) {
    qf_position position = {.location = path};
    int file;
    uint64_t size;
    *out_plan = NULL;
    qf_status status = qf_open_file(context, path, QF_PLAN_MAX_FILE, path, &file, &size);
    if (status != QF_OK) return status;
    unsigned char *data = qf_allocate(context, (size_t)size);
    status = data ? read_whole(context, file, &position, data, (size_t)size) : QF_ERROR_OUT_OF_MEMORY;
    if (status == QF_OK) status = from_bytes(context, data, (size_t)size, path, out_plan);
    qf_release(context, data, (size_t)size);
    (void)close(file);
    return status;
}
