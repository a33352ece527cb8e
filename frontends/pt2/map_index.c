/* Owns: mappings of reads and writes at indices that tensors hold.
 * Does not own: slices (map_layout.c).
 * Next: map_quantise.c. */
#include "frontends/pt2/maps.h"

static const char no_shape[] = "the shape of its input is unknown";

static qf_value gather(qf_pt2_call *call, qf_op op, qf_value x, qf_value indices, uint32_t axis) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, op, attributes);
    attributes[QF_ATTR(gather, axis)].integer = axis; /* gather and gather_elements have the same columns */
    return qf_import_op(qf_pt2_target(call), op, (qf_value[]){x, indices}, 2, attributes);
}

qf_pt2_outcome qf_pt2_map_embedding(qf_pt2_call *call) {
    return qf_pt2_done(call, gather(call, QF_OP_gather, qf_pt2_in(call, "weight"), qf_pt2_in(call, "indices"), 0));
}

/* index_select and gather; row argument: the op. */
qf_pt2_outcome qf_pt2_map_gather(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK || qf_pt2_rank(call, x) == 0) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    return qf_pt2_done(call, gather(call, (qf_op)call->row->argument, x, qf_pt2_in(call, "index"), axis));
}

/* --- x[None, i, j]: `first` leading whole axes, then `count` tensors --- */
typedef struct index_list {
    qf_value items[QF_MAX_RANK];
    uint32_t first, count;
} index_list;

static const char *read_indices(qf_pt2_call *call, index_list *out) {
    uint32_t *tensors, count;
    *out = (index_list){.first = 0};
    if (!qf_pt2_tensors(call, "indices", &tensors, &count) || count > QF_MAX_RANK) return "its indices are not known";
    for (uint32_t i = 0; i < count; i++) {
        if (!tensors[i]) {
            if (out->count) return "its indexed axes do not follow each other";
            out->first++;
            continue;
        }
        qf_value index = qf_pt2_read(call, tensors[i]);
        qf_dtype dtype = qf_pt2_dtype_of(call, index);
        if (dtype != QF_I32 && dtype != QF_I64) return "it selects by a boolean mask";
        if (qf_pt2_rank(call, index) > QF_MAX_RANK) return no_shape;
        out->items[out->count++] = index;
    }
    return out->count ? NULL : "it has no indices";
}

/* All index tensors in one shape, stacked along a new last axis. */
static qf_value stack_indices(qf_pt2_call *call, index_list *list) {
    uint32_t widest = 0;
    for (uint32_t i = 1; i < list->count; i++)
        if (qf_pt2_rank(call, list->items[i]) > qf_pt2_rank(call, list->items[widest])) widest = i;
    /* Broadcast by adding zeros of each other's shape, which the type inference checks. */
    qf_value shape = list->items[widest];
    qf_value zero = qf_pt2_scalar(call, qf_pt2_dtype_of(call, shape), 0);
    qf_value common = qf_import_binary(qf_pt2_target(call), QF_OP_mul, shape, zero);
    for (uint32_t i = 0; i < list->count; i++) {
        qf_value item = qf_pt2_cast(call, list->items[i], qf_pt2_dtype_of(call, shape));
        if (i != widest)
            common = qf_import_binary(qf_pt2_target(call), QF_OP_add, common,
                                      qf_import_binary(qf_pt2_target(call), QF_OP_mul, item, zero));
        list->items[i] = item;
    }
    uint32_t rank = qf_pt2_rank(call, common);
    if (rank >= QF_MAX_RANK) return (qf_value){0};
    for (uint32_t i = 0; i < list->count; i++) {
        qf_value item = list->count == 1 ? list->items[i]
                                         : qf_import_binary(qf_pt2_target(call), QF_OP_add, list->items[i], common);
        list->items[i] = qf_pt2_unsqueeze(call, item, rank);
    }
    return qf_pt2_concat(call, list->items, list->count, rank);
}

/* The order that brings axes [first, first + count) to the front, or back. */
static void front_order(uint32_t rank, uint32_t first, uint32_t count, bool back, int64_t *out) {
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t from = i < count ? first + i : i < first + count ? i - count : i;
        if (back)
            out[from] = i;
        else
            out[i] = from;
    }
}

qf_pt2_outcome qf_pt2_map_index(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    index_list list;
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    const char *reason = read_indices(call, &list);
    if (reason) return qf_pt2_decline(call, reason);
    if (list.first + list.count + call->complex > rank)
        return qf_pt2_fault(call, QF_ERROR_VERIFY, "%s: %u indices of a tensor of rank %u", call->target,
                            list.first + list.count, rank - call->complex);
    if (list.count == 1) return qf_pt2_done(call, gather(call, QF_OP_gather, x, list.items[0], list.first));
    qf_value stacked = stack_indices(call, &list);
    uint32_t index_rank = qf_pt2_rank(call, stacked) - 1, result_rank = rank - list.count + index_rank;
    if (!stacked.id || result_rank > QF_MAX_RANK) return qf_pt2_decline(call, "it has more axes than QFuse has");
    /* gather_nd reads along the first axes, and its index axes come first. */
    int64_t order[QF_MAX_RANK];
    front_order(rank, list.first, list.count, false, order);
    x = qf_pt2_permute(call, x, order, rank);
    qf_value y = qf_import_op(qf_pt2_target(call), QF_OP_gather_nd, (qf_value[]){x, stacked}, 2, NULL);
    front_order(result_rank, list.first, index_rank, true, order);
    return qf_pt2_done(call, y.id && list.first ? qf_pt2_permute(call, y, order, result_rank) : y);
}

