/* Owns: how far a GPU's result may lie from the CPU's, by op, and the comparison.
 * Does not own: the reasons (docs/numerics.md, "What GPU kernels may differ by").
 * Next: cases.h. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"
#include "tests/gpu/conformance/cases.h"

/* --- the table --- */

typedef enum bound_class {
    MOVES,       /* elements as they are */
    EXACT,       /* the CPU's arithmetic, operation by operation */
    SUBTRACTING, /* functions of functions, whose terms may cancel */
    FUNCTION,    /* a transcendental function */
    SUM,         /* sums in another order */
    NORM,        /* sums and a division or root */
    PRODUCT,     /* matrix products, products not rounded before they are added */
    ATTENTION
} bound_class;

/* clang-format off */
static const struct { qf_op op; bound_class class; } classes[] = {
    {QF_OP_constant, MOVES}, {QF_OP_parameter, MOVES}, {QF_OP_symbolic, EXACT}, {QF_OP_shape_of, EXACT}, {QF_OP_iota, EXACT},
    {QF_OP_full, MOVES}, {QF_OP_neg, EXACT}, {QF_OP_abs, EXACT}, {QF_OP_exp, FUNCTION}, {QF_OP_log, FUNCTION}, {QF_OP_sqrt, EXACT},
    {QF_OP_rsqrt, EXACT}, {QF_OP_reciprocal, EXACT}, {QF_OP_tanh, FUNCTION}, {QF_OP_sigmoid, FUNCTION}, {QF_OP_erf, FUNCTION},
    {QF_OP_sin, FUNCTION}, {QF_OP_cos, FUNCTION}, {QF_OP_floor, EXACT}, {QF_OP_ceil, EXACT}, {QF_OP_round, EXACT},
    {QF_OP_sign, EXACT}, {QF_OP_relu, EXACT}, {QF_OP_silu, FUNCTION}, {QF_OP_gelu, SUBTRACTING}, {QF_OP_not, EXACT},
    {QF_OP_is_nan, EXACT}, {QF_OP_is_inf, EXACT}, {QF_OP_cast, EXACT}, {QF_OP_bitcast, MOVES}, {QF_OP_add, EXACT},
    {QF_OP_sub, EXACT}, {QF_OP_mul, EXACT}, {QF_OP_div, EXACT}, {QF_OP_pow, FUNCTION}, {QF_OP_mod, EXACT}, {QF_OP_minimum, EXACT},
    {QF_OP_maximum, EXACT}, {QF_OP_and, EXACT}, {QF_OP_or, EXACT}, {QF_OP_xor, EXACT}, {QF_OP_equal, EXACT}, {QF_OP_less, EXACT},
    {QF_OP_less_equal, EXACT}, {QF_OP_greater, EXACT}, {QF_OP_greater_equal, EXACT}, {QF_OP_where, MOVES}, {QF_OP_clamp, EXACT},
    {QF_OP_view, MOVES}, {QF_OP_permute, MOVES}, {QF_OP_slice, MOVES}, {QF_OP_concat, MOVES}, {QF_OP_split, MOVES},
    {QF_OP_expand, MOVES}, {QF_OP_copy, MOVES}, {QF_OP_pad, MOVES}, {QF_OP_gather, MOVES}, {QF_OP_gather_elements, MOVES},
    {QF_OP_gather_nd, MOVES}, {QF_OP_scatter_nd, MOVES}, {QF_OP_scatter_elements, MOVES}, {QF_OP_triangle, MOVES},
    {QF_OP_one_hot, MOVES}, {QF_OP_reduce_sum, SUM}, {QF_OP_reduce_max, EXACT}, {QF_OP_reduce_min, EXACT},
    {QF_OP_reduce_mean, SUM}, {QF_OP_reduce_prod, SUM}, {QF_OP_arg_max, EXACT}, {QF_OP_cumulative_sum, SUM},
    {QF_OP_softmax, NORM}, {QF_OP_log_softmax, NORM}, {QF_OP_layer_norm, NORM}, {QF_OP_rms_norm, NORM},
    {QF_OP_add_rms_norm, NORM}, {QF_OP_silu_mul, FUNCTION}, {QF_OP_conv, PRODUCT}, {QF_OP_top_k, EXACT},
    {QF_OP_contract, PRODUCT}, {QF_OP_matmul, PRODUCT}, {QF_OP_scaled_matmul, PRODUCT}, {QF_OP_quantize, EXACT},
    {QF_OP_dequantize, EXACT}, {QF_OP_dynamic_quantize, EXACT}, {QF_OP_attention, ATTENTION}, {QF_OP_paged_attention, ATTENTION},
    {QF_OP_kv_cache_write, EXACT}, {QF_OP_rope, EXACT}, {QF_OP_rope_quantize_cache_write, EXACT},
};
/* clang-format on */

