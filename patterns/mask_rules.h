/* Owns: what the rules of mask evaluation share: the state of one evaluation, results, the rules by family.
 * Does not own: the entry point (mask_value.h).
 * Next: mask_value.c (indices), mask_elementwise.c. */
#ifndef QF_PATTERNS_MASK_RULES_H
#define QF_PATTERNS_MASK_RULES_H

#include "patterns/mask_value.h"

typedef struct qf_mask_evaluation {
    qf_labelling *labels;
    uint32_t visits;
} qf_mask_evaluation;

void qf_mask_evaluate_at(qf_mask_evaluation *e, uint32_t depth, qf_value value, const qf_axes *axes, qf_abstract *out);
qf_dtype_kind qf_mask_kind(const qf_mask_evaluation *e, qf_value value);

/* Elementwise ops; false where the op is none of them. Kind UNKNOWN where the result has no form. */
bool qf_mask_elementwise(qf_mask_evaluation *e, uint32_t depth, qf_value value, qf_node node, const qf_axes *axes,
                         qf_abstract *out);
/* The number, where the value is the same everywhere. */
bool qf_abstract_number(const qf_mask_evaluation *e, const qf_abstract *value, double *out);

static inline void qf_abstract_set_unknown(qf_abstract *out) {
    out->kind = QF_ABSTRACT_UNKNOWN;
}

static inline void qf_abstract_set_number(qf_abstract *out, double number) {
    out->kind = QF_ABSTRACT_NUMBER;
    out->number = number;
}

static inline void qf_abstract_set_condition(qf_abstract *out, qf_condition condition) {
    out->kind = QF_ABSTRACT_CONDITION;
    out->condition = condition;
}

static inline void qf_abstract_set_select(qf_abstract *out, qf_condition condition, double a, double b) {
    bool value;
    if (qf_condition_is_constant(&condition, &value)) {
        qf_abstract_set_number(out, value ? a : b);
    } else if (a == b) {
        qf_abstract_set_number(out, a);
    } else {
        out->kind = QF_ABSTRACT_SELECT;
        out->condition = condition;
        out->a = a;
        out->b = b;
    }
}

#endif
