/* Owns: arithmetic, comparisons and choices over symbolic elements.
 * Does not own: layout (symbolic_layout.c).
 * Next: symbolic_ops.h. */
#include <math.h>

#include "ir/symbolic_ops.h"

static const symbolic_element unknown = {{0}, 1};

static int64_t greatest_common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The largest divisor of `denominator` that divides every coefficient. */
static int64_t common_factor(const qf_context *context, qf_dim dim, int64_t denominator) {
    for (uint32_t t = 0; t < qf_dim_term_count(context, dim) && denominator > 1; t++) {
        int64_t coefficient = qf_dim_term_at(context, dim, t).coefficient;
        denominator = coefficient == INT64_MIN
                          ? 1
                          : greatest_common_divisor(denominator, coefficient < 0 ? -coefficient : coefficient);
    }
    return denominator;
}

symbolic_element symbolic_fraction(qf_context *context, qf_dim numerator, int64_t denominator) {
    if (!numerator.id || denominator < 1) return unknown;
    int64_t shared = common_factor(context, numerator, denominator);
    if (shared > 1) numerator = qf_dim_divide_exactly(context, numerator, qf_dim_constant(context, shared));
    return (symbolic_element){numerator, denominator / shared};
}

/* Answers from bounds: 1, 0, or -1 where neither is provable. */
static int provably_nonnegative(const symbolic_step *step, qf_dim dim) {
    int64_t bound;
    if (qf_dim_lower_bound(step->context, &step->facts, dim, &bound) && bound >= 0) return 1;
    if (qf_dim_upper_bound(step->context, &step->facts, dim, &bound) && bound < 0) return 0;
    return -1;
}

static qf_dim negate(const symbolic_step *step, qf_dim dim) {
    return qf_dim_subtract(step->context, qf_dim_constant(step->context, 0), dim);
}

/* --- fractions --- */

/* Both numerators over one denominator; false where it would not fit. */
static bool common_denominator(const symbolic_step *step, symbolic_element a, symbolic_element b, qf_dim *x, qf_dim *y,
                               int64_t *denominator) {
    int64_t shared = greatest_common_divisor(a.denominator, b.denominator);
    if (__builtin_mul_overflow(a.denominator / shared, b.denominator, denominator)) return false;
    *x = qf_dim_multiply(step->context, a.numerator, qf_dim_constant(step->context, b.denominator / shared));
    *y = qf_dim_multiply(step->context, b.numerator, qf_dim_constant(step->context, a.denominator / shared));
    return x->id && y->id;
}

static symbolic_element multiply(const symbolic_step *step, symbolic_element a, symbolic_element b) {
    int64_t denominator;
    if (__builtin_mul_overflow(a.denominator, b.denominator, &denominator)) return unknown;
    return symbolic_fraction(step->context, qf_dim_multiply(step->context, a.numerator, b.numerator), denominator);
}

static symbolic_element floor_of(const symbolic_step *step, symbolic_element a) {
    if (a.denominator == 1) return a;
    return symbolic_integer(
        qf_dim_floor_divide(step->context, a.numerator, qf_dim_constant(step->context, a.denominator)));
}

/* As slices count their steps: ceil(n / d) = floor((n + d - 1) / d). */
static symbolic_element ceiling_of(const symbolic_step *step, symbolic_element a) {
    a.numerator = qf_dim_add_constant(step->context, a.numerator, a.denominator - 1);
    return floor_of(step, a);
}

static symbolic_element truncate_of(const symbolic_step *step, symbolic_element a) {
    int sign = a.denominator == 1 ? 1 : provably_nonnegative(step, a.numerator);
    return sign < 0 ? unknown : sign ? floor_of(step, a) : ceiling_of(step, a);
}

/* Truncating integer division; by zero it gives 0, which only a constant divisor is known to be. */
static symbolic_element divide_integers(const symbolic_step *step, qf_dim a, qf_dim b) {
    if (qf_dim_is(step->context, b, 0)) return symbolic_integer(b);
    qf_dim exact = qf_dim_divide_exactly(step->context, a, b);
    if (exact.id) return symbolic_integer(exact);
    int a_sign = provably_nonnegative(step, a), b_sign = provably_nonnegative(step, b);
    if (a_sign < 0 || b_sign < 0) return unknown;
    qf_dim quotient = qf_dim_floor_divide(step->context, a_sign ? a : negate(step, a), b_sign ? b : negate(step, b));
    return symbolic_integer(a_sign == b_sign ? quotient : negate(step, quotient));
}

