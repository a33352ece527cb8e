/* Owns: one run of a graph by the interpreter: tensors for its inputs, numbers of its outputs.
 * Does not own: the interpreter (codegen/interpret.h), what the inputs hold beyond a default.
 * Next: rules_test.c, attention_numbers_test.c. */
#ifndef QF_TESTS_PATTERNS_EVALUATING_H
#define QF_TESTS_PATTERNS_EVALUATING_H

#include <math.h>

#include "base/convert.h"
#include "codegen/interpret.h"
#include "tests/check.h"

/* Lists of them end with symbol NULL. */
typedef struct evaluation_size {
    const char *symbol;
    int64_t size;
} evaluation_size;

typedef struct evaluation {
    const qf_graph *graph;
    qf_interpreter *interpreter;
    qf_tensor *inputs; /* zeros until they are filled */
} evaluation;

static inline uint64_t tensor_count(const qf_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= (uint64_t)tensor->dims[i];
    return count;
}

/* `sizes` may be NULL for a graph without symbols. */
static inline void evaluation_open(evaluation *e, const qf_graph *graph, const evaluation_size *sizes) {
    *e = (evaluation){.graph = graph};
    e->interpreter = qf_interpreter_create(graph, 1);
    e->inputs = calloc(graph->input_count + 1, sizeof *e->inputs);
    assert_true(e->interpreter && e->inputs);
    for (const evaluation_size *size = sizes; size && size->symbol; size++) {
        qf_dim_symbol symbol = qf_dim_symbol_find(graph->context, qf_text_of(size->symbol));
        if (symbol.id) assert_int_equal(qf_interpreter_bind_symbol(e->interpreter, symbol, size->size), QF_OK);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_value value = graph->inputs[i];
        qf_tensor *tensor = &e->inputs[i];
        *tensor = (qf_tensor){.dtype = qf_value_dtype(graph, value), .rank = qf_value_rank(graph, value)};
        for (uint32_t axis = 0; axis < tensor->rank; axis++)
            assert_true(qf_interpreter_dim(e->interpreter, qf_value_dims(graph, value)[axis], &tensor->dims[axis]));
        tensor->data = calloc(1, (size_t)qf_tensor_bytes(tensor) + 1);
        assert_non_null(tensor->data);
    }
}

static inline void evaluation_close(evaluation *e) {
    for (uint32_t i = 0; i < e->graph->input_count; i++) free(e->inputs[i].data);
    free(e->inputs);
    qf_interpreter_destroy(e->interpreter);
}

/* By the input's name only: uniform in [-2, 2]; scalars are scales between 0.01 and 0.05; booleans are true three times
 * out of four; integers from 1 to 4. */
static inline void evaluation_fill(evaluation *e, uint32_t index) {
    const qf_tensor *tensor = &e->inputs[index];
    const char *name = qf_string_c(e->graph->context, qf_value_at(e->graph, e->graph->inputs[index])->name);
    uint64_t state = qf_hash_bytes(name, strlen(name), 12345), count = tensor_count(tensor);
    for (uint64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double unit = (double)(state >> 11) / 9007199254740992.0;
        double number = tensor->rank == 0 ? 0.01 + 0.04 * unit : 4.0 * unit - 2.0;
        if (tensor->dtype == QF_I1) number = unit < 0.75;
        if (qf_dtype_kind_of(tensor->dtype) == QF_DTYPE_KIND_INTEGER) number = 1.0 + floor(unit * 4.0);
        qf_store_f64(tensor->dtype, tensor->data, (int64_t)i, number, true);
    }
}

/* `check`: where the graph's context reports. */
static inline void evaluation_run(evaluation *e, const check_state *check) {
    qf_status status = QF_OK;
    for (uint32_t i = 0; i < e->graph->input_count && status == QF_OK; i++)
        status = qf_interpreter_bind_input(e->interpreter, i, &e->inputs[i]);
    if (status == QF_OK) status = qf_interpreter_run(e->interpreter, NULL);
    if (status != QF_OK) fail_msg("%s", check->messages);
}

/* Valid until the evaluation is closed. */
static inline qf_tensor evaluation_output(const evaluation *e, uint32_t index) {
    qf_tensor tensor;
    assert_true(qf_interpreter_value(e->interpreter, qf_node_operand(e->graph, e->graph->last, index), &tensor));
    return tensor;
}

/* Relative root mean square of a - b; NaN must stand in the same places. */
static inline double relative_difference(const qf_tensor *a, const qf_tensor *b) {
    double error = 0.0, size = 0.0;
    uint64_t count = tensor_count(a);
    assert_int_equal(count, tensor_count(b));
    for (uint64_t i = 0; i < count; i++) {
        double x = qf_load_f64(a->dtype, a->data, (int64_t)i), y = qf_load_f64(b->dtype, b->data, (int64_t)i);
        if (isnan(x) != isnan(y)) return INFINITY;
        if (isnan(x)) continue;
        error += (x - y) * (x - y);
        size += y * y;
    }
    return size > 0.0 ? sqrt(error / size) : sqrt(error);
}

#endif
