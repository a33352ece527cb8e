/* Owns: which op is written as which standard ONNX op.
 * Does not own: domain qfuse (export_qfuse.c), building messages (export_node.c).
 * Next: export_node.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontends/onnx/export.h"
#include "frontends/onnx/import.h"

/* Each writer returns false before it has written anything where the op has no standard form; the form must read back
 * as the same op. A failure is in export->failed and ends the export. */
typedef bool (*writer)(qf_onnx_export *export, qf_node node, const char *op_type);

static const qf_attribute *attribute_of(const qf_onnx_export *export, qf_node node, uint32_t index) {
    return qf_node_attribute(export->graph, node, index);
}

static qf_type operand_type(const qf_onnx_export *export, qf_node node, uint32_t index) {
    qf_value value = qf_node_operand(export->graph, node, index);
    return value.id ? qf_value_type(export->graph, value) : (qf_type){0};
}

static bool has_operand(const qf_onnx_export *export, qf_node node, uint32_t index) {
    return qf_node_operand(export->graph, node, index).id != 0;
}

/* All dims as numbers; false where one is no constant. */
static bool constants(const qf_onnx_export *export, const qf_attribute *attribute, int64_t *out) {
    if (attribute->count > QF_MAX_RANK) return false;
    for (uint32_t i = 0; i < attribute->count; i++)
        if (!qf_dim_is_constant(export->context, attribute->dims[i], &out[i])) return false;
    return true;
}

/* --- ops without attributes, or whose attributes are written apart --- */
static bool write_plain(qf_onnx_export *export, qf_node node, const char *op_type) {
    (void)qf_onnx_write_node(export, node, "", op_type);
    return true;
}

static bool write_mod(qf_onnx_export *export, qf_node node, const char *op_type) {
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_int(export, proto, "fmod", attribute_of(export, node, QF_ATTR(mod, fmod))->integer);
    return true;
}

static bool write_gelu(qf_onnx_export *export, qf_node node, const char *op_type) {
    int64_t mode = attribute_of(export, node, QF_ATTR(gelu, approximate))->integer;
    if (mode == QF_VALUE_quick) return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    if (mode == QF_VALUE_tanh) qf_onnx_write_string(export, proto, "approximate", "tanh", 4);
    return true;
}

static bool write_cast(qf_onnx_export *export, qf_node node, const char *op_type) {
    qf_dtype dtype = (qf_dtype)attribute_of(export, node, QF_ATTR(cast, dtype))->integer;
    bool saturate = attribute_of(export, node, QF_ATTR(cast, saturate))->integer != 0;
    if (dtype == QF_F8E8M0FNU) return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_int(export, proto, "to", qf_onnx_dtype_number(dtype));
    if (!saturate) qf_onnx_write_int(export, proto, "saturate", 0);
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

/* concat, gather, gather_elements, scatter_elements: the axis is their first column. */
static bool write_axis(qf_onnx_export *export, qf_node node, const char *op_type) {
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_int(export, proto, "axis", attribute_of(export, node, 0)->integer);
    return true;
}

static bool write_concat(qf_onnx_export *export, qf_node node, const char *op_type) {
    if (qf_node_at(export->graph, node)->operand_count < 2) return false; /* would read back as its part */
    return write_axis(export, node, op_type);
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

/* --- reductions and normalisation --- */
static bool write_reduce(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *axes = attribute_of(export, node, QF_ATTR(reduce_sum, axes));
    if (axes->count == 0) return false; /* would mean all axes */
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, axes->ints, axes->count, false));
    qf_onnx_write_int(export, proto, "keepdims", attribute_of(export, node, QF_ATTR(reduce_sum, keep))->integer);
    return true;
}

static bool write_arg_max(qf_onnx_export *export, qf_node node, const char *op_type) {
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_int(export, proto, "axis", attribute_of(export, node, QF_ATTR(arg_max, axis))->integer);
    qf_onnx_write_int(export, proto, "keepdims", attribute_of(export, node, QF_ATTR(arg_max, keep))->integer);
    qf_onnx_write_int(export, proto, "select_last_index", attribute_of(export, node, QF_ATTR(arg_max, last))->integer);
    return true;
}

