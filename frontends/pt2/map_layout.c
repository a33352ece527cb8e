/* Owns: mappings of operators that move elements: views, slices, joins, repeats.
 * Does not own: indexing by tensors (map_index.c).
 * Next: map_create.c. */
#include <string.h>

#include "frontends/pt2/maps.h"

static const char no_shape[] = "the shape of its input is unknown";

static bool ranked(const qf_pt2_call *call, qf_value x) {
    return qf_pt2_rank(call, x) <= QF_MAX_RANK;
}

static bool axis_argument(qf_pt2_call *call, const char *name, int64_t otherwise, uint32_t rank, uint32_t *out) {
    return qf_pt2_axis(call, qf_pt2_int(call, name, otherwise), rank, out);
}

/* --- shapes --- */
/* The one -1 becomes what is left of the elements. */
static bool infer_shape(qf_pt2_call *call, qf_value x, qf_dim *dims, uint32_t rank) {
    qf_context *context = call->import->context;
    qf_dim known = qf_pt2_constant(call, 1);
    uint32_t open = UINT32_MAX;
    for (uint32_t i = 0; i < rank; i++) {
        if (qf_dim_is(context, dims[i], -1)) {
            if (open != UINT32_MAX) return false;
            open = i;
        } else {
            known = qf_dim_multiply(context, known, dims[i]);
        }
    }
    if (open == UINT32_MAX) return true;
    qf_dim all = qf_dim_product(context, qf_value_dims(qf_pt2_graph(call), x), qf_pt2_rank(call, x));
    dims[open] = qf_dim_divide_exactly(context, all, known);
    if (!dims[open].id && !qf_dim_is(context, known, 0)) dims[open] = qf_dim_floor_divide(context, all, known);
    return dims[open].id != 0;
}

/* The value under the shape in argument `name`, where one -1 is inferred. */
static qf_value reshape(qf_pt2_call *call, qf_value x, const char *name) {
    qf_dim dims[QF_MAX_RANK];
    uint32_t rank;
    if (!qf_pt2_sizes(call, name, dims, QF_MAX_RANK, &rank)) return (qf_value){0};
    return infer_shape(call, x, dims, rank) ? qf_import_view(qf_pt2_target(call), x, dims, rank) : (qf_value){0};
}

qf_pt2_outcome qf_pt2_map_reshape(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    return qf_pt2_done(call, reshape(call, x, qf_pt2_has(call, "shape") ? "shape" : "size"));
}

qf_pt2_outcome qf_pt2_map_reshape_as(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), other = qf_pt2_in(call, "other");
    if (!ranked(call, other)) return qf_pt2_decline(call, no_shape);
    return qf_pt2_done(call, qf_import_view(qf_pt2_target(call), x, qf_value_dims(qf_pt2_graph(call), other),
                                            qf_pt2_rank(call, other)));
}

qf_pt2_outcome qf_pt2_map_unsqueeze(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x) + 1, &axis)) return QF_PT2_FAILED;
    return qf_pt2_done(call, qf_pt2_unsqueeze(call, x, axis));
}

/* Only axes of size 1 go; a symbol is taken as none, as torch's export does. */
qf_pt2_outcome qf_pt2_map_squeeze(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x), count = 0;
    qf_pt2_axes axes;
    qf_dim dims[QF_MAX_RANK];
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (qf_pt2_names_no_axes(call, "dim")) return qf_pt2_done(call, x);
    if (!qf_pt2_read_axes(call, "dim", rank, &axes)) return QF_PT2_FAILED;
    for (uint32_t i = 0, next = 0; i < rank; i++) {
        bool named = next < axes.count && axes.items[next] == (int64_t)i;
        next += named;
        qf_dim dim = qf_pt2_dim_of(call, x, (int32_t)i);
        if (!named || !qf_dim_is(call->import->context, dim, 1)) dims[count++] = dim;
    }
    return qf_pt2_done(call, qf_import_view(qf_pt2_target(call), x, dims, count));
}

