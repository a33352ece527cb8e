/* Owns: bounds of dims: interval evaluation, sharpened where minimum, maximum, division and modulo occur linearly.
 * Does not own: facts, which are the caller's.
 * Next: dim_derived.c. */
#include "dim.h"
#include "dim_table.h"

/* INT64_MIN and INT64_MAX stand for no bound; arithmetic saturates towards them, which only widens the interval. */
typedef struct interval {
    int64_t low, high;
} interval;

#define UNBOUNDED        ((interval){INT64_MIN, INT64_MAX})
#define MAX_SHARPENING   4
#define SHARPENED_WEIGHT 64 /* of larger dims intervals must do: sharpening looks at a dim many times */

static bool infinite(int64_t bound) {
    return bound == INT64_MIN || bound == INT64_MAX;
}

static int64_t bound_multiply(int64_t a, int64_t b) {
    int64_t product;
    if (a == 0 || b == 0) return 0;
    bool negative = (a < 0) != (b < 0);
    if (infinite(a) || infinite(b) || __builtin_mul_overflow(a, b, &product)) return negative ? INT64_MIN : INT64_MAX;
    return product;
}

/* Sums a bound of one side; `nothing` is that side's missing bound. */
static int64_t bound_add(int64_t a, int64_t b, int64_t nothing) {
    int64_t sum;
    if (a == nothing || b == nothing || __builtin_add_overflow(a, b, &sum)) return nothing;
    return sum;
}

static interval interval_multiply(interval a, interval b) {
    int64_t corners[4] = {bound_multiply(a.low, b.low), bound_multiply(a.low, b.high), bound_multiply(a.high, b.low),
                          bound_multiply(a.high, b.high)};
    interval result = {corners[0], corners[0]};
    for (int i = 1; i < 4; i++) {
        if (corners[i] < result.low) result.low = corners[i];
        if (corners[i] > result.high) result.high = corners[i];
    }
    return result;
}

static int64_t bound_divide(int64_t a, int64_t b) {
    if (infinite(a)) return a;
    if (b == INT64_MAX) return a < 0 ? -1 : 0;
    return dim_floor_divide_constants(a, b);
}

static interval interval_of(qf_context *context, const qf_symbol_facts *facts, qf_dim dim);

