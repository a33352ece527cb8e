/* Owns: what tests of the ONNX frontend repeat: importing what must be good, reading what was written.
 * Does not own: building models (model_builder.h).
 * Next: onnx_ops_test.c. */
#ifndef QF_TESTS_FRONTENDS_IMPORTING_H
#define QF_TESTS_FRONTENDS_IMPORTING_H

#include "tests/frontends/model_builder.h"

/* Element types as ONNX numbers them. */
enum { FLOAT = 1, UINT8 = 2, UINT16 = 4, INT32 = 6, INT64 = 7, BOOL = 9, FLOAT16 = 10, FP8 = 17 };

static check_state state;

static inline qf_graph *good_as(builder *b, qf_context *context, qf_onnx_revision revision) {
    qf_graph *graph = b_import_as(b, context, revision);
    if (!graph) fail_msg("%s", state.messages);
    if (qf_graph_verify(graph) != QF_OK) fail_msg("%s", state.messages);
    return graph;
}

static inline qf_graph *good(builder *b, qf_context *context) {
    return good_as(b, context, QF_ONNX_REVISION_NEWEST);
}

static inline void end(builder *b, qf_graph *graph, qf_context *context) {
    qf_graph_destroy(graph);
    check_destroy(context, &state);
    b_end(b);
}

static inline const qf_attribute *attribute(const qf_graph *graph, qf_node node, uint32_t index) {
    return qf_node_attribute(graph, node, index);
}

/* A graph as the bytes of a model, and the model that they hold. */
typedef struct written_model {
    void *data;
    size_t size;
    Onnx__ModelProto *model;
} written_model;

static inline written_model write_model(const qf_graph *graph) {
    written_model file;
    assert_int_equal(qf_onnx_export_memory(graph, &file.data, &file.size), QF_OK);
    file.model = onnx__model_proto__unpack(NULL, file.size, file.data);
    assert_non_null(file.model);
    return file;
}

static inline void written_free(qf_context *context, written_model *file) {
    onnx__model_proto__free_unpacked(file->model, NULL);
    qf_onnx_free(context, file->data, file->size);
}

#endif
