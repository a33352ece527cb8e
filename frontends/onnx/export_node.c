/* Owns: building the messages of nodes, attributes and tensors.
 * Does not own: which node an op becomes (export_ops.c).
 * Next: export_ops.c. */
#include <string.h>

#include "frontends/onnx/export.h"

/* An importer's name as it was; other locations as they print. */
static char *location_text(qf_onnx_export *export, qf_location location) {
    const qf_graph *graph = export->graph;
    if (!location.id) return NULL;
    const qf_location_data *data = &graph->locations[location.id];
    if (!data->line && !data->part_count) return qf_onnx_copy_text(export, qf_string_c(export->context, data->file));
    qf_buffer text = {.context = export->context};
    qf_location_print(&text, graph, location);
    char *copy = text.failed || !text.data ? NULL : qf_onnx_copy_text(export, text.data);
    qf_buffer_destroy(&text);
    return copy;
}

Onnx__NodeProto *qf_onnx_write_node(qf_onnx_export *export, qf_node node, const char *domain, const char *op_type) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    Onnx__NodeProto *proto = qf_onnx_new(export, sizeof *proto);
    if (!proto) return NULL;
    onnx__node_proto__init(proto);
    proto->name = location_text(export, data->location);
    proto->op_type = qf_onnx_copy_text(export, op_type);
    if (*domain) proto->domain = qf_onnx_copy_text(export, domain);
    qf_onnx_use_domain(export, domain);
    /* Room for inputs that the ONNX form adds (axes, shapes), and for every attribute of the op. */
    proto->input = qf_onnx_new(export, (data->operand_count + 8) * sizeof *proto->input);
    proto->output = qf_onnx_new(export, (data->result_count + 1) * sizeof *proto->output);
    proto->attribute = qf_onnx_new(export, (QF_MAX_ATTRIBUTES + 8) * sizeof *proto->attribute);
    char *absent = qf_onnx_copy_text(export, "");
    if (!proto->input || !proto->output || !proto->attribute || !absent) return NULL;
    for (uint32_t i = 0; i < data->operand_count; i++) {
        qf_value operand = data->operands[i].value;
        proto->input[proto->n_input++] = operand.id ? qf_onnx_name_of(export, operand) : absent;
    }
    while (proto->n_input && !*proto->input[proto->n_input - 1]) proto->n_input--;
    for (uint32_t i = 0; i < data->result_count; i++)
        proto->output[proto->n_output++] = qf_onnx_name_of(export, qf_result_at(data, i));
    qf_onnx_list_add(export, &export->nodes, proto);
    return export->failed ? NULL : proto;
}

void qf_onnx_write_input(qf_onnx_export *export, Onnx__NodeProto *node, char *name) {
    if (!node || !name) {
        export->failed = true;
        return;
    }
    node->input[node->n_input++] = name;
}

static Onnx__AttributeProto *add_attribute(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, int type) {
    Onnx__AttributeProto *attribute = qf_onnx_new(export, sizeof *attribute);
    if (!attribute || !node) return NULL;
    onnx__attribute_proto__init(attribute);
    attribute->name = qf_onnx_copy_text(export, name);
    attribute->has_type = 1;
    attribute->type = (Onnx__AttributeProto__AttributeType)type;
    node->attribute[node->n_attribute++] = attribute;
    return attribute;
}

void qf_onnx_write_int(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, int64_t value) {
    Onnx__AttributeProto *attribute = add_attribute(export, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (!attribute) return;
    attribute->has_i = 1;
    attribute->i = value;
}

void qf_onnx_write_ints(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, const int64_t *values,
                        uint32_t count) {
    Onnx__AttributeProto *attribute = add_attribute(export, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    if (!attribute) return;
    attribute->ints = qf_onnx_new(export, count * sizeof *values);
    if (!attribute->ints) return;
    if (count) memcpy(attribute->ints, values, count * sizeof *values);
    attribute->n_ints = count;
}

void qf_onnx_write_float(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, double value) {
    Onnx__AttributeProto *attribute = add_attribute(export, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    if (!attribute) return;
    attribute->has_f = 1;
    attribute->f = (float)value;
}

void qf_onnx_write_string(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, const char *text,
                          size_t size) {
    Onnx__AttributeProto *attribute = add_attribute(export, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    if (!attribute) return;
    attribute->has_s = 1;
    attribute->s.data = qf_onnx_new(export, size + 1);
    if (!attribute->s.data) return;
    if (size) memcpy(attribute->s.data, text, size);
    attribute->s.len = size;
}

void qf_onnx_write_tensor(qf_onnx_export *export, Onnx__NodeProto *node, const char *name, Onnx__TensorProto *tensor) {
    Onnx__AttributeProto *attribute = add_attribute(export, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
    if (attribute) attribute->t = tensor;
}

Onnx__TensorProto *qf_onnx_tensor_proto(qf_onnx_export *export, const char *name, qf_type type, const void *data,
                                        uint64_t size) {
    Onnx__TensorProto *tensor = qf_onnx_new(export, sizeof *tensor);
    if (!tensor) return NULL;
    onnx__tensor_proto__init(tensor);
    uint32_t rank = qf_type_rank(export->context, type);
    tensor->name = qf_onnx_copy_text(export, name);
    tensor->has_data_type = 1;
    tensor->data_type = qf_onnx_dtype_number(qf_type_dtype(export->context, type));
    tensor->dims = qf_onnx_new(export, (rank + 1) * sizeof *tensor->dims);
    if (!tensor->dims) return NULL;
    for (uint32_t i = 0; i < rank; i++)
        (void)qf_dim_is_constant(export->context, qf_type_dims(export->context, type)[i], &tensor->dims[i]);
    tensor->n_dims = rank;
    union {
        const void *read_only;
        uint8_t *bytes;
    } raw = {.read_only = data}; /* only read, by the packing */
    tensor->has_raw_data = 1;
    tensor->raw_data.data = raw.bytes;
    tensor->raw_data.len = (size_t)size;
    return tensor;
}

char *qf_onnx_write_constants(qf_onnx_export *export, const int64_t *values, uint32_t count, bool scalar) {
    qf_dim length = qf_dim_constant(export->context, count);
    qf_type type = qf_type_tensor(export->context, QF_I64, &length, scalar ? 0 : 1);
    int64_t *copy = qf_onnx_new(export, (count + 1) * sizeof *copy);
    char *name = qf_onnx_unique_name(export, "qfuse_constant");
    if (!type.id || !copy || !name) {
        export->failed = true;
        return NULL;
    }
    if (count) memcpy(copy, values, count * sizeof *copy);
    qf_onnx_list_add(export, &export->initializers,
                     qf_onnx_tensor_proto(export, name, type, copy, count * sizeof *copy));
    return name;
}
