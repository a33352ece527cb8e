/* Owns: the normal form of attention nodes that exist already: masks as attributes, KV heads without repeats, FP8
 * operands. Does not own: raising (attention.c). Next: candidate.h. */
#include <math.h>

#include "patterns/attention.h"
#include "patterns/candidate.h"

typedef struct refining {
    qf_graph *graph;
    qf_context *context;
    qf_symbolic *symbolic;
    qf_numerics numerics;
    qf_report *report;
    bool changed;
} refining;

static qf_attribute *attribute(const refining *r, qf_node node, uint32_t index) {
    return qf_node_attribute(r->graph, node, index);
}

static qf_value operand(const refining *r, qf_node node, uint32_t index) {
    return qf_node_operand(r->graph, node, index);
}

/* Axes in the order of the node's layout. */
static qf_axes in_layout(bool by_head, qf_axis batch, qf_axis heads, qf_axis tokens, qf_axis depth) {
    return (qf_axes){.rank = 4, .axis = {batch, by_head ? heads : tokens, by_head ? tokens : heads, depth}};
}

static bool is_by_head(const refining *r, qf_node node) {
    return attribute(r, node, QF_ATTR(attention, layout))->integer == QF_VALUE_bhsd;
}

/* Labels of a node whose operands have rank 4 and whose heads divide. */
static bool label_node(const refining *r, qf_candidate *c) {
    qf_labelling *labels = &c->labels;
    qf_value q = operand(r, c->node, QF_IN(attention, q)), k = operand(r, c->node, QF_IN(attention, k));
    qf_value v = operand(r, c->node, QF_IN(attention, v));
    if (qf_value_rank(r->graph, q) != 4 || qf_value_rank(r->graph, k) != 4 || qf_value_rank(r->graph, v) != 4)
        return false;
    uint32_t head_axis = is_by_head(r, c->node) ? 1 : 2, token_axis = 3 - head_axis;
    const qf_dim *q_dims = qf_value_dims(r->graph, q), *k_dims = qf_value_dims(r->graph, k);
    qf_dim group = qf_dim_divide_exactly(r->context, q_dims[head_axis], k_dims[head_axis]);
    qf_roles *roles = &c->roles;
    return group.id && qf_labelling_new(labels, q_dims[0], &roles->batch) &&
           qf_labelling_new(labels, k_dims[head_axis], &roles->kv_heads) &&
           qf_labelling_new(labels, group, &roles->group) &&
           qf_labelling_new(labels, q_dims[token_axis], &roles->rows) &&
           qf_labelling_new(labels, k_dims[token_axis], &roles->keys) &&
           qf_labelling_new(labels, q_dims[3], &roles->depth) &&
           qf_labelling_new(labels, qf_value_dims(r->graph, v)[3], &roles->value_depth);
}

static bool resolve_roles(qf_candidate *c) {
    qf_roles *roles = &c->roles;
    qf_axis *lists[] = {&roles->batch, &roles->kv_heads, &roles->group,      &roles->rows,
                        &roles->keys,  &roles->depth,    &roles->value_depth};
    for (uint32_t i = 0; i < QF_COUNT_OF(lists); i++)
        if (!qf_labelling_resolve(&c->labels, *lists[i], lists[i])) return false;
    return true;
}

static bool start(const refining *r, qf_candidate *c, qf_node node) {
    qf_labelling_destroy(&c->labels);
    *c = (qf_candidate){.node = node, .result = qf_node_result(r->graph, node, 0)};
    return qf_labelling_init(&c->labels, r->graph, r->symbolic) && label_node(r, c);
}

static qf_emitter emitter_at(const refining *r, qf_candidate *c) {
    return (qf_emitter){.graph = r->graph,
                        .labels = &c->labels,
                        .before = c->node,
                        .location = qf_node_at(r->graph, c->node)->location};
}

