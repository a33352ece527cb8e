/* Owns: the families of custom operators: quantisation, scaled products, norms, activations, rotation.
 * Does not own: attention of layers (map_layer.c), which operator is of which family (customs.def).
 * Next: customs.c. */
#include <string.h>

#include "frontends/pt2/custom.h"
#include "frontends/pt2/maps.h"

qf_value qf_pt2_role_value(qf_pt2_call *call, const char *role) {
    const char *name = qf_pt2_role(call, role);
    return *name ? qf_pt2_in(call, name) : (qf_value){0};
}

bool qf_pt2_role_give(qf_pt2_call *call, const char *role, uint32_t output, qf_value value) {
    const char *name = qf_pt2_role(call, role);
    if (!value.id || call->import->failed) return false;
    if (*name) {
        uint32_t tensor = qf_pt2_tensor_argument(call, name);
        return tensor && qf_pt2_write(call, tensor, value);
    }
    if (output < call->output_count) call->outputs[output] = value;
    return true;
}

qf_pt2_outcome qf_pt2_mapped_if(qf_pt2_call *call, bool good) {
    if (good && !call->import->failed) return QF_PT2_MAPPED;
    call->import->failed = true;
    return QF_PT2_FAILED;
}

static int64_t mode_of(const qf_pt2_call *call) {
    return qf_pt2_role_is(call, "mode", "mul_recip") ? QF_VALUE_mul_recip
           : qf_pt2_role_is(call, "mode", "mul")     ? QF_VALUE_mul
                                                     : QF_VALUE_div;
}

/* The dtype of the argument that is written; `otherwise` where the result is returned. */
static qf_dtype out_dtype(qf_pt2_call *call, const char *role, qf_dtype otherwise) {
    qf_value out = qf_pt2_role_value(call, role);
    return out.id ? qf_pt2_dtype_of(call, out) : otherwise;
}

const char qf_pt2_scale_shape[] = "its scale is not one number for the whole tensor";

/* --- quantisation --- */
static qf_value quantize(qf_pt2_call *call, qf_value x, qf_value scale, qf_dtype dtype, int64_t axis) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_quantize, attributes);
    attributes[QF_ATTR(quantize, dtype)].integer = dtype;
    attributes[QF_ATTR(quantize, mode)].integer = mode_of(call);
    attributes[QF_ATTR(quantize, axis)].integer = axis;
    return qf_import_op(qf_pt2_target(call), QF_OP_quantize, (qf_value[]){x, scale}, 2, attributes);
}

static qf_value dynamic_quantize(qf_pt2_call *call, qf_value x, qf_value bound, qf_dtype dtype, bool token,
                                 qf_value *out_scale) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_dynamic_quantize, attributes);
    attributes[QF_ATTR(dynamic_quantize, dtype)].integer = dtype;
    attributes[QF_ATTR(dynamic_quantize, granularity)].integer = token ? QF_VALUE_token : QF_VALUE_tensor;
    qf_node node =
        x.id ? qf_import_node(qf_pt2_target(call), QF_OP_dynamic_quantize, (qf_value[]){x, bound}, 2, attributes, 2)
             : (qf_node){0};
    if (!node.id) return (qf_value){0};
    *out_scale = qf_node_result(qf_pt2_graph(call), node, 1);
    return qf_node_result(qf_pt2_graph(call), node, 0);
}

/* `value` under the shape of the argument that it is written into. */
static qf_value as_target(qf_pt2_call *call, const char *role, qf_value value) {
    qf_value target = qf_pt2_role_value(call, role);
    if (!value.id || !target.id || qf_pt2_rank(call, target) > QF_MAX_RANK) return value;
    return qf_import_view(qf_pt2_target(call), value, qf_value_dims(qf_pt2_graph(call), target),
                          qf_pt2_rank(call, target));
}

