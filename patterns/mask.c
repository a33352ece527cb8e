/* Owns: evaluating the entries and deciding attribute, mask operand or bias operand for each.
 * Does not own: abstract values (mask_value.c).
 * Next: attention.h. */
#include "patterns/mask.h"

#include <math.h>

#define MAX_FLATTEN_DEPTH 6
#define SWALLOWING_FILL   (-1e30)

/* --- entries --- */

static bool append(qf_masks *masks, const qf_mask_entry *entry) {
    if (masks->entry_count == QF_MAX_MASK_TERMS) return false;
    masks->entries[masks->entry_count] = *entry;
    masks->entries[masks->entry_count++].depth = masks->depth;
    return true;
}

/* 0 where kept and a masking fill elsewhere, times the factor. */
static bool read_masking_addend(qf_labelling *labels, const qf_abstract *abstract, double factor,
                                qf_mask_entry *entry) {
    if (abstract->kind != QF_ABSTRACT_SELECT) return false;
    double a = abstract->a * factor, b = abstract->b * factor;
    entry->condition = abstract->condition;
    if (abstract->b == 0.0 && a <= QF_MASKING_FILL) {
        entry->condition = qf_condition_not(labels, abstract->condition);
        entry->fill = a;
    } else if (abstract->a == 0.0 && b <= QF_MASKING_FILL) {
        entry->fill = b;
    } else {
        return false;
    }
    return !entry->condition.negated;
}

typedef enum addend_kind { ADDEND_FAILED, ADDEND_PLAIN, ADDEND_MASK } addend_kind;

static addend_kind add_addend(qf_labelling *labels, qf_value value, const qf_axes *axes, double factor, uint32_t depth,
                              qf_masks *masks);

/* x + y as two addends, if one of them is a mask. */
static addend_kind flatten(qf_labelling *labels, qf_value value, const qf_axes *axes, double factor, uint32_t depth,
                           qf_masks *masks) {
    qf_value sum = value;
    qf_axes sum_axes = *axes;
    uint32_t before = masks->entry_count;
    if (depth == MAX_FLATTEN_DEPTH) return ADDEND_FAILED;
    qf_trace_root(labels, NULL, &sum, &sum_axes);
    qf_node node = qf_producer_of_op(labels->graph, sum, QF_OP_add);
    if (!node.id) return ADDEND_FAILED;
    addend_kind best = ADDEND_PLAIN;
    for (uint32_t side = 0; side < 2; side++) {
        qf_value operand = qf_node_operand(labels->graph, node, side);
        qf_axes operand_axes;
        addend_kind kind = ADDEND_FAILED;
        if (qf_labelling_broadcast_value(labels, operand, &sum_axes, &operand_axes))
            kind = add_addend(labels, operand, &operand_axes, factor, depth + 1, masks);
        if (kind == ADDEND_FAILED) {
            masks->entry_count = before;
            return ADDEND_FAILED;
        }
        if (kind == ADDEND_MASK) best = kind;
    }
    if (best != ADDEND_MASK) masks->entry_count = before;
    return best == ADDEND_MASK ? best : ADDEND_FAILED;
}

static addend_kind add_addend(qf_labelling *labels, qf_value value, const qf_axes *axes, double factor, uint32_t depth,
                              qf_masks *masks) {
    qf_abstract abstract;
    qf_mask_entry entry = {.value = value, .axes = *axes, .factor = factor, .keep_if_true = true};
    qf_mask_evaluate(labels, value, axes, &abstract);
    if (abstract.kind == QF_ABSTRACT_NUMBER && isfinite(abstract.number)) {
        masks->drops_number = masks->drops_number || abstract.number != 0.0;
        return ADDEND_MASK; /* shifts every score alike */
    }
    if (read_masking_addend(labels, &abstract, factor, &entry)) {
        entry.masks = true;
        return append(masks, &entry) ? ADDEND_MASK : ADDEND_FAILED;
    }
    addend_kind kind = flatten(labels, value, axes, factor, depth, masks);
    if (kind != ADDEND_FAILED) return kind;
    entry.finite = abstract.kind == QF_ABSTRACT_INTEGER ||
                   (abstract.kind == QF_ABSTRACT_SELECT && isfinite(abstract.a) && isfinite(abstract.b));
    return append(masks, &entry) ? ADDEND_PLAIN : ADDEND_FAILED;
}