qf_pt2_outcome qf_pt2_map_flatten(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x), first, last, count = 0;
    qf_dim dims[QF_MAX_RANK + 1];
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "start_dim", 0, rank, &first) || !axis_argument(call, "end_dim", -1, rank, &last))
        return QF_PT2_FAILED;
    for (uint32_t i = 0; i < first && i < rank; i++) dims[count++] = qf_pt2_dim_of(call, x, (int32_t)i);
    qf_dim merged = qf_pt2_constant(call, 1);
    for (uint32_t i = first; i <= last && i < rank; i++)
        merged = qf_dim_multiply(call->import->context, merged, qf_pt2_dim_of(call, x, (int32_t)i));
    dims[count++] = merged;
    for (uint32_t i = last + 1; i < rank; i++) dims[count++] = qf_pt2_dim_of(call, x, (int32_t)i);
    return qf_pt2_done(call, qf_import_view(qf_pt2_target(call), x, dims, count));
}

qf_pt2_outcome qf_pt2_map_unflatten(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x), axis, parts, count = 0;
    qf_dim sizes[QF_MAX_RANK], dims[2 * QF_MAX_RANK];
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "dim", 0, rank, &axis)) return QF_PT2_FAILED;
    if (!qf_pt2_dims(call, "sizes", sizes, QF_MAX_RANK, &parts) || rank + parts > QF_MAX_RANK + 1)
        return qf_pt2_decline(call, "it has more axes than any tensor");
    for (uint32_t i = 0; i < rank; i++) {
        if (i != axis) dims[count++] = qf_pt2_dim_of(call, x, (int32_t)i);
        for (uint32_t j = 0; i == axis && j < parts; j++) dims[count++] = sizes[j];
    }
    if (!infer_shape(call, x, dims, count)) return QF_PT2_FAILED;
    return qf_pt2_done(call, qf_import_view(qf_pt2_target(call), x, dims, count));
}

qf_pt2_outcome qf_pt2_map_expand(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_dim dims[QF_MAX_RANK];
    uint32_t rank = qf_pt2_rank(call, x), count;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_sizes(call, "size", dims, QF_MAX_RANK, &count) || count < rank) return QF_PT2_FAILED;
    for (uint32_t i = count - rank; i < count; i++) /* -1: as it is */
        if (qf_dim_is(call->import->context, dims[i], -1))
            dims[i] = qf_pt2_dim_of(call, x, (int32_t)(i + rank - count));
    return qf_pt2_done(call, qf_import_expand(qf_pt2_target(call), x, dims, count));
}

qf_pt2_outcome qf_pt2_map_expand_as(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), other = qf_pt2_in(call, "other");
    if (!ranked(call, other)) return qf_pt2_decline(call, no_shape);
    return qf_pt2_done(call, qf_import_expand(qf_pt2_target(call), x, qf_value_dims(qf_pt2_graph(call), other),
                                              qf_pt2_rank(call, other)));
}

/* --- order of axes --- */
qf_pt2_outcome qf_pt2_map_permute(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    int64_t order[2 * QF_MAX_RANK];
    uint32_t rank = qf_pt2_rank(call, x), own, count;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    own = rank - call->complex;
    if (!qf_pt2_ints(call, "dims", order, QF_MAX_RANK, &count) || count != own)
        return qf_pt2_fault(call, QF_ERROR_VERIFY, "%s: expected %u axes as 'dims'", call->target, own);
    if (call->complex) order[own] = own;
    for (uint32_t i = 0; i < own; i++) {
        uint32_t axis;
        if (!qf_pt2_axis(call, order[i], rank, &axis)) return QF_PT2_FAILED;
        order[i] = axis;
    }
    return qf_pt2_done(call, qf_pt2_permute(call, x, order, rank));
}

qf_pt2_outcome qf_pt2_map_transpose(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x), a, b;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    bool axes = call->row->argument == 1; /* how the arguments are named */
    if (!axis_argument(call, axes ? "axis0" : "dim0", 0, rank, &a) ||
        !axis_argument(call, axes ? "axis1" : "dim1", 1, rank, &b))
        return QF_PT2_FAILED;
    return qf_pt2_done(call, qf_pt2_swap(call, x, a, b));
}

/* t of a matrix; of a vector itself. */
qf_pt2_outcome qf_pt2_map_matrix_transpose(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t rank = qf_pt2_rank(call, x);
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    return qf_pt2_done(call, rank < 2 ? x : qf_pt2_swap(call, x, rank - 2, rank - 1));
}

