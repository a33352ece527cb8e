/* Owns: the memoised search through the score chain and its normal form.
 * Does not own: what addends and selects mean (mask.c).
 * Next: condition.h. */
#include "patterns/blend.h"
#include "patterns/mask_value.h"

#include <math.h>

#define MAX_SHIFT_NODES 64 /* that make a shift of a row, and are not of the path */

typedef struct search {
    qf_labelling *labels;
    qf_scores *scores;
    bool failed;
} search;

static const qf_score_step *add_step(search *s, qf_score_step step, const qf_score_step *outer) {
    step.outer = outer;
    const qf_score_step *kept = qf_arena_copy(&s->labels->arena, &step, sizeof step);
    s->failed = s->failed || !kept;
    return kept;
}

/* A value reached before is not searched again; it only remembers that there are two paths. */
static void reach(search *s, uint32_t parent, qf_value value, const qf_axes *axes, const qf_score_step *step) {
    qf_scores *scores = s->scores;
    for (uint32_t i = 0; i < scores->count; i++) {
        if (scores->entries[i].value.id != value.id) continue;
        scores->entries[i].twice = true;
        return;
    }
    if (scores->count == QF_MAX_SCORE_ENTRIES) return;
    scores->entries[scores->count++] = (qf_score_entry){.value = value, .axes = *axes, .step = step, .parent = parent};
}

/* The axes of an operand that holds one number for each element of a result with these axes: it has the result's dims,
 * but for leading ones of extent 1, which broadcasting adds. */
static bool score_axes(const search *s, qf_value operand, qf_value result, const qf_axes *axes, qf_axes *out) {
    const qf_graph *graph = s->labels->graph;
    uint32_t own = qf_value_rank(graph, operand), rank = qf_value_rank(graph, result);
    if (rank == QF_UNRANKED || own > rank) return false;
    const qf_dim *dims = qf_value_dims(graph, result), *own_dims = qf_value_dims(graph, operand);
    for (uint32_t i = 0; i < rank; i++)
        if (i < rank - own ? !qf_dim_is(s->labels->context, dims[i], 1)
                           : !qf_dim_equal(own_dims[i - (rank - own)], dims[i]))
            return false;
    if (own == rank) {
        *out = *axes;
        return true;
    }
    return qf_labelling_broadcast_value(s->labels, operand, axes, out);
}

/* a + b, a - b, a * b, a / b: each side of full shape may hold the scores. */
static void reach_binary(search *s, uint32_t entry, qf_node node) {
    const qf_graph *graph = s->labels->graph;
    qf_score_entry from = s->scores->entries[entry];
    qf_op op = qf_node_op(graph, node);
    for (uint32_t side = 0; side < 2; side++) {
        qf_value score = qf_node_operand(graph, node, side), other = qf_node_operand(graph, node, 1 - side);
        qf_axes score_own, other_axes;
        if (!score_axes(s, score, from.value, &from.axes, &score_own) || (op == QF_OP_div && side == 1) ||
            !qf_labelling_broadcast_value(s->labels, other, &from.axes, &other_axes))
            continue;
        bool additive = op == QF_OP_add || op == QF_OP_sub;
        bool negative = additive ? op == QF_OP_sub && side == 0 : op == QF_OP_div;
        qf_score_step step = {.kind = additive ? QF_SCORE_ADD : QF_SCORE_SCALE,
                              .number = negative ? -1.0 : 1.0,
                              .value = other,
                              .axes = other_axes,
                              .node = node};
        const qf_score_step *outer = add_step(s, step, from.step);
        if (op == QF_OP_sub && side == 1)
            outer = add_step(s, (qf_score_step){.kind = QF_SCORE_MULTIPLY, .number = -1.0, .node = node}, outer);
        reach(s, entry, score, &score_own, outer);
    }
}

static void reach_select(search *s, uint32_t entry, qf_node node) {
    const qf_graph *graph = s->labels->graph;
    qf_score_entry from = s->scores->entries[entry];
    qf_value condition = qf_node_operand(graph, node, QF_IN(where, condition));
    for (uint32_t side = QF_IN(where, a); side <= QF_IN(where, b); side++) {
        qf_value score = qf_node_operand(graph, node, side);
        qf_score_step step = {
            .kind = QF_SCORE_SELECT,
            .value = condition,
            .fill = qf_node_operand(graph, node, side == QF_IN(where, a) ? QF_IN(where, b) : QF_IN(where, a)),
            .score_if_true = side == QF_IN(where, a),
            .node = node};
        qf_axes own;
        if (!score_axes(s, score, from.value, &from.axes, &own) ||
            !qf_labelling_broadcast_value(s->labels, condition, &from.axes, &step.axes) ||
            !qf_labelling_broadcast_value(s->labels, step.fill, &from.axes, &step.fill_axes))
            continue;
        reach(s, entry, score, &own, add_step(s, step, from.step));
    }
}

