/* Owns: the walk from a contraction's operand to the tensor that the attention should read.
 * Does not own: single steps (trace.c, layout.c).
 * Next: attention.h. */
#include "patterns/operand.h"

static uint32_t atom_total(const qf_axes *axes) {
    uint32_t total = 0;
    for (uint32_t i = 0; i < axes->rank; i++) total += axes->axis[i].count;
    return total;
}

/* Above a quantise, which is elementwise: past layout, casts and scalar multiples, if a broadcast hides behind them.
 * Those that compute are done again on the smaller tensor, then quantised again. */
static void look_behind_quantise(qf_labelling *labels, const qf_pair *pair, qf_traced *out) {
    qf_graph *graph = labels->graph;
    qf_value value = qf_node_operand(graph, pair->quantize, QF_IN(quantize, x));
    qf_axes axes = pair->axes;
    qf_node again[QF_MAX_REPLAY];
    uint32_t count = 0;
    again[count++] = pair->quantize;
    qf_traced best = *out;
    for (;;) {
        qf_value source;
        qf_axes next;
        double factor;
        bool widens;
        if (qf_labelling_through_layout(labels, value, &axes, &source, &next)) {
            value = source;
            axes = next;
            if (!qf_labelling_resolve_all(labels, &axes) || !qf_labelling_resolve_all(labels, &best.axes)) break;
            if (atom_total(&axes) >= atom_total(&best.axes)) continue;
            best.value = value;
            best.axes = axes;
            best.again_count = count;
            for (uint32_t i = 0; i < count; i++) best.again[i] = again[count - 1 - i];
            continue;
        }
        bool computes =
            qf_is_float_cast(labels, value, &source, &widens) || qf_scalar_multiple(labels, value, &source, &factor);
        if (!computes || count == QF_MAX_REPLAY) break;
        again[count++] = qf_value_producer(graph, value);
        value = source;
    }
    *out = best;
}

static bool selects(const qf_graph *graph, qf_value value) {
    qf_node node = qf_value_producer(graph, value);
    qf_op op = qf_node_op(graph, node);
    return node.id && (qf_op_has_trait(op, QF_TRAIT_LAYOUT) || op == QF_OP_gather);
}

/* A per-tensor pair commutes with any selection of elements, so the selection may read the FP8 tensor instead. */
static void look_behind_selections(qf_labelling *labels, qf_traced *out) {
    qf_graph *graph = labels->graph;
    qf_value chain[QF_MAX_REPLAY], value = out->value;
    uint32_t count = 0;
    while (selects(graph, value)) {
        if (count == QF_MAX_REPLAY) return;
        chain[count++] = value;
        value = qf_node_operand(graph, qf_value_producer(graph, value), 0);
    }
    qf_axes axes = {.rank = qf_value_rank(graph, value)};
    qf_pair pair;
    if (!count || axes.rank == QF_UNRANKED || !qf_pair_read(labels, NULL, value, &axes, &pair)) return;
    if (!qf_dtype_is_float8(pair.dtype) || pair.scale_axis >= 0) return;
    out->packed = qf_node_operand(graph, pair.dequantize, QF_IN(dequantize, x));
    out->scale = pair.scale;
    out->dtype = pair.dtype;
    out->selection_count = count;
    for (uint32_t i = 0; i < count; i++) out->selections[i] = chain[count - 1 - i];
}

static bool take_pair(qf_labelling *labels, const qf_pair *pair, qf_traced *out) {
    out->value = pair->stored;
    out->axes = pair->axes;
    out->scale = pair->scale;
    out->scale_axis = pair->scale_axis;
    out->dtype = pair->dtype;
    if (!qf_labelling_resolve_all(labels, &out->axes)) return false;
    qf_pair own = *pair;
    own.axes = out->axes;
    if (!own.quantize.id) own.quantize = qf_producer_of_op(labels->graph, pair->stored, QF_OP_quantize);
    if (own.quantize.id && pair->scale_axis < 0) look_behind_quantise(labels, &own, out);
    return true;
}

bool qf_trace_operand(qf_labelling *labels, qf_value value, const qf_axes *axes, bool absorb_multiples, bool per_axis,
                      qf_traced *out) {
    qf_traced at = {.value = value, .axes = *axes, .multiplier = 1.0, .scale_axis = -1}, kept = at;
    bool may_keep = true; /* every step so far is fine without FP8 too */
    for (;;) {
        qf_pair pair;
        qf_value source;
        qf_axes next;
        double factor;
        bool widens;
        if (qf_pair_read(labels, NULL, at.value, &at.axes, &pair) && qf_dtype_is_float8(pair.dtype) &&
            (per_axis || pair.scale_axis < 0)) {
            *out = at;
            return take_pair(labels, &pair, out);
        }
        if (qf_labelling_through_layout(labels, at.value, &at.axes, &source, &next)) {
            at.axes = next;
        } else if (qf_is_float_cast(labels, at.value, &source, &widens)) {
            may_keep = may_keep && widens;
            at.rounding = at.rounding || !widens;
        } else if (qf_scalar_multiple(labels, at.value, &source, &factor)) {
            may_keep = may_keep && absorb_multiples;
            at.multiplier *= factor;
            at.rounding = true;
        } else {
            break;
        }
        at.value = source;
        if (may_keep) kept = at;
    }
    *out = kept;
    out->dtype = qf_value_dtype(labels->graph, out->value);
    if (!qf_labelling_resolve_all(labels, &out->axes)) return false;
    look_behind_selections(labels, out);
    return true;
}
