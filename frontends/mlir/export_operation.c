/* Owns: one node of a graph as one operation: qfuse.<op> in generic form, or StableHLO's where the function is in that.
 * Does not own: where it goes (export.c), reading it again (map_qfuse.c).
 * Next: docs/mlir.md. */
#include <stdio.h>
#include <string.h>

#include "frontends/mlir/build.h"
#include "frontends/mlir/export.h"

typedef struct attribute_list {
    MlirNamedAttribute items[QF_MAX_ATTRIBUTES + 2];
    intptr_t count;
    MlirContext context;
} attribute_list;

static void add_attribute(attribute_list *list, const char *name, MlirAttribute attribute) {
    list->items[list->count++] =
        mlirNamedAttributeGet(mlirIdentifierGet(list->context, qf_mlir_string(name)), attribute);
}

/* --- attributes by kind --- */
static MlirAttribute dims_attribute(qf_mlir_export *export, const qf_dim *dims, uint32_t count) {
    int64_t numbers[QF_MAX_RANK];
    bool fixed = count <= QF_MAX_RANK;
    for (uint32_t i = 0; fixed && i < count; i++) fixed = qf_dim_is_constant(export->context, dims[i], &numbers[i]);
    if (fixed) return mlirDenseI64ArrayGet(export->mlir, count, numbers);
    qf_buffer text = {.context = export->context};
    for (uint32_t i = 0; i < count; i++) {
        if (i) qf_buffer_text(&text, QF_TEXT(", "));
        qf_dim_print(&text, export->context, dims[i]);
    }
    MlirAttribute attribute = mlirStringAttrGet(export->mlir, qf_mlir_string(text.data ? text.data : ""));
    qf_buffer_destroy(&text);
    return attribute;
}

/* A byte a boolean here, whatever MLIR packs. */
static MlirAttribute literal_attribute(qf_mlir_export *export, const qf_literal *literal) {
    MlirType type = qf_mlir_type_back(export->mlir, export->context, literal->type);
    MlirAttribute none = {NULL};
    uint64_t count = 0;
    if (mlirTypeIsNull(type) || !qf_type_static_count(export->context, literal->type, &count)) return none;
    if (qf_type_dtype(export->context, literal->type) != QF_I1)
        return mlirDenseElementsAttrRawBufferGet(type, (size_t)literal->size, literal->data);
    int *truths = QF_ARENA_NEW(&export->scratch, int, count + 1);
    if (!truths) return none;
    for (uint64_t i = 0; i < count; i++) truths[i] = ((const uint8_t *)literal->data)[i] != 0;
    return mlirDenseElementsAttrBoolGet(type, (intptr_t)count, truths);
}

static MlirAttribute dtype_attribute(const qf_mlir_export *export, qf_dtype dtype) {
    MlirAttribute none = {NULL};
    qf_type scalar = qf_type_tensor(export->context, dtype, NULL, 0);
    MlirType type = scalar.id ? qf_mlir_type_back(export->mlir, export->context, scalar) : (MlirType){NULL};
    return mlirTypeIsNull(type) ? none : mlirTypeAttrGet(mlirShapedTypeGetElementType(type));
}

static MlirAttribute attribute_of(qf_mlir_export *export, const qf_attribute_info *info, const qf_attribute *value) {
    MlirContext context = export->mlir;
    const qf_context *qfuse = export->context;
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: return mlirBoolAttrGet(context, value->integer != 0);
    case QF_ATTRIBUTE_INT: return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), value->integer);
    case QF_ATTRIBUTE_FLOAT: return mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context), value->number);
    case QF_ATTRIBUTE_DTYPE: return dtype_attribute(export, (qf_dtype)value->integer);
    case QF_ATTRIBUTE_ENUM:
        return mlirStringAttrGet(context, qf_mlir_string(qf_enum_name(info->enumeration, value->integer)));
    case QF_ATTRIBUTE_STRING: {
        qf_text text = qf_string_text(qfuse, value->string);
        MlirStringRef string = {text.data, text.size};
        return mlirStringAttrGet(context, string);
    }
    case QF_ATTRIBUTE_DIM: return dims_attribute(export, &value->dim, 1);
    case QF_ATTRIBUTE_DIMS: return dims_attribute(export, value->dims, value->count);
    case QF_ATTRIBUTE_INTS: return mlirDenseI64ArrayGet(context, value->count, value->ints);
    case QF_ATTRIBUTE_LITERAL: return literal_attribute(export, value->literal);
    default: return (MlirAttribute){NULL};
    }
}

