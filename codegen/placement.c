/* Owns: which nodes move no byte (their results are aliases), and the step numbers of the others.
 * Does not own: lives and memory of what is not an alias (memory.c).
 * Next: lower.h. */
#include "codegen/lower.h"

/* A value's place within its operand; `possible` false: the node has to run. */
typedef struct alias {
    bool possible, whole;
    qf_dim offset; /* elements; 0 id: none */
} alias;

static bool has_storage(const qf_lowering *lowering, qf_value value) {
    qf_type type = qf_value_type(lowering->graph, value);
    qf_dtype dtype = qf_type_dtype(lowering->context, type);
    return qf_type_is_ranked(lowering->context, type) && dtype != QF_TOKEN && dtype != QF_DTYPE_NONE;
}

static bool is_one(const qf_lowering *lowering, qf_dim dim) {
    return qf_dim_is(lowering->context, dim, 1);
}

/* Axes of size 1 may move freely; the others keep their order. */
static bool permutes_nothing(const qf_lowering *lowering, qf_node node) {
    const qf_attribute *order = qf_node_attribute(lowering->graph, node, QF_ATTR(permute, order));
    const qf_dim *dims = qf_value_dims(lowering->graph, qf_node_operand(lowering->graph, node, 0));
    int64_t last = -1;
    for (uint32_t i = 0; i < order->count; i++) {
        if (is_one(lowering, dims[order->ints[i]])) continue;
        if (order->ints[i] < last) return false;
        last = order->ints[i];
    }
    return true;
}

static bool expands_nothing(const qf_lowering *lowering, qf_node node) {
    const qf_graph *graph = lowering->graph;
    qf_value from = qf_node_operand(graph, node, 0), to = qf_node_result(graph, node, 0);
    uint32_t more = qf_value_rank(graph, to) - qf_value_rank(graph, from);
    for (uint32_t i = 0; i < qf_value_rank(graph, to); i++) {
        qf_dim dim = qf_value_dims(graph, to)[i];
        if (i < more ? !is_one(lowering, dim) : !qf_dim_equal(dim, qf_value_dims(graph, from)[i - more])) return false;
    }
    return true;
}

/* Elements from one index of `axis` to the next. */
static qf_dim stride_of(const qf_lowering *lowering, qf_value value, uint32_t axis) {
    const qf_dim *dims = qf_value_dims(lowering->graph, value);
    return qf_dim_product(lowering->context, dims + axis + 1, qf_value_rank(lowering->graph, value) - axis - 1);
}

/* A run of elements: from the right, full axes, then one range, then single indices. */
static alias alias_of_slice(const qf_lowering *lowering, qf_node node) {
    const qf_graph *graph = lowering->graph;
    qf_context *context = lowering->context;
    qf_value from = qf_node_operand(graph, node, 0), to = qf_node_result(graph, node, 0);
    const qf_attribute *starts = qf_node_attribute(graph, node, QF_ATTR(slice, starts));
    const qf_attribute *steps = qf_node_attribute(graph, node, QF_ATTR(slice, steps));
    alias out = {.possible = true, .whole = true, .offset = qf_dim_constant(context, 0)};
    for (uint32_t axis = qf_value_rank(graph, from); axis-- > 0;) {
        qf_dim size = qf_value_dims(graph, to)[axis];
        bool single = is_one(lowering, size);
        if (steps->ints[axis] != 1 && !single) return (alias){0};
        if (!out.whole && !single) return (alias){0};
        if (!qf_dim_equal(size, qf_value_dims(graph, from)[axis])) out.whole = false;
        if (!qf_dim_is(context, starts->dims[axis], 0)) {
            qf_dim stride = stride_of(lowering, from, axis);
            out.offset = qf_dim_add(context, out.offset, qf_dim_multiply(context, starts->dims[axis], stride));
        }
    }
    out.possible = out.offset.id != 0;
    return out;
}

/* Part `index` of a split along the first axis that is not 1. `*before`: indices of that axis in the parts that
 * precede; moved past this part. */
