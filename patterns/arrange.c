/* Owns: view, permute, expand chains and the few elementwise nodes of a rewrite.
 * Does not own: labels (labels.c).
 * Next: build.c. */
#include "patterns/arrange.h"

#include <string.h>

#include "base/convert.h"
#include "patterns/trace.h"

qf_node qf_emit_node(qf_emitter *emitter, qf_op op, const qf_value *operands, uint32_t operand_count,
                     const qf_attribute *attributes, qf_type type, uint64_t tag) {
    qf_node_spec spec = {.op = op,
                         .operands = operands,
                         .operand_count = operand_count,
                         .attributes = attributes,
                         .result_count = 1,
                         .result_types = &type,
                         .location = emitter->location,
                         .tag = tag};
    return type.id ? qf_graph_insert(emitter->graph, emitter->before, &spec) : (qf_node){0};
}

static qf_value emit(qf_emitter *emitter, qf_op op, const qf_value *operands, uint32_t operand_count,
                     const qf_attribute *attributes, qf_type type) {
    qf_node node = qf_emit_node(emitter, op, operands, operand_count, attributes, type, 0);
    return node.id ? qf_node_result(emitter->graph, node, 0) : (qf_value){0};
}

static bool dims_equal(const qf_graph *graph, qf_value value, const qf_dim *dims, uint32_t rank) {
    if (qf_value_rank(graph, value) != rank) return false;
    const qf_dim *have = qf_value_dims(graph, value);
    for (uint32_t i = 0; i < rank; i++)
        if (!qf_dim_equal(have[i], dims[i])) return false;
    return true;
}

static qf_value emit_shaped(qf_emitter *emitter, qf_op op, uint32_t attribute, qf_value value, const qf_dim *dims,
                            uint32_t rank) {
    qf_graph *graph = emitter->graph;
    if (!value.id || dims_equal(graph, value, dims, rank)) return value;
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {[0] = {.integer = 0}};
    attributes[attribute] = (qf_attribute){.dims = dims, .count = rank};
    return emit(emitter, op, &value, 1, attributes,
                qf_type_tensor(graph->context, qf_value_dtype(graph, value), dims, rank));
}

qf_value qf_emit_view(qf_emitter *emitter, qf_value value, const qf_dim *dims, uint32_t rank) {
    return emit_shaped(emitter, QF_OP_view, QF_ATTR(view, shape), value, dims, rank);
}

static qf_value emit_expand(qf_emitter *emitter, qf_value value, const qf_dim *dims, uint32_t rank) {
    return emit_shaped(emitter, QF_OP_expand, QF_ATTR(expand, shape), value, dims, rank);
}

static qf_value emit_permute(qf_emitter *emitter, qf_value value, const uint32_t *order, uint32_t rank) {
    qf_graph *graph = emitter->graph;
    qf_dim dims[QF_MAX_RANK];
    int64_t ints[QF_MAX_RANK];
    bool identity = true;
    if (!value.id) return value;
    const qf_dim *from = qf_value_dims(graph, value);
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = from[order[i]];
        ints[i] = order[i];
        identity = identity && order[i] == i;
    }
    if (identity) return value;
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {[QF_ATTR(permute, order)] = {.ints = ints, .count = rank}};
    return emit(emitter, QF_OP_permute, &value, 1, attributes,
                qf_type_tensor(graph->context, qf_value_dtype(graph, value), dims, rank));
}

qf_value qf_emit_slice(qf_emitter *emitter, qf_value value, uint32_t axis, qf_dim start, qf_dim end) {
    qf_graph *graph = emitter->graph;
    qf_dim starts[QF_MAX_RANK], dims[QF_MAX_RANK], ends[QF_MAX_RANK];
    int64_t steps[QF_MAX_RANK];
    if (!value.id) return value;
    uint32_t rank = qf_value_rank(graph, value);
    for (uint32_t i = 0; i < rank; i++) {
        starts[i] = i == axis ? start : qf_dim_constant(graph->context, 0);
        ends[i] = i == axis ? end : qf_value_dims(graph, value)[i];
        dims[i] = i == axis ? qf_dim_subtract(graph->context, end, start) : ends[i];
        steps[i] = 1;
    }
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {[QF_ATTR(slice, starts)] = {.dims = starts, .count = rank},
                                                  [QF_ATTR(slice, ends)] = {.dims = ends, .count = rank},
                                                  [QF_ATTR(slice, steps)] = {.ints = steps, .count = rank}};
    return emit(emitter, QF_OP_slice, &value, 1, attributes,
                qf_type_tensor(graph->context, qf_value_dtype(graph, value), dims, rank));
}

