/* Owns: operations that move, repeat and select elements, and those that read shapes.
 * Does not own: what the values are.
 * Next: maps.h. */
#include "frontends/mlir/maps.h"

static const char dynamic_result[] = "its result has dynamic dims";
static const char odd_numbers[] = "its numbers are missing, or not constants";

/* --- shapes --- */
qf_mlir_outcome qf_mlir_map_reshape(qf_mlir_call *call) {
    const qf_dim *dims;
    uint32_t rank;
    if (!qf_mlir_result_dims(call, &dims, &rank)) return qf_mlir_decline(call, dynamic_result);
    return qf_mlir_done(call, qf_import_view(qf_mlir_target(call), qf_mlir_in(call, 0), dims, rank));
}

/* The other operands are sizes, which the result's type has as well. */
qf_mlir_outcome qf_mlir_map_reshape_first(qf_mlir_call *call) {
    if (!call->operand_count || call->result_count != 1) return qf_mlir_decline(call, odd_numbers);
    return qf_mlir_map_reshape(call);
}

/* The elements of an operand as dims. */
static bool shape_operand(qf_mlir_call *call, uint32_t index, const qf_dim **out, uint32_t *out_count) {
    return qf_symbolic_elements(call->import->symbolic, qf_mlir_in(call, index), out, out_count) &&
           *out_count <= QF_MAX_RANK;
}

qf_mlir_outcome qf_mlir_map_dynamic_reshape(qf_mlir_call *call) {
    const qf_dim *dims;
    uint32_t rank;
    if (!shape_operand(call, 1, &dims, &rank)) return qf_mlir_decline(call, "the shape that it makes is not known");
    return qf_mlir_done(call, qf_import_view(qf_mlir_target(call), qf_mlir_in(call, 0), dims, rank));
}

qf_mlir_outcome qf_mlir_map_transpose(qf_mlir_call *call) {
    int64_t order[QF_MAX_RANK];
    uint32_t rank = qf_mlir_rank(call, qf_mlir_in(call, 0)), count, seen = 0;
    if (rank > QF_MAX_RANK) return qf_mlir_decline(call, "the shape of its operand is not known");
    if (!qf_mlir_ints(call, "permutation", order, QF_MAX_RANK, &count) || count != rank)
        return qf_mlir_decline(call, odd_numbers);
    for (uint32_t i = 0; i < rank; i++)
        if (order[i] >= 0 && order[i] < (int64_t)rank) seen |= 1u << order[i];
    if (seen != (1u << rank) - 1) return qf_mlir_decline(call, "its permutation is none");
    return qf_mlir_done(call, qf_mlir_permute(call, qf_mlir_in(call, 0), order, rank));
}

qf_mlir_outcome qf_mlir_map_transpose_first(qf_mlir_call *call) {
    return qf_mlir_map_transpose(call);
}

static qf_mlir_outcome spread(qf_mlir_call *call, const int64_t *axes, uint32_t count, const qf_dim *dims,
                              uint32_t rank) {
    qf_value y = qf_mlir_spread(call, qf_mlir_in(call, 0), axes, count, dims, rank);
    if (!y.id && !call->import->failed) return qf_mlir_decline(call, "its dimensions do not fit its operand");
    return qf_mlir_done(call, y);
}

qf_mlir_outcome qf_mlir_map_broadcast(qf_mlir_call *call) {
    const qf_dim *dims;
    int64_t axes[QF_MAX_RANK];
    uint32_t rank, count;
    if (!qf_mlir_result_dims(call, &dims, &rank)) return qf_mlir_decline(call, dynamic_result);
    if (!qf_mlir_ints(call, "broadcast_dimensions", axes, QF_MAX_RANK, &count))
        return qf_mlir_decline(call, odd_numbers);
    return spread(call, axes, count, dims, rank);
}

