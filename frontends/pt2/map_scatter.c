/* Owns: mappings of writes along one axis at indices that tensors hold: replacing, adding, other folds.
 * Does not own: writes at tuples of indices (map_index.c).
 * Next: map_experts.c. */
#include <math.h>
#include <string.h>

#include "frontends/pt2/maps.h"

static const char no_shape[] = "the shape of its input is unknown";
static const char too_large[] = "it compares every index with every place, which would be too many here";

/* Elements of a comparison of indices with places, where all sizes are known. */
#define MAX_COMPARED ((int64_t)1 << 28)

static bool ranked(const qf_pt2_call *call, qf_value x) {
    return qf_pt2_rank(call, x) <= QF_MAX_RANK;
}

static qf_value where(qf_pt2_call *call, qf_value condition, qf_value a, qf_value b) {
    return qf_import_where(qf_pt2_target(call), condition, a, b);
}

static qf_value scatter_along(qf_pt2_call *call, qf_value x, qf_value indices, qf_value updates, uint32_t axis) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_scatter_elements, attributes);
    attributes[QF_ATTR(scatter_elements, axis)].integer = axis;
    return qf_import_op(qf_pt2_target(call), QF_OP_scatter_elements, (qf_value[]){x, indices, updates}, 3, attributes);
}

/* index [S] or [] in the shape of source, whose axis it counts. */
static qf_value spread(qf_pt2_call *call, qf_value index, const qf_dim *shape, uint32_t rank, uint32_t axis) {
    qf_dim dims[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) dims[i] = i == axis ? shape[i] : qf_pt2_constant(call, 1);
    index = qf_import_view(qf_pt2_target(call), index, dims, rank);
    return qf_import_expand(qf_pt2_target(call), index, shape, rank);
}

/* self with slice i of source at index[i]. */
qf_pt2_outcome qf_pt2_map_index_copy(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), index = qf_pt2_in(call, "index"), source = qf_pt2_in(call, "source");
    uint32_t axis, rank = qf_pt2_rank(call, x);
    if (!ranked(call, x) || rank == 0 || qf_pt2_rank(call, source) != rank || qf_pt2_rank(call, index) > 1)
        return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), rank, &axis)) return QF_PT2_FAILED;
    index = spread(call, index, qf_value_dims(qf_pt2_graph(call), source), rank, axis);
    return qf_pt2_done(call, scatter_along(call, x, index, qf_pt2_cast(call, source, qf_pt2_dtype_of(call, x)), axis));
}

/* self with one number in the slices at index. */
qf_pt2_outcome qf_pt2_map_index_fill(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), index = qf_pt2_in(call, "index"), value = qf_pt2_in(call, "value");
    uint32_t axis, rank = qf_pt2_rank(call, x);
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    qf_dim dims[QF_MAX_RANK];
    if (!ranked(call, x) || rank == 0 || qf_pt2_rank(call, index) > 1 || dtype == QF_DTYPE_NONE)
        return qf_pt2_decline(call, no_shape);
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), rank, &axis)) return QF_PT2_FAILED;
    if (!value.id) value = qf_pt2_number_value(call, "value", dtype);
    for (uint32_t i = 0; i < rank; i++) dims[i] = qf_pt2_dim_of(call, x, (int32_t)i);
    dims[axis] = qf_pt2_rank(call, index) ? qf_pt2_dim_of(call, index, 0) : qf_pt2_constant(call, 1);
    value = qf_import_full(qf_pt2_target(call), qf_pt2_cast(call, value, dtype), dims, rank);
    return qf_pt2_done(call, scatter_along(call, x, spread(call, index, dims, rank, axis), value, axis));
}

/* --- the operands of scatter and its folds: self, index and what is written, of one rank --- */
typedef struct scatter {
    qf_value x, index, source; /* source in the shape of index, of x's type */
    uint32_t axis, rank;
    bool scalar; /* they have no axes, and were given one */
} scatter;

/* A source may have more than the index takes of it. */
static qf_value take_part(qf_pt2_call *call, qf_value source, qf_value index, uint32_t rank) {
    for (uint32_t i = 0; i < rank; i++)
        source =
            qf_pt2_slice_axis(call, source, i, qf_pt2_constant(call, 0), qf_pt2_dim_of(call, index, (int32_t)i), 1);
    return source;
}

