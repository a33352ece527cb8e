/* Owns: abstract evaluation of mask expressions: what a value is as a function of the indices of its labels.
 * Does not own: constant masks (band.c), classification (mask.h).
 * Next: mask_value.c. */
#ifndef QF_PATTERNS_MASK_VALUE_H
#define QF_PATTERNS_MASK_VALUE_H

#include "patterns/condition.h"
#include "patterns/trace.h"

/* Kind UNKNOWN where the value has no such form; a boolean value is then an opaque condition. Never samples: what is
 * returned holds for every index and every size. */
void qf_mask_evaluate(qf_labelling *labels, qf_value value, const qf_axes *axes, qf_abstract *out);
/* A constant tensor of one or two values, true (the larger) exactly on a band of one axis or of the difference of two:
 * every element is compared. */
bool qf_band_fit(qf_labelling *labels, qf_value value, const qf_literal *literal, const qf_axes *axes,
                 qf_abstract *out);
/* A constant of zeros and ones, in no band perhaps. */
bool qf_constant_is_binary(const qf_graph *graph, qf_value value);
/* Two constants: `addend` is 0 where `factor` is 1, and one number elsewhere, where that is 0. */
bool qf_constants_blend(qf_labelling *labels, qf_value factor, const qf_axes *factor_axes, qf_value addend,
                        const qf_axes *addend_axes, double *out_number);
/* False where the value is a constant whose elements are provably the same along the axis. */
bool qf_constant_varies(const qf_graph *graph, qf_value value, uint32_t axis);

#endif
