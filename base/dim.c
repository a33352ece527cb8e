/* Owns: interning of symbols, monomials and polynomials, and their ring operations.
 * Does not own: division, minimum, maximum and substitution (dim_derived.c), bounds (dim_bounds.c), text (dim_text.c).
 * Next: dim_table.h, dim_derived.c. */
#include "dim.h"

#include <stdio.h>
#include <string.h>

#include "dim_table.h"

bool qf_dim_table_create(qf_context *context) {
    struct qf_dim_table *table = qf_allocate(context, sizeof *table);
    if (!table) return false;
    context->dims = table;
    if (!QF_GROW(context, table->symbols, table->symbol_capacity, 16) ||
        !QF_GROW(context, table->monomials, table->monomial_capacity, 32) ||
        !QF_GROW(context, table->dims, table->dim_capacity, 64))
        return false;
    memset(&table->symbols[0], 0, sizeof table->symbols[0]);
    memset(&table->monomials[0], 0, sizeof table->monomials[0]);
    memset(&table->dims[0], 0, sizeof table->dims[0]);
    table->symbol_count = table->monomial_count = table->dim_count = 1;
    return true;
}

void qf_dim_table_destroy(qf_context *context) {
    struct qf_dim_table *table = context->dims;
    if (!table) return;
    QF_FREE_ITEMS(context, table->symbols, table->symbol_capacity);
    QF_FREE_ITEMS(context, table->monomials, table->monomial_capacity);
    QF_FREE_ITEMS(context, table->dims, table->dim_capacity);
    qf_index_destroy(context, &table->symbol_index);
    qf_index_destroy(context, &table->monomial_index);
    qf_index_destroy(context, &table->dim_index);
    qf_release(context, table, sizeof *table);
    context->dims = NULL;
}

qf_dim dim_limit(qf_context *context) {
    (void)qf_record(context, QF_ERROR_LIMIT);
    return (qf_dim){0};
}

/* --- order --- */

static int text_compare(qf_text a, qf_text b) {
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size ? memcmp(a.data, b.data, size) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int symbol_compare(const qf_context *context, qf_dim_symbol a, qf_dim_symbol b) {
    if (a.id == b.id) return 0;
    const dim_symbol *left = dim_symbol_at(context, a), *right = dim_symbol_at(context, b);
    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    if (left->kind == QF_SYMBOL_NAMED)
        return text_compare(qf_string_text(context, left->name), qf_string_text(context, right->name));
    int order = dim_compare(context, left->a, right->a);
    return order ? order : dim_compare(context, left->b, right->b);
}

static int monomial_compare(const qf_context *context, uint32_t a, uint32_t b) {
    if (a == b) return 0;
    const dim_monomial *left = dim_monomial_at(context, a), *right = dim_monomial_at(context, b);
    if (left->count != right->count) return left->count > right->count ? -1 : 1;
    for (uint32_t i = 0; i < left->count; i++) {
        int order = symbol_compare(context, left->symbols[i], right->symbols[i]);
        if (order) return order;
    }
    return 0;
}

int dim_compare(const qf_context *context, qf_dim a, qf_dim b) {
    if (a.id == b.id) return 0;
    const dim_polynomial *left = dim_at(context, a), *right = dim_at(context, b);
    for (uint32_t i = 0; i < left->count && i < right->count; i++) {
        int order = monomial_compare(context, left->terms[i].monomial, right->terms[i].monomial);
        if (order) return order;
        if (left->terms[i].coefficient != right->terms[i].coefficient)
            return left->terms[i].coefficient < right->terms[i].coefficient ? -1 : 1;
    }
    return left->count > right->count ? -1 : 1;
}

/* --- interning --- */

typedef struct symbols_key {
    const qf_dim_symbol *symbols;
    uint32_t count;
} symbols_key;

static bool monomial_equal(const void *owner, uint32_t id, const void *key) {
    const symbols_key *wanted = key;
    const dim_monomial *monomial = dim_monomial_at(owner, id);
    return monomial->count == wanted->count &&
           memcmp(monomial->symbols, wanted->symbols, wanted->count * sizeof *wanted->symbols) == 0;
}

static uint32_t monomial_intern(qf_context *context, const qf_dim_symbol *symbols, uint32_t count) {
    if (!count) return 0;
    struct qf_dim_table *table = context->dims;
    uint64_t hash = qf_hash_bytes(symbols, count * sizeof *symbols, 2);
    symbols_key key = {symbols, count};
    uint32_t id = qf_index_find(&table->monomial_index, hash, monomial_equal, context, &key);
    if (id) return id;
    dim_monomial monomial = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        const dim_symbol *symbol = dim_symbol_at(context, symbols[i]);
        monomial.weight += symbol->weight;
        if (symbol->depth > monomial.depth) monomial.depth = symbol->depth;
    }
    if (count > DIM_MAX_DEGREE || monomial.weight > DIM_MAX_WEIGHT) {
        (void)dim_limit(context);
        return UINT32_MAX;
    }
    monomial.symbols = qf_arena_copy(&context->arena, symbols, count * sizeof *symbols);
    if (!monomial.symbols ||
        !QF_GROW(context, table->monomials, table->monomial_capacity, (uint64_t)table->monomial_count + 1))
        return UINT32_MAX;
    id = table->monomial_count;
    if (!qf_index_add(context, &table->monomial_index, hash, id)) return UINT32_MAX;
    table->monomials[id] = monomial;
    table->monomial_count++;
    return id;
}