/* max(scores, the lowest finite number): a row of masks becomes one of equal scores. */
static bool reach_floor(search *s, uint32_t entry, qf_node node) {
    const qf_graph *graph = s->labels->graph;
    qf_score_entry from = s->scores->entries[entry];
    double lowest = -qf_dtype_largest(qf_value_dtype(graph, from.value));
    for (uint32_t side = 0; side < 2; side++) {
        qf_value score = qf_node_operand(graph, node, side);
        qf_score_step step = {.kind = QF_SCORE_FLOOR, .node = node};
        qf_axes own;
        if (!qf_scalar_number(s->labels, qf_node_operand(graph, node, 1 - side), &step.number) ||
            !(step.number <= 0.99 * lowest) || !score_axes(s, score, from.value, &from.axes, &own))
            continue;
        reach(s, entry, score, &own, add_step(s, step, from.step));
        return true;
    }
    return false;
}

static void note_dead_end(search *s, qf_node node) {
    if (!s->scores->dead_end.id) s->scores->dead_end = node;
}

static void expand_entry(search *s, uint32_t entry) {
    qf_labelling *labels = s->labels;
    const qf_graph *graph = labels->graph;
    qf_score_entry from = s->scores->entries[entry];
    qf_node node = qf_value_producer(graph, from.value);
    qf_value source;
    qf_axes next;
    qf_pair pair;
    double factor;
    bool widens;
    if (!node.id) return;
    switch (qf_node_op(graph, node)) {
    case QF_OP_contract:
    case QF_OP_matmul: s->scores->entries[entry].contraction = true; return;
    case QF_OP_tanh:
        reach(s, entry, qf_node_operand(graph, node, 0), &from.axes,
              add_step(s, (qf_score_step){.kind = QF_SCORE_TANH, .node = node}, from.step));
        return;
    case QF_OP_where: reach_select(s, entry, node); return;
    case QF_OP_maximum:
        if (!reach_floor(s, entry, node)) note_dead_end(s, node);
        return;
    case QF_OP_constant:
    case QF_OP_parameter:
    case QF_OP_full:
    case QF_OP_iota: return;
    default: break;
    }
    if (qf_pair_read(labels, NULL, from.value, &from.axes, &pair)) {
        if (!pair.quantize.id) return;
        qf_score_step step = {.kind = QF_SCORE_PAIR, .node = node, .dtype = pair.dtype};
        reach(s, entry, pair.source, &pair.axes, add_step(s, step, from.step));
    } else if (qf_labelling_through_layout(labels, from.value, &from.axes, &source, &next)) {
        reach(s, entry, source, &next, from.step);
    } else if (qf_is_float_cast(labels, from.value, &source, &widens)) {
        reach(s, entry, source, &from.axes, from.step);
    } else if (qf_scalar_multiple(labels, from.value, &source, &factor)) {
        qf_score_step step = {.kind = QF_SCORE_MULTIPLY, .number = factor, .node = node};
        reach(s, entry, source, &from.axes, add_step(s, step, from.step));
    } else {
        qf_op op = qf_node_op(graph, node);
        if (op == QF_OP_add || op == QF_OP_sub || op == QF_OP_mul || op == QF_OP_div)
            reach_binary(s, entry, node);
        else
            note_dead_end(s, node);
    }
}

bool qf_scores_search(qf_labelling *labels, qf_value logits, const qf_axes *axes, qf_scores *out) {
    *out = (qf_scores){.entries = QF_ARENA_NEW(&labels->arena, qf_score_entry, QF_MAX_SCORE_ENTRIES)};
    if (!out->entries) return false;
    search s = {.labels = labels, .scores = out};
    reach(&s, 0, logits, axes, NULL);
    for (uint32_t i = 0; i < out->count && !s.failed; i++) expand_entry(&s, i);
    return !s.failed && qf_context_status(labels->context) == QF_OK;
}

