/* Owns: the declarations of all mapping functions, and what several of them share.
 * Does not own: which operator uses which (ops.def).
 * Next: ops.def. */
#ifndef QF_FRONTENDS_PT2_MAPS_H
#define QF_FRONTENDS_PT2_MAPS_H

#include "frontends/pt2/build.h"

#define OP(target, arguments, mapping, argument)   qf_pt2_outcome qf_pt2_map_##mapping(qf_pt2_call *call);
#define VIEW(target, arguments, mapping, argument) OP(target, arguments, mapping, argument)
#define SAME(target, arguments, mapping, argument) OP(target, arguments, mapping, argument)
#include "frontends/pt2/ops.def"
#undef OP
#undef VIEW
#undef SAME

/* map_elementwise.c: torch's type promotion of two arguments, each a tensor or a number. */
typedef struct qf_pt2_pair {
    qf_value a, b;
    qf_dtype result; /* the dtype that the result of arithmetic has */
} qf_pt2_pair;
/* Of tensors of equal strength; none: no type that QFuse has. None with a type is that type. */
qf_dtype qf_pt2_wider(qf_dtype a, qf_dtype b);
bool qf_pt2_promote(qf_pt2_call *call, const char *a, const char *b, bool as_float, qf_pt2_pair *out);
/* A rank-0 value of a number argument in `dtype`; symbolic where the number is. */
qf_value qf_pt2_number_value(qf_pt2_call *call, const char *name, qf_dtype dtype);

/* map_composed.c: functions of one number, arguments of their rows. */
typedef enum qf_pt2_function {
    QF_PT2_TRUNC,
    QF_PT2_LOG1P,
    QF_PT2_EXPM1,
    QF_PT2_LOG2,
    QF_PT2_LOG10,
    QF_PT2_EXP2,
    QF_PT2_TAN,
    QF_PT2_SOFTPLUS,
    QF_PT2_MISH,
    QF_PT2_ELU,
    QF_PT2_LEAKY_RELU,
    QF_PT2_HARDTANH,
    QF_PT2_RELU6,
    QF_PT2_HARDSIGMOID,
    QF_PT2_HARDSWISH
} qf_pt2_function;

/* map_scatter.c: x [T, ...] with rows i of source [S, ...] added at index[i], of index [S]. 0 after a failure, or where
 * no way is known that is not too large. */
qf_value qf_pt2_add_rows(qf_pt2_call *call, qf_value x, qf_value index, qf_value source);

/* map_quantise.c: (a * a_scale) @ (b * b_scale) + bias as `out`; reason where it does not fit. */
typedef struct qf_pt2_scaled_product {
    qf_value a, b, a_scale, b_scale, bias;
    qf_dtype out;
} qf_pt2_scaled_product;
qf_value qf_pt2_scaled_matmul(qf_pt2_call *call, const qf_pt2_scaled_product *product, const char **reason);

#endif
