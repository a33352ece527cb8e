/* Owns: cutting an attention by rows, where its result is cut into parts that are quantised by unlike scales.
 * Does not own: parts with one quantise for all (parts.c).
 * Next: docs/decisions/0013-attention-in-parts.md. */
#include <string.h>

#include "patterns/arrange.h"
#include "patterns/parts.h"
#include "patterns/predicates.h"

#define OPERANDS  QF_IN(attention, end_)
#define MAX_PARTS 16
#define MAX_NODES 64 /* layout between the attention and its parts */
#define MAX_STEPS 32 /* layout between a part and its quantise */

/* One result of a slice or split, rows [start, end) of the attention. */
typedef struct part {
    qf_value value;
    uint32_t axis; /* of value: the rows */
    qf_dim start, end;
    bool top_left; /* the alignment in which causal and windows stay right */
    /* Labels of what is cut, and of the attention's result. */
    qf_axes axes, result_axes;
} part;

typedef struct cutting {
    qf_graph *graph;
    qf_context *context;
    qf_labelling labels;
    qf_node attention;
    qf_value result;
    uint32_t row_axis; /* of q and of the result */
    qf_dim rows, keys;
    qf_node passed[MAX_NODES]; /* layout, slices and splits, each behind what it reads */
    uint32_t passed_count;
    part parts[MAX_PARTS];
    uint32_t count;
    qf_node quantize; /* of the first part */
} cutting;

/* --- what can be cut --- */

static int64_t integer(const cutting *c, uint32_t attribute) {
    return qf_node_attribute(c->graph, c->attention, attribute)->integer;
}

static qf_value operand(const cutting *c, uint32_t index) {
    return qf_node_operand(c->graph, c->attention, index);
}

static bool start(qf_graph *graph, qf_node attention, cutting *out) {
    *out = (cutting){.graph = graph, .context = graph->context, .attention = attention};
    if (qf_node_op(graph, attention) != QF_OP_attention || qf_node_at(graph, attention)->result_count != 1)
        return false;
    qf_value q = operand(out, QF_IN(attention, q)), k = operand(out, QF_IN(attention, k));
    bool by_head = integer(out, QF_ATTR(attention, layout)) == QF_VALUE_bhsd;
    if (qf_value_rank(graph, q) != 4 || qf_value_rank(graph, k) != 4 || operand(out, QF_IN(attention, q_start)).id)
        return false;
    out->result = qf_node_result(graph, attention, 0);
    out->row_axis = by_head ? 2 : 1;
    out->rows = qf_value_dims(graph, q)[out->row_axis];
    out->keys = qf_value_dims(graph, k)[out->row_axis];
    return true;
}

/* A tensor that broadcasts to the scores: whether it has rows to cut (*out), or none. False where that is unknown. */
static bool rows_of_scores(const cutting *c, qf_value value, bool *out) {
    uint32_t rank = qf_value_rank(c->graph, value);
    *out = false;
    if (rank == QF_UNRANKED) return false;
    if (rank < 2) return true;
    qf_dim dim = qf_value_dims(c->graph, value)[rank - 2];
    *out = qf_dim_equal(dim, c->rows);
    return *out || qf_dim_is(c->context, dim, 1);
}

static bool operands_can_be_cut(const cutting *c) {
    bool has_rows;
    qf_value bias = operand(c, QF_IN(attention, bias)), mask = operand(c, QF_IN(attention, mask));
    return (!bias.id || rows_of_scores(c, bias, &has_rows)) && (!mask.id || rows_of_scores(c, mask, &has_rows));
}

/* Rows stand at t (top_left) or at t + keys - rows. From the first row on the former stays true, up to the last row the
 * latter; without lengths both are one where there are as many rows as keys. */
static bool choose_alignment(const cutting *c, part *p) {
    bool limits = integer(c, QF_ATTR(attention, causal)) || integer(c, QF_ATTR(attention, window_left)) >= 0 ||
                  integer(c, QF_ATTR(attention, window_right)) >= 0;
    bool same = qf_dim_equal(c->rows, c->keys) && !operand(c, QF_IN(attention, kv_lens)).id;
    p->top_left = integer(c, QF_ATTR(attention, align)) == QF_VALUE_top_left;
    if (!limits) return true;
    bool top = (p->top_left || same) && qf_dim_is(c->context, p->start, 0);
    bool bottom = (!p->top_left || same) && qf_dim_equal(p->end, c->rows);
    p->top_left = top;
    return top || bottom;
}

