/* Owns: building, negating and joining conditions.
 * Does not own: affine forms (affine.c).
 * Next: mask_value.h. */
#include "patterns/condition.h"

#include <string.h>

qf_condition qf_condition_constant(bool value) {
    return (qf_condition){.never = !value};
}

bool qf_condition_is_constant(const qf_condition *condition, bool *out_value) {
    if (condition->never) {
        *out_value = false;
        return true;
    }
    *out_value = !condition->negated;
    return condition->count == 0;
}

static bool single(qf_labelling *labels, const qf_clause *clause, qf_condition *out) {
    *out = (qf_condition){.clauses = qf_arena_copy(&labels->arena, clause, sizeof *clause), .count = 1};
    return out->clauses != NULL;
}

bool qf_condition_affine(qf_labelling *labels, const qf_affine *form, qf_value origin, const qf_axes *axes,
                         qf_condition *out) {
    int64_t number;
    if (!form->count && qf_dim_is_constant(labels->context, form->constant, &number)) {
        *out = qf_condition_constant(number >= 0);
        return true;
    }
    qf_clause clause = {.form = *form, .origin = origin};
    if (axes) clause.origin_axes = *axes;
    return single(labels, &clause, out);
}

bool qf_condition_opaque(qf_labelling *labels, qf_value origin, const qf_axes *axes, bool negated, qf_condition *out) {
    qf_clause clause = {.opaque = true, .origin = origin, .origin_axes = *axes, .origin_negated = negated};
    return single(labels, &clause, out);
}

qf_condition qf_condition_not(qf_labelling *labels, qf_condition condition) {
    bool value;
    if (qf_condition_is_constant(&condition, &value)) return qf_condition_constant(!value);
    if (condition.negated || condition.count != 1) {
        condition.negated = !condition.negated;
        return condition;
    }
    qf_clause clause = condition.clauses[0];
    clause.origin_negated = !clause.origin_negated;
    if (!clause.opaque) { /* not (p >= 0) is -p - 1 >= 0 */
        qf_affine minus_one;
        if (!qf_affine_integer(labels, -1, &minus_one) ||
            !qf_affine_add(labels, &minus_one, &clause.form, -1, &clause.form)) {
            condition.negated = true;
            return condition;
        }
    }
    qf_condition result;
    if (single(labels, &clause, &result)) return result;
    condition.negated = true;
    return condition;
}

static bool clause_equal(qf_labelling *labels, const qf_clause *a, const qf_clause *b) {
    qf_affine difference;
    if (a->opaque != b->opaque) return false;
    if (a->opaque) {
        qf_axes x = a->origin_axes, y = b->origin_axes;
        return a->origin.id == b->origin.id && a->origin_negated == b->origin_negated &&
               qf_labelling_axes_equal(labels, &x, &y);
    }
    return qf_affine_add(labels, &a->form, &b->form, -1, &difference) &&
           qf_affine_resolve(labels, &difference, &difference) && !difference.count &&
           qf_dim_is(labels->context, difference.constant, 0);
}

/* Each clause of a is one of b. */
static bool clauses_in(qf_labelling *labels, const qf_condition *a, const qf_condition *b) {
    for (uint32_t i = 0; i < a->count; i++) {
        bool found = false;
        for (uint32_t k = 0; k < b->count && !found; k++) found = clause_equal(labels, &a->clauses[i], &b->clauses[k]);
        if (!found) return false;
    }
    return true;
}

bool qf_condition_equal(qf_labelling *labels, const qf_condition *a, const qf_condition *b) {
    return a->never == b->never && a->negated == b->negated && clauses_in(labels, a, b) && clauses_in(labels, b, a);
}

bool qf_condition_and(qf_labelling *labels, const qf_condition *a, const qf_condition *b, qf_condition *out) {
    if (a->negated || b->negated) return false;
    if (a->never || b->never) {
        *out = qf_condition_constant(false);
        return true;
    }
    qf_clause *clauses = QF_ARENA_NEW(&labels->arena, qf_clause, (uint64_t)a->count + b->count);
    if (!clauses) return false;
    if (a->count) memcpy(clauses, a->clauses, a->count * sizeof *clauses);
    if (b->count) memcpy(clauses + a->count, b->clauses, b->count * sizeof *clauses);
    *out = (qf_condition){.clauses = clauses, .count = a->count + b->count};
    return true;
}