/* The axes from the last to the first. */
qf_pt2_outcome qf_pt2_map_reverse_axes(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    int64_t order[QF_MAX_RANK];
    uint32_t rank = qf_pt2_rank(call, x);
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    for (uint32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
    return qf_pt2_done(call, qf_pt2_permute(call, x, order, rank));
}

/* --- parts --- */
/* x[:, -T:] counts from the end, where T is known to be 1 or more or else taken to be, which a launch then checks. */
static bool counts_from_end(qf_pt2_call *call, qf_dim bound) {
    qf_context *context = call->import->context;
    qf_symbol_facts facts = qf_graph_facts(qf_pt2_graph(call));
    int64_t upper;
    if (qf_dim_is_constant(context, bound, &upper)) return upper < 0;
    if (!qf_dim_upper_bound(context, &facts, bound, &upper) || upper > 0) return false;
    qf_dim size = qf_dim_subtract(context, qf_pt2_constant(call, 0), bound);
    if (upper == 0)
        (void)qf_graph_add_guard(qf_pt2_graph(call), qf_dim_maximum(context, size, qf_pt2_constant(call, 1)), size,
                                 call->location);
    return true;
}

/* An end of a slice from an argument: None, negative and beyond-the-end ones. */
static qf_dim bound(qf_pt2_call *call, const char *name, qf_dim length, qf_dim otherwise) {
    qf_context *context = call->import->context;
    qf_symbol_facts facts = qf_graph_facts(qf_pt2_graph(call));
    qf_dim bound, zero = qf_pt2_constant(call, 0);
    int64_t number;
    if (!qf_pt2_dim(call, name, &bound)) return otherwise;
    if (qf_dim_is_constant(context, bound, &number) && number == INT64_MAX) return length;
    if (counts_from_end(call, bound)) bound = qf_dim_add(context, length, bound);
    if (!qf_dim_nonnegative(context, &facts, bound)) bound = qf_dim_maximum(context, bound, zero);
    if (qf_dim_nonnegative(context, &facts, qf_dim_subtract(context, length, bound))) return bound;
    return qf_dim_minimum(context, bound, length);
}

static qf_value slice_argument(qf_pt2_call *call, qf_value x, uint32_t axis) {
    qf_context *context = call->import->context;
    qf_symbol_facts facts = qf_graph_facts(qf_pt2_graph(call));
    qf_dim length = qf_pt2_dim_of(call, x, (int32_t)axis);
    qf_dim start = bound(call, "start", length, qf_pt2_constant(call, 0));
    qf_dim end = bound(call, "end", length, length);
    if (!qf_dim_nonnegative(context, &facts, qf_dim_subtract(context, end, start)))
        end = qf_dim_maximum(context, start, end);
    return qf_pt2_slice_axis(call, x, axis, start, end, qf_pt2_int(call, "step", 1));
}

qf_pt2_outcome qf_pt2_map_slice(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    if (!ranked(call, x) || qf_pt2_int(call, "step", 1) < 1) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    return qf_pt2_done(call, slice_argument(call, x, axis));
}

/* self with its slice replaced. */
qf_pt2_outcome qf_pt2_map_slice_scatter(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), part = qf_pt2_in(call, "src");
    uint32_t axis;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (qf_pt2_int(call, "step", 1) != 1) return qf_pt2_decline(call, "it writes a slice with steps");
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    qf_dim length = qf_pt2_dim_of(call, x, (int32_t)axis);
    qf_dim start = bound(call, "start", length, qf_pt2_constant(call, 0));
    qf_dim end = qf_dim_add(call->import->context, start, qf_pt2_dim_of(call, part, (int32_t)axis));
    return qf_pt2_done(call,
                       qf_pt2_put_part(call, x, qf_pt2_cast(call, part, qf_pt2_dtype_of(call, x)), axis, start, end));
}

/* The index of select, non-negative. */
static bool select_index(qf_pt2_call *call, qf_value x, uint32_t axis, qf_dim *out) {
    int64_t number;
    if (!qf_pt2_dim(call, "index", out)) return false;
    if (qf_dim_is_constant(call->import->context, *out, &number) && number < 0)
        *out = qf_dim_add(call->import->context, qf_pt2_dim_of(call, x, (int32_t)axis), *out);
    return true;
}