/* Some kernels compute the scale, and write it, where a flag says that it is not given. */
static qf_pt2_outcome quantize_by_own_scale(qf_pt2_call *call, qf_value x, qf_dtype dtype) {
    qf_value scale = {0}, y = dynamic_quantize(call, x, (qf_value){0}, dtype, false, &scale);
    if (mode_of(call) == QF_VALUE_mul_recip) y = quantize(call, x, qf_pt2_single(call, scale), dtype, -1);
    return qf_pt2_mapped_if(call, qf_pt2_role_give(call, "out", 0, y) &&
                                      qf_pt2_role_give(call, "scale", 1, as_target(call, "scale", scale)));
}

static qf_pt2_outcome map_quantize(qf_pt2_call *call) {
    qf_dtype dtype = out_dtype(call, "out", QF_F8E4M3FN);
    qf_value scale = qf_pt2_single(call, qf_pt2_role_value(call, "scale")), x = qf_pt2_role_value(call, "x");
    const char *given = qf_pt2_role(call, "static");
    if (!scale.id) return qf_pt2_decline(call, qf_pt2_scale_shape);
    if (!qf_dtype_is_float8(dtype)) return qf_pt2_decline(call, "it does not write FP8");
    if (*given && !qf_pt2_bool(call, given, true)) return quantize_by_own_scale(call, x, dtype);
    return qf_pt2_mapped_if(call, qf_pt2_role_give(call, "out", 0, quantize(call, x, scale, dtype, -1)));
}

static qf_pt2_outcome map_dynamic_quantize(qf_pt2_call *call) {
    qf_dtype dtype = out_dtype(call, "out", QF_F8E4M3FN);
    qf_value x = qf_pt2_role_value(call, "x"), bound = qf_pt2_role_value(call, "upper_bound");
    if (!qf_dtype_is_float8(dtype)) return qf_pt2_decline(call, "it does not write FP8");
    if (bound.id && !(bound = qf_pt2_single(call, bound)).id) return qf_pt2_decline(call, qf_pt2_scale_shape);
    bool token = qf_pt2_role_is(call, "granularity", "token");
    qf_value scale = {0}, y = dynamic_quantize(call, x, bound, dtype, token, &scale);
    /* The kernel multiplies by the reciprocal, which rounds otherwise than the op's division. */
    if (mode_of(call) == QF_VALUE_mul_recip) {
        qf_dim tokens = qf_pt2_dim_of(call, x, 0);
        if (token && qf_pt2_rank(call, x) != 2) return qf_pt2_decline(call, "its operand is not [tokens, size]");
        qf_value one_each = token ? qf_import_view(qf_pt2_target(call), scale, &tokens, 1) : qf_pt2_single(call, scale);
        y = quantize(call, x, one_each, dtype, token ? 0 : -1);
    }
    return qf_pt2_mapped_if(call, qf_pt2_role_give(call, "out", 0, y) &&
                                      qf_pt2_role_give(call, "scale_out", 1, as_target(call, "scale_out", scale)));
}

static qf_pt2_outcome map_scaled_product(qf_pt2_call *call) {
    const char *reason = NULL;
    qf_pt2_scaled_product product = {.a = qf_pt2_role_value(call, "a"),
                                     .b = qf_pt2_role_value(call, "b"),
                                     .a_scale = qf_pt2_role_value(call, "a_scale"),
                                     .b_scale = qf_pt2_role_value(call, "b_scale"),
                                     .bias = qf_pt2_role_value(call, "bias"),
                                     .out = out_dtype(call, "out", QF_BF16)};
    const char *dtype = qf_pt2_role(call, "dtype");
    if (*dtype && !qf_pt2_dtype_argument(call, dtype, product.out, &product.out))
        return qf_pt2_decline(call, "its element type is not QFuse's");
    qf_value y = qf_pt2_scaled_matmul(call, &product, &reason);
    return reason ? qf_pt2_decline(call, reason) : qf_pt2_mapped_if(call, qf_pt2_role_give(call, "out", 0, y));
}