qf_mlir_outcome qf_mlir_map_dynamic_broadcast(qf_mlir_call *call) {
    const qf_dim *dims;
    int64_t axes[QF_MAX_RANK];
    uint32_t rank, count;
    if (call->operand_count != 2 || call->result_count != 1) return qf_mlir_decline(call, odd_numbers);
    if (!shape_operand(call, 1, &dims, &rank)) return qf_mlir_decline(call, "the shape that it makes is not known");
    if (!qf_mlir_ints(call, "broadcast_dimensions", axes, QF_MAX_RANK, &count))
        return qf_mlir_decline(call, odd_numbers);
    return spread(call, axes, count, dims, rank);
}

/* linalg: `dimensions` are the axes of the result that its operand lacks. */
qf_mlir_outcome qf_mlir_map_linalg_broadcast(qf_mlir_call *call) {
    int64_t added[QF_MAX_RANK], axes[QF_MAX_RANK];
    uint32_t count, rank = qf_mlir_rank(call, qf_mlir_in(call, 1)), next = 0;
    if (rank > QF_MAX_RANK || !qf_mlir_ints(call, "dimensions", added, QF_MAX_RANK, &count))
        return qf_mlir_decline(call, odd_numbers);
    for (uint32_t i = 0; i < rank; i++) {
        bool is_new = false;
        for (uint32_t j = 0; j < count; j++) is_new |= added[j] == (int64_t)i;
        if (!is_new) axes[next++] = i;
    }
    return spread(call, axes, next, qf_value_dims(qf_mlir_graph(call), qf_mlir_in(call, 1)), rank);
}

/* --- parts --- */
/* Starts, ends and steps within the operand, one an axis. */
static qf_value emit_slice(qf_mlir_call *call, qf_value x, const int64_t *starts, const int64_t *ends,
                           const int64_t *steps, uint32_t rank) {
    qf_dim from[QF_MAX_RANK], to[QF_MAX_RANK];
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    for (uint32_t i = 0; i < rank; i++) {
        from[i] = qf_mlir_constant(call, starts[i]);
        to[i] = qf_mlir_constant(call, ends[i]);
        if (!from[i].id || !to[i].id) return (qf_value){0};
    }
    qf_mlir_defaults(call, QF_OP_slice, attributes);
    attributes[QF_ATTR(slice, starts)] = (qf_attribute){.dims = from, .count = rank};
    attributes[QF_ATTR(slice, ends)] = (qf_attribute){.dims = to, .count = rank};
    attributes[QF_ATTR(slice, steps)] = (qf_attribute){.ints = steps, .count = rank};
    return qf_import_op(qf_mlir_target(call), QF_OP_slice, &x, 1, attributes);
}

/* Within constant dims; hostile numbers end here. */
static bool fits(qf_mlir_call *call, qf_value x, const int64_t *starts, const int64_t *ends, const int64_t *steps,
                 uint32_t rank) {
    for (uint32_t i = 0; i < rank; i++) {
        int64_t size;
        if (!qf_dim_is_constant(call->import->context, qf_mlir_dim_of(call, x, i), &size)) size = INT64_MAX;
        if (starts[i] < 0 || ends[i] < starts[i] || ends[i] > size || steps[i] < 1) return false;
    }
    return true;
}

qf_mlir_outcome qf_mlir_map_slice(qf_mlir_call *call) {
    int64_t starts[QF_MAX_RANK], ends[QF_MAX_RANK], steps[QF_MAX_RANK];
    uint32_t counts[3], rank = qf_mlir_rank(call, qf_mlir_in(call, 0));
    bool read = qf_mlir_ints(call, "start_indices", starts, QF_MAX_RANK, &counts[0]) &&
                qf_mlir_ints(call, "limit_indices", ends, QF_MAX_RANK, &counts[1]) &&
                qf_mlir_ints(call, "strides", steps, QF_MAX_RANK, &counts[2]);
    if (!read || counts[0] != rank || counts[1] != rank || counts[2] != rank ||
        !fits(call, qf_mlir_in(call, 0), starts, ends, steps, rank))
        return qf_mlir_decline(call, odd_numbers);
    return qf_mlir_done(call, emit_slice(call, qf_mlir_in(call, 0), starts, ends, steps, rank));
}