typedef struct terms_key {
    const dim_term *terms;
    uint32_t count;
} terms_key;

static bool terms_equal(const void *owner, uint32_t id, const void *key) {
    const terms_key *wanted = key;
    const dim_polynomial *dim = dim_at(owner, (qf_dim){id});
    if (dim->count != wanted->count) return false;
    for (uint32_t i = 0; i < dim->count; i++)
        if (dim->terms[i].coefficient != wanted->terms[i].coefficient ||
            dim->terms[i].monomial != wanted->terms[i].monomial)
            return false;
    return true;
}

qf_dim dim_intern(qf_context *context, const dim_term *terms, uint32_t count) {
    struct qf_dim_table *table = context->dims;
    uint64_t hash = 3;
    for (uint32_t i = 0; i < count; i++)
        hash = qf_hash_mix(qf_hash_mix(hash, (uint64_t)terms[i].coefficient), terms[i].monomial);
    terms_key key = {terms, count};
    uint32_t id = qf_index_find(&table->dim_index, hash, terms_equal, context, &key);
    if (id) return (qf_dim){id};
    dim_polynomial dim = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        const dim_monomial *monomial = dim_monomial_at(context, terms[i].monomial);
        dim.weight += monomial->weight;
        if (monomial->depth > dim.depth) dim.depth = monomial->depth;
    }
    if (dim.weight > DIM_MAX_WEIGHT) return dim_limit(context);
    dim.terms = qf_arena_copy(&context->arena, terms, count * sizeof *terms);
    if (!dim.terms || !QF_GROW(context, table->dims, table->dim_capacity, (uint64_t)table->dim_count + 1))
        return (qf_dim){0};
    id = table->dim_count;
    if (!qf_index_add(context, &table->dim_index, hash, id)) return (qf_dim){0};
    table->dims[id] = dim;
    table->dim_count++;
    return (qf_dim){id};
}

static bool name_equal(const void *owner, uint32_t id, const void *key) {
    const qf_context *context = owner;
    const dim_symbol *symbol = dim_symbol_at(context, (qf_dim_symbol){id});
    return symbol->kind == QF_SYMBOL_NAMED &&
           qf_text_equal(qf_string_text(context, symbol->name), *(const qf_text *)key);
}

static bool derived_equal(const void *owner, uint32_t id, const void *key) {
    const dim_symbol *symbol = dim_symbol_at(owner, (qf_dim_symbol){id}), *wanted = key;
    return symbol->kind == wanted->kind && symbol->a.id == wanted->a.id && symbol->b.id == wanted->b.id;
}

static qf_dim_symbol symbol_add(qf_context *context, uint64_t hash, const dim_symbol *symbol) {
    struct qf_dim_table *table = context->dims;
    if (!QF_GROW(context, table->symbols, table->symbol_capacity, (uint64_t)table->symbol_count + 1))
        return (qf_dim_symbol){0};
    uint32_t id = table->symbol_count;
    if (!qf_index_add(context, &table->symbol_index, hash, id)) return (qf_dim_symbol){0};
    table->symbols[id] = *symbol;
    table->symbol_count++;
    return (qf_dim_symbol){id};
}

qf_dim_symbol qf_dim_symbol_find(const qf_context *context, qf_text name) {
    uint64_t hash = qf_hash_bytes(name.data, name.size, 4);
    return (qf_dim_symbol){qf_index_find(&context->dims->symbol_index, hash, name_equal, context, &name)};
}