static bool record(refining *r, qf_node node, uint32_t number, qf_numerics numerics, const char *note) {
    qf_rewrite rewrite = {.number = number,
                          .rule = qf_intern_c(r->context, "refine_attention"),
                          .numerics = numerics,
                          .tag = qf_node_at(r->graph, node)->tag,
                          .location = qf_node_at(r->graph, node)->location,
                          .note = qf_intern_c(r->context, note)};
    r->changed = true;
    return qf_report_rewrite(r->report, &rewrite);
}

/* --- masks --- */

static bool has_limits(const refining *r, qf_node node) {
    return attribute(r, node, QF_ATTR(attention, causal))->integer ||
           attribute(r, node, QF_ATTR(attention, window_left))->integer >= 0 ||
           attribute(r, node, QF_ATTR(attention, window_right))->integer >= 0;
}

/* Evaluates mask and bias; false where a part has no form, or on failure. */
static bool read_masks(const refining *r, qf_candidate *c) {
    qf_labelling *labels = &c->labels;
    qf_value mask = operand(r, c->node, QF_IN(attention, mask)), bias = operand(r, c->node, QF_IN(attention, bias));
    qf_axis heads;
    qf_axes axes;
    if (!qf_labelling_append(labels, c->roles.kv_heads, c->roles.group, &heads)) return false;
    qf_axes scores = {.rank = 4, .axis = {c->roles.batch, heads, c->roles.rows, c->roles.keys}};
    c->masks.entry_count = 0;
    if (mask.id && (!qf_labelling_broadcast_value(labels, mask, &scores, &axes) ||
                    !qf_masks_add_condition(labels, mask, &axes, true, -INFINITY, &c->masks)))
        return false;
    if (bias.id && (!qf_labelling_broadcast_value(labels, bias, &scores, &axes) ||
                    !qf_masks_add_addend(labels, bias, &axes, 1.0, &c->masks)))
        return false;
    return resolve_roles(c);
}

static void tighten(qf_attribute *window, int64_t limit) {
    if (limit >= 0 && (window->integer < 0 || limit < window->integer)) window->integer = limit;
}

static void set_limits(const refining *r, qf_candidate *c) {
    const qf_masks *masks = &c->masks;
    if (!masks->causal && masks->window_left < 0 && masks->window_right < 0) return;
    if (masks->causal) attribute(r, c->node, QF_ATTR(attention, causal))->integer = 1;
    tighten(attribute(r, c->node, QF_ATTR(attention, window_left)), masks->window_left);
    tighten(attribute(r, c->node, QF_ATTR(attention, window_right)), masks->window_right);
    attribute(r, c->node, QF_ATTR(attention, align))->integer =
        masks->top_left ? QF_VALUE_top_left : QF_VALUE_bottom_right;
}

/* The attribute `align` serves the node's own limits and the new ones. */
static bool alignment_fits(const refining *r, const qf_candidate *c) {
    bool top_left = attribute(r, c->node, QF_ATTR(attention, align))->integer == QF_VALUE_top_left;
    return !has_limits(r, c->node) || top_left == c->masks.top_left;
}

static bool refine_masks(refining *r, qf_candidate *c, qf_node node) {
    bool had_mask = operand(r, node, QF_IN(attention, mask)).id != 0,
         had_bias = operand(r, node, QF_IN(attention, bias)).id != 0;
    bool lengths = operand(r, node, QF_IN(attention, kv_lens)).id || operand(r, node, QF_IN(attention, q_start)).id;
    if ((!had_mask && !had_bias) || !start(r, c, node) || !read_masks(r, c)) return true;
    c->masks.other_limits = lengths || has_limits(r, node);
    if (qf_masks_classify(&c->labels, &c->roles, !lengths, &c->masks) != QF_REASON_none) return true;
    const qf_masks *masks = &c->masks;
    bool limits = masks->causal || masks->window_left >= 0 || masks->window_right >= 0;
    bool gone = (had_mask && !masks->term_count) || (had_bias && !masks->bias_count);
    if ((!limits && !gone) || (limits && !alignment_fits(r, c))) return true;
    if (!qf_report_may_rewrite(r->report)) return true;
    uint32_t number = r->report->next_number - 1;
    qf_axis heads;
    qf_emitter emitter = emitter_at(r, c);
    qf_value mask, bias;
    if (!qf_labelling_append(&c->labels, c->roles.kv_heads, c->roles.group, &heads)) return false;
    qf_axes scores = {.rank = 4, .axis = {c->roles.batch, heads, c->roles.rows, c->roles.keys}};
    if (!qf_build_mask(c, &emitter, &scores, &mask) || !qf_build_bias(c, &emitter, &scores, &bias)) return false;
    set_limits(r, c);
    qf_graph_set_operand(r->graph, node, QF_IN(attention, mask), mask);
    qf_graph_set_operand(r->graph, node, QF_IN(attention, bias), bias);
    return record(r, node, number, QF_NUMERICS_EXACT, "the mask became an attribute");
}