/* --- the parts --- */

/* Labels of what the node cuts, carried back to the attention's result: the cut axis is the rows. */
static bool cuts_rows(cutting *c, qf_value source, part *p) {
    qf_labelling *labels = &c->labels;
    uint32_t rank = qf_value_rank(c->graph, source);
    if (rank == QF_UNRANKED || !qf_labelling_of_dims(labels, qf_value_dims(c->graph, source), rank, &p->axes))
        return false;
    qf_axes at = p->axes;
    while (source.id != c->result.id) {
        qf_axes next;
        if (!qf_labelling_through_layout(labels, source, &at, &source, &next)) return false;
        at = next;
    }
    p->result_axes = at;
    return qf_labelling_resolve_all(labels, &p->axes) && qf_labelling_resolve_all(labels, &p->result_axes) &&
           p->axes.axis[p->axis].count > 0 &&
           qf_labelling_equal(p->axes.axis[p->axis], p->result_axes.axis[c->row_axis]);
}

/* The one axis along which a slice with steps of one is shorter than what it reads. */
static bool read_slice(const cutting *c, qf_node node, part *p) {
    qf_value source = qf_node_operand(c->graph, node, 0);
    const qf_attribute *starts = qf_node_attribute(c->graph, node, QF_ATTR(slice, starts));
    const qf_attribute *ends = qf_node_attribute(c->graph, node, QF_ATTR(slice, ends));
    const qf_attribute *steps = qf_node_attribute(c->graph, node, QF_ATTR(slice, steps));
    uint32_t found = 0;
    p->value = qf_node_result(c->graph, node, 0);
    for (uint32_t i = 0; i < starts->count; i++) {
        if (steps->ints[i] != 1) return false;
        if (qf_dim_equal(qf_value_dims(c->graph, source)[i], qf_value_dims(c->graph, p->value)[i])) continue;
        p->axis = i;
        found++;
    }
    p->start = starts->dims[p->axis];
    p->end = ends->dims[p->axis];
    return found == 1;
}

/* From a part to a quantise that attention can do, read by nobody else on the way. f32 may be narrowed once, as
 * attention itself does it. */
static qf_node quantise_of(const cutting *c, qf_value value) {
    bool narrowed = false;
    for (uint32_t step = 0; step < MAX_STEPS && qf_value_at(c->graph, value)->use_count == 1; step++) {
        const qf_use *use = qf_value_at(c->graph, value)->first_use;
        qf_output_quantise found;
        qf_dtype dtype = qf_value_dtype(c->graph, value);
        if (qf_node_op(c->graph, use->user) == QF_OP_quantize)
            return qf_use_index(c->graph, use) == QF_IN(quantize, x) &&
                           qf_output_quantise_read(c->graph, use->user, &found)
                       ? use->user
                       : (qf_node){0};
        value = qf_node_result(c->graph, use->user, 0);
        qf_dtype to = qf_value_dtype(c->graph, value);
        bool narrows = qf_node_op(c->graph, use->user) == QF_OP_cast && dtype == QF_F32 && !narrowed &&
                       (to == QF_F16 || to == QF_BF16);
        if (!narrows && !qf_op_is_replayable(qf_node_op(c->graph, use->user))) break;
        narrowed = narrowed || narrows;
    }
    return (qf_node){0};
}

static bool add_part(cutting *c, qf_node node, part p) {
    if (!qf_value_at(c->graph, p.value)->use_count) return true;
    qf_node quantize = quantise_of(c, p.value);
    if (!quantize.id || c->count == MAX_PARTS || !cuts_rows(c, qf_node_operand(c->graph, node, 0), &p) ||
        !choose_alignment(c, &p))
        return false;
    if (!c->count) c->quantize = quantize;
    c->parts[c->count++] = p;
    return true;
}

