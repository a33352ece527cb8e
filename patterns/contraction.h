/* Owns: contractions of two operands (contract, matmul) as letters for each axis, and how labels pass through them.
 * Does not own: the text of equations (ir/equation.h).
 * Next: contraction.c. */
#ifndef QF_PATTERNS_CONTRACTION_H
#define QF_PATTERNS_CONTRACTION_H

#include "patterns/labels.h"

#define QF_MAX_LETTERS (2 * QF_MAX_RANK)

typedef struct qf_contraction {
    qf_node node;
    qf_value operand[2], result;
    uint32_t rank[2], result_rank, letter_count;
    uint8_t letter[2][QF_MAX_RANK], result_letter[QF_MAX_RANK]; /* numbers below letter_count */
} qf_contraction;

/* What a letter of a contraction means. */
typedef struct qf_letter_labels {
    qf_axis axis[QF_MAX_LETTERS];
} qf_letter_labels;

/* False for other ops, for a letter twice in one operand, and where ranks are unknown or do not fit the equation. */
bool qf_contraction_read(const qf_graph *graph, qf_node node, qf_contraction *out);
bool qf_contraction_letter_in(const qf_contraction *contraction, uint32_t operand, uint32_t letter);

/* Labels of both operands from those of the result; summed letters get fresh atoms, which `*out_summed` lists. */
bool qf_contraction_labels(qf_labelling *labels, const qf_contraction *contraction, const qf_axes *result,
                           qf_axes out_operands[2], qf_letter_labels *out_letters, qf_axis *out_summed);

#endif