/* --- norms and activations: FP8 where the line names a scale --- */
bool qf_pt2_role_quantised(qf_pt2_call *call, qf_value *out_scale, qf_attribute *out) {
    qf_value scale = qf_pt2_role_value(call, "scale");
    if (!scale.id) return true;
    *out_scale = qf_pt2_single(call, scale);
    out[0].integer = out_dtype(call, "out", QF_F8E4M3FN);
    out[1].integer = mode_of(call);
    return out_scale->id && qf_dtype_is_float8((qf_dtype)out[0].integer);
}

/* The kernels of norms and activations round to the operand's 16-bit type before they quantise. */
static qf_dtype rounded_before(qf_pt2_call *call, qf_value out_scale) {
    qf_dtype dtype = qf_pt2_dtype_of(call, qf_pt2_role_value(call, "x"));
    return out_scale.id && qf_dtype_bits(dtype) == 16 ? dtype : QF_DTYPE_NONE;
}

static qf_pt2_outcome map_norm(qf_pt2_call *call) {
    qf_value x = qf_pt2_role_value(call, "x"), operands[3] = {x, qf_pt2_role_value(call, "weight")};
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK || rank == 0) return qf_pt2_decline(call, "the shape of its input is unknown");
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_rms_norm, attributes);
    attributes[QF_ATTR(rms_norm, axis)].integer = rank - 1;
    attributes[QF_ATTR(rms_norm, epsilon)].number = qf_pt2_number(call, qf_pt2_role(call, "epsilon"), 1e-6);
    if (!qf_pt2_role_quantised(call, &operands[2], &attributes[QF_ATTR(rms_norm, out)]))
        return qf_pt2_decline(call, qf_pt2_scale_shape);
    attributes[QF_ATTR(rms_norm, via)].integer = rounded_before(call, operands[2]);
    return qf_pt2_mapped_if(
        call,
        qf_pt2_role_give(call, "out", 0, qf_import_op(qf_pt2_target(call), QF_OP_rms_norm, operands, 3, attributes)));
}

static qf_pt2_outcome map_add_norm(qf_pt2_call *call) {
    qf_value x = qf_pt2_role_value(call, "x"),
             operands[4] = {x, qf_pt2_role_value(call, "residual"), qf_pt2_role_value(call, "weight")};
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK || rank == 0) return qf_pt2_decline(call, "the shape of its input is unknown");
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_add_rms_norm, attributes);
    attributes[QF_ATTR(add_rms_norm, axis)].integer = rank - 1;
    attributes[QF_ATTR(add_rms_norm, epsilon)].number = qf_pt2_number(call, qf_pt2_role(call, "epsilon"), 1e-6);
    if (!qf_pt2_role_quantised(call, &operands[3], &attributes[QF_ATTR(add_rms_norm, out)]))
        return qf_pt2_decline(call, qf_pt2_scale_shape);
    attributes[QF_ATTR(add_rms_norm, via)].integer = rounded_before(call, operands[3]);
    if (!operands[1].id) return qf_pt2_decline(call, "it has no residual");
    qf_node node = qf_import_node(qf_pt2_target(call), QF_OP_add_rms_norm, operands, 4, attributes, 2);
    if (!node.id) return QF_PT2_FAILED;
    qf_value y = qf_node_result(qf_pt2_graph(call), node, 0), sum = qf_node_result(qf_pt2_graph(call), node, 1);
    const char *target = *qf_pt2_role(call, "out") ? "out" : "x";
    return qf_pt2_mapped_if(call, qf_pt2_role_give(call, target, 0, y) && qf_pt2_role_give(call, "residual", 1, sum));
}

