/* Owns: scores * m + b, where m is 0 or 1 and b hides exactly the keys at which m is 0.
 * Does not own: the score chain (scores.h), what a hidden key means (mask.h).
 * Next: blend.c. */
#ifndef QF_PATTERNS_BLEND_H
#define QF_PATTERNS_BLEND_H

#include "patterns/scores.h"

/* Whether `add` over `scale`, steps of one chain, leave the scores where the factor is 1 and one number where it is 0;
 * that number, before what is applied further out, is *out_fill. */
bool qf_blend_read(qf_labelling *labels, const qf_score_step *add, const qf_score_step *scale, double *out_fill);

#endif