qf_pt2_outcome qf_pt2_map_select(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    qf_dim index;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis) || !select_index(call, x, axis, &index))
        return QF_PT2_FAILED;
    qf_dim next = qf_dim_add_constant(call->import->context, index, 1);
    return qf_pt2_done(call, qf_pt2_squeeze(call, qf_pt2_slice_axis(call, x, axis, index, next, 1), axis));
}

qf_pt2_outcome qf_pt2_map_select_scatter(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), part = qf_pt2_in(call, "src");
    uint32_t axis;
    qf_dim index;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis) || !select_index(call, x, axis, &index))
        return QF_PT2_FAILED;
    part = qf_pt2_unsqueeze(call, qf_pt2_cast(call, part, qf_pt2_dtype_of(call, x)), axis);
    qf_dim next = qf_dim_add_constant(call->import->context, index, 1);
    return qf_pt2_done(call, qf_pt2_put_part(call, x, part, axis, index, next));
}

qf_pt2_outcome qf_pt2_map_narrow(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    qf_dim length;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis) || !qf_pt2_dim(call, "length", &length))
        return QF_PT2_FAILED;
    qf_dim start = bound(call, "start", qf_pt2_dim_of(call, x, (int32_t)axis), qf_pt2_constant(call, 0));
    return qf_pt2_done(call,
                       qf_pt2_slice_axis(call, x, axis, start, qf_dim_add(call->import->context, start, length), 1));
}

/* --- several parts --- */
static qf_pt2_outcome emit_split(qf_pt2_call *call, qf_value x, uint32_t axis, const qf_dim *sizes, uint32_t count) {
    if (count != call->output_count)
        return qf_pt2_fault(call, QF_ERROR_VERIFY, "%s: %u parts for %u results", call->target, count,
                            call->output_count);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_split, attributes);
    attributes[QF_ATTR(split, axis)].integer = axis;
    attributes[QF_ATTR(split, sizes)] = (qf_attribute){.dims = sizes, .count = count};
    qf_node node = qf_import_node(qf_pt2_target(call), QF_OP_split, &x, 1, attributes, count);
    if (!node.id) return QF_PT2_FAILED;
    for (uint32_t i = 0; i < count; i++) call->outputs[i] = qf_node_result(qf_pt2_graph(call), node, i);
    return QF_PT2_MAPPED;
}

qf_pt2_outcome qf_pt2_map_split_sizes(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis, count;
    qf_dim *sizes = QF_ARENA_NEW(&call->import->scratch, qf_dim, call->output_count + 1);
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!sizes || !axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    const char *name = qf_pt2_has(call, "split_sizes") ? "split_sizes" : "split_size";
    if (!qf_pt2_dims(call, name, sizes, call->output_count, &count))
        return qf_pt2_decline(call, "its sizes are not known");
    return emit_split(call, x, axis, sizes, count);
}

/* Equal parts of `size`, the last one what is left. */
static qf_pt2_outcome split_equally(qf_pt2_call *call, qf_value x, uint32_t axis, qf_dim size) {
    uint32_t count = call->output_count;
    qf_dim *sizes = QF_ARENA_NEW(&call->import->scratch, qf_dim, count + 1);
    qf_dim rest = qf_pt2_dim_of(call, x, (int32_t)axis);
    if (!sizes || !count) return QF_PT2_FAILED;
    for (uint32_t i = 0; i + 1 < count; i++) {
        sizes[i] = size;
        rest = qf_dim_subtract(call->import->context, rest, size);
    }
    sizes[count - 1] = rest;
    return emit_split(call, x, axis, sizes, count);
}

qf_pt2_outcome qf_pt2_map_split(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    qf_dim size;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis) || !qf_pt2_dim(call, "split_size", &size))
        return QF_PT2_FAILED;
    return split_equally(call, x, axis, size);
}

qf_pt2_outcome qf_pt2_map_chunk(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_context *context = call->import->context;
    uint32_t axis;
    int64_t chunks = qf_pt2_int(call, "chunks", 0);
    if (!ranked(call, x) || chunks < 1) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    qf_dim whole = qf_pt2_dim_of(call, x, (int32_t)axis), count = qf_pt2_constant(call, chunks);
    qf_dim size = qf_dim_floor_divide(context, qf_dim_add_constant(context, whole, chunks - 1), count);
    qf_dim exact = qf_dim_divide_exactly(context, whole, count);
    return split_equally(call, x, axis, exact.id ? exact : size);
}