static bool write_cumulative_sum(qf_onnx_export *export, qf_node node, const char *op_type) {
    int64_t axis = attribute_of(export, node, QF_ATTR(cumulative_sum, axis))->integer;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, &axis, 1, true));
    qf_onnx_write_int(export, proto, "exclusive",
                      attribute_of(export, node, QF_ATTR(cumulative_sum, exclusive))->integer);
    qf_onnx_write_int(export, proto, "reverse", attribute_of(export, node, QF_ATTR(cumulative_sum, reverse))->integer);
    return true;
}

static bool write_top_k(qf_onnx_export *export, qf_node node, const char *op_type) {
    int64_t k;
    if (!qf_dim_is_constant(export->context, attribute_of(export, node, QF_ATTR(top_k, k))->dim, &k)) return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_input(export, proto, qf_onnx_write_constants(export, &k, 1, false));
    qf_onnx_write_int(export, proto, "axis", attribute_of(export, node, QF_ATTR(top_k, axis))->integer);
    qf_onnx_write_int(export, proto, "largest", attribute_of(export, node, QF_ATTR(top_k, largest))->integer);
    return true;
}

static bool exact_float(double number) {
    return (double)(float)number == number;
}

static bool write_layer_norm(qf_onnx_export *export, qf_node node, const char *op_type) {
    double epsilon = attribute_of(export, node, QF_ATTR(layer_norm, epsilon))->number;
    if (!has_operand(export, node, QF_IN(layer_norm, weight)) || !exact_float(epsilon)) return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_int(export, proto, "axis", attribute_of(export, node, QF_ATTR(layer_norm, axis))->integer);
    qf_onnx_write_float(export, proto, "epsilon", epsilon);
    return true;
}

static bool write_rms_norm(qf_onnx_export *export, qf_node node, const char *op_type) {
    double epsilon = attribute_of(export, node, QF_ATTR(rms_norm, epsilon))->number;
    if (!has_operand(export, node, QF_IN(rms_norm, weight)) || has_operand(export, node, QF_IN(rms_norm, out_scale)) ||
        attribute_of(export, node, QF_ATTR(rms_norm, out))->integer != QF_DTYPE_NONE || !exact_float(epsilon))
        return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_int(export, proto, "axis", attribute_of(export, node, QF_ATTR(rms_norm, axis))->integer);
    qf_onnx_write_float(export, proto, "epsilon", epsilon);
    return true;
}

/* --- contractions --- */
/* The equation that map_contract.c gives a MatMul of these ranks without broadcasting. */
static void matmul_equation(uint32_t a_rank, uint32_t b_rank, char *out, size_t size) {
    char labels[3][QF_MAX_RANK + 3] = {"", "", ""};
    uint32_t a_batch = a_rank > 2 ? a_rank - 2 : 0, b_batch = b_rank > 2 ? b_rank - 2 : 0;
    uint32_t batch = a_batch > b_batch ? a_batch : b_batch;
    for (uint32_t i = 0; i < batch; i++) {
        char label[2] = {(char)('a' + i), '\0'};
        if (i + a_batch >= batch) strcat(labels[0], label);
        if (i + b_batch >= batch) strcat(labels[1], label);
        strcat(labels[2], label);
    }
    strcat(labels[0], a_rank > 1 ? "mk" : "k");
    strcat(labels[1], b_rank > 1 ? "kn" : "k");
    if (a_rank > 1) strcat(labels[2], "m");
    if (b_rank > 1) strcat(labels[2], "n");
    (void)snprintf(out, size, "%s,%s->%s", labels[0], labels[1], labels[2]);
}

static bool write_contract(qf_onnx_export *export, qf_node node, const char *op_type) {
    qf_text equation = qf_string_text(export->context, attribute_of(export, node, QF_ATTR(contract, equation))->string);
    if (attribute_of(export, node, QF_ATTR(contract, out))->integer != QF_DTYPE_NONE) return false;
    uint32_t a_rank = qf_type_rank(export->context, operand_type(export, node, 0));
    uint32_t b_rank = qf_type_rank(export->context, operand_type(export, node, 1));
    char product[64] = "";
    bool ranked = a_rank >= 1 && b_rank >= 1 && a_rank <= QF_MAX_RANK && b_rank <= QF_MAX_RANK;
    if (ranked) matmul_equation(a_rank, b_rank, product, sizeof product);
    if (ranked && qf_text_is(equation, product)) return write_plain(export, node, "MatMul");
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_string(export, proto, "equation", equation.data, equation.size);
    return true;
}

