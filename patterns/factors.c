/* Owns: factors between attention and quantise: found backward from the quantise, moved into its scale.
 * Does not own: numbers that multiply q or k (rules/scales.rules).
 * Next: raise.c. */
#include "patterns/factors.h"

#include "patterns/arrange.h"
#include "patterns/predicates.h"

#define MAX_STEPS 16

typedef struct factor {
    qf_value value;
    double number; /* where `value` is 0 */
    bool divides;
} factor;

/* What stands between attention and quantise, the last node first. */
typedef struct chain {
    qf_node kept[MAX_STEPS]; /* layout */
    uint32_t kept_count;
    qf_node passed[MAX_STEPS];
    uint32_t passed_count;
    factor factors[MAX_STEPS];
    uint32_t factor_count;
    qf_value attention;
    qf_node attention_node;
} chain;

/* The scaled operand of a product or quotient by one number; 0 where it is none. */
static qf_value read_factor(const qf_graph *graph, qf_node node, factor *out) {
    qf_value result = qf_node_result(graph, node, 0);
    qf_op op = qf_node_op(graph, node);
    for (uint32_t side = 0; side < (op == QF_OP_mul ? 2u : 1u); side++) {
        qf_value x = qf_node_operand(graph, node, side), other = qf_node_operand(graph, node, 1 - side);
        *out = (factor){.divides = op == QF_OP_div};
        if (!qf_value_uniform(graph, other, &out->number)) out->value = other;
        bool single = !out->value.id || qf_value_is_scalar(graph, other);
        if (single && qf_value_type(graph, x).id == qf_value_type(graph, result).id) return x;
    }
    return (qf_value){0};
}

/* A rounding to 16 bits vanishes with the factor that stood before it: kept, it could overflow. One to FP8 does not. */
static bool is_wide_cast(const qf_graph *graph, qf_node node) {
    qf_dtype from = qf_value_dtype(graph, qf_node_operand(graph, node, 0)),
             to = qf_value_dtype(graph, qf_node_result(graph, node, 0));
    return qf_node_op(graph, node) == QF_OP_cast && qf_dtype_is_float(from) && qf_dtype_is_float(to) &&
           qf_dtype_bits(from) >= 16 && qf_dtype_bits(to) >= 16;
}

/* From the quantise back to an attention that nobody else reads on the way. */
static bool read_chain(const qf_graph *graph, qf_node quantize, chain *out) {
    qf_value value = qf_node_operand(graph, quantize, QF_IN(quantize, x));
    *out = (chain){.kept_count = 0};
    for (uint32_t step = 0; step < MAX_STEPS && qf_value_at(graph, value)->use_count == 1; step++) {
        qf_node node = qf_value_producer(graph, value);
        qf_op op = qf_node_op(graph, node);
        if (op == QF_OP_attention || op == QF_OP_paged_attention) {
            out->attention = value;
            out->attention_node = node;
            return out->factor_count > 0;
        }
        out->passed[out->passed_count++] = node;
        if (op == QF_OP_mul || op == QF_OP_div) {
            value = read_factor(graph, node, &out->factors[out->factor_count++]);
        } else if (is_wide_cast(graph, node)) {
            value = qf_node_operand(graph, node, 0);
        } else if (qf_op_is_replayable(op)) {
            out->kept[out->kept_count++] = node;
            value = qf_node_operand(graph, node, 0);
        } else {
            return false;
        }
        if (!value.id) return false;
    }
    return false;
}

static bool is_plain(const qf_graph *graph, qf_node node) {
    qf_value scale = qf_node_operand(graph, node, QF_IN(quantize, scale));
    return qf_dtype_is_float8((qf_dtype)qf_node_attribute(graph, node, QF_ATTR(quantize, dtype))->integer) &&
           qf_node_attribute(graph, node, QF_ATTR(quantize, axis))->integer == -1 &&
           !qf_node_attribute(graph, node, QF_ATTR(quantize, group))->integer &&
           !qf_node_operand(graph, node, QF_IN(quantize, zero_point)).id && qf_value_is_scalar(graph, scale);
}