/* Those that differ from their default. */
static bool add_attributes(qf_mlir_export *export, qf_node node, attribute_list *list) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    qf_attribute defaults[QF_MAX_ATTRIBUTES];
    qf_attributes_default(export->graph, data->op, defaults);
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        const qf_attribute_info *row = &info->attributes[i];
        if (row->default_text && qf_attribute_same(row->kind, &defaults[i], &data->attributes[i])) continue;
        MlirAttribute attribute = attribute_of(export, row, &data->attributes[i]);
        if (mlirAttributeIsNull(attribute)) return false;
        add_attribute(list, row->name, attribute);
    }
    return true;
}

/* Which operands are there, where some may be missing. */
static bool add_operand_names(qf_mlir_export *export, qf_node node, attribute_list *list) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    const qf_op_info *info = qf_op_info_of(data->op);
    if (info->operand_count == info->required_operands ||
        info->operands[info->operand_count - 1].kind == QF_OPERAND_MANY)
        return true;
    MlirAttribute *names = QF_ARENA_NEW(&export->scratch, MlirAttribute, (uint64_t)data->operand_count + 1);
    intptr_t count = 0;
    for (uint32_t i = 0; names && i < data->operand_count; i++)
        if (data->operands[i].value.id)
            names[count++] = mlirStringAttrGet(export->mlir, qf_mlir_string(info->operands[i].name));
    if (names) add_attribute(list, "operand_names", mlirArrayAttrGet(export->mlir, count, names));
    return names != NULL;
}

/* --- StableHLO --- */
/* The operation that the importer reads as this op, where it is elementwise and all types are equal. */
static const char *elementwise_name(qf_op op, const MlirValue *operands, uint32_t count, MlirType result) {
    uint32_t rows;
    const qf_mlir_row *table = qf_mlir_rows(&rows);
    if (!qf_op_has_trait(op, QF_TRAIT_ELEMENTWISE) || op == QF_OP_cast || op == QF_OP_bitcast || op == QF_OP_where)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        if (mlirValueIsNull(operands[i]) || !mlirTypeEqual(mlirValueGetType(operands[i]), result)) return NULL;
    for (uint32_t i = 0; i < rows; i++)
        if (table[i].argument == (uint32_t)op && table[i].operands == count &&
            strncmp(table[i].name, "stablehlo.", 10) == 0)
            return table[i].name;
    return NULL;
}

static const char *stablehlo_name(qf_mlir_export *export, qf_node node, const MlirValue *operands, MlirType result,
                                  attribute_list *list) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    if (!export->import->uses_stablehlo) return NULL;
    switch (data->op) {
    case QF_OP_view: return mlirShapedTypeHasStaticShape(result) ? "stablehlo.reshape" : NULL;
    case QF_OP_permute: {
        const qf_attribute *order = &data->attributes[QF_ATTR(permute, order)];
        add_attribute(list, "permutation", mlirDenseI64ArrayGet(export->mlir, order->count, order->ints));
        return "stablehlo.transpose";
    }
    case QF_OP_constant: {
        MlirAttribute value = literal_attribute(export, data->attributes[QF_ATTR(constant, value)].literal);
        if (mlirAttributeIsNull(value)) return NULL;
        add_attribute(list, "value", value);
        return "stablehlo.constant";
    }
    default: return elementwise_name(data->op, operands, data->operand_count, result);
    }
}

MlirOperation qf_mlir_make_operation(qf_mlir_export *export, qf_node node, const MlirValue *operands,
                                     const MlirType *types, MlirLocation location, MlirOperation place) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    MlirOperation none = {NULL};
    char name[64];
    attribute_list list = {.count = 0, .context = export->mlir};
    const char *foreign = data->result_count == 1 ? stablehlo_name(export, node, operands, types[0], &list) : NULL;
    (void)snprintf(name, sizeof name, "qfuse.%s", qf_op_info_of(data->op)->name);
    if (!foreign && (!add_attributes(export, node, &list) || !add_operand_names(export, node, &list))) return none;
    MlirOperationState state = mlirOperationStateGet(qf_mlir_string(foreign ? foreign : name), location);
    mlirOperationStateAddAttributes(&state, list.count, list.items);
    for (uint32_t i = 0; i < data->operand_count; i++)
        if (!mlirValueIsNull(operands[i])) mlirOperationStateAddOperands(&state, 1, &operands[i]);
    mlirOperationStateAddResults(&state, data->result_count, types);
    MlirOperation made = mlirOperationCreate(&state);
    if (mlirOperationIsNull(made)) return none;
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(place), place, made);
    return made;
}