static bool write_matmul(qf_onnx_export *export, qf_node node, const char *op_type) {
    if (attribute_of(export, node, QF_ATTR(matmul, out))->integer != QF_DTYPE_NONE) return false;
    return write_plain(export, node, op_type);
}

static bool write_conv(qf_onnx_export *export, qf_node node, const char *op_type) {
    const qf_attribute *before = attribute_of(export, node, QF_ATTR(conv, pads_before));
    const qf_attribute *after = attribute_of(export, node, QF_ATTR(conv, pads_after));
    const qf_attribute *strides = attribute_of(export, node, QF_ATTR(conv, strides));
    const qf_attribute *dilations = attribute_of(export, node, QF_ATTR(conv, dilations));
    int64_t pads[2 * QF_MAX_RANK];
    if (before->count > QF_MAX_RANK || after->count != before->count) return false;
    memcpy(pads, before->ints, before->count * sizeof *pads);
    memcpy(pads + before->count, after->ints, after->count * sizeof *pads);
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    qf_onnx_write_ints(export, proto, "strides", strides->ints, strides->count);
    qf_onnx_write_ints(export, proto, "dilations", dilations->ints, dilations->count);
    qf_onnx_write_ints(export, proto, "pads", pads, 2 * before->count);
    qf_onnx_write_int(export, proto, "group", attribute_of(export, node, QF_ATTR(conv, groups))->integer);
    return true;
}

/* --- quantisation --- */
static bool write_quantize(qf_onnx_export *export, qf_node node, const char *op_type) {
    int64_t axis = attribute_of(export, node, QF_ATTR(quantize, axis))->integer;
    qf_dtype dtype = (qf_dtype)attribute_of(export, node, QF_ATTR(quantize, dtype))->integer;
    qf_dtype compute = (qf_dtype)attribute_of(export, node, QF_ATTR(quantize, compute))->integer;
    qf_dtype scale = qf_type_dtype(export->context, operand_type(export, node, QF_IN(quantize, scale)));
    if (attribute_of(export, node, QF_ATTR(quantize, mode))->integer != QF_VALUE_div) return false;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    if (axis >= 0) qf_onnx_write_int(export, proto, "axis", axis);
    int64_t group = attribute_of(export, node, QF_ATTR(quantize, group))->integer;
    if (group) qf_onnx_write_int(export, proto, "block_size", group);
    if (!has_operand(export, node, QF_IN(quantize, zero_point)))
        qf_onnx_write_int(export, proto, "output_dtype", qf_onnx_dtype_number(dtype));
    if (scale != compute) qf_onnx_write_int(export, proto, "precision", qf_onnx_dtype_number(compute));
    if (!attribute_of(export, node, QF_ATTR(quantize, saturate))->integer)
        qf_onnx_write_int(export, proto, "saturate", 0);
    return true;
}

static bool write_dequantize(qf_onnx_export *export, qf_node node, const char *op_type) {
    int64_t axis = attribute_of(export, node, QF_ATTR(dequantize, axis))->integer;
    qf_dtype dtype = (qf_dtype)attribute_of(export, node, QF_ATTR(dequantize, dtype))->integer;
    qf_dtype scale = qf_type_dtype(export->context, operand_type(export, node, QF_IN(dequantize, scale)));
    int64_t group = attribute_of(export, node, QF_ATTR(dequantize, group))->integer;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    if (axis >= 0) qf_onnx_write_int(export, proto, "axis", axis);
    if (group) qf_onnx_write_int(export, proto, "block_size", group);
    if (dtype != scale) qf_onnx_write_int(export, proto, "output_dtype", qf_onnx_dtype_number(dtype));
    return true;
}

