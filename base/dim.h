/* Owns: dims: constants and polynomials over named symbols, interned so that equal dims have equal ids.
 * Does not own: tensor types (type.h), what a graph knows of its symbols beyond qf_symbol_facts.
 * Next: dim.c. */
#ifndef QF_BASE_DIM_H
#define QF_BASE_DIM_H

#include <qfuse/type.h>

#include "context.h"

/* qf_dim (qfuse/type.h) is a polynomial with 64-bit integer coefficients over symbols, in one normal form; 0 = none.
 * What is no polynomial (a/b, min, max, mod) becomes a derived symbol whose operands are dims, itself interned. */

/* A symbol of one context: an index from 1; 0 = none. Symbols stand for integers. */
typedef struct qf_dim_symbol {
    uint32_t id;
} qf_dim_symbol;

typedef enum qf_symbol_kind {
    QF_SYMBOL_NAMED = 0,
    QF_SYMBOL_FLOOR_DIVIDE = 1, /* floor(a / b) */
    QF_SYMBOL_MODULO = 2,       /* a - b * floor(a / b) */
    QF_SYMBOL_MINIMUM = 3,
    QF_SYMBOL_MAXIMUM = 4
} qf_symbol_kind;

/* What is known of a symbol. Symbols without an entry are >= 0. */
typedef struct qf_symbol_fact {
    qf_dim_symbol symbol;
    int64_t minimum, maximum; /* maximum INT64_MAX = unbounded */
    int64_t divisor;          /* the symbol is a multiple of it; 1 = unknown */
} qf_symbol_fact;

typedef struct qf_symbol_facts {
    const qf_symbol_fact *items;
    uint32_t count;
} qf_symbol_facts;

bool qf_dim_table_create(qf_context *context);
void qf_dim_table_destroy(qf_context *context);

/* Constructors. 0 in gives 0 out; overflow of a coefficient fails with QF_ERROR_LIMIT and gives 0. */
qf_dim qf_dim_constant(qf_context *context, int64_t value);
qf_dim qf_dim_named(qf_context *context, qf_text name);
qf_dim qf_dim_of_symbol(qf_context *context, qf_dim_symbol symbol);
qf_dim qf_dim_fresh(qf_context *context, const char *prefix); /* a new symbol that equals no other */
qf_dim qf_dim_add(qf_context *context, qf_dim a, qf_dim b);
qf_dim qf_dim_subtract(qf_context *context, qf_dim a, qf_dim b);
qf_dim qf_dim_multiply(qf_context *context, qf_dim a, qf_dim b);
qf_dim qf_dim_add_constant(qf_context *context, qf_dim a, int64_t value);
/* The exact quotient where b divides a as polynomials, else 0 (no failure is recorded). */
qf_dim qf_dim_divide_exactly(qf_context *context, qf_dim a, qf_dim b);
/* Folded where exact or constant, else a derived symbol. A constant divisor of 0 gives 0. */
qf_dim qf_dim_floor_divide(qf_context *context, qf_dim a, qf_dim b);
qf_dim qf_dim_modulo(qf_context *context, qf_dim a, qf_dim b);
qf_dim qf_dim_minimum(qf_context *context, qf_dim a, qf_dim b);
qf_dim qf_dim_maximum(qf_context *context, qf_dim a, qf_dim b);
qf_dim qf_dim_product(qf_context *context, const qf_dim *dims, uint32_t count);

/* Queries. */
static inline bool qf_dim_equal(qf_dim a, qf_dim b) {
    return a.id == b.id;
}
bool qf_dim_is_constant(const qf_context *context, qf_dim dim, int64_t *out_value); /* out_value may be NULL */
bool qf_dim_is(const qf_context *context, qf_dim dim, int64_t value);
bool qf_dim_mentions(const qf_context *context, qf_dim dim, qf_dim_symbol symbol); /* also inside derived symbols */
/* A single symbol with coefficient 1: that symbol, else 0. */
qf_dim_symbol qf_dim_as_symbol(const qf_context *context, qf_dim dim);
/* A bound that holds for all values the facts allow; false where none is known. facts may be NULL. */
bool qf_dim_lower_bound(qf_context *context, const qf_symbol_facts *facts, qf_dim dim, int64_t *out_bound);
bool qf_dim_upper_bound(qf_context *context, const qf_symbol_facts *facts, qf_dim dim, int64_t *out_bound);
bool qf_dim_nonnegative(qf_context *context, const qf_symbol_facts *facts, qf_dim dim); /* provably >= 0 */

/* Replaces a symbol everywhere, also inside derived symbols. */
qf_dim qf_dim_substitute(qf_context *context, qf_dim dim, qf_dim_symbol symbol, qf_dim replacement);
/* `lookup` gives a named symbol's value. False on overflow, division by zero or a failed lookup. */
typedef bool (*qf_symbol_lookup)(void *user, qf_dim_symbol symbol, int64_t *out_value);
bool qf_dim_evaluate(const qf_context *context, qf_dim dim, qf_symbol_lookup lookup, void *user, int64_t *out_value);

/* The terms, for whoever serialises or analyses a dim: `coefficient * symbols[0] * symbols[1] ...`. A constant has no
 * symbols; 0 has no terms. The order of terms and of symbols in a term is fixed by name, so that text does not depend
 * on history. */
typedef struct qf_dim_term {
    int64_t coefficient;
    const qf_dim_symbol *symbols;
    uint32_t symbol_count;
} qf_dim_term;
uint32_t qf_dim_term_count(const qf_context *context, qf_dim dim);
qf_dim_term qf_dim_term_at(const qf_context *context, qf_dim dim, uint32_t index);
qf_symbol_kind qf_dim_symbol_kind(const qf_context *context, qf_dim_symbol symbol);
qf_string qf_dim_symbol_name(const qf_context *context, qf_dim_symbol symbol);                      /* named only */
void qf_dim_symbol_operands(const qf_context *context, qf_dim_symbol symbol, qf_dim *a, qf_dim *b); /* derived only */
qf_dim_symbol qf_dim_symbol_find(const qf_context *context, qf_text name); /* 0 when the name is not a symbol */

/* "2*B*T + 1", "floordiv(T, 2)", "min(T, 128)". */
void qf_dim_print(qf_buffer *buffer, const qf_context *context, qf_dim dim);
/* Reads what qf_dim_print writes from the start of *text and advances it. 0 when there is no dim there (nothing
 * recorded). Symbol names are [A-Za-z_][A-Za-z0-9_.]*; others are printed and read in double quotes. */
qf_dim qf_dim_parse(qf_context *context, qf_text *text);

#endif