qf_value qf_emit_cast(qf_emitter *emitter, qf_value value, qf_dtype dtype) {
    qf_graph *graph = emitter->graph;
    if (!value.id || qf_value_dtype(graph, value) == dtype) return value;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(graph, QF_OP_cast, attributes);
    attributes[QF_ATTR(cast, dtype)].integer = dtype;
    return emit(emitter, QF_OP_cast, &value, 1, attributes,
                qf_type_with_dtype(graph->context, qf_value_type(graph, value), dtype));
}

qf_value qf_emit_unary(qf_emitter *emitter, qf_op op, qf_value value) {
    if (!value.id) return value;
    return emit(emitter, op, &value, 1, NULL, qf_value_type(emitter->graph, value));
}

qf_value qf_emit_binary(qf_emitter *emitter, qf_op op, qf_value a, qf_value b, const qf_dim *dims, uint32_t rank) {
    if (!a.id || !b.id) return (qf_value){0};
    qf_value operands[2] = {a, b};
    return emit(emitter, op, operands, 2, NULL,
                qf_type_tensor(emitter->graph->context, qf_value_dtype(emitter->graph, a), dims, rank));
}

qf_value qf_emit_scalar(qf_emitter *emitter, qf_dtype dtype, double number) {
    uint8_t bytes[8] = {0};
    qf_type type = qf_type_tensor(emitter->graph->context, dtype, NULL, 0);
    qf_store_f64(dtype, bytes, 0, number, true);
    qf_literal literal = {.type = type, .size = qf_dtype_bytes(dtype, 1), .data = bytes};
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {[QF_ATTR(constant, value)] = {.literal = &literal}};
    return emit(emitter, QF_OP_constant, NULL, 0, attributes, type);
}

qf_value qf_emit_scaled(qf_emitter *emitter, qf_op op, qf_value scale, qf_value factor) {
    scale = qf_emit_cast(emitter, qf_emit_view(emitter, scale, NULL, 0), QF_F32);
    factor = qf_emit_cast(emitter, qf_emit_view(emitter, factor, NULL, 0), QF_F32);
    return qf_emit_binary(emitter, op, scale, factor, NULL, 0);
}

/* The operand that is no scalar. */
static uint32_t wide_operand(const qf_graph *graph, const qf_labelling *labels, qf_node node) {
    qf_value b = qf_node_operand(graph, node, 1);
    bool second = qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_COMMUTATIVE) &&
                  !qf_same_dims(labels, qf_node_operand(graph, node, 0), qf_node_result(graph, node, 0)) &&
                  qf_same_dims(labels, b, qf_node_result(graph, node, 0));
    return second ? 1 : 0;
}

qf_value qf_emit_again(qf_emitter *emitter, qf_node node, uint32_t index, qf_value source) {
    qf_graph *graph = emitter->graph;
    qf_value operands[8];
    qf_type types[64];
    uint32_t operand_count = qf_node_at(graph, node)->operand_count,
             result_count = qf_node_at(graph, node)->result_count;
    if (!source.id || operand_count > QF_COUNT_OF(operands) || result_count > QF_COUNT_OF(types)) return (qf_value){0};
    for (uint32_t i = 0; i < operand_count; i++) operands[i] = qf_node_operand(graph, node, i);
    uint32_t main_operand = wide_operand(graph, emitter->labels, node);
    operands[main_operand] = source;
    for (uint32_t i = 0; i < operand_count; i++) /* a scalar of higher rank would widen the result */
        if (i != main_operand && operands[i].id && qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_ELEMENTWISE) &&
            qf_value_rank(graph, operands[i]) > qf_value_rank(graph, source))
            operands[i] = qf_emit_view(emitter, operands[i], NULL, 0);
    bool moves = qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_LAYOUT) || qf_node_op(graph, node) == QF_OP_gather;
    for (uint32_t i = 0; i < result_count; i++) {
        qf_value old = qf_node_result(graph, node, i);
        types[i] = moves ? qf_type_with_dtype(graph->context, qf_value_type(graph, old), qf_value_dtype(graph, source))
                         : qf_type_with_dtype(graph->context, qf_value_type(graph, source), qf_value_dtype(graph, old));
    }
    qf_node_spec spec = {.op = qf_node_op(graph, node),
                         .operands = operands,
                         .operand_count = operand_count,
                         .attributes = qf_node_at(graph, node)->attributes,
                         .result_count = result_count,
                         .result_types = types,
                         .location = qf_node_at(graph, node)->location};
    qf_node made = qf_graph_insert(graph, emitter->before, &spec);
    return made.id ? qf_node_result(graph, made, index) : (qf_value){0};
}

/* --- arranging --- */

