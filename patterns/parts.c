/* Owns: moving equal quantises behind slices, splits, concatenations and zeroed rows up to the attention.
 * Does not own: parts with unlike quantises (parts_cut.c).
 * Next: parts_cut.c. */
#include "patterns/parts.h"

#include <math.h>

#include "patterns/arrange.h"
#include "patterns/predicates.h"

#define MAX_REGION  64
#define MAX_BROUGHT 32 /* nodes that make a scale */
#define MAX_STEPS   8

/* --- what can be quantised by attention --- */

bool qf_output_quantise_read(const qf_graph *graph, qf_node node, qf_output_quantise *out) {
    if (qf_node_op(graph, node) != QF_OP_quantize) return false;
    *out = (qf_output_quantise){.dtype = (qf_dtype)qf_node_attribute(graph, node, QF_ATTR(quantize, dtype))->integer,
                                .mode = qf_node_attribute(graph, node, QF_ATTR(quantize, mode))->integer,
                                .compute = qf_node_attribute(graph, node, QF_ATTR(quantize, compute))->integer,
                                .scale = qf_node_operand(graph, node, QF_IN(quantize, scale))};
    return (out->dtype == QF_F8E4M3FN || out->dtype == QF_F8E5M2) &&
           qf_node_attribute(graph, node, QF_ATTR(quantize, saturate))->integer &&
           qf_node_attribute(graph, node, QF_ATTR(quantize, axis))->integer == -1 &&
           !qf_node_attribute(graph, node, QF_ATTR(quantize, group))->integer &&
           !qf_node_operand(graph, node, QF_IN(quantize, zero_point)).id && qf_value_is_scalar(graph, out->scale) &&
           qf_value_rank(graph, out->scale) <= 1;
}

bool qf_awaits_quantise(const qf_graph *graph, qf_node node) {
    qf_op op = qf_node_op(graph, node);
    qf_dtype dtype = qf_value_dtype(graph, qf_node_result(graph, node, 0));
    return (op == QF_OP_attention || op == QF_OP_paged_attention) &&
           (dtype == QF_F32 || dtype == QF_F16 || dtype == QF_BF16);
}

static bool same_quantise(const qf_graph *graph, const qf_output_quantise *a, const qf_output_quantise *b) {
    return a->dtype == b->dtype && a->mode == b->mode && a->compute == b->compute &&
           qf_scales_equal(graph, a->scale, b->scale);
}

/* --- what stands between an attention and its quantises --- */

typedef struct region {
    qf_node nodes[MAX_REGION]; /* layout, split, concat and what sets to zero, in the order of the walk */
    qf_node quantises[MAX_REGION];
    uint32_t count, quantise_count;
    uint32_t joints;   /* all but layout */
    uint32_t products; /* by 0 and 1 */
    uint32_t selects;  /* of zeros */
    qf_output_quantise wanted;
} region;

static bool holds(const qf_node *list, uint32_t count, qf_node node) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i].id == node.id) return true;
    return false;
}

static bool add_quantise(const qf_graph *graph, const qf_use *use, region *out) {
    qf_output_quantise found;
    if (qf_use_index(graph, use) != QF_IN(quantize, x) || !qf_output_quantise_read(graph, use->user, &found) ||
        out->quantise_count == MAX_REGION)
        return false;
    if (!out->quantise_count) out->wanted = found;
    if (!same_quantise(graph, &out->wanted, &found)) return false;
    out->quantises[out->quantise_count++] = use->user;
    return true;
}

/* A boolean read as numbers. */
static bool is_zero_or_one(const qf_graph *graph, qf_value value) {
    for (uint32_t step = 0; step < MAX_STEPS; step++) {
        qf_node node = qf_value_producer(graph, value);
        if (!node.id) return false;
        value = qf_node_operand(graph, node, 0);
        if (qf_node_op(graph, node) == QF_OP_cast && qf_value_dtype(graph, value) == QF_I1) return true;
        if (!qf_op_is_replayable(qf_node_op(graph, node))) return false;
    }
    return false;
}

/* The operand that sets elements of the one that `use` is to zero, or leaves them: x * 0 or 1, where(c, x, 0). */
static bool sets_to_zero(const qf_graph *graph, const qf_use *use, uint32_t *out_other) {
    uint32_t index = qf_use_index(graph, use);
    qf_op op = qf_node_op(graph, use->user);
    double number;
    if (qf_value_type(graph, use->value).id != qf_value_type(graph, qf_node_result(graph, use->user, 0)).id)
        return false;
    if (op == QF_OP_mul) {
        *out_other = 1 - index;
        return is_zero_or_one(graph, qf_node_operand(graph, use->user, *out_other));
    }
    if (op != QF_OP_where || index == QF_IN(where, condition)) return false;
    *out_other = index == QF_IN(where, a) ? QF_IN(where, b) : QF_IN(where, a);
    return qf_value_uniform(graph, qf_node_operand(graph, use->user, *out_other), &number) && number == 0.0 &&
           !signbit(number); /* which has a code of its own */
}

