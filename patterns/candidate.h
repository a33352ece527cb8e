/* Owns: what is known of one attention while it is being recognised, and the interface between decision and rewrite.
 * Does not own: the entry points (attention.h).
 * Next: analyse.c, roles.c, build.c. */
#ifndef QF_PATTERNS_CANDIDATE_H
#define QF_PATTERNS_CANDIDATE_H

#include "patterns/arrange.h"
#include "patterns/contraction.h"
#include "patterns/mask.h"
#include "patterns/operand.h"
#include "patterns/report.h"
#include "patterns/softmax.h"

typedef struct qf_candidate {
    qf_labelling labels;
    qf_path path;    /* nodes that the rewrite replaces */
    qf_node node;    /* second contraction */
    qf_value result; /* the value that the attention replaces */
    qf_axes result_axes;
    qf_axis result_atoms; /* all of them */
    qf_value product;     /* result of the second contraction */
    qf_axes product_axes;
    qf_probabilities probabilities;
    qf_traced q, k, v;
    qf_value k_operand; /* of the first contraction */
    qf_axes k_axes;
    qf_axis depth;       /* summed by the first contraction */
    qf_axis keys;        /* summed by the second */
    qf_axis row_axis;    /* labels of the innermost axis of the scores that only q has */
    qf_axis score_order; /* labels of the scores in order */
    qf_roles roles;
    double scale, softcap;
    struct qf_score_scale scales[QF_MAX_SCORE_SCALES]; /* q is multiplied by them */
    uint32_t scale_count;
    qf_masks masks;
    qf_value sinks;
    qf_axes sink_axes;
    uint32_t sink_repeats; /* a bit an axis of `sinks` along which its elements are the same: only the first counts */
    bool has_sinks, dropped_score_pair;
    bool zeroed_in_part; /* rows are zeroed by one of several masks: not a number where another one hides the rest */
    qf_node score_pair;  /* the dequantise of a pair on the scores; 0: none */
    qf_dtype score_pair_dtype;
    qf_reason reason; /* QF_REASON_none: recognised */
    qf_node blocker;
    const char *detail; /* static storage */
    bool recognised;    /* all of attention's parts were found */
} qf_candidate;

typedef struct qf_second_contraction {
    qf_contraction contraction;
    uint32_t side; /* of the probabilities */
    bool certain;  /* a softmax was seen, not only exponentials */
    qf_axes operands[2];
} qf_second_contraction;

/* A pure node whose results nobody reads. */
bool qf_is_dead(const qf_graph *graph, qf_node node);
/* Whether the contraction, whose probabilities are on `side`, is an attention: fills the candidate. False with a
 * reason, or (reason none) where there is no softmax, or on failure. The candidate's labels were initialised before. */
bool qf_candidate_analyse(qf_candidate *candidate, qf_second_contraction *second, qf_numerics numerics);
/* Sets reason and blocker; returns false. The first one stays. */
bool qf_candidate_miss(qf_candidate *candidate, qf_reason reason, qf_node blocker, const char *detail);
/* q, k, scale, soft cap and masks from the logits; `v_axes`: labels of the second contraction's other operand. */
bool qf_candidate_read_scores(qf_candidate *candidate, const qf_axes *v_axes);
/* Roles from the labels of q, k, v, result and masks, and the masks' meaning. */
bool qf_candidate_assign_roles(qf_candidate *candidate);
/* Pairs with a scale for each KV head where the axis is not the KV heads: false. */
bool qf_candidate_scales_fit(qf_candidate *candidate);
/* Replaces the result by an attention node and erases what nobody reads any more. 0 on failure, or (no status recorded)
 * where a tensor on the way would have too many axes. */
qf_node qf_candidate_build(qf_candidate *candidate);

/* Bias and mask from the masks of the candidate, with labels `scores` ([B, H, T, S]); `*out` 0 where there is none.
 * False on failure. */
bool qf_build_bias(qf_candidate *candidate, qf_emitter *emitter, const qf_axes *scores, qf_value *out);
bool qf_build_mask(qf_candidate *candidate, qf_emitter *emitter, const qf_axes *scores, qf_value *out);

/* The operand that the attention reads, with labels `target`, and its scale (0: not FP8). The multiplier goes into the
 * scale where `multiply_scale`. 0 on failure. */
qf_value qf_build_operand(qf_emitter *emitter, const qf_traced *operand, const qf_axes *target, bool multiply_scale,
                          qf_value *out_scale);

#endif