bool qf_scores_reached_twice(const qf_scores *scores, uint32_t entry) {
    for (;; entry = scores->entries[entry].parent) {
        if (scores->entries[entry].twice) return true;
        if (entry == 0) return false;
    }
}

void qf_scores_path(const qf_labelling *labels, const qf_scores *scores, uint32_t entry, qf_path *path) {
    const qf_graph *graph = labels->graph;
    for (;; entry = scores->entries[entry].parent) {
        qf_value value = scores->entries[entry].value;
        qf_node node = qf_value_producer(graph, value);
        qf_path_add(path, node);
        if (qf_node_op(graph, node) == QF_OP_dequantize) { /* layout and quantise of the pair */
            value = qf_node_operand(graph, node, 0);
            for (node = qf_value_producer(graph, value); node.id; node = qf_value_producer(graph, value)) {
                qf_path_add(path, node);
                if (!qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_LAYOUT)) break;
                value = qf_node_operand(graph, node, 0);
            }
        }
        if (entry == 0) return;
    }
}

/* --- the normal form --- */

typedef struct steps {
    const qf_score_step *items[QF_MAX_SCORE_STEPS]; /* outermost first */
    uint32_t count;
} steps;

static bool collect(const qf_score_step *innermost, steps *out) {
    out->count = 0;
    for (const qf_score_step *step = innermost; step; step = step->outer) {
        if (out->count == QF_MAX_SCORE_STEPS) return false;
        out->items[out->count++] = step;
    }
    for (uint32_t i = 0; i < out->count / 2; i++) {
        const qf_score_step *swap = out->items[i];
        out->items[i] = out->items[out->count - 1 - i];
        out->items[out->count - 1 - i] = swap;
    }
    return true;
}

static void add_addend(qf_score_form *form, const qf_score_step *step, double factor) {
    uint32_t depth = form->addend_count + form->select_count;
    struct qf_score_addend *addend = &form->addends[form->addend_count++];
    addend->depth = depth;
    addend->value = step->value;
    addend->axes = step->axes;
    addend->factor = step->number * factor;
    addend->node = step->node;
}

static void add_select(qf_score_form *form, const qf_score_step *step, double factor) {
    uint32_t depth = form->addend_count + form->select_count;
    struct qf_score_select *select = &form->selects[form->select_count++];
    select->depth = depth;
    select->condition = step->value;
    select->axes = step->axes;
    select->fill = step->fill;
    select->number = step->number;
    select->fill_axes = step->fill_axes;
    select->score_if_true = step->score_if_true;
    select->factor = factor;
    select->node = step->node;
}

/* No step from `first` inwards makes an infinity, which times zero would be no number. */
static bool inner_steps_are_finite(qf_labelling *labels, const steps *list, uint32_t first) {
    for (uint32_t i = first; i < list->count; i++) {
        const qf_score_step *step = list->items[i];
        qf_abstract value = {.kind = QF_ABSTRACT_UNKNOWN};
        if (step->kind == QF_SCORE_ADD) qf_mask_evaluate(labels, step->value, &step->axes, &value);
        if (step->kind == QF_SCORE_SELECT) qf_mask_evaluate(labels, step->fill, &step->fill_axes, &value);
        if ((value.kind == QF_ABSTRACT_NUMBER && !isfinite(value.number)) ||
            (value.kind == QF_ABSTRACT_SELECT && !(isfinite(value.a) && isfinite(value.b))))
            return false;
    }
    return true;
}

/* An addend over a factor of 0 and 1 that it belongs to becomes a select; the factor goes. Only numbers may stand
 * between. */
static bool join_blends(qf_labelling *labels, steps *list) {
    for (uint32_t i = 0; i + 1 < list->count; i++) {
        uint32_t k = i + 1;
        double fill;
        if (list->items[i]->kind != QF_SCORE_ADD) continue;
        while (k < list->count && list->items[k]->kind == QF_SCORE_MULTIPLY) k++;
        if (k == list->count || !qf_blend_read(labels, list->items[i], list->items[k], &fill) ||
            !inner_steps_are_finite(labels, list, k + 1))
            continue;
        qf_score_step *select = qf_arena_copy(&labels->arena, list->items[k], sizeof *select);
        if (!select) return false;
        select->kind = QF_SCORE_SELECT;
        select->score_if_true = true;
        select->fill = (qf_value){0};
        select->number = fill;
        list->items[i] = select;
        for (list->count--; k < list->count; k++) list->items[k] = list->items[k + 1];
    }
    return true;
}