qf_dim dim_derived(qf_context *context, qf_symbol_kind kind, qf_dim a, qf_dim b) {
    if (!a.id || !b.id) return (qf_dim){0};
    const dim_polynomial *left = dim_at(context, a), *right = dim_at(context, b);
    dim_symbol symbol = {.kind = kind,
                         .a = a,
                         .b = b,
                         .weight = 1 + left->weight + right->weight,
                         .depth = 1 + (left->depth > right->depth ? left->depth : right->depth)};
    if (symbol.weight > DIM_MAX_WEIGHT || symbol.depth > DIM_MAX_DEPTH) return dim_limit(context);
    uint64_t hash = qf_hash_mix(qf_hash_mix(qf_hash_mix(5, kind), a.id), b.id);
    uint32_t id = qf_index_find(&context->dims->symbol_index, hash, derived_equal, context, &symbol);
    return qf_dim_of_symbol(context, id ? (qf_dim_symbol){id} : symbol_add(context, hash, &symbol));
}

qf_dim dim_recall(const qf_context *context, dim_operation operation, qf_dim a, qf_dim b) {
    uint64_t slot = qf_hash_mix(qf_hash_mix(operation, a.id), b.id) & (DIM_CACHE_SIZE - 1);
    const struct qf_dim_table *table = context->dims;
    bool hit = table->cache[slot].operation == (uint32_t)operation && table->cache[slot].a == a.id &&
               table->cache[slot].b == b.id;
    return (qf_dim){hit ? table->cache[slot].result : 0};
}

qf_dim dim_remember(qf_context *context, dim_operation operation, qf_dim a, qf_dim b, qf_dim result) {
    uint64_t slot = qf_hash_mix(qf_hash_mix(operation, a.id), b.id) & (DIM_CACHE_SIZE - 1);
    struct qf_dim_table *table = context->dims;
    if (!result.id) return result;
    table->cache[slot].operation = operation;
    table->cache[slot].a = a.id;
    table->cache[slot].b = b.id;
    table->cache[slot].result = result.id;
    return result;
}

/* --- constructors --- */

qf_dim qf_dim_constant(qf_context *context, int64_t value) {
    dim_term term = {value, 0};
    return dim_intern(context, &term, value != 0);
}

qf_dim qf_dim_of_symbol(qf_context *context, qf_dim_symbol symbol) {
    if (!symbol.id) return (qf_dim){0};
    dim_term term = {1, monomial_intern(context, &symbol, 1)};
    return term.monomial == UINT32_MAX ? (qf_dim){0} : dim_intern(context, &term, 1);
}

qf_dim qf_dim_named(qf_context *context, qf_text name) {
    qf_dim_symbol found = qf_dim_symbol_find(context, name);
    if (found.id) return qf_dim_of_symbol(context, found);
    dim_symbol symbol = {.kind = QF_SYMBOL_NAMED, .name = qf_intern(context, name), .weight = 1};
    if (!symbol.name.id) return (qf_dim){0};
    return qf_dim_of_symbol(context, symbol_add(context, qf_hash_bytes(name.data, name.size, 4), &symbol));
}

qf_dim qf_dim_fresh(qf_context *context, const char *prefix) {
    char name[80];
    do {
        int size = snprintf(name, sizeof name, "%.60s%u", prefix, context->dims->next_fresh);
        if (size < 0 || context->dims->next_fresh == UINT32_MAX) return dim_limit(context);
        context->dims->next_fresh++;
    } while (qf_dim_symbol_find(context, qf_text_of(name)).id);
    return qf_dim_named(context, qf_text_of(name));
}

/* --- ring operations --- */

/* The product; UINT32_MAX after a failure, which is recorded. */
static uint32_t monomial_multiply(qf_context *context, uint32_t a, uint32_t b) {
    if (!a) return b;
    if (!b) return a;
    const dim_monomial *left = dim_monomial_at(context, a), *right = dim_monomial_at(context, b);
    if (left->count + right->count > DIM_MAX_DEGREE) {
        (void)dim_limit(context);
        return UINT32_MAX;
    }
    qf_dim_symbol symbols[DIM_MAX_DEGREE];
    uint32_t count = 0, i = 0, j = 0;
    while (i < left->count || j < right->count) {
        bool take_left =
            j == right->count || (i < left->count && symbol_compare(context, left->symbols[i], right->symbols[j]) <= 0);
        symbols[count++] = take_left ? left->symbols[i++] : right->symbols[j++];
    }
    return monomial_intern(context, symbols, count);
}