static interval symbol_interval(qf_context *context, const qf_symbol_facts *facts, qf_dim_symbol at) {
    const dim_symbol symbol = *dim_symbol_at(context, at);
    if (symbol.kind == QF_SYMBOL_NAMED) {
        interval result = {0, INT64_MAX};
        for (uint32_t i = 0; facts && i < facts->count; i++) {
            if (facts->items[i].symbol.id != at.id) continue;
            if (facts->items[i].minimum > result.low) result.low = facts->items[i].minimum;
            if (facts->items[i].maximum < result.high) result.high = facts->items[i].maximum;
        }
        return result;
    }
    interval a = interval_of(context, facts, symbol.a), b = interval_of(context, facts, symbol.b);
    switch (symbol.kind) {
    case QF_SYMBOL_MINIMUM: return (interval){a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
    case QF_SYMBOL_MAXIMUM: return (interval){a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
    case QF_SYMBOL_FLOOR_DIVIDE:
        /* A divisor symbol may be 0 in form, but then the quotient has no value that a bound could miss. */
        if (b.low < 0 || b.high < 1) return UNBOUNDED;
        if (b.low == 0) b.low = 1;
        return (interval){a.low < 0 ? bound_divide(a.low, b.low) : bound_divide(a.low, b.high),
                          a.high < 0 ? bound_divide(a.high, b.high) : bound_divide(a.high, b.low)};
    case QF_SYMBOL_MODULO:
        if (b.low < 0 || b.high < 1) return UNBOUNDED;
        if (b.high != INT64_MAX) b.high--;
        if (a.low >= 0 && a.high < b.high) b.high = a.high;
        return (interval){0, b.high};
    case QF_SYMBOL_NAMED: break;
    }
    return UNBOUNDED;
}

static interval interval_of(qf_context *context, const qf_symbol_facts *facts, qf_dim dim) {
    interval sum = {0, 0};
    const dim_polynomial polynomial = *dim_at(context, dim);
    for (uint32_t t = 0; t < polynomial.count; t++) {
        interval product = {polynomial.terms[t].coefficient, polynomial.terms[t].coefficient};
        const dim_monomial monomial = *dim_monomial_at(context, polynomial.terms[t].monomial);
        for (uint32_t i = 0; i < monomial.count; i++)
            product = interval_multiply(product, symbol_interval(context, facts, monomial.symbols[i]));
        sum.low = bound_add(sum.low, product.low, INT64_MIN);
        sum.high = bound_add(sum.high, product.high, INT64_MAX);
    }
    return sum;
}

static int64_t low_of(qf_context *context, const qf_symbol_facts *facts, qf_dim dim, uint32_t budget);

/* A bound of dim from a bound of `replaced`, which is never larger than scale * dim. */
static int64_t low_through(qf_context *context, const qf_symbol_facts *facts, qf_dim replaced, int64_t scale,
                           uint32_t budget) {
    if (!replaced.id) return INT64_MIN;
    int64_t low = low_of(context, facts, replaced, budget);
    if (infinite(low) || scale == 1) return low;
    return -dim_floor_divide_constants(-low, scale);
}

/* Replaces one derived symbol that occurs in this term only, linearly, by something that bounds it. */
static int64_t sharpen(qf_context *context, const qf_symbol_facts *facts, qf_dim dim, dim_term term,
                       const dim_symbol *symbol, uint32_t budget) {
    qf_dim with_a = dim_replace_term(context, dim, term, symbol->a);
    int64_t divisor;
    if (symbol->kind == QF_SYMBOL_MINIMUM || symbol->kind == QF_SYMBOL_MAXIMUM) {
        int64_t a = low_through(context, facts, with_a, 1, budget);
        int64_t b = low_through(context, facts, dim_replace_term(context, dim, term, symbol->b), 1, budget);
        bool either = (term.coefficient < 0) == (symbol->kind == QF_SYMBOL_MINIMUM);
        return either == (a > b) ? a : b;
    }
    if (!qf_dim_is_constant(context, symbol->b, &divisor) || divisor <= 1) return INT64_MIN;
    if (symbol->kind == QF_SYMBOL_MODULO)
        return term.coefficient < 0 && low_of(context, facts, symbol->a, 0) >= 0
                   ? low_through(context, facts, with_a, 1, budget)
                   : INT64_MIN;
    /* k * floor(a / k) lies between a - k + 1 and a; so k * dim is compared with k * rest + coefficient * that bound.
     */
    qf_dim bound = term.coefficient < 0 ? symbol->a : qf_dim_add_constant(context, symbol->a, 1 - divisor);
    qf_dim rest = qf_dim_subtract(context, dim, dim_intern(context, &term, 1));
    qf_dim scaled = qf_dim_add(context, qf_dim_multiply(context, rest, qf_dim_constant(context, divisor)),
                               qf_dim_multiply(context, qf_dim_constant(context, term.coefficient), bound));
    return low_through(context, facts, scaled, divisor, budget);
}

static int64_t low_of(qf_context *context, const qf_symbol_facts *facts, qf_dim dim, uint32_t budget) {
    int64_t best = interval_of(context, facts, dim).low;
    const dim_polynomial polynomial = *dim_at(context, dim);
    if (polynomial.count < 2 || polynomial.weight > SHARPENED_WEIGHT) return best;
    for (uint32_t t = 0, tried = 0; budget && t < polynomial.count && tried < 2; t++) {
        const dim_monomial *monomial = dim_monomial_at(context, polynomial.terms[t].monomial);
        if (monomial->count != 1) continue;
        const dim_symbol symbol = *dim_symbol_at(context, monomial->symbols[0]);
        if (symbol.kind == QF_SYMBOL_NAMED) continue;
        dim_term term = polynomial.terms[t];
        qf_dim own = dim_intern(context, &term, 1);
        qf_dim rest = qf_dim_subtract(context, dim, own);
        if (!rest.id || qf_dim_mentions(context, rest, monomial->symbols[0])) continue;
        int64_t low = sharpen(context, facts, dim, term, &symbol, budget - 1);
        if (low > best) best = low;
        tried++;
    }
    return best;
}

bool qf_dim_lower_bound(qf_context *context, const qf_symbol_facts *facts, qf_dim dim, int64_t *out_bound) {
    if (!dim.id) return false;
    qf_status before = context->status;
    *out_bound = low_of(context, facts, dim, MAX_SHARPENING);
    (void)dim_quiet(context, before, dim);
    return *out_bound != INT64_MIN;
}

bool qf_dim_upper_bound(qf_context *context, const qf_symbol_facts *facts, qf_dim dim, int64_t *out_bound) {
    if (!dim.id) return false;
    qf_status before = context->status;
    qf_dim negated = qf_dim_subtract(context, qf_dim_constant(context, 0), dim);
    int64_t low = negated.id ? low_of(context, facts, negated, MAX_SHARPENING) : INT64_MIN;
    (void)dim_quiet(context, before, dim);
    if (low == INT64_MIN) return false;
    *out_bound = -low;
    return true;
}

bool qf_dim_nonnegative(qf_context *context, const qf_symbol_facts *facts, qf_dim dim) {
    int64_t low;
    return qf_dim_lower_bound(context, facts, dim, &low) && low >= 0;
}
