/* Owns: the pass that merges equal pure nodes.
 * Does not own: erasing unused ones (dce.c).
 * Next: manager.c. */
#include <string.h>

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

static uint64_t hash_attribute(qf_attribute_kind kind, const qf_attribute *attribute, uint64_t hash) {
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: return qf_hash_bytes(&attribute->number, sizeof attribute->number, hash);
    case QF_ATTRIBUTE_DIM: return qf_hash_mix(hash, attribute->dim.id);
    case QF_ATTRIBUTE_STRING: return qf_hash_mix(hash, attribute->string.id);
    case QF_ATTRIBUTE_DIMS: return qf_hash_bytes(attribute->dims, attribute->count * sizeof(qf_dim), hash);
    case QF_ATTRIBUTE_INTS: return qf_hash_bytes(attribute->ints, attribute->count * sizeof(int64_t), hash);
    case QF_ATTRIBUTE_LITERAL:
        return qf_hash_bytes(attribute->literal->data, attribute->literal->size,
                             qf_hash_mix(hash, attribute->literal->type.id));
    default: return qf_hash_mix(hash, (uint64_t)attribute->integer);
    }
}

static bool attributes_equal(qf_attribute_kind kind, const qf_attribute *a, const qf_attribute *b) {
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: return memcmp(&a->number, &b->number, sizeof a->number) == 0;
    case QF_ATTRIBUTE_DIM: return a->dim.id == b->dim.id;
    case QF_ATTRIBUTE_STRING: return a->string.id == b->string.id;
    case QF_ATTRIBUTE_DIMS:
        return a->count == b->count && (!a->count || memcmp(a->dims, b->dims, a->count * sizeof(qf_dim)) == 0);
    case QF_ATTRIBUTE_INTS:
        return a->count == b->count && (!a->count || memcmp(a->ints, b->ints, a->count * sizeof(int64_t)) == 0);
    case QF_ATTRIBUTE_LITERAL:
        return a->literal->type.id == b->literal->type.id && a->literal->size == b->literal->size &&
               (!a->literal->size || memcmp(a->literal->data, b->literal->data, a->literal->size) == 0);
    default: return a->integer == b->integer;
    }
}

static uint64_t hash_node(const qf_graph *graph, const qf_node_data *data) {
    const qf_op_info *info = qf_op_info_of(data->op);
    uint64_t hash = qf_hash_mix((uint64_t)data->op, data->result_count);
    for (uint32_t i = 0; i < data->operand_count; i++) hash = qf_hash_mix(hash, operand(graph, data, i).id);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        hash = hash_attribute(info->attributes[i].kind, &data->attributes[i], hash);
    for (uint32_t i = 0; i < data->result_count; i++)
        hash = qf_hash_mix(hash, qf_value_type(graph, data->results[i]).id);
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
        if (qf_value_type(graph, a->results[i]).id != qf_value_type(graph, b->results[i]).id) return false;
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!attributes_equal(info->attributes[i].kind, &a->attributes[i], &b->attributes[i])) return false;
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
            qf_graph_replace_all_uses(graph, data->results[i], qf_node_result(graph, earlier, i));
        qf_graph_erase(graph, node);
        call->changed = true;
    }
    qf_index_destroy(graph->context, &seen);
    return status;
}