/* out = a + scale * monomial * b. False on overflow or too many terms; out is neither a nor b. */
static bool sum_add(qf_context *context, dim_sum *out, const dim_term *a, uint32_t a_count, const dim_term *b,
                    uint32_t b_count, dim_term scale) {
    uint32_t i = 0, j = 0;
    dim_term scaled = {0, 0};
    bool have = false;
    out->count = 0;
    while (i < a_count || j < b_count) {
        if (!have && j < b_count) {
            scaled.monomial = monomial_multiply(context, scale.monomial, b[j].monomial);
            if (scaled.monomial == UINT32_MAX) return false;
            if (__builtin_mul_overflow(scale.coefficient, b[j].coefficient, &scaled.coefficient)) return false;
            have = true;
        }
        int order = !have ? -1 : i >= a_count ? 1 : monomial_compare(context, a[i].monomial, scaled.monomial);
        dim_term term = order <= 0 ? a[i] : scaled;
        if (order == 0 && __builtin_add_overflow(a[i].coefficient, scaled.coefficient, &term.coefficient)) return false;
        i += order <= 0;
        if (order >= 0) {
            have = false;
            j++;
        }
        if (!term.coefficient) continue;
        if (out->count == DIM_MAX_TERMS) return false;
        out->terms[out->count++] = term;
    }
    return true;
}

uint32_t dim_monomial_divide(qf_context *context, uint32_t a, uint32_t b) {
    if (!b) return a;
    const dim_monomial *left = dim_monomial_at(context, a), *right = dim_monomial_at(context, b);
    qf_dim_symbol symbols[DIM_MAX_DEGREE];
    uint32_t count = 0, j = 0;
    for (uint32_t i = 0; i < left->count; i++)
        if (j < right->count && left->symbols[i].id == right->symbols[j].id)
            j++;
        else
            symbols[count++] = left->symbols[i];
    return j == right->count ? monomial_intern(context, symbols, count) : UINT32_MAX;
}

static qf_dim add_scaled(qf_context *context, qf_dim a, qf_dim b, int64_t scale) {
    if (!a.id || !b.id) return (qf_dim){0};
    dim_sum sum;
    const dim_polynomial left = *dim_at(context, a), right = *dim_at(context, b);
    if (!sum_add(context, &sum, left.terms, left.count, right.terms, right.count, (dim_term){scale, 0}))
        return dim_limit(context);
    return dim_intern(context, sum.terms, sum.count);
}

qf_dim qf_dim_add(qf_context *context, qf_dim a, qf_dim b) {
    return add_scaled(context, a, b, 1);
}

qf_dim qf_dim_subtract(qf_context *context, qf_dim a, qf_dim b) {
    return add_scaled(context, a, b, -1);
}

qf_dim qf_dim_add_constant(qf_context *context, qf_dim a, int64_t value) {
    return a.id ? qf_dim_add(context, a, qf_dim_constant(context, value)) : a;
}

qf_dim qf_dim_multiply(qf_context *context, qf_dim a, qf_dim b) {
    if (!a.id || !b.id) return (qf_dim){0};
    if (qf_dim_is(context, a, 1)) return b;
    if (qf_dim_is(context, b, 1)) return a;
    qf_dim known = dim_recall(context, DIM_MULTIPLY, a, b);
    if (known.id) return known;
    const dim_polynomial left = *dim_at(context, a), right = *dim_at(context, b);
    dim_sum sums[2];
    sums[0].count = 0;
    for (uint32_t i = 0; i < left.count; i++) {
        const dim_sum *from = &sums[i & 1];
        if (!sum_add(context, &sums[(i + 1) & 1], from->terms, from->count, right.terms, right.count, left.terms[i]))
            return dim_limit(context);
    }
    const dim_sum *result = &sums[left.count & 1];
    return dim_remember(context, DIM_MULTIPLY, a, b, dim_intern(context, result->terms, result->count));
}

qf_dim qf_dim_product(qf_context *context, const qf_dim *dims, uint32_t count) {
    qf_dim product = qf_dim_constant(context, 1);
    for (uint32_t i = 0; i < count; i++) product = qf_dim_multiply(context, product, dims[i]);
    return product;
}

/* Long division by leading terms; the order of terms is kept by products, so that a quotient is found where there is
 * one. */
