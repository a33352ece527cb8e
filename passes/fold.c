/* Owns: the pass that computes nodes whose operands are all constants.
 * Does not own: how a node is computed (the evaluator in qf_pass_options), shape arithmetic (canonicalize_shape.c).
 * Next: manager.c. */
#include "passes/pass.h"

#define MAX_RESULT_BYTES ((uint64_t)64 << 10)
#define MAX_OPERANDS     16
#define MAX_RESULTS      16

qf_status qf_pass_fold(qf_pass_call *call);

static bool foldable(const qf_graph *graph, qf_node node, const qf_literal **operands) {
    const qf_node_data *data = qf_node_at(graph, node);
    if (!qf_op_has_trait(data->op, QF_TRAIT_PURE) || !data->operand_count || data->operand_count > MAX_OPERANDS ||
        data->result_count > MAX_RESULTS || !data->result_count)
        return false;
    bool any = false;
    for (uint32_t i = 0; i < data->operand_count; i++) {
        operands[i] = qf_value_literal(graph, data->operands[i].value);
        if (data->operands[i].value.id && !operands[i]) return false;
        any |= operands[i] != NULL;
    }
    for (uint32_t i = 0; i < data->result_count; i++) {
        uint64_t count;
        qf_type type = qf_value_type(graph, qf_result_at(data, i));
        if (!qf_type_static_count(graph->context, type, &count)) return false;
        if (qf_dtype_bytes(qf_type_dtype(graph->context, type), count) > MAX_RESULT_BYTES) return false;
    }
    return any;
}

static qf_status replace_by_constants(qf_graph *graph, qf_node node, const qf_literal *results) {
    const qf_node_data data = *qf_node_at(graph, node);
    for (uint32_t i = 0; i < data.result_count; i++) {
        qf_attribute attributes[QF_MAX_ATTRIBUTES] = {[QF_ATTR(constant, value)] = {.literal = &results[i]}};
        qf_node_spec spec = {.op = QF_OP_constant,
                             .attributes = attributes,
                             .result_types = &results[i].type,
                             .result_names = &qf_value_at(graph, qf_result_at(&data, i))->name,
                             .location = data.location,
                             .tag = data.tag};
        qf_string name = *spec.result_names;
        spec.result_names = &name;
        qf_node made = qf_graph_insert(graph, node, &spec);
        if (!made.id) return qf_context_status(graph->context);
        qf_graph_replace_all_uses(graph, qf_result_at(&data, i), qf_node_result(graph, made, 0));
    }
    qf_graph_erase(graph, node);
    return QF_OK;
}

/* A node that cannot be computed now (an index out of range, say) is left for run time to report, so nothing is said
 * here. */
static qf_status evaluate_quietly(qf_pass_call *call, qf_node node, const qf_literal *const *operands,
                                  qf_literal *const *out) {
    qf_context *context = call->graph->context;
    qf_diagnostic_handler handler = context->handler;
    context->handler = NULL;
    qf_status status = call->options->evaluate(call->options->evaluate_user, call->graph, node, operands, out);
    context->handler = handler;
    if (status != QF_OK && status != QF_ERROR_OUT_OF_MEMORY) qf_context_clear_status(context);
    return status;
}

static qf_status fold_node(qf_pass_call *call, qf_node node, const qf_literal *const *operands) {
    qf_graph *graph = call->graph;
    qf_context *context = graph->context;
    const qf_node_data *data = qf_node_at(graph, node);
    uint32_t result_count = data->result_count;
    qf_literal results[MAX_RESULTS];
    qf_literal *out[MAX_RESULTS];
    void *bytes[MAX_RESULTS] = {0};
    qf_status status = QF_OK;
    for (uint32_t i = 0; i < result_count && status == QF_OK; i++) {
        qf_type type = qf_value_type(graph, qf_result_at(data, i));
        uint64_t count = 0;
        (void)qf_type_static_count(context, type, &count);
        results[i] = (qf_literal){type, qf_dtype_bytes(qf_type_dtype(context, type), count), NULL};
        bytes[i] = qf_allocate(context, (size_t)results[i].size);
        if (!bytes[i]) status = QF_ERROR_OUT_OF_MEMORY;
        results[i].data = bytes[i];
        out[i] = &results[i];
    }
    if (status == QF_OK) status = evaluate_quietly(call, node, operands, out);
    if (status == QF_OK) {
        status = replace_by_constants(graph, node, results);
        call->changed = true;
    } else if (status != QF_ERROR_OUT_OF_MEMORY) {
        status = QF_OK;
    }
    for (uint32_t i = 0; i < result_count; i++)
        if (bytes[i]) qf_release(context, bytes[i], (size_t)results[i].size);
    return status;
}

qf_status qf_pass_fold(qf_pass_call *call) {
    if (!call->options->evaluate) return QF_OK;
    qf_graph *graph = call->graph;
    qf_status status = QF_OK;
    qf_node next;
    for (qf_node node = graph->first; node.id && status == QF_OK; node = next) {
        next = qf_node_at(graph, node)->next;
        const qf_literal *operands[MAX_OPERANDS];
        if (foldable(graph, node, operands)) status = fold_node(call, node, operands);
    }
    return status;
}
