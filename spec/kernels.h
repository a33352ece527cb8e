/* Owns: the one question "which kernel runs this here, or why none", asked by matcher and launcher alike.
 * Does not own: the rows (kernels.def), filling a query from a graph's node (ir/capability.h) or a plan's step
 * (runtime). Next: kernels.def, kernels.c. */
#ifndef QF_SPEC_KERNELS_H
#define QF_SPEC_KERNELS_H

#include "spec.h"

typedef enum qf_target {
#define TARGET(number, name, text, is_gpu, float8_query, shared_bytes) QF_TARGET_##name = number,
#include "target.def"
#undef TARGET
} qf_target;

typedef struct qf_target_info {
    qf_target target;
    const char *name;
    bool is_gpu;
    bool float8_query; /* attention may take an FP8 q */
    uint32_t shared_bytes;
} qf_target_info;

/* NULL for numbers and names that are no target. Static storage; any thread. */
const qf_target_info *qf_target_info_of(uint32_t target);
const qf_target_info *qf_target_from_name(qf_text name);
const qf_target_info *qf_target_table(uint32_t *out_count);

/* What a kernel may or may not honour. A query needs the bits that its operands and attributes ask for. */
typedef enum qf_kernel_feature {
    QF_KERNEL_BIAS = 1 << 0,
    QF_KERNEL_MASK = 1 << 1,
    QF_KERNEL_LENGTHS = 1 << 2, /* kv_lens */
    QF_KERNEL_PACKED = 1 << 3,  /* q_start */
    QF_KERNEL_SINKS = 1 << 4,
    QF_KERNEL_WINDOW = 1 << 5,
    QF_KERNEL_SOFTCAP = 1 << 6,
    QF_KERNEL_TOP_LEFT = 1 << 7, /* causal or window with align top_left */
    QF_KERNEL_LSE = 1 << 8,
    QF_KERNEL_P_GRAPH = 1 << 9,
    QF_KERNEL_P_KERNEL = 1 << 10,
    QF_KERNEL_VIA = 1 << 11,         /* a rounding between f32 and the quantised result */
    QF_KERNEL_HEAD_SCALES = 1 << 12, /* q, k or v scales by KV head */
    QF_KERNEL_NAN_ROWS = 1 << 13,    /* empty_row nan */
    QF_KERNEL_EVERYTHING = (1 << 14) - 1
} qf_kernel_feature;

typedef struct qf_kernel_limit {
    uint32_t least, most, multiple; /* 0: not limited */
} qf_kernel_limit;

typedef struct qf_kernel_row {
    uint32_t number; /* in plans; never reused */
    const char *name;
    qf_op op;
    uint32_t targets;                                     /* bit 1 << qf_target */
    uint32_t operand_dtypes, cache_dtypes, result_dtypes; /* bit 1 << qf_dtype */
    qf_kernel_limit head_dim, page;
    uint32_t group_most;
    uint32_t features;
    uint32_t threads, tile_rows, tile_keys, shared_bytes;
} qf_kernel_row;

/* A tensor as far as it is known before launch. dtype QF_DTYPE_NONE: absent, or unknown. */
typedef struct qf_kernel_tensor {
    qf_dtype dtype;
    bool present;
    uint32_t rank;             /* QF_UNRANKED: unknown */
    int64_t dims[QF_MAX_RANK]; /* -1: depends on symbols */
} qf_kernel_tensor;

/* An attribute in table order; only these kinds are looked at. */
typedef struct qf_kernel_value {
    int64_t integer; /* BOOL, INT, DTYPE, ENUM */
    double number;   /* FLOAT */
} qf_kernel_value;

/* One node or step: operands and results in table order, all attributes. */
typedef struct qf_kernel_query {
    qf_op op;
    const qf_kernel_tensor *operands, *results;
    uint32_t operand_count, result_count;
    const qf_kernel_value *attributes;
} qf_kernel_query;

/* The row that runs the query on the target. NULL: none, and `reason` (if reason_size > 0) says why in one line: what
 * was asked, what the nearest row takes. Any thread. */
const qf_kernel_row *qf_kernel_select(qf_target target, const qf_kernel_query *query, char *reason, size_t reason_size);
/* The same over given rows, for tests of the limits and for devices with rows of their own. */
const qf_kernel_row *qf_kernel_select_from(const qf_kernel_row *rows, uint32_t row_count, qf_target target,
                                           const qf_kernel_query *query, char *reason, size_t reason_size);
/* All rows, and the row of a plan's number (NULL: none). */
const qf_kernel_row *qf_kernel_table(uint32_t *out_count);
const qf_kernel_row *qf_kernel_row_of(uint32_t number);
/* The operand whose memory result `result` of the op may take over, or -1. */
int32_t qf_kernel_in_place_operand(qf_op op, uint32_t result);

#endif