static alias alias_of_part(const qf_lowering *lowering, qf_node node, uint32_t index, qf_dim *before) {
    const qf_graph *graph = lowering->graph;
    qf_context *context = lowering->context;
    qf_value from = qf_node_operand(graph, node, 0);
    uint32_t axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(split, axis))->integer;
    const qf_attribute *sizes = qf_node_attribute(graph, node, QF_ATTR(split, sizes));
    for (uint32_t i = 0; i < axis; i++)
        if (!is_one(lowering, qf_value_dims(graph, from)[i])) return (alias){0};
    alias out = {.whole = sizes->count == 1,
                 .offset = qf_dim_multiply(context, *before, stride_of(lowering, from, axis))};
    *before = qf_dim_add(context, *before, sizes->dims[index]);
    out.possible = out.offset.id != 0;
    return out;
}

static alias alias_of(const qf_lowering *lowering, qf_node node, uint32_t result, qf_dim *before) {
    const alias no = {0}, same = {.possible = true, .whole = true};
    const qf_node_data *data = qf_node_at(lowering->graph, node);
    if (!data->operand_count || !data->operands[0].value.id ||
        !lowering->placements[data->operands[0].value.id].root.id || !has_storage(lowering, qf_result_at(data, result)))
        return no;
    bool packed = qf_dtype_bits(qf_value_dtype(lowering->graph, data->operands[0].value)) < 8;
    switch (data->op) {
    case QF_OP_view:
    case QF_OP_copy:
    case QF_OP_bitcast: return same;
    case QF_OP_permute: return permutes_nothing(lowering, node) ? same : no;
    case QF_OP_expand: return expands_nothing(lowering, node) ? same : no;
    case QF_OP_concat: return data->operand_count == 1 ? same : no;
    case QF_OP_slice: return packed ? no : alias_of_slice(lowering, node);
    case QF_OP_split: return packed ? no : alias_of_part(lowering, node, result, before);
    default: return no;
    }
}

static bool place_alias(qf_lowering *lowering, qf_node node, uint32_t result, const alias *found) {
    const qf_graph *graph = lowering->graph;
    qf_context *context = lowering->context;
    qf_value value = qf_node_result(graph, node, result);
    const qf_placement *under = &lowering->placements[qf_node_operand(graph, node, 0).id];
    qf_placement placement = {under->root, under->offset, under->whole && found->whole, true};
    if (found->offset.id && !qf_dim_is(context, found->offset, 0)) {
        int64_t width = qf_dtype_bits(qf_value_dtype(graph, value)) / 8;
        qf_dim bytes = qf_dim_multiply(context, found->offset, qf_dim_constant(context, width));
        placement.offset = under->offset.id ? qf_dim_add(context, under->offset, bytes) : bytes;
        if (!placement.offset.id) return false;
    }
    lowering->placements[value.id] = placement;
    return true;
}

/* A node is an alias only if all of its results are. */
static bool place_results(qf_lowering *lowering, qf_node node, bool *out_alias) {
    const qf_node_data *data = qf_node_at(lowering->graph, node);
    qf_dim zero = qf_dim_constant(lowering->context, 0), before = zero;
    *out_alias = data->result_count > 0;
    for (uint32_t i = 0; i < data->result_count && *out_alias; i++)
        *out_alias = alias_of(lowering, node, i, &before).possible;
    before = zero;
    for (uint32_t i = 0; i < data->result_count; i++) {
        if (*out_alias) {
            alias found = alias_of(lowering, node, i, &before);
            if (!place_alias(lowering, node, i, &found)) return false;
        } else if (has_storage(lowering, qf_result_at(data, i))) {
            lowering->placements[qf_result_at(data, i).id] = (qf_placement){qf_result_at(data, i), {0}, true, false};
        }
    }
    return true;
}

bool qf_lower_placements(qf_lowering *lowering) {
    const qf_graph *graph = lowering->graph;
    for (uint32_t i = 0; i < graph->input_count; i++)
        if (has_storage(lowering, graph->inputs[i]))
            lowering->placements[graph->inputs[i].id] = (qf_placement){graph->inputs[i], {0}, true, false};
    QF_FOR_EACH_NODE(graph, node) {
        bool is_alias = false;
        if (!place_results(lowering, node, &is_alias)) return false;
        qf_op op = qf_node_op(graph, node);
        bool runs = !is_alias && op != QF_OP_return && op != QF_OP_constant && op != QF_OP_parameter;
        lowering->step_of_node[node.id] = runs ? lowering->step_count++ : QF_NO_STEP;
    }
    return true;
}