/* tensor.extract_slice: offsets, sizes and strides that are all constants; the result may lack axes of size 1. */
qf_mlir_outcome qf_mlir_map_extract_slice(qf_mlir_call *call) {
    int64_t starts[QF_MAX_RANK], sizes[QF_MAX_RANK], steps[QF_MAX_RANK], ends[QF_MAX_RANK];
    uint32_t counts[3], rank = qf_mlir_rank(call, qf_mlir_in(call, 0)), result_rank;
    const qf_dim *dims;
    bool read = call->operand_count == 1 && call->result_count == 1 &&
                qf_mlir_ints(call, "static_offsets", starts, QF_MAX_RANK, &counts[0]) &&
                qf_mlir_ints(call, "static_sizes", sizes, QF_MAX_RANK, &counts[1]) &&
                qf_mlir_ints(call, "static_strides", steps, QF_MAX_RANK, &counts[2]);
    if (!read || counts[0] != rank || counts[1] != rank || counts[2] != rank) return qf_mlir_decline(call, odd_numbers);
    for (uint32_t i = 0; i < rank; i++) {
        bool small = sizes[i] >= 0 && steps[i] >= 1 && sizes[i] <= INT32_MAX && steps[i] <= INT32_MAX &&
                     starts[i] >= 0 && starts[i] <= INT64_MAX / 2;
        if (!small) return qf_mlir_decline(call, odd_numbers);
        ends[i] = sizes[i] ? starts[i] + (sizes[i] - 1) * steps[i] + 1 : starts[i];
    }
    if (!fits(call, qf_mlir_in(call, 0), starts, ends, steps, rank)) return qf_mlir_decline(call, odd_numbers);
    if (!qf_mlir_result_dims(call, &dims, &result_rank)) return qf_mlir_decline(call, dynamic_result);
    qf_value part = emit_slice(call, qf_mlir_in(call, 0), starts, ends, steps, rank);
    return qf_mlir_done(call, qf_import_view(qf_mlir_target(call), part, dims, result_rank));
}

qf_mlir_outcome qf_mlir_map_reverse(qf_mlir_call *call) {
    int64_t axes[QF_MAX_RANK], starts[QF_MAX_RANK], ends[QF_MAX_RANK], steps[QF_MAX_RANK];
    uint32_t count, rank = qf_mlir_rank(call, qf_mlir_in(call, 0));
    if (rank > QF_MAX_RANK || !qf_mlir_ints(call, "dimensions", axes, QF_MAX_RANK, &count))
        return qf_mlir_decline(call, odd_numbers);
    for (uint32_t i = 0; i < rank; i++) {
        if (!qf_dim_is_constant(call->import->context, qf_mlir_dim_of(call, qf_mlir_in(call, 0), i), &ends[i]) ||
            !ends[i])
            return qf_mlir_decline(call, "the shape of its operand is not known");
        starts[i] = 0;
        steps[i] = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (axes[i] < 0 || axes[i] >= (int64_t)rank) return qf_mlir_decline(call, odd_numbers);
        starts[axes[i]] = ends[axes[i]] - 1;
        ends[axes[i]] = -1;
        steps[axes[i]] = -1;
    }
    return qf_mlir_done(call, emit_slice(call, qf_mlir_in(call, 0), starts, ends, steps, rank));
}

static qf_mlir_outcome concat(qf_mlir_call *call, const char *attribute) {
    int64_t axis = qf_mlir_int(call, attribute, -1);
    uint32_t rank = qf_mlir_rank(call, qf_mlir_in(call, 0));
    if (!call->operand_count || call->result_count != 1 || rank > QF_MAX_RANK || axis < 0 || axis >= (int64_t)rank)
        return qf_mlir_decline(call, odd_numbers);
    return qf_mlir_done(call,
                        qf_import_concat(qf_mlir_target(call), call->operands, call->operand_count, (uint32_t)axis));
}

