/* Owns: reading attributes of an operation by name, as numbers, lists, names and printed text.
 * Does not own: what printed text holds (printed.c), tensors as values (constants.c).
 * Next: printed.c. */
#include "frontends/mlir/build.h"

MlirAttribute qf_mlir_attribute(MlirOperation operation, const char *name) {
    return mlirOperationGetAttributeByName(operation, qf_mlir_string(name));
}

bool qf_mlir_has(const qf_mlir_call *call, const char *name) {
    return !mlirAttributeIsNull(qf_mlir_attribute(call->operation, name));
}

/* Integers of at most 64 bits, whatever their sign. */
static bool integer_of(MlirAttribute attribute, int64_t *out) {
    if (mlirAttributeIsNull(attribute) || !mlirAttributeIsAInteger(attribute)) return false;
    MlirType type = mlirAttributeGetType(attribute);
    if (mlirTypeIsAIndex(type)) {
        *out = mlirIntegerAttrGetValueInt(attribute);
        return true;
    }
    if (!mlirTypeIsAInteger(type) || mlirIntegerTypeGetWidth(type) > 64) return false;
    if (mlirIntegerTypeIsUnsigned(type))
        *out = (int64_t)mlirIntegerAttrGetValueUInt(attribute);
    else if (mlirIntegerTypeIsSigned(type))
        *out = mlirIntegerAttrGetValueSInt(attribute);
    else
        *out = mlirIntegerAttrGetValueInt(attribute);
    return true;
}

int64_t qf_mlir_int(const qf_mlir_call *call, const char *name, int64_t otherwise) {
    int64_t value;
    return integer_of(qf_mlir_attribute(call->operation, name), &value) ? value : otherwise;
}

bool qf_mlir_bool(const qf_mlir_call *call, const char *name, bool otherwise) {
    MlirAttribute attribute = qf_mlir_attribute(call->operation, name);
    if (mlirAttributeIsNull(attribute) || !mlirAttributeIsABool(attribute)) return otherwise;
    return mlirBoolAttrGetValue(attribute);
}

double qf_mlir_number(const qf_mlir_call *call, const char *name, double otherwise) {
    MlirAttribute attribute = qf_mlir_attribute(call->operation, name);
    int64_t integer;
    if (mlirAttributeIsNull(attribute)) return otherwise;
    if (mlirAttributeIsAFloat(attribute)) return mlirFloatAttrGetValueDouble(attribute);
    return integer_of(attribute, &integer) ? (double)integer : otherwise;
}

qf_text qf_mlir_symbol_name(MlirOperation operation, const char *name) {
    MlirAttribute attribute = qf_mlir_attribute(operation, name);
    if (mlirAttributeIsNull(attribute)) return (qf_text){"", 0};
    if (mlirAttributeIsAFlatSymbolRef(attribute)) return qf_mlir_text_of(mlirFlatSymbolRefAttrGetValue(attribute));
    if (mlirAttributeIsAString(attribute)) return qf_mlir_text_of(mlirStringAttrGetValue(attribute));
    return (qf_text){"", 0};
}

/* --- lists --- */
static bool element_of(MlirAttribute attribute, intptr_t index, int64_t *out) {
    MlirType element = mlirShapedTypeGetElementType(mlirAttributeGetType(attribute));
    if (mlirTypeIsAIndex(element)) {
        const int64_t *raw = mlirDenseElementsAttrGetRawData(attribute);
        if (raw) *out = raw[mlirDenseElementsAttrIsSplat(attribute) ? 0 : index];
        return raw != NULL;
    }
    if (!mlirTypeIsAInteger(element)) return false;
    switch (mlirIntegerTypeGetWidth(element)) {
    case 1: *out = mlirDenseElementsAttrGetBoolValue(attribute, index); return true;
    case 32: *out = mlirDenseElementsAttrGetInt32Value(attribute, index); return true;
    case 64: *out = mlirDenseElementsAttrGetInt64Value(attribute, index); return true;
    default: return false;
    }
}

static bool ints_of(MlirAttribute attribute, int64_t *out, uint32_t limit, uint32_t *out_count) {
    *out_count = 0;
    if (mlirAttributeIsNull(attribute)) return false;
    bool wide = mlirAttributeIsADenseI64Array(attribute), narrow = mlirAttributeIsADenseI32Array(attribute);
    bool truths = mlirAttributeIsADenseBoolArray(attribute), list = mlirAttributeIsAArray(attribute);
    bool dense = mlirAttributeIsADenseElements(attribute);
    if (!wide && !narrow && !truths && !list && !dense) return false;
    intptr_t count = list    ? mlirArrayAttrGetNumElements(attribute)
                     : dense ? mlirElementsAttrGetNumElements(attribute)
                             : mlirDenseArrayGetNumElements(attribute);
    if (count < 0 || count > (intptr_t)limit) return false;
    for (intptr_t i = 0; i < count; i++) {
        if (wide)
            out[i] = mlirDenseI64ArrayGetElement(attribute, i);
        else if (narrow)
            out[i] = mlirDenseI32ArrayGetElement(attribute, i);
        else if (truths)
            out[i] = mlirDenseBoolArrayGetElement(attribute, i);
        else if (dense ? !element_of(attribute, i, &out[i])
                       : !integer_of(mlirArrayAttrGetElement(attribute, i), &out[i]))
            return false;
    }
    *out_count = (uint32_t)count;
    return true;
}

bool qf_mlir_ints(const qf_mlir_call *call, const char *name, int64_t *out, uint32_t limit, uint32_t *out_count) {
    return ints_of(qf_mlir_attribute(call->operation, name), out, limit, out_count);
}

/* --- text --- */
static void append_part(MlirStringRef part, void *user) {
    qf_buffer_append(user, part.data, part.length);
}

const char *qf_mlir_printed(qf_mlir_call *call, const char *name) {
    MlirAttribute attribute = qf_mlir_attribute(call->operation, name);
    qf_mlir_import_state *import = call->import;
    if (mlirAttributeIsNull(attribute)) return NULL;
    qf_buffer buffer = {.context = import->context};
    if (mlirAttributeIsAString(attribute)) /* without quotes and escapes */
        append_part(mlirStringAttrGetValue(attribute), &buffer);
    else
        mlirAttributePrint(attribute, append_part, &buffer);
    const char *copy =
        buffer.failed ? NULL : qf_arena_copy(&import->scratch, buffer.data ? buffer.data : "", buffer.size + 1);
    import->failed |= !copy;
    qf_buffer_destroy(&buffer);
    return copy;
}
