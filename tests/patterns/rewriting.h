/* Owns: helpers of the pattern tests: parse, run a phase, count ops, find what was reported.
 * Does not own: contexts and leak checks (tests/check.h).
 * Next: engine_test.c. */
#ifndef QF_TESTS_PATTERNS_REWRITING_H
#define QF_TESTS_PATTERNS_REWRITING_H

#include "tests/check.h"

#include "ir/text.h"
#include "ir/verify.h"
#include "patterns/rules.h"

typedef struct bench {
    check_state check;
    qf_context *context;
    qf_graph *graph;
    qf_report report;
    qf_rules_options options;
    bool changed;
} bench;

/* `text`: the body of a graph, from its inputs on: "(%x: f32[4]) {\n ... }". */
static inline void bench_open(bench *b, const char *text) {
    memset(b, 0, sizeof *b);
    b->context = check_context(&b->check);
    qf_buffer buffer = {.context = b->context};
    qf_buffer_print(&buffer, "graph @g%s", text);
    b->graph = qf_graph_parse(b->context, (qf_text){buffer.data, buffer.size}, "test.qf");
    if (!b->graph) fail_msg("%s", b->check.messages);
    qf_buffer_destroy(&buffer);
    qf_report_init(&b->report, b->context);
    b->options.numerics = QF_NUMERICS_ROUNDING;
}

static inline void bench_close(bench *b) {
    qf_report_destroy(&b->report);
    qf_graph_destroy(b->graph);
    check_destroy(b->context, &b->check);
}

/* Runs the phase and verifies the graph. */
static inline void bench_run(bench *b, const char *phase) {
    qf_status status = qf_rules_run(b->graph, phase, &b->options, &b->report, &b->changed);
    if (status == QF_OK) status = qf_graph_verify(b->graph);
    if (status != QF_OK) fail_msg("%s", b->check.messages);
}

static inline uint32_t bench_count(const bench *b, qf_op op) {
    uint32_t count = 0;
    QF_FOR_EACH_NODE(b->graph, node) count += qf_node_op(b->graph, node) == op;
    return count;
}

/* The only node of this op. */
static inline qf_node bench_find(const bench *b, qf_op op) {
    assert_int_equal(bench_count(b, op), 1);
    QF_FOR_EACH_NODE(b->graph, node) if (qf_node_op(b->graph, node) == op) return node;
    return (qf_node){0};
}

static inline int64_t bench_integer(const bench *b, qf_node node, uint32_t attribute) {
    return qf_node_attribute(b->graph, node, attribute)->integer;
}

static inline bool bench_missed(const bench *b, qf_reason reason) {
    for (uint32_t i = 0; i < b->report.miss_count; i++)
        if (b->report.misses[i].reason == reason) return true;
    return false;
}

/* For looking at a failing test. */
static inline void bench_print(bench *b) {
    qf_buffer buffer = {.context = b->context};
    qf_graph_print(&buffer, b->graph);
    print_message("%s", buffer.data);
    qf_buffer_destroy(&buffer);
}

#endif
