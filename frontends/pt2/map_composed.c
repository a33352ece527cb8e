/* Owns: mappings of operators that are several of QFuse's: computed in f32 (f64 stays f64), rounded once.
 * Does not own: operators that are one (map_elementwise.c, map_reduce.c), layout (map_layout.c).
 * Next: ops.def. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "frontends/pt2/maps.h"

/* What torch.diff may be asked to repeat. */
#define MAX_DIFFERENCES 8

static const char no_shape[] = "the shape of its input is unknown";
static const char no_float[] = "it computes with other numbers than floats";

/* The float argument as it is computed with; 0: no float, or absent. */
static qf_value widened(qf_pt2_call *call, const char *name) {
    qf_value x = qf_pt2_in(call, name);
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    if (!x.id || !qf_dtype_is_float(dtype) || qf_dtype_is_float8(dtype)) return (qf_value){0};
    return dtype == QF_F64 ? x : qf_pt2_cast(call, x, QF_F32);
}

static qf_pt2_outcome done_like(qf_pt2_call *call, const char *name, qf_value y) {
    return qf_pt2_done(call, qf_pt2_cast(call, y, qf_pt2_dtype_of(call, qf_pt2_in(call, name))));
}

static qf_value number(qf_pt2_call *call, qf_value like, double value) {
    return qf_pt2_scalar(call, qf_pt2_dtype_of(call, like), value);
}

static qf_value add(qf_pt2_call *call, qf_value a, qf_value b) {
    return qf_pt2_binary(call, QF_OP_add, a, b);
}

static qf_value sub(qf_pt2_call *call, qf_value a, qf_value b) {
    return qf_pt2_binary(call, QF_OP_sub, a, b);
}

static qf_value mul(qf_pt2_call *call, qf_value a, qf_value b) {
    return qf_pt2_binary(call, QF_OP_mul, a, b);
}

static qf_value scaled(qf_pt2_call *call, qf_value a, double factor) {
    return factor == 1 ? a : mul(call, a, number(call, a, factor));
}

static qf_value less(qf_pt2_call *call, qf_value a, qf_value b) {
    return qf_pt2_binary(call, QF_OP_less, a, b);
}

/* --- functions of one number --- */

/* log(1 + x), through f64, where 1 + x keeps what f32 drops. */
static qf_value log_of_one_plus(qf_pt2_call *call, qf_value x) {
    qf_value wide = qf_pt2_cast(call, x, QF_F64);
    qf_value y = qf_import_unary(qf_pt2_target(call), QF_OP_log, add(call, wide, number(call, wide, 1)));
    return qf_pt2_cast(call, y, qf_pt2_dtype_of(call, x));
}

static qf_value truncated(qf_pt2_call *call, qf_value x) {
    return qf_import_where(qf_pt2_target(call), less(call, x, number(call, x, 0)),
                           qf_import_unary(qf_pt2_target(call), QF_OP_ceil, x),
                           qf_import_unary(qf_pt2_target(call), QF_OP_floor, x));
}

static qf_value softplus(qf_pt2_call *call, qf_value x, double beta, double threshold) {
    qf_value steep = scaled(call, x, beta);
    qf_value soft =
        scaled(call, log_of_one_plus(call, qf_import_unary(qf_pt2_target(call), QF_OP_exp, steep)), 1 / beta);
    return qf_import_where(qf_pt2_target(call), less(call, number(call, x, threshold), steep), x, soft);
}

static qf_value clamped(qf_pt2_call *call, qf_value x, double low, double high) {
    qf_value least = number(call, x, low), most = number(call, x, high);
    return qf_import_clamp(qf_pt2_target(call), x, least, most);
}

/* max(0, x) * scale + min(0, alpha * (e^(x * input_scale) - 1)) * scale */
static qf_value elu(qf_pt2_call *call, qf_value x) {
    double alpha = qf_pt2_number(call, "alpha", 1), scale = qf_pt2_number(call, "scale", 1);
    qf_value powers =
        qf_import_unary(qf_pt2_target(call), QF_OP_exp, scaled(call, x, qf_pt2_number(call, "input_scale", 1)));
    qf_value low = scaled(call, sub(call, powers, number(call, x, 1)), alpha * scale);
    return qf_import_where(qf_pt2_target(call), less(call, number(call, x, 0), x), scaled(call, x, scale), low);
}

