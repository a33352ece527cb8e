/* Owns: a straight-line evaluator of graphs with constant dims on the CPU kernels.
 * Does not own: kernels (kernels/), the run-time half's executor.
 * Next: rules_test.c. */
#ifndef QF_TESTS_PATTERNS_EVALUATING_H
#define QF_TESTS_PATTERNS_EVALUATING_H

#include <math.h>

#include "base/convert.h"
#include "ir/graph.h"
#include "kernels/kernel.h"
#include "tests/check.h"

/* One tensor for each value of a graph; data NULL where there is none yet. */
typedef struct tensors {
    qf_view *views;
    uint32_t count;
} tensors;

static inline qf_view tensor_make(const qf_graph *graph, qf_value value) {
    qf_view view = {.dtype = qf_value_dtype(graph, value), .rank = qf_value_rank(graph, value)};
    uint64_t count = 1;
    for (uint32_t i = 0; i < view.rank; i++) {
        assert_true(qf_dim_is_constant(graph->context, qf_value_dims(graph, value)[i], &view.dims[i]));
        count *= (uint64_t)view.dims[i];
    }
    view.data = calloc(1, (size_t)qf_dtype_bytes(view.dtype, count) + 1);
    return view;
}

static inline int64_t tensor_count(const qf_view *view) {
    int64_t count = 1;
    for (uint32_t i = 0; i < view->rank; i++) count *= view->dims[i];
    return count;
}

static inline void tensors_open(tensors *all, const qf_graph *graph) {
    all->count = graph->value_count;
    all->views = calloc(all->count, sizeof *all->views);
}

static inline void tensors_close(tensors *all) {
    for (uint32_t i = 0; i < all->count; i++) free(all->views[i].data);
    free(all->views);
}

#define EVALUATE_MAX 24

static inline void evaluate_attribute(const qf_graph *graph, qf_attribute_kind kind, const qf_attribute *attribute,
                                      qf_kernel_attribute *out, int64_t *list) {
    out->count = attribute->count;
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: out->number = attribute->number; break;
    case QF_ATTRIBUTE_STRING: out->string = qf_string_c(graph->context, attribute->string); break;
    case QF_ATTRIBUTE_INTS: out->ints = attribute->ints; break;
    case QF_ATTRIBUTE_DIM: assert_true(qf_dim_is_constant(graph->context, attribute->dim, &out->integer)); break;
    case QF_ATTRIBUTE_LITERAL:
        out->bytes = attribute->literal->data;
        out->count = attribute->literal->size;
        break;
    case QF_ATTRIBUTE_DIMS:
        for (uint32_t i = 0; i < attribute->count; i++)
            assert_true(qf_dim_is_constant(graph->context, attribute->dims[i], &list[i]));
        out->ints = list;
        break;
    default: out->integer = attribute->integer; break;
    }
}

static inline void evaluate_node(const qf_graph *graph, qf_node node, tensors *all) {
    const qf_node_data *data = qf_node_at(graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    qf_view operands[EVALUATE_MAX] = {{0}}, results[EVALUATE_MAX] = {{0}};
    qf_kernel_attribute attributes[QF_MAX_ATTRIBUTES];
    int64_t lists[QF_MAX_ATTRIBUTES][16];
    char message[256] = "";
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (data->operands[i].value.id) operands[i] = all->views[data->operands[i].value.id];
    for (uint32_t i = 0; i < data->result_count; i++)
        results[i] = all->views[data->results[i].id] = tensor_make(graph, data->results[i]);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        evaluate_attribute(graph, info->attributes[i].kind, &data->attributes[i], &attributes[i], lists[i]);
    qf_kernel_call call = {.op = data->op,
                           .operand_count = data->operand_count,
                           .result_count = data->result_count,
                           .operands = operands,
                           .results = results,
                           .attributes = attributes,
                           .thread_count = 1,
                           .message = message,
                           .message_size = sizeof message};
    /* The kernel sees all of the table's results. */
    if (info->result_count > call.result_count && info->results[0].kind != QF_RESULT_SEVERAL)
        call.result_count = info->result_count;
    size_t scratch = qf_cpu_scratch_size(&call);
    call.scratch = scratch ? aligned_alloc(64, (scratch + 63) / 64 * 64) : NULL;
    qf_cpu_kernel kernel = qf_cpu_kernel_of(data->op);
    if (!kernel || kernel(&call) != QF_OK) fail_msg("%s: %s", info->name, message);
    free(call.scratch);
}

/* Inputs are in `all` already. */
static inline void evaluate_graph(const qf_graph *graph, tensors *all) {
    QF_FOR_EACH_NODE(graph, node)
    if (qf_node_op(graph, node) != QF_OP_return) evaluate_node(graph, node, all);
}

#endif