/* NULL, or why they cannot be read; nothing is said after a failure. */
static const char *read_scatter(qf_pt2_call *call, scatter *out) {
    *out = (scatter){.x = qf_pt2_in(call, "self"), .index = qf_pt2_in(call, "index"), .source = qf_pt2_in(call, "src")};
    qf_dtype dtype = qf_pt2_dtype_of(call, out->x);
    uint32_t rank = qf_pt2_rank(call, out->x);
    if (!ranked(call, out->x) || qf_pt2_rank(call, out->index) != rank || dtype == QF_DTYPE_NONE ||
        (out->source.id && qf_pt2_rank(call, out->source) != rank))
        return no_shape;
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), rank, &out->axis)) return no_shape;
    if (out->source.id)
        out->source = qf_pt2_cast(call, take_part(call, out->source, out->index, rank), dtype);
    else
        out->source = qf_import_full(qf_pt2_target(call), qf_pt2_number_value(call, "value", dtype),
                                     qf_value_dims(qf_pt2_graph(call), out->index), rank);
    out->rank = rank;
    out->scalar = rank == 0;
    if (!out->scalar) return NULL;
    out->rank = 1;
    out->x = qf_pt2_unsqueeze(call, out->x, 0);
    out->index = qf_pt2_unsqueeze(call, out->index, 0);
    out->source = qf_pt2_unsqueeze(call, out->source, 0);
    return NULL;
}

static qf_pt2_outcome give(qf_pt2_call *call, const scatter *s, qf_value y) {
    return qf_pt2_done(call, s->scalar && y.id ? qf_pt2_squeeze(call, y, 0) : y);
}

qf_pt2_outcome qf_pt2_map_scatter(qf_pt2_call *call) {
    scatter s;
    const char *reason = read_scatter(call, &s);
    if (reason) return qf_pt2_decline(call, reason);
    return give(call, &s, scatter_along(call, s.x, s.index, s.source, s.axis));
}

/* --- folds: what several indices of one place bring is summed, or otherwise made one --- */
typedef enum fold { SUM, PRODUCT, MEAN, MAXIMUM, MINIMUM, NO_FOLD } fold;

static fold fold_of(const qf_pt2_call *call) {
    static const struct word {
        const char *name;
        fold kind;
    } words[] = {{"sum", SUM},   {"add", SUM},      {"prod", PRODUCT}, {"multiply", PRODUCT},
                 {"mean", MEAN}, {"amax", MAXIMUM}, {"amin", MINIMUM}};
    const char *name = qf_pt2_string(call, "reduce", "sum");
    for (size_t i = 0; i < QF_COUNT_OF(words); i++)
        if (strcmp(words[i].name, name) == 0) return words[i].kind;
    return NO_FOLD;
}

/* 16-bit floats fold in f32 and are rounded once. */
static qf_dtype fold_dtype(qf_dtype dtype) {
    return qf_dtype_is_float(dtype) && qf_dtype_bits(dtype) < 32 ? QF_F32 : dtype;
}

static qf_value neutral(qf_pt2_call *call, fold kind, qf_dtype dtype) {
    int bits = (int)qf_dtype_bits(dtype);
    double least = -INFINITY, greatest = INFINITY;
    if (!qf_dtype_is_float(dtype)) {
        least = dtype == QF_U8 ? 0 : -ldexp(1, bits - 1);
        greatest = dtype == QF_U8 ? 255 : ldexp(1, bits - 1) - 1;
    }
    return qf_pt2_scalar(call, dtype, kind == PRODUCT ? 1 : kind == MAXIMUM ? least : kind == MINIMUM ? greatest : 0);
}

/* x [.., S along axis, .., T] folded over S, with T in its place. */
static qf_value fold_axis(qf_pt2_call *call, fold kind, qf_value x, uint32_t axis) {
    static const qf_op ops[] = {[SUM] = QF_OP_reduce_sum,
                                [PRODUCT] = QF_OP_reduce_prod,
                                [MEAN] = QF_OP_reduce_sum,
                                [MAXIMUM] = QF_OP_reduce_max,
                                [MINIMUM] = QF_OP_reduce_min};
    int64_t order[QF_MAX_RANK], axes[] = {axis};
    qf_value y = qf_pt2_reduce(call, ops[kind], x, axes, 1, false);
    uint32_t rank = qf_pt2_rank(call, y);
    if (rank > QF_MAX_RANK) return (qf_value){0};
    for (uint32_t i = 0; i < rank; i++) order[i] = i < axis ? i : i == axis ? rank - 1 : i - 1;
    return qf_pt2_permute(call, y, order, rank);
}

