/* Owns: the pass that merges equal pure nodes.
 * Does not own: erasing unused ones (dce.c).
 * Next: manager.c. */
#include "passes/pass.h"

qf_status qf_pass_cse(qf_pass_call *call);

/* Commutative operands compare in id order, so that a + b equals b + a. */
static qf_value operand(const qf_graph *graph, const qf_node_data *data, uint32_t index) {
    if (index < 2 && qf_op_has_trait(data->op, QF_TRAIT_COMMUTATIVE)) {
        qf_value a = data->operands[0].value, b = data->operands[1].value;
        bool swap = a.id > b.id;
        return index == (swap ? 1 : 0) ? a : b;
    }
    (void)graph;
    return data->operands[index].value;
}

static uint64_t hash_node(const qf_graph *graph, const qf_node_data *data) {
    const qf_op_info *info = qf_op_info_of(data->op);
    uint64_t hash = qf_hash_mix((uint64_t)data->op, data->result_count);
    for (uint32_t i = 0; i < data->operand_count; i++) hash = qf_hash_mix(hash, operand(graph, data, i).id);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        hash = qf_attribute_hash(info->attributes[i].kind, &data->attributes[i], hash);
    for (uint32_t i = 0; i < data->result_count; i++)
        hash = qf_hash_mix(hash, qf_value_type(graph, qf_result_at(data, i)).id);
    return hash;
}

static bool nodes_equal(const void *owner, uint32_t id, const void *key) {
    const qf_graph *graph = owner;
    const qf_node_data *a = &graph->nodes[id], *b = key;
    if (a->op != b->op || a->operand_count != b->operand_count || a->result_count != b->result_count) return false;
    const qf_op_info *info = qf_op_info_of(a->op);
    for (uint32_t i = 0; i < a->operand_count; i++)
        if (operand(graph, a, i).id != operand(graph, b, i).id) return false;
    for (uint32_t i = 0; i < a->result_count; i++)
        if (qf_value_type(graph, qf_result_at(a, i)).id != qf_value_type(graph, qf_result_at(b, i)).id) return false;
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!qf_attribute_same(info->attributes[i].kind, &a->attributes[i], &b->attributes[i])) return false;
    return true;
}

static bool mergeable(const qf_graph *graph, qf_node node) {
    const qf_node_data *data = qf_node_at(graph, node);
    if (data->op == QF_OP_opaque) return qf_node_attribute(graph, node, QF_ATTR(opaque, pure))->integer != 0;
    return qf_op_has_trait(data->op, QF_TRAIT_PURE);
}

qf_status qf_pass_cse(qf_pass_call *call) {
    qf_graph *graph = call->graph;
    qf_index seen = {0};
    qf_status status = QF_OK;
    qf_node next;
    for (qf_node node = graph->first; node.id && status == QF_OK; node = next) {
        next = qf_node_at(graph, node)->next;
        if (!mergeable(graph, node)) continue;
        const qf_node_data *data = qf_node_at(graph, node);
        uint64_t hash = hash_node(graph, data);
        qf_node earlier = {qf_index_find(&seen, hash, nodes_equal, graph, data)};
        if (!earlier.id) {
            if (!qf_index_add(graph->context, &seen, hash, node.id)) status = QF_ERROR_OUT_OF_MEMORY;
            continue;
        }
        for (uint32_t i = 0; i < data->result_count; i++)
            qf_graph_replace_all_uses(graph, qf_result_at(data, i), qf_node_result(graph, earlier, i));
        qf_graph_erase(graph, node);
        call->changed = true;
    }
    qf_index_destroy(graph->context, &seen);
    return status;
}
