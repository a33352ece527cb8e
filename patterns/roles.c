/* Owns: which labels are batch, KV heads, groups, rows, keys, depth and value depth.
 * Does not own: how the labels were found (attention.c).
 * Next: build.c. */
#include "patterns/candidate.h"

bool qf_candidate_miss(qf_candidate *candidate, qf_reason reason, qf_node blocker, const char *detail) {
    if (candidate->reason != QF_REASON_none) return false;
    candidate->reason = reason;
    candidate->blocker = blocker;
    candidate->detail = detail;
    return false;
}

typedef struct sides {
    qf_axis q, k, v;
} sides;

static uint32_t membership(const sides *s, qf_atom_id atom) {
    return (qf_labelling_contains(s->q, atom) ? 1u : 0u) | (qf_labelling_contains(s->k, atom) ? 2u : 0u) |
           (qf_labelling_contains(s->v, atom) ? 4u : 0u);
}

static bool all_in(qf_axis list, qf_axis set) {
    for (uint32_t i = 0; i < list.count; i++)
        if (!qf_labelling_contains(set, list.atoms[i])) return false;
    return true;
}

static bool none_in(qf_axis list, qf_axis set) {
    for (uint32_t i = 0; i < list.count; i++)
        if (qf_labelling_contains(set, list.atoms[i])) return false;
    return true;
}

static bool append(qf_candidate *c, qf_axis *list, qf_atom_id atom) {
    return qf_labelling_append(&c->labels, *list, (qf_axis){1, &atom}, list);
}

/* Every label that an operand has must be one of the result, the keys or the depth. */
static bool nothing_else(const qf_candidate *c, qf_axis list) {
    for (uint32_t i = 0; i < list.count; i++)
        if (!qf_labelling_contains(c->result_atoms, list.atoms[i]) && !qf_labelling_contains(c->keys, list.atoms[i]) &&
            !qf_labelling_contains(c->depth, list.atoms[i]))
            return false;
    return true;
}

/* The batch labels in the order of the result; the first axis of the result is the batch, the others are KV heads. In
 * the merged form [batch * heads, rows, depth] the outermost label is the batch, unless sinks differ along it. */
static bool split_batch(qf_candidate *c, qf_axis batch) {
    c->roles.batch = c->roles.kv_heads = (qf_axis){0};
    const qf_axes *axes = &c->result_axes;
    qf_axis sinks = {0};
    if (c->has_sinks && !qf_labelling_flatten(&c->labels, &c->sink_axes, &sinks)) return false;
    bool merged = axes->rank < 4, first = true;
    for (uint32_t axis = 0; axis < axes->rank; axis++)
        for (uint32_t i = 0; i < axes->axis[axis].count; i++) {
            qf_atom_id atom = axes->axis[axis].atoms[i];
            if (!qf_labelling_contains(batch, atom)) continue;
            bool is_batch = axis == 0 && (!merged || (first && (axes->axis[0].count > 1 || c->roles.group.count)));
            if (merged && axis == 0 && batch.count == 1) is_batch = true;
            if (merged && qf_labelling_contains(sinks, atom)) is_batch = false;
            first = false;
            if (!append(c, is_batch ? &c->roles.batch : &c->roles.kv_heads, atom)) return false;
        }
    return true;
}

/* Of the rows: the labels that index constraints mention, else the row axis of the first contraction; the rest is
 * groups. */
static bool split_rows(qf_candidate *c, qf_axis rows) {
    qf_labelling *labels = &c->labels;
    qf_axis constrained, chosen;
    if (!qf_masks_constrained_atoms(labels, &c->masks, &constrained) ||
        !qf_labelling_filter(labels, c->score_order, rows, true, &rows) ||
        !qf_labelling_filter(labels, rows, constrained, true, &chosen))
        return false;
    if (!chosen.count && !qf_labelling_filter(labels, rows, c->row_axis, true, &chosen)) return false;
    c->roles.rows = chosen;
    return qf_labelling_filter(labels, rows, chosen, false, &c->roles.group);
}

static bool resolve(qf_candidate *c, sides *out) {
    qf_labelling *labels = &c->labels;
    return qf_labelling_resolve_all(labels, &c->result_axes) &&
           qf_labelling_flatten(labels, &c->result_axes, &c->result_atoms) &&
           qf_labelling_resolve(labels, c->keys, &c->keys) && qf_labelling_resolve(labels, c->depth, &c->depth) &&
           qf_labelling_resolve(labels, c->row_axis, &c->row_axis) &&
           qf_labelling_resolve(labels, c->score_order, &c->score_order) &&
           qf_labelling_resolve_all(labels, &c->q.axes) && qf_labelling_resolve_all(labels, &c->k.axes) &&
           qf_labelling_resolve_all(labels, &c->v.axes) && qf_labelling_resolve_all(labels, &c->sink_axes) &&
           qf_labelling_flatten(labels, &c->q.axes, &out->q) && qf_labelling_flatten(labels, &c->k.axes, &out->k) &&
           qf_labelling_flatten(labels, &c->v.axes, &out->v);
}

static bool roles_fit(qf_candidate *c, const sides *s) {
    return all_in(c->keys, s->k) && none_in(c->keys, s->q) && all_in(c->keys, s->v) && all_in(c->depth, s->q) &&
           all_in(c->depth, s->k) && none_in(c->depth, s->v) && nothing_else(c, s->q) && nothing_else(c, s->k) &&
           nothing_else(c, s->v);
}

static bool place_labels(qf_candidate *c, const sides *s, qf_axis *batch, qf_axis *rows) {
    enum { IN_Q = 1, IN_V = 4 };
    *batch = *rows = (qf_axis){0};
    for (uint32_t i = 0; i < c->result_atoms.count; i++) {
        qf_atom_id atom = c->result_atoms.atoms[i];
        uint32_t in = membership(s, atom);
        qf_axis *list = in == IN_Q ? rows : in == IN_V ? &c->roles.value_depth : batch;
        if (!in || !append(c, list, atom)) return false;
    }
    return true;
}

bool qf_candidate_assign_roles(qf_candidate *c) {
    sides s;
    qf_axis batch, rows;
    /* Evaluating masks may split atoms, so constraints are looked at before the lists are resolved for good. */
    if (!qf_masks_constrained_atoms(&c->labels, &c->masks, &rows) || !resolve(c, &s)) return false;
    c->roles = (qf_roles){.keys = c->keys, .depth = c->depth};
    if (!roles_fit(c, &s) || !place_labels(c, &s, &batch, &rows) || !split_rows(c, rows) || !split_batch(c, batch))
        return qf_candidate_miss(c, QF_REASON_roles, c->node, "q, k and v do not share labels as attention's do");
    return true;
}

bool qf_candidate_scales_fit(qf_candidate *c) {
    const qf_traced *operands[3] = {&c->q, &c->k, &c->v};
    for (uint32_t i = 0; i < 3; i++) {
        const qf_traced *operand = operands[i];
        if (operand->scale_axis < 0) continue;
        if ((uint32_t)operand->scale_axis >= operand->axes.rank ||
            !qf_labelling_equal(operand->axes.axis[operand->scale_axis], c->roles.kv_heads))
            return false;
    }
    return true;
}
