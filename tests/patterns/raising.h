/* Owns: helpers of the recogniser's tests: parse a body, raise, look at the attention that came out.
 * Does not own: evaluation of graphs (evaluating.h).
 * Next: attention_test.c. */
#ifndef QF_TESTS_PATTERNS_RAISING_H
#define QF_TESTS_PATTERNS_RAISING_H

#include "passes/manager.h"
#include "patterns/attention.h"
#include "tests/patterns/rewriting.h"

static inline void raise_with(bench *b, qf_numerics numerics) {
    qf_symbolic *symbolic = qf_symbolic_create(b->graph);
    assert_non_null(symbolic);
    qf_status status = qf_attention_raise(b->graph, symbolic, numerics, &b->report, &b->changed);
    if (status == QF_OK) status = qf_graph_verify(b->graph);
    qf_symbolic_destroy(symbolic);
    if (getenv("QF_TEST_PRINT")) bench_print(b);
    if (status != QF_OK) fail_msg("%s", b->check.messages);
}

static inline void run_passes(bench *b, const char *text) {
    qf_pass_options options = {.numerics = QF_NUMERICS_ROUNDING, .target = qf_target_from_name(QF_TEXT("cpu"))};
    qf_pipeline pipeline;
    qf_pipeline_hooks hooks = {.verify_each = true};
    qf_status status = qf_pipeline_parse(b->context, text, &options, &pipeline);
    if (status == QF_OK) {
        status = qf_pipeline_run(&pipeline, b->graph, &hooks, &b->report);
        qf_pipeline_destroy(&pipeline);
    }
    if (status != QF_OK) fail_msg("%s: %s", text, b->check.messages);
}

/* `inputs`: "%q: f32[...], ..."; `body`: statements; `outputs`: what is returned. */
static inline void raise_open(bench *b, const char *inputs, const char *body, const char *outputs) {
    char text[16384];
    int size = snprintf(text, sizeof text, "(%s) {\n%s  return %s\n}\n", inputs, body, outputs);
    assert_true(size > 0 && (size_t)size < sizeof text);
    bench_open(b, text);
}

static inline void raise_body(bench *b, const char *inputs, const char *body) {
    raise_open(b, inputs, body, "%y");
    raise_with(b, QF_NUMERICS_ROUNDING);
}

/* The one attention that the raised graph has; no contraction is left. */
static inline qf_node raised(bench *b) {
    if (b->report.miss_count || bench_count(b, QF_OP_attention) != 1) {
        bench_print(b);
        if (b->report.miss_count)
            print_message("miss %s at %s\n", qf_reason_code(b->report.misses[0].reason),
                          qf_string_c(b->context, b->report.misses[0].node_text));
    }
    assert_int_equal(b->report.miss_count, 0);
    assert_int_equal(bench_count(b, QF_OP_contract) + bench_count(b, QF_OP_matmul), 0);
    assert_int_equal(bench_count(b, QF_OP_softmax), 0);
    return bench_find(b, QF_OP_attention);
}

/* Nothing was raised, for exactly this reason. */
static inline void expect_reason(const char *inputs, const char *body, qf_reason reason) {
    bench b;
    raise_body(&b, inputs, body);
    if (b.report.miss_count != 1 || b.report.misses[0].reason != reason) bench_print(&b);
    assert_int_equal(bench_count(&b, QF_OP_attention), 0);
    assert_int_equal(b.report.miss_count, 1);
    assert_string_equal(qf_reason_code(b.report.misses[0].reason), qf_reason_code(reason));
    assert_false(b.changed);
    bench_close(&b);
}

static inline double raised_number(const bench *b, qf_node node, uint32_t attribute) {
    return qf_node_attribute(b->graph, node, attribute)->number;
}

static inline bool has_operand(const bench *b, qf_node node, uint32_t index) {
    return qf_node_operand(b->graph, node, index).id != 0;
}

/* The type of an operand as text; static storage. */
static inline const char *operand_type(const bench *b, qf_node node, uint32_t index) {
    static char text[8][128];
    static unsigned at;
    char *out = text[at++ % 8];
    qf_buffer buffer = {.context = b->context};
    qf_value value = qf_node_operand(b->graph, node, index);
    if (value.id) qf_type_print(&buffer, b->context, qf_value_type(b->graph, value));
    (void)snprintf(out, 128, "%s", value.id ? buffer.data : "absent");
    qf_buffer_destroy(&buffer);
    return out;
}

#endif