qf_dim qf_dim_divide_exactly(qf_context *context, qf_dim a, qf_dim b) {
    if (!a.id || !b.id || qf_dim_is(context, b, 0)) return (qf_dim){0};
    if (qf_dim_is(context, b, 1)) return a;
    if (a.id == b.id) return qf_dim_constant(context, 1);
    qf_status before = context->status;
    const dim_polynomial divisor = *dim_at(context, b);
    dim_sum remainders[2], quotient = {.count = 0};
    const dim_polynomial dividend = *dim_at(context, a);
    memcpy(remainders[0].terms, dividend.terms, dividend.count * sizeof *dividend.terms);
    remainders[0].count = dividend.count;
    for (uint32_t step = 0; remainders[step & 1].count; step++) {
        const dim_sum *rest = &remainders[step & 1];
        dim_term lead = rest->terms[0];
        if (divisor.terms[0].coefficient == -1 ? lead.coefficient == INT64_MIN
                                               : lead.coefficient % divisor.terms[0].coefficient != 0)
            return (qf_dim){0};
        dim_term next = {lead.coefficient / divisor.terms[0].coefficient,
                         dim_monomial_divide(context, lead.monomial, divisor.terms[0].monomial)};
        if (next.monomial == UINT32_MAX || quotient.count == DIM_MAX_TERMS || next.coefficient == INT64_MIN ||
            !sum_add(context, &remainders[(step + 1) & 1], rest->terms, rest->count, divisor.terms, divisor.count,
                     (dim_term){-next.coefficient, next.monomial}))
            return dim_quiet(context, before, (qf_dim){0});
        quotient.terms[quotient.count++] = next;
    }
    return dim_quiet(context, before, dim_intern(context, quotient.terms, quotient.count));
}

/* --- queries --- */

bool qf_dim_is_constant(const qf_context *context, qf_dim dim, int64_t *out_value) {
    const dim_polynomial *polynomial = dim_at(context, dim);
    if (!dim.id || polynomial->count > 1 || (polynomial->count && polynomial->terms[0].monomial)) return false;
    if (out_value) *out_value = polynomial->count ? polynomial->terms[0].coefficient : 0;
    return true;
}

bool qf_dim_is(const qf_context *context, qf_dim dim, int64_t value) {
    int64_t constant;
    return qf_dim_is_constant(context, dim, &constant) && constant == value;
}

bool qf_dim_mentions(const qf_context *context, qf_dim dim, qf_dim_symbol symbol) {
    const dim_polynomial *polynomial = dim_at(context, dim);
    for (uint32_t t = 0; t < polynomial->count; t++) {
        const dim_monomial *monomial = dim_monomial_at(context, polynomial->terms[t].monomial);
        for (uint32_t i = 0; i < monomial->count; i++) {
            if (monomial->symbols[i].id == symbol.id) return true;
            const dim_symbol *inner = dim_symbol_at(context, monomial->symbols[i]);
            if (inner->kind != QF_SYMBOL_NAMED &&
                (qf_dim_mentions(context, inner->a, symbol) || qf_dim_mentions(context, inner->b, symbol)))
                return true;
        }
    }
    return false;
}

qf_dim_symbol qf_dim_as_symbol(const qf_context *context, qf_dim dim) {
    const dim_polynomial *polynomial = dim_at(context, dim);
    if (!dim.id || polynomial->count != 1 || polynomial->terms[0].coefficient != 1) return (qf_dim_symbol){0};
    const dim_monomial *monomial = dim_monomial_at(context, polynomial->terms[0].monomial);
    return monomial->count == 1 ? monomial->symbols[0] : (qf_dim_symbol){0};
}

uint32_t qf_dim_term_count(const qf_context *context, qf_dim dim) {
    return dim_at(context, dim)->count;
}

qf_dim_term qf_dim_term_at(const qf_context *context, qf_dim dim, uint32_t index) {
    dim_term term = dim_at(context, dim)->terms[index];
    const dim_monomial *monomial = dim_monomial_at(context, term.monomial);
    return (qf_dim_term){term.coefficient, monomial->symbols, monomial->count};
}

qf_symbol_kind qf_dim_symbol_kind(const qf_context *context, qf_dim_symbol symbol) {
    return dim_symbol_at(context, symbol)->kind;
}

qf_string qf_dim_symbol_name(const qf_context *context, qf_dim_symbol symbol) {
    return dim_symbol_at(context, symbol)->name;
}

void qf_dim_symbol_operands(const qf_context *context, qf_dim_symbol symbol, qf_dim *a, qf_dim *b) {
    *a = dim_symbol_at(context, symbol)->a;
    *b = dim_symbol_at(context, symbol)->b;
}