bool qf_masks_add_addend(qf_labelling *labels, qf_value value, const qf_axes *axes, double factor, qf_masks *masks) {
    return add_addend(labels, value, axes, factor, 0, masks) != ADDEND_FAILED;
}

bool qf_masks_add_condition(qf_labelling *labels, qf_value condition, const qf_axes *axes, bool keep_if_true,
                            double fill, qf_masks *masks) {
    qf_abstract abstract;
    qf_mask_entry entry = {
        .select = true, .masks = true, .value = condition, .axes = *axes, .keep_if_true = keep_if_true, .fill = fill};
    qf_mask_evaluate(labels, condition, axes, &abstract);
    if (qf_abstract_is_binary(&abstract)) {
        abstract.kind = QF_ABSTRACT_CONDITION;
        if (abstract.a == 0.0) abstract.condition = qf_condition_not(labels, abstract.condition);
    }
    if (abstract.kind != QF_ABSTRACT_CONDITION) return false;
    entry.condition = keep_if_true ? abstract.condition : qf_condition_not(labels, abstract.condition);
    if (entry.condition.negated && !qf_condition_opaque(labels, condition, axes, !keep_if_true, &entry.condition))
        return false;
    return append(masks, &entry);
}

/* max(scores, floor): what hides a key leaves it the floor, so that a row without keys has equal scores. False where
 * the floor would have to be added to scores that it does not swallow: f16's. */
static bool apply_floor(const qf_score_form *form, qf_masks *masks) {
    for (uint32_t i = 0; form->floor != 0.0 && i < masks->entry_count; i++) {
        qf_mask_entry *entry = &masks->entries[i];
        if (entry->depth < form->floor_depth) continue;
        if (form->floor > QF_MASKING_FILL) return false; /* scaled down, it is a score like others */
        bool infinite = !entry->select && !entry->finite && !(entry->masks && isfinite(entry->fill));
        if (infinite && form->floor > SWALLOWING_FILL) return false;
        if (infinite) entry->floor = form->floor;
        if (entry->masks) entry->fill = fmax(entry->fill, form->floor);
    }
    return true;
}

qf_reason qf_masks_add_form(qf_labelling *labels, const qf_score_form *form, qf_masks *masks, qf_node *out_node) {
    for (uint32_t i = 0; i < form->select_count; i++) {
        const struct qf_score_select *select = &form->selects[i];
        qf_abstract fill;
        *out_node = select->node;
        masks->depth = select->depth;
        if (select->fill.id)
            qf_mask_evaluate(labels, select->fill, &select->fill_axes, &fill);
        else
            fill = (qf_abstract){.kind = QF_ABSTRACT_NUMBER, .number = select->number};
        double number = fill.number * select->factor;
        bool hides = fill.kind == QF_ABSTRACT_NUMBER && number <= QF_MASKING_FILL;
        if (!hides && !select->erased) return QF_REASON_fill_not_masking;
        if (select->erased || select->zeroed) number = -INFINITY;
        if (!qf_masks_add_condition(labels, select->condition, &select->axes, select->score_if_true, number, masks))
            return QF_REASON_score_op;
    }
    for (uint32_t i = 0; i < form->addend_count; i++) {
        const struct qf_score_addend *addend = &form->addends[i];
        *out_node = addend->node;
        masks->depth = addend->depth;
        if (!qf_masks_add_addend(labels, addend->value, &addend->axes, addend->factor, masks))
            return QF_REASON_score_op;
    }
    if (!apply_floor(form, masks)) return QF_REASON_score_op; /* at the last addend */
    *out_node = (qf_node){0};
    return QF_REASON_none;
}

/* Clauses in terms of free atoms only. The lists are rebuilt in the arena. */
static bool resolve_entries(qf_labelling *labels, qf_masks *masks) {
    for (uint32_t i = 0; i < masks->entry_count; i++) {
        qf_mask_entry *entry = &masks->entries[i];
        if (!entry->masks || !entry->condition.count) continue;
        qf_clause *clauses =
            qf_arena_copy(&labels->arena, entry->condition.clauses, entry->condition.count * sizeof *clauses);
        if (!clauses) return false;
        for (uint32_t c = 0; c < entry->condition.count; c++) {
            if (!qf_labelling_resolve_all(labels, &clauses[c].origin_axes)) return false;
            if (!clauses[c].opaque && !qf_affine_resolve(labels, &clauses[c].form, &clauses[c].form)) return false;
        }
        entry->condition.clauses = clauses;
    }
    return true;
}

