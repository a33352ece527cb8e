/* Owns: turning shape arithmetic into `symbolic` and `constant` nodes.
 * Does not own: how elements become known (ir/symbolic.c).
 * Next: canonicalize.h. */
#include "passes/canonicalize.h"

#define MAX_ELEMENTS 256

static bool all_constant(const qf_graph *graph, const qf_dim *elements, uint32_t count, int64_t *out_values) {
    for (uint32_t i = 0; i < count; i++)
        if (!qf_dim_is_constant(graph->context, elements[i], &out_values[i])) return false;
    return true;
}

static bool to_constant(qf_graph *graph, qf_node node, const int64_t *values, uint32_t count) {
    qf_value result = qf_node_result(graph, node, 0);
    qf_dtype dtype = qf_value_dtype(graph, result);
    union {
        int64_t i64[MAX_ELEMENTS];
        int32_t i32[MAX_ELEMENTS];
        uint8_t i1[MAX_ELEMENTS];
    } data;
    for (uint32_t i = 0; i < count; i++) {
        if (dtype == QF_I64)
            data.i64[i] = values[i];
        else if (dtype == QF_I32 && values[i] >= INT32_MIN && values[i] <= INT32_MAX)
            data.i32[i] = (int32_t)values[i];
        else if (dtype == QF_I1)
            data.i1[i] = values[i] != 0;
        else
            return false;
    }
    qf_literal literal = {qf_value_type(graph, result), qf_dtype_bytes(dtype, count), &data};
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {[QF_ATTR(constant, value)] = {.literal = &literal}};
    qf_node_spec spec = {.op = QF_OP_constant, .attributes = attributes};
    return qf_replace_by_node(graph, node, &spec);
}

static bool to_symbolic(qf_graph *graph, qf_node node, const qf_dim *elements, uint32_t count) {
    qf_value result = qf_node_result(graph, node, 0);
    if (qf_value_dtype(graph, result) != QF_I64 || qf_node_op(graph, node) == QF_OP_symbolic) return false;
    int64_t extent = count;
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {
        [QF_ATTR(symbolic, values)] = {.dims = elements, .count = count},
        [QF_ATTR(symbolic, shape)] = {.ints = &extent, .count = qf_value_rank(graph, result)},
    };
    qf_node_spec spec = {.op = QF_OP_symbolic, .attributes = attributes};
    return qf_replace_by_node(graph, node, &spec);
}

/* Scalars and vectors only: those are shape arithmetic. Index tensors of higher rank keep their structure, which says
 * more about a mask than its elements do. */
bool qf_canonicalize_shape(qf_graph *graph, qf_symbolic *symbolic, qf_node node) {
    const qf_node_data *data = qf_node_at(graph, node);
    if (data->result_count != 1 || data->op == QF_OP_constant || data->op == QF_OP_iota ||
        data->op == QF_OP_parameter || data->op == QF_OP_opaque)
        return false;
    qf_value result = qf_result_at(data, 0);
    qf_dtype dtype = qf_value_dtype(graph, result);
    if ((dtype != QF_I64 && dtype != QF_I32 && dtype != QF_I1) || qf_value_rank(graph, result) > 1) return false;
    const qf_dim *elements;
    uint32_t count;
    if (!qf_symbolic_elements(symbolic, result, &elements, &count) || count > MAX_ELEMENTS) return false;
    int64_t values[MAX_ELEMENTS];
    return all_constant(graph, elements, count, values) ? to_constant(graph, node, values, count)
                                                        : to_symbolic(graph, node, elements, count);
}
