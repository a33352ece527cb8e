/* Owns: raising decomposed attention to the attention op on grounds of dimension roles, and the same normal form for
 * attention nodes that an importer made. Does not own: the pass around it (passes/raise.c), fusing the output
 * quantisation (rules). Next: attention.c, analyse.c (decision), build.c (rewrite), refine.c (nodes that are attention
 * already).
 */
#ifndef QF_PATTERNS_ATTENTION_H
#define QF_PATTERNS_ATTENTION_H

#include "ir/infer.h"
#include "patterns/report.h"

/* Every second contraction whose one side is a softmax becomes an attention node, or is one miss in the report. The
 * graph should be canonical (equal nodes merged, dead ones gone); matmul and contract are both understood. A rewrite is
 * of class rounding; one that drops a pair on the scores needs `relaxed`. Does nothing twice. */
qf_status qf_attention_raise(qf_graph *graph, qf_symbolic *symbolic, qf_numerics numerics, qf_report *report,
                             bool *out_changed);
/* Attention nodes: a mask that is provably causal or a window becomes the attribute, repeated KV heads become groups,
 * FP8 pairs on q, k and v become FP8 operands with scales. */
qf_status qf_attention_refine_masks(qf_graph *graph, qf_symbolic *symbolic, qf_numerics numerics, qf_report *report,
                                    bool *out_changed);

#endif
