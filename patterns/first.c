/* Owns: choosing the first contraction, q k^T, and what the candidate takes from the scores.
 * Does not own: the search through the score chain (scores.c), masks (mask.c).
 * Next: roles.c. */
#include <string.h>

#include "patterns/candidate.h"

typedef struct first_contraction {
    uint32_t entry, count; /* count of contractions that are as much like q k^T as this one */
    uint32_t likeness;
    qf_traced q, k;
    qf_value q_operand, k_operand;
    qf_axes q_axes, k_axes;
    qf_axis depth, row_axis;
} first_contraction;

static bool holds(qf_labelling *labels, const qf_traced *operand, qf_axis keys, uint32_t *out_count) {
    qf_axis flat;
    *out_count = 0;
    if (!qf_labelling_flatten(labels, &operand->axes, &flat)) return false;
    for (uint32_t i = 0; i < keys.count; i++) *out_count += qf_labelling_contains(flat, keys.atoms[i]);
    return true;
}

/* Labels of the innermost result axis that only q's operand has. */
static qf_axis find_row_axis(const qf_contraction *contraction, const qf_letter_labels *letters, uint32_t q_side) {
    for (uint32_t i = contraction->result_rank; i-- > 0;) {
        uint32_t letter = contraction->result_letter[i];
        if (letters->axis[letter].count && qf_contraction_letter_in(contraction, q_side, letter) &&
            !qf_contraction_letter_in(contraction, 1 - q_side, letter))
            return letters->axis[letter];
    }
    return (qf_axis){0};
}

/* How much the contraction is like q k^T and not like the product of q with a table of positions, which is an addend of
 * the scores: such a table is a constant, or has the rows as labels, or lacks batch and heads, which V has. */
static bool judge_likeness(qf_candidate *c, const qf_axes *v_axes, first_contraction *first) {
    qf_labelling *labels = &c->labels;
    qf_axis q, k, v, depth, rows, shared;
    if (!qf_labelling_flatten(labels, &first->q.axes, &q) || !qf_labelling_flatten(labels, &first->k.axes, &k) ||
        !qf_labelling_flatten(labels, v_axes, &v) || !qf_labelling_resolve(labels, first->depth, &depth) ||
        !qf_labelling_filter(labels, k, v, true, &shared) || !qf_labelling_filter(labels, k, v, false, &rows) ||
        !qf_labelling_filter(labels, rows, depth, false, &rows) || !qf_labelling_filter(labels, rows, q, true, &rows))
        return false;
    bool constant = qf_is_constant_tree(labels->graph, first->k.packed.id ? first->k.packed : first->k.value);
    first->likeness = constant ? 0 : rows.count ? 1 : 2 + shared.count;
    return true;
}

/* The contraction qualifies where exactly one operand holds the keys. */
static bool try_first(qf_candidate *c, const qf_scores *scores, uint32_t entry, const qf_axes *v_axes,
                      first_contraction *out) {
    qf_labelling *labels = &c->labels;
    qf_contraction contraction;
    qf_axes operands[2];
    qf_letter_labels letters;
    qf_axis depth, keys;
    qf_traced traced[2];
    uint32_t count[2];
    if (!qf_contraction_read(labels->graph, qf_value_producer(labels->graph, scores->entries[entry].value),
                             &contraction) ||
        !qf_contraction_labels(labels, &contraction, &scores->entries[entry].axes, operands, &letters, &depth))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (!qf_trace_operand(labels, contraction.operand[i], &operands[i], true, false, &traced[i])) return false;
    if (!qf_labelling_resolve(labels, c->keys, &keys)) return false;
    for (uint32_t i = 0; i < 2; i++)
        if (!holds(labels, &traced[i], keys, &count[i])) return false;
    uint32_t k_side = count[0] ? 0 : 1;
    if (count[k_side] != keys.count || count[1 - k_side] != 0 || !keys.count) return false;
    first_contraction found = {.entry = entry,
                               .count = 1,
                               .q = traced[1 - k_side],
                               .k = traced[k_side],
                               .q_operand = contraction.operand[1 - k_side],
                               .q_axes = operands[1 - k_side],
                               .k_operand = contraction.operand[k_side],
                               .k_axes = operands[k_side],
                               .depth = depth,
                               .row_axis = find_row_axis(&contraction, &letters, 1 - k_side)};
    if (!judge_likeness(c, v_axes, &found)) return false;
    if (!out->count || found.likeness > out->likeness)
        *out = found;
    else if (found.likeness == out->likeness)
        out->count++;
    return true;
}

static bool miss_without_contraction(qf_candidate *c, const qf_scores *scores) {
    const qf_graph *graph = c->labels.graph;
    uint32_t contractions = 0;
    for (uint32_t i = 0; i < scores->count; i++) contractions += scores->entries[i].contraction;
    if (contractions)
        return qf_candidate_miss(c, QF_REASON_roles, c->probabilities.softmax,
                                 "no contraction under the softmax has the summed label on one side only");
    if (scores->dead_end.id && qf_node_op(graph, scores->dead_end) == QF_OP_opaque)
        return qf_candidate_miss(c, QF_REASON_unknown_op, scores->dead_end, NULL);
    if (scores->dead_end.id) return qf_candidate_miss(c, QF_REASON_score_op, scores->dead_end, NULL);
    return qf_candidate_miss(c, QF_REASON_roles, c->probabilities.softmax, "no contraction feeds the softmax");
}

/* Where exponentials or probabilities are set to zero by the mask of the scores: what is zero in the numerator and in
 * the denominator does not count, whatever its fill is. Zero in the probabilities alone, it was in the denominator,
 * where only a fill that masks is nothing. */