qf_pt2_outcome qf_pt2_map_function(qf_pt2_call *call) {
    qf_value x = widened(call, "self"), y = {0};
    if (!x.id) return qf_pt2_decline(call, no_float);
    switch ((qf_pt2_function)call->row->argument) {
    case QF_PT2_TRUNC: y = truncated(call, x); break;
    case QF_PT2_LOG1P: y = log_of_one_plus(call, x); break;
    case QF_PT2_EXPM1:
        y = sub(call, qf_import_unary(qf_pt2_target(call), QF_OP_exp, qf_pt2_cast(call, x, QF_F64)),
                qf_pt2_scalar(call, QF_F64, 1));
        break;
    case QF_PT2_LOG2:
        y = scaled(call, qf_import_unary(qf_pt2_target(call), QF_OP_log, qf_pt2_cast(call, x, QF_F64)), 1 / log(2));
        break;
    case QF_PT2_LOG10:
        y = scaled(call, qf_import_unary(qf_pt2_target(call), QF_OP_log, qf_pt2_cast(call, x, QF_F64)), 1 / log(10));
        break;
    case QF_PT2_EXP2: y = qf_pt2_binary(call, QF_OP_pow, number(call, x, 2), x); break;
    case QF_PT2_TAN:
        y = qf_pt2_binary(call, QF_OP_div, qf_import_unary(qf_pt2_target(call), QF_OP_sin, x),
                          qf_import_unary(qf_pt2_target(call), QF_OP_cos, x));
        break;
    case QF_PT2_SOFTPLUS:
        y = softplus(call, x, qf_pt2_number(call, "beta", 1), qf_pt2_number(call, "threshold", 20));
        break;
    case QF_PT2_MISH:
        y = mul(call, x, qf_import_unary(qf_pt2_target(call), QF_OP_tanh, softplus(call, x, 1, 20)));
        break;
    case QF_PT2_ELU: y = elu(call, x); break;
    case QF_PT2_LEAKY_RELU:
        y = qf_import_where(qf_pt2_target(call), less(call, number(call, x, 0), x), x,
                            scaled(call, x, qf_pt2_number(call, "negative_slope", 0.01)));
        break;
    case QF_PT2_HARDTANH:
        y = clamped(call, x, qf_pt2_number(call, "min_val", -1), qf_pt2_number(call, "max_val", 1));
        break;
    case QF_PT2_RELU6: y = clamped(call, x, 0, 6); break;
    case QF_PT2_HARDSIGMOID: y = scaled(call, clamped(call, add(call, x, number(call, x, 3)), 0, 6), 1.0 / 6); break;
    case QF_PT2_HARDSWISH:
        y = scaled(call, mul(call, x, clamped(call, add(call, x, number(call, x, 3)), 0, 6)), 1.0 / 6);
        break;
    }
    return done_like(call, "self", y);
}

qf_pt2_outcome qf_pt2_map_is_finite(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    if (!qf_dtype_is_float(qf_pt2_dtype_of(call, x))) return qf_pt2_decline(call, no_float);
    qf_value odd = qf_pt2_binary(call, QF_OP_or, qf_import_unary(qf_pt2_target(call), QF_OP_is_nan, x),
                                 qf_import_unary(qf_pt2_target(call), QF_OP_is_inf, x));
    return qf_pt2_done(call, qf_import_unary(qf_pt2_target(call), QF_OP_not, odd));
}