static symbolic_element divide_floats(const symbolic_step *step, symbolic_element a, symbolic_element b) {
    int64_t divisor, denominator;
    if (qf_dim_is_constant(step->context, b.numerator, &divisor)) {
        if (divisor == 0 || divisor == INT64_MIN) return unknown;
        qf_dim scaled = qf_dim_multiply(step->context, a.numerator, qf_dim_constant(step->context, b.denominator));
        if (divisor < 0) scaled = negate(step, scaled);
        if (__builtin_mul_overflow(a.denominator, divisor < 0 ? -divisor : divisor, &denominator)) return unknown;
        return symbolic_fraction(step->context, scaled, denominator);
    }
    qf_dim exact = qf_dim_divide_exactly(step->context, a.numerator, b.numerator);
    symbolic_element inverse = {qf_dim_constant(step->context, b.denominator), 1};
    return exact.id ? multiply(step, (symbolic_element){exact, a.denominator}, inverse) : unknown;
}

static symbolic_element divide(const symbolic_step *step, symbolic_element a, symbolic_element b) {
    if (qf_dtype_is_float(step->operands[0].dtype)) return divide_floats(step, a, b);
    return divide_integers(step, a.numerator, b.numerator);
}

/* Remainder with the sign of b, or of a where fmod is asked for and both are known to be positive. */
static symbolic_element remainder_of(const symbolic_step *step, symbolic_element a, symbolic_element b) {
    int64_t low;
    if (a.denominator != 1 || b.denominator != 1) return unknown;
    if (!qf_dim_lower_bound(step->context, &step->facts, b.numerator, &low) || low < 0) return unknown;
    if (step->node->op == QF_OP_mod && step->node->attributes[QF_ATTR(mod, fmod)].integer &&
        provably_nonnegative(step, a.numerator) != 1)
        return unknown;
    qf_dim rest = qf_dim_modulo(step->context, a.numerator, b.numerator);
    return symbolic_integer(rest);
}

/* Of constants whose root is exact. */
static symbolic_element root_of(const symbolic_step *step, symbolic_element a) {
    int64_t value;
    if (!qf_dim_is_constant(step->context, a.numerator, &value) || value < 0) return unknown;
    int64_t top = (int64_t)sqrt((double)value), bottom = (int64_t)sqrt((double)a.denominator);
    if (top > 1 << 30 || bottom > 1 << 30 || top * top != value || bottom * bottom != a.denominator) return unknown;
    return symbolic_fraction(step->context, qf_dim_constant(step->context, top), bottom);
}

static symbolic_element power(const symbolic_step *step, symbolic_element a, symbolic_element b) {
    int64_t exponent;
    if (b.denominator == 2 && qf_dim_is(step->context, b.numerator, 1)) return root_of(step, a);
    symbolic_element result = symbolic_integer(qf_dim_constant(step->context, 1));
    if (b.denominator != 1 || !qf_dim_is_constant(step->context, b.numerator, &exponent) || exponent < 0 ||
        exponent > 62)
        return unknown;
    while (exponent-- && symbolic_known(result)) result = multiply(step, result, a);
    return result;
}

/* --- comparisons: 1, 0, or -1 where bounds do not decide --- */

static int is_less(const symbolic_step *step, qf_dim a, qf_dim b) {
    qf_dim difference = qf_dim_subtract(step->context, a, b);
    int order = difference.id ? provably_nonnegative(step, difference) : -1;
    return order < 0 ? -1 : !order;
}

static int is_equal(const symbolic_step *step, qf_dim a, qf_dim b) {
    if (qf_dim_equal(a, b)) return 1;
    return is_less(step, a, b) == 1 || is_less(step, b, a) == 1 ? 0 : -1;
}

static symbolic_element truth(const symbolic_step *step, int answer) {
    return answer < 0 ? unknown : symbolic_integer(qf_dim_constant(step->context, answer));
}

static int opposite(int answer) {
    return answer < 0 ? answer : !answer;
}