static bool add_users(const qf_graph *graph, qf_value value, region *out) {
    QF_FOR_EACH_USE(graph, value, use) {
        qf_op op = qf_node_op(graph, use->user);
        uint32_t other;
        bool zeroes = sets_to_zero(graph, use, &other);
        bool joint = op == QF_OP_split || op == QF_OP_concat || zeroes;
        if (holds(out->nodes, out->count, use->user)) continue;
        if (op == QF_OP_quantize) {
            if (!add_quantise(graph, use, out)) return false;
            continue;
        }
        if (!(joint || qf_op_is_replayable(op)) || out->count == MAX_REGION) return false;
        out->joints += joint;
        out->products += op == QF_OP_mul;
        out->selects += op == QF_OP_where;
        out->nodes[out->count++] = use->user;
    }
    return true;
}

/* All that is computed from the value, up to equal quantises. False where anything else reads it, or where one chain
 * of layout leads to one quantise, which the rules take as it is. */
static bool read_region(const qf_graph *graph, qf_value value, region *out) {
    *out = (region){.count = 0};
    if (!add_users(graph, value, out)) return false;
    for (uint32_t i = 0; i < out->count; i++) {
        const qf_node_data *data = qf_node_at(graph, out->nodes[i]);
        for (uint32_t r = 0; r < data->result_count; r++)
            if (!add_users(graph, qf_result_at(data, r), out)) return false;
    }
    return out->quantise_count && (out->joints || out->quantise_count > 1);
}

/* --- the rewrite --- */

/* The first node in the order of the graph that reads the attention's result. */
static qf_node first_reader(const qf_graph *graph, qf_value result) {
    qf_node first = {0};
    QF_FOR_EACH_USE(graph, result, use)
    if (!first.id || qf_node_before(graph, use->user, first)) first = use->user;
    return first;
}

/* Moves what makes the value in front of `before` where it does not stand there. False where the region is part of it.
 */
static bool bring_before(qf_graph *graph, const region *r, qf_value value, qf_node before, uint32_t *budget) {
    qf_node node = qf_value_producer(graph, value);
    if (!node.id || qf_node_before(graph, node, before)) return true;
    if (node.id == before.id || holds(r->nodes, r->count, node) || !*budget ||
        !qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_PURE))
        return false;
    --*budget;
    for (uint32_t i = 0; i < qf_node_at(graph, node)->operand_count; i++) {
        qf_value operand = qf_node_operand(graph, node, i);
        if (operand.id && !bring_before(graph, r, operand, before, budget)) return false;
    }
    qf_graph_move_before(graph, node, before);
    return true;
}

/* The quantise of the region, of another value. */
static qf_value quantise(qf_graph *graph, const region *r, qf_value x, qf_node before, qf_location location) {
    qf_value operands[] = {x, r->wanted.scale};
    qf_node_spec spec = {.op = QF_OP_quantize,
                         .operands = operands,
                         .operand_count = 2,
                         .attributes = qf_node_at(graph, r->quantises[0])->attributes,
                         .location = location};
    qf_node node = qf_graph_insert(graph, before, &spec);
    return node.id ? qf_node_result(graph, node, 0) : (qf_value){0};
}

static bool is_inside(const qf_graph *graph, const region *r, qf_value value) {
    qf_node producer = qf_value_producer(graph, value);
    return producer.id && holds(r->nodes, r->count, producer);
}

/* Quantises what a concatenation reads from elsewhere. */
static bool quantise_neighbours(qf_graph *graph, const region *r, qf_node concat, qf_value quantised,
                                qf_location location) {
    for (uint32_t i = 0; i < qf_node_at(graph, concat)->operand_count; i++) {
        qf_value value = qf_node_operand(graph, concat, i);
        if (value.id == quantised.id || is_inside(graph, r, value)) continue;
        qf_value made = quantise(graph, r, value, concat, location);
        if (!made.id) return false;
        qf_graph_set_operand(graph, concat, i, made);
    }
    return true;
}

/* What sets to zero, in the type of the codes. */
static bool quantise_zeroing(qf_graph *graph, const region *r, qf_node node, qf_value quantised, qf_location location) {
    qf_emitter emitter = {.graph = graph, .before = node, .location = location};
    for (uint32_t i = 0; i < qf_node_at(graph, node)->operand_count; i++) {
        qf_value value = qf_node_operand(graph, node, i), made;
        if (value.id == quantised.id || is_inside(graph, r, value) || qf_value_dtype(graph, value) == QF_I1) continue;
        if (qf_node_op(graph, node) == QF_OP_mul)
            made = qf_emit_cast(&emitter, value, r->wanted.dtype);
        else
            made = qf_emit_scalar(&emitter, r->wanted.dtype, 0.0);
        if (!made.id) return false;
        qf_graph_set_operand(graph, node, i, made);
    }
    return true;
}