/* The comparison has no more elements than the limit, as far as sizes are known. */
static bool is_small(const qf_pt2_call *call, const scatter *s) {
    int64_t count = 1, size;
    for (uint32_t i = 0; i <= s->rank; i++) {
        qf_dim dim = qf_pt2_dim_of(call, i < s->rank ? s->index : s->x, (int32_t)(i < s->rank ? i : s->axis));
        if (!qf_dim_is_constant(call->import->context, dim, &size) || size <= 0) continue;
        if (count > MAX_COMPARED / size) return false;
        count *= size;
    }
    return true;
}

static qf_value emit_fold(qf_pt2_call *call, const scatter *s, fold kind, bool include_self) {
    qf_dtype own = qf_pt2_dtype_of(call, s->x), dtype = fold_dtype(own);
    qf_value x = qf_pt2_cast(call, s->x, dtype), source = qf_pt2_cast(call, s->source, dtype);
    qf_value places =
        qf_import_iota(qf_pt2_target(call), qf_pt2_dtype_of(call, s->index),
                       qf_pt2_dim_of(call, s->x, (int32_t)s->axis), qf_pt2_constant(call, 0), qf_pt2_constant(call, 1));
    qf_value hits = qf_pt2_binary(call, QF_OP_equal, qf_pt2_unsqueeze(call, s->index, s->rank), places);
    qf_value kept = where(call, hits, qf_pt2_unsqueeze(call, source, s->rank), neutral(call, kind, dtype));
    qf_value y = fold_axis(call, kind, kept, s->axis), count = {0};
    if (kind == MEAN || !include_self) count = fold_axis(call, SUM, qf_pt2_cast(call, hits, dtype), s->axis);
    if (include_self) {
        static const qf_op ops[] = {[SUM] = QF_OP_add,
                                    [PRODUCT] = QF_OP_mul,
                                    [MEAN] = QF_OP_add,
                                    [MAXIMUM] = QF_OP_maximum,
                                    [MINIMUM] = QF_OP_minimum};
        y = qf_pt2_binary(call, ops[kind], x, y);
        if (kind == MEAN)
            y = qf_pt2_binary(call, QF_OP_div, y, qf_pt2_binary(call, QF_OP_add, count, qf_pt2_scalar(call, dtype, 1)));
    } else {
        qf_value one = qf_pt2_scalar(call, dtype, 1);
        if (kind == MEAN) y = qf_pt2_binary(call, QF_OP_div, y, qf_pt2_binary(call, QF_OP_maximum, count, one));
        y = where(call, qf_pt2_binary(call, QF_OP_greater_equal, count, one), y, x);
    }
    return qf_pt2_cast(call, y, own);
}

/* --- rows: a fold by sums where the index is the same for all elements of a row --- */
/* One number of x [S, D] at its place among T: what is not finite must not touch other places, so that it is counted
 * beside the sums of what is: +inf where an infinity or a NaN came, -inf likewise, both make NaN. */
static qf_value sum_rows(qf_pt2_call *call, qf_value hits, qf_value x) {
    qf_import_target to = qf_pt2_target(call);
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    qf_value zero = qf_pt2_scalar(call, dtype, 0), parts[3];
    qf_dim width = qf_pt2_dim_of(call, x, 1), start = qf_pt2_constant(call, 0);
    qf_value none = qf_import_unary(to, QF_OP_is_nan, x), infinite = qf_import_unary(to, QF_OP_is_inf, x);
    qf_value positive = qf_pt2_binary(call, QF_OP_greater, x, zero),
             negative = qf_pt2_binary(call, QF_OP_less, x, zero);
    parts[0] = where(call, qf_pt2_binary(call, QF_OP_or, none, infinite), zero, x);
    parts[1] = qf_pt2_cast(
        call, qf_pt2_binary(call, QF_OP_or, none, qf_pt2_binary(call, QF_OP_and, infinite, positive)), dtype);
    parts[2] = qf_pt2_cast(
        call, qf_pt2_binary(call, QF_OP_or, none, qf_pt2_binary(call, QF_OP_and, infinite, negative)), dtype);
    qf_value sums = qf_import_contract(to, "st,sd->td", hits, qf_pt2_concat(call, parts, 3, 1));
    for (uint32_t i = 0; i < 3; i++) {
        qf_dim end = qf_dim_add(call->import->context, start, width);
        parts[i] = qf_pt2_slice_axis(call, sums, 1, start, end, 1);
        start = end;
    }
    qf_value highest = qf_pt2_scalar(call, dtype, INFINITY), lowest = qf_pt2_scalar(call, dtype, -INFINITY);
    qf_value up = where(call, qf_pt2_binary(call, QF_OP_greater, parts[1], zero), highest, zero);
    qf_value down = where(call, qf_pt2_binary(call, QF_OP_greater, parts[2], zero), lowest, zero);
    return qf_pt2_binary(call, QF_OP_add, parts[0], qf_pt2_binary(call, QF_OP_add, up, down));
}