static bool add_split(cutting *c, qf_node node) {
    const qf_attribute *sizes = qf_node_attribute(c->graph, node, QF_ATTR(split, sizes));
    part p = {.axis = (uint32_t)qf_node_attribute(c->graph, node, QF_ATTR(split, axis))->integer,
              .end = qf_dim_constant(c->context, 0)};
    for (uint32_t i = 0; i < sizes->count; i++) {
        p.value = qf_node_result(c->graph, node, i);
        p.start = p.end;
        p.end = qf_dim_add(c->context, p.end, sizes->dims[i]);
        if (!add_part(c, node, p)) return false;
    }
    return true;
}

static bool moves_all(const cutting *c, qf_node node) {
    qf_op op = qf_node_op(c->graph, node);
    return op == QF_OP_view || op == QF_OP_permute || op == QF_OP_expand || op == QF_OP_copy;
}

static bool add_reader(cutting *c, qf_node node) {
    part p = {.axis = 0};
    for (uint32_t i = 0; i < c->passed_count; i++)
        if (c->passed[i].id == node.id) return true;
    if (c->passed_count == MAX_NODES) return false;
    c->passed[c->passed_count++] = node;
    if (moves_all(c, node)) return true;
    if (qf_node_op(c->graph, node) == QF_OP_split) return add_split(c, node);
    return qf_node_op(c->graph, node) == QF_OP_slice && read_slice(c, node, &p) && add_part(c, node, p);
}

/* Everything that reads the attention's result is layout, up to parts of its rows. */
static bool find_parts(cutting *c) {
    QF_FOR_EACH_USE(c->graph, c->result, use) if (!add_reader(c, use->user)) return false;
    for (uint32_t i = 0; i < c->passed_count; i++) {
        if (!moves_all(c, c->passed[i])) continue;
        qf_value value = qf_node_result(c->graph, c->passed[i], 0);
        QF_FOR_EACH_USE(c->graph, value, use) if (!add_reader(c, use->user)) return false;
    }
    return c->count > 1;
}

/* Part a ends before part b starts: as parts of one split, or provably. */
static bool stands_before(const cutting *c, const part *a, const part *b) {
    qf_symbol_facts facts = qf_graph_facts(c->graph);
    qf_node node = qf_value_producer(c->graph, a->value);
    if (node.id == qf_value_producer(c->graph, b->value).id)
        return qf_value_at(c->graph, a->value)->result_index < qf_value_at(c->graph, b->value)->result_index;
    return qf_dim_nonnegative(c->context, &facts, qf_dim_subtract(c->context, b->start, a->end));
}

/* Directly, or with others between: no part ends before it starts. */
static bool parts_are_disjoint(const cutting *c) {
    bool before[MAX_PARTS][MAX_PARTS];
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t j = 0; j < c->count; j++) before[i][j] = i != j && stands_before(c, &c->parts[i], &c->parts[j]);
    for (uint32_t k = 0; k < c->count; k++)
        for (uint32_t i = 0; i < c->count; i++)
            for (uint32_t j = 0; j < c->count; j++) before[i][j] = before[i][j] || (before[i][k] && before[k][j]);
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (!before[i][j] && !before[j][i]) return false;
    return true;
}

/* --- the rewrite --- */

static void copy_attention(const cutting *c, qf_value *operands, qf_attribute *attributes) {
    for (uint32_t i = 0; i < OPERANDS; i++) operands[i] = operand(c, i);
    memcpy(attributes, qf_node_at(c->graph, c->attention)->attributes,
           qf_op_info_of(QF_OP_attention)->attribute_count * sizeof *attributes);
}

/* Whether the target has a kernel for the attention with a quantised result. False on failure as well. */
static bool target_can(const cutting *c, const qf_rules_options *options) {
    char reason[256];
    qf_value operands[OPERANDS];
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_output_quantise wanted;
    if (!options->supports) return true;
    if (!qf_output_quantise_read(c->graph, c->quantize, &wanted)) return false;
    copy_attention(c, operands, attributes);
    operands[QF_IN(attention, out_scale)] = wanted.scale;
    attributes[QF_ATTR(attention, out)].integer = wanted.dtype;
    attributes[QF_ATTR(attention, out_mode)].integer = wanted.mode;
    attributes[QF_ATTR(attention, out_compute)].integer = wanted.compute;
    qf_type type = qf_type_with_dtype(c->context, qf_value_type(c->graph, c->result), wanted.dtype);
    qf_emitter emitter = {
        .graph = c->graph, .before = c->quantize, .location = qf_node_at(c->graph, c->attention)->location};
    qf_node probe = qf_emit_node(&emitter, QF_OP_attention, operands, OPERANDS, attributes, type, 0);
    if (!probe.id) return false;
    bool supported = options->supports(options->supports_user, c->graph, probe, reason, sizeof reason);
    qf_graph_erase(c->graph, probe);
    return supported;
}

