/* Owns: the constants of the plan file: magic, header, section numbers, packed record sizes.
 * Does not own: the records (records.def).
 * Next: read.c, write.c; docs/plan.md. */
#ifndef QF_PLAN_FORMAT_H
#define QF_PLAN_FORMAT_H

#include "plan/plan.h"

/* Little-endian. Header: magic[8], major u32, minor u32, file size u64, checksum u64 of all bytes from
 * QF_PLAN_CHECKED_FROM on, fingerprint[16], section count u32, zero u32; then the section table: kind u32, record size
 * u32, count u64, offset u64; then the sections, in the table's order, apart from each other. */
#define QF_PLAN_MAGIC           "QFPLAN\r\n"
#define QF_PLAN_HEADER          56
#define QF_PLAN_CHECKED_FROM    32
#define QF_PLAN_SECTION_ENTRY   24
#define QF_PLAN_SECTION_STRINGS 100
#define QF_PLAN_SECTION_BYTES   101

enum {
#define RECORD(section, name, plural, fields) QF_PLAN_SIZE_OF_##name = 0 fields,
#define U32(field)                            +4
#define U64(field)                            +8
#define I64(field)                            +8
#include "plan/records.def"
};

enum {
#define RECORD(section, name, plural, fields) QF_PLAN_ROW_##name,
#include "plan/records.def"
    QF_PLAN_RECORD_KINDS,
    QF_PLAN_SECTION_COUNT = QF_PLAN_RECORD_KINDS + 2
};

/* FNV-1a; finds accidents, proves nothing. */
uint64_t qf_plan_checksum(const void *data, size_t size);

#endif