static bound near_of(qf_dtype result, double ulps, double relative, double share) {
    if (qf_dtype_kind_of(result) == QF_DTYPE_KIND_INTEGER || result == QF_I1) return (bound){.kind = BOUND_VALUES};
    if (qf_dtype_bits(result) <= 8) return (bound){.kind = BOUND_CODES, .share = share, .most_off = 1};
    if (qf_dtype_bits(result) == 16)
        ulps = 1; /* the f32 value before its rounding may lie on the other side of a tie */
    if (result == QF_F64) relative *= 1e-8;
    return (bound){.kind = BOUND_NEAR, .ulps = ulps, .relative = relative};
}

/* These compute in f32 whatever they are given. */
static bound always_f32(qf_op op, bound within, qf_dtype result) {
    if (result != QF_F64 || (op != QF_OP_rms_norm && op != QF_OP_add_rms_norm && op != QF_OP_silu_mul)) return within;
    within.in_f32 = true;
    within.relative *= 1e8;
    return within;
}

/* FP8 tensor cores add with about 14 bits; codes around zero lie closer than that. */
static bound product_bound(qf_dtype result, bool narrow) {
    bound within = near_of(result, 2, narrow ? 2e-3 : 1e-5, narrow ? 0.95 : 0.99);
    if (within.kind == BOUND_CODES) within.relative = narrow ? 2e-3 : 1e-5;
    return within;
}

bound bound_of(qf_op op, qf_dtype operand, qf_dtype result) {
    bound_class class = EXACT;
    for (size_t i = 0; i < QF_COUNT_OF(classes); i++)
        if (classes[i].op == op) class = classes[i].class;
    bool narrow = qf_dtype_bits(operand) <= 8;
    switch (class) {
    case MOVES: return (bound){.kind = BOUND_BYTES};
    case EXACT: return (bound){.kind = BOUND_VALUES};
    case FUNCTION: return always_f32(op, near_of(result, 4, 0, 0.999), result);
    case SUBTRACTING: return near_of(result, 4, 2e-7, 0.999);
    case SUM: return near_of(result, 2, 6e-6, 0.99);
    case NORM: return always_f32(op, near_of(result, 8, 1e-6, 0.99), result);
    case PRODUCT: return product_bound(result, narrow);
    case ATTENTION: return near_of(result, 2, narrow ? 3e-3 : 2e-5, narrow ? 0.95 : 0.98);
    }
    return (bound){.kind = BOUND_VALUES};
}

typedef struct float_format {
    qf_dtype dtype;
    int digits, lowest; /* of the significand behind the point; the exponent of the smallest normal number */
} float_format;

static const float_format *format_of(qf_dtype dtype) {
    static const float_format formats[] = {{QF_F64, 52, -1022},    {QF_F32, 23, -126},     {QF_F16, 10, -14},
                                           {QF_BF16, 7, -126},     {QF_F8E4M3FN, 3, -6},   {QF_F8E5M2, 2, -14},
                                           {QF_F8E4M3FNUZ, 3, -7}, {QF_F8E5M2FNUZ, 2, -15}};
    for (size_t i = 0; i < QF_COUNT_OF(formats); i++)
        if (formats[i].dtype == dtype) return &formats[i];
    return NULL;
}

/* How far the logarithm of a sum of `terms` positive numbers may move when each is rounded to `dtype`; the largest of
 * them is at least `largest`. */
static double rounded_sum_bound(qf_dtype dtype, int64_t terms, double largest) {
    const float_format *format = format_of(dtype);
    if (!format) return 0;
    /* With u = 2^-(digits + 1) a normal number moves by at most u / (1 + u) of itself, so the logarithm by at most
     * log(1 + u) either way; a smaller one moves by at most half of the smallest code. */
    double u = ldexp(1, -format->digits - 1);
    return log1p(u) + (double)terms * ldexp(u, format->lowest) / largest;
}

/* What a kernel written for one case rounds the P to that it multiplies and sums. */
static qf_dtype summed_p(uint32_t row) {
    switch (row) {
    case 2010:
    case 2011: return QF_F8E4M3FN;
    case 2002:
    case 2012:
    case 2013: return QF_BF16;
    default: return QF_F16;
    }
}

