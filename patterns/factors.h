/* Owns: the entry point that moves factors between attention and quantise into the output scale.
 * Does not own: the quantise in attention's epilogue (rules/attention.rules).
 * Next: factors.c. */
#ifndef QF_PATTERNS_FACTORS_H
#define QF_PATTERNS_FACTORS_H

#include "patterns/report.h"

/* quantize(factor * attention, scale) is quantize(attention, scale / factor), whatever layout stands between (casts
 * vanish), and however the factor is spelled: a number or a tensor of one element, multiplied or divided by. Class
 * rounding. */
qf_status qf_fold_output_factors(qf_graph *graph, qf_numerics numerics, qf_report *report, bool *out_changed);

#endif