/* The scale, or the factor that a quantise by multiplication has, with all factors in it: f32. */
static qf_value fold_factors(qf_emitter *emitter, const chain *way, qf_value scale, bool multiplies) {
    for (uint32_t i = 0; scale.id && i < way->factor_count; i++) {
        const factor *one = &way->factors[i];
        qf_value value = one->value.id ? one->value : qf_emit_scalar(emitter, QF_F32, one->number);
        scale = qf_emit_scaled(emitter, one->divides == multiplies ? QF_OP_div : QF_OP_mul, scale, value);
    }
    return scale;
}

static bool rewrite(qf_graph *graph, qf_node node, const chain *way, qf_report *report) {
    qf_string rule = qf_intern_c(graph->context, "fold_output_factors");
    const qf_node_data *data = qf_node_at(graph, node); /* until something is emitted */
    uint64_t tag = data->tag;
    qf_emitter emitter = {
        .graph = graph, .before = node, .location = qf_location_fuse(graph, rule, &data->location, 1)};
    if (!emitter.location.id) return false;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    for (uint32_t i = 0; i < qf_op_info_of(QF_OP_quantize)->attribute_count; i++) attributes[i] = data->attributes[i];
    bool multiplies = attributes[QF_ATTR(quantize, mode)].integer == QF_VALUE_mul;
    if (!multiplies) attributes[QF_ATTR(quantize, mode)].integer = QF_VALUE_div;
    attributes[QF_ATTR(quantize, compute)].integer = QF_F32;
    qf_value x = way->attention;
    for (uint32_t i = way->kept_count; i-- > 0;) x = qf_emit_again(&emitter, way->kept[i], 0, x);
    qf_value scale = fold_factors(&emitter, way, qf_node_operand(graph, node, QF_IN(quantize, scale)), multiplies);
    if (!x.id || !scale.id) return false;
    qf_value operands[] = {x, scale}, old = qf_node_result(graph, node, 0);
    qf_type type = qf_value_type(graph, old);
    qf_node_spec spec = {.op = QF_OP_quantize,
                         .operands = operands,
                         .operand_count = 2,
                         .attributes = attributes,
                         .result_count = 1,
                         .result_types = &type,
                         .location = emitter.location,
                         .tag = tag};
    qf_node made = qf_graph_insert(graph, node, &spec);
    if (!made.id) return false;
    qf_graph_replace_all_uses(graph, old, qf_node_result(graph, made, 0));
    qf_graph_erase(graph, node);
    for (uint32_t i = 0; i < way->passed_count; i++) qf_graph_erase(graph, way->passed[i]);
    qf_rewrite done = {.number = report->next_number - 1,
                       .rule = rule,
                       .numerics = QF_NUMERICS_ROUNDING,
                       .tag = qf_node_at(graph, way->attention_node)->tag,
                       .location = emitter.location,
                       .note = qf_intern_c(graph->context, "factors of the result moved into the output scale")};
    return qf_report_rewrite(report, &done);
}

qf_status qf_fold_output_factors(qf_graph *graph, qf_numerics numerics, qf_report *report, bool *out_changed) {
    chain way;
    *out_changed = false;
    if (numerics == QF_NUMERICS_EXACT) return QF_OK;
    for (qf_node node = graph->first, next; node.id; node = next) {
        next = graph->nodes[node.id].next;
        if (qf_node_op(graph, node) != QF_OP_quantize || !is_plain(graph, node) || !read_chain(graph, node, &way) ||
            !qf_report_may_rewrite(report))
            continue;
        if (!rewrite(graph, node, &way, report)) {
            qf_status status = qf_context_status(graph->context);
            return status != QF_OK ? status : QF_ERROR_OUT_OF_MEMORY;
        }
        *out_changed = true;
    }
    return QF_OK;
}
