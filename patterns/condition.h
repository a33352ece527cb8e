/* Owns: conditions over indices of atoms (conjunctions of affine inequalities and opaque boolean values), and the
 * abstract value of a mask expression. Does not own: evaluation of graph ops to these (mask_value.h), what a mask means
 * for an attention (mask.h). Next: condition.c. */
#ifndef QF_PATTERNS_CONDITION_H
#define QF_PATTERNS_CONDITION_H

#include "patterns/affine.h"

/* form >= 0, or (opaque) nothing but its origin. The origin is a value of the graph, boolean or of zeros and ones,
 * that implies the clause and is implied by the condition that the clause stands in; value 0: there is none. */
typedef struct qf_clause {
    bool opaque;
    qf_affine form;
    qf_value origin;
    qf_axes origin_axes;
    bool origin_negated;
} qf_clause;

/* All clauses hold; `negated`: not all of them do. No clauses: always true. `never`: always false. */
typedef struct qf_condition {
    const qf_clause *clauses;
    uint32_t count;
    bool never, negated;
} qf_condition;

typedef enum qf_abstract_kind {
    QF_ABSTRACT_UNKNOWN,
    QF_ABSTRACT_INTEGER,
    QF_ABSTRACT_NUMBER,
    QF_ABSTRACT_CONDITION,
    QF_ABSTRACT_SELECT /* condition ? a : b */
} qf_abstract_kind;

typedef struct qf_abstract {
    qf_abstract_kind kind;
    qf_affine integer;
    double number, a, b;
    qf_condition condition;
} qf_abstract;

/* 1 or 0 by its condition. */
static inline bool qf_abstract_is_binary(const qf_abstract *value) {
    return value->kind == QF_ABSTRACT_SELECT &&
           ((value->a == 1.0 && value->b == 0.0) || (value->a == 0.0 && value->b == 1.0));
}

qf_condition qf_condition_constant(bool value);
bool qf_condition_is_constant(const qf_condition *condition, bool *out_value);
/* form >= 0 with this origin. */
bool qf_condition_affine(qf_labelling *labels, const qf_affine *form, qf_value origin, const qf_axes *axes,
                         qf_condition *out);
bool qf_condition_opaque(qf_labelling *labels, qf_value origin, const qf_axes *axes, bool negated, qf_condition *out);
qf_condition qf_condition_not(qf_labelling *labels, qf_condition condition);
/* Built from the same clauses; false where that is not known. */
bool qf_condition_equal(qf_labelling *labels, const qf_condition *a, const qf_condition *b);
/* False when a side is a negated conjunction, which has no such form. */
bool qf_condition_and(qf_labelling *labels, const qf_condition *a, const qf_condition *b, qf_condition *out);

#endif
