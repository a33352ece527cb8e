/* Owns: what a tensor of the model becomes: a constant, a parameter, or an opaque node.
 * Does not own: reading its bytes (tensor.c, external.c).
 * Next: tensor.c. */
#include <string.h>

#include "frontends/onnx/build.h"

/* Element types that QFuse lacks: the tensor stays as it is in an opaque node. */
static qf_value opaque_tensor(qf_onnx_import *import, const Onnx__TensorProto *tensor, const qf_onnx_bytes *cut,
                              qf_type type, qf_location location) {
    Onnx__TensorProto copy = *tensor;
    if (cut) {
        union {
            const void *read_only;
            uint8_t *bytes;
        } data = {.read_only = cut->data};
        copy.has_raw_data = 1;
        copy.raw_data.data = data.bytes; /* only read, by the packing */
        copy.raw_data.len = (size_t)cut->size;
    }
    size_t size = protobuf_c_message_get_packed_size(&copy.base);
    uint8_t *packed = qf_arena_allocate(&import->scratch, size);
    if (!packed) return (qf_value){0};
    (void)protobuf_c_message_pack(&copy.base, packed);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(import->graph, QF_OP_opaque, attributes);
    attributes[QF_ATTR(opaque, name)].string = qf_intern_c(import->context, "onnx.TensorProto");
    attributes[QF_ATTR(opaque, payload)].string = qf_intern(import->context, (qf_text){(char *)packed, size});
    attributes[QF_ATTR(opaque, pure)].integer = true;
    qf_node_spec spec = {
        .op = QF_OP_opaque, .attributes = attributes, .result_count = 1, .result_types = &type, .location = location};
    qf_node node = qf_graph_insert(import->graph, (qf_node){0}, &spec);
    return node.id ? qf_node_result(import->graph, node, 0) : (qf_value){0};
}

static qf_value constant(qf_onnx_import *import, qf_type type, const qf_onnx_bytes *bytes, qf_location location) {
    qf_literal literal = {.type = type, .size = bytes->size, .data = bytes->data};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(import->graph, QF_OP_constant, attributes);
    attributes[QF_ATTR(constant, value)].literal = &literal;
    qf_node_spec spec = {.op = QF_OP_constant, .attributes = attributes, .location = location};
    qf_node node = qf_graph_insert(import->graph, (qf_node){0}, &spec);
    return node.id ? qf_node_result(import->graph, node, 0) : (qf_value){0};
}

static qf_value parameter(qf_onnx_import *import, qf_type type, const qf_onnx_bytes *bytes, const char *name,
                          qf_location location) {
    qf_context *context = import->context;
    qf_graph *graph = import->graph;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(graph, QF_OP_parameter, attributes);
    qf_string key = qf_intern_c(context, name);
    attributes[QF_ATTR(parameter, name)].string = key;
    attributes[QF_ATTR(parameter, size)].integer = (int64_t)bytes->size;
    attributes[QF_ATTR(parameter, hash)].integer = (int64_t)qf_hash_bytes(bytes->data, (size_t)bytes->size, 0);
    if (bytes->file) {
        attributes[QF_ATTR(parameter, file)].string = qf_intern_c(context, bytes->file);
        attributes[QF_ATTR(parameter, offset)].integer = (int64_t)bytes->offset;
    }
    if (!QF_GROW(context, graph->weights, graph->weight_capacity, (uint64_t)graph->weight_count + 1))
        return (qf_value){0};
    graph->weights[graph->weight_count++] = (qf_weight){key, bytes->data, bytes->size};
    qf_node_spec spec = {.op = QF_OP_parameter, .attributes = attributes, .result_types = &type, .location = location};
    qf_node node = qf_graph_insert(graph, (qf_node){0}, &spec);
    return node.id ? qf_node_result(graph, node, 0) : (qf_value){0};
}

qf_value qf_onnx_import_tensor(qf_onnx_import *import, const Onnx__TensorProto *tensor, const qf_onnx_bytes *cut,
                               const char *name, qf_location location, const char *where) {
    qf_context *context = import->context;
    qf_type type = qf_onnx_tensor_type(context, tensor, where);
    if (!type.id) return (qf_value){0};
    qf_dtype dtype = qf_type_dtype(context, type);
    if (dtype == QF_DTYPE_NONE) return opaque_tensor(import, tensor, cut, type, location);
    qf_onnx_bytes bytes;
    if (qf_onnx_tensor_bytes(import->storage, &import->folders, tensor, cut, type, where, &bytes) != QF_OK)
        return (qf_value){0};
    bool small = bytes.size <= (qf_dtype_is_float(dtype) ? QF_ONNX_SMALL_BYTES : QF_ONNX_SMALL_INTEGER_BYTES);
    return small ? constant(import, type, &bytes, location) : parameter(import, type, &bytes, name, location);
}
