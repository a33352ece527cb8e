/* Owns: what the checks of single ops share: reading operands, comparing dims, reporting.
 * Does not own: the checks (verify_*.c), generic constraints (verify.def).
 * Next: verify_call.c. */
#ifndef QF_IR_VERIFY_CALL_H
#define QF_IR_VERIFY_CALL_H

#include "ir/verify.h"

/* Sets of dtypes that operands and attributes may have. Unknown dtypes belong to every set. */
typedef enum qf_verify_class {
    QF_CLASS_ANY,
    QF_CLASS_TENSOR,    /* all but token */
    QF_CLASS_NUMBER,    /* floats and integers */
    QF_CLASS_FLOAT,     /* of any width */
    QF_CLASS_REAL,      /* f64, f32, f16, bf16 */
    QF_CLASS_COMPUTE,   /* f32, f16, bf16: precisions to compute in */
    QF_CLASS_BOOL,      /* i1 */
    QF_CLASS_INDEX,     /* i32, i64 */
    QF_CLASS_I32,       /* lengths and tables that kernels read */
    QF_CLASS_SCALE,     /* f64, f32, f16, bf16, f8E8M0FNU */
    QF_CLASS_FLOAT8,    /* the FP8 kinds that hold values: not f8E8M0FNU */
    QF_CLASS_ATTENTION, /* f32, f16, bf16 and FP8 */
    QF_CLASS_QUANTISED  /* FP8, f4, i8, u8, i32 */
} qf_verify_class;

bool qf_class_holds(qf_verify_class kind, qf_dtype dtype);
const char *qf_class_text(qf_verify_class kind); /* "f32, f16 or bf16" */

/* Sends "<op>: <message>" at the call's position. */
void qf_verify_fault(qf_verify_call *call, const char *format, ...) QF_PRINTF(2, 3);

bool qf_verify_has(const qf_verify_call *call, uint32_t operand);
qf_type qf_verify_type(const qf_verify_call *call, uint32_t operand);   /* 0 when absent */
qf_dtype qf_verify_dtype(const qf_verify_call *call, uint32_t operand); /* QF_DTYPE_NONE when absent or unknown */
uint32_t qf_verify_rank(const qf_verify_call *call, uint32_t operand);  /* QF_UNRANKED when absent or unknown */
qf_dim qf_verify_dim(const qf_verify_call *call, uint32_t operand, int32_t axis); /* 0 when unknown */
const char *qf_verify_name(const qf_verify_call *call, uint32_t operand);         /* declared name */
#define QF_VERIFY_INTEGER(call, op, attribute) ((call)->attributes[QF_ATTR(op, attribute)].integer)

/* The text of a type or dim for a message, cut to fit. */
typedef struct qf_verify_text {
    char data[160];
} qf_verify_text;
qf_verify_text qf_verify_type_text(const qf_verify_call *call, qf_type type);
qf_verify_text qf_verify_dim_text(const qf_verify_call *call, qf_dim dim);

/* No values of the symbols make both equal. Unknown dims (0) differ from nothing. */
bool qf_verify_dims_differ(const qf_verify_call *call, qf_dim a, qf_dim b);
/* `factor` provably does not divide `dim`. */
bool qf_verify_not_divisible(const qf_verify_call *call, qf_dim dim, qf_dim factor);

/* Reports unless the operand (when present and known) fits. Each gives false after a fault. */
bool qf_verify_operand_class(qf_verify_call *call, uint32_t operand, qf_verify_class kind);
bool qf_verify_operand_rank(qf_verify_call *call, uint32_t operand, uint32_t least, uint32_t most);
/* `what` says what the dim is: "the head dim of q". */
bool qf_verify_operand_dim(qf_verify_call *call, uint32_t operand, int32_t axis, qf_dim expected, const char *what);
bool qf_verify_same_dtype(qf_verify_call *call, uint32_t a, uint32_t b);
/* A scale: [] or [1], or, where `heads` is not 0, [heads]. */
bool qf_verify_scale(qf_verify_call *call, uint32_t operand, qf_dim heads);
/* Scale exactly where `of` is FP8. */
bool qf_verify_scale_presence(qf_verify_call *call, uint32_t scale, uint32_t of);
/* Right-aligned broadcast of the operand to these dims. */
bool qf_verify_broadcasts_to(qf_verify_call *call, uint32_t operand, const qf_dim *dims, uint32_t rank,
                             const char *what);

/* The epilogue that quantises a result: out, out_scale, out_mode, out_compute, via agree. Attribute indices; -1: the op
 * lacks it. */
typedef struct qf_verify_output {
    uint32_t out_scale;
    int32_t out, out_mode, out_compute, via;
} qf_verify_output;
void qf_verify_output_quantisation(qf_verify_call *call, const qf_verify_output *output);

/* Where the rows and the check of each op are: index + 1, 0 none. Made once a run, so that a node costs its own rows
 * only. */
typedef struct qf_verify_directory {
    uint16_t rows[256], checks[256];
} qf_verify_directory;
void qf_verify_directory_init(qf_verify_directory *directory);
/* qf_verify_operation with a directory made before. */
bool qf_verify_operation_by(qf_verify_call *call, const qf_verify_directory *directory);
const char *qf_verify_result_name(const qf_op_info *info, uint32_t index);

/* Checks beyond verify.def, one for each op that has any. */
typedef void (*qf_verify_function)(qf_verify_call *call);
/* clang-format off */
#define QF_VERIFY_OPS(X)                                                                        \
    X(constant) X(parameter) X(opaque) X(symbolic) X(iota) X(full) X(bitcast)                   \
    X(permute) X(slice) X(concat) X(split) X(pad) X(one_hot) X(top_k) X(conv)                   \
    X(layer_norm) X(rms_norm) X(add_rms_norm) X(silu_mul)                                       \
    X(contract) X(scaled_matmul) X(quantize) X(dequantize) X(dynamic_quantize)                  \
    X(attention) X(paged_attention) X(kv_cache_write) X(rope) X(rope_quantize_cache_write)
/* clang-format on */
#define X(name) void qf_verify_##name(qf_verify_call *call);
QF_VERIFY_OPS(X)
#undef X

#endif
