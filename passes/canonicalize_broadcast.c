/* Owns: broadcasts that are written out although elementwise ops broadcast by themselves.
 * Does not own: chains of layout ops (canonicalize_layout.c).
 * Next: canonicalize.h. */
#include "passes/canonicalize.h"
#include "patterns/arrange.h"

/* The dim of a value along an axis of a result of `rank` axes, right-aligned; 0 where it has none. */
static qf_dim aligned_dim(const qf_graph *graph, qf_value value, uint32_t axis, uint32_t rank) {
    uint32_t own = qf_value_rank(graph, value);
    return axis + own < rank ? (qf_dim){0} : qf_value_dims(graph, value)[axis + own - rank];
}

/* The other operands, and `instead` in place of operand `index`, still have every extent of the result. */
static bool still_covers(const qf_graph *graph, qf_node node, uint32_t index, qf_value instead) {
    const qf_node_data *data = qf_node_at(graph, node);
    uint32_t rank = qf_value_rank(graph, qf_result_at(data, 0));
    const qf_dim *dims = qf_value_dims(graph, qf_result_at(data, 0));
    bool ranked = qf_value_rank(graph, instead) == rank; /* some operand must have all axes */
    for (uint32_t i = 0; i < data->operand_count; i++) {
        qf_value value = data->operands[i].value;
        if (value.id && qf_value_rank(graph, value) > rank) return false;
        ranked = ranked || (i != index && value.id && qf_value_rank(graph, value) == rank);
    }
    for (uint32_t axis = 0; ranked && axis < rank; axis++) {
        bool covered = qf_dim_equal(aligned_dim(graph, instead, axis, rank), dims[axis]);
        for (uint32_t i = 0; !covered && i < data->operand_count; i++)
            covered = i != index && data->operands[i].value.id &&
                      qf_dim_equal(aligned_dim(graph, data->operands[i].value, axis, rank), dims[axis]);
        if (!covered) return false;
    }
    return ranked;
}

/* The view only puts axes of extent 1 in front. */
static bool adds_leading_ones(const qf_graph *graph, qf_value source, qf_value view) {
    uint32_t from = qf_value_rank(graph, source), to = qf_value_rank(graph, view);
    if (from >= to || to == QF_UNRANKED) return false;
    for (uint32_t i = 0; i < to; i++) {
        qf_dim dim = qf_value_dims(graph, view)[i];
        if (i < to - from ? !qf_dim_is(graph->context, dim, 1)
                          : !qf_dim_equal(dim, qf_value_dims(graph, source)[i - (to - from)]))
            return false;
    }
    return true;
}

/* What the operand broadcasts; 0 where it broadcasts nothing. */
static qf_value broadcast_source(const qf_graph *graph, qf_value value) {
    qf_node producer = qf_value_producer(graph, value);
    qf_op op = qf_node_op(graph, producer);
    qf_value source = producer.id ? qf_node_operand(graph, producer, 0) : (qf_value){0};
    if (op == QF_OP_expand || op == QF_OP_full)
        return qf_value_rank(graph, source) == QF_UNRANKED ? (qf_value){0} : source;
    return op == QF_OP_view && adds_leading_ones(graph, source, value) ? source : (qf_value){0};
}

/* One element under several axes: a scalar broadcasts as well, and is what a scale looks like. */
static qf_value as_scalar(qf_graph *graph, qf_node node, qf_value value) {
    uint32_t rank = value.id ? qf_value_rank(graph, value) : 0;
    if (rank < 2 || rank == QF_UNRANKED) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_is(graph->context, qf_value_dims(graph, value)[i], 1)) return (qf_value){0};
    qf_emitter emitter = {.graph = graph, .before = node, .location = qf_node_at(graph, node)->location};
    return qf_emit_view(&emitter, value, NULL, 0);
}

/* Where the other operand has all axes of the result, so that this one only repeats. */
static bool only_repeats(const qf_graph *graph, qf_node node, uint32_t index) {
    const qf_node_data *data = qf_node_at(graph, node);
    qf_type result = qf_value_type(graph, qf_result_at(data, 0));
    return data->operand_count == 2 && qf_value_type(graph, data->operands[1 - index].value).id == result.id &&
           qf_value_type(graph, data->operands[index].value).id != result.id;
}

bool qf_canonicalize_broadcast(qf_graph *graph, qf_node node) {
    const qf_node_data *data = qf_node_at(graph, node); /* until a view is inserted */
    uint32_t operand_count = data->operand_count;
    bool changed = false;
    if (!qf_op_has_trait(data->op, QF_TRAIT_ELEMENTWISE) || operand_count < 2 ||
        qf_value_rank(graph, qf_result_at(data, 0)) == QF_UNRANKED)
        return false;
    for (uint32_t i = 0; i < operand_count; i++) {
        qf_value operand = qf_node_operand(graph, node, i);
        qf_value scalar = only_repeats(graph, node, i) ? as_scalar(graph, node, operand) : (qf_value){0};
        if (scalar.id) {
            qf_graph_set_operand(graph, node, i, scalar);
            changed = true;
            continue;
        }
        qf_value source = operand.id ? broadcast_source(graph, operand) : (qf_value){0};
        if (!source.id || !still_covers(graph, node, i, source)) continue;
        qf_graph_set_operand(graph, node, i, source);
        changed = true;
    }
    return changed;
}
