/* Owns: integer forms that are affine in the indices of atoms, with dims as coefficients.
 * Does not own: atoms (labels.h), conditions over these forms (condition.h).
 * Next: affine.c. */
#ifndef QF_PATTERNS_AFFINE_H
#define QF_PATTERNS_AFFINE_H

#include "patterns/labels.h"

#define QF_MAX_AFFINE_TERMS 12

/* constant + sum of coefficient * index(atom), 0 <= index(atom) < extent. Terms are sorted by atom; none has
 * coefficient 0. */
typedef struct qf_affine {
    qf_dim constant;
    uint32_t count;
    struct qf_affine_term {
        qf_atom_id atom;
        qf_dim coefficient;
    } terms[QF_MAX_AFFINE_TERMS];
} qf_affine;

/* All return false when the result has no such form, or on failure. Outputs may alias inputs. */
bool qf_affine_constant(qf_labelling *labels, qf_dim constant, qf_affine *out);
bool qf_affine_integer(qf_labelling *labels, int64_t constant, qf_affine *out);
/* The position along an axis: its atoms as digits of a mixed-radix number. */
bool qf_affine_of_axis(qf_labelling *labels, qf_axis axis, qf_affine *out);
bool qf_affine_add(qf_labelling *labels, const qf_affine *a, const qf_affine *b, int64_t factor,
                   qf_affine *out); /* a + factor*b */
bool qf_affine_multiply(qf_labelling *labels, const qf_affine *a, const qf_affine *b, qf_affine *out);
/* Writes split and defined atoms in terms of free ones. */
bool qf_affine_resolve(qf_labelling *labels, const qf_affine *a, qf_affine *out);
bool qf_affine_nonnegative(qf_labelling *labels, const qf_affine *a); /* provably, for all indices */

#endif