/* --- operands --- */

static bool trace(const refining *r, qf_candidate *c, uint32_t index, qf_axes axes, bool multiples, qf_traced *out) {
    return qf_trace_operand(&c->labels, operand(r, c->node, index), &axes, multiples, false, out);
}

/* The KV-head labels that neither k nor v has, if both lack the same ones and the others come first: those are groups.
 */
static bool repeated_heads(qf_candidate *c, qf_axis *out_kept, qf_axis *out_repeated) {
    qf_labelling *labels = &c->labels;
    qf_axis k, v, in_k, in_v;
    if (!qf_labelling_flatten(labels, &c->k.axes, &k) || !qf_labelling_flatten(labels, &c->v.axes, &v) ||
        !qf_labelling_filter(labels, c->roles.kv_heads, k, true, &in_k) ||
        !qf_labelling_filter(labels, c->roles.kv_heads, v, true, &in_v) ||
        !qf_labelling_filter(labels, c->roles.kv_heads, in_k, false, out_repeated))
        return false;
    *out_kept = in_k;
    if (!out_repeated->count || !qf_labelling_equal(in_k, in_v)) return false;
    for (uint32_t i = 0; i < in_k.count; i++)
        if (in_k.atoms[i] != c->roles.kv_heads.atoms[i]) return false;
    return true;
}

/* Replaces one operand by what was traced; its scale goes beside it. */
static bool replace(refining *r, qf_candidate *c, const qf_traced *traced, const qf_axes *target, uint32_t index,
                    uint32_t scale_index) {
    qf_emitter emitter = emitter_at(r, c);
    qf_value scale, value = qf_build_operand(&emitter, traced, target, index == QF_IN(attention, v), &scale);
    if (!value.id) return false;
    qf_graph_set_operand(r->graph, c->node, index, value);
    if (scale.id) qf_graph_set_operand(r->graph, c->node, scale_index, scale);
    if (index != QF_IN(attention, v)) attribute(r, c->node, QF_ATTR(attention, scale))->number *= traced->multiplier;
    return true;
}

/* FP8 behind a pair, where the node reads a dequantised tensor now. */
static bool brings_fp8(const refining *r, const qf_traced *traced) {
    return traced->scale.id && r->numerics != QF_NUMERICS_EXACT;
}

/* Scales a KV head would need regrouping too, and what computes anew is no exact rewrite. */
static bool may_regroup(const refining *r, const qf_candidate *c) {
    static const uint32_t scales[] = {QF_IN(attention, q_scale), QF_IN(attention, k_scale), QF_IN(attention, v_scale)};
    for (uint32_t i = 0; i < QF_COUNT_OF(scales); i++) {
        qf_value scale = operand(r, c->node, scales[i]);
        if (scale.id && !qf_dim_is(r->context, qf_type_element_count(r->context, qf_value_type(r->graph, scale)), 1))
            return false;
    }
    bool computes = c->k.scale.id || c->v.scale.id || c->k.multiplier != 1.0;
    return r->numerics != QF_NUMERICS_EXACT || !computes;
}