bool qf_masks_constrained_atoms(qf_labelling *labels, qf_masks *masks, qf_axis *out) {
    *out = (qf_axis){0};
    if (!resolve_entries(labels, masks)) return false;
    for (uint32_t i = 0; i < masks->entry_count; i++) {
        const qf_condition *condition = &masks->entries[i].condition;
        for (uint32_t c = 0; masks->entries[i].masks && c < condition->count; c++) {
            const qf_clause *clause = &condition->clauses[c];
            for (uint32_t t = 0; !clause->opaque && t < clause->form.count; t++)
                if (!qf_labelling_contains(*out, clause->form.terms[t].atom) &&
                    !qf_labelling_append(labels, *out, (qf_axis){1, &clause->form.terms[t].atom}, out))
                    return false;
        }
    }
    return true;
}

/* --- positions --- */

typedef struct positions {
    qf_labelling *labels;
    const qf_roles *roles;
    qf_affine row, key;   /* indices along rows and keys */
    qf_affine aligned[2]; /* where a row stands among the keys: bottom_right, top_left */
    qf_dim rows, keys;
    bool keys_cover_rows; /* S >= T, provably */
} positions;

static bool prepare(qf_labelling *labels, const qf_roles *roles, positions *out) {
    *out = (positions){.labels = labels, .roles = roles};
    out->rows = qf_labelling_extent(labels, roles->rows);
    out->keys = qf_labelling_extent(labels, roles->keys);
    qf_dim offset = qf_dim_subtract(labels->context, out->keys, out->rows);
    qf_affine shift;
    qf_symbol_facts facts = qf_graph_facts(labels->graph);
    if (!qf_affine_of_axis(labels, roles->rows, &out->row) || !qf_affine_of_axis(labels, roles->keys, &out->key) ||
        !qf_affine_constant(labels, offset, &shift) || !qf_affine_add(labels, &out->row, &shift, 1, &out->aligned[0]))
        return false;
    out->aligned[1] = out->row;
    out->keys_cover_rows = qf_dim_nonnegative(labels->context, &facts, offset);
    return true;
}

/* The clause as `key <= position + limit` (right) or `key >= position - limit`, limit a number >= 0. */
static bool read_limit(const positions *p, const qf_affine *form, uint32_t align, bool *out_right, int64_t *out_limit) {
    qf_labelling *labels = p->labels;
    for (uint32_t side = 0; side < 2; side++) {
        int64_t sign = side == 0 ? 1 : -1;
        qf_affine rest;
        if (!qf_affine_add(labels, form, &p->aligned[align], -sign, &rest) ||
            !qf_affine_add(labels, &rest, &p->key, sign, &rest))
            return false;
        if (rest.count || !qf_dim_is_constant(labels->context, rest.constant, out_limit) || *out_limit < 0) continue;
        *out_right = side == 0;
        return true;
    }
    return false;
}

/* The clause holds for the key that `witness` names, in every row. */
static bool holds_at(const positions *p, const qf_affine *form, const qf_affine *witness) {
    qf_labelling *labels = p->labels;
    qf_affine at;
    if (!qf_affine_integer(labels, 0, &at)) return false;
    /* form = key part + rest; only a key part proportional to the key index can be replaced */
    for (int64_t factor = -1; factor <= 1; factor++) {
        qf_affine rest;
        if (!qf_affine_add(labels, form, &p->key, -factor, &rest)) return false;
        bool clean = true;
        for (uint32_t i = 0; i < rest.count; i++)
            clean = clean && !qf_labelling_contains(p->roles->keys, rest.terms[i].atom);
        if (!clean) continue;
        return qf_affine_add(labels, &rest, witness, factor, &at) && qf_affine_nonnegative(labels, &at);
    }
    return false;
}

static bool witness_key(const positions *p, uint32_t choice, qf_affine *out) {
    qf_labelling *labels = p->labels;
    switch (choice) {
    case 0: *out = p->aligned[0]; return p->keys_cover_rows;
    case 1: *out = p->aligned[1]; return p->keys_cover_rows;
    case 2: return qf_affine_integer(labels, 0, out);
    default: return qf_affine_constant(labels, qf_dim_add_constant(labels->context, p->keys, -1), out);
    }
}