qf_pt2_outcome qf_pt2_map_unbind(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    for (uint32_t i = 0; i < call->output_count; i++) {
        qf_dim index = qf_pt2_constant(call, i), next = qf_pt2_constant(call, (int64_t)i + 1);
        call->outputs[i] = qf_pt2_squeeze(call, qf_pt2_slice_axis(call, x, axis, index, next, 1), axis);
        if (!call->outputs[i].id) return QF_PT2_FAILED;
    }
    return QF_PT2_MAPPED;
}

/* --- joins; row argument 1: along a new axis --- */
/* The element type of all parts by torch's promotion; none: one that QFuse does not have. */
static qf_dtype widest_of(const qf_pt2_call *call, const qf_value *parts, uint32_t count) {
    qf_dtype widest = qf_pt2_dtype_of(call, parts[0]);
    for (uint32_t i = 1; i < count && widest != QF_DTYPE_NONE; i++) {
        qf_dtype dtype = qf_pt2_dtype_of(call, parts[i]);
        widest = dtype == QF_DTYPE_NONE ? dtype : qf_pt2_wider(widest, dtype);
    }
    return widest;
}

/* torch passes over vectors without elements whatever axes the others have: caches begin as one. Keeps at least one
 * part. */
static uint32_t drop_empty(const qf_pt2_call *call, qf_value *parts, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool empty = qf_pt2_rank(call, parts[i]) == 1U + call->complex &&
                     qf_dim_is(call->import->context, qf_pt2_dim_of(call, parts[i], 0), 0);
        if (!empty || (kept == 0 && i + 1 == count)) parts[kept++] = parts[i];
    }
    return kept;
}

qf_pt2_outcome qf_pt2_map_join(qf_pt2_call *call) {
    uint32_t *tensors, count, axis;
    if (!qf_pt2_tensors(call, "tensors", &tensors, &count) || !count) return QF_PT2_FAILED;
    qf_value *parts = QF_ARENA_NEW(&call->import->scratch, qf_value, count);
    if (!parts) return QF_PT2_FAILED;
    bool fresh = call->row->argument == 1;
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = tensors[i] ? qf_pt2_read(call, tensors[i]) : (qf_value){0};
        if (!ranked(call, parts[i])) return qf_pt2_decline(call, no_shape);
    }
    qf_dtype dtype = widest_of(call, parts, count); /* also of those that are passed over */
    if (dtype == QF_DTYPE_NONE) return qf_pt2_decline(call, "it joins element types that QFuse does not promote");
    if (!fresh) count = drop_empty(call, parts, count);
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, parts[0]) + fresh, &axis)) return QF_PT2_FAILED;
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = qf_pt2_cast(call, parts[i], dtype);
        if (fresh) parts[i] = qf_pt2_unsqueeze(call, parts[i], axis);
    }
    return qf_pt2_done(call, qf_pt2_concat(call, parts, count, axis));
}

