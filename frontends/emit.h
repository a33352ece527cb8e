/* Owns: emitting IR nodes for one node of somebody else's graph, in every frontend alike.
 * Does not own: reading that node (onnx/build.h, pt2/build.h).
 * Next: emit.c. */
#ifndef QF_FRONTENDS_EMIT_H
#define QF_FRONTENDS_EMIT_H

#include "ir/graph.h"

/* Where nodes go. */
typedef struct qf_import_target {
    qf_graph *graph;
    qf_location location;
    const char *where;    /* the same as text */
    bool *failed;         /* the import's: a failure was recorded, nothing more is emitted */
    uint64_t *node_count; /* counted up to max_nodes; NULL: the frontend counts by itself */
    uint64_t max_nodes;
} qf_import_target;

/* Of a node that a frontend maps and counts, with the names that the frontends share. */
#define QF_IMPORT_TARGET(call)                                                                                         \
    ((qf_import_target){.graph = (call)->import->graph,                                                                \
                        .location = (call)->location,                                                                  \
                        .where = (call)->where,                                                                        \
                        .failed = &(call)->import->failed,                                                             \
                        .node_count = &(call)->import->node_count,                                                     \
                        .max_nodes = (call)->import->options.max_nodes})

/* All return 0 after a recorded failure, and, with *failed set, where a required value or dim is 0. */
qf_node qf_import_node(qf_import_target to, qf_op op, const qf_value *operands, uint32_t count,
                       const qf_attribute *attributes, uint32_t result_count);
qf_value qf_import_op(qf_import_target to, qf_op op, const qf_value *operands, uint32_t count,
                      const qf_attribute *attributes);
static inline qf_value qf_import_unary(qf_import_target to, qf_op op, qf_value x) {
    return qf_import_op(to, op, &x, 1, NULL);
}
static inline qf_value qf_import_binary(qf_import_target to, qf_op op, qf_value a, qf_value b) {
    return qf_import_op(to, op, (qf_value[]){a, b}, 2, NULL);
}
static inline qf_value qf_import_where(qf_import_target to, qf_value condition, qf_value a, qf_value b) {
    return qf_import_op(to, QF_OP_where, (qf_value[]){condition, a, b}, 3, NULL);
}
static inline qf_value qf_import_clamp(qf_import_target to, qf_value x, qf_value low, qf_value high) {
    return qf_import_op(to, QF_OP_clamp, (qf_value[]){x, low, high}, 3, NULL);
}
qf_value qf_import_cast(qf_import_target to, qf_value x, qf_dtype dtype,
                        bool saturate); /* x itself where it has the dtype */
/* x itself where it has the shape. */
qf_value qf_import_view(qf_import_target to, qf_value x, const qf_dim *dims, uint32_t rank);
qf_value qf_import_expand(qf_import_target to, qf_value x, const qf_dim *dims, uint32_t rank);
qf_value qf_import_permute(qf_import_target to, qf_value x, const int64_t *order, uint32_t rank);
qf_value qf_import_concat(qf_import_target to, const qf_value *parts, uint32_t count, uint32_t axis);
qf_value qf_import_slice_axis(qf_import_target to, qf_value x, uint32_t axis, qf_dim start, qf_dim end, int64_t step);
qf_value qf_import_reduce(qf_import_target to, qf_op op, qf_value x, const int64_t *axes, uint32_t count, bool keep);
qf_value qf_import_contract(qf_import_target to, const char *equation, qf_value a, qf_value b);
/* NumPy's matmul as an einsum; the last two axes of either side may be swapped first. Ranks must be known, at least 1.
 */
qf_value qf_import_matmul(qf_import_target to, qf_value a, qf_value b, bool swap_a, bool swap_b);
qf_value qf_import_gather(qf_import_target to, qf_value x, qf_value indices, uint32_t axis);
qf_value qf_import_iota(qf_import_target to, qf_dtype dtype, qf_dim count, qf_dim start, qf_dim step); /* rank 1 */
/* A number of rank 0. Floats saturate or not; integers and booleans are as C converts them, at the limits beyond. */
qf_value qf_import_number(qf_import_target to, qf_dtype dtype, double number, bool saturate);
qf_value qf_import_full(qf_import_target to, qf_value value, const qf_dim *dims, uint32_t rank);
/* An i64 tensor of dims: rank 1, or rank 0 where scalar. */
qf_value qf_import_symbolic(qf_import_target to, const qf_dim *dims, uint32_t count, bool scalar);

#endif
