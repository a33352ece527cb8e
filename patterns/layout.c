/* Owns: how labels pass backward through the ops that only move or repeat elements.
 * Does not own: atoms (labels.c), slices as index shifts in masks (mask_value.c).
 * Next: contraction.c. */
#include "patterns/trace.h"

static bool through_view(qf_labelling *labels, const qf_axes *axes, qf_value source, qf_axes *out) {
    qf_axis flat;
    return qf_labelling_flatten(labels, axes, &flat) &&
           qf_labelling_regroup(labels, flat, qf_value_dims(labels->graph, source),
                                qf_value_rank(labels->graph, source), out);
}

static bool through_permute(qf_labelling *labels, qf_node node, const qf_axes *axes, qf_axes *out) {
    const qf_attribute *order = qf_node_attribute(labels->graph, node, QF_ATTR(permute, order));
    *out = (qf_axes){.rank = axes->rank};
    if (order->count != axes->rank) return false;
    for (uint32_t i = 0; i < order->count; i++) out->axis[order->ints[i]] = axes->axis[i];
    return true;
}

static bool through_slice(qf_labelling *labels, qf_node node, qf_value value, qf_value source, const qf_axes *axes,
                          qf_axes *out) {
    const qf_attribute *steps = qf_node_attribute(labels->graph, node, QF_ATTR(slice, steps));
    for (uint32_t i = 0; i < steps->count; i++)
        if (steps->ints[i] != 1) return false;
    *out = *axes;
    return qf_same_dims(labels, value, source);
}

/* Axis `axis` of the result repeats the source's `count` elements: as blocks (outer false: each element r times in a
 * row) or as wholes (outer true: all elements, then again). */
static bool drop_repeat(qf_labelling *labels, const qf_axes *axes, uint32_t axis, qf_dim source, qf_dim repeats,
                        bool wholes, qf_axes *out) {
    qf_dim dims[2] = {wholes ? repeats : source, wholes ? source : repeats};
    qf_axes parts;
    *out = *axes;
    if (!qf_labelling_regroup(labels, axes->axis[axis], dims, 2, &parts)) return false;
    out->axis[axis] = parts.axis[wholes ? 1 : 0];
    return true;
}

/* concat(x, x, ...) repeats x as a whole. */
static bool through_concat(qf_labelling *labels, qf_node node, const qf_axes *axes, qf_value *source, qf_axes *out) {
    const qf_node_data *data = qf_node_at(labels->graph, node);
    if (!data->operand_count) return false;
    *source = data->operands[0].value;
    for (uint32_t i = 1; i < data->operand_count; i++)
        if (data->operands[i].value.id != source->id) return false;
    uint32_t axis = (uint32_t)data->attributes[QF_ATTR(concat, axis)].integer;
    if (axis >= axes->rank || qf_value_rank(labels->graph, *source) != axes->rank) return false;
    qf_dim repeats = qf_dim_constant(labels->context, data->operand_count);
    return drop_repeat(labels, axes, axis, qf_value_dims(labels->graph, *source)[axis], repeats, true, out);
}

/* The constant indices of a gather are i / r or i % n over all of n source entries. */
static bool repeat_of_indices(qf_labelling *labels, const qf_dim *indices, uint32_t count, int64_t entries,
                              bool *wholes) {
    if (entries <= 0 || count % entries) return false;
    int64_t repeats = (int64_t)count / entries;
    bool blocks = true, cycles = true;
    for (uint32_t i = 0; i < count; i++) {
        int64_t index;
        if (!qf_dim_is_constant(labels->context, indices[i], &index)) return false;
        if (index < 0) index += entries;
        blocks = blocks && index == (int64_t)i / repeats;
        cycles = cycles && index == (int64_t)i % entries;
    }
    *wholes = cycles;
    return blocks || cycles;
}

static bool through_gather(qf_labelling *labels, qf_node node, const qf_axes *axes, qf_value source, qf_axes *out) {
    qf_graph *graph = labels->graph;
    qf_value indices = qf_node_operand(graph, node, QF_IN(gather, indices));
    uint32_t axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(gather, axis))->integer;
    if (qf_value_rank(graph, indices) != 1 || qf_value_rank(graph, source) != axes->rank || axis >= axes->rank)
        return false;
    const qf_dim *elements;
    uint32_t count;
    int64_t entries;
    bool wholes;
    qf_dim source_dim = qf_value_dims(graph, source)[axis];
    if (!qf_dim_is_constant(labels->context, source_dim, &entries) || !labels->symbolic ||
        !qf_symbolic_elements(labels->symbolic, indices, &elements, &count) || !count ||
        !repeat_of_indices(labels, elements, count, entries, &wholes))
        return false;
    qf_dim repeats = qf_dim_constant(labels->context, (int64_t)count / entries);
    return drop_repeat(labels, axes, axis, source_dim, repeats, wholes, out);
}

bool qf_labelling_through_layout(qf_labelling *labels, qf_value value, const qf_axes *axes, qf_value *out_source,
                                 qf_axes *out) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_value_producer(graph, value);
    if (!node.id) return false;
    qf_value source = qf_node_operand(graph, node, 0);
    if (!source.id || qf_value_rank(graph, source) == QF_UNRANKED || qf_value_rank(graph, value) != axes->rank)
        return false;
    *out_source = source;
    switch (qf_node_op(graph, node)) {
    case QF_OP_copy: *out = *axes; return true;
    case QF_OP_view: return through_view(labels, axes, source, out);
    case QF_OP_permute: return through_permute(labels, node, axes, out);
    case QF_OP_expand: return qf_labelling_broadcast_value(labels, source, axes, out);
    case QF_OP_slice: return through_slice(labels, node, value, source, axes, out);
    case QF_OP_split: *out = *axes; return qf_same_dims(labels, value, source);
    case QF_OP_concat: return through_concat(labels, node, axes, out_source, out);
    case QF_OP_gather: return through_gather(labels, node, axes, source, out);
    default: return false;
    }
}
