/* Owns: op numbers and attribute kinds of the public ABI.
 * Does not own: what each op means: docs/ops.md, generated from spec/ops.def (the numbers here are checked against it).
 * Next: graph.h. */
#ifndef QFUSE_OPS_H
#define QFUSE_OPS_H

#include <qfuse/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* number, name. Numbers are never reused. */
#define QF_OP_TABLE(X)                                                                                                 \
    X(1, return )                                                                                                      \
    X(2, constant)                                                                                                     \
    X(3, parameter)                                                                                                    \
    X(4, opaque)                                                                                                       \
    X(5, symbolic)                                                                                                     \
    X(6, shape_of)                                                                                                     \
    X(7, iota)                                                                                                         \
    X(8, full)                                                                                                         \
    X(20, neg)                                                                                                         \
    X(21, abs)                                                                                                         \
    X(22, exp)                                                                                                         \
    X(23, log)                                                                                                         \
    X(24, sqrt)                                                                                                        \
    X(25, rsqrt)                                                                                                       \
    X(26, reciprocal)                                                                                                  \
    X(27, tanh)                                                                                                        \
    X(28, sigmoid)                                                                                                     \
    X(29, erf)                                                                                                         \
    X(30, sin)                                                                                                         \
    X(31, cos)                                                                                                         \
    X(32, floor)                                                                                                       \
    X(33, ceil)                                                                                                        \
    X(34, round)                                                                                                       \
    X(35, sign)                                                                                                        \
    X(36, relu)                                                                                                        \
    X(37, silu)                                                                                                        \
    X(38, gelu)                                                                                                        \
    X(39, not )                                                                                                        \
    X(40, is_nan)                                                                                                      \
    X(41, is_inf)                                                                                                      \
    X(42, cast)                                                                                                        \
    X(43, bitcast)                                                                                                     \
    X(50, add)                                                                                                         \
    X(51, sub)                                                                                                         \
    X(52, mul)                                                                                                         \
    X(53, div)                                                                                                         \
    X(54, pow)                                                                                                         \
    X(55, mod)                                                                                                         \
    X(56, minimum)                                                                                                     \
    X(57, maximum)                                                                                                     \
    X(58, and)                                                                                                         \
    X(59, or)                                                                                                          \
    X(60, xor)                                                                                                         \
    X(61, equal)                                                                                                       \
    X(62, less)                                                                                                        \
    X(63, less_equal)                                                                                                  \
    X(64, greater)                                                                                                     \
    X(65, greater_equal)                                                                                               \
    X(66, where)                                                                                                       \
    X(67, clamp)                                                                                                       \
    X(80, view)                                                                                                        \
    X(81, permute)                                                                                                     \
    X(82, slice)                                                                                                       \
    X(83, concat)                                                                                                      \
    X(84, split)                                                                                                       \
    X(85, expand)                                                                                                      \
    X(86, copy)                                                                                                        \
    X(87, pad)                                                                                                         \
    X(88, gather)                                                                                                      \
    X(89, gather_elements)                                                                                             \
    X(90, gather_nd)                                                                                                   \
    X(91, scatter_nd)                                                                                                  \
    X(92, scatter_elements)                                                                                            \
    X(93, triangle)                                                                                                    \
    X(94, one_hot)                                                                                                     \
    X(100, reduce_sum)                                                                                                 \
    X(101, reduce_max)                                                                                                 \
    X(102, reduce_min)                                                                                                 \
    X(103, reduce_mean)                                                                                                \
    X(104, reduce_prod)                                                                                                \
    X(105, arg_max)                                                                                                    \
    X(106, cumulative_sum)                                                                                             \
    X(107, softmax)                                                                                                    \
    X(108, log_softmax)                                                                                                \
    X(109, layer_norm)                                                                                                 \
    X(110, rms_norm)                                                                                                   \
    X(111, add_rms_norm)                                                                                               \
    X(112, silu_mul)                                                                                                   \
    X(113, conv)                                                                                                       \
    X(114, top_k)                                                                                                      \
    X(120, contract)                                                                                                   \
    X(121, matmul)                                                                                                     \
    X(122, scaled_matmul)                                                                                              \
    X(130, quantize)                                                                                                   \
    X(131, dequantize)                                                                                                 \
    X(132, dynamic_quantize)                                                                                           \
    X(140, attention)                                                                                                  \
    X(141, paged_attention)                                                                                            \
    X(142, kv_cache_write)                                                                                             \
    X(143, rope)                                                                                                       \
    X(144, rope_quantize_cache_write)

typedef enum qf_op {
    QF_OP_none = 0,
#define X(number, name) QF_OP_##name = number,
    QF_OP_TABLE(X)
#undef X
} qf_op;

/* What an attribute holds. Numbers are written into plans and never reused. */
typedef enum qf_attribute_kind {
    QF_ATTRIBUTE_BOOL = 0,
    QF_ATTRIBUTE_INT = 1,   /* 64-bit signed */
    QF_ATTRIBUTE_FLOAT = 2, /* double; carried bit for bit */
    QF_ATTRIBUTE_DTYPE = 3,
    QF_ATTRIBUTE_ENUM = 4, /* a number from spec/enums.def, by name in text */
    QF_ATTRIBUTE_DIM = 5,  /* a polynomial over symbols */
    QF_ATTRIBUTE_DIMS = 6,
    QF_ATTRIBUTE_INTS = 7,
    QF_ATTRIBUTE_STRING = 8,
    QF_ATTRIBUTE_LITERAL = 9 /* a small tensor: dtype, constant dims, bytes */
} qf_attribute_kind;

/* The name of an op as the text form writes it, or "invalid". Static storage. Any thread. */
QF_API const char *qf_op_name(qf_op op);

#ifdef __cplusplus
}
#endif

#endif