static bool refine_operands(refining *r, qf_candidate *c, qf_node node) {
    if (!start(r, c, node)) return true;
    qf_roles *roles = &c->roles;
    bool by_head = is_by_head(r, node);
    qf_axis heads, kept, repeated;
    if (!qf_labelling_append(&c->labels, roles->kv_heads, roles->group, &heads) ||
        !trace(r, c, QF_IN(attention, q), in_layout(by_head, roles->batch, heads, roles->rows, roles->depth), true,
               &c->q) ||
        !trace(r, c, QF_IN(attention, k), in_layout(by_head, roles->batch, roles->kv_heads, roles->keys, roles->depth),
               true, &c->k) ||
        !trace(r, c, QF_IN(attention, v),
               in_layout(by_head, roles->batch, roles->kv_heads, roles->keys, roles->value_depth), false, &c->v) ||
        !resolve_roles(c) || !qf_labelling_resolve_all(&c->labels, &c->q.axes) ||
        !qf_labelling_resolve_all(&c->labels, &c->k.axes) || !qf_labelling_resolve_all(&c->labels, &c->v.axes) ||
        !qf_labelling_resolve(&c->labels, heads, &heads))
        return true;
    bool grouped = repeated_heads(c, &kept, &repeated);
    bool fp8[3] = {brings_fp8(r, &c->q), brings_fp8(r, &c->k), brings_fp8(r, &c->v)};
    grouped = grouped && may_regroup(r, c);
    if ((!grouped && !fp8[0] && !fp8[1] && !fp8[2]) || !qf_report_may_rewrite(r->report)) return true;
    uint32_t number = r->report->next_number - 1;
    if (grouped) roles->kv_heads = kept;
    qf_axes q = in_layout(by_head, roles->batch, heads, roles->rows, roles->depth);
    qf_axes k = in_layout(by_head, roles->batch, roles->kv_heads, roles->keys, roles->depth);
    qf_axes v = in_layout(by_head, roles->batch, roles->kv_heads, roles->keys, roles->value_depth);
    qf_attribute *out = attribute(r, node, QF_ATTR(attention, out));
    if (fp8[0] && out->integer == QF_DTYPE_NONE) out->integer = qf_value_dtype(r->graph, c->result);
    if ((fp8[0] && !replace(r, c, &c->q, &q, QF_IN(attention, q), QF_IN(attention, q_scale))) ||
        ((grouped || fp8[1]) && !replace(r, c, &c->k, &k, QF_IN(attention, k), QF_IN(attention, k_scale))) ||
        ((grouped || fp8[2]) && !replace(r, c, &c->v, &v, QF_IN(attention, v), QF_IN(attention, v_scale))))
        return false;
    bool any_fp8 = fp8[0] || fp8[1] || fp8[2];
    return record(r, node, number, any_fp8 ? QF_NUMERICS_ROUNDING : QF_NUMERICS_EXACT,
                  any_fp8 ? "attention reads FP8 operands and their scales" : "repeated KV heads became a group");
}

qf_status qf_attention_refine_masks(qf_graph *graph, qf_symbolic *symbolic, qf_numerics numerics, qf_report *report,
                                    bool *out_changed) {
    qf_context *context = graph->context;
    refining r = {.graph = graph, .context = context, .symbolic = symbolic, .numerics = numerics, .report = report};
    qf_candidate *candidate = qf_allocate(context, sizeof *candidate);
    bool ok = candidate && qf_labelling_init(&candidate->labels, graph, symbolic);
    for (qf_node node = graph->first; ok && node.id; node = qf_node_at(graph, node)->next)
        if (qf_node_op(graph, node) == QF_OP_attention)
            ok = refine_masks(&r, candidate, node) && refine_operands(&r, candidate, node);
    if (candidate) {
        qf_labelling_destroy(&candidate->labels);
        qf_release(context, candidate, sizeof *candidate);
    }
    *out_changed = r.changed;
    qf_status status = qf_context_status(context);
    return ok || status != QF_OK ? status : QF_ERROR_INTERNAL;
}
