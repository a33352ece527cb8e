/* Owns: mappings of products of FP8 matrices with scales.
 * Does not own: quantisation by custom operators (map_custom.c).
 * Next: map_custom.c. */
#include "frontends/pt2/maps.h"

/* One number, under whatever shape, as []; per row [M, 1] and per column [1, N] as they are. 0: another shape. */
static qf_value fit_scale(qf_pt2_call *call, qf_value scale, bool of_rows) {
    qf_context *context = call->import->context;
    uint32_t rank = qf_pt2_rank(call, scale);
    if (rank > QF_MAX_RANK) return (qf_value){0};
    scale = qf_pt2_cast(call, scale, QF_F32);
    bool single = true;
    for (uint32_t i = 0; i < rank; i++) single &= qf_dim_is(context, qf_pt2_dim_of(call, scale, (int32_t)i), 1);
    if (single) return qf_import_view(qf_pt2_target(call), scale, NULL, 0);
    if (rank == 1) return qf_pt2_unsqueeze(call, scale, of_rows ? 1 : 0);
    bool fits = rank == 2 && qf_dim_is(context, qf_pt2_dim_of(call, scale, of_rows ? 1 : 0), 1);
    return fits ? scale : (qf_value){0};
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
