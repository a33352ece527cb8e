/* Owns: building small ONNX models in C for tests, and importing them.
 * Does not own: what tests check.
 * Next: onnx_ops_test.c. */
#ifndef QF_TESTS_FRONTENDS_MODEL_BUILDER_H
#define QF_TESTS_FRONTENDS_MODEL_BUILDER_H

#include "tests/check.h"

#include <math.h>
#include <onnx.pb-c.h>
#include <qfuse/onnx.h>

#include "ir/graph.h"
#include "ir/text.h"
#include "ir/verify.h"

#define B_MAX 64

/* A model under construction; all strings and messages live in static test memory until the next b_begin. */
typedef struct builder {
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto *opsets[8];
    Onnx__NodeProto *nodes[B_MAX];
    Onnx__TensorProto *initializers[B_MAX];
    Onnx__ValueInfoProto *inputs[B_MAX], *outputs[B_MAX], *infos[B_MAX];
    Onnx__FunctionProto *functions[8];
    void *blocks[4096];
    size_t block_count;
} builder;

static void *b_new(builder *b, size_t size) {
    void *block = calloc(1, size ? size : 1);
    assert_non_null(block);
    assert_true(b->block_count < QF_COUNT_OF(b->blocks));
    return b->blocks[b->block_count++] = block;
}

static char *b_text(builder *b, const char *text) {
    return strcpy(b_new(b, strlen(text) + 1), text);
}

static void b_opset(builder *b, const char *domain, int64_t version) {
    Onnx__OperatorSetIdProto *opset = b_new(b, sizeof *opset);
    onnx__operator_set_id_proto__init(opset);
    opset->domain = b_text(b, domain);
    opset->has_version = 1;
    opset->version = version;
    b->opsets[b->model.n_opset_import++] = opset;
}

static builder *b_begin(int64_t version) {
    builder *b = calloc(1, sizeof *b);
    assert_non_null(b);
    onnx__model_proto__init(&b->model);
    onnx__graph_proto__init(&b->graph);
    b->model.graph = &b->graph;
    b->model.opset_import = b->opsets;
    b->graph.node = b->nodes;
    b->graph.initializer = b->initializers;
    b->graph.input = b->inputs;
    b->graph.output = b->outputs;
    b->graph.value_info = b->infos;
    b->model.functions = b->functions;
    b_opset(b, "", version);
    return b;
}

static void b_end(builder *b) {
    for (size_t i = 0; i < b->block_count; i++) free(b->blocks[i]);
    free(b);
}

/* `shape` is "2,T,4"; NULL: unranked. */
static Onnx__ValueInfoProto *b_info(builder *b, const char *name, int32_t dtype, const char *shape) {
    Onnx__ValueInfoProto *info = b_new(b, sizeof *info);
    onnx__value_info_proto__init(info);
    info->name = b_text(b, name);
    info->type = b_new(b, sizeof *info->type);
    onnx__type_proto__init(info->type);
    info->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    Onnx__TypeProto__Tensor *tensor = info->type->tensor_type = b_new(b, sizeof *tensor);
    onnx__type_proto__tensor__init(tensor);
    tensor->has_elem_type = 1;
    tensor->elem_type = dtype;
    if (!shape) return info;
    tensor->shape = b_new(b, sizeof *tensor->shape);
    onnx__tensor_shape_proto__init(tensor->shape);
    tensor->shape->dim = b_new(b, 16 * sizeof *tensor->shape->dim);
    for (const char *at = shape; *at;) {
        size_t size = strcspn(at, ",");
        char *text = b_new(b, size + 1);
        memcpy(text, at, size);
        Onnx__TensorShapeProto__Dimension *dim = b_new(b, sizeof *dim);
        onnx__tensor_shape_proto__dimension__init(dim);
        if (strspn(text, "0123456789") == size) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = atoll(text);
        } else {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = text;
        }
        tensor->shape->dim[tensor->shape->n_dim++] = dim;
        at += size + (at[size] == ',');
    }
    return info;
}

static void b_input(builder *b, const char *name, int32_t dtype, const char *shape) {
    b->inputs[b->graph.n_input++] = b_info(b, name, dtype, shape);
}

static void b_output(builder *b, const char *name) {
    Onnx__ValueInfoProto *info = b_new(b, sizeof *info);
    onnx__value_info_proto__init(info);
    info->name = b_text(b, name);
    b->outputs[b->graph.n_output++] = info;
}

/* Space-separated names; "-" is an absent optional one. */
static size_t b_names(builder *b, const char *names, char ***out) {
    size_t count = 0;
    *out = b_new(b, B_MAX * sizeof **out);
    for (const char *at = names; *at;) {
        size_t size = strcspn(at, " ");
        char *name = b_new(b, size + 1);
        memcpy(name, at, size);
        (*out)[count++] = strcmp(name, "-") == 0 ? b_text(b, "") : name;
        at += size + (at[size] == ' ');
    }
    return count;
}

static Onnx__NodeProto *b_make(builder *b, const char *domain, const char *op_type, const char *inputs,
                               const char *outputs) {
    Onnx__NodeProto *node = b_new(b, sizeof *node);
    onnx__node_proto__init(node);
    node->domain = b_text(b, domain);
    node->op_type = b_text(b, op_type);
    node->n_input = b_names(b, inputs, &node->input);
    node->n_output = b_names(b, outputs, &node->output);
    node->attribute = b_new(b, 16 * sizeof *node->attribute);
    return node;
}