qf_reason qf_scores_normalise(qf_labelling *labels, const qf_scores *scores, uint32_t entry, qf_score_form *out,
                              qf_node *out_node) {
    steps list;
    *out = (qf_score_form){.scale = 1.0};
    *out_node = (qf_node){0};
    if (!collect(scores->entries[entry].step, &list) || !join_blends(labels, &list)) return QF_REASON_score_op;
    double outer = 1.0, inner = 1.0;
    bool capped = false;
    for (uint32_t i = 0; i < list.count; i++) {
        const qf_score_step *step = list.items[i];
        *out_node = step->node;
        if (out->scale_count &&
            (step->kind == QF_SCORE_ADD || step->kind == QF_SCORE_SELECT || step->kind == QF_SCORE_TANH))
            return QF_REASON_score_op;
        switch (step->kind) {
        case QF_SCORE_MULTIPLY:
            if (capped)
                inner *= step->number;
            else
                outer *= step->number;
            break;
        case QF_SCORE_ADD:
            if (capped) return QF_REASON_bias_under_softcap;
            add_addend(out, step, outer);
            break;
        case QF_SCORE_SELECT:
            if (capped) return QF_REASON_bias_under_softcap;
            add_select(out, step, outer);
            break;
        case QF_SCORE_TANH:
            if (capped) return QF_REASON_score_op;
            capped = true;
            break;
        case QF_SCORE_FLOOR:
            if (capped || !isfinite(step->number * outer) || !(step->number * outer < 0.0)) return QF_REASON_score_op;
            if (out->floor == step->number * outer) break;
            if (out->floor != 0.0) return QF_REASON_score_op;
            out->floor = step->number * outer;
            out->floor_depth = out->addend_count + out->select_count;
            break;
        case QF_SCORE_PAIR:
            if (!out->pair.id) {
                out->pair = step->node;
                out->pair_dtype = step->dtype;
            }
            break;
        case QF_SCORE_SCALE:
            if (out->scale_count == QF_MAX_SCORE_SCALES) return QF_REASON_score_op;
            out->scales[out->scale_count++] = (struct qf_score_scale){
                .value = step->value, .axes = step->axes, .divides = step->number < 0.0, .node = step->node};
            break;
        }
    }
    *out_node = (qf_node){0};
    out->scale = outer * inner;
    out->softcap = capped ? fabs(outer) : 0.0;
    return QF_REASON_none;
}

bool qf_scores_add_outermost(qf_score_form *form, qf_value value, const qf_axes *axes, double factor, qf_node node) {
    if (form->addend_count == QF_MAX_SCORE_STEPS) return false;
    for (uint32_t i = 0; i < form->addend_count; i++) form->addends[i].depth++;
    for (uint32_t i = 0; i < form->select_count; i++) form->selects[i].depth++;
    form->floor_depth++;
    form->addends[form->addend_count++] =
        (struct qf_score_addend){.value = value, .axes = *axes, .factor = factor, .node = node};
    return true;
}

static bool follows(const qf_graph *graph, const qf_path *path, qf_value value, uint32_t *budget) {
    qf_node node = qf_value_producer(graph, value);
    if (!node.id || !*budget) return false;
    if (qf_path_has(path, node)) return true;
    --*budget;
    for (uint32_t i = 0; i < qf_node_at(graph, node)->operand_count; i++)
        if (follows(graph, path, qf_node_operand(graph, node, i), budget)) return true;
    return false;
}

bool qf_follows_path(const qf_graph *graph, const qf_path *path, qf_value value) {
    uint32_t budget = MAX_SHIFT_NODES;
    return follows(graph, path, value, &budget);
}

/* A fill under the addend is shifted as well, one over it is not. */
void qf_scores_drop_shifts(qf_labelling *labels, const qf_path *path, qf_axis keys, qf_score_form *form) {
    uint32_t first_select = UINT32_MAX, kept = 0;
    for (uint32_t i = 0; i < form->select_count; i++)
        if (form->selects[i].depth < first_select) first_select = form->selects[i].depth;
    for (uint32_t i = 0; i < form->addend_count; i++) {
        struct qf_score_addend *addend = &form->addends[i];
        bool shifts = addend->depth < first_select && qf_axes_lack(labels, &addend->axes, keys) &&
                      qf_follows_path(labels->graph, path, addend->value);
        if (!shifts) form->addends[kept++] = *addend;
    }
    form->addend_count = kept;
}
