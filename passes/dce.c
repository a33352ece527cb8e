/* Owns: the pass that erases nodes whose results nobody reads.
 * Does not own: merging (cse.c).
 * Next: manager.c. */
#include "passes/pass.h"

static bool has_effect(const qf_graph *graph, qf_node node) {
    const qf_node_data *data = qf_node_at(graph, node);
    if (data->op == QF_OP_opaque) return !qf_node_attribute(graph, node, QF_ATTR(opaque, pure))->integer;
    return !qf_op_has_trait(data->op, QF_TRAIT_PURE);
}

static bool is_used(const qf_graph *graph, qf_node node) {
    const qf_node_data *data = qf_node_at(graph, node);
    for (uint32_t i = 0; i < data->result_count; i++)
        if (qf_value_at(graph, qf_result_at(data, i))->use_count) return true;
    return false;
}

qf_status qf_pass_dce(qf_pass_call *call);
qf_status qf_pass_dce(qf_pass_call *call) {
    qf_graph *graph = call->graph;
    qf_node previous;
    for (qf_node node = graph->last; node.id; node = previous) {
        previous = qf_node_at(graph, node)->previous;
        if (has_effect(graph, node) || is_used(graph, node)) continue;
        qf_graph_erase(graph, node);
        call->changed = true;
    }
    return QF_OK;
}