/* The node again, over another source whose dims the results follow. */
static qf_value emit_on(qf_emitter *emitter, qf_node node, qf_value source) {
    qf_graph *graph = emitter->graph;
    qf_value operands[4];
    uint32_t count = qf_node_at(graph, node)->operand_count;
    if (!source.id || count > QF_COUNT_OF(operands)) return (qf_value){0};
    for (uint32_t i = 0; i < count; i++) operands[i] = i ? qf_node_operand(graph, node, i) : source;
    qf_node_spec spec = {.op = qf_node_op(graph, node),
                         .operands = operands,
                         .operand_count = count,
                         .attributes = qf_node_at(graph, node)->attributes,
                         .location = emitter->location};
    qf_node made = qf_graph_insert(graph, emitter->before, &spec);
    return made.id ? qf_node_result(graph, made, 0) : (qf_value){0};
}

/* What was concatenated as these rows, through permutes, casts and quantises of whole tensors: then nothing needs to be
 * cut. 0 where there is no such. */
static qf_value rows_before_concat(qf_emitter *emitter, const part *p, uint32_t axis, qf_value value, uint32_t steps) {
    qf_graph *graph = emitter->graph;
    qf_node node = qf_value_producer(graph, value);
    qf_output_quantise quantise;
    switch (qf_node_op(graph, node)) {
    case QF_OP_concat: {
        qf_dim start = qf_dim_constant(graph->context, 0);
        if ((uint32_t)qf_node_attribute(graph, node, QF_ATTR(concat, axis))->integer != axis) break;
        for (uint32_t i = 0; i < qf_node_at(graph, node)->operand_count; i++) {
            qf_value piece = qf_node_operand(graph, node, i);
            qf_dim end = qf_dim_add(graph->context, start, qf_value_dims(graph, piece)[axis]);
            if (qf_dim_equal(start, p->start) && qf_dim_equal(end, p->end)) return piece;
            start = end;
        }
        break;
    }
    case QF_OP_permute:
        axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(permute, order))->ints[axis];
        if (!steps) break;
        return emit_on(emitter, node, rows_before_concat(emitter, p, axis, qf_node_operand(graph, node, 0), steps - 1));
    case QF_OP_quantize:
    case QF_OP_cast:
        if (!steps || (qf_node_op(graph, node) == QF_OP_quantize && !qf_output_quantise_read(graph, node, &quantise)))
            break;
        return emit_on(emitter, node, rows_before_concat(emitter, p, axis, qf_node_operand(graph, node, 0), steps - 1));
    default: break;
    }
    return (qf_value){0};
}

static bool cut_query(qf_emitter *emitter, const part *p, uint32_t axis, qf_value *value) {
    qf_value rows = rows_before_concat(emitter, p, axis, *value, MAX_STEPS);
    if (!rows.id) rows = qf_emit_slice(emitter, *value, axis, p->start, p->end);
    *value = rows;
    return rows.id != 0;
}

static bool cut_operand(qf_emitter *emitter, const part *p, uint32_t axis, qf_value *value) {
    *value = qf_emit_slice(emitter, *value, axis, p->start, p->end);
    return value->id != 0;
}

static bool cut_scores_operand(const cutting *c, qf_emitter *emitter, const part *p, qf_value *value) {
    bool has_rows;
    if (!value->id || !rows_of_scores(c, *value, &has_rows) || !has_rows) return true;
    return cut_operand(emitter, p, qf_value_rank(c->graph, *value) - 2, value);
}