static symbolic_element compare(const symbolic_step *step, qf_op op, qf_dim a, qf_dim b) {
    switch (op) {
    case QF_OP_equal: return truth(step, is_equal(step, a, b));
    case QF_OP_less: return truth(step, is_less(step, a, b));
    case QF_OP_greater: return truth(step, is_less(step, b, a));
    case QF_OP_less_equal: return truth(step, opposite(is_less(step, b, a)));
    case QF_OP_greater_equal: return truth(step, opposite(is_less(step, a, b)));
    default: return unknown;
    }
}

/* 1, 0 or -1 of a bool that may be unknown. */
static int truth_of(const symbolic_step *step, symbolic_element a) {
    int64_t value;
    if (!symbolic_known(a) || !qf_dim_is_constant(step->context, a.numerator, &value)) return -1;
    return value != 0;
}

static symbolic_element logical(const symbolic_step *step, qf_op op, symbolic_element a, symbolic_element b) {
    int x = truth_of(step, a), y = truth_of(step, b);
    if (op == QF_OP_and) return truth(step, x == 0 || y == 0 ? 0 : x < 0 || y < 0 ? -1 : 1);
    if (op == QF_OP_or) return truth(step, x == 1 || y == 1 ? 1 : x < 0 || y < 0 ? -1 : 0);
    return truth(step, x < 0 || y < 0 ? -1 : x != y);
}

/* --- one element of each op --- */

/* A quotient that no binary float holds: it was rounded, which rounding to an integer does not notice, but going on
 * would. */
static bool rounded(symbolic_element a) {
    return (a.denominator & (a.denominator - 1)) != 0;
}

symbolic_element symbolic_binary(const symbolic_step *step, qf_op op, symbolic_element a, symbolic_element b) {
    qf_context *context = step->context;
    if (op == QF_OP_and || op == QF_OP_or || op == QF_OP_xor) return logical(step, op, a, b);
    if (!symbolic_known(a) || !symbolic_known(b)) return unknown;
    if (rounded(a) || rounded(b)) return unknown;
    switch (op) {
    case QF_OP_mul: return multiply(step, a, b);
    case QF_OP_div: return divide(step, a, b);
    case QF_OP_mod: return remainder_of(step, a, b);
    case QF_OP_pow: return power(step, a, b);
    default: break;
    }
    qf_dim x, y;
    int64_t denominator;
    if (!common_denominator(step, a, b, &x, &y, &denominator)) return unknown;
    switch (op) {
    case QF_OP_add: return symbolic_fraction(context, qf_dim_add(context, x, y), denominator);
    case QF_OP_sub: return symbolic_fraction(context, qf_dim_subtract(context, x, y), denominator);
    case QF_OP_minimum: return symbolic_fraction(context, qf_dim_minimum(context, x, y), denominator);
    case QF_OP_maximum: return symbolic_fraction(context, qf_dim_maximum(context, x, y), denominator);
    default: return compare(step, op, x, y);
    }
}

/* Integers that the dtype holds exactly; symbols are sizes, which i32, i64, f32 and f64 hold. */
static bool representable(const symbolic_step *step, qf_dtype dtype, symbolic_element a) {
    int64_t value, limit = 0;
    switch (dtype) {
    case QF_I64:
    case QF_F64: return true;
    case QF_I32: limit = INT32_MAX; break;
    case QF_F32: limit = (int64_t)1 << 24; break;
    case QF_F16: limit = 1 << 11; break;
    case QF_BF16: limit = 1 << 8; break;
    case QF_I8:
    case QF_U8: limit = INT8_MAX; break;
    default: return false;
    }
    bool constant = qf_dim_is_constant(step->context, a.numerator, &value);
    if (!constant) return dtype == QF_I32 || dtype == QF_F32;
    return value >= (dtype == QF_U8 ? 0 : -limit) && value <= limit;
}

static symbolic_element cast_to(const symbolic_step *step, qf_dtype dtype, symbolic_element a) {
    if (qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_BOOL)
        return truth(step, opposite(is_equal(step, a.numerator, qf_dim_constant(step->context, 0))));
    if (qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER) a = truncate_of(step, a);
    return symbolic_known(a) && representable(step, dtype, a) ? a : unknown;
}

