/* Owns: what the addends and selects of a score chain mean: causal, windows, mask operands, bias operands.
 * Does not own: their evaluation (mask_value.h), building the operands (build.c).
 * Next: mask.c. */
#ifndef QF_PATTERNS_MASK_H
#define QF_PATTERNS_MASK_H

#include "patterns/mask_value.h"
#include "patterns/scores.h"

#define QF_MAX_MASK_TERMS 24

/* Fills at or below this are meant as minus infinity; whether they may be read so depends on the rows (mask.c). */
#define QF_MASKING_FILL (-9984.0) /* -1e4 in bf16 */

/* The dimension roles of an attention, each a resolved list of atoms. */
typedef struct qf_roles {
    qf_axis batch, kv_heads, group, rows, keys, depth, value_depth;
} qf_roles;

/* One addend or select. */
typedef struct qf_mask_entry {
    bool select;            /* else an addend */
    bool masks;             /* condition ? score : fill is known */
    qf_condition condition; /* true: the key is kept */
    double fill;
    /* The entry as the graph has it. */
    qf_value value; /* the addend, or the select's condition */
    qf_axes axes;
    double factor;     /* of an addend */
    bool keep_if_true; /* select */
    bool finite;       /* an addend without infinities, provably */
    double floor;      /* of an addend: not below it; 0: none */
    uint32_t depth;    /* what stands further out has a smaller one */
} qf_mask_entry;

typedef struct qf_mask_term {
    qf_value value; /* true or not 0 (negated: false or 0) keeps the key */
    qf_axes axes;
    bool negated;
} qf_mask_term;

typedef struct qf_bias_term {
    qf_value value; /* float, or a condition: 0 where the key is kept, else fill */
    qf_axes axes;
    double factor;
    bool is_condition, keep_if_true;
    double fill, floor; /* the value times the factor is not below the floor; 0: none */
    uint32_t depth;
} qf_bias_term;

typedef struct qf_masks {
    qf_mask_entry entries[QF_MAX_MASK_TERMS];
    uint32_t entry_count;
    uint32_t depth;    /* of entries that are added now */
    bool other_limits; /* keys are hidden by what is no entry: a length, a causal attribute */
    bool drops_number; /* all scores are shifted by a number, which no entry says */
    /* results of qf_masks_classify */
    bool causal, top_left;
    int64_t window_left, window_right; /* -1: none */
    qf_mask_term terms[QF_MAX_MASK_TERMS];
    uint32_t term_count;
    qf_bias_term biases[QF_MAX_MASK_TERMS];
    uint32_t bias_count;
    bool rows_keep_a_key; /* provably, for every row */
} qf_masks;

/* Each adds entries. A reason and node where an addend or select cannot be one. */
qf_reason qf_masks_add_form(qf_labelling *labels, const qf_score_form *form, qf_masks *masks, qf_node *out_node);
bool qf_masks_add_addend(qf_labelling *labels, qf_value value, const qf_axes *axes, double factor, qf_masks *masks);
bool qf_masks_add_condition(qf_labelling *labels, qf_value condition, const qf_axes *axes, bool keep_if_true,
                            double fill, qf_masks *masks);
/* Atoms that index constraints mention. */
bool qf_masks_constrained_atoms(qf_labelling *labels, qf_masks *masks, qf_axis *out);
/* Decides what becomes an attribute. `positional` false: positions are not comparable with indices (lengths per
 * sequence), so no condition becomes one. */
qf_reason qf_masks_classify(qf_labelling *labels, const qf_roles *roles, bool positional, qf_masks *masks);

#endif
