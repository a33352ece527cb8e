/* Owns: small questions about a value's origin: a scalar number, a multiple of another value, a quantise/dequantise
 * pair. Does not own: labels (labels.h), walks of whole operands (operand.h). Next: trace.c. */
#ifndef QF_PATTERNS_TRACE_H
#define QF_PATTERNS_TRACE_H

#include "patterns/labels.h"

/* The nodes that belong to a candidate; users inside of it do not count as other users. */
typedef struct qf_path {
    qf_node nodes[192];
    uint32_t count;
} qf_path;

void qf_path_add(qf_path *path, qf_node node); /* drops what does not fit: the candidate then looks used elsewhere */
bool qf_path_has(const qf_path *path, qf_node node);

/* One number that every element equals: constants through casts, layout and arithmetic, each step rounded to its dtype.
 */
bool qf_scalar_number(const qf_labelling *labels, qf_value value, double *out);
/* value = factor * source elementwise, by a number, and of the same shape. */
bool qf_scalar_multiple(const qf_labelling *labels, qf_value value, qf_value *out_source, double *out_factor);
bool qf_same_dims(const qf_labelling *labels, qf_value a, qf_value b);
/* A float-to-float cast, but to FP8. */
bool qf_is_float_cast(const qf_labelling *labels, qf_value value, qf_value *out_source, bool *out_widens);
/* Whether none of the labels of `axis` occurs: the value is the same along them. False also after a failure. */
bool qf_axes_lack(qf_labelling *labels, const qf_axes *axes, qf_axis axis);
/* Walks through layout and float casts; adds what it passes to `path` unless that is NULL. */
void qf_trace_root(qf_labelling *labels, qf_path *path, qf_value *value, qf_axes *axes);

/* value = dequantize(layout(stored)); where stored = quantize(source) by the same scale, `source` is set. */
typedef struct qf_pair {
    qf_value stored, source, scale;
    qf_axes axes; /* of stored and source */
    qf_dtype dtype;
    qf_node quantize, dequantize; /* quantize 0: stored is no quantise's result, or one of another scale */
    int32_t scale_axis;           /* of stored; -1: per tensor */
} qf_pair;
bool qf_pair_read(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes, qf_pair *out);

/* Nothing but constants and parameters feeds the value. */
bool qf_is_constant_tree(const qf_graph *graph, qf_value value);
/* A node that a user of the library wrote but QFuse does not know, at or in front of the value; 0 when none is near. */
qf_node qf_find_unknown(const qf_graph *graph, qf_value value);

#endif
