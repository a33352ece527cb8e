/* Owns: dense elements as constants and parameters.
 * Does not own: attributes that are read as lists (attributes.c).
 * Next: maps.h. */
#include "frontends/mlir/maps.h"

#include <stdio.h>

#include "base/convert.h"

static qf_value emit_literal(qf_mlir_call *call, qf_type type, const void *data, uint64_t size) {
    qf_literal literal = {.type = type, .size = size, .data = data};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_mlir_defaults(call, QF_OP_constant, attributes);
    attributes[QF_ATTR(constant, value)].literal = &literal;
    return qf_import_op(qf_mlir_target(call), QF_OP_constant, NULL, 0, attributes);
}

/* One element of a dense attribute; booleans are packed in memory in some versions. */
static bool read_element(MlirAttribute attribute, qf_dtype dtype, int64_t index, uint8_t *out) {
    const uint8_t *raw = mlirDenseElementsAttrGetRawData(attribute);
    if (dtype == QF_I1) {
        out[0] = mlirDenseElementsAttrGetBoolValue(attribute, (intptr_t)index);
        return true;
    }
    if (!raw) return false;
    uint64_t size = qf_dtype_bytes(dtype, 1); /* four bits: a byte an element */
    memcpy(out, raw + (uint64_t)index * size, (size_t)size);
    return true;
}

static qf_value splat(qf_mlir_call *call, MlirAttribute attribute, qf_type type) {
    const qf_context *context = call->import->context;
    union {
        uint8_t bytes[8];
        double aligned;
    } element = {{0}};
    qf_dtype dtype = qf_type_dtype(context, type);
    if (!read_element(attribute, dtype, 0, element.bytes)) return (qf_value){0};
    qf_type scalar = qf_type_tensor(call->import->context, dtype, NULL, 0);
    qf_value value = emit_literal(call, scalar, element.bytes, qf_dtype_bytes(dtype, 1));
    if (!qf_type_rank(context, type)) return value;
    return qf_import_full(qf_mlir_target(call), value, qf_type_dims(context, type), qf_type_rank(context, type));
}

/* Elements in our layout: a byte a boolean, two elements a byte of four bits. */
static void *unpacked(qf_mlir_call *call, MlirAttribute attribute, qf_dtype dtype, uint64_t count) {
    uint8_t *data = qf_arena_allocate(&call->import->graph->arena, (size_t)qf_dtype_bytes(dtype, count) + 8);
    for (uint64_t i = 0; data && i < count; i++) {
        uint8_t element[8] = {0};
        if (!read_element(attribute, dtype, (int64_t)i, element)) return NULL;
        if (qf_dtype_bits(dtype) == 4)
            data[i / 2] = (uint8_t)(data[i / 2] | (element[0] & 15) << (i % 2 * 4));
        else
            data[i] = element[0];
    }
    call->import->failed |= !data;
    return data;
}

static qf_value parameter(qf_mlir_call *call, qf_type type, const void *data, uint64_t size) {
    char name[40];
    qf_mlir_import_state *import = call->import;
    (void)snprintf(name, sizeof name, "constant%u", import->weight_count++);
    qf_string interned = qf_intern_c(import->context, name);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_mlir_defaults(call, QF_OP_parameter, attributes);
    attributes[QF_ATTR(parameter, name)].string = interned;
    attributes[QF_ATTR(parameter, size)].integer = (int64_t)size;
    if (!interned.id || (data && !qf_graph_set_weight(import->graph, interned, data, size))) return (qf_value){0};
    qf_node_spec spec = {
        .op = QF_OP_parameter, .attributes = attributes, .result_types = &type, .location = call->location};
    import->node_count++;
    qf_node node = qf_graph_insert(import->graph, (qf_node){0}, &spec);
    return node.id ? qf_node_result(import->graph, node, 0) : (qf_value){0};
}

