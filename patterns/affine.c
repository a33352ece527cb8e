/* Owns: sums, products and bounds of affine forms.
 * Does not own: where the forms come from (mask_value.c).
 * Next: condition.h. */
#include "patterns/affine.h"

bool qf_affine_constant(qf_labelling *labels, qf_dim constant, qf_affine *out) {
    (void)labels;
    out->constant = constant;
    out->count = 0;
    return constant.id != 0;
}

bool qf_affine_integer(qf_labelling *labels, int64_t constant, qf_affine *out) {
    return qf_affine_constant(labels, qf_dim_constant(labels->context, constant), out);
}

static bool add_term(qf_labelling *labels, qf_affine *form, qf_atom_id atom, qf_dim coefficient) {
    if (!coefficient.id) return false;
    uint32_t at = 0;
    while (at < form->count && form->terms[at].atom < atom) at++;
    if (at < form->count && form->terms[at].atom == atom) {
        qf_dim sum = qf_dim_add(labels->context, form->terms[at].coefficient, coefficient);
        if (!sum.id) return false;
        form->terms[at].coefficient = sum;
        if (!qf_dim_is(labels->context, sum, 0)) return true;
        for (uint32_t i = at + 1; i < form->count; i++) form->terms[i - 1] = form->terms[i];
        form->count--;
        return true;
    }
    if (qf_dim_is(labels->context, coefficient, 0)) return true;
    if (form->count == QF_MAX_AFFINE_TERMS) return false;
    for (uint32_t i = form->count; i > at; i--) form->terms[i] = form->terms[i - 1];
    form->terms[at].atom = atom;
    form->terms[at].coefficient = coefficient;
    form->count++;
    return true;
}

bool qf_affine_of_axis(qf_labelling *labels, qf_axis axis, qf_affine *out) {
    qf_axis resolved;
    if (!qf_labelling_resolve(labels, axis, &resolved) || !qf_affine_integer(labels, 0, out)) return false;
    qf_dim stride = qf_dim_constant(labels->context, 1);
    for (uint32_t i = resolved.count; i-- > 0;) {
        if (!add_term(labels, out, resolved.atoms[i], stride)) return false;
        stride = qf_dim_multiply(labels->context, stride, labels->atoms[resolved.atoms[i]].extent);
    }
    return true;
}

/* into += factor * form */
static bool accumulate(qf_labelling *labels, qf_affine *into, const qf_affine *form, qf_dim factor) {
    qf_dim scaled = qf_dim_multiply(labels->context, form->constant, factor);
    into->constant = qf_dim_add(labels->context, into->constant, scaled);
    for (uint32_t i = 0; i < form->count; i++)
        if (!add_term(labels, into, form->terms[i].atom,
                      qf_dim_multiply(labels->context, form->terms[i].coefficient, factor)))
            return false;
    return into->constant.id != 0;
}

bool qf_affine_add(qf_labelling *labels, const qf_affine *a, const qf_affine *b, int64_t factor, qf_affine *out) {
    qf_affine sum = *a;
    if (!accumulate(labels, &sum, b, qf_dim_constant(labels->context, factor))) return false;
    *out = sum;
    return true;
}

bool qf_affine_multiply(qf_labelling *labels, const qf_affine *a, const qf_affine *b, qf_affine *out) {
    if (a->count && b->count) return false;
    const qf_affine *form = a->count ? a : b, *factor = a->count ? b : a;
    qf_affine product;
    if (!qf_affine_integer(labels, 0, &product) || !accumulate(labels, &product, form, factor->constant)) return false;
    *out = product;
    return true;
}

bool qf_affine_resolve(qf_labelling *labels, const qf_affine *a, qf_affine *out) {
    qf_affine current = *a;
    for (uint32_t round = 0; round < QF_MAX_AFFINE_TERMS; round++) {
        bool changed = false;
        qf_affine next;
        if (!qf_affine_constant(labels, current.constant, &next)) return false;
        for (uint32_t i = 0; i < current.count; i++) {
            qf_atom_id atom = current.terms[i].atom;
            qf_dim coefficient = current.terms[i].coefficient;
            qf_affine replacement;
            if (labels->atoms[atom].definition) {
                replacement = *labels->atoms[atom].definition;
            } else if (labels->atoms[atom].outer) {
                if (!qf_affine_of_axis(labels, (qf_axis){1, &atom}, &replacement)) return false;
            } else {
                if (!add_term(labels, &next, atom, coefficient)) return false;
                continue;
            }
            changed = true;
            if (!accumulate(labels, &next, &replacement, coefficient)) return false;
        }
        current = next;
        if (!changed) {
            *out = current;
            return true;
        }
    }
    return false;
}

/* The smallest value over all indices, as a dim; false where the sign of a coefficient is not known. */
static bool smallest(qf_labelling *labels, const qf_affine *a, qf_dim *out) {
    qf_symbol_facts facts = qf_graph_facts(labels->graph);
    qf_dim minimum = a->constant;
    for (uint32_t i = 0; i < a->count; i++) {
        qf_dim coefficient = a->terms[i].coefficient;
        if (qf_dim_nonnegative(labels->context, &facts, coefficient)) continue;
        qf_dim opposite = qf_dim_subtract(labels->context, qf_dim_constant(labels->context, 0), coefficient);
        if (!opposite.id || !qf_dim_nonnegative(labels->context, &facts, opposite)) return false;
        qf_dim last = qf_dim_add_constant(labels->context, labels->atoms[a->terms[i].atom].extent, -1);
        minimum = qf_dim_add(labels->context, minimum, qf_dim_multiply(labels->context, coefficient, last));
    }
    *out = minimum;
    return minimum.id != 0;
}

bool qf_affine_nonnegative(qf_labelling *labels, const qf_affine *a) {
    qf_symbol_facts facts = qf_graph_facts(labels->graph);
    qf_dim minimum;
    return smallest(labels, a, &minimum) && qf_dim_nonnegative(labels->context, &facts, minimum);
}
