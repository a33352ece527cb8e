/* Owns: recognising a softmax, as one op or as exponentials over their sum, and what stands between it and the
 * contraction. Does not own: the scores under it (scores.h). Next: softmax.c. */
#ifndef QF_PATTERNS_SOFTMAX_H
#define QF_PATTERNS_SOFTMAX_H

#include "patterns/trace.h"

typedef struct qf_probabilities {
    qf_value logits; /* what is exponentiated, before the maximum is subtracted */
    qf_axes axes;
    qf_axis normalised;    /* summed in the denominator */
    double multiplier;     /* of the normalised result */
    bool guarded;          /* NaN rows become zero */
    bool unnormalised;     /* exponentials only: the caller looks for the division after the contraction */
    qf_value exponentials; /* unnormalised only, with their labels */
    qf_axes exponential_axes;
    qf_pair pair; /* dequantize 0: the probabilities are not quantised */
    /* A sink column joins the softmax and is cut off after it. */
    bool has_sink, sink_first;
    qf_axis extended, kept; /* labels of the axis with and without the column */
    qf_node softmax;        /* for messages */
} qf_probabilities;

/* Whether layout, casts, pairs, guards and multiples lead from `value` to a softmax: no labels, no shapes.
 * `*out_blocker` is an opaque node on the way; `*out_certain` false where only an exponential was seen. Cheap; asked
 * for every contraction. */
bool qf_reaches_softmax(const qf_labelling *labels, qf_value value, bool *out_certain, qf_node *out_blocker);
/* x - max(x) over the normalised labels becomes x. */
void qf_strip_maximum(qf_labelling *labels, qf_path *path, qf_axis normalised, qf_value *logits, qf_axes *axes);

typedef enum qf_softmax_result { QF_SOFTMAX_NONE, QF_SOFTMAX_FOUND, QF_SOFTMAX_PAIR_TWICE } qf_softmax_result;
qf_softmax_result qf_probabilities_read(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes,
                                        qf_probabilities *out);
/* result = numerator / sum of `exponentials` over `summed`, or times its reciprocal. Gives the numerator with its
 * labels. */
bool qf_division_by_sum(qf_labelling *labels, qf_path *path, qf_value result, const qf_axes *axes,
                        qf_value *out_numerator, qf_axes *out_numerator_axes, qf_value *out_sum, qf_axes *out_sum_axes);
/* Whether `sum` adds up `exponentials` over exactly the labels of `missing`. */
bool qf_is_sum_of(qf_labelling *labels, qf_path *path, qf_value sum, qf_axes sum_axes, qf_value exponentials,
                  qf_axes exponential_axes, qf_axis *out_missing);

#endif