qf_mlir_outcome qf_mlir_map_concatenate(qf_mlir_call *call) {
    return concat(call, "dimension");
}

qf_mlir_outcome qf_mlir_map_concat(qf_mlir_call *call) {
    return concat(call, "dim");
}

qf_mlir_outcome qf_mlir_map_from_elements(qf_mlir_call *call) {
    const qf_dim *dims;
    uint32_t rank;
    qf_dim one = qf_mlir_constant(call, 1);
    if (!call->operand_count || call->result_count != 1 || !qf_mlir_result_dims(call, &dims, &rank))
        return qf_mlir_decline(call, dynamic_result);
    for (uint32_t i = 0; i < call->operand_count; i++) {
        call->operands[i] = qf_import_view(qf_mlir_target(call), call->operands[i], &one, 1);
        if (!call->operands[i].id) return QF_MLIR_FAILED;
    }
    qf_value all = call->operand_count == 1
                       ? call->operands[0]
                       : qf_import_concat(qf_mlir_target(call), call->operands, call->operand_count, 0);
    return qf_mlir_done(call, qf_import_view(qf_mlir_target(call), all, dims, rank));
}

qf_mlir_outcome qf_mlir_map_pad(qf_mlir_call *call) {
    int64_t low[QF_MAX_RANK], high[QF_MAX_RANK], inner[QF_MAX_RANK];
    qf_dim before[QF_MAX_RANK], after[QF_MAX_RANK];
    uint32_t counts[3], rank = qf_mlir_rank(call, qf_mlir_in(call, 0));
    bool read = qf_mlir_ints(call, "edge_padding_low", low, QF_MAX_RANK, &counts[0]) &&
                qf_mlir_ints(call, "edge_padding_high", high, QF_MAX_RANK, &counts[1]) &&
                qf_mlir_ints(call, "interior_padding", inner, QF_MAX_RANK, &counts[2]);
    if (!read || counts[0] != rank || counts[1] != rank || counts[2] != rank) return qf_mlir_decline(call, odd_numbers);
    for (uint32_t i = 0; i < rank; i++) {
        if (inner[i]) return qf_mlir_decline(call, "it pads between elements");
        before[i] = qf_mlir_constant(call, low[i]);
        after[i] = qf_mlir_constant(call, high[i]);
    }
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_mlir_defaults(call, QF_OP_pad, attributes);
    attributes[QF_ATTR(pad, before)] = (qf_attribute){.dims = before, .count = rank};
    attributes[QF_ATTR(pad, after)] = (qf_attribute){.dims = after, .count = rank};
    return qf_mlir_done(call, qf_import_op(qf_mlir_target(call), QF_OP_pad, call->operands, 2, attributes));
}

/* --- gather: whole slices along one axis, at indices that StableHLO clips --- */
typedef struct gather_form {
    int64_t offset_dims[QF_MAX_RANK], collapsed[QF_MAX_RANK], map[QF_MAX_RANK], batching[QF_MAX_RANK];
    uint32_t offset_count, collapsed_count, map_count, batching_count;
    int64_t axis, index_vector_dim;
} gather_form;

static bool read_gather(qf_mlir_call *call, gather_form *form) {
    const char *text = qf_mlir_printed(call, "dimension_numbers");
    if (!text) return false;
    (void)qf_mlir_printed_ints(text, "offset_dims", form->offset_dims, QF_MAX_RANK, &form->offset_count);
    (void)qf_mlir_printed_ints(text, "collapsed_slice_dims", form->collapsed, QF_MAX_RANK, &form->collapsed_count);
    (void)qf_mlir_printed_ints(text, "start_index_map", form->map, QF_MAX_RANK, &form->map_count);
    (void)qf_mlir_printed_ints(text, "operand_batching_dims", form->batching, QF_MAX_RANK, &form->batching_count);
    form->index_vector_dim = qf_mlir_printed_int(text, "index_vector_dim", 0);
    form->axis = form->map[0];
    return form->map_count == 1 && form->collapsed_count == 1 && !form->batching_count &&
           form->collapsed[0] == form->map[0];
}

