/* Owns: finding such concatenations, and the rewrite.
 * Does not own: when it runs (passes/raise.c).
 * Next: arrange.h. */
#include "patterns/joined.h"

#include "patterns/arrange.h"
#include "patterns/predicates.h"

#define MAX_PARTS 64
#define MAX_STEPS 8

/* The dequantise of a whole FP8 tensor that the value is a layout of; 0: none. */
static qf_node dequantise_of(const qf_graph *graph, qf_value value) {
    for (uint32_t step = 0; step <= MAX_STEPS; step++) {
        qf_node node = qf_value_producer(graph, value);
        if (qf_node_op(graph, node) == QF_OP_dequantize) {
            bool plain = qf_node_attribute(graph, node, QF_ATTR(dequantize, axis))->integer == -1 &&
                         !qf_node_attribute(graph, node, QF_ATTR(dequantize, group))->integer &&
                         !qf_node_operand(graph, node, QF_IN(dequantize, zero_point)).id &&
                         qf_dtype_is_float8(qf_value_dtype(graph, qf_node_operand(graph, node, QF_IN(dequantize, x))));
            return plain ? node : (qf_node){0};
        }
        if (!qf_op_is_replayable(qf_node_op(graph, node))) break;
        value = qf_node_operand(graph, node, 0);
    }
    return (qf_node){0};
}

static bool alike(const qf_graph *graph, qf_node a, qf_node b) {
    return qf_value_dtype(graph, qf_node_operand(graph, a, QF_IN(dequantize, x))) ==
               qf_value_dtype(graph, qf_node_operand(graph, b, QF_IN(dequantize, x))) &&
           qf_scales_equal(graph, qf_node_operand(graph, a, QF_IN(dequantize, scale)),
                           qf_node_operand(graph, b, QF_IN(dequantize, scale)));
}

/* The layout between the dequantise and the value, over the FP8 tensor. */
static qf_value layout_again(qf_emitter *emitter, qf_value value) {
    qf_node node = qf_value_producer(emitter->graph, value);
    qf_value source = qf_node_operand(emitter->graph, node, 0);
    if (qf_node_op(emitter->graph, node) == QF_OP_dequantize) return source;
    return qf_emit_again(emitter, node, 0, layout_again(emitter, source));
}

static qf_value insert(qf_emitter *emitter, qf_op op, const qf_value *operands, uint32_t count,
                       const qf_attribute *attributes, qf_type type, uint64_t tag) {
    qf_node node = qf_emit_node(emitter, op, operands, count, attributes, type, tag);
    return node.id ? qf_node_result(emitter->graph, node, 0) : (qf_value){0};
}

static bool rewrite(qf_graph *graph, qf_node concat, qf_node first, qf_report *report) {
    qf_value parts[MAX_PARTS], old = qf_node_result(graph, concat, 0);
    uint32_t count = qf_node_at(graph, concat)->operand_count;
    qf_rewrite done = {.number = report->next_number - 1,
                       .rule = qf_intern_c(graph->context, "concat_of_dequantised"),
                       .numerics = QF_NUMERICS_EXACT,
                       .tag = qf_node_at(graph, concat)->tag};
    qf_location places[] = {qf_node_at(graph, concat)->location, qf_node_at(graph, first)->location};
    done.location = qf_location_fuse(graph, done.rule, places, QF_COUNT_OF(places));
    qf_emitter emitter = {.graph = graph, .before = concat, .location = done.location};
    for (uint32_t i = 0; i < count; i++) {
        qf_value part = qf_node_operand(graph, concat, i);
        uint32_t same = 0; /* what is repeated stays one value */
        while (same < i && qf_node_operand(graph, concat, same).id != part.id) same++;
        parts[i] = same < i ? parts[same] : layout_again(&emitter, part);
        if (!parts[i].id) return false;
    }
    qf_type type = qf_value_type(graph, old);
    qf_value scale = qf_node_operand(graph, first, QF_IN(dequantize, scale));
    qf_value joined = insert(&emitter, QF_OP_concat, parts, count, qf_node_at(graph, concat)->attributes,
                             qf_type_with_dtype(graph->context, type, qf_value_dtype(graph, parts[0])), done.tag);
    qf_value made = insert(&emitter, QF_OP_dequantize, (qf_value[]){joined, scale}, 2,
                           qf_node_at(graph, first)->attributes, joined.id ? type : (qf_type){0}, 0);
    if (!made.id) return false;
    qf_take_place(graph, old, made);
    qf_graph_erase(graph, concat);
    return qf_report_rewrite(report, &done);
}

qf_status qf_join_dequantised(qf_graph *graph, qf_report *report, bool *out_changed) {
    for (qf_node node = graph->first, next; node.id; node = next) {
        next = qf_node_at(graph, node)->next;
        uint32_t count = qf_node_at(graph, node)->operand_count;
        if (qf_node_op(graph, node) != QF_OP_concat || count > MAX_PARTS || !count) continue;
        qf_node first = dequantise_of(graph, qf_node_operand(graph, node, 0));
        bool all = first.id != 0;
        for (uint32_t i = 1; all && i < count; i++) {
            qf_node other = dequantise_of(graph, qf_node_operand(graph, node, i));
            all = other.id && alike(graph, first, other);
        }
        if (!all || !qf_report_may_rewrite(report)) continue;
        if (!rewrite(graph, node, first, report)) {
            qf_status status = qf_context_status(graph->context);
            return status != QF_OK ? status : QF_ERROR_OUT_OF_MEMORY;
        }
        *out_changed = true;
    }
    return qf_context_status(graph->context);
}
