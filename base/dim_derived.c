/* Owns: what is no polynomial: floor division, modulo, minimum, maximum; substitution and evaluation.
 * Does not own: ring operations (dim.c), bounds (dim_bounds.c).
 * Next: dim_bounds.c. */
#include <string.h>

#include "dim.h"
#include "dim_table.h"

#define MAX_LEAVES 16

int64_t dim_floor_divide_constants(int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static uint64_t magnitude(int64_t value) {
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* a = divisor * whole + rest, term by term, where divisor is one term: rest holds what the divisor does not reach, with
 * coefficients in [0, |divisor|) for a constant divisor. */
static bool split_multiples(qf_context *context, qf_dim a, dim_term divisor, qf_dim *out_whole, qf_dim *out_rest) {
    dim_sum whole = {.count = 0}, rest = {.count = 0};
    const dim_polynomial dividend = *dim_at(context, a);
    for (uint32_t i = 0; i < dividend.count; i++) {
        dim_term term = dividend.terms[i];
        uint32_t monomial = dim_monomial_divide(context, term.monomial, divisor.monomial);
        int64_t quotient = 0;
        if (monomial != UINT32_MAX) {
            if (divisor.coefficient == -1 && term.coefficient == INT64_MIN) return false;
            quotient = dim_floor_divide_constants(term.coefficient, divisor.coefficient);
        }
        if (quotient) whole.terms[whole.count++] = (dim_term){quotient, monomial};
        term.coefficient -= quotient * divisor.coefficient;
        if (term.coefficient) rest.terms[rest.count++] = term;
    }
    *out_whole = dim_intern(context, whole.terms, whole.count);
    *out_rest = dim_intern(context, rest.terms, rest.count);
    return out_whole->id && out_rest->id;
}

/* floor((g * p + c) / (g * k)) = floor((p + floor(c / g)) / k): divides by what the non-constant terms and k share. */
static bool reduce_fraction(qf_context *context, qf_dim *a, int64_t *divisor) {
    const dim_polynomial dividend = *dim_at(context, *a);
    uint64_t shared = magnitude(*divisor);
    for (uint32_t i = 0; i < dividend.count; i++)
        if (dividend.terms[i].monomial)
            shared = greatest_common_divisor(shared, magnitude(dividend.terms[i].coefficient));
    if (shared <= 1 || shared > INT64_MAX) return true;
    dim_sum reduced = {.count = 0};
    for (uint32_t i = 0; i < dividend.count; i++) {
        dim_term term = dividend.terms[i];
        term.coefficient = dim_floor_divide_constants(term.coefficient, (int64_t)shared);
        if (term.coefficient) reduced.terms[reduced.count++] = term;
    }
    *a = dim_intern(context, reduced.terms, reduced.count);
    *divisor /= (int64_t)shared;
    return a->id != 0;
}

/* floor((floor(x / m) + c) / k) = floor((x + c * m) / (m * k)) for positive m and k; 0 where a has another form. */
static qf_dim merge_divisions(qf_context *context, qf_dim a, int64_t divisor) {
    const dim_polynomial dividend = *dim_at(context, a);
    if (!dividend.count || dividend.count > 2 || dividend.terms[0].coefficient != 1) return (qf_dim){0};
    if (dividend.count == 2 && dividend.terms[1].monomial) return (qf_dim){0};
    const dim_monomial *monomial = dim_monomial_at(context, dividend.terms[0].monomial);
    if (monomial->count != 1) return (qf_dim){0};
    const dim_symbol symbol = *dim_symbol_at(context, monomial->symbols[0]);
    int64_t inner, product, offset = dividend.count == 2 ? dividend.terms[1].coefficient : 0;
    if (symbol.kind != QF_SYMBOL_FLOOR_DIVIDE || !qf_dim_is_constant(context, symbol.b, &inner) || inner <= 0)
        return (qf_dim){0};
    if (__builtin_mul_overflow(inner, divisor, &product) || __builtin_mul_overflow(offset, inner, &offset))
        return (qf_dim){0};
    return qf_dim_floor_divide(context, qf_dim_add_constant(context, symbol.a, offset),
                               qf_dim_constant(context, product));
}

/* What is left of a floor division once multiples are split off. */
static qf_dim divide_rest(qf_context *context, qf_dim rest, qf_dim b) {
    int64_t divisor, value;
    if (qf_dim_is(context, rest, 0)) return rest;
    if (!qf_dim_is_constant(context, b, &divisor)) return dim_derived(context, QF_SYMBOL_FLOOR_DIVIDE, rest, b);
    if (qf_dim_is_constant(context, rest, &value))
        return divisor == -1 ? qf_dim_subtract(context, qf_dim_constant(context, 0), rest)
                             : qf_dim_constant(context, dim_floor_divide_constants(value, divisor));
    if (divisor > 0) {
        if (!reduce_fraction(context, &rest, &divisor)) return (qf_dim){0};
        if (divisor == 1) return rest;
        int64_t low, high;
        if (qf_dim_lower_bound(context, NULL, rest, &low) && qf_dim_upper_bound(context, NULL, rest, &high) &&
            dim_floor_divide_constants(low, divisor) == dim_floor_divide_constants(high, divisor))
            return qf_dim_constant(context, dim_floor_divide_constants(low, divisor));
        qf_dim merged = merge_divisions(context, rest, divisor);
        if (merged.id) return merged;
    }
    return dim_derived(context, QF_SYMBOL_FLOOR_DIVIDE, rest, qf_dim_constant(context, divisor));
}

qf_dim qf_dim_floor_divide(qf_context *context, qf_dim a, qf_dim b) {
    if (!a.id || !b.id || qf_dim_is(context, b, 0)) return (qf_dim){0};
    qf_dim known = dim_recall(context, DIM_FLOOR_DIVIDE, a, b);
    if (known.id) return known;
    qf_dim exact = qf_dim_divide_exactly(context, a, b);
    if (exact.id) return dim_remember(context, DIM_FLOOR_DIVIDE, a, b, exact);
    qf_dim whole = qf_dim_constant(context, 0), rest = a;
    const dim_polynomial divisor = *dim_at(context, b);
    if (divisor.count == 1 && !split_multiples(context, a, divisor.terms[0], &whole, &rest)) return dim_limit(context);
    return dim_remember(context, DIM_FLOOR_DIVIDE, a, b, qf_dim_add(context, whole, divide_rest(context, rest, b)));
}

qf_dim qf_dim_modulo(qf_context *context, qf_dim a, qf_dim b) {
    if (!a.id || !b.id || qf_dim_is(context, b, 0)) return (qf_dim){0};
    if (qf_dim_divide_exactly(context, a, b).id) return qf_dim_constant(context, 0);
    qf_dim whole, rest = a;
    const dim_polynomial divisor = *dim_at(context, b);
    if (divisor.count == 1 && !split_multiples(context, a, divisor.terms[0], &whole, &rest)) return dim_limit(context);
    if (qf_dim_is(context, rest, 0)) return rest;
    int64_t value, modulus, low, high;
    if (qf_dim_is_constant(context, b, &modulus)) {
        if (qf_dim_is_constant(context, rest, &value)) return rest; /* already in [0, modulus) or (modulus, 0] */
        if (modulus > 0 && qf_dim_lower_bound(context, NULL, rest, &low) && low >= 0 &&
            qf_dim_upper_bound(context, NULL, rest, &high) && high < modulus)
            return rest;
    }
    return dim_derived(context, QF_SYMBOL_MODULO, rest, b);
}

/* --- minimum and maximum --- */

/* Operands of nested symbols of the same kind; false when there are too many. */
static bool collect_leaves(const qf_context *context, qf_symbol_kind kind, qf_dim dim, qf_dim *leaves,
                           uint32_t *count) {
    qf_dim_symbol symbol = qf_dim_as_symbol(context, dim);
    if (symbol.id && qf_dim_symbol_kind(context, symbol) == kind) {
        qf_dim a, b;
        qf_dim_symbol_operands(context, symbol, &a, &b);
        return collect_leaves(context, kind, a, leaves, count) && collect_leaves(context, kind, b, leaves, count);
    }
    if (*count == MAX_LEAVES) return false;
    leaves[(*count)++] = dim;
    return true;
}

/* True where `a` is never needed beside `b`. */
static bool dominated(qf_context *context, qf_symbol_kind kind, qf_dim a, qf_dim b) {
    qf_status before = context->status;
    qf_dim difference = kind == QF_SYMBOL_MINIMUM ? qf_dim_subtract(context, a, b) : qf_dim_subtract(context, b, a);
    difference = dim_quiet(context, before, difference);
    return difference.id && qf_dim_nonnegative(context, NULL, difference);
}

static void sort_dims(const qf_context *context, qf_dim *dims, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        qf_dim moving = dims[i];
        uint32_t at = i;
        for (; at && dim_compare(context, dims[at - 1], moving) > 0; at--) dims[at] = dims[at - 1];
        dims[at] = moving;
    }
}

/* Leaf i is not beside a leaf that makes it useless; of two that make each other useless the first stays. */
static bool needed(qf_context *context, qf_symbol_kind kind, const qf_dim *leaves, uint32_t count, uint32_t i) {
    for (uint32_t j = 0; j < count; j++)
        if (i != j && dominated(context, kind, leaves[i], leaves[j]) &&
            (j < i || !dominated(context, kind, leaves[j], leaves[i])))
            return false;
    return true;
}

/* The leaves before may say more together than each of them does. The same questions are asked when the text of the
 * result is read again, so that it gives the same dim. */
static qf_dim join(qf_context *context, qf_symbol_kind kind, qf_dim before, qf_dim leaf) {
    if (dominated(context, kind, leaf, before)) return before;
    if (dominated(context, kind, before, leaf)) return leaf;
    return dim_derived(context, kind, before, leaf);
}

static qf_dim extreme(qf_context *context, dim_operation operation, qf_symbol_kind kind, qf_dim a, qf_dim b) {
    if (!a.id || !b.id) return (qf_dim){0};
    if (a.id == b.id) return a;
    qf_status before = context->status;
    bool first = dominated(context, kind, b, a), second = !first && dominated(context, kind, a, b);
    if (context->status != before) return (qf_dim){0}; /* out of memory, no answer */
    if (first || second) return first ? a : b;
    qf_dim known = dim_recall(context, operation, a, b);
    if (known.id) return known;
    qf_dim leaves[MAX_LEAVES];
    uint32_t count = 0;
    if (!collect_leaves(context, kind, a, leaves, &count) || !collect_leaves(context, kind, b, leaves, &count)) {
        leaves[0] = a;
        leaves[1] = b;
        count = 2;
    }
    sort_dims(context, leaves, count);
    qf_dim result = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (!needed(context, kind, leaves, count, i)) continue;
        result = result.id ? join(context, kind, result, leaves[i]) : leaves[i];
        if (!result.id) return result;
    }
    return context->status == before ? dim_remember(context, operation, a, b, result) : (qf_dim){0};
}

