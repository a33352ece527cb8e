/* Owns: operations of dialect qfuse, as export.c writes them.
 * Does not own: writing them (export_operation.c).
 * Next: export_operation.c. */
#include "frontends/mlir/maps.h"

#define MAX_OPERANDS 64

/* Dims that are all constants: a dense array; else text, one dim after another. */
static bool read_dims(qf_mlir_call *call, const char *name, qf_attribute *out) {
    int64_t numbers[QF_MAX_RANK];
    qf_context *context = call->import->context;
    qf_dim *dims = QF_ARENA_NEW(&call->import->scratch, qf_dim, QF_MAX_RANK + 1);
    uint32_t count = 0;
    if (!dims) return false;
    if (qf_mlir_ints(call, name, numbers, QF_MAX_RANK, &count)) {
        for (uint32_t i = 0; i < count; i++) dims[i] = qf_dim_constant(context, numbers[i]);
    } else {
        qf_text text = qf_mlir_symbol_name(call->operation, name);
        while (text.size) {
            if (count == QF_MAX_RANK || !(dims[count] = qf_dim_parse(context, &text)).id) return false;
            count++;
            while (text.size && (*text.data == ',' || *text.data == ' ')) text.data++, text.size--;
        }
    }
    *out = (qf_attribute){.dims = dims, .count = count};
    return true;
}

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
    case QF_ATTRIBUTE_DIMS: return read_dims(call, info->name, out);
    case QF_ATTRIBUTE_DIM: {
        qf_attribute one = {.dims = NULL};
        if (!read_dims(call, info->name, &one) || one.count != 1) return false;
        *out = (qf_attribute){.dim = one.dims[0]};
        return true;
    }
    default: return false;
    }
}

/* Operands by position, or by name where the operation lists `operand_names`. */
static bool place_operands(qf_mlir_call *call, qf_op op, qf_value *out, uint32_t *out_count) {
    const qf_op_info *info = qf_op_info_of(op);
    MlirAttribute names = qf_mlir_attribute(call->operation, "operand_names");
    *out_count = info->operand_count;
    if (mlirAttributeIsNull(names)) {
        bool many = info->operand_count && info->operands[info->operand_count - 1].kind == QF_OPERAND_MANY;
        if (call->operand_count > (many ? MAX_OPERANDS : info->operand_count)) return false;
        *out_count = call->operand_count;
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
    qf_op op = qf_op_from_name(qf_text_of(call->name + sizeof "qfuse." - 1));
    if (op == QF_OP_constant) return qf_mlir_map_constant(call);
    if (op == QF_OP_none || op == QF_OP_opaque || op == QF_OP_parameter || op == QF_OP_return)
        return qf_mlir_decline(call, "QFuse has no such op");
    const qf_op_info *info = qf_op_info_of(op);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_value operands[MAX_OPERANDS] = {{0}};
    uint32_t count;
    bool several = info->result_count && info->results[info->result_count - 1].kind == QF_RESULT_SEVERAL;
    if (!call->result_count || (call->result_count > info->result_count && !several) ||
        !place_operands(call, op, operands, &count))
        return qf_mlir_decline(call, "its operands are not those of the op");
    qf_mlir_defaults(call, op, attributes);
    for (uint32_t i = 0; i < info->attribute_count; i++)
        if (!read_attribute(call, &info->attributes[i], &attributes[i]))
            return qf_mlir_decline(call, "its attributes are not those of the op");
    qf_node node = qf_import_node(qf_mlir_target(call), op, operands, count, attributes, call->result_count);
    if (!node.id) return QF_MLIR_FAILED;
    for (uint32_t i = 0; i < call->result_count; i++) call->results[i] = qf_node_result(qf_mlir_graph(call), node, i);
    return QF_MLIR_MAPPED;
}