static Onnx__NodeProto *b_node(builder *b, const char *domain, const char *op_type, const char *inputs,
                               const char *outputs) {
    return b->nodes[b->graph.n_node++] = b_make(b, domain, op_type, inputs, outputs);
}

/* A function of the model, with room for 32 nodes. */
static inline Onnx__FunctionProto *b_function(builder *b, const char *domain, const char *name, const char *inputs,
                                              const char *outputs) {
    Onnx__FunctionProto *function = b_new(b, sizeof *function);
    onnx__function_proto__init(function);
    function->domain = b_text(b, domain);
    function->name = b_text(b, name);
    function->n_input = b_names(b, inputs, &function->input);
    function->n_output = b_names(b, outputs, &function->output);
    function->node = b_new(b, 32 * sizeof *function->node);
    return b->functions[b->model.n_functions++] = function;
}

static Onnx__AttributeProto *b_attribute(builder *b, Onnx__NodeProto *node, const char *name,
                                         Onnx__AttributeProto__AttributeType type) {
    Onnx__AttributeProto *attribute = b_new(b, sizeof *attribute);
    onnx__attribute_proto__init(attribute);
    attribute->name = b_text(b, name);
    attribute->has_type = 1;
    attribute->type = type;
    return node->attribute[node->n_attribute++] = attribute;
}

static inline void b_int(builder *b, Onnx__NodeProto *node, const char *name, int64_t value) {
    Onnx__AttributeProto *attribute = b_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    attribute->has_i = 1;
    attribute->i = value;
}

static inline void b_float(builder *b, Onnx__NodeProto *node, const char *name, float value) {
    Onnx__AttributeProto *attribute = b_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    attribute->has_f = 1;
    attribute->f = value;
}

static inline void b_ints(builder *b, Onnx__NodeProto *node, const char *name, const int64_t *values, size_t count) {
    Onnx__AttributeProto *attribute = b_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    attribute->ints = b_new(b, count * sizeof *values);
    memcpy(attribute->ints, values, count * sizeof *values);
    attribute->n_ints = count;
}

static inline void b_string(builder *b, Onnx__NodeProto *node, const char *name, const char *value) {
    Onnx__AttributeProto *attribute = b_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    attribute->has_s = 1;
    attribute->s.data = (uint8_t *)b_text(b, value);
    attribute->s.len = strlen(value);
}

/* An initialiser of raw bytes. rank 0 where dims is NULL. */
static Onnx__TensorProto *b_initializer(builder *b, const char *name, int32_t dtype, const int64_t *dims, size_t rank,
                                        const void *data, size_t size) {
    Onnx__TensorProto *tensor = b_new(b, sizeof *tensor);
    onnx__tensor_proto__init(tensor);
    tensor->name = b_text(b, name);
    tensor->has_data_type = 1;
    tensor->data_type = dtype;
    tensor->dims = b_new(b, rank * sizeof *dims);
    if (rank) memcpy(tensor->dims, dims, rank * sizeof *dims);
    tensor->n_dims = rank;
    tensor->has_raw_data = 1;
    tensor->raw_data.data = b_new(b, size);
    if (size) memcpy(tensor->raw_data.data, data, size);
    tensor->raw_data.len = size;
    return b->initializers[b->graph.n_initializer++] = tensor;
}

static inline void b_scalar(builder *b, const char *name, float value) {
    (void)b_initializer(b, name, 1, NULL, 0, &value, sizeof value);
}

static inline void b_vector(builder *b, const char *name, const int64_t *values, size_t count) {
    int64_t length = (int64_t)count;
    (void)b_initializer(b, name, 7, &length, 1, values, count * sizeof *values);
}

static uint8_t *b_pack(builder *b, size_t *out_size) {
    *out_size = protobuf_c_message_get_packed_size(&b->model.base);
    uint8_t *data = b_new(b, *out_size);
    (void)protobuf_c_message_pack(&b->model.base, data);
    return data;
}

/* NULL after a failure. The bytes live until b_end. */
static inline qf_graph *b_import_as(builder *b, qf_context *context, qf_onnx_revision revision) {
    size_t size;
    const uint8_t *data = b_pack(b, &size);
    qf_onnx_import_options options = {.struct_size = sizeof options, .revision = revision, .name = "test"};
    qf_graph *graph;
    return qf_onnx_import_memory(context, data, size, &options, &graph) == QF_OK ? graph : NULL;
}

static inline qf_graph *b_import(builder *b, qf_context *context) {
    return b_import_as(b, context, QF_ONNX_REVISION_NEWEST);
}

/* The first node of an op; fails the test where there is none. */
static inline qf_node b_find(const qf_graph *graph, qf_op op) {
    QF_FOR_EACH_NODE(graph, node)
    if (qf_node_op(graph, node) == op) return node;
    return (qf_node){0};
}

static inline uint32_t b_count(const qf_graph *graph, qf_op op) {
    uint32_t count = 0;
    QF_FOR_EACH_NODE(graph, node) count += qf_node_op(graph, node) == op;
    return count;
}

/* The type of output `index`, as text. */
static inline void b_check_type(const qf_graph *graph, uint32_t index, const char *expected) {
    qf_buffer text = {.context = graph->context};
    qf_type_print(&text, graph->context, qf_value_type(graph, qf_node_operand(graph, graph->last, index)));
    assert_string_equal(text.data, expected);
    qf_buffer_destroy(&text);
}

#endif
