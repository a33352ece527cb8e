/* Owns: which op that makes shapes or moves elements is written as which standard ONNX op.
 * Does not own: ops that compute (export_ops.c).
 * Next: export_ops.h. */
#include <string.h>

#include "frontends/onnx/export_ops.h"

/* All dims as numbers; false where one is no constant. */
static bool constants(const qf_onnx_export *export, const qf_attribute *attribute, int64_t *out) {
    if (attribute->count > QF_MAX_RANK) return false;
    for (uint32_t i = 0; i < attribute->count; i++)
        if (!qf_dim_is_constant(export->context, attribute->dims[i], &out[i])) return false;
    return true;
}

bool qf_onnx_export_axis(qf_onnx_export *export, qf_node node, const char *op_type) {
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_int(export, proto, "axis", attribute_of(export, node, 0)->integer);
    return true;
}

/* --- shapes --- */
static bool write_shape_of(qf_onnx_export *export, qf_node node, const char *op_type) {
    int64_t start = attribute_of(export, node, QF_ATTR(shape_of, start))->integer;
    int64_t end = attribute_of(export, node, QF_ATTR(shape_of, end))->integer;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    if (start) qf_onnx_write_int(export, proto, "start", start);
    if (end != INT64_MAX) qf_onnx_write_int(export, proto, "end", end);
    return true;
}

static bool write_symbolic(qf_onnx_export *export, qf_node node, const char *op_type) {
    (void)op_type;
    const qf_attribute *values = attribute_of(export, node, QF_ATTR(symbolic, values));
    int64_t numbers[QF_MAX_RANK];
    const qf_attribute *shape = attribute_of(export, node, QF_ATTR(symbolic, shape));
    if (shape->count > 1 || !constants(export, values, numbers)) return false;
    qf_value value = qf_node_result(export->graph, node, 0);
    int64_t *copy = qf_onnx_new(export, (values->count + 1) * sizeof *copy);
    if (!copy) return true;
    if (values->count) memcpy(copy, numbers, values->count * sizeof *copy);
    qf_onnx_list_add(export, &export->initializers,
                     qf_onnx_tensor_proto(export, qf_onnx_name_of(export, value), qf_value_type(export->graph, value),
                                          copy, values->count * sizeof *copy));
    return true;
}

static bool write_iota(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *shape = attribute_of(export, node, QF_ATTR(iota, shape));
    int64_t count, start, step;
    if (shape->count != 1 || !constants(export, shape, &count) ||
        attribute_of(export, node, QF_ATTR(iota, dtype))->integer != QF_I64 ||
        !qf_dim_is_constant(export->context, attribute_of(export, node, QF_ATTR(iota, start))->dim, &start) ||
        !qf_dim_is_constant(export->context, attribute_of(export, node, QF_ATTR(iota, step))->dim, &step) || step == 0)
        return false;
    int64_t bounds[] = {start, start + count * step, step};
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    for (uint32_t i = 0; i < 3; i++)
        qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, &bounds[i], 1, true));
    return true;
}

/* ConstantOfShape holds its value; the constant that fed the node is not written (export.c). */
static bool write_full(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *shape = attribute_of(export, node, QF_ATTR(full, shape));
    const qf_literal *literal = qf_value_literal(export->graph, qf_node_operand(export->graph, node, 0));
    int64_t dims[QF_MAX_RANK];
    uint64_t count;
    if (!literal || !constants(export, shape, dims) || !qf_type_static_count(export->context, literal->type, &count) ||
        count != 1)
        return false;
    qf_dim one = qf_dim_constant(export->context, 1);
    qf_type type = qf_type_tensor(export->context, qf_type_dtype(export->context, literal->type), &one, 1);
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    if (!proto) return true;
    proto->n_input = 0;
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, dims, shape->count, false));
    qf_onnx_write_tensor(export, proto, "value", qf_onnx_tensor_proto(export, "", type, literal->data, literal->size));
    return true;
}

/* Constants, 0 for a dim of the input in the same place, -1 for at most one other. */
static bool write_view(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *shape = attribute_of(export, node, QF_ATTR(view, shape));
    qf_type type = operand_type(export, node, 0);
    int64_t dims[QF_MAX_RANK];
    uint32_t rank = qf_type_rank(export->context, type), unknown = 0;
    if (rank > QF_MAX_RANK) return false;
    for (uint32_t i = 0; i < shape->count; i++) {
        if (qf_dim_is_constant(export->context, shape->dims[i], &dims[i])) {
            if (dims[i] == 0) return false; /* would copy a dim */
        } else if (i < rank && qf_dim_equal(shape->dims[i], qf_type_dims(export->context, type)[i])) {
            dims[i] = 0;
        } else {
            dims[i] = -1;
            if (++unknown > 1) return false;
        }
    }
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, dims, shape->count, false));
    return true;
}

static bool write_expand(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *shape = attribute_of(export, node, QF_ATTR(expand, shape));
    qf_type type = operand_type(export, node, 0);
    int64_t dims[QF_MAX_RANK];
    uint32_t rank = qf_type_rank(export->context, type);
    if (rank > shape->count) return false;
    for (uint32_t i = 0; i < shape->count; i++) {
        bool kept = i + rank >= shape->count &&
                    qf_dim_equal(shape->dims[i], qf_type_dims(export->context, type)[i + rank - shape->count]);
        if (kept)
            dims[i] = 1;
        else if (!qf_dim_is_constant(export->context, shape->dims[i], &dims[i]))
            return false;
    }
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, dims, shape->count, false));
    return true;
}