/* The norm (of the sum with a residual), rounded to x's type, then quantised by each token's own scale. */
static qf_pt2_outcome map_norm_dynamic(qf_pt2_call *call) {
    qf_value x = qf_pt2_role_value(call, "x"), residual = qf_pt2_role_value(call, "residual"),
             bound = qf_pt2_role_value(call, "upper_bound");
    qf_value operands[] = {x, residual, qf_pt2_role_value(call, "weight")}, plain[] = {x, operands[2]}, y, sum = {0},
             scale = {0};
    uint32_t rank = qf_pt2_rank(call, x);
    qf_dtype dtype = out_dtype(call, "out", QF_F8E4M3FN);
    if (rank > QF_MAX_RANK || rank == 0) return qf_pt2_decline(call, "the shape of its input is unknown");
    if (!qf_dtype_is_float8(dtype)) return qf_pt2_decline(call, "it does not write FP8");
    if (bound.id && !(bound = qf_pt2_single(call, bound)).id) return qf_pt2_decline(call, qf_pt2_scale_shape);
    qf_op op = residual.id ? QF_OP_add_rms_norm : QF_OP_rms_norm;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, op, attributes);
    attributes[QF_ATTR(rms_norm, axis)].integer = rank - 1; /* both ops begin with these columns */
    attributes[QF_ATTR(rms_norm, epsilon)].number = qf_pt2_number(call, qf_pt2_role(call, "epsilon"), 1e-6);
    if (residual.id) {
        qf_node node = qf_import_node(qf_pt2_target(call), op, operands, 3, attributes, 2);
        if (!node.id) return QF_PT2_FAILED;
        y = qf_node_result(qf_pt2_graph(call), node, 0);
        sum = qf_node_result(qf_pt2_graph(call), node, 1);
    } else {
        y = qf_import_op(qf_pt2_target(call), op, plain, 2, attributes);
    }
    y = dynamic_quantize(call, y, bound, dtype, true, &scale);
    bool good = qf_pt2_role_give(call, "out", 0, y) &&
                qf_pt2_role_give(call, "scale_out", 1, as_target(call, "scale_out", scale));
    return qf_pt2_mapped_if(call, good && (!residual.id || qf_pt2_role_give(call, "residual", 2, sum)));
}

/* gelu of the first half of the last axis times the second. */
static qf_pt2_outcome map_gelu_mul(qf_pt2_call *call) {
    qf_value x = qf_pt2_role_value(call, "x");
    uint32_t rank = qf_pt2_rank(call, x);
    qf_context *context = call->import->context;
    if (rank > QF_MAX_RANK || rank == 0) return qf_pt2_decline(call, "the shape of its input is unknown");
    qf_dim whole = qf_pt2_dim_of(call, x, -1), half = qf_dim_divide_exactly(context, whole, qf_pt2_constant(call, 2));
    if (!half.id) return qf_pt2_decline(call, "its last axis has no halves");
    qf_value gate = qf_pt2_slice_axis(call, x, rank - 1, qf_pt2_constant(call, 0), half, 1);
    qf_value up = qf_pt2_slice_axis(call, x, rank - 1, half, whole, 1);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_gelu, attributes);
    bool tanh_form = qf_pt2_role_is(call, "approximate", "tanh");
    attributes[QF_ATTR(gelu, approximate)].integer = tanh_form ? QF_VALUE_tanh : QF_VALUE_erf;
    gate = qf_import_op(qf_pt2_target(call), QF_OP_gelu, &gate, 1, attributes);
    return qf_pt2_mapped_if(call, qf_pt2_role_give(call, "out", 0, qf_pt2_binary(call, QF_OP_mul, gate, up)));
}

static qf_pt2_outcome map_silu(qf_pt2_call *call) {
    qf_value operands[2] = {qf_pt2_role_value(call, "x")};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_silu_mul, attributes);
    if (!qf_pt2_role_quantised(call, &operands[1], &attributes[QF_ATTR(silu_mul, out)]))
        return qf_pt2_decline(call, qf_pt2_scale_shape);
    attributes[QF_ATTR(silu_mul, via)].integer = rounded_before(call, operands[1]);
    return qf_pt2_mapped_if(
        call,
        qf_pt2_role_give(call, "out", 0, qf_import_op(qf_pt2_target(call), QF_OP_silu_mul, operands, 2, attributes)));
}

