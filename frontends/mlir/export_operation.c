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
static const char *comparison_of(qf_op op) {
    switch (op) {
    case QF_OP_equal: return "#stablehlo<comparison_direction EQ>";
    case QF_OP_less: return "#stablehlo<comparison_direction LT>";
    case QF_OP_less_equal: return "#stablehlo<comparison_direction LE>";
    case QF_OP_greater: return "#stablehlo<comparison_direction GT>";
    case QF_OP_greater_equal: return "#stablehlo<comparison_direction GE>";
    default: return NULL;
    }
}

/* The operation that the importer reads as this elementwise op; NULL: none. */
static const char *elementwise_name(qf_mlir_export *export, qf_node node, attribute_list *list) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    uint32_t rows;
    const qf_mlir_row *table = qf_mlir_rows(&rows);
    const char *comparison = comparison_of(data->op);
    if (comparison) {
        MlirAttribute direction = mlirAttributeParseGet(export->mlir, qf_mlir_string(comparison));
        if (mlirAttributeIsNull(direction)) return NULL;
        add_attribute(list, "comparison_direction", direction);
        return "stablehlo.compare";
    }
    if (data->op == QF_OP_where) return "stablehlo.select";
    if (data->op == QF_OP_not) return "stablehlo.not";
    if (data->op == QF_OP_cast) {
        qf_dtype to = (qf_dtype)data->attributes[QF_ATTR(cast, dtype)].integer;
        return qf_dtype_is_float8(to) && data->attributes[QF_ATTR(cast, saturate)].integer ? NULL : "stablehlo.convert";
    }
    for (uint32_t i = 0; i < rows; i++)
        if (table[i].argument == (uint32_t)data->op && table[i].operands == data->operand_count &&
            strncmp(table[i].name, "stablehlo.", 10) == 0)
            return table[i].name;
    return NULL;
}

static MlirAttribute last_axes(const qf_mlir_export *export, int64_t count, int64_t rank) {
    int64_t axes[QF_MAX_RANK];
    for (int64_t i = 0; i < count && i < QF_MAX_RANK; i++) axes[i] = rank - count + i;
    return mlirDenseI64ArrayGet(export->mlir, count, axes);
}

/* The value in the shape of `like`, which QFuse's op would broadcast it to by itself. */
static MlirValue in_shape_of(qf_mlir_export *export, MlirValue value, MlirType like, MlirLocation location,
                             MlirOperation place) {
    MlirType own = mlirValueGetType(value);
    int64_t rank = mlirShapedTypeGetRank(like), own_rank = mlirShapedTypeGetRank(own), shape[QF_MAX_RANK];
    bool same = rank == own_rank;
    for (int64_t i = 0; i < rank; i++) {
        shape[i] = mlirShapedTypeGetDimSize(like, i);
        same = same && mlirShapedTypeGetDimSize(own, i) == shape[i];
    }
    if (same) return value;
    MlirAttribute none = {NULL};
    MlirType type = mlirRankedTensorTypeGet(rank, shape, mlirShapedTypeGetElementType(own), none);
    attribute_list list = {.count = 0, .context = export->mlir};
    add_attribute(&list, "broadcast_dimensions", last_axes(export, own_rank, rank));
    MlirOperationState state = mlirOperationStateGet(qf_mlir_string("stablehlo.broadcast_in_dim"), location);
    mlirOperationStateAddAttributes(&state, list.count, list.items);
    mlirOperationStateAddOperands(&state, 1, &value);
    mlirOperationStateAddResults(&state, 1, &type);
    MlirOperation made = mlirOperationCreate(&state);
    if (mlirOperationIsNull(made)) return value;
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(place), place, made);
    return mlirOperationGetResult(made, 0);
}

static bool is_static_tensor(MlirType type) {
    return mlirTypeIsARankedTensor(type) && mlirShapedTypeHasStaticShape(type) &&
           mlirShapedTypeGetRank(type) <= QF_MAX_RANK;
}

/* All operands and the result are tensors whose shapes StableHLO can spell out. */
static bool can_be_stablehlo(const qf_mlir_export *export, qf_node node, const MlirValue *operands, MlirType result) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    bool good = export->import->uses_stablehlo && data->result_count == 1 && is_static_tensor(result);
    for (uint32_t i = 0; good && i < data->operand_count; i++)
        good = !mlirValueIsNull(operands[i]) && is_static_tensor(mlirValueGetType(operands[i]));
    return good;
}

static const char *stablehlo_name(qf_mlir_export *export, qf_node node, const MlirValue *operands, MlirType result,
                                  attribute_list *list) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    if (!can_be_stablehlo(export, node, operands, result)) return NULL;
    switch (data->op) {
    case QF_OP_view: return "stablehlo.reshape";
    case QF_OP_expand:
        add_attribute(
            list, "broadcast_dimensions",
            last_axes(export, mlirShapedTypeGetRank(mlirValueGetType(operands[0])), mlirShapedTypeGetRank(result)));
        return "stablehlo.broadcast_in_dim";
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
    default: return qf_op_has_trait(data->op, QF_TRAIT_ELEMENTWISE) ? elementwise_name(export, node, list) : NULL;
    }
}

MlirOperation qf_mlir_make_operation(qf_mlir_export *export, qf_node node, const MlirValue *operands,
                                     const MlirType *types, MlirLocation location, MlirOperation place) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    MlirOperation none = {NULL};
    char name[64];
    attribute_list list = {.count = 0, .context = export->mlir};
    const char *foreign = stablehlo_name(export, node, operands, types[0], &list);
    bool spread = foreign && qf_op_has_trait(data->op, QF_TRAIT_ELEMENTWISE);
    (void)snprintf(name, sizeof name, "qfuse.%s", qf_op_info_of(data->op)->name);
    if (!foreign && (!add_attributes(export, node, &list) || !add_operand_names(export, node, &list))) return none;
    MlirOperationState state = mlirOperationStateGet(qf_mlir_string(foreign ? foreign : name), location);
    mlirOperationStateAddAttributes(&state, list.count, list.items);
    for (uint32_t i = 0; i < data->operand_count; i++) {
        if (mlirValueIsNull(operands[i])) continue;
        MlirValue operand = spread ? in_shape_of(export, operands[i], types[0], location, place) : operands[i];
        mlirOperationStateAddOperands(&state, 1, &operand);
    }
    mlirOperationStateAddResults(&state, data->result_count, types);
    MlirOperation made = mlirOperationCreate(&state);
    if (mlirOperationIsNull(made)) return none;
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(place), place, made);
    return made;
}
