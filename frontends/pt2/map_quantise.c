/* Owns: mappings of products of FP8 matrices with scales, and of torch's operators that quantise.
 * Does not own: quantisation by custom operators (map_custom.c).
 * Next: map_custom.c. */
#include "frontends/pt2/maps.h"

/* One number, under whatever shape, as []; per row [M, 1], per column [1, N], from any shape of that many elements.
 * 0: another shape. */
static qf_value fit_scale(qf_pt2_call *call, qf_value scale, bool of_rows) {
    qf_context *context = call->import->context;
    uint32_t rank = qf_pt2_rank(call, scale);
    if (rank > QF_MAX_RANK) return (qf_value){0};
    if (qf_pt2_is_single(call, scale)) return qf_pt2_single(call, scale);
    scale = qf_pt2_cast(call, scale, QF_F32);
    if (rank == 1) return qf_pt2_unsqueeze(call, scale, of_rows ? 1 : 0);
    if (rank != 2) return (qf_value){0};
    bool column = qf_dim_is(context, qf_pt2_dim_of(call, scale, 1), 1);
    if (!column && !qf_dim_is(context, qf_pt2_dim_of(call, scale, 0), 1)) return (qf_value){0};
    return column == of_rows ? scale : qf_pt2_swap(call, scale, 0, 1);
}

qf_value qf_pt2_scaled_matmul(qf_pt2_call *call, const qf_pt2_scaled_product *product, const char **reason) {
    qf_value a_scale = fit_scale(call, product->a_scale, true), b_scale = fit_scale(call, product->b_scale, false);
    bool narrow =
        qf_dtype_is_float8(qf_pt2_dtype_of(call, product->a)) && qf_dtype_is_float8(qf_pt2_dtype_of(call, product->b));
    if (!narrow || qf_pt2_rank(call, product->b) != 2 || qf_pt2_rank(call, product->a) < 2)
        *reason = "its operands are no FP8 matrices";
    else if (!a_scale.id || !b_scale.id)
        *reason = "its scales are neither one number, nor one a row or column";
    else if (product->out == QF_DTYPE_NONE || qf_dtype_bits(product->out) < 16)
        *reason = "its result has no type that QFuse computes";
    if (*reason || call->import->failed) return (qf_value){0};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_scaled_matmul, attributes);
    attributes[QF_ATTR(scaled_matmul, out)].integer = product->out;
    qf_value bias = product->bias.id ? qf_pt2_cast(call, product->bias, product->out) : product->bias;
    qf_value operands[] = {product->a, product->b, a_scale, b_scale, bias};
    return qf_import_op(qf_pt2_target(call), QF_OP_scaled_matmul, operands, 5, attributes);
}

/* Without out_dtype the result has the operands' dtype. */
qf_pt2_outcome qf_pt2_map_scaled_mm(qf_pt2_call *call) {
    qf_pt2_scaled_product product = {.a = qf_pt2_in(call, "self"),
                                     .b = qf_pt2_in(call, "mat2"),
                                     .a_scale = qf_pt2_in(call, "scale_a"),
                                     .b_scale = qf_pt2_in(call, "scale_b"),
                                     .bias = qf_pt2_in(call, "bias")};
    const char *reason = NULL;
    if (!qf_pt2_dtype_argument(call, "out_dtype", qf_pt2_dtype_of(call, product.a), &product.out))
        return qf_pt2_decline(call, "its element type is not QFuse's");
    qf_value y = qf_pt2_scaled_matmul(call, &product, &reason);
    return reason ? qf_pt2_decline(call, reason) : qf_pt2_done(call, y);
}

/* --- torch's quantising operators: elementwise chains, which the rules read as what they are --- */

/* A scale, zero point or bound as f32: a number, a tensor of one, or one an index of `axis` (-1: none) beside x. 0:
 * another shape, absent, or a failure. */
static qf_value parameter_of(qf_pt2_call *call, const char *name, qf_value x, int64_t axis) {
    qf_value value = qf_pt2_in(call, name);
    uint32_t rank = qf_pt2_rank(call, x), own = qf_pt2_rank(call, value);
    qf_dim dims[QF_MAX_RANK];
    if (!value.id) return qf_pt2_is_number(call, name) ? qf_pt2_number_value(call, name, QF_F32) : value;
    if (own > QF_MAX_RANK || rank > QF_MAX_RANK) return (qf_value){0};
    if (qf_pt2_is_single(call, value)) return qf_pt2_single(call, value);
    value = qf_pt2_cast(call, value, QF_F32);
    if (own != 1 || axis < 0) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++) dims[i] = i == axis ? qf_pt2_dim_of(call, value, 0) : qf_pt2_constant(call, 1);
    return qf_import_view(qf_pt2_target(call), value, dims, rank);
}

/* Whether the argument is absent, or known to be zero. */
static bool is_zero(qf_pt2_call *call, const char *name) {
    qf_value value = qf_pt2_in(call, name);
    const qf_dim *elements;
    uint32_t count;
    if (!value.id) return qf_pt2_number(call, name, 0) == 0;
    if (!qf_symbolic_elements(call->import->symbolic, value, &elements, &count)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!qf_dim_is(call->import->context, elements[i], 0)) return false;
    return true;
}

static const char no_parameters[] = "its scales are neither one number, nor one an index of its axis";

/* The operands that both directions have; per_channel (row argument 1) has other names for them, and an axis. */
typedef struct affine {
    qf_value x, scale, zero; /* f32; zero 0: it is zero */
    qf_dtype dtype;
} affine;