/* NaN, +inf and -inf become numbers: 0 and the largest ones unless said otherwise. */
qf_pt2_outcome qf_pt2_map_nan_to_num(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    if (!qf_dtype_is_float(dtype)) return qf_pt2_decline(call, no_float);
    double largest = dtype == QF_F64 ? DBL_MAX : qf_dtype_largest(dtype);
    qf_value high = number(call, x, qf_pt2_number(call, "posinf", largest));
    qf_value low = number(call, x, qf_pt2_number(call, "neginf", -largest));
    qf_value infinite = qf_import_unary(qf_pt2_target(call), QF_OP_is_inf, x),
             negative = less(call, x, number(call, x, 0));
    qf_value y =
        qf_import_where(qf_pt2_target(call), infinite, qf_import_where(qf_pt2_target(call), negative, low, high), x);
    return qf_pt2_done(call, qf_import_where(qf_pt2_target(call), qf_import_unary(qf_pt2_target(call), QF_OP_is_nan, x),
                                             number(call, x, qf_pt2_number(call, "nan", 0)), y));
}

/* The remainder with the sign of self. */
qf_pt2_outcome qf_pt2_map_fmod(qf_pt2_call *call) {
    qf_pt2_pair pair;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    if (!qf_pt2_promote(call, "self", "other", false, &pair))
        return qf_pt2_decline(call, "it mixes element types, or reads some, that QFuse does not have");
    qf_pt2_defaults(call, QF_OP_mod, attributes);
    attributes[QF_ATTR(mod, fmod)].integer = true;
    qf_value y = qf_import_op(qf_pt2_target(call), QF_OP_mod, (qf_value[]){pair.a, pair.b}, 2, attributes);
    return qf_pt2_done(call, qf_pt2_cast(call, y, pair.result));
}

/* --- of several tensors of one type --- */

static bool all_widened(qf_pt2_call *call, const char *const *names, uint32_t count, qf_value *out) {
    qf_dtype dtype = qf_pt2_dtype_of(call, qf_pt2_in(call, names[0]));
    for (uint32_t i = 0; i < count; i++) {
        out[i] = widened(call, names[i]);
        if (!out[i].id || qf_pt2_dtype_of(call, qf_pt2_in(call, names[i])) != dtype) return false;
    }
    return true;
}

/* self + value * tensor1 * tensor2; row argument 1: / tensor2. */
qf_pt2_outcome qf_pt2_map_addc(qf_pt2_call *call) {
    static const char *const names[] = {"self", "tensor1", "tensor2"};
    qf_value x[3];
    if (!all_widened(call, names, 3, x)) return qf_pt2_decline(call, no_float);
    qf_value part = scaled(call, x[1], qf_pt2_number(call, "value", 1));
    part = qf_pt2_binary(call, call->row->argument ? QF_OP_div : QF_OP_mul, part, x[2]);
    return done_like(call, "self", add(call, x[0], part));
}

/* From the nearer end, as torch does. */
qf_pt2_outcome qf_pt2_map_lerp(qf_pt2_call *call) {
    static const char *const names[] = {"self", "end"};
    qf_value x[2];
    double weight = qf_pt2_number(call, "weight", 0);
    if (!all_widened(call, names, 2, x)) return qf_pt2_decline(call, no_float);
    qf_value way = sub(call, x[1], x[0]);
    qf_value y = fabs(weight) < 0.5 ? add(call, x[0], mul(call, way, number(call, way, weight)))
                                    : sub(call, x[1], mul(call, way, number(call, way, 1 - weight)));
    return done_like(call, "self", y);
}

