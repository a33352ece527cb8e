/* Owns: what tests of the torch.export frontend repeat: importing, running, looking for text.
 * Does not own: building archives (pt2_builder.h).
 * Next: pt2_ops_test.c. */
#ifndef QF_TESTS_FRONTENDS_PT2_READING_H
#define QF_TESTS_FRONTENDS_PT2_READING_H

#include "tests/frontends/pt2_builder.h"

#include <qfuse/pass.h>

#include "codegen/interpret.h"
#include "ir/text.h"
#include "ir/verify.h"

static check_state state;

typedef struct reading {
    qf_context *context;
    qf_graph *graph;
    void *data; /* the archive */
    size_t size;
    qf_buffer text;
} reading;

/* Consumes the program. graph NULL after a failure, which state.messages tells. */
static inline reading r_try(program *p, const qf_pt2_import_options *options) {
    reading r = {0};
    r.data = p_archive(p, true, &r.size);
    r.context = check_context(&state);
    qf_status status = qf_pt2_import_memory(r.context, r.data, r.size, options, &r.graph);
    assert_int_equal(status == QF_OK, r.graph != NULL);
    return r;
}

static inline reading r_program(program *p, const qf_pt2_import_options *options) {
    reading r = r_try(p, options);
    if (!r.graph || qf_graph_verify(r.graph) != QF_OK) fail_msg("%s", state.messages);
    r.text.context = r.context;
    qf_graph_print(&r.text, r.graph);
    return r;
}

static inline reading r_text(const char *text) {
    return r_program(p_program(text), NULL);
}

static inline void r_end(reading *r) {
    qf_buffer_destroy(&r->text);
    qf_graph_destroy(r->graph);
    check_destroy(r->context, &state);
    free(r->data);
}

static inline void r_has(const reading *r, const char *text) {
    if (!strstr(r->text.data, text)) fail_msg("expected '%s' in\n%s", text, r->text.data);
}

static inline void r_lacks(const reading *r, const char *text) {
    if (strstr(r->text.data, text)) fail_msg("did not expect '%s' in\n%s", text, r->text.data);
}

/* Runs the graph on f32 vectors and compares an output. */
static inline void r_gives(const reading *r, float **inputs, uint32_t output, const float *wanted, uint32_t count) {
    qf_interpreter *interpreter = qf_interpreter_create(r->graph, 1);
    assert_non_null(interpreter);
    for (uint32_t i = 0; i < r->graph->input_count; i++) {
        qf_type type = qf_value_type(r->graph, r->graph->inputs[i]);
        qf_tensor tensor = {
            .dtype = qf_type_dtype(r->context, type), .rank = qf_type_rank(r->context, type), .data = inputs[i]};
        for (uint32_t axis = 0; axis < tensor.rank; axis++)
            assert_true(
                qf_dim_is_constant(r->context, qf_type_dim(r->context, type, (int32_t)axis), &tensor.dims[axis]));
        assert_int_equal(qf_interpreter_bind_input(interpreter, i, &tensor), QF_OK);
    }
    if (qf_interpreter_run(interpreter, NULL) != QF_OK) fail_msg("%s", state.messages);
    qf_tensor found;
    assert_true(qf_interpreter_value(interpreter, qf_node_operand(r->graph, r->graph->last, output), &found));
    assert_int_equal(qf_tensor_bytes(&found), count * sizeof(float));
    assert_memory_equal(found.data, wanted, count * sizeof(float));
    qf_interpreter_destroy(interpreter);
}

#endif