qf_dim qf_dim_minimum(qf_context *context, qf_dim a, qf_dim b) {
    return extreme(context, DIM_MINIMUM, QF_SYMBOL_MINIMUM, a, b);
}

qf_dim qf_dim_maximum(qf_context *context, qf_dim a, qf_dim b) {
    return extreme(context, DIM_MAXIMUM, QF_SYMBOL_MAXIMUM, a, b);
}

/* --- substitution and evaluation --- */

qf_dim dim_replace_term(qf_context *context, qf_dim dim, dim_term term, qf_dim replacement) {
    qf_dim own = dim_intern(context, &term, 1), coefficient = qf_dim_constant(context, term.coefficient);
    return qf_dim_add(context, qf_dim_subtract(context, dim, own), qf_dim_multiply(context, coefficient, replacement));
}

static qf_dim derive(qf_context *context, qf_symbol_kind kind, qf_dim a, qf_dim b) {
    switch (kind) {
    case QF_SYMBOL_FLOOR_DIVIDE: return qf_dim_floor_divide(context, a, b);
    case QF_SYMBOL_MODULO: return qf_dim_modulo(context, a, b);
    case QF_SYMBOL_MINIMUM: return qf_dim_minimum(context, a, b);
    case QF_SYMBOL_MAXIMUM: return qf_dim_maximum(context, a, b);
    case QF_SYMBOL_NAMED: break;
    }
    return (qf_dim){0};
}