/* --- attention: only what the standard op says in every detail --- */
static bool standard_attention(const qf_onnx_export *export, qf_node node) {
    const qf_node_data *data = qf_node_at(export->graph, node);
    for (uint32_t i = QF_IN(attention, kv_lens); i < data->operand_count; i++)
        if (data->operands[i].value.id) return false;
    const qf_attribute *a = data->attributes;
    bool both = has_operand(export, node, QF_IN(attention, bias)) && has_operand(export, node, QF_IN(attention, mask));
    return !both && data->result_count == 1 && a[QF_ATTR(attention, layout)].integer == QF_VALUE_bhsd &&
           a[QF_ATTR(attention, align)].integer == QF_VALUE_top_left &&
           a[QF_ATTR(attention, empty_row)].integer == QF_VALUE_zero &&
           a[QF_ATTR(attention, out)].integer == QF_DTYPE_NONE &&
           a[QF_ATTR(attention, out_mode)].integer == QF_VALUE_div &&
           a[QF_ATTR(attention, out_compute)].integer == QF_F32 &&
           a[QF_ATTR(attention, via)].integer == QF_DTYPE_NONE && a[QF_ATTR(attention, p)].integer == QF_VALUE_none &&
           exact_float(a[QF_ATTR(attention, scale)].number) && exact_float(a[QF_ATTR(attention, softcap)].number) &&
           qf_type_rank(export->context, operand_type(export, node, QF_IN(attention, q))) == 4;
}

static bool write_attention(qf_onnx_export *export, qf_node node, const char *op_type) {
    if (!standard_attention(export, node)) return false;
    const qf_attribute *a = qf_node_at(export->graph, node)->attributes;
    Onnx__NodeProto *proto = qf_onnx_write_node(export, node, "", op_type);
    if (!proto) return true;
    proto->n_input = 3;
    uint32_t mask = has_operand(export, node, QF_IN(attention, mask)) ? QF_IN(attention, mask) : QF_IN(attention, bias);
    if (has_operand(export, node, mask))
        qf_onnx_write_input(export, proto, qf_onnx_name_of(export, qf_node_operand(export->graph, node, mask)));
    qf_onnx_write_float(export, proto, "scale", a[QF_ATTR(attention, scale)].number);
    if (a[QF_ATTR(attention, causal)].integer) qf_onnx_write_int(export, proto, "is_causal", 1);
    if (a[QF_ATTR(attention, softcap)].number != 0)
        qf_onnx_write_float(export, proto, "softcap", a[QF_ATTR(attention, softcap)].number);
    if (a[QF_ATTR(attention, window_left)].integer >= 0)
        qf_onnx_write_int(export, proto, "left_window_size", a[QF_ATTR(attention, window_left)].integer);
    if (a[QF_ATTR(attention, window_right)].integer >= 0)
        qf_onnx_write_int(export, proto, "right_window_size", a[QF_ATTR(attention, window_right)].integer);
    return true;
}