/* Of the decode kernels' P the largest is at least 8, of the others' 128: references are the maximum rounded up to an
 * integer. */
double lse_room(uint32_t row, bool kernel_p, int64_t keys) {
    double reference = kernel_p ? rounded_sum_bound(QF_F8E4M3FN, keys, 128) : 0;
    return reference + rounded_sum_bound(summed_p(row), keys, row < 2010 ? 8 : 128);
}

/* --- comparison --- */

/* The distance of neighbouring numbers of the type around `number`. */
static double unit_of(qf_dtype dtype, double number) {
    const float_format *format = format_of(dtype);
    if (!format) return 0;
    int exponent = format->lowest;
    if (number != 0 && isfinite(number)) (void)frexp(number, &exponent), exponent--;
    return ldexp(1, (exponent < format->lowest ? format->lowest : exponent) - format->digits);
}

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && (a != 0 || signbit(a) == signbit(b)));
}

static int64_t count_of(const qf_tensor *tensor) {
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= tensor->dims[i];
    return count;
}

/* Rounding P to bf16 moves a result by 1.0e-3 to 1.7e-3 of itself (root of the mean square), and a code in twenty
 * across the middle between two: 94 to 96 of a hundred stay. Of few codes it may be fewer by chance: three deviations.
 */
double share_of_codes(uint32_t row, const qf_tensor *result) {
    const double expected = 0.93;
    if (summed_p(row) != QF_BF16) return 1;
    return expected - 3 * sqrt(expected * (1 - expected) / fmax((double)count_of(result), 1));
}

/* "at [1, 2, 3]" */
static void place(const qf_tensor *tensor, int64_t index, char *text, size_t size) {
    int64_t at[QF_TENSOR_MAX_RANK] = {0};
    for (uint32_t i = tensor->rank; i-- > 0; index /= tensor->dims[i]) at[i] = index % tensor->dims[i];
    (void)snprintf(text, size, "at %s", list_text(at, tensor->rank));
}

typedef struct tally {
    int64_t count, wrong, outlying, first;
    double found, wanted; /* at first */
    double largest_off;   /* in what the bound measures */
} tally;

static void note(tally *so_far, int64_t index, double found, double wanted) {
    if (so_far->wrong++) return;
    so_far->first = index;
    so_far->found = found;
    so_far->wanted = wanted;
}

static bool report(const tally *at, const qf_tensor *tensor, const char *what, char *message, size_t size) {
    if (!at->wrong) return true;
    char where[200];
    place(tensor, at->first, where, sizeof where);
    (void)snprintf(message, size, "%lld of %lld elements %s; first %s: found %.9g, expected %.9g; worst %.3g",
                   (long long)at->wrong, (long long)at->count, what, where, at->found, at->wanted, at->largest_off);
    return false;
}

static bool bytes_hold(const qf_tensor *found, const qf_tensor *wanted, char *message, size_t size) {
    uint64_t bytes = qf_tensor_bytes(wanted);
    if (!bytes || memcmp(found->data, wanted->data, bytes) == 0) return true;
    tally at = {.count = count_of(wanted)};
    uint32_t width = qf_dtype_bits(wanted->dtype) / 8;
    for (int64_t i = 0; i < at.count; i++) {
        bool equal = width ? memcmp((char *)found->data + i * width, (char *)wanted->data + i * width, width) == 0
                           : qf_load_f64(found->dtype, found->data, i) == qf_load_f64(wanted->dtype, wanted->data, i);
        if (!equal)
            note(&at, i, qf_load_f64(found->dtype, found->data, i), qf_load_f64(wanted->dtype, wanted->data, i));
    }
    return report(&at, wanted, "have other bytes", message, size);
}

static bool whole_hold(const qf_tensor *found, const qf_tensor *wanted, char *message, size_t size) {
    tally at = {.count = count_of(wanted)};
    for (int64_t i = 0; i < at.count; i++) {
        int64_t a = qf_load_i64(found->dtype, found->data, i), b = qf_load_i64(wanted->dtype, wanted->data, i);
        if (a != b) note(&at, i, (double)a, (double)b);
        if (fabs((double)a - (double)b) > at.largest_off) at.largest_off = fabs((double)a - (double)b);
    }
    return report(&at, wanted, "differ", message, size);
}