/* self with `values` at the indices. */
qf_pt2_outcome qf_pt2_map_index_put(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), values = qf_pt2_in(call, "values");
    index_list list;
    int64_t order[QF_MAX_RANK];
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK || qf_pt2_rank(call, values) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (qf_pt2_bool(call, "accumulate", false)) return qf_pt2_decline(call, "it adds to what is there");
    const char *reason = read_indices(call, &list);
    if (reason) return qf_pt2_decline(call, reason);
    uint32_t first = list.first, count = list.count;
    if (first + count > rank)
        return qf_pt2_fault(call, QF_ERROR_VERIFY, "%s: %u indices of a tensor of rank %u", call->target, first + count,
                            rank);
    qf_value stacked = stack_indices(call, &list);
    uint32_t index_rank = qf_pt2_rank(call, stacked) - 1, shape_rank = rank - count + index_rank;
    if (!stacked.id || shape_rank > QF_MAX_RANK) return qf_pt2_decline(call, "it has more axes than QFuse has");
    /* values broadcast to [whole axes before, index axes, rest]; scatter_nd wants the index axes first. */
    qf_dim dims[QF_MAX_RANK];
    for (uint32_t i = 0; i < shape_rank; i++)
        dims[i] = i < first                ? qf_pt2_dim_of(call, x, (int32_t)i)
                  : i < first + index_rank ? qf_pt2_dim_of(call, stacked, (int32_t)(i - first))
                                           : qf_pt2_dim_of(call, x, (int32_t)(i - index_rank + count));
    values =
        qf_import_expand(qf_pt2_target(call), qf_pt2_cast(call, values, qf_pt2_dtype_of(call, x)), dims, shape_rank);
    front_order(shape_rank, first, index_rank, false, order);
    values = qf_pt2_permute(call, values, order, shape_rank);
    front_order(rank, first, count, false, order);
    qf_value turned = qf_pt2_permute(call, x, order, rank);
    qf_value y = qf_import_op(qf_pt2_target(call), QF_OP_scatter_nd, (qf_value[]){turned, stacked, values}, 3, NULL);
    front_order(rank, first, count, true, order);
    return qf_pt2_done(call, y.id ? qf_pt2_permute(call, y, order, rank) : y);
}

/* --- writes along one axis --- */
static qf_value scatter_along(qf_pt2_call *call, qf_value x, qf_value indices, qf_value updates, uint32_t axis) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_scatter_elements, attributes);
    attributes[QF_ATTR(scatter_elements, axis)].integer = axis;
    return qf_import_op(qf_pt2_target(call), QF_OP_scatter_elements, (qf_value[]){x, indices, updates}, 3, attributes);
}

/* self with slice i of source at index[i]. */
qf_pt2_outcome qf_pt2_map_index_copy(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), index = qf_pt2_in(call, "index"), source = qf_pt2_in(call, "source");
    uint32_t axis, rank = qf_pt2_rank(call, x);
    qf_dim dims[QF_MAX_RANK];
    if (rank > QF_MAX_RANK || rank == 0 || qf_pt2_rank(call, source) != rank || qf_pt2_rank(call, index) > 1)
        return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), rank, &axis)) return QF_PT2_FAILED;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == axis ? qf_pt2_dim_of(call, source, (int32_t)i) : qf_pt2_constant(call, 1);
    index = qf_import_view(qf_pt2_target(call), index, dims, rank);
    index = qf_import_expand(qf_pt2_target(call), index, qf_value_dims(qf_pt2_graph(call), source), rank);
    return qf_pt2_done(call, scatter_along(call, x, index, qf_pt2_cast(call, source, qf_pt2_dtype_of(call, x)), axis));
}

qf_pt2_outcome qf_pt2_map_scatter(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), index = qf_pt2_in(call, "index"), source = qf_pt2_in(call, "src");
    uint32_t axis, rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK || rank == 0 || qf_pt2_rank(call, index) != rank) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), rank, &axis)) return QF_PT2_FAILED;
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    if (!source.id) {
        source =
            qf_pt2_filled(call, dtype, qf_pt2_number(call, "value", 0), qf_value_dims(qf_pt2_graph(call), index), rank);
    } else {
        for (uint32_t i = 0; i < rank; i++)
            if (!qf_dim_equal(qf_pt2_dim_of(call, source, (int32_t)i), qf_pt2_dim_of(call, index, (int32_t)i)))
                return qf_pt2_decline(call, "it writes a part of its source");
    }
    return qf_pt2_done(call, scatter_along(call, x, index, qf_pt2_cast(call, source, dtype), axis));
}
