/* Owns: which op is written as which standard ONNX op.
 * Does not own: shapes and layouts (export_layout.c), domain qfuse (export_qfuse.c), building messages (export_node.c).
 * Next: export_layout.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontends/onnx/export_ops.h"
#include "frontends/onnx/import.h"

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

static const qf_onnx_export_row rows[] = {
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
    {QF_OP_reduce_sum, "ReduceSum", write_reduce},
    {QF_OP_reduce_max, "ReduceMax", write_reduce},
    {QF_OP_reduce_min, "ReduceMin", write_reduce},
    {QF_OP_reduce_mean, "ReduceMean", write_reduce},
    {QF_OP_reduce_prod, "ReduceProd", write_reduce},
    {QF_OP_arg_max, "ArgMax", write_arg_max},
    {QF_OP_cumulative_sum, "CumSum", write_cumulative_sum},
    {QF_OP_top_k, "TopK", write_top_k},
    {QF_OP_softmax, "Softmax", qf_onnx_export_axis},
    {QF_OP_log_softmax, "LogSoftmax", qf_onnx_export_axis},
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

static const qf_onnx_export_row *row_of(qf_op op) {
    for (size_t i = 0; i < QF_COUNT_OF(rows); i++)
        if (rows[i].op == op) return &rows[i];
    return qf_onnx_export_layout_row(op);
}

bool qf_onnx_export_standard(qf_onnx_export *export, qf_node node) {
    const qf_onnx_export_row *row = row_of(qf_node_op(export->graph, node));
    return row && types_allowed(export, node, row->op_type) && row->write(export, node, row->op_type);
}