static void read_instead(qf_graph *graph, qf_node node, qf_value from, qf_value to) {
    for (uint32_t i = 0; i < qf_node_at(graph, node)->operand_count; i++)
        if (qf_node_operand(graph, node, i).id == from.id) qf_graph_set_operand(graph, node, i, to);
}

static bool retype(qf_graph *graph, const region *r) {
    for (uint32_t i = 0; i < r->count; i++)
        for (uint32_t k = 0; k < qf_node_at(graph, r->nodes[i])->result_count; k++) {
            qf_value value = qf_node_result(graph, r->nodes[i], k);
            qf_type type = qf_type_with_dtype(graph->context, qf_value_type(graph, value), r->wanted.dtype);
            if (!type.id) return false;
            qf_graph_set_type(graph, value, type);
        }
    return true;
}

static void erase_quantise(qf_graph *graph, qf_node node) {
    qf_take_place(graph, qf_node_result(graph, node, 0), qf_node_operand(graph, node, QF_IN(quantize, x)));
    qf_graph_erase(graph, node);
}

/* Brings what else a node of the region reads to the type of the codes. */
static bool quantise_operands(qf_graph *graph, const region *r, qf_node node, qf_value quantised,
                              qf_location location) {
    switch (qf_node_op(graph, node)) {
    case QF_OP_concat: return quantise_neighbours(graph, r, node, quantised, location);
    case QF_OP_mul:
    case QF_OP_where: return quantise_zeroing(graph, r, node, quantised, location);
    default: return true;
    }
}

/* Whether zero quantises to the code 0: not by a scale of zero, infinity or NaN, also where it is rounded to 16 bits or
 * its reciprocal taken, and not to the same bits by a negative one. */
static bool zero_stays_zero(const qf_graph *graph, const region *r) {
    double scale;
    return qf_value_uniform(graph, r->wanted.scale, &scale) && scale >= 0x1p-14 && scale <= 65504.0;
}

/* Infinity times zero is no number, which the codes of infinity are not: products round. */
static qf_numerics class_of(const qf_graph *graph, const region *r) {
    return r->products || (r->selects && !zero_stays_zero(graph, r)) ? QF_NUMERICS_ROUNDING : QF_NUMERICS_EXACT;
}

static bool class_allows(const qf_graph *graph, qf_node attention, const region *r, qf_numerics numerics) {
    return qf_numerics_at(graph, attention, numerics) >= class_of(graph, r);
}

static bool hoist(qf_graph *graph, qf_node attention, const region *r, qf_report *report, bool *out_changed) {
    qf_value result = qf_node_result(graph, attention, 0);
    qf_node before = first_reader(graph, result);
    uint32_t budget = MAX_BROUGHT;
    if (!bring_before(graph, r, r->wanted.scale, before, &budget) || !qf_report_may_rewrite(report)) return true;
    qf_rewrite done = {.number = report->next_number - 1,
                       .rule = qf_intern_c(graph->context, "quantise_before_parts"),
                       .numerics = class_of(graph, r),
                       .tag = qf_node_at(graph, attention)->tag};
    qf_location places[] = {qf_node_at(graph, r->quantises[0])->location, qf_node_at(graph, attention)->location};
    done.location = qf_location_fuse(graph, done.rule, places, QF_COUNT_OF(places));
    qf_value quantised = quantise(graph, r, result, before, done.location);
    if (!quantised.id) return false;
    for (uint32_t i = 0; i < r->count; i++) {
        read_instead(graph, r->nodes[i], result, quantised);
        if (!quantise_operands(graph, r, r->nodes[i], quantised, done.location)) return false;
    }
    if (!retype(graph, r)) return false;
    for (uint32_t i = 0; i < r->quantise_count; i++) {
        read_instead(graph, r->quantises[i], result, quantised);
        erase_quantise(graph, r->quantises[i]);
    }
    *out_changed = true;
    return qf_report_rewrite(report, &done);
}

/* --- the entry point --- */

static qf_node next_attention(const qf_graph *graph, qf_node node) {
    while (node.id && !qf_awaits_quantise(graph, node)) node = qf_node_at(graph, node)->next;
    return node;
}

qf_status qf_attention_quantise_parts(qf_graph *graph, const qf_rules_options *options, qf_report *report,
                                      bool *out_changed) {
    region r;
    bool good = true;
    QF_FOR_EACH_NODE(graph, node) {
        if (!good || !qf_awaits_quantise(graph, node)) continue;
        if (read_region(graph, qf_node_result(graph, node, 0), &r) && class_allows(graph, node, &r, options->numerics))
            good = hoist(graph, node, &r, report, out_changed);
    }
    for (qf_node node = next_attention(graph, graph->first), next; good && node.id; node = next) {
        next = next_attention(graph, qf_node_at(graph, node)->next); /* what lies between may be erased */
        good = qf_attention_cut_rows(graph, node, options, report, out_changed);
    }
    qf_status status = qf_context_status(graph->context);
    return good || status != QF_OK ? status : QF_ERROR_OUT_OF_MEMORY;
}
