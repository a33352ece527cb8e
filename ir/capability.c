/* Owns: a kernel query filled from types and attributes.
 * Does not own: the answer (spec/kernels.c).
 * Next: spec/kernels.h. */
#include "ir/capability.h"

#include <string.h>

/* Kernels with limits look at named operands only; the rest of a long MANY list changes nothing. */
#define LOOKED_AT 16

static qf_kernel_tensor tensor_of(const qf_context *context, qf_type type) {
    qf_kernel_tensor tensor = {.present = type.id != 0};
    if (!type.id) return tensor;
    tensor.dtype = qf_type_dtype(context, type);
    tensor.rank = qf_type_rank(context, type);
    for (uint32_t i = 0; i < QF_MAX_RANK; i++) tensor.dims[i] = -1;
    if (tensor.rank == QF_UNRANKED) return tensor;
    const qf_dim *dims = qf_type_dims(context, type);
    for (uint32_t i = 0; i < tensor.rank; i++)
        if (!qf_dim_is_constant(context, dims[i], &tensor.dims[i])) tensor.dims[i] = -1;
    return tensor;
}

const qf_kernel_row *qf_node_kernel_from(const qf_graph *graph, qf_node node, const qf_kernel_row *rows,
                                         uint32_t row_count, qf_target target, char *reason, size_t reason_size) {
    const qf_node_data *data = qf_node_at(graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    qf_kernel_tensor operands[LOOKED_AT], results[LOOKED_AT];
    qf_kernel_value values[QF_MAX_ATTRIBUTES];
    memset(values, 0, sizeof values);
    qf_kernel_query query = {.op = data->op, .operands = operands, .results = results, .attributes = values};
    query.operand_count = data->operand_count < LOOKED_AT ? data->operand_count : LOOKED_AT;
    query.result_count = data->result_count < LOOKED_AT ? data->result_count : LOOKED_AT;
    for (uint32_t i = 0; i < query.operand_count; i++) {
        qf_value value = data->operands[i].value;
        operands[i] = tensor_of(graph->context, value.id ? qf_value_type(graph, value) : (qf_type){0});
    }
    for (uint32_t i = 0; i < query.result_count; i++)
        results[i] = tensor_of(graph->context, qf_value_type(graph, qf_result_at(data, i)));
    for (uint32_t i = 0; info && i < info->attribute_count; i++) {
        if (info->attributes[i].kind == QF_ATTRIBUTE_FLOAT)
            values[i].number = data->attributes[i].number;
        else if (info->attributes[i].kind <= QF_ATTRIBUTE_ENUM)
            values[i].integer = data->attributes[i].integer;
    }
    return qf_kernel_select_from(rows, row_count, target, &query, reason, reason_size);
}

const qf_kernel_row *qf_node_kernel(const qf_graph *graph, qf_node node, qf_target target, char *reason,
                                    size_t reason_size) {
    uint32_t count;
    const qf_kernel_row *rows = qf_kernel_table(&count);
    return qf_node_kernel_from(graph, node, rows, count, target, reason, reason_size);
}

bool qf_node_is_runnable(const qf_graph *graph, qf_node node, qf_target target, char *reason, size_t reason_size) {
    return qf_node_op(graph, node) == QF_OP_return || qf_node_kernel(graph, node, target, reason, reason_size) != NULL;
}