static symbolic_element sign_of(const symbolic_step *step, symbolic_element a) {
    int sign = provably_nonnegative(step, a.numerator);
    if (sign < 0) return unknown;
    if (!sign) return symbolic_integer(qf_dim_constant(step->context, -1));
    return truth(step, opposite(is_equal(step, a.numerator, qf_dim_constant(step->context, 0))));
}

/* Ties to even need a + 1/2 not to be an integer, or a whole. */
static symbolic_element round_of(const symbolic_step *step, symbolic_element a) {
    int64_t value, doubled;
    if (a.denominator == 1) return a;
    if (!qf_dim_is_constant(step->context, a.numerator, &value) || a.denominator == 2) return unknown;
    if (__builtin_mul_overflow(value, 2, &doubled) || __builtin_add_overflow(doubled, a.denominator, &doubled) ||
        a.denominator > INT64_MAX / 2)
        return unknown;
    return floor_of(step, symbolic_fraction(step->context, qf_dim_constant(step->context, doubled), 2 * a.denominator));
}

static symbolic_element unary(const symbolic_step *step, symbolic_element a) {
    qf_dim zero = qf_dim_constant(step->context, 0);
    if (!symbolic_known(a)) return unknown;
    switch (step->node->op) {
    case QF_OP_copy: return a;
    case QF_OP_cast: return cast_to(step, (qf_dtype)step->node->attributes[QF_ATTR(cast, dtype)].integer, a);
    case QF_OP_neg: return symbolic_fraction(step->context, negate(step, a.numerator), a.denominator);
    case QF_OP_abs:
        return symbolic_fraction(step->context, qf_dim_maximum(step->context, a.numerator, negate(step, a.numerator)),
                                 a.denominator);
    case QF_OP_relu:
        return symbolic_fraction(step->context, qf_dim_maximum(step->context, a.numerator, zero), a.denominator);
    case QF_OP_sign: return sign_of(step, a);
    case QF_OP_floor: return floor_of(step, a);
    case QF_OP_ceil: return ceiling_of(step, a);
    case QF_OP_round: return round_of(step, a);
    case QF_OP_sqrt: return root_of(step, a);
    case QF_OP_reciprocal: return divide_floats(step, symbolic_integer(qf_dim_constant(step->context, 1)), a);
    case QF_OP_not: return truth(step, opposite(truth_of(step, a)));
    default: return unknown;
    }
}

static symbolic_element choose(const symbolic_step *step, symbolic_element condition, symbolic_element a,
                               symbolic_element b) {
    int chosen = truth_of(step, condition);
    if (chosen >= 0) return chosen ? a : b;
    return symbolic_known(a) && qf_dim_equal(a.numerator, b.numerator) && a.denominator == b.denominator ? a : unknown;
}

static symbolic_element clamp(const symbolic_step *step, const symbolic_element *operands) {
    symbolic_element result = operands[0];
    if (step->operand_count > 1 && step->node->operands[1].value.id)
        result = symbolic_binary(step, QF_OP_maximum, result, operands[1]);
    if (step->operand_count > 2 && step->node->operands[2].value.id)
        result = symbolic_binary(step, QF_OP_minimum, result, operands[2]);
    return result;
}

void symbolic_elementwise(symbolic_step *step) {
    qf_op op = step->node->op;
    for (uint32_t i = 0; i < step->operand_count; i++)
        if (step->node->operands[i].value.id && step->operands[i].rank == QF_UNRANKED) return;
    for (uint32_t at = 0; at < step->out.count; at++) {
        symbolic_element operands[3] = {unknown, unknown, unknown};
        int64_t position[QF_MAX_RANK];
        symbolic_unravel(step->out.dims, step->out.rank, at, position);
        for (uint32_t i = 0; i < step->operand_count && i < 3; i++)
            if (step->node->operands[i].value.id)
                operands[i] = symbolic_broadcast_at(&step->operands[i], position, step->out.rank);
        step->out.elements[at] = op == QF_OP_where          ? choose(step, operands[0], operands[1], operands[2])
                                 : op == QF_OP_clamp        ? clamp(step, operands)
                                 : step->operand_count == 1 ? unary(step, operands[0])
                                                            : symbolic_binary(step, op, operands[0], operands[1]);
        if (!symbolic_known(step->out.elements[at])) step->out.elements[at] = unknown;
    }
}
