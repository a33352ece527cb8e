/* Owns: what tests of passes share: text in, pipeline, text out.
 * Does not own: contexts (check.h).
 * Next: tests/passes. */
#ifndef QF_TESTS_GRAPHS_H
#define QF_TESTS_GRAPHS_H

#include <qfuse/pass.h>

#include "ir/text.h"
#include "tests/check.h"

static inline qf_graph *graph_of(qf_context *context, const char *text) {
    qf_graph *graph = qf_graph_parse(context, qf_text_of(text), "test");
    if (!graph && context->handler_user) (void)fprintf(stderr, "%s", ((check_state *)context->handler_user)->messages);
    assert_non_null(graph);
    return graph;
}

/* The graph's text, freed by the caller with free(). */
static inline char *text_of(const qf_graph *graph) {
    qf_buffer buffer = {.context = graph->context};
    qf_graph_print(&buffer, graph);
    char *copy = strdup(buffer.data);
    qf_buffer_destroy(&buffer);
    return copy;
}

static inline uint32_t count_op(const qf_graph *graph, qf_op op) {
    uint32_t count = 0;
    QF_FOR_EACH_NODE(graph, node) count += qf_node_op(graph, node) == op;
    return count;
}

static inline qf_node find_op(const qf_graph *graph, qf_op op) {
    QF_FOR_EACH_NODE(graph, node)
    if (qf_node_op(graph, node) == op) return node;
    return (qf_node){0};
}

/* Runs the passes, which must succeed, a second time too: nothing may change then. */
static inline void run_passes(qf_graph *graph, const char *passes, const char *numerics) {
    qf_pipeline_options options = {.struct_size = sizeof options, .passes = passes, .numerics = numerics};
    qf_status status = qf_run_pipeline(graph, &options, NULL);
    if (status != QF_OK) (void)fprintf(stderr, "%s", ((check_state *)graph->context->handler_user)->messages);
    assert_int_equal(status, QF_OK);
    char *once = text_of(graph);
    assert_int_equal(qf_run_pipeline(graph, &options, NULL), QF_OK);
    char *twice = text_of(graph);
    assert_string_equal(once, twice);
    free(once);
    free(twice);
}

#endif