static bool all_hold_at(const positions *p, const qf_masks *masks, const qf_affine *witness) {
    for (uint32_t i = 0; i < masks->entry_count; i++) {
        const qf_mask_entry *entry = &masks->entries[i];
        if (!entry->masks) {
            if (!entry->finite) return false;
            continue;
        }
        for (uint32_t c = 0; c < entry->condition.count; c++) {
            const qf_clause *clause = &entry->condition.clauses[c];
            if (clause->opaque || !holds_at(p, &clause->form, witness)) return false;
        }
    }
    return true;
}

/* Some key survives in every row, whatever the sizes: tried are the aligned positions, the first and the last key. */
static bool rows_keep_a_key(const positions *p, const qf_masks *masks) {
    if (masks->other_limits) return false;
    if (!masks->entry_count) return true;
    for (uint32_t choice = 0; choice < 4; choice++) {
        qf_affine witness;
        if (witness_key(p, choice, &witness) && all_hold_at(p, masks, &witness)) return true;
    }
    return false;
}

/* --- decisions --- */

static bool usable_labels(const qf_roles *roles, const qf_axes *axes) {
    for (uint32_t i = 0; i < axes->rank; i++)
        for (uint32_t a = 0; a < axes->axis[i].count; a++) {
            qf_atom_id atom = axes->axis[i].atoms[a];
            if (!qf_labelling_contains(roles->batch, atom) && !qf_labelling_contains(roles->kv_heads, atom) &&
                !qf_labelling_contains(roles->group, atom) && !qf_labelling_contains(roles->rows, atom) &&
                !qf_labelling_contains(roles->keys, atom))
                return false;
        }
    return true;
}

static bool add_term(qf_masks *masks, qf_value value, const qf_axes *axes, bool negated) {
    for (uint32_t i = 0; i < masks->term_count; i++)
        if (masks->terms[i].value.id == value.id && masks->terms[i].negated == negated) return true;
    if (masks->term_count == QF_MAX_MASK_TERMS) return false;
    masks->terms[masks->term_count++] = (qf_mask_term){value, *axes, negated};
    return true;
}

/* A select's finite fill replaces scores; added to them it must swallow them. Larger fills stay larger, equal ones
 * equal. (Beside an addend of the same size, -1e4 twice, a row that both hide entirely reads only what the addend
 * hides.) */
static void swallow_scores(qf_masks *masks) {
    double fills[QF_MAX_MASK_TERMS];
    for (uint32_t i = 0; i < masks->bias_count; i++) {
        uint32_t rank = 1;
        fills[i] = masks->biases[i].fill;
        if (!masks->biases[i].is_condition || fills[i] <= SWALLOWING_FILL) continue;
        for (uint32_t j = 0; j < masks->bias_count; j++)
            rank += masks->biases[j].is_condition && masks->biases[j].fill > masks->biases[i].fill;
        fills[i] = rank * SWALLOWING_FILL;
    }
    for (uint32_t i = 0; i < masks->bias_count; i++) masks->biases[i].fill = fills[i];
}

/* The entry as a finite addend, as the graph has it. */
static bool keep_as_bias(qf_labelling *labels, const qf_roles *roles, qf_mask_entry *entry, qf_masks *masks) {
    if (masks->bias_count == QF_MAX_MASK_TERMS || !qf_labelling_resolve_all(labels, &entry->axes) ||
        !usable_labels(roles, &entry->axes))
        return false;
    qf_bias_term *bias = &masks->biases[masks->bias_count++];
    *bias = (qf_bias_term){.value = entry->value,
                           .axes = entry->axes,
                           .factor = entry->factor,
                           .floor = entry->floor,
                           .depth = entry->depth};
    if (entry->select) {
        bias->is_condition = true;
        bias->keep_if_true = entry->keep_if_true;
        bias->fill = entry->fill;
    }
    return true;
}

static bool keep_as_operand(qf_labelling *labels, const qf_roles *roles, qf_mask_entry *entry, qf_masks *masks) {
    if (!entry->select) return keep_as_bias(labels, roles, entry, masks);
    return qf_labelling_resolve_all(labels, &entry->axes) && usable_labels(roles, &entry->axes) &&
           add_term(masks, entry->value, &entry->axes, !entry->keep_if_true);
}

/* Whether the clause says nothing, or is a limit in this alignment. */
static bool is_attribute(const positions *p, const qf_clause *clause, uint32_t align) {
    bool right;
    int64_t limit;
    return !clause->opaque &&
           (qf_affine_nonnegative(p->labels, &clause->form) || read_limit(p, &clause->form, align, &right, &limit));
}