static bool takes_whole_slices(qf_mlir_call *call, const gather_form *form, uint32_t rank) {
    int64_t sizes[QF_MAX_RANK];
    uint32_t count;
    if (!qf_mlir_ints(call, "slice_sizes", sizes, QF_MAX_RANK, &count) || count != rank) return false;
    for (uint32_t i = 0; i < rank; i++) {
        bool whole = qf_dim_is(call->import->context, qf_mlir_dim_of(call, qf_mlir_in(call, 0), i), sizes[i]);
        if (i == (uint32_t)form->axis ? sizes[i] != 1 : !whole) return false;
    }
    return form->offset_count == rank - 1;
}

/* From x[.., indices, ..] to the order that offset_dims ask for: they hold x's axes, the others the indices'. */
static qf_value order_gathered(qf_mlir_call *call, const gather_form *form, qf_value y, uint32_t index_rank) {
    int64_t order[QF_MAX_RANK];
    uint32_t rank = qf_mlir_rank(call, y), next_index = (uint32_t)form->axis, next_offset = 0;
    if (rank > QF_MAX_RANK || rank != form->offset_count + index_rank) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++) {
        bool offset = next_offset < form->offset_count && form->offset_dims[next_offset] == (int64_t)i;
        uint32_t axis = next_offset < (uint32_t)form->axis ? next_offset : next_offset + index_rank;
        if (!offset && next_index >= (uint32_t)form->axis + index_rank) return (qf_value){0};
        order[i] = offset ? axis : next_index++;
        next_offset += offset;
    }
    return qf_mlir_permute(call, y, order, rank);
}

qf_mlir_outcome qf_mlir_map_gather(qf_mlir_call *call) {
    static const char other[] = "it gathers otherwise than whole slices along one axis";
    gather_form form = {{0}, {0}, {0}, {0}, 0, 0, 0, 0, 0, 0};
    qf_value x = qf_mlir_in(call, 0), indices = qf_mlir_in(call, 1);
    uint32_t rank = qf_mlir_rank(call, x), index_rank = qf_mlir_rank(call, indices);
    qf_dtype dtype = qf_mlir_dtype_of(call, indices);
    int64_t size;
    if (rank > QF_MAX_RANK || index_rank > QF_MAX_RANK || !read_gather(call, &form) || form.axis < 0 ||
        form.axis >= (int64_t)rank || !takes_whole_slices(call, &form, rank) || (dtype != QF_I32 && dtype != QF_I64) ||
        !qf_dim_is_constant(call->import->context, qf_mlir_dim_of(call, x, (uint32_t)form.axis), &size) || !size)
        return call->import->failed ? QF_MLIR_FAILED : qf_mlir_decline(call, other);
    if (form.index_vector_dim == (int64_t)index_rank - 1) { /* vectors of one index */
        if (!qf_dim_is(call->import->context, qf_mlir_dim_of(call, indices, index_rank - 1), 1))
            return qf_mlir_decline(call, other);
        index_rank--;
        indices =
            qf_import_view(qf_mlir_target(call), indices, qf_value_dims(qf_mlir_graph(call), indices), index_rank);
    } else if (form.index_vector_dim != (int64_t)index_rank) {
        return qf_mlir_decline(call, other);
    }
    qf_value first = qf_mlir_scalar(call, dtype, 0), last = qf_mlir_scalar(call, dtype, (double)(size - 1));
    qf_value within = qf_import_clamp(qf_mlir_target(call), indices, first, last);
    qf_value y = qf_import_gather(qf_mlir_target(call), x, within, (uint32_t)form.axis);
    y = order_gathered(call, &form, y, index_rank);
    if (!y.id && !call->import->failed) return qf_mlir_decline(call, other);
    return qf_mlir_done(call, y);
}