/* The first half of an axis times the sigmoid of the second. */
qf_pt2_outcome qf_pt2_map_glu(qf_pt2_call *call) {
    qf_value x = widened(call, "self");
    uint32_t axis, rank = qf_pt2_rank(call, x);
    if (!x.id) return qf_pt2_decline(call, no_float);
    if (rank > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", -1), rank, &axis)) return QF_PT2_FAILED;
    qf_dim whole = qf_pt2_dim_of(call, x, (int32_t)axis), zero = qf_pt2_constant(call, 0);
    qf_dim half = qf_dim_divide_exactly(call->import->context, whole, qf_pt2_constant(call, 2));
    if (!half.id) return qf_pt2_decline(call, "its axis has no halves");
    qf_value gate =
        qf_import_unary(qf_pt2_target(call), QF_OP_sigmoid, qf_pt2_slice_axis(call, x, axis, half, whole, 1));
    return done_like(call, "self", mul(call, qf_pt2_slice_axis(call, x, axis, zero, half, 1), gate));
}

/* One slope, or one for each index of axis 1. */
qf_pt2_outcome qf_pt2_map_prelu(qf_pt2_call *call) {
    static const char *const names[] = {"self", "weight"};
    qf_value x[2];
    if (!all_widened(call, names, 2, x)) return qf_pt2_decline(call, no_float);
    uint32_t rank = qf_pt2_rank(call, x[0]);
    if (rank > QF_MAX_RANK || qf_pt2_rank(call, x[1]) > 1) return qf_pt2_decline(call, no_shape);
    qf_dim dims[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) dims[i] = qf_pt2_constant(call, 1);
    if (rank > 1 && qf_pt2_rank(call, x[1]) == 1) dims[1] = qf_pt2_dim_of(call, x[1], 0);
    qf_value slope = rank > 1 ? qf_import_view(qf_pt2_target(call), x[1], dims, rank) : x[1];
    qf_value y =
        qf_import_where(qf_pt2_target(call), less(call, number(call, x[0], 0), x[0]), x[0], mul(call, x[0], slope));
    return done_like(call, "self", y);
}

/* --- along axes --- */

static bool axes_of(qf_pt2_call *call, qf_value x, qf_pt2_axes *out) {
    return qf_pt2_read_axes(call, "dim", qf_pt2_rank(call, x), out);
}

static qf_value sum(qf_pt2_call *call, qf_value x, const qf_pt2_axes *axes, bool keep) {
    return qf_pt2_reduce(call, QF_OP_reduce_sum, x, axes->items, axes->count, keep);
}

/* The maximum plus the log of the sum; an infinite maximum is not subtracted. */
qf_pt2_outcome qf_pt2_map_logsumexp(qf_pt2_call *call) {
    qf_value x = widened(call, "self");
    bool keep = qf_pt2_bool(call, "keepdim", false);
    qf_pt2_axes axes;
    if (!x.id) return qf_pt2_decline(call, no_float);
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!axes_of(call, x, &axes)) return QF_PT2_FAILED;
    qf_value most = qf_pt2_reduce(call, QF_OP_reduce_max, x, axes.items, axes.count, true);
    most = qf_import_where(qf_pt2_target(call), qf_import_unary(qf_pt2_target(call), QF_OP_is_inf, most),
                           number(call, x, 0), most);
    qf_value all = sum(call, qf_import_unary(qf_pt2_target(call), QF_OP_exp, sub(call, x, most)), &axes, true);
    qf_value y = add(call, most, qf_import_unary(qf_pt2_target(call), QF_OP_log, all));
    if (!keep) y = qf_pt2_reduce(call, QF_OP_reduce_sum, y, axes.items, axes.count, false); /* of one element each */
    return done_like(call, "self", y);
}

qf_pt2_outcome qf_pt2_map_vector_norm(qf_pt2_call *call) {
    qf_value x = widened(call, "self"), y;
    bool keep = qf_pt2_bool(call, "keepdim", false);
    double order = qf_pt2_number(call, call->row->argument ? "p" : "ord", 2);
    qf_pt2_axes axes;
    qf_dtype dtype;
    if (!x.id || !qf_pt2_dtype_argument(call, "dtype", qf_pt2_dtype_of(call, qf_pt2_in(call, "self")), &dtype))
        return qf_pt2_decline(call, no_float);
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!axes_of(call, x, &axes)) return QF_PT2_FAILED;
    if (order == 2)
        y = qf_import_unary(qf_pt2_target(call), QF_OP_sqrt, sum(call, mul(call, x, x), &axes, keep));
    else if (order == 1)
        y = sum(call, qf_import_unary(qf_pt2_target(call), QF_OP_abs, x), &axes, keep);
    else if (order == HUGE_VAL)
        y = qf_pt2_reduce(call, QF_OP_reduce_max, qf_import_unary(qf_pt2_target(call), QF_OP_abs, x), axes.items,
                          axes.count, keep);
    else
        return qf_pt2_decline(call, "its order is none of 1, 2 and infinity");
    return qf_pt2_done(call, qf_pt2_cast(call, y, dtype));
}