static uint64_t limit_of(const qf_mlir_call *call, qf_dtype dtype) {
    if (call->import->options.max_constant_bytes) return call->import->options.max_constant_bytes;
    return qf_dtype_is_float(dtype) ? QF_MLIR_SMALL_BYTES : QF_MLIR_SMALL_INTEGER_BYTES;
}

static qf_value dense(qf_mlir_call *call, MlirAttribute attribute, qf_type type, uint64_t count) {
    qf_dtype dtype = qf_type_dtype(call->import->context, type);
    uint64_t size = qf_dtype_bytes(dtype, count);
    bool ours = dtype != QF_I1 && qf_dtype_bits(dtype) >= 8;
    const void *data = ours ? mlirDenseElementsAttrGetRawData(attribute) : unpacked(call, attribute, dtype, count);
    if (!data) return (qf_value){0};
    if (size <= limit_of(call, dtype)) return emit_literal(call, type, data, size);
    return parameter(call, type, data, size);
}

static qf_value number(qf_mlir_call *call, MlirAttribute attribute, qf_dtype dtype) {
    if (mlirAttributeIsABool(attribute)) return qf_mlir_scalar(call, dtype, mlirBoolAttrGetValue(attribute));
    if (mlirAttributeIsAFloat(attribute)) return qf_mlir_scalar(call, dtype, mlirFloatAttrGetValueDouble(attribute));
    int64_t integer = qf_mlir_int(call, "value", 0);
    union {
        uint8_t bytes[8];
        int64_t aligned;
    } element = {{0}};
    qf_store_i64(dtype, element.bytes, 0, integer);
    return emit_literal(call, qf_type_tensor(call->import->context, dtype, NULL, 0), element.bytes,
                        qf_dtype_bytes(dtype, 1));
}

/* Bytes of resources cannot be read by mlir-c whatever their type. */
static qf_mlir_outcome without_bytes(qf_mlir_call *call, qf_type type, uint64_t count) {
    const char *text = qf_mlir_printed(call, "value");
    if (!text) return QF_MLIR_FAILED;
    if (strncmp(text, "dense_resource", 14) != 0) return qf_mlir_decline(call, "its value is not dense");
    qf_position position = {.location = call->where};
    qf_message(call->import->context, QF_SEVERITY_WARNING, &position,
               "the bytes of %.60s are not read: a parameter stands for it; bind its weight before running", text);
    return qf_mlir_done(call,
                        parameter(call, type, NULL, qf_dtype_bytes(qf_type_dtype(call->import->context, type), count)));
}

qf_mlir_outcome qf_mlir_map_constant(qf_mlir_call *call) {
    MlirAttribute value = qf_mlir_attribute(call->operation, "value");
    qf_type type = qf_mlir_result_type(call, 0);
    uint64_t count;
    if (!type.id) return QF_MLIR_FAILED;
    qf_dtype dtype = qf_type_dtype(call->import->context, type);
    if (mlirAttributeIsNull(value)) return qf_mlir_decline(call, "it has no value");
    if (dtype == QF_DTYPE_NONE || !qf_type_static_count(call->import->context, type, &count))
        return qf_mlir_decline(call, "QFuse does not have its type");
    bool scalar = mlirAttributeIsAFloat(value) || mlirAttributeIsABool(value) || mlirAttributeIsAInteger(value);
    if (scalar && count != 1) return qf_mlir_decline(call, "its value is not of its type");
    if (scalar) return qf_mlir_done(call, number(call, value, dtype));
    if (!mlirAttributeIsADenseElements(value)) return without_bytes(call, type, count);
    MlirType held = mlirAttributeGetType(value);
    if (qf_mlir_dtype(mlirShapedTypeGetElementType(held)) != dtype ||
        mlirElementsAttrGetNumElements(value) != (int64_t)count)
        return qf_mlir_decline(call, "its value is not of its type");
    bool same = count && mlirDenseElementsAttrIsSplat(value);
    return qf_mlir_done(call, same ? splat(call, value, type) : dense(call, value, type, count));
}