/* --- rotation: query and key [tokens, heads * head size] or [tokens, heads, head size] --- */
/* The tokens are x's own where the positions count them by another symbol: that both are equal is then assumed. */
static qf_value rotate(qf_pt2_call *call, qf_value x, qf_value table, qf_value positions, qf_dim head_dim,
                       int64_t rotary) {
    uint32_t rank = qf_pt2_rank(call, x);
    qf_context *context = call->import->context;
    qf_dim count = qf_dim_product(context, qf_value_dims(qf_pt2_graph(call), x), rank), heads = {0};
    qf_dim candidates[] = {qf_pt2_dim_of(call, positions, 0), qf_pt2_dim_of(call, x, 0)}, tokens = {0};
    for (uint32_t i = 0; i < QF_COUNT_OF(candidates) && !heads.id; i++) {
        tokens = candidates[i];
        heads = qf_dim_divide_exactly(context, count, qf_dim_multiply(context, tokens, head_dim));
    }
    if (!heads.id) {
        call->reason = "its query or key is not whole heads for each position";
        return (qf_value){0};
    }
    qf_value rows = qf_import_view(qf_pt2_target(call), x, (qf_dim[]){tokens, heads, head_dim}, 3);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_rope, attributes);
    attributes[QF_ATTR(rope, interleaved)].integer = !qf_pt2_bool(call, qf_pt2_role(call, "neox"), true);
    attributes[QF_ATTR(rope, rotary_dim)].integer = rotary;
    table = qf_pt2_cast(call, table, qf_pt2_dtype_of(call, x));
    qf_value y = qf_import_op(qf_pt2_target(call), QF_OP_rope, (qf_value[]){rows, table, positions}, 3, attributes);
    return y.id ? qf_import_view(qf_pt2_target(call), y, qf_value_dims(qf_pt2_graph(call), x), rank) : y;
}

static qf_pt2_outcome map_rope(qf_pt2_call *call) {
    static const char *const roles[] = {"query", "key"};
    qf_value positions = qf_pt2_role_value(call, "positions"), table = qf_pt2_role_value(call, "cos_sin");
    qf_dim head_dim;
    int64_t rotary;
    if (qf_pt2_rank(call, positions) != 1 || qf_pt2_rank(call, table) != 2 ||
        !qf_pt2_dim(call, qf_pt2_role(call, "head_size"), &head_dim) ||
        !qf_dim_is_constant(call->import->context, qf_pt2_dim_of(call, table, 1), &rotary))
        return qf_pt2_decline(call, "the shapes of its positions and table, or its head size, are not known");
    for (uint32_t i = 0; i < 2; i++) {
        qf_value x = qf_pt2_role_value(call, roles[i]);
        if (!x.id) continue;
        if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, "the shape of its input is unknown");
        qf_value turned = rotate(call, x, table, positions, head_dim, rotary);
        if (call->reason) return qf_pt2_decline(call, call->reason);
        if (!qf_pt2_role_give(call, roles[i], i, turned)) return qf_pt2_mapped_if(call, false);
    }
    return QF_PT2_MAPPED;
}

static const qf_pt2_family families[] = {
    {"quantize", map_quantize},
    {"dynamic_quantize", map_dynamic_quantize},
    {"scaled_mm", map_scaled_product},
    {"rms_norm", map_norm},
    {"add_rms_norm", map_add_norm},
    {"rms_norm_dynamic", map_norm_dynamic},
    {"gelu_mul", map_gelu_mul},
    {"silu_mul", map_silu},
    {"rope", map_rope},
    {"attention", qf_pt2_map_layer_attention},
    {"cache_update", qf_pt2_map_cache_update},
    {"cache_write", qf_pt2_map_cache_write},
};

const qf_pt2_family *qf_pt2_family_of(const char *name) {
    for (size_t i = 0; i < QF_COUNT_OF(families); i++)
        if (strcmp(families[i].name, name) == 0) return &families[i];
    return NULL;
}
