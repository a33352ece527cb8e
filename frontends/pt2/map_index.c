/* Owns: mappings of reads and writes at indices that tensors hold.
 * Does not own: slices (map_layout.c), writes along one axis (map_scatter.c).
 * Next: map_scatter.c. */
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

/* gather where the other axes of self and of the indices broadcast to each other. */
qf_pt2_outcome qf_pt2_map_take_along(qf_pt2_call *call) {
    qf_value operands[] = {qf_pt2_in(call, "self"), qf_pt2_in(call, "indices")};
    qf_context *context = call->import->context;
    uint32_t axis, rank = qf_pt2_rank(call, operands[0]);
    if (rank > QF_MAX_RANK || rank == 0 || qf_pt2_rank(call, operands[1]) != rank || !qf_pt2_has(call, "dim"))
        return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), rank, &axis)) return QF_PT2_FAILED;
    for (uint32_t side = 0; side < 2; side++) {
        qf_dim dims[QF_MAX_RANK];
        for (uint32_t i = 0; i < rank; i++) {
            dims[i] = qf_pt2_dim_of(call, operands[side], (int32_t)i);
            if (i != axis && qf_dim_is(context, dims[i], 1))
                dims[i] = qf_pt2_dim_of(call, operands[1 - side], (int32_t)i);
        }
        operands[side] = qf_import_expand(qf_pt2_target(call), operands[side], dims, rank);
    }
    return qf_pt2_done(call, gather(call, QF_OP_gather_elements, operands[0], operands[1], axis));
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
    qf_value common = qf_pt2_binary(call, QF_OP_mul, shape, zero);
    for (uint32_t i = 0; i < list->count; i++) {
        qf_value item = qf_pt2_cast(call, list->items[i], qf_pt2_dtype_of(call, shape));
        if (i != widest) common = qf_pt2_binary(call, QF_OP_add, common, qf_pt2_binary(call, QF_OP_mul, item, zero));
        list->items[i] = item;
    }
    uint32_t rank = qf_pt2_rank(call, common);
    if (rank >= QF_MAX_RANK) return (qf_value){0};
    for (uint32_t i = 0; i < list->count; i++) {
        qf_value item = list->count == 1 ? list->items[i] : qf_pt2_binary(call, QF_OP_add, list->items[i], common);
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

/* The one index is a mask over leading axes of x, and `values` one number: *out_mask broadcasts to x then. */
static bool fills_a_mask(qf_pt2_call *call, qf_value x, qf_value values, qf_value *out_mask) {
    uint32_t *tensors, count, rank = qf_pt2_rank(call, x);
    qf_dim dims[QF_MAX_RANK];
    if (!qf_pt2_tensors(call, "indices", &tensors, &count) || count != 1 || !tensors[0] ||
        !qf_pt2_is_single(call, values))
        return false;
    qf_value mask = qf_pt2_read(call, tensors[0]);
    uint32_t own = qf_pt2_rank(call, mask);
    if (qf_pt2_dtype_of(call, mask) != QF_I1 || own > rank) return false;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i < own ? qf_pt2_dim_of(call, mask, (int32_t)i) : qf_pt2_constant(call, 1);
    *out_mask = qf_import_view(qf_pt2_target(call), mask, dims, rank);
    return out_mask->id != 0;
}

/* x [d0, d1, .., rest] with rows of values [index axes, rest] added at stacked [index axes, count]: tuples of d0, d1,
 * .. are places of one axis of rows. */
static qf_value add_at_tuples(qf_pt2_call *call, qf_value x, qf_value stacked, qf_value values, uint32_t count) {
    qf_context *context = call->import->context;
    qf_import_target to = qf_pt2_target(call);
    qf_dtype dtype = qf_pt2_dtype_of(call, stacked);
    uint32_t axis = qf_pt2_rank(call, stacked) - 1, rank = qf_pt2_rank(call, x);
    qf_dim rows[QF_MAX_RANK], all = qf_pt2_constant(call, 1);
    qf_value place = {0};
    for (uint32_t i = 0; i < count; i++) {
        qf_dim size = qf_pt2_dim_of(call, x, (int32_t)i);
        qf_value index =
            qf_pt2_slice_axis(call, stacked, axis, qf_pt2_constant(call, i), qf_pt2_constant(call, (int64_t)i + 1), 1);
        qf_value length = qf_pt2_cast(call, qf_pt2_symbolic(call, size), dtype);
        qf_value negative = qf_import_binary(to, QF_OP_less, index, qf_pt2_scalar(call, dtype, 0));
        index = qf_import_where(to, negative, qf_import_binary(to, QF_OP_add, index, length), index);
        place =
            place.id ? qf_import_binary(to, QF_OP_add, qf_import_binary(to, QF_OP_mul, place, length), index) : index;
        all = qf_dim_multiply(context, all, size);
    }
    qf_dim places = qf_dim_product(context, qf_value_dims(qf_pt2_graph(call), stacked), axis);
    place = qf_import_view(to, place, &places, 1);
    for (uint32_t i = count; i < rank; i++) rows[1 + i - count] = qf_pt2_dim_of(call, x, (int32_t)i);
    rows[0] = places;
    values = qf_import_view(to, values, rows, rank - count + 1);
    rows[0] = all;
    qf_value y = qf_pt2_add_rows(call, qf_import_view(to, x, rows, rank - count + 1), place, values);
    return y.id ? qf_import_view(to, y, qf_value_dims(qf_pt2_graph(call), x), rank) : y;
}

/* self with `values` at the indices, or with them added there. */
qf_pt2_outcome qf_pt2_map_index_put(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), values = qf_pt2_in(call, "values");
    index_list list;
    int64_t order[QF_MAX_RANK];
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank > QF_MAX_RANK || qf_pt2_rank(call, values) > QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    bool adds = qf_pt2_bool(call, "accumulate", false);
    if (adds && (qf_pt2_dtype_of(call, x) == QF_DTYPE_NONE || qf_pt2_dtype_of(call, x) == QF_I1))
        return qf_pt2_decline(call, "it adds elements of a type that has no sums");
    if (!adds && fills_a_mask(call, x, values, &list.items[0])) {
        values = qf_import_view(qf_pt2_target(call), qf_pt2_cast(call, values, qf_pt2_dtype_of(call, x)), NULL, 0);
        return qf_pt2_done(call, qf_import_where(qf_pt2_target(call), list.items[0], values, x));
    }
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
    qf_value y =
        adds ? add_at_tuples(call, turned, stacked, values, count)
             : qf_import_op(qf_pt2_target(call), QF_OP_scatter_nd, (qf_value[]){turned, stacked, values}, 3, NULL);
    if (!y.id && !call->import->failed) return qf_pt2_decline(call, "it compares every index with too many places");
    front_order(rank, first, count, true, order);
    return qf_pt2_done(call, y.id ? qf_pt2_permute(call, y, order, rank) : y);
}
