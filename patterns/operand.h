/* Owns: where q, k and v come from: through layout and scalar multiples to the nearest FP8 tensor, and the broadcasts
 * behind it. Does not own: which operand is which (attention.c), building the new operand (build.c). Next: operand.c.
 */
#ifndef QF_PATTERNS_OPERAND_H
#define QF_PATTERNS_OPERAND_H

#include "patterns/trace.h"

#define QF_MAX_REPLAY 8

/* The operand equals multiplier * value (* scale), seen with `axes`. */
typedef struct qf_traced {
    qf_value value;
    qf_axes axes;
    double multiplier;
    qf_value scale;     /* FP8 only; else 0 */
    int32_t scale_axis; /* of value; -1: per tensor */
    qf_dtype dtype;     /* of value as it will be read */
    /* A broadcast stood in front of the quantise: `value` is before it, these nodes come again, first one first. */
    qf_node again[QF_MAX_REPLAY];
    uint32_t again_count;
    /* The FP8 tensor lies behind selections (slices of a packed tensor): `packed` is the FP8 tensor, these nodes select
     * from it what `value` was, first one first. */
    qf_value packed;
    qf_value selections[QF_MAX_REPLAY];
    uint32_t selection_count;
    bool rounding; /* a cast that rounds, or a multiplication, was passed */
} qf_traced;

/* absorb_multiples: scalar multiples may be passed even when no FP8 tensor stands behind them. per_axis: a pair with
 * one scale an index of an axis is taken too. */
bool qf_trace_operand(qf_labelling *labels, qf_value value, const qf_axes *axes, bool absorb_multiples, bool per_axis,
                      qf_traced *out);

#endif