static const struct {
    qf_op op;
    const char *op_type;
    writer write;
} writers[] = {
#define PLAIN(op, op_type)                                                                                             \
    { QF_OP_##op, op_type, write_plain }
    PLAIN(neg, "Neg"),
    PLAIN(abs, "Abs"),
    PLAIN(exp, "Exp"),
    PLAIN(log, "Log"),
    PLAIN(sqrt, "Sqrt"),
    PLAIN(reciprocal, "Reciprocal"),
    PLAIN(tanh, "Tanh"),
    PLAIN(sigmoid, "Sigmoid"),
    PLAIN(erf, "Erf"),
    PLAIN(sin, "Sin"),
    PLAIN(cos, "Cos"),
    PLAIN(floor, "Floor"),
    PLAIN(ceil, "Ceil"),
    PLAIN(round, "Round"),
    PLAIN(sign, "Sign"),
    PLAIN(relu, "Relu"),
    PLAIN(silu, "Swish"),
    PLAIN(not, "Not"),
    PLAIN(is_nan, "IsNaN"),
    PLAIN(is_inf, "IsInf"),
    PLAIN(add, "Add"),
    PLAIN(sub, "Sub"),
    PLAIN(mul, "Mul"),
    PLAIN(div, "Div"),
    PLAIN(pow, "Pow"),
    PLAIN(minimum, "Min"),
    PLAIN(maximum, "Max"),
    PLAIN(and, "And"),
    PLAIN(or, "Or"),
    PLAIN(xor, "Xor"),
    PLAIN(equal, "Equal"),
    PLAIN(less, "Less"),
    PLAIN(less_equal, "LessOrEqual"),
    PLAIN(greater, "Greater"),
    PLAIN(greater_equal, "GreaterOrEqual"),
    PLAIN(where, "Where"),
    PLAIN(clamp, "Clip"),
    PLAIN(copy, "Identity"),
    PLAIN(scatter_nd, "ScatterND"),
#undef PLAIN
    {QF_OP_mod, "Mod", write_mod},
    {QF_OP_gelu, "Gelu", write_gelu},
    {QF_OP_cast, "Cast", write_cast},
    {QF_OP_shape_of, "Shape", write_shape_of},
    {QF_OP_symbolic, "Constant", write_symbolic},
    {QF_OP_iota, "Range", write_iota},
    {QF_OP_full, "ConstantOfShape", write_full},
    {QF_OP_view, "Reshape", write_view},
    {QF_OP_expand, "Expand", write_expand},
    {QF_OP_permute, "Transpose", write_permute},
    {QF_OP_concat, "Concat", write_concat},
    {QF_OP_gather, "Gather", write_axis},
    {QF_OP_gather_elements, "GatherElements", write_axis},
    {QF_OP_scatter_elements, "ScatterElements", write_axis},
    {QF_OP_gather_nd, "GatherND", write_gather_nd},
    {QF_OP_slice, "Slice", write_slice},
    {QF_OP_split, "Split", write_split},
    {QF_OP_pad, "Pad", write_pad},
    {QF_OP_triangle, "Trilu", write_triangle},
    {QF_OP_one_hot, "OneHot", write_one_hot},
    {QF_OP_reduce_sum, "ReduceSum", write_reduce},
    {QF_OP_reduce_max, "ReduceMax", write_reduce},
    {QF_OP_reduce_min, "ReduceMin", write_reduce},
    {QF_OP_reduce_mean, "ReduceMean", write_reduce},
    {QF_OP_reduce_prod, "ReduceProd", write_reduce},
    {QF_OP_arg_max, "ArgMax", write_arg_max},
    {QF_OP_cumulative_sum, "CumSum", write_cumulative_sum},
    {QF_OP_top_k, "TopK", write_top_k},
    {QF_OP_softmax, "Softmax", write_axis},
    {QF_OP_log_softmax, "LogSoftmax", write_axis},
    {QF_OP_layer_norm, "LayerNormalization", write_layer_norm},
    {QF_OP_rms_norm, "RMSNormalization", write_rms_norm},
    {QF_OP_contract, "Einsum", write_contract},
    {QF_OP_matmul, "MatMul", write_matmul},
    {QF_OP_conv, "Conv", write_conv},
    {QF_OP_quantize, "QuantizeLinear", write_quantize},
    {QF_OP_dequantize, "DequantizeLinear", write_dequantize},
    {QF_OP_attention, "Attention", write_attention},
};

/* FP8 only where the specification of the op allows it. */
static bool types_allowed(const qf_onnx_export *export, qf_node node, const char *op_type) {
    uint32_t count = qf_node_at(export->graph, node)->operand_count;
    for (uint32_t i = 0; i < count; i++) {
        qf_type type = operand_type(export, node, i);
        qf_dtype dtype = type.id ? qf_type_dtype(export->context, type) : QF_F32;
        bool narrow = qf_dtype_is_float8(dtype) || dtype == QF_F4E2M1FN;
        if (narrow && qf_onnx_float8_since(op_type) > QF_ONNX_EXPORT_OPSET) return false;
    }
    return true;
}

bool qf_onnx_export_standard(qf_onnx_export *export, qf_node node) {
    qf_op op = qf_node_op(export->graph, node);
    for (size_t i = 0; i < QF_COUNT_OF(writers); i++)
        if (writers[i].op == op)
            return types_allowed(export, node, writers[i].op_type) &&
                   writers[i].write(export, node, writers[i].op_type);
    return false;
}
