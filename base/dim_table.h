/* Owns: how dims are stored: interned symbols, monomials and polynomials of one context.
 * Does not own: what callers outside of base/dim*.c may know (dim.h).
 * Next: dim.c. */
#ifndef QF_BASE_DIM_TABLE_H
#define QF_BASE_DIM_TABLE_H

#include "dim.h"

/* Limits that keep every operation and every recursion over a dim cheap. What exceeds them fails with QF_ERROR_LIMIT.
 */
#define DIM_MAX_TERMS  256
#define DIM_MAX_DEGREE 32
#define DIM_MAX_WEIGHT 4096 /* symbols in the dim written out in full, derived ones included */
#define DIM_MAX_DEPTH  64   /* derived symbols inside derived symbols; text nesting too */
#define DIM_CACHE_SIZE 1024 /* a power of two */

/* A product of symbols sorted by name; monomial 0 is the empty product. */
typedef struct dim_monomial {
    const qf_dim_symbol *symbols;
    uint32_t count, weight, depth;
} dim_monomial;

typedef struct dim_term {
    int64_t coefficient; /* never 0 */
    uint32_t monomial;
} dim_term;

/* Terms by falling degree, then by name: an order that products keep, which exact division relies on. */
typedef struct dim_polynomial {
    const dim_term *terms;
    uint32_t count, weight, depth;
} dim_polynomial;

typedef struct dim_symbol {
    qf_symbol_kind kind;
    qf_string name; /* QF_SYMBOL_NAMED */
    qf_dim a, b;    /* derived */
    uint32_t weight, depth;
} dim_symbol;

typedef enum dim_operation {
    DIM_ADD = 1,
    DIM_MULTIPLY,
    DIM_FLOOR_DIVIDE,
    DIM_MODULO,
    DIM_MINIMUM,
    DIM_MAXIMUM
} dim_operation;

struct qf_dim_table {
    dim_symbol *symbols; /* 0 = none */
    uint32_t symbol_count, symbol_capacity;
    dim_monomial *monomials;
    uint32_t monomial_count, monomial_capacity;
    dim_polynomial *dims; /* 0 = none */
    uint32_t dim_count, dim_capacity;
    qf_index symbol_index, monomial_index, dim_index;
    uint32_t next_fresh;
    struct {
        uint32_t operation, a, b, result;
    } cache[DIM_CACHE_SIZE]; /* direct mapped: remembers recent results */
};

/* A sum under construction. Terms are sorted, none has coefficient 0. */
typedef struct dim_sum {
    dim_term terms[DIM_MAX_TERMS];
    uint32_t count;
} dim_sum;

static inline const dim_polynomial *dim_at(const qf_context *context, qf_dim dim) {
    return &context->dims->dims[dim.id];
}
static inline const dim_monomial *dim_monomial_at(const qf_context *context, uint32_t monomial) {
    return &context->dims->monomials[monomial];
}
static inline const dim_symbol *dim_symbol_at(const qf_context *context, qf_dim_symbol symbol) {
    return &context->dims->symbols[symbol.id];
}

/* Limits are recorded without a message: who knows the place reports it. */
qf_dim dim_limit(qf_context *context);
/* The interned dim of sorted terms. */
qf_dim dim_intern(qf_context *context, const dim_term *terms, uint32_t count);
/* Derived symbols with operands that need no more folding. */
qf_dim dim_derived(qf_context *context, qf_symbol_kind kind, qf_dim a, qf_dim b);
/* The quotient of monomials; UINT32_MAX when it is none (or on failure, which is recorded). */
uint32_t dim_monomial_divide(qf_context *context, uint32_t a, uint32_t b);
/* An order by names and structure, the same in every context. */
int dim_compare(const qf_context *context, qf_dim a, qf_dim b);
/* Remembered results of binary operations; 0 = not remembered. */
qf_dim dim_recall(const qf_context *context, dim_operation operation, qf_dim a, qf_dim b);
qf_dim dim_remember(qf_context *context, dim_operation operation, qf_dim a, qf_dim b, qf_dim result);
int64_t dim_floor_divide_constants(int64_t a, int64_t b); /* b not 0, not INT64_MIN / -1 */
/* dim - coefficient * symbol + coefficient * replacement, for one term of the dim. */
qf_dim dim_replace_term(qf_context *context, qf_dim dim, dim_term term, qf_dim replacement);

/* Work that may meet a limit without that being a failure of the caller. */
static inline qf_dim dim_quiet(qf_context *context, qf_status before, qf_dim result) {
    if (context->status == QF_ERROR_LIMIT && before == QF_OK) context->status = QF_OK;
    return result;
}

#endif