static qf_dim substitute_symbol(qf_context *context, qf_dim_symbol at, qf_dim_symbol symbol, qf_dim replacement) {
    if (at.id == symbol.id) return replacement;
    const dim_symbol inner = *dim_symbol_at(context, at);
    if (inner.kind == QF_SYMBOL_NAMED) return qf_dim_of_symbol(context, at);
    return derive(context, inner.kind, qf_dim_substitute(context, inner.a, symbol, replacement),
                  qf_dim_substitute(context, inner.b, symbol, replacement));
}

qf_dim qf_dim_substitute(qf_context *context, qf_dim dim, qf_dim_symbol symbol, qf_dim replacement) {
    if (!dim.id || !replacement.id) return (qf_dim){0};
    if (!qf_dim_mentions(context, dim, symbol)) return dim;
    const dim_polynomial polynomial = *dim_at(context, dim);
    qf_dim sum = qf_dim_constant(context, 0);
    for (uint32_t t = 0; t < polynomial.count; t++) {
        qf_dim product = qf_dim_constant(context, polynomial.terms[t].coefficient);
        const dim_monomial monomial = *dim_monomial_at(context, polynomial.terms[t].monomial);
        for (uint32_t i = 0; i < monomial.count; i++)
            product =
                qf_dim_multiply(context, product, substitute_symbol(context, monomial.symbols[i], symbol, replacement));
        sum = qf_dim_add(context, sum, product);
    }
    return sum;
}