/* A run of atoms that stay together on the way, or one that the value lacks. */
typedef struct unit {
    qf_axis atoms;
    uint32_t axis;       /* of the target */
    uint32_t source;     /* position among the value's units; UINT32_MAX: missing */
    uint32_t flat_start; /* first atom in the value's flat order */
} unit;

typedef struct units {
    unit items[2 * QF_MAX_RANK];
    uint32_t count, present;
} units;

static uint32_t flat_position(qf_axis flat, qf_atom_id atom) {
    for (uint32_t i = 0; i < flat.count; i++)
        if (flat.atoms[i] == atom) return i;
    return UINT32_MAX;
}

/* Units in the order of the target. */
static bool cut_into_units(qf_axis flat, const qf_axes *target, units *out) {
    out->count = out->present = 0;
    uint32_t found = 0;
    for (uint32_t axis = 0; axis < target->rank; axis++) {
        const qf_axis list = target->axis[axis];
        for (uint32_t i = 0; i < list.count; i++) {
            uint32_t position = flat_position(flat, list.atoms[i]);
            unit *last = out->count ? &out->items[out->count - 1] : NULL;
            bool joins = last && i > 0 && last->axis == axis &&
                         (position == UINT32_MAX
                              ? last->source == UINT32_MAX
                              : last->source != UINT32_MAX && position == last->flat_start + last->atoms.count);
            found += position != UINT32_MAX;
            if (joins) {
                last->atoms.count++; /* lists of one target axis are contiguous */
                continue;
            }
            if (out->count == QF_COUNT_OF(out->items)) return false;
            out->items[out->count++] = (unit){.atoms = {1, &list.atoms[i]},
                                              .axis = axis,
                                              .source = position == UINT32_MAX ? UINT32_MAX : 0,
                                              .flat_start = position};
        }
    }
    for (uint32_t i = 0; i < out->count; i++) {
        if (out->items[i].source == UINT32_MAX) continue;
        out->present++;
        for (uint32_t j = 0; j < out->count; j++)
            if (out->items[j].source != UINT32_MAX && out->items[j].flat_start < out->items[i].flat_start)
                out->items[i].source++;
    }
    return found == flat.count && out->present <= QF_MAX_RANK;
}

static bool axis_present(const units *list, uint32_t axis) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].axis == axis && list->items[i].source != UINT32_MAX) return true;
    return false;
}

/* Repeats the missing units that are wanted. */
static qf_value repeat_missing(qf_emitter *emitter, qf_value value, const units *list, bool expand) {
    qf_dim narrow[2 * QF_MAX_RANK], wide[2 * QF_MAX_RANK], one = qf_dim_constant(emitter->graph->context, 1);
    uint32_t rank = 0;
    bool any = false;
    for (uint32_t i = 0; i < list->count; i++) {
        const unit *item = &list->items[i];
        bool missing = item->source == UINT32_MAX;
        if (missing && !expand && !axis_present(list, item->axis)) continue;
        wide[rank] = qf_labelling_extent(emitter->labels, item->atoms);
        narrow[rank] = missing ? one : wide[rank];
        any = any || missing;
        rank++;
    }
    if (!any) return value;
    if (rank > QF_MAX_RANK) return (qf_value){0};
    return emit_expand(emitter, qf_emit_view(emitter, value, narrow, rank), wide, rank);
}

qf_value qf_arrange(qf_emitter *emitter, qf_value value, const qf_axes *axes, const qf_axes *target, bool expand) {
    qf_labelling *labels = emitter->labels;
    qf_axis flat;
    units list;
    if (!value.id || !qf_labelling_flatten(labels, axes, &flat) || !cut_into_units(flat, target, &list))
        return (qf_value){0};
    qf_dim dims[QF_MAX_RANK], one = qf_dim_constant(labels->context, 1);
    uint32_t order[QF_MAX_RANK], at = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        if (list.items[i].source == UINT32_MAX) continue;
        dims[list.items[i].source] = qf_labelling_extent(labels, list.items[i].atoms);
        order[at++] = list.items[i].source;
    }
    bool in_order = true;
    for (uint32_t i = 0; i < at; i++) in_order = in_order && order[i] == i;
    if (!in_order) value = emit_permute(emitter, qf_emit_view(emitter, value, dims, list.present), order, list.present);
    value = repeat_missing(emitter, value, &list, expand);
    for (uint32_t i = 0; i < target->rank; i++)
        dims[i] = expand || axis_present(&list, i) ? qf_labelling_extent(labels, target->axis[i]) : one;
    return qf_emit_view(emitter, value, dims, target->rank);
}

void qf_take_place(qf_graph *graph, qf_value from, qf_value to) {
    qf_graph_replace_all_uses(graph, from, to);
    qf_value_at(graph, to)->name = qf_value_at(graph, from)->name;
}