static void set_limit(const positions *p, const qf_clause *clause, qf_masks *masks) {
    bool right;
    int64_t limit;
    if (qf_affine_nonnegative(p->labels, &clause->form)) return;
    if (!read_limit(p, &clause->form, masks->top_left, &right, &limit)) return;
    int64_t *window = right ? &masks->window_right : &masks->window_left;
    if (*window < 0 || limit < *window) *window = limit;
}

static bool is_soft(const qf_mask_entry *entry) {
    return entry->masks && isfinite(entry->fill);
}

/* An infinite mask under a select with a finite fill: what both hide has the finite one. */
static bool is_overruled(const qf_masks *masks, const qf_mask_entry *entry) {
    for (uint32_t i = 0; i < masks->entry_count; i++) {
        const qf_mask_entry *other = &masks->entries[i];
        if (other->select && is_soft(other) && other->depth < entry->depth) return true;
    }
    return false;
}

/* The alignment in which more clauses are limits; bottom_right where it does not matter. */
static bool choose_top_left(const positions *p, const qf_masks *masks, bool soft_may_mask) {
    uint32_t count[2] = {0, 0};
    for (uint32_t i = 0; i < masks->entry_count; i++) {
        const qf_mask_entry *entry = &masks->entries[i];
        if (!entry->masks || (is_soft(entry) && !soft_may_mask)) continue;
        for (uint32_t c = 0; c < entry->condition.count; c++)
            for (uint32_t align = 0; align < 2; align++)
                count[align] += is_attribute(p, &entry->condition.clauses[c], align);
    }
    return count[1] > count[0];
}

static bool place_entry(const positions *p, bool positional, qf_mask_entry *entry, qf_masks *masks) {
    qf_labelling *labels = p->labels;
    bool needs_operand = false, origins = true;
    for (uint32_t c = 0; c < entry->condition.count; c++) {
        const qf_clause *clause = &entry->condition.clauses[c];
        if (positional ? is_attribute(p, clause, masks->top_left)
                       : !clause->opaque && qf_affine_nonnegative(labels, &clause->form))
            continue;
        needs_operand = true;
        origins = origins && clause->origin.id && usable_labels(p->roles, &clause->origin_axes);
    }
    if (needs_operand && !origins && !keep_as_operand(labels, p->roles, entry, masks)) return false;
    for (uint32_t c = 0; c < entry->condition.count; c++) {
        const qf_clause *clause = &entry->condition.clauses[c];
        if (positional && is_attribute(p, clause, masks->top_left)) {
            set_limit(p, clause, masks);
        } else if (origins && !(!clause->opaque && qf_affine_nonnegative(labels, &clause->form)) &&
                   !add_term(masks, clause->origin, &clause->origin_axes, clause->origin_negated)) {
            return false;
        }
    }
    return true;
}

static bool says_nothing(qf_labelling *labels, const qf_mask_entry *entry) {
    for (uint32_t c = 0; c < entry->condition.count; c++) {
        const qf_clause *clause = &entry->condition.clauses[c];
        if (clause->opaque || !qf_affine_nonnegative(labels, &clause->form)) return false;
    }
    return entry->masks;
}

qf_reason qf_masks_classify(qf_labelling *labels, const qf_roles *roles, bool positional, qf_masks *masks) {
    positions p;
    masks->window_left = masks->window_right = -1;
    if (!resolve_entries(labels, masks) || !prepare(labels, roles, &p)) return QF_REASON_score_op;
    for (uint32_t i = 0; i < masks->entry_count; i++)
        if (masks->entries[i].masks && masks->entries[i].condition.never) return QF_REASON_mask_hides_everything;
    masks->rows_keep_a_key = rows_keep_a_key(&p, masks);
    masks->top_left = positional && choose_top_left(&p, masks, masks->rows_keep_a_key);
    for (uint32_t i = 0; i < masks->entry_count; i++) {
        qf_mask_entry *entry = &masks->entries[i];
        if (says_nothing(labels, entry)) continue;
        bool as_bias = !entry->masks || (!masks->rows_keep_a_key && (is_soft(entry) || is_overruled(masks, entry)));
        if (as_bias ? !keep_as_bias(labels, roles, entry, masks) : !place_entry(&p, positional, entry, masks))
            return QF_REASON_score_op;
    }
    swallow_scores(masks);
    masks->causal = masks->window_right == 0;
    if (masks->causal) masks->window_right = -1;
    return QF_REASON_none;
}