/* --- numbers of shapes --- */
static qf_mlir_outcome size_of(qf_mlir_call *call, int64_t axis, qf_dtype dtype) {
    uint32_t rank = qf_mlir_rank(call, qf_mlir_in(call, 0));
    if (rank > QF_MAX_RANK || axis < 0 || axis >= (int64_t)rank) return qf_mlir_decline(call, odd_numbers);
    qf_dim dim = qf_mlir_dim_of(call, qf_mlir_in(call, 0), (uint32_t)axis);
    return qf_mlir_done(call, qf_mlir_cast(call, qf_import_symbolic(qf_mlir_target(call), &dim, 1, true), dtype));
}

qf_mlir_outcome qf_mlir_map_dimension_size(qf_mlir_call *call) {
    return size_of(call, qf_mlir_int(call, "dimension", -1), QF_I32);
}

qf_mlir_outcome qf_mlir_map_tensor_dim(qf_mlir_call *call) {
    double axis;
    if (!qf_mlir_uniform(call, qf_mlir_in(call, 1), &axis)) return qf_mlir_decline(call, odd_numbers);
    return size_of(call, (int64_t)axis, QF_I64);
}

/* --- from nothing --- */
static qf_mlir_outcome iota(qf_mlir_call *call, const qf_dim *dims, uint32_t rank) {
    int64_t axis = qf_mlir_int(call, "iota_dimension", -1);
    qf_dtype dtype = qf_mlir_result_dtype(call);
    if (axis < 0 || axis >= (int64_t)rank || dtype == QF_DTYPE_NONE) return qf_mlir_decline(call, odd_numbers);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_mlir_defaults(call, QF_OP_iota, attributes);
    attributes[QF_ATTR(iota, shape)] = (qf_attribute){.dims = dims, .count = rank};
    attributes[QF_ATTR(iota, axis)].integer = axis;
    attributes[QF_ATTR(iota, dtype)].integer = dtype;
    return qf_mlir_done(call, qf_import_op(qf_mlir_target(call), QF_OP_iota, NULL, 0, attributes));
}

qf_mlir_outcome qf_mlir_map_iota(qf_mlir_call *call) {
    const qf_dim *dims;
    uint32_t rank;
    if (!qf_mlir_result_dims(call, &dims, &rank)) return qf_mlir_decline(call, dynamic_result);
    return iota(call, dims, rank);
}

qf_mlir_outcome qf_mlir_map_dynamic_iota(qf_mlir_call *call) {
    const qf_dim *dims;
    uint32_t rank;
    if (!shape_operand(call, 0, &dims, &rank)) return qf_mlir_decline(call, "the shape that it makes is not known");
    return iota(call, dims, rank);
}

/* Elements that nobody reads; zeros serve. */
qf_mlir_outcome qf_mlir_map_empty(qf_mlir_call *call) {
    const qf_dim *dims;
    uint32_t rank;
    qf_dtype dtype = qf_mlir_result_dtype(call);
    if (call->result_count != 1 || !qf_mlir_result_dims(call, &dims, &rank) || dtype == QF_DTYPE_NONE)
        return qf_mlir_decline(call, dynamic_result);
    return qf_mlir_done(call, qf_import_full(qf_mlir_target(call), qf_mlir_scalar(call, dtype, 0), dims, rank));
}

qf_mlir_outcome qf_mlir_map_splat(qf_mlir_call *call) {
    const qf_dim *dims;
    uint32_t rank;
    if (call->operand_count != 1 || call->result_count != 1 || !qf_mlir_result_dims(call, &dims, &rank))
        return qf_mlir_decline(call, dynamic_result);
    return qf_mlir_done(call, qf_import_full(qf_mlir_target(call), qf_mlir_in(call, 0), dims, rank));
}
