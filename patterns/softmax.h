/* Owns: recognising a softmax, as one op or as exponentials over their sum, and what stands between it and the
 * contraction. Does not own: the scores under it (scores.h). Next: softmax.c. */
#ifndef QF_PATTERNS_SOFTMAX_H
#define QF_PATTERNS_SOFTMAX_H

#include "patterns/trace.h"

typedef enum qf_zeroed_place {
    QF_ZEROED_EXPONENTIALS = 1, /* the numerator */
    QF_ZEROED_SUM = 2,          /* the denominator */
    QF_ZEROED_PROBABILITIES = 4 /* not a number, where the row has none, becomes zero as well */
} qf_zeroed_place;

/* where(condition, x, 0), or the sides exchanged, over exponentials or probabilities. */
typedef struct qf_zeroed {
    qf_value condition;
    qf_axes axes;
    bool keep_if_true;
    qf_zeroed_place place;
    qf_node node;
} qf_zeroed;
#define QF_MAX_ZEROED 6

typedef struct qf_probabilities {
    qf_value logits; /* what is exponentiated, before the maximum is subtracted */
    qf_axes axes;
    qf_value shift; /* what is subtracted from all of a row; 0: nothing */
    qf_axes shift_axes;
    qf_axis normalised;    /* summed in the denominator */
    double multiplier;     /* of the normalised result */
    bool guarded;          /* NaN rows become zero */
    bool unnormalised;     /* exponentials only: the caller looks for the division after the contraction */
    qf_value exponentials; /* unnormalised only, with their labels */
    qf_axes exponential_axes;
    qf_pair pair; /* dequantize 0: the probabilities are not quantised */
    /* The contraction reads the FP8 codes: `pair.dequantize` is their quantise, or the cast to FP8, and the result
     * lacks its scale. That is `pair.scale`, or (0) this number. */
    bool codes;
    double code_scale;
    /* A sink column joins the softmax and is cut off after it. */
    bool has_sink, sink_first;
    qf_axis extended, kept; /* labels of the axis with and without the column */
    /* exp(sink - shift) is a term of the denominator, where the exponentials are exp(scores - shift). */
    bool adds_sink;
    qf_value added_sink; /* 0: a sink of zero */
    qf_axes added_sink_axes;
    qf_zeroed zeroed[QF_MAX_ZEROED];
    uint32_t zeroed_count;
    qf_node softmax; /* for messages */
} qf_probabilities;

/* Whether layout, casts, pairs, guards and multiples lead from `value` to a softmax: no labels, no shapes.
 * `*out_blocker` is an opaque node on the way; `*out_certain` false where only an exponential was seen. Cheap; asked
 * for every contraction. */
bool qf_reaches_softmax(const qf_labelling *labels, qf_value value, bool *out_certain, qf_node *out_blocker);
/* Logits x - c, where c is the same along the normalised labels (as their maximum is), become x with shift c. */
void qf_strip_shift(qf_labelling *labels, qf_path *path, qf_probabilities *out);
/* Whether a select of the scores keeps where the zeroing keeps. */
bool qf_same_condition(qf_labelling *labels, const qf_zeroed *zeroed, qf_value condition, qf_axes axes,
                       bool keep_if_true);

typedef enum qf_softmax_result { QF_SOFTMAX_NONE, QF_SOFTMAX_FOUND, QF_SOFTMAX_PAIR_TWICE } qf_softmax_result;
qf_softmax_result qf_probabilities_read(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes,
                                        qf_probabilities *out);
/* result = numerator / sum of `exponentials` over `summed`, or times its reciprocal. Gives the numerator with its
 * labels. */
bool qf_division_by_sum(qf_labelling *labels, qf_path *path, qf_value result, const qf_axes *axes,
                        qf_value *out_numerator, qf_axes *out_numerator_axes, qf_value *out_sum, qf_axes *out_sum_axes);
/* Whether `sum` adds up `exponentials` over exactly the labels that become `out->normalised`, a sink perhaps with them.
 */
bool qf_is_sum_of(qf_labelling *labels, qf_path *path, qf_value sum, qf_axes sum_axes, qf_value exponentials,
                  qf_axes exponential_axes, qf_probabilities *out);

#endif