/* The attention of the part's rows, and in place of the part its result with the layout that stood between. */
static qf_node build_part(cutting *c, const part *p, qf_string rule, uint64_t tag) {
    qf_graph *graph = c->graph;
    qf_node node = qf_value_producer(graph, p->value);
    qf_location places[] = {qf_node_at(graph, c->attention)->location, qf_node_at(graph, node)->location};
    qf_emitter emitter = {.graph = graph, .labels = &c->labels, .before = node};
    emitter.location = qf_location_fuse(graph, rule, places, QF_COUNT_OF(places));
    qf_value operands[OPERANDS];
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_axis rows;
    qf_axes from = p->result_axes, to = p->axes;
    qf_dim dims[4], count = qf_dim_subtract(c->context, p->end, p->start);
    copy_attention(c, operands, attributes);
    if (!cut_query(&emitter, p, c->row_axis, &operands[QF_IN(attention, q)]) ||
        !cut_scores_operand(c, &emitter, p, &operands[QF_IN(attention, bias)]) ||
        !cut_scores_operand(c, &emitter, p, &operands[QF_IN(attention, mask)]) ||
        !qf_labelling_new(&c->labels, count, &rows))
        return (qf_node){0};
    attributes[QF_ATTR(attention, align)].integer = p->top_left ? QF_VALUE_top_left : QF_VALUE_bottom_right;
    memcpy(dims, qf_value_dims(graph, c->result), sizeof dims);
    dims[c->row_axis] = count;
    qf_type type = qf_type_tensor(c->context, qf_value_dtype(graph, c->result), dims, 4);
    qf_node made = qf_emit_node(&emitter, QF_OP_attention, operands, OPERANDS, attributes, type, tag);
    if (!made.id) return made;
    from.axis[c->row_axis] = to.axis[p->axis] = rows;
    qf_value value = qf_arrange(&emitter, qf_node_result(graph, made, 0), &from, &to, true);
    value = qf_emit_view(&emitter, value, qf_value_dims(graph, p->value), qf_value_rank(graph, p->value));
    if (!value.id) return (qf_node){0};
    qf_take_place(graph, p->value, value);
    return made;
}

/* What was done at the attention so far was done at each part of it. */
static qf_numerics loosest_class(const qf_report *report, uint64_t tag) {
    qf_numerics loosest = QF_NUMERICS_EXACT;
    for (uint32_t i = 0; i < report->rewrite_count; i++)
        if (report->rewrites[i].tag == tag && report->rewrites[i].numerics > loosest)
            loosest = report->rewrites[i].numerics;
    return loosest;
}

static bool cut(cutting *c, qf_report *report) {
    qf_graph *graph = c->graph;
    uint64_t tag = qf_node_at(graph, c->attention)->tag;
    qf_rewrite done = {.number = report->next_number - 1,
                       .rule = qf_intern_c(c->context, "cut_attention_rows"),
                       .numerics = QF_NUMERICS_EXACT};
    qf_numerics before = loosest_class(report, tag);
    for (uint32_t i = 0; i < c->count; i++) {
        qf_node made = build_part(c, &c->parts[i], done.rule, i ? 0 : tag);
        if (!made.id) return false;
        done.tag = qf_node_at(graph, made)->tag;
        done.location = qf_node_at(graph, made)->location;
        if (i) done.numerics = before;
        if (!qf_report_rewrite(report, &done)) return false;
    }
    for (uint32_t i = c->passed_count; i-- > 0;) qf_graph_erase(graph, c->passed[i]);
    qf_graph_erase(graph, c->attention);
    return true;
}

bool qf_attention_cut_rows(qf_graph *graph, qf_node attention, const qf_rules_options *options, qf_report *report,
                           bool *out_changed) {
    cutting c;
    bool good = true;
    if (!start(graph, attention, &c) || !operands_can_be_cut(&c)) return true;
    if (!qf_labelling_init(&c.labels, graph, NULL)) return false;
    if (find_parts(&c) && parts_are_disjoint(&c) && target_can(&c, options) && qf_report_may_rewrite(report)) {
        good = cut(&c, report);
        *out_changed = true;
    }
    qf_labelling_destroy(&c.labels);
    return good && qf_context_status(graph->context) == QF_OK;
}
