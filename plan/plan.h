/* Owns: the data model of a launch plan, the only thing that both halves know.
 * Does not own: how it is made (codegen), checked (validate.c), run (runtime).
 * Next: records.def, validate.c. */
#ifndef QF_PLAN_PLAN_H
#define QF_PLAN_PLAN_H

#include <qfuse/plan.h>

#include "spec/kernels.h"

#define QF_PLAN_MAJOR       1
#define QF_PLAN_MINOR       0
/* Of an expression and of a term; more fails when compiling and when loading. */
#define QF_PLAN_MAX_TERMS   256
#define QF_PLAN_MAX_FACTORS 32
#define QF_PLAN_MAX_FILE    ((uint64_t)1 << 30)

typedef enum qf_plan_symbol_kind {
    QF_PLAN_BOUND = 0,        /* solves size(input, axis) == a * symbol + b; a 0: one, b 0: zero */
    QF_PLAN_HOST = 1,         /* the host binds it by name */
    QF_PLAN_FLOOR_DIVIDE = 2, /* of expressions a and b */
    QF_PLAN_MODULO = 3,
    QF_PLAN_MINIMUM = 4,
    QF_PLAN_MAXIMUM = 5,
    QF_PLAN_SYMBOL_KIND_COUNT = 6
} qf_plan_symbol_kind;

typedef enum qf_plan_buffer_kind {
    QF_PLAN_INPUT = 0, /* never written */
    QF_PLAN_OUTPUT = 1,
    QF_PLAN_PARAMETER = 2, /* never written */
    QF_PLAN_CONSTANT = 3,  /* never written */
    QF_PLAN_WORKSPACE = 4,
    QF_PLAN_NOWHERE = 5, /* tokens and values of unknown shape */
    QF_PLAN_BUFFER_KIND_COUNT = 6
} qf_plan_buffer_kind;

#define RECORD(section, name, plural, fields)                                                                          \
    typedef struct qf_plan_##name##_record {                                                                           \
        fields                                                                                                         \
    } qf_plan_##name##_record;
#define U32(field) uint32_t field;
#define U64(field) uint64_t field;
#define I64(field) int64_t field;
#include "plan/records.def"

/* Host memory that the graph had for a parameter; borrowed and not saved. */
typedef struct qf_plan_weight {
    const void *data;
    uint64_t size;
} qf_plan_weight;

/* Arrays in order of records.def. Built by appending, then checked by qf_plan_validate, then never changed. */
struct qf_plan {
    qf_context *context;
    qf_fingerprint fingerprint;
#define RECORD(section, name, plural, fields)                                                                          \
    qf_plan_##name##_record *plural;                                                                                   \
    uint32_t name##_count, name##_capacity;
#define U32(field)
#define U64(field)
#define I64(field)
#include "plan/records.def"
    char *strings; /* NUL-terminated ones; offset 0 is "" */
    uint32_t string_size, string_capacity;
    unsigned char *bytes;
    uint32_t byte_size, byte_capacity;
    qf_plan_weight *weights; /* NULL, or one for each parameter */
    uint32_t weight_capacity;
};

/* An empty plan with string 0. NULL on failure. */
qf_plan *qf_plan_new(qf_context *context);

/* Appenders: copy the record, return its index + 1, or 0 on failure (recorded in the context). */
#define RECORD(section, name, plural, fields)                                                                          \
    uint32_t qf_plan_add_##name(qf_plan *plan, const qf_plan_##name##_record *record);
#define U32(field)
#define U64(field)
#define I64(field)
#include "plan/records.def"
/* Offset of a copy of `text` (inner NULs cut it); UINT32_MAX on failure. */
uint32_t qf_plan_add_string(qf_plan *plan, qf_text text);
/* Offset, aligned to 64, of a copy of the bytes; UINT64_MAX on failure. */
uint64_t qf_plan_add_bytes(qf_plan *plan, const void *data, uint64_t size);

static inline const char *qf_plan_string(const qf_plan *plan, uint32_t offset) {
    return plan->strings + offset;
}
static inline const qf_plan_tensor_record *qf_plan_tensor_at(const qf_plan *plan, uint32_t id) {
    return &plan->tensors[id - 1];
}
static inline const qf_plan_buffer_record *qf_plan_buffer_at(const qf_plan *plan, uint32_t id) {
    return &plan->buffers[id - 1];
}

/* Checks everything that does not depend on sizes: ranges, tables, order of symbols, writes before reads, slots whose
 * tenants' lives overlap, in-place claims. One diagnostic. `location` names the file. What depends on sizes (extents in
 * buffers) is checked when sizes are known. */
qf_status qf_plan_validate(qf_context *context, const qf_plan *plan, const char *location);

/* --- sizes --- */
/* Value of expression `id` given the symbols' values (index id - 1). False on overflow. */
bool qf_plan_evaluate(const qf_plan *plan, uint32_t id, const int64_t *symbols, int64_t *out_value);
bool qf_plan_expression_is_constant(const qf_plan *plan, uint32_t id, int64_t *out_value);
/* "2*T + 1" as the dump and messages write it. */
void qf_plan_print_expression(qf_buffer *buffer, const qf_plan *plan, uint32_t id);

/* First and last step that touch a buffer; first UINT32_MAX: none does. */
typedef struct qf_plan_life {
    uint32_t first_write, last_use;
} qf_plan_life;
/* `lives` has room for one an id of buffer (index id - 1). */
void qf_plan_lives(const qf_plan *plan, qf_plan_life *lives);

#endif