static double largest_magnitude(const qf_tensor *tensor) {
    double largest = 0;
    for (int64_t i = 0, count = count_of(tensor); i < count; i++) {
        double number = fabs(qf_load_f64(tensor->dtype, tensor->data, i));
        if (isfinite(number) && number > largest) largest = number;
    }
    return largest;
}

static bool near_hold(const bound *within, const qf_tensor *found, const qf_tensor *wanted, char *message,
                      size_t size) {
    tally at = {.count = count_of(wanted)};
    double room = within->absolute + (within->relative > 0 ? within->relative * largest_magnitude(wanted) : 0);
    for (int64_t i = 0; i < at.count; i++) {
        double a = qf_load_f64(found->dtype, found->data, i), b = qf_load_f64(wanted->dtype, wanted->data, i);
        if (same(a, b) || (within->kind != BOUND_VALUES && a == b)) continue;
        double unit = unit_of(within->in_f32 ? QF_F32 : wanted->dtype, b);
        double allowed = within->ulps * unit + room, off = fabs(a - b) / allowed;
        if (off > at.largest_off) at.largest_off = off;
        if (off <= 1) continue;
        if (off <= 5 && ++at.outlying <= within->outliers * (double)at.count) continue;
        note(&at, i, a, b);
    }
    return report(&at, wanted, within->kind == BOUND_VALUES ? "differ" : "lie outside of the bound", message, size);
}

/* The codes of an 8-bit float in the order of their values; NaN stands alone. */
static int order_of(qf_dtype dtype, uint8_t code) {
    double number = qf_decode(dtype, code);
    if (isnan(number)) return 1000;
    return code & 0x80 ? -(int)(code & 0x7F) : code;
}

static bool codes_hold(const bound *within, const qf_tensor *found, const qf_tensor *wanted, char *message,
                       size_t size) {
    const uint8_t *a = found->data, *b = wanted->data;
    tally at = {.count = count_of(wanted)};
    /* Around zero codes lie so close that a small error passes over several. */
    double room = within->relative > 0 ? within->relative * largest_magnitude(wanted) : 0;
    int64_t equal = 0;
    for (int64_t i = 0; i < at.count; i++) {
        int off = abs(order_of(found->dtype, a[i]) - order_of(wanted->dtype, b[i]));
        equal += off == 0;
        if (off > at.largest_off) at.largest_off = off;
        double mine = qf_decode(found->dtype, a[i]), reference = qf_decode(wanted->dtype, b[i]);
        if (off <= (int)within->most_off || fabs(mine - reference) <= room) continue;
        if (fabs(mine - reference) <= 5 * room && ++at.outlying <= within->outliers * (double)at.count) continue;
        note(&at, i, mine, reference);
    }
    if (!report(&at, wanted, "are off by more codes than allowed", message, size)) return false;
    /* Of few elements one may differ. */
    if ((double)equal >= within->share * (double)at.count - 1) return true;
    (void)snprintf(message, size, "only %.3f %% of the codes are equal, expected %.3f %%",
                   100.0 * (double)equal / (double)at.count, 100 * within->share);
    return false;
}

static bool bias_holds(const bound *within, const qf_tensor *found, const qf_tensor *wanted, char *message,
                       size_t size) {
    double a = 0, b = 0;
    for (int64_t i = 0, count = count_of(wanted); i < count; i++) {
        a += qf_load_f64(found->dtype, found->data, i);
        b += qf_load_f64(wanted->dtype, wanted->data, i);
    }
    double bias = a / b - 1;
    if (fabs(bias) <= within->bias) return true;
    (void)snprintf(message, size, "the mean is off by %.3f %%, allowed are %.3f %%", 100 * bias, 100 * within->bias);
    return false;
}

bool bound_holds(const bound *within, const qf_tensor *found, const qf_tensor *wanted, char *message, size_t size) {
    bool whole = qf_dtype_kind_of(wanted->dtype) == QF_DTYPE_KIND_INTEGER || wanted->dtype == QF_I1;
    const bound exact = {.kind = BOUND_VALUES};
    bool holds = true;
    if (within->kind == BOUND_BYTES)
        holds = bytes_hold(found, wanted, message, size);
    else if (whole)
        holds = whole_hold(found, wanted, message, size);
    else if (within->kind == BOUND_CODES && qf_dtype_is_float8(wanted->dtype))
        holds = codes_hold(within, found, wanted, message, size);
    else
        holds = near_hold(within->kind == BOUND_VALUES ? &exact : within, found, wanted, message, size);
    return holds && (within->bias <= 0 || bias_holds(within, found, wanted, message, size));
}