static bool evaluate_symbol(const qf_context *context, qf_dim_symbol at, qf_symbol_lookup lookup, void *user,
                            int64_t *out_value) {
    const dim_symbol *symbol = dim_symbol_at(context, at);
    if (symbol->kind == QF_SYMBOL_NAMED) return lookup && lookup(user, at, out_value);
    int64_t a, b;
    if (!qf_dim_evaluate(context, symbol->a, lookup, user, &a) ||
        !qf_dim_evaluate(context, symbol->b, lookup, user, &b))
        return false;
    switch (symbol->kind) {
    case QF_SYMBOL_FLOOR_DIVIDE:
        if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
        *out_value = dim_floor_divide_constants(a, b);
        return true;
    case QF_SYMBOL_MODULO:
        if (b == 0) return false;
        *out_value = b == -1 ? 0 : a - b * dim_floor_divide_constants(a, b);
        return true;
    case QF_SYMBOL_MINIMUM: *out_value = a < b ? a : b; return true;
    case QF_SYMBOL_MAXIMUM: *out_value = a > b ? a : b; return true;
    case QF_SYMBOL_NAMED: break;
    }
    return false;
}

bool qf_dim_evaluate(const qf_context *context, qf_dim dim, qf_symbol_lookup lookup, void *user, int64_t *out_value) {
    if (!dim.id) return false;
    const dim_polynomial *polynomial = dim_at(context, dim);
    int64_t sum = 0;
    for (uint32_t t = 0; t < polynomial->count; t++) {
        int64_t product = polynomial->terms[t].coefficient, value;
        const dim_monomial *monomial = dim_monomial_at(context, polynomial->terms[t].monomial);
        for (uint32_t i = 0; i < monomial->count; i++)
            if (!evaluate_symbol(context, monomial->symbols[i], lookup, user, &value) ||
                __builtin_mul_overflow(product, value, &product))
                return false;
        if (__builtin_add_overflow(sum, product, &sum)) return false;
    }
    *out_value = sum;
    return true;
}
