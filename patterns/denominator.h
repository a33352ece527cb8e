/* Owns: the interface between a softmax by hand and its parts.
 * Does not own: what others ask of a softmax (softmax.h).
 * Next: denominator.c. */
#ifndef QF_PATTERNS_DENOMINATOR_H
#define QF_PATTERNS_DENOMINATOR_H

#include "patterns/softmax.h"

/* All of these add what they pass to `path`; what they add before they say false is the caller's to take back. */

/* value = op(x) over one axis; x's labels, given all labels that x may have. */
bool qf_reduction_of(qf_labelling *labels, qf_path *path, qf_op op, qf_value value, qf_axes axes, qf_axis all,
                     qf_value *out_x, qf_axes *out_axes, qf_axis *out_missing);
/* The same value under the same labels, through layout and float casts. */
bool qf_same_traced(qf_labelling *labels, qf_path *path, qf_value a, qf_axes a_axes, qf_value b, qf_axes b_axes);
/* Steps through layout, casts and nots of booleans; each not flips *inverted. */
void qf_through_logic(qf_labelling *labels, qf_path *path, qf_value *value, qf_axes *axes, bool *inverted);
/* where(condition, x, 0): x, and the condition among those that the scores must be masked by. */
bool qf_strip_zeroing(qf_labelling *labels, qf_path *path, qf_value *value, qf_axes *axes, qf_zeroed_place place,
                      qf_probabilities *out);
/* exp(x - shift) as x and shift; x 0 for exp(-shift). */
bool qf_shifted_exponential(qf_labelling *labels, qf_path *path, qf_value value, qf_axes axes, qf_value *out_x,
                            qf_axes *out_x_axes, qf_value *out_shift, qf_axes *out_shift_axes);

#endif