/* v by its norm over all axes but one, times g. */
qf_pt2_outcome qf_pt2_map_weight_norm(qf_pt2_call *call) {
    static const char *const names[] = {"v", "g"};
    qf_value x[2];
    uint32_t axis, rank;
    int64_t axes[QF_MAX_RANK];
    if (!all_widened(call, names, 2, x)) return qf_pt2_decline(call, no_float);
    rank = qf_pt2_rank(call, x[0]);
    if (rank > QF_MAX_RANK || rank == 0) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), rank, &axis)) return QF_PT2_FAILED;
    for (uint32_t i = 0, next = 0; i < rank; i++)
        if (i != axis) axes[next++] = i;
    qf_value squares = qf_pt2_reduce(call, QF_OP_reduce_sum, mul(call, x[0], x[0]), axes, rank - 1, true);
    qf_value factor = qf_pt2_binary(call, QF_OP_div, x[1], qf_import_unary(qf_pt2_target(call), QF_OP_sqrt, squares));
    return done_like(call, "v", mul(call, x[0], factor));
}

/* The sum of squared distances from the mean, by the count less the correction; row argument 1: its root. */
qf_pt2_outcome qf_pt2_map_variance(qf_pt2_call *call) {
    qf_value x = widened(call, "self");
    bool keep = qf_pt2_bool(call, "keepdim", false);
    double correction = qf_pt2_number(call, "correction", qf_pt2_bool(call, "unbiased", true) ? 1 : 0);
    qf_pt2_axes axes;
    if (!x.id) return qf_pt2_decline(call, no_float);
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!axes_of(call, x, &axes)) return QF_PT2_FAILED;
    qf_dim count = qf_pt2_constant(call, 1);
    for (uint32_t i = 0; i < axes.count; i++)
        count = qf_dim_multiply(call->import->context, count, qf_pt2_dim_of(call, x, (int32_t)axes.items[i]));
    qf_value mean = qf_pt2_reduce(call, QF_OP_reduce_mean, x, axes.items, axes.count, true);
    qf_value apart = sub(call, x, mean);
    qf_value total = sum(call, mul(call, apart, apart), &axes, keep);
    qf_value weight = qf_pt2_cast(call, qf_pt2_symbolic(call, count), qf_pt2_dtype_of(call, x));
    if (correction != 0) weight = sub(call, weight, number(call, weight, correction));
    qf_value y = qf_pt2_binary(call, QF_OP_div, total, weight);
    return done_like(call, "self", call->row->argument ? qf_import_unary(qf_pt2_target(call), QF_OP_sqrt, y) : y);
}

/* Groups of channels are layer-normalised as one axis each; weight and bias are by channel. */
qf_pt2_outcome qf_pt2_map_group_norm(qf_pt2_call *call) {
    qf_value x = widened(call, "input"), weight = qf_pt2_in(call, "weight"), bias = qf_pt2_in(call, "bias");
    uint32_t rank = qf_pt2_rank(call, x);
    qf_dim groups, dims[QF_MAX_RANK];
    qf_context *context = call->import->context;
    qf_graph *graph = qf_pt2_graph(call);
    if (!x.id) return qf_pt2_decline(call, no_float);
    if (rank > QF_MAX_RANK || rank < 2 || !qf_pt2_dim(call, call->row->argument ? "group" : "num_groups", &groups))
        return qf_pt2_decline(call, no_shape);
    qf_dim samples = qf_pt2_dim_of(call, x, 0);
    qf_dim rest =
        qf_dim_divide_exactly(context, qf_dim_product(context, qf_value_dims(graph, x) + 1, rank - 1), groups);
    if (!rest.id) return qf_pt2_decline(call, "its channels are not whole groups");
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_layer_norm, attributes);
    attributes[QF_ATTR(layer_norm, axis)].integer = 2;
    attributes[QF_ATTR(layer_norm, epsilon)].number = qf_pt2_number(call, "eps", 1e-5);
    qf_value y = qf_import_view(qf_pt2_target(call), x, (qf_dim[]){samples, groups, rest}, 3);
    y = qf_import_op(qf_pt2_target(call), QF_OP_layer_norm, &y, 1, attributes);
    y = qf_import_view(qf_pt2_target(call), y, qf_value_dims(graph, x), rank);
    for (uint32_t i = 0; i < rank; i++) dims[i] = i == 1 ? qf_pt2_dim_of(call, x, 1) : qf_pt2_constant(call, 1);
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    if (weight.id) y = mul(call, y, qf_import_view(qf_pt2_target(call), qf_pt2_cast(call, weight, dtype), dims, rank));
    if (bias.id) y = add(call, y, qf_import_view(qf_pt2_target(call), qf_pt2_cast(call, bias, dtype), dims, rank));
    return done_like(call, "input", y);
}