/* QF_PT2_MAPPED, or what the mapping ends with. */
static qf_pt2_outcome read_affine(qf_pt2_call *call, const char *dtype_name, qf_dtype otherwise, affine *out) {
    bool channels = call->row->argument != 0;
    uint32_t channel, rank;
    int64_t axis = -1;
    *out = (affine){.x = qf_pt2_cast(call, qf_pt2_in(call, "input"), QF_F32)};
    rank = qf_pt2_rank(call, out->x);
    if (rank > QF_MAX_RANK || !qf_pt2_dtype_argument(call, dtype_name, otherwise, &out->dtype))
        return qf_pt2_decline(call, "its shape or element type is unknown");
    if (channels) {
        if (!qf_pt2_axis(call, qf_pt2_int(call, "axis", 0), rank, &channel)) return QF_PT2_FAILED;
        axis = channel;
    }
    const char *zero_name = channels ? "zero_points" : "zero_point";
    bool none = is_zero(call, zero_name);
    out->scale = parameter_of(call, channels ? "scales" : "scale", out->x, axis);
    if (!none) out->zero = parameter_of(call, zero_name, out->x, axis);
    return out->scale.id && (none || out->zero.id) ? QF_PT2_MAPPED : qf_pt2_decline(call, no_parameters);
}

/* clamp(round(x * (1 / scale)) + zero_point) as dtype. */
qf_pt2_outcome qf_pt2_map_quantize_affine(qf_pt2_call *call) {
    affine in;
    qf_pt2_outcome outcome = read_affine(call, "dtype", QF_DTYPE_NONE, &in);
    if (outcome != QF_PT2_MAPPED) return outcome;
    qf_value low = parameter_of(call, "quant_min", in.x, -1), high = parameter_of(call, "quant_max", in.x, -1);
    if (!low.id || !high.id) return qf_pt2_decline(call, no_parameters);
    qf_value reciprocal = qf_import_unary(qf_pt2_target(call), QF_OP_reciprocal, in.scale);
    qf_value y = qf_pt2_binary(call, QF_OP_mul, in.x, reciprocal);
    y = qf_import_unary(qf_pt2_target(call), QF_OP_round, y);
    if (in.zero.id) y = qf_pt2_binary(call, QF_OP_add, y, in.zero);
    return qf_pt2_done(call, qf_pt2_cast(call, qf_import_clamp(qf_pt2_target(call), y, low, high), in.dtype));
}

/* (x - zero_point) * scale as out_dtype. */
qf_pt2_outcome qf_pt2_map_dequantize_affine(qf_pt2_call *call) {
    affine in;
    qf_pt2_outcome outcome = read_affine(call, "out_dtype", QF_F32, &in);
    if (outcome != QF_PT2_MAPPED) return outcome;
    if (in.zero.id) in.x = qf_pt2_binary(call, QF_OP_sub, in.x, in.zero);
    qf_value y = qf_pt2_binary(call, QF_OP_mul, in.x, in.scale);
    return qf_pt2_done(call, qf_pt2_cast(call, y, in.dtype));
}

/* A scale of torchao beside x: one number, or one that broadcasts. 0: of blocks, or unknown. */
static qf_value block_scale(qf_pt2_call *call, qf_value x) {
    qf_value scale = parameter_of(call, "scale", x, -1);
    uint32_t rank = qf_pt2_rank(call, x);
    if (scale.id) return scale;
    scale = qf_pt2_cast(call, qf_pt2_in(call, "scale"), QF_F32);
    if (rank > QF_MAX_RANK || qf_pt2_rank(call, scale) != rank) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++) {
        qf_dim dim = qf_pt2_dim_of(call, scale, (int32_t)i);
        if (!qf_dim_is(call->import->context, dim, 1) && !qf_dim_equal(dim, qf_pt2_dim_of(call, x, (int32_t)i)))
            return (qf_value){0};
    }
    return scale;
}

static const char of_blocks[] = "its scale is of blocks, or of an unknown shape";

/* x / scale, clamped to the format's bounds, as FP8. */
qf_pt2_outcome qf_pt2_map_quantize_float8(qf_pt2_call *call) {
    qf_value x = qf_pt2_cast(call, qf_pt2_in(call, "tensor"), QF_F32), scale = block_scale(call, x);
    qf_dtype dtype;
    if (!qf_pt2_dtype_argument(call, "float8_dtype", QF_F8E4M3FN, &dtype) || !qf_dtype_is_float8(dtype))
        return qf_pt2_decline(call, "it does not give FP8");
    if (!scale.id) return qf_pt2_decline(call, of_blocks);
    double largest = qf_dtype_largest(dtype);
    qf_value y = qf_import_clamp(qf_pt2_target(call), qf_pt2_binary(call, QF_OP_div, x, scale),
                                 qf_pt2_scalar(call, QF_F32, -largest), qf_pt2_scalar(call, QF_F32, largest));
    return qf_pt2_done(call, qf_pt2_cast(call, y, dtype));
}

qf_pt2_outcome qf_pt2_map_dequantize_float8(qf_pt2_call *call) {
    qf_value x = qf_pt2_cast(call, qf_pt2_in(call, "tensor"), QF_F32), scale = block_scale(call, x);
    qf_dtype dtype;
    if (!qf_pt2_dtype_argument(call, "output_dtype", QF_F32, &dtype))
        return qf_pt2_decline(call, "its element type is not QFuse's");
    if (!scale.id) return qf_pt2_decline(call, of_blocks);
    return qf_pt2_done(call, qf_pt2_cast(call, qf_pt2_binary(call, QF_OP_mul, x, scale), dtype));
}
