/* Owns: einsum equations of two operands, as `contract` writes them: "bhtd,bhsd->bhts".
 * Does not own: what a contraction computes (spec/ops.def), roles of labels (patterns).
 * Next: equation.c. */
#ifndef QF_IR_EQUATION_H
#define QF_IR_EQUATION_H

#include "base/type.h"

/* The labels of one side, one letter (a-z, A-Z) an axis, each at most once. */
typedef struct qf_labels {
    char at[QF_MAX_RANK];
    uint32_t count;
} qf_labels;

typedef struct qf_equation {
    qf_labels a, b, result;
} qf_equation;

/* NULL, or what is wrong with the text (static storage): another form, a label twice on one side, more than QF_MAX_RANK
 * labels, a result label that neither operand has. */
const char *qf_equation_parse(qf_text text, qf_equation *out);
/* The axis that carries the label, or -1. */
int32_t qf_labels_axis(const qf_labels *labels, char label);
static inline bool qf_labels_has(const qf_labels *labels, char label) {
    return qf_labels_axis(labels, label) >= 0;
}

#endif