/* With the statistics of training, by channel (axis 1). */
qf_pt2_outcome qf_pt2_map_batch_norm(qf_pt2_call *call) {
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    qf_value x = widened(call, "input"), parts[4];
    uint32_t rank = qf_pt2_rank(call, x);
    qf_dim dims[QF_MAX_RANK];
    if (!x.id) return qf_pt2_decline(call, no_float);
    if (rank > QF_MAX_RANK || rank < 2) return qf_pt2_decline(call, no_shape);
    if (qf_pt2_bool(call, "training", false))
        return qf_pt2_decline(call, "it takes statistics of the batch (training)");
    for (uint32_t i = 0; i < rank; i++) dims[i] = i == 1 ? qf_pt2_dim_of(call, x, 1) : qf_pt2_constant(call, 1);
    for (uint32_t i = 0; i < 4; i++) {
        parts[i] = qf_pt2_cast(call, qf_pt2_in(call, names[i]), qf_pt2_dtype_of(call, x));
        if (parts[i].id) parts[i] = qf_import_view(qf_pt2_target(call), parts[i], dims, rank);
    }
    if (!parts[2].id || !parts[3].id) return qf_pt2_decline(call, "it has no statistics");
    qf_value spread = add(call, parts[3], number(call, x, qf_pt2_number(call, "eps", 1e-5)));
    qf_value y = mul(call, sub(call, x, parts[2]), qf_import_unary(qf_pt2_target(call), QF_OP_rsqrt, spread));
    if (parts[0].id) y = mul(call, y, parts[0]);
    if (parts[1].id) y = add(call, y, parts[1]);
    return done_like(call, "input", y);
}

/* --- layout and products --- */

/* Each element less the one before it along an axis, n times; of booleans: whether they differ. */
qf_pt2_outcome qf_pt2_map_difference(qf_pt2_call *call) {
    qf_value parts[] = {qf_pt2_in(call, "prepend"), qf_pt2_in(call, "self"), qf_pt2_in(call, "append")}, x = parts[1];
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    int64_t times = qf_pt2_int(call, "n", 1);
    uint32_t axis, rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK || rank == 0) return qf_pt2_decline(call, no_shape);
    if (times < 0 || times > MAX_DIFFERENCES) return qf_pt2_decline(call, "it takes more differences than QFuse does");
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", -1), rank, &axis)) return QF_PT2_FAILED;
    for (uint32_t i = 0; i < 3; i += 2) {
        if (!parts[i].id) continue;
        if (qf_pt2_dtype_of(call, parts[i]) != dtype) return qf_pt2_decline(call, "it joins different element types");
        x = qf_pt2_concat(call, (qf_value[]){i ? x : parts[i], i ? parts[i] : x}, 2, axis);
    }
    for (int64_t i = 0; x.id && i < times; i++) {
        qf_dim length = qf_pt2_dim_of(call, x, (int32_t)axis), one = qf_pt2_constant(call, 1);
        qf_dim last = qf_dim_add_constant(call->import->context, length, -1);
        qf_value later = qf_pt2_slice_axis(call, x, axis, one, length, 1);
        qf_value earlier = qf_pt2_slice_axis(call, x, axis, qf_pt2_constant(call, 0), last, 1);
        x = qf_pt2_binary(call, dtype == QF_I1 ? QF_OP_xor : QF_OP_sub, later, earlier);
    }
    return qf_pt2_done(call, x);
}

