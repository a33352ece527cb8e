/* Owns: mappings of matrix products, einsum and convolution.
 * Does not own: scaled products (map_quantise.c).
 * Next: map_attention.c. */
#include <string.h>

#include "frontends/pt2/maps.h"

static bool is_matrix_like(const qf_pt2_call *call, qf_value x) {
    uint32_t rank = qf_pt2_rank(call, x);
    return rank >= 1 && rank <= QF_MAX_RANK;
}

static const char unfit[] = "the shape of an operand is unknown or a scalar's";

/* matmul, mm, bmm. */
qf_pt2_outcome qf_pt2_map_matmul(qf_pt2_call *call) {
    qf_value a = qf_pt2_in(call, "self"), b = qf_pt2_in(call, qf_pt2_has(call, "other") ? "other" : "mat2");
    if (!is_matrix_like(call, a) || !is_matrix_like(call, b)) return qf_pt2_decline(call, unfit);
    return qf_pt2_done(call, qf_pt2_matmul(call, a, b, false));
}

qf_pt2_outcome qf_pt2_map_linear(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "input"), weight = qf_pt2_in(call, "weight"), bias = qf_pt2_in(call, "bias");
    if (!is_matrix_like(call, x) || qf_pt2_rank(call, weight) != 2) return qf_pt2_decline(call, unfit);
    qf_value y = qf_pt2_matmul(call, x, weight, true);
    return qf_pt2_done(call, bias.id ? qf_pt2_binary(call, QF_OP_add, y, bias) : y);
}

static qf_value scaled(qf_pt2_call *call, qf_value x, const char *name) {
    double factor = qf_pt2_number(call, name, 1);
    return factor == 1 ? x : qf_pt2_binary(call, QF_OP_mul, x, qf_pt2_scalar(call, qf_pt2_dtype_of(call, x), factor));
}

/* addmm, baddbmm: beta * self + alpha * product. */
qf_pt2_outcome qf_pt2_map_addmm(qf_pt2_call *call) {
    bool batched = qf_pt2_has(call, "batch1");
    qf_value a = qf_pt2_in(call, batched ? "batch1" : "mat1"), b = qf_pt2_in(call, batched ? "batch2" : "mat2");
    if (!is_matrix_like(call, a) || !is_matrix_like(call, b)) return qf_pt2_decline(call, unfit);
    qf_value product = scaled(call, qf_pt2_matmul(call, a, b, false), "alpha");
    if (qf_pt2_number(call, "beta", 1) == 0) return qf_pt2_done(call, product);
    return qf_pt2_done(call, qf_pt2_binary(call, QF_OP_add, product, scaled(call, qf_pt2_in(call, "self"), "beta")));
}

/* Two operands without repeated labels or an ellipsis; spaces go. */
static bool read_equation(const char *text, char *out, size_t size) {
    size_t count = 0, commas = 0;
    bool arrow = false;
    for (; *text; text++) {
        if (*text == ' ') continue;
        if (*text == '.' || count + 1 == size) return false;
        commas += *text == ',';
        arrow |= *text == '>';
        out[count++] = *text;
    }
    out[count] = '\0';
    size_t start = 0;
    for (size_t i = 0; i <= count; i++) {
        if (i < count && out[i] != ',' && out[i] != '-' && out[i] != '>') {
            if (memchr(out + start, out[i], i - start)) return false;
            continue;
        }
        start = i + 1;
    }
    return commas == 1 && arrow;
}

qf_pt2_outcome qf_pt2_map_einsum(qf_pt2_call *call) {
    char equation[64];
    uint32_t *tensors, count;
    if (!read_equation(qf_pt2_string(call, "equation", ""), equation, sizeof equation))
        return qf_pt2_decline(call, "its equation is not one of two operands with all labels written once");
    if (!qf_pt2_tensors(call, "tensors", &tensors, &count) || count != 2 || !tensors[0] || !tensors[1])
        return qf_pt2_decline(call, "it has not two operands");
    return qf_pt2_done(call, qf_import_contract(qf_pt2_target(call), equation, qf_pt2_read(call, tensors[0]),
                                                qf_pt2_read(call, tensors[1])));
}

/* --- convolution --- */
/* One number an axis; a single one counts for all. */
static bool each_axis(qf_pt2_call *call, const char *name, uint32_t axes, int64_t otherwise, int64_t *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < axes; i++) out[i] = otherwise;
    if (!qf_pt2_has(call, name)) return true;
    if (!qf_pt2_ints(call, name, out, QF_MAX_RANK, &count) || (count != 1 && count != axes)) return false;
    for (uint32_t i = 1; count == 1 && i < axes; i++) out[i] = out[0];
    return true;
}

/* Padding as a word: "valid", or "same", which keeps the size and pads an odd element behind. */
static bool named_padding(qf_pt2_call *call, qf_value weight, const int64_t *dilations, uint32_t axes, int64_t *before,
                          int64_t *after) {
    const char *name = qf_pt2_string(call, "padding", "");
    for (uint32_t i = 0; i < axes; i++) {
        int64_t size, total = 0;
        if (strcmp(name, "same") == 0) {
            qf_dim extent = qf_pt2_dim_of(call, weight, (int32_t)i + 2);
            if (!qf_dim_is_constant(call->import->context, extent, &size)) return false;
            if (size < 1 || dilations[i] < 1 || size - 1 > INT32_MAX / dilations[i]) return false;
            total = dilations[i] * (size - 1);
        }
        before[i] = total / 2;
        after[i] = total - before[i];
    }
    return true;
}

/* conv1d, conv2d, conv3d, convolution. */
qf_pt2_outcome qf_pt2_map_conv(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "input"), weight = qf_pt2_in(call, "weight"), bias = qf_pt2_in(call, "bias");
    uint32_t rank = qf_pt2_rank(call, x);
    int64_t strides[QF_MAX_RANK * 2], pads[QF_MAX_RANK * 2], after[QF_MAX_RANK * 2], dilations[QF_MAX_RANK * 2];
    if (rank < 3 || rank > QF_MAX_RANK || qf_pt2_rank(call, weight) != rank)
        return qf_pt2_decline(call, "it has no batch");
    if (qf_pt2_bool(call, "transposed", false)) return qf_pt2_decline(call, "it is transposed");
    uint32_t axes = rank - 2;
    bool named = *qf_pt2_string(call, "padding", "") != '\0';
    if (!each_axis(call, "stride", axes, 1, strides) || !each_axis(call, "dilation", axes, 1, dilations) ||
        !(named ? named_padding(call, weight, dilations, axes, pads, after)
                : each_axis(call, "padding", axes, 0, pads)))
        return qf_pt2_decline(call, "its strides, padding or dilation are not known");
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_conv, attributes);
    attributes[QF_ATTR(conv, strides)] = (qf_attribute){.ints = strides, .count = axes};
    attributes[QF_ATTR(conv, pads_before)] = (qf_attribute){.ints = pads, .count = axes};
    attributes[QF_ATTR(conv, pads_after)] = (qf_attribute){.ints = named ? after : pads, .count = axes};
    attributes[QF_ATTR(conv, dilations)] = (qf_attribute){.ints = dilations, .count = axes};
    attributes[QF_ATTR(conv, groups)].integer = qf_pt2_int(call, "groups", 1);
    return qf_pt2_done(call,
                       qf_import_op(qf_pt2_target(call), QF_OP_conv, (qf_value[]){x, weight, bias}, 3, attributes));
}
