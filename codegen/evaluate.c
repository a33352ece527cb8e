/* Owns: a node and its literals as a call of the public qf_op_run.
 * Does not own: the kernels (the run-time half).
 * Next: evaluate.h, qfuse/runtime.h. */
#include "codegen/evaluate.h"

#include <qfuse/runtime.h>

#include <string.h>

_Static_assert(QF_MAX_RANK == QF_TENSOR_MAX_RANK, "tensors of both halves have the same ranks");

static bool to_tensor(const qf_context *context, const qf_literal *literal, qf_tensor *out) {
    *out = (qf_tensor){0};
    if (!literal) return true;
    out->dtype = qf_type_dtype(context, literal->type);
    out->rank = qf_type_rank(context, literal->type);
    out->data = (void *)(uintptr_t)literal->data;
    if (out->rank == QF_UNRANKED) return false;
    for (uint32_t i = 0; i < out->rank; i++)
        if (!qf_dim_is_constant(context, qf_type_dims(context, literal->type)[i], &out->dims[i])) return false;
    return true;
}

static bool to_attribute(qf_arena *arena, qf_attribute_kind kind, const qf_attribute *attribute, qf_op_attribute *out) {
    const qf_context *context = arena->context;
    out->count = attribute->count;
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: out->value.number = attribute->number; return true;
    case QF_ATTRIBUTE_DIM: return qf_dim_is_constant(context, attribute->dim, &out->value.integer);
    case QF_ATTRIBUTE_INTS: out->value.ints = attribute->ints; return true;
    case QF_ATTRIBUTE_STRING: out->value.string = qf_string_c(context, attribute->string); return true;
    case QF_ATTRIBUTE_LITERAL:
        out->value.bytes = attribute->literal->data;
        out->count = attribute->literal->size;
        return true;
    case QF_ATTRIBUTE_DIMS: break;
    default: out->value.integer = attribute->integer; return true;
    }
    int64_t *values = QF_ARENA_NEW(arena, int64_t, attribute->count);
    out->value.ints = values;
    for (uint32_t i = 0; values && i < attribute->count; i++)
        if (!qf_dim_is_constant(context, attribute->dims[i], &values[i])) return false;
    return values != NULL;
}

static qf_status evaluate(qf_arena *arena, const qf_graph *graph, qf_node node, const qf_literal *const *operands,
                          qf_literal *const *out) {
    const qf_node_data *data = qf_node_at(graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    qf_tensor *tensors = QF_ARENA_NEW(arena, qf_tensor, (uint64_t)data->operand_count + data->result_count);
    qf_op_attribute attributes[QF_MAX_ATTRIBUTES];
    if (!tensors) return QF_ERROR_OUT_OF_MEMORY;
    bool known = true;
    for (uint32_t i = 0; i < data->operand_count; i++)
        known = known && to_tensor(arena->context, operands[i], &tensors[i]);
    for (uint32_t i = 0; i < data->result_count; i++)
        known = known && to_tensor(arena->context, out[i], &tensors[data->operand_count + i]);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        known = known && to_attribute(arena, info->attributes[i].kind, &data->attributes[i], &attributes[i]);
    if (!known)
        return qf_context_status(arena->context) == QF_ERROR_OUT_OF_MEMORY ? QF_ERROR_OUT_OF_MEMORY
                                                                           : QF_ERROR_UNSUPPORTED;
    return qf_op_run(arena->context, data->op, tensors, data->operand_count, attributes, info->attribute_count,
                     tensors + data->operand_count, data->result_count, 1);
}

qf_status qf_evaluate_on_cpu(void *user, const qf_graph *graph, qf_node node, const qf_literal *const *operands,
                             qf_literal *const *out) {
    (void)user;
    qf_arena arena = {.context = graph->context};
    qf_status status = evaluate(&arena, graph, node, operands, out);
    qf_arena_destroy(&arena);
    return status;
}
