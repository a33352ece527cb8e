/* Owns: shortening chains of layout ops.
 * Does not own: identities (canonicalize.c).
 * Next: canonicalize.h. */
#include "passes/canonicalize.h"

/* view(view(x)) reads x; so does view(copy-like). */
static bool merge_views(qf_graph *graph, qf_node node) {
    if (qf_node_op(graph, node) != QF_OP_view) return false;
    qf_node inner = qf_producer_of_op(graph, qf_node_operand(graph, node, 0), QF_OP_view);
    if (!inner.id) return false;
    qf_graph_set_operand(graph, node, 0, qf_node_operand(graph, inner, 0));
    return true;
}

static bool merge_permutes(qf_graph *graph, qf_node node) {
    if (qf_node_op(graph, node) != QF_OP_permute) return false;
    qf_node inner = qf_producer_of_op(graph, qf_node_operand(graph, node, 0), QF_OP_permute);
    if (!inner.id) return false;
    const qf_attribute *outer_order = qf_node_attribute(graph, node, QF_ATTR(permute, order));
    const qf_attribute *inner_order = qf_node_attribute(graph, inner, QF_ATTR(permute, order));
    int64_t order[QF_MAX_RANK];
    for (uint32_t i = 0; i < outer_order->count; i++) order[i] = inner_order->ints[outer_order->ints[i]];
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {
        [QF_ATTR(permute, order)] = {.ints = order, .count = outer_order->count}};
    qf_value source = qf_node_operand(graph, inner, 0);
    qf_node_spec spec = {.op = QF_OP_permute, .operands = &source, .operand_count = 1, .attributes = attributes};
    return qf_replace_by_node(graph, node, &spec);
}

/* A permute that moves only axes of extent 1 leaves the bytes in place. */
static bool permute_to_view(qf_graph *graph, qf_node node) {
    if (qf_node_op(graph, node) != QF_OP_permute) return false;
    const qf_attribute *order = qf_node_attribute(graph, node, QF_ATTR(permute, order));
    qf_type type = qf_value_type(graph, qf_node_result(graph, node, 0));
    if (!qf_type_is_ranked(graph->context, type)) return false;
    const qf_dim *dims = qf_type_dims(graph->context, type);
    int64_t last = -1;
    for (uint32_t i = 0; i < order->count; i++) {
        if (qf_dim_is(graph->context, dims[i], 1)) continue;
        if (order->ints[i] < last) return false;
        last = order->ints[i];
    }
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {[QF_ATTR(view, shape)] = {.dims = dims, .count = order->count}};
    qf_value source = qf_node_operand(graph, node, 0);
    qf_node_spec spec = {.op = QF_OP_view, .operands = &source, .operand_count = 1, .attributes = attributes};
    return qf_replace_by_node(graph, node, &spec);
}

static bool merge_expands(qf_graph *graph, qf_node node) {
    if (qf_node_op(graph, node) != QF_OP_expand) return false;
    qf_node inner = qf_producer_of_op(graph, qf_node_operand(graph, node, 0), QF_OP_expand);
    if (!inner.id) return false;
    qf_graph_set_operand(graph, node, 0, qf_node_operand(graph, inner, 0));
    return true;
}

bool qf_canonicalize_layout(qf_graph *graph, qf_node node) {
    return merge_views(graph, node) || merge_permutes(graph, node) || permute_to_view(graph, node) ||
           merge_expands(graph, node);
}