/* --- layout --- */
static bool write_permute(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *order = attribute_of(export, node, QF_ATTR(permute, order));
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_ints(export, proto, "perm", order->ints, order->count);
    return true;
}

static bool write_concat(qf_onnx_export *export, qf_node node, const char *op_type) {
    if (qf_node_at(export->graph, node)->operand_count < 2) return false; /* would read back as its part */
    return qf_onnx_export_axis(export, node, op_type);
}

static bool write_gather_nd(qf_onnx_export *export, qf_node node, const char *op_type) {
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_int(export, proto, "batch_dims", attribute_of(export, node, QF_ATTR(gather_nd, batch_dims))->integer);
    return true;
}

static bool write_slice(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *starts = attribute_of(export, node, QF_ATTR(slice, starts));
    const qf_attribute *ends = attribute_of(export, node, QF_ATTR(slice, ends));
    const qf_attribute *steps = attribute_of(export, node, QF_ATTR(slice, steps));
    qf_type type = operand_type(export, node, 0);
    int64_t first[QF_MAX_RANK], last[QF_MAX_RANK], axes[QF_MAX_RANK];
    if (!constants(export, starts, first)) return false;
    for (uint32_t i = 0; i < ends->count; i++) {
        axes[i] = i;
        if (steps->ints[i] < 1) return false;
        if (qf_dim_equal(ends->dims[i], qf_type_dim(export->context, type, (int32_t)i)))
            last[i] = INT64_MAX;
        else if (!qf_dim_is_constant(export->context, ends->dims[i], &last[i]))
            return false;
    }
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    const int64_t *lists[] = {first, last, axes, steps->ints};
    for (uint32_t i = 0; i < 4; i++)
        qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, lists[i], starts->count, false));
    return true;
}

static bool write_split(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *sizes = attribute_of(export, node, QF_ATTR(split, sizes));
    int64_t *numbers = qf_onnx_new(export, (sizes->count + 1) * sizeof *numbers);
    if (!numbers) return true;
    for (uint32_t i = 0; i < sizes->count; i++)
        if (!qf_dim_is_constant(export->context, sizes->dims[i], &numbers[i])) return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, numbers, sizes->count, false));
    qf_onnx_write_int(export, proto, "axis", attribute_of(export, node, QF_ATTR(split, axis))->integer);
    return true;
}

static bool write_pad(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *before = attribute_of(export, node, QF_ATTR(pad, before));
    const qf_attribute *after = attribute_of(export, node, QF_ATTR(pad, after));
    int64_t pads[2 * QF_MAX_RANK];
    if (!constants(export, before, pads) || !constants(export, after, pads + before->count)) return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    if (!proto) return true;
    char *value = proto->input[1];
    proto->n_input = 1;
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, pads, 2 * before->count, false));
    qf_onnx_write_input(export, proto, value);
    return true;
}

static bool write_triangle(qf_onnx_export *export, qf_node node, const char *op_type) {
    int64_t diagonal;
    if (!qf_dim_is_constant(export->context, attribute_of(export, node, QF_ATTR(triangle, diagonal))->dim, &diagonal))
        return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, &diagonal, 1, true));
    qf_onnx_write_int(export, proto, "upper", attribute_of(export, node, QF_ATTR(triangle, upper))->integer);
    return true;
}

static bool write_one_hot(qf_onnx_export *export, qf_node node, const char *op_type) {
    int64_t depth;
    if (!qf_dim_is_constant(export->context, attribute_of(export, node, QF_ATTR(one_hot, depth))->dim, &depth))
        return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    if (!proto) return true;
    char *values = proto->input[1];
    proto->n_input = 1;
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, &depth, 1, true));
    qf_onnx_write_input(export, proto, values);
    qf_onnx_write_int(export, proto, "axis", attribute_of(export, node, QF_ATTR(one_hot, axis))->integer);
    return true;
}

static const qf_onnx_export_row rows[] = {
    {QF_OP_shape_of, "Shape", write_shape_of},
    {QF_OP_symbolic, "Constant", write_symbolic},
    {QF_OP_iota, "Range", write_iota},
    {QF_OP_full, "ConstantOfShape", write_full},
    {QF_OP_view, "Reshape", write_view},
    {QF_OP_expand, "Expand", write_expand},
    {QF_OP_permute, "Transpose", write_permute},
    {QF_OP_concat, "Concat", write_concat},
    {QF_OP_gather_nd, "GatherND", write_gather_nd},
    {QF_OP_slice, "Slice", write_slice},
    {QF_OP_split, "Split", write_split},
    {QF_OP_pad, "Pad", write_pad},
    {QF_OP_triangle, "Trilu", write_triangle},
    {QF_OP_one_hot, "OneHot", write_one_hot},
    {QF_OP_gather, "Gather", qf_onnx_export_axis},
    {QF_OP_gather_elements, "GatherElements", qf_onnx_export_axis},
    {QF_OP_scatter_elements, "ScatterElements", qf_onnx_export_axis},
};

const qf_onnx_export_row *qf_onnx_export_layout_row(qf_op op) {
    for (size_t i = 0; i < QF_COUNT_OF(rows); i++)
        if (rows[i].op == op) return &rows[i];
    return NULL;
}
