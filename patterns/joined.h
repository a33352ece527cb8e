/* Owns: concatenations of tensors that one scale dequantises.
 * Does not own: concatenations behind attention (parts.h).
 * Next: joined.c. */
#ifndef QF_PATTERNS_JOINED_H
#define QF_PATTERNS_JOINED_H

#include "patterns/report.h"

/* concat(dequantize(x, s), dequantize(y, s), ...), layout between them perhaps, becomes dequantize(concat(x, y, ...),
 * s) for FP8: keys and values that a cache and new tokens, or text and image, give together stay FP8 operands. Exact.
 * *out_changed is set, never cleared. */
qf_status qf_join_dequantised(qf_graph *graph, qf_report *report, bool *out_changed);

#endif
