/* Owns: attributes for the run-time half; computing one node of constants through it.
 * Does not own: which nodes are worth it (fold.c).
 * Next: qfuse/runtime.h. */
#include "passes/evaluate.h"

#include <string.h>

#define MAX_OPERANDS 16
#define MAX_LIST     64

static bool to_tensor(const qf_context *context, const qf_literal *literal, void *data, qf_tensor *out) {
    memset(out, 0, sizeof *out);
    if (!literal) return true;
    out->dtype = qf_type_dtype(context, literal->type);
    out->rank = qf_type_rank(context, literal->type);
    out->data = data;
    for (uint32_t i = 0; i < out->rank; i++)
        if (!qf_dim_is_constant(context, qf_type_dims(context, literal->type)[i], &out->dims[i])) return false;
    return true;
}

bool qf_evaluate_attribute(const qf_context *context, qf_attribute_kind kind, const qf_attribute *attribute,
                           qf_symbol_lookup lookup, void *user, int64_t *list, uint32_t capacity,
                           qf_op_attribute *out) {
    *out = (qf_op_attribute){.count = attribute->count};
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: out->value.number = attribute->number; return true;
    case QF_ATTRIBUTE_STRING: out->value.string = qf_string_c(context, attribute->string); return true;
    case QF_ATTRIBUTE_INTS: out->value.ints = attribute->ints; return true;
    case QF_ATTRIBUTE_LITERAL:
        out->value.bytes = attribute->literal->data;
        out->count = attribute->literal->size;
        return true;
    case QF_ATTRIBUTE_DIM: return qf_dim_evaluate(context, attribute->dim, lookup, user, &out->value.integer);
    case QF_ATTRIBUTE_DIMS:
        for (uint32_t i = 0; i < attribute->count; i++)
            if (i >= capacity || !qf_dim_evaluate(context, attribute->dims[i], lookup, user, &list[i])) return false;
        out->value.ints = list;
        return true;
    default: out->value.integer = attribute->integer; return true;
    }
}

qf_status qf_evaluate_on_cpu(void *user, const qf_graph *graph, qf_node node, const qf_literal *const *operands,
                             qf_literal *const *out) {
    (void)user;
    qf_context *context = graph->context;
    const qf_node_data *data = qf_node_at(graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    if (data->operand_count > MAX_OPERANDS || data->result_count > MAX_OPERANDS) return QF_ERROR_UNSUPPORTED;
    qf_tensor inputs[MAX_OPERANDS], results[MAX_OPERANDS];
    qf_op_attribute attributes[QF_MAX_ATTRIBUTES];
    int64_t lists[QF_MAX_ATTRIBUTES][MAX_LIST];
    for (uint32_t i = 0; i < data->operand_count; i++) {
        union {
            const void *read_only;
            void *data;
        } bytes = {operands[i] ? operands[i]->data : NULL}; /* kernels only read operands */
        if (!to_tensor(context, operands[i], bytes.data, &inputs[i])) return QF_ERROR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < data->result_count; i++) {
        union {
            const void *read_only;
            void *data;
        } bytes = {out[i]->data}; /* the caller's memory, given to be written */
        if (!to_tensor(context, out[i], bytes.data, &results[i])) return QF_ERROR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!qf_evaluate_attribute(context, info->attributes[i].kind, &data->attributes[i], NULL, NULL, lists[i],
                                   MAX_LIST, &attributes[i]))
            return QF_ERROR_UNSUPPORTED;
    return qf_op_run(context, data->op, inputs, data->operand_count, attributes, info->attribute_count, results,
                     data->result_count, 1);
}