static bool erase_masked(qf_candidate *c, qf_score_form *form, bool *out_zeroes_rows) {
    qf_probabilities *p = &c->probabilities;
    uint32_t places[QF_MAX_SCORE_STEPS] = {0};
    for (uint32_t i = 0; i < p->zeroed_count; i++) {
        bool found = false;
        for (uint32_t k = 0; k < form->select_count; k++) {
            const struct qf_score_select *select = &form->selects[k];
            if (!qf_same_condition(&c->labels, &p->zeroed[i], select->condition, select->axes, select->score_if_true))
                continue;
            places[k] |= p->zeroed[i].place;
            found = true;
        }
        if (!found)
            return qf_candidate_miss(c, QF_REASON_roles, p->zeroed[i].node,
                                     "the probabilities are masked otherwise than the scores");
    }
    for (uint32_t k = 0; k < form->select_count; k++) {
        struct qf_score_select *select = &form->selects[k];
        bool sum = (places[k] & QF_ZEROED_SUM) != 0, result = (places[k] & QF_ZEROED_PROBABILITIES) != 0;
        select->erased = sum && places[k] != QF_ZEROED_SUM;
        select->zeroed = !sum && result;
        if (places[k] && !select->erased && !select->zeroed)
            return qf_candidate_miss(c, QF_REASON_roles, select->node,
                                     "the mask hides keys in numerator or denominator only");
        *out_zeroes_rows = *out_zeroes_rows || result;
    }
    return true;
}

/* No other mask hides what the zeroing one keeps. */
static bool zeroing_masks_only(const qf_candidate *c, const qf_score_form *form) {
    for (uint32_t i = 0; i < form->select_count; i++)
        if (!form->selects[i].erased && !form->selects[i].zeroed) return false;
    for (uint32_t i = 0; i < c->masks.entry_count; i++)
        if (c->masks.entries[i].masks && !c->masks.entries[i].select) return false;
    return true;
}

/* A shift that is not computed from the scores may be infinite: an addend like any other. */
static bool read_shift(qf_candidate *c, qf_score_form *form) {
    const qf_probabilities *p = &c->probabilities;
    if (!p->shift.id || qf_follows_path(c->labels.graph, &c->path, p->shift)) return true;
    bool added = !c->has_sinks && qf_scores_add_outermost(form, p->shift, &p->shift_axes, -1.0, p->softmax);
    return added || qf_candidate_miss(c, QF_REASON_score_op, p->softmax, "what is subtracted is not of the scores");
}

bool qf_candidate_read_scores(qf_candidate *c, const qf_axes *v_axes) {
    qf_labelling *labels = &c->labels;
    qf_scores scores;
    first_contraction first = {.count = 0};
    if (!qf_scores_search(labels, c->probabilities.logits, &c->probabilities.axes, &scores)) return false;
    for (uint32_t i = 0; i < scores.count; i++)
        if (scores.entries[i].contraction) (void)try_first(c, &scores, i, v_axes, &first);
    if (!first.count) return miss_without_contraction(c, &scores);
    qf_node product = qf_value_producer(labels->graph, scores.entries[first.entry].value);
    if (first.count > 1) return qf_candidate_miss(c, QF_REASON_second_contraction, product, NULL);
    if (qf_scores_reached_twice(&scores, first.entry))
        return qf_candidate_miss(c, QF_REASON_scores_used_twice, product, "the scores reach the softmax on two paths");
    c->q = first.q;
    c->k = first.k;
    c->k_operand = first.k_operand;
    c->k_axes = first.k_axes;
    c->depth = first.depth;
    c->row_axis = first.row_axis;
    if (!qf_labelling_flatten(labels, &scores.entries[first.entry].axes, &c->score_order)) return false;
    qf_scores_path(labels, &scores, first.entry, &c->path);
    qf_score_form *form = QF_ARENA_NEW(&labels->arena, qf_score_form, 1);
    if (!form) return false;
    qf_node blocker;
    bool zeroes_rows = false;
    qf_reason reason = qf_scores_normalise(labels, &scores, first.entry, form, &blocker);
    if (reason == QF_REASON_none) {
        if (!erase_masked(c, form, &zeroes_rows) || !read_shift(c, form)) return false;
        if (!c->has_sinks) qf_scores_drop_shifts(labels, &c->path, c->keys, form);
    }
    if (reason == QF_REASON_none) reason = qf_masks_add_form(labels, form, &c->masks, &blocker);
    if (reason != QF_REASON_none) return qf_candidate_miss(c, reason, blocker, NULL);
    if (c->has_sinks && c->masks.drops_number)
        return qf_candidate_miss(c, QF_REASON_score_op, c->probabilities.softmax,
                                 "a number shifts the scores, not the sink");
    c->zeroed_in_part = zeroes_rows && !c->probabilities.guarded && !zeroing_masks_only(c, form);
    c->probabilities.guarded = c->probabilities.guarded || zeroes_rows;
    c->scale = form->scale;
    c->softcap = form->softcap;
    c->scale_count = form->scale_count;
    if (c->scale_count && c->q.scale.id) /* q is multiplied by them, which an FP8 tensor cannot be */
        c->q = (qf_traced){.value = first.q_operand,
                           .axes = first.q_axes,
                           .multiplier = 1.0,
                           .scale_axis = -1,
                           .dtype = qf_value_dtype(labels->graph, first.q_operand)};
    memcpy(c->scales, form->scales, sizeof c->scales);
    c->score_pair = form->pair;
    c->score_pair_dtype = form->pair_dtype;
    return true;
}
