/* Owns: the score chain: what lies between the logits and the contractions that they are an elementwise function of.
 * Does not own: which of the contractions is q k^T (attention.c), masks (mask.h).
 * Next: scores.c. */
#ifndef QF_PATTERNS_SCORES_H
#define QF_PATTERNS_SCORES_H

#include "patterns/report.h"
#include "patterns/trace.h"

#define QF_MAX_SCORE_ENTRIES 192
#define QF_MAX_SCORE_STEPS   48
#define QF_MAX_SCORE_SCALES  4

typedef enum qf_score_step_kind {
    QF_SCORE_MULTIPLY, /* by number */
    QF_SCORE_ADD,      /* number * value */
    QF_SCORE_SELECT,   /* value (a condition) ? score : fill, or the other way round */
    QF_SCORE_TANH,
    QF_SCORE_FLOOR, /* not below number, which no score is but minus infinity */
    QF_SCORE_PAIR,  /* quantised and dequantised */
    QF_SCORE_SCALE  /* multiplied (number 1) or divided (number -1) by a tensor */
} qf_score_step_kind;

typedef struct qf_score_step {
    qf_score_step_kind kind;
    double number;
    qf_value value, fill;
    qf_axes axes, fill_axes;
    bool score_if_true;
    qf_dtype dtype; /* QF_SCORE_PAIR */
    qf_node node;
    const struct qf_score_step *outer; /* what is applied after this one */
} qf_score_step;

/* One value that the search reached. */
typedef struct qf_score_entry {
    qf_value value;
    qf_axes axes;
    const qf_score_step *step; /* the innermost step so far; NULL: none */
    uint32_t parent;           /* the entry it was reached from; itself for the logits */
    bool twice;                /* reached on two paths */
    bool contraction;
} qf_score_entry;

typedef struct qf_scores {
    qf_score_entry *entries; /* in the arena of the labels; entry 0 holds the logits */
    uint32_t count;
    qf_node dead_end; /* the first op that no step fits, 0: none */
} qf_scores;

/* Searches all contractions. False only when memory ran out. */
bool qf_scores_search(qf_labelling *labels, qf_value logits, const qf_axes *axes, qf_scores *out);
/* Whether the entry, or one on the way to it, was reached twice. */
bool qf_scores_reached_twice(const qf_scores *scores, uint32_t entry);
/* Adds the nodes from the logits down to the entry, that one's contraction included. */
void qf_scores_path(const qf_labelling *labels, const qf_scores *scores, uint32_t entry, qf_path *path);

/* The normal form softcap * tanh(scale / softcap * S) + sum of addends, selects outermost. Factors of addends and fills
 * include the multiplications applied after them. */
typedef struct qf_score_form {
    double scale, softcap;
    struct qf_score_addend {
        qf_value value;
        qf_axes axes;
        double factor;
        uint32_t depth; /* addends and selects further out have smaller ones */
        qf_node node;
    } addends[QF_MAX_SCORE_STEPS];
    struct qf_score_select {
        qf_value condition, fill; /* the condition may be a number, 0 or 1; fill 0: `number` */
        double number;
        qf_axes axes, fill_axes;
        bool score_if_true;
        bool erased;   /* the fill does not count: numerator and denominator are masked by the same condition */
        bool zeroed;   /* the probabilities are: a fill that masks is minus infinity */
        double factor; /* of the fill */
        uint32_t depth;
        qf_node node;
    } selects[QF_MAX_SCORE_STEPS];
    /* Tensors that multiply (or divide) the product itself, under every addend. */
    struct qf_score_scale {
        qf_value value;
        qf_axes axes;
        bool divides;
        qf_node node;
    } scales[QF_MAX_SCORE_SCALES];
    uint32_t addend_count, select_count, scale_count;
    /* Minus infinity at this depth and deeper is this number; 0: it is minus infinity. */
    double floor;
    uint32_t floor_depth;
    qf_node pair; /* the dequantise of a pair on the scores; 0: none */
    qf_dtype pair_dtype;
} qf_score_form;
/* QF_REASON_none, or why the steps do not fit; then *out_node is the step's node. */
qf_reason qf_scores_normalise(qf_labelling *labels, const qf_scores *scores, uint32_t entry, qf_score_form *out,
                              qf_node *out_node);
/* One more addend, over all others. */
bool qf_scores_add_outermost(qf_score_form *form, qf_value value, const qf_axes *axes, double factor, qf_node node);
/* Without the addends that shift all keys of a row alike, which a softmax does not see, and that are computed from the
 * scores (nodes of the path). Others may be infinite. */
void qf_scores_drop_shifts(qf_labelling *labels, const qf_path *path, qf_axis keys, qf_score_form *form);
/* Whether the value is computed from a node of the path. */
bool qf_follows_path(const qf_graph *graph, const qf_path *path, qf_value value);

#endif
