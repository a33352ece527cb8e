/* Owns: emitting nodes: layout chains that bring a labelled value to other labels, and small elementwise nodes.
 * Does not own: which labels are wanted (build.c).
 * Next: arrange.c. */
#ifndef QF_PATTERNS_ARRANGE_H
#define QF_PATTERNS_ARRANGE_H

#include "patterns/labels.h"

/* Where and as what new nodes are inserted. Each function returns 0 on failure; 0 in gives 0 out. */
typedef struct qf_emitter {
    qf_graph *graph;
    qf_labelling *labels; /* may be NULL where nothing is arranged, and only layout is emitted again */
    qf_node before;
    qf_location location;
} qf_emitter;

/* `value` with labels `axes` as a tensor with labels `target`, through view, permute and expand, as few as it takes.
 * Both resolved; every atom of `axes` is in `target`. A target axis of which the value has no atom gets extent 1, or
 * (expand) is repeated. */
qf_value qf_arrange(qf_emitter *emitter, qf_value value, const qf_axes *axes, const qf_axes *target, bool expand);

qf_value qf_emit_view(qf_emitter *emitter, qf_value value, const qf_dim *dims,
                      uint32_t rank); /* none where dims are equal */
/* A node of one result; 0 where it, or its type, could not be made. */
qf_node qf_emit_node(qf_emitter *emitter, qf_op op, const qf_value *operands, uint32_t operand_count,
                     const qf_attribute *attributes, qf_type type, uint64_t tag);
qf_value qf_emit_cast(qf_emitter *emitter, qf_value value, qf_dtype dtype); /* none where dtype is equal */
/* Elements [start, end) along the axis. */
qf_value qf_emit_slice(qf_emitter *emitter, qf_value value, uint32_t axis, qf_dim start, qf_dim end);
qf_value qf_emit_unary(qf_emitter *emitter, qf_op op, qf_value value);
/* Broadcast of operands of one dtype and rank (or scalars); the dims of the result are given. */
qf_value qf_emit_binary(qf_emitter *emitter, qf_op op, qf_value a, qf_value b, const qf_dim *dims, uint32_t rank);
qf_value qf_emit_scalar(qf_emitter *emitter, qf_dtype dtype, double number);
/* scale op factor as f32 [], both of one element of any shape and float type. */
qf_value qf_emit_scaled(qf_emitter *emitter, qf_op op, qf_value scale, qf_value factor);
/* A copy of the node's op and attributes reading `source` as operand 0; its result `index` with the dims it had. */
qf_value qf_emit_again(qf_emitter *emitter, qf_node node, uint32_t index, qf_value source);

/* All that reads `from` reads `to`, which takes its name. */
void qf_take_place(qf_graph *graph, qf_value from, qf_value to);

#endif