/* x with its last `shift` slices along each axis moved to the front. */
qf_pt2_outcome qf_pt2_map_roll(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    int64_t shifts[2 * QF_MAX_RANK], axes[2 * QF_MAX_RANK], length;
    uint32_t count, axis_count, axis;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_ints(call, "shifts", shifts, QF_MAX_RANK, &count) ||
        !qf_pt2_ints(call, "dims", axes, QF_MAX_RANK, &axis_count) || count != axis_count)
        return qf_pt2_decline(call, "it flattens, or its shifts are not known");
    for (uint32_t i = 0; i < count && x.id; i++) {
        if (!qf_pt2_axis(call, axes[i], qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
        qf_dim whole = qf_pt2_dim_of(call, x, (int32_t)axis), zero = qf_pt2_constant(call, 0);
        if (!qf_dim_is_constant(call->import->context, whole, &length)) {
            if (shifts[i] != 0) return qf_pt2_decline(call, "it rolls an axis of unknown size");
            continue;
        }
        int64_t back = length ? ((shifts[i] % length) + length) % length : 0;
        if (back == 0) continue;
        qf_dim cut = qf_pt2_constant(call, length - back);
        qf_value parts[] = {qf_pt2_slice_axis(call, x, axis, cut, whole, 1),
                            qf_pt2_slice_axis(call, x, axis, zero, cut, 1)};
        x = qf_pt2_concat(call, parts, 2, axis);
    }
    return qf_pt2_done(call, x);
}

/* --- repeats --- */
/* Each element along axis `inner` times after each other, the whole `outer` times. */
static qf_value repeat_axis(qf_pt2_call *call, qf_value x, uint32_t axis, qf_dim count, bool each) {
    uint32_t rank = qf_pt2_rank(call, x), place = each ? axis + 1 : axis;
    if (qf_dim_is(call->import->context, count, 1)) return x;
    qf_dim dims[QF_MAX_RANK + 1], merged[QF_MAX_RANK];
    qf_value wide = qf_pt2_unsqueeze(call, x, place);
    if (!wide.id) return wide;
    for (uint32_t i = 0; i <= rank; i++) dims[i] = i == place ? count : qf_pt2_dim_of(call, wide, (int32_t)i);
    for (uint32_t i = 0; i < rank; i++) {
        merged[i] = qf_pt2_dim_of(call, x, (int32_t)i);
        if (i == axis) merged[i] = qf_dim_multiply(call->import->context, merged[i], count);
    }
    return qf_import_view(qf_pt2_target(call), qf_import_expand(qf_pt2_target(call), wide, dims, rank + 1), merged,
                          rank);
}

qf_pt2_outcome qf_pt2_map_repeat(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_dim counts[QF_MAX_RANK];
    uint32_t count;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_dims(call, qf_pt2_has(call, "repeats") ? "repeats" : "dims", counts, QF_MAX_RANK - 2, &count))
        return qf_pt2_decline(call, "it repeats more axes than QFuse has");
    if (call->complex) counts[count++] = qf_pt2_constant(call, 1);
    while (x.id && qf_pt2_rank(call, x) < count) x = qf_pt2_unsqueeze(call, x, 0);
    uint32_t rank = qf_pt2_rank(call, x);
    if (rank >= QF_MAX_RANK) return qf_pt2_decline(call, "it repeats more axes than QFuse has");
    for (uint32_t i = 0; x.id && i < count; i++) x = repeat_axis(call, x, rank - count + i, counts[i], false);
    return qf_pt2_done(call, x);
}

qf_pt2_outcome qf_pt2_map_repeat_interleave(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_dim count;
    uint32_t axis;
    if (!ranked(call, x) || qf_pt2_rank(call, x) >= QF_MAX_RANK) return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_dim(call, "repeats", &count) || !qf_pt2_has(call, "dim")) return qf_pt2_decline(call, "it flattens");
    if (!axis_argument(call, "dim", 0, qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    return qf_pt2_done(call, repeat_axis(call, x, axis, count, true));
}

/* pad lists (before, after) from the last axis on. */
qf_pt2_outcome qf_pt2_map_pad(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_dim list[2 * QF_MAX_RANK], before[QF_MAX_RANK], after[QF_MAX_RANK];
    uint32_t rank = qf_pt2_rank(call, x), count;
    if (!ranked(call, x)) return qf_pt2_decline(call, no_shape);
    if (strcmp(qf_pt2_string(call, "mode", "constant"), "constant") != 0)
        return qf_pt2_decline(call, "it pads by reflection");
    if (!qf_pt2_dims(call, "pad", list, 2 * rank, &count) || count % 2) return QF_PT2_FAILED;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = 2 * (rank - 1 - i);
        before[i] = at < count ? list[at] : qf_pt2_constant(call, 0);
        after[i] = at < count ? list[at + 1] : qf_pt2_constant(call, 0);
    }
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_pad, attributes);
    attributes[QF_ATTR(pad, before)] = (qf_attribute){.dims = before, .count = rank};
    attributes[QF_ATTR(pad, after)] = (qf_attribute){.dims = after, .count = rank};
    qf_value value = qf_pt2_has(call, "value") ? qf_pt2_number_value(call, "value", qf_pt2_dtype_of(call, x))
                                               : qf_pt2_scalar(call, qf_pt2_dtype_of(call, x), 0);
    return qf_pt2_done(call, qf_import_op(qf_pt2_target(call), QF_OP_pad, (qf_value[]){x, value}, 2, attributes));
}
