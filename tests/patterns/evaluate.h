/* Owns: running a graph node by node on the CPU kernels, with sizes for its symbols and inputs that depend on their
 * names only. Does not own: plans and executors (runtime). Next: attention_numbers_test.c. */
#ifndef QF_TESTS_PATTERNS_EVALUATE_H
#define QF_TESTS_PATTERNS_EVALUATE_H

#include <math.h>

#include "base/convert.h"
#include "ir/graph.h"
#include "kernels/kernel.h"
#include "tests/check.h"

typedef struct evaluation_size {
    const char *symbol;
    int64_t size;
} evaluation_size;

typedef struct evaluation_run {
    const qf_graph *graph;
    const evaluation_size *sizes; /* ends with symbol NULL */
    qf_view *views;               /* by value id */
} evaluation_run;

static inline bool evaluation_lookup(void *user, qf_dim_symbol symbol, int64_t *out) {
    const evaluation_run *run = user;
    const char *name = qf_string_c(run->graph->context, qf_dim_symbol_name(run->graph->context, symbol));
    for (const evaluation_size *size = run->sizes; size->symbol; size++)
        if (strcmp(size->symbol, name) == 0) {
            *out = size->size;
            return true;
        }
    return false;
}

static inline int64_t evaluation_dim(evaluation_run *run, qf_dim dim) {
    int64_t size = 0;
    assert_true(qf_dim_evaluate(run->graph->context, dim, evaluation_lookup, run, &size));
    return size;
}

static inline int64_t evaluation_count(const qf_view *view) {
    int64_t count = 1;
    for (uint32_t i = 0; i < view->rank; i++) count *= view->dims[i];
    return count;
}

static inline void evaluation_allocate(evaluation_run *run, qf_value value) {
    qf_view *view = &run->views[value.id];
    view->dtype = qf_value_dtype(run->graph, value);
    view->rank = qf_value_rank(run->graph, value);
    assert_int_not_equal(view->rank, QF_UNRANKED);
    for (uint32_t i = 0; i < view->rank; i++) view->dims[i] = evaluation_dim(run, qf_value_dims(run->graph, value)[i]);
    view->data = calloc(1, qf_dtype_bytes(view->dtype, (uint64_t)evaluation_count(view)) + 16);
    assert_non_null(view->data);
}

/* Uniform in [-2, 2]; scalars are scales between 0.01 and 0.05; booleans are true three times out of four. */
static inline void evaluation_fill(evaluation_run *run, qf_value value) {
    qf_view *view = &run->views[value.id];
    const char *name = qf_string_c(run->graph->context, qf_value_at(run->graph, value)->name);
    uint64_t state = qf_hash_bytes(name, strlen(name), 12345);
    int64_t count = evaluation_count(view);
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double unit = (double)(state >> 11) / 9007199254740992.0;
        double number = view->rank == 0 ? 0.01 + 0.04 * unit : 4.0 * unit - 2.0;
        if (view->dtype == QF_I1) number = unit < 0.75;
        if (qf_dtype_kind_of(view->dtype) == QF_DTYPE_KIND_INTEGER) number = 1.0 + floor(unit * 4.0);
        qf_store_f64(view->dtype, view->data, i, number, true);
    }
}

static inline void evaluation_attribute(evaluation_run *run, qf_attribute_kind kind, const qf_attribute *from,
                                        qf_kernel_attribute *out, int64_t *list) {
    *out = (qf_kernel_attribute){.count = from->count};
    switch (kind) {
    case QF_ATTRIBUTE_FLOAT: out->number = from->number; break;
    case QF_ATTRIBUTE_STRING: out->string = qf_string_c(run->graph->context, from->string); break;
    case QF_ATTRIBUTE_INTS: out->ints = from->ints; break;
    case QF_ATTRIBUTE_LITERAL:
        out->bytes = from->literal->data;
        out->count = from->literal->size;
        break;
    case QF_ATTRIBUTE_DIM: out->integer = evaluation_dim(run, from->dim); break;
    case QF_ATTRIBUTE_DIMS:
        assert_true(from->count <= 256);
        for (uint32_t i = 0; i < from->count; i++) list[i] = evaluation_dim(run, from->dims[i]);
        out->ints = list;
        break;
    default: out->integer = from->integer; break;
    }
}

static inline void evaluation_node(evaluation_run *run, qf_node node) {
    const qf_node_data *data = qf_node_at(run->graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    qf_view operands[32], results[32];
    qf_kernel_attribute attributes[QF_MAX_ATTRIBUTES];
    static int64_t lists[QF_MAX_ATTRIBUTES][256];
    char message[256] = "";
    assert_true(data->operand_count <= 32 && data->result_count <= 32);
    for (uint32_t i = 0; i < data->operand_count; i++)
        operands[i] = data->operands[i].value.id ? run->views[data->operands[i].value.id] : (qf_view){0};
    for (uint32_t i = 0; i < data->result_count; i++) {
        evaluation_allocate(run, data->results[i]);
        results[i] = run->views[data->results[i].id];
    }
    for (uint32_t i = 0; i < info->attribute_count; i++)
        evaluation_attribute(run, info->attributes[i].kind, &data->attributes[i], &attributes[i], lists[i]);
    qf_kernel_call call = {.op = data->op,
                           .operand_count = data->operand_count,
                           .result_count = data->result_count,
                           .operands = operands,
                           .results = results,
                           .attributes = attributes,
                           .thread_count = 1,
                           .message = message,
                           .message_size = sizeof message};
    qf_cpu_kernel kernel = qf_cpu_kernel_of(data->op);
    if (!kernel) fail_msg("%s has no kernel", info->name);
    size_t scratch = qf_cpu_scratch_size(&call);
    call.scratch = aligned_alloc(64, (scratch + 127) / 64 * 64);
    assert_non_null(call.scratch);
    if (kernel(&call) != QF_OK) fail_msg("%s: %s", info->name, message);
    free(call.scratch);
}

/* The first output as doubles; the caller frees it. */
static inline double *evaluate_graph(const qf_graph *graph, const evaluation_size *sizes, int64_t *out_count) {
    evaluation_run run = {.graph = graph, .sizes = sizes, .views = calloc(graph->value_count, sizeof(qf_view))};
    assert_non_null(run.views);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        evaluation_allocate(&run, graph->inputs[i]);
        evaluation_fill(&run, graph->inputs[i]);
    }
    qf_value output = {0};
    QF_FOR_EACH_NODE(graph, node) {
        if (qf_node_op(graph, node) == QF_OP_return)
            output = qf_node_operand(graph, node, 0);
        else
            evaluation_node(&run, node);
    }
    const qf_view *view = &run.views[output.id];
    *out_count = evaluation_count(view);
    double *numbers = malloc((size_t)(*out_count + 1) * sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < *out_count; i++) numbers[i] = qf_load_f64(view->dtype, view->data, i);
    for (uint32_t i = 0; i < graph->value_count; i++) free(run.views[i].data);
    free(run.views);
    return numbers;
}

/* Relative root mean square of a - b; NaN must stand in the same places. */
static inline double relative_difference(const double *a, const double *b, int64_t count) {
    double error = 0.0, size = 0.0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(a[i]) != isnan(b[i])) return INFINITY;
        if (isnan(a[i])) continue;
        error += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return size > 0.0 ? sqrt(error / size) : sqrt(error);
}

#endif