qf_pt2_outcome qf_pt2_map_flip(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x);
    qf_pt2_axes axes;
    if (rank > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (qf_pt2_names_no_axes(call, "dims")) return qf_pt2_done(call, x);
    if (!qf_pt2_read_axes(call, "dims", rank, &axes)) return QF_PT2_FAILED;
    for (uint32_t i = 0; i < axes.count; i++) {
        qf_dim last = qf_dim_add_constant(call->import->context, qf_pt2_dim_of(call, x, (int32_t)axes.items[i]), -1);
        x = qf_pt2_slice_axis(call, x, (uint32_t)axes.items[i], last, qf_pt2_constant(call, -1), -1);
    }
    return qf_pt2_done(call, x);
}

/* The named axes go to their destinations; the others keep their order. */
qf_pt2_outcome qf_pt2_map_move_axes(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x), sources, destinations;
    int64_t from[QF_MAX_RANK], to[QF_MAX_RANK], order[QF_MAX_RANK];
    bool moved[QF_MAX_RANK] = {false};
    if (rank > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_ints(call, "source", from, QF_MAX_RANK, &sources) ||
        !qf_pt2_ints(call, "destination", to, QF_MAX_RANK, &destinations) || sources != destinations)
        return QF_PT2_FAILED;
    for (uint32_t i = 0; i < rank; i++) order[i] = -1;
    for (uint32_t i = 0; i < sources; i++) {
        uint32_t source, destination;
        if (!qf_pt2_axis(call, from[i], rank, &source) || !qf_pt2_axis(call, to[i], rank, &destination))
            return QF_PT2_FAILED;
        order[destination] = source;
        moved[source] = true;
    }
    for (uint32_t i = 0, next = 0; i < rank; i++) {
        if (order[i] >= 0) continue;
        while (next < rank && moved[next]) next++;
        if (next == rank) return QF_PT2_FAILED; /* an axis was named twice */
        order[i] = next++;
    }
    return qf_pt2_done(call, qf_pt2_permute(call, x, order, rank));
}

/* [n] and [m]: [n, m]. */
qf_pt2_outcome qf_pt2_map_outer(qf_pt2_call *call) {
    qf_pt2_pair pair;
    if (qf_pt2_rank(call, qf_pt2_in(call, "self")) != 1 ||
        !qf_pt2_promote(call, "self", call->row->argument ? "vec2" : "other", false, &pair))
        return qf_pt2_decline(call, "its operands are not two vectors of known types");
    return qf_pt2_done(call, qf_pt2_cast(call, mul(call, qf_pt2_unsqueeze(call, pair.a, 1), pair.b), pair.result));
}

/* beta * self + alpha * (mat @ vec) */
qf_pt2_outcome qf_pt2_map_addmv(qf_pt2_call *call) {
    static const char *const names[] = {"self", "mat", "vec"};
    qf_value x[3];
    if (!all_widened(call, names, 3, x)) return qf_pt2_decline(call, no_float);
    qf_value product = qf_pt2_matmul(call, x[1], x[2], false);
    qf_value y = add(call, scaled(call, x[0], qf_pt2_number(call, "beta", 1)),
                     scaled(call, product, qf_pt2_number(call, "alpha", 1)));
    return done_like(call, "self", y);
}

qf_pt2_outcome qf_pt2_map_one_hot(qf_pt2_call *call) {
    qf_dim classes;
    int64_t count;
    if (!qf_pt2_dim(call, "num_classes", &classes) ||
        (qf_dim_is_constant(call->import->context, classes, &count) && count < 0))
        return qf_pt2_decline(call, "the number of its classes is read from its data");
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_one_hot, attributes);
    attributes[QF_ATTR(one_hot, depth)].dim = classes;
    attributes[QF_ATTR(one_hot, axis)].integer = -1;
    qf_value values = qf_import_iota(qf_pt2_target(call), QF_I64, qf_pt2_constant(call, 2), qf_pt2_constant(call, 0),
                                     qf_pt2_constant(call, 1));
    return qf_pt2_done(call, qf_import_op(qf_pt2_target(call), QF_OP_one_hot,
                                          (qf_value[]){qf_pt2_in(call, "self"), values}, 2, attributes));
}
