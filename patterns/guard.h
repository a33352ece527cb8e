/* Owns: selects that guard probabilities: rows without a key become zero, infinities become numbers.
 * Does not own: the walk that meets them (softmax.c).
 * Next: guard.c. */
#ifndef QF_PATTERNS_GUARD_H
#define QF_PATTERNS_GUARD_H

#include "patterns/trace.h"

/* where(is_nan(p), 0, p), or where(every logit of the row is -inf, 0, p), either way round: rows without a key. Gives p
 * with its labels. */
bool qf_empty_row_guard(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes, qf_value *out_source,
                        qf_axes *out);
/* where(p is an infinity [and its sign], number, p), as nan_to_num writes it: probabilities are none, so that nothing
 * is replaced. */
bool qf_infinity_guard(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes, qf_value *out_source,
                       qf_axes *out);

#endif