static qf_value add_float_rows(qf_pt2_call *call, qf_value x, qf_value index, qf_value source) {
    qf_import_target to = qf_pt2_target(call);
    qf_dtype own = qf_pt2_dtype_of(call, x), dtype = fold_dtype(own);
    uint32_t rank = qf_pt2_rank(call, x);
    qf_dim rows = qf_pt2_dim_of(call, source, 0), places = qf_pt2_dim_of(call, x, 0);
    qf_dim width = qf_dim_product(call->import->context, qf_value_dims(qf_pt2_graph(call), x) + 1, rank - 1);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_one_hot, attributes);
    attributes[QF_ATTR(one_hot, depth)].dim = places;
    attributes[QF_ATTR(one_hot, axis)].integer = -1;
    qf_value values = qf_pt2_cast(
        call, qf_import_iota(to, QF_I64, qf_pt2_constant(call, 2), qf_pt2_constant(call, 0), qf_pt2_constant(call, 1)),
        dtype);
    index = qf_import_view(to, index, &rows, 1);
    qf_value hits = qf_import_op(to, QF_OP_one_hot, (qf_value[]){index, values}, 2, attributes);
    source = qf_import_view(to, qf_pt2_cast(call, source, dtype), (qf_dim[]){rows, width}, 2);
    qf_value sums = sum_rows(call, hits, source);
    sums = qf_import_view(to, sums, qf_value_dims(qf_pt2_graph(call), x), rank);
    return qf_pt2_cast(call, qf_pt2_binary(call, QF_OP_add, qf_pt2_cast(call, x, dtype), sums), own);
}

qf_value qf_pt2_add_rows(qf_pt2_call *call, qf_value x, qf_value index, qf_value source) {
    uint32_t rank = qf_pt2_rank(call, x);
    if (!x.id || !index.id || !source.id || rank == 0 || !ranked(call, x)) return (qf_value){0};
    if (qf_dtype_is_float(qf_pt2_dtype_of(call, x))) return add_float_rows(call, x, index, source);
    scatter s = {.x = x, .source = source, .rank = rank};
    s.index = spread(call, index, qf_value_dims(qf_pt2_graph(call), source), rank, 0);
    return rank < QF_MAX_RANK && is_small(call, &s) ? emit_fold(call, &s, SUM, true) : (qf_value){0};
}

/* The index of rows [S] that was expanded along every other axis; 0: another one. */
static qf_value row_index(const qf_pt2_call *call, const scatter *s) {
    const qf_graph *graph = qf_pt2_graph(call);
    qf_node node = qf_value_producer(graph, s->index);
    if (!node.id || qf_node_op(graph, node) != QF_OP_expand) return (qf_value){0};
    qf_value index = qf_node_operand(graph, node, 0);
    if (qf_pt2_rank(call, index) != s->rank) return (qf_value){0};
    for (uint32_t i = 0; i < s->rank; i++) {
        qf_dim dim = qf_pt2_dim_of(call, index, (int32_t)i);
        if (i == s->axis ? !qf_dim_equal(dim, qf_pt2_dim_of(call, s->index, (int32_t)i))
                         : !qf_dim_is(call->import->context, dim, 1))
            return (qf_value){0};
    }
    return index;
}

