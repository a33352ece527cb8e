/* Owns: operations of dialect qfuse, as export.c writes them.
 * Does not own: writing them (export_operation.c).
 * Next: export_operation.c. */
#include "frontends/mlir/maps.h"

/* An attribute by its kind; what is absent keeps its default. False: another kind of attribute than the op has. */
static bool read_attribute(qf_mlir_call *call, const qf_attribute_info *info, qf_attribute *out) {
    if (!qf_mlir_has(call, info->name)) return info->default_text != NULL;
    qf_text name = qf_mlir_symbol_name(call->operation, info->name);
    int64_t *ints;
    uint32_t count;
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: out->integer = qf_mlir_bool(call, info->name, false); return true;
    case QF_ATTRIBUTE_INT: out->integer = qf_mlir_int(call, info->name, 0); return true;
    case QF_ATTRIBUTE_FLOAT: out->number = qf_mlir_number(call, info->name, 0); return true;
    case QF_ATTRIBUTE_ENUM: out->integer = qf_enum_number(info->enumeration, name); return out->integer >= 0;
    case QF_ATTRIBUTE_STRING: out->string = qf_intern(call->import->context, name); return out->string.id != 0;
    case QF_ATTRIBUTE_DTYPE: {
        MlirAttribute attribute = qf_mlir_attribute(call->operation, info->name);
        if (!mlirAttributeIsAType(attribute)) return false;
        out->integer = qf_mlir_dtype(mlirTypeAttrGetValue(attribute));
        return out->integer != QF_DTYPE_NONE;
    }
    case QF_ATTRIBUTE_INTS:
        ints = QF_ARENA_NEW(&call->import->scratch, int64_t, QF_MAX_RANK);
        if (!ints || !qf_mlir_ints(call, info->name, ints, QF_MAX_RANK, &count)) return false;
        *out = (qf_attribute){.ints = ints, .count = count};
        return true;
    default: return false;
    }
}

/* Operands by position, or by name where the operation lists `operand_names`. */
static bool place_operands(qf_mlir_call *call, qf_op op, qf_value *out, uint32_t *out_count) {
    const qf_op_info *info = qf_op_info_of(op);
    MlirAttribute names = qf_mlir_attribute(call->operation, "operand_names");
    *out_count = info->operand_count;
    if (mlirAttributeIsNull(names)) {
        if (call->operand_count > info->operand_count) return false;
        memcpy(out, call->operands, call->operand_count * sizeof *out);
        return call->operand_count >= info->required_operands;
    }
    if (!mlirAttributeIsAArray(names) || mlirArrayAttrGetNumElements(names) != (intptr_t)call->operand_count)
        return false;
    for (uint32_t i = 0; i < call->operand_count; i++) {
        MlirAttribute name = mlirArrayAttrGetElement(names, i);
        if (!mlirAttributeIsAString(name)) return false;
        int32_t index = qf_op_operand_index(op, qf_mlir_text_of(mlirStringAttrGetValue(name)));
        if (index < 0 || out[index].id) return false;
        out[index] = call->operands[i];
    }
    for (uint32_t i = 0; i < info->required_operands; i++)
        if (!out[i].id) return false;
    return true;
}

qf_mlir_outcome qf_mlir_map_qfuse(qf_mlir_call *call) {
    qf_op op = (qf_op)call->row->argument;
    const qf_op_info *info = qf_op_info_of(op);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_value operands[32] = {{0}};
    uint32_t count;
    if (!call->result_count || call->result_count > info->result_count || !place_operands(call, op, operands, &count))
        return qf_mlir_decline(call, "its operands are not those of the op");
    qf_mlir_defaults(call, op, attributes);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!read_attribute(call, &info->attributes[i], &attributes[i]))
            return qf_mlir_decline(call, "its attributes are not those of the op");
    qf_node node = qf_import_node(qf_mlir_emitter(call), op, operands, count, attributes, call->result_count);
    if (!node.id) return QF_MLIR_FAILED;
    for (uint32_t i = 0; i < call->result_count; i++) call->results[i] = qf_node_result(qf_mlir_graph(call), node, i);
    return QF_MLIR_MAPPED;
}