/* Rows along an axis other than the first. */
static qf_value add_rows_along(qf_pt2_call *call, qf_value x, qf_value index, qf_value source, uint32_t axis) {
    int64_t order[QF_MAX_RANK], back[QF_MAX_RANK];
    uint32_t rank = qf_pt2_rank(call, x);
    for (uint32_t i = 0; i < rank; i++) {
        order[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
        back[order[i]] = i;
    }
    qf_value y =
        qf_pt2_add_rows(call, qf_pt2_permute(call, x, order, rank), index, qf_pt2_permute(call, source, order, rank));
    return y.id ? qf_pt2_permute(call, y, back, rank) : y;
}

static bool others_agree(const qf_pt2_call *call, const scatter *s) {
    for (uint32_t i = 0; i < s->rank; i++)
        if (i != s->axis &&
            !qf_dim_equal(qf_pt2_dim_of(call, s->index, (int32_t)i), qf_pt2_dim_of(call, s->x, (int32_t)i)))
            return false;
    return true;
}

qf_pt2_outcome qf_pt2_map_scatter_fold(qf_pt2_call *call) {
    scatter s;
    fold kind = fold_of(call);
    const char *reason = read_scatter(call, &s);
    if (reason) return qf_pt2_decline(call, reason);
    bool whole = qf_pt2_bool(call, "include_self", true);
    qf_dtype dtype = qf_pt2_dtype_of(call, s.x);
    if (kind == NO_FOLD || dtype == QF_I1 || (kind == MEAN && !qf_dtype_is_float(dtype)))
        return qf_pt2_decline(call, "it folds in a way that the importer does not know");
    if (!others_agree(call, &s)) return qf_pt2_decline(call, "it writes a part of its input");
    qf_value rows = kind == SUM && whole && qf_dtype_is_float(dtype) ? row_index(call, &s) : (qf_value){0};
    if (rows.id) return give(call, &s, add_rows_along(call, s.x, rows, s.source, s.axis));
    if (s.rank == QF_MAX_RANK || !is_small(call, &s)) return qf_pt2_decline(call, too_large);
    return give(call, &s, emit_fold(call, &s, kind, whole));
}

/* self with alpha times slice i of source added at index[i]. */
qf_pt2_outcome qf_pt2_map_index_add(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self"), index = qf_pt2_in(call, "index"), source = qf_pt2_in(call, "source");
    uint32_t axis, rank = qf_pt2_rank(call, x);
    qf_dtype dtype = qf_pt2_dtype_of(call, x);
    if (!ranked(call, x) || rank == 0 || qf_pt2_rank(call, source) != rank || qf_pt2_rank(call, index) > 1)
        return qf_pt2_decline(call, no_shape);
    if (dtype == QF_DTYPE_NONE || dtype == QF_I1 || qf_pt2_dtype_of(call, source) != dtype)
        return qf_pt2_decline(call, "its element types are not QFuse's");
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), rank, &axis)) return QF_PT2_FAILED;
    if (qf_pt2_has(call, "alpha") && qf_pt2_number(call, "alpha", 1) != 1) {
        source = qf_pt2_cast(call, source, fold_dtype(dtype));
        source = qf_pt2_binary(call, QF_OP_mul, source, qf_pt2_number_value(call, "alpha", fold_dtype(dtype)));
    }
    qf_value y = add_rows_along(call, x, index, source, axis);
    return y.id || call->import->failed ? qf_pt2_done(call, y) : qf_pt2_decline(call, too_large);
}

/* self with the elements of source in order where the mask is true: element i takes the one whose place is how many
 * were true before. */
qf_pt2_outcome qf_pt2_map_masked_scatter(qf_pt2_call *call) {
    qf_import_target to = qf_pt2_target(call);
    qf_value x = qf_pt2_in(call, "self"), mask = qf_pt2_in(call, "mask"), source = qf_pt2_in(call, "source");
    uint32_t rank = qf_pt2_rank(call, x);
    if (!ranked(call, x) || qf_pt2_rank(call, mask) > rank || !ranked(call, source) ||
        qf_pt2_dtype_of(call, mask) != QF_I1 || qf_pt2_dtype_of(call, x) != qf_pt2_dtype_of(call, source))
        return qf_pt2_decline(call, no_shape);
    const qf_dim *dims = qf_value_dims(qf_pt2_graph(call), x);
    qf_dim given =
        qf_dim_product(call->import->context, qf_value_dims(qf_pt2_graph(call), source), qf_pt2_rank(call, source));
    if (qf_dim_is(call->import->context, given, 0)) return qf_pt2_done(call, x);
    mask = qf_import_expand(to, mask, dims, rank);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_cumulative_sum, attributes);
    attributes[QF_ATTR(cumulative_sum, axis)].integer = 0;
    qf_value place = qf_pt2_vector(call, qf_pt2_cast(call, mask, QF_I64));
    place = qf_import_op(to, QF_OP_cumulative_sum, &place, 1, attributes);
    place = qf_pt2_binary(call, QF_OP_sub, place, qf_pt2_scalar(call, QF_I64, 1));
    place = qf_pt2_binary(call, QF_OP_maximum, place, qf_pt2_scalar(call, QF_I64, 0));
    qf_value taken = qf_import_gather(to, qf_pt2_vector(call, source), place, 0);
    return qf_pt2_done(call, where(call, mask, qf_import_view(to, taken, dims, rank), x));
}
