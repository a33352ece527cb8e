/* Owns: mappings of operators that make tensors from nothing, of grids of coordinates, and of arithmetic on sizes.
 * Does not own: elementwise arithmetic (map_elementwise.c).
 * Next: map_reduce.c. */
#include <math.h>
#include <string.h>

#include "frontends/pt2/maps.h"

/* The dtype argument, or what torch takes for a number of this kind. */
static bool dtype_or(const qf_pt2_call *call, qf_dtype otherwise, qf_dtype *out) {
    return qf_pt2_dtype_argument(call, "dtype", otherwise, out);
}

static qf_dtype number_dtype(qf_pt2_call *call, const char *name) {
    qf_dim dim;
    if (qf_pt2_dim(call, name, &dim)) return QF_I64;
    return qf_pt2_bool(call, name, false) == qf_pt2_bool(call, name, true) ? QF_I1 : QF_F32;
}

static const char no_type[] = "its element type is not QFuse's";

/* zeros, ones, and what is not initialised (which becomes zeros); row argument: the number. */
qf_pt2_outcome qf_pt2_map_zeros(qf_pt2_call *call) {
    qf_dim dims[QF_MAX_RANK];
    uint32_t rank;
    qf_dtype dtype;
    qf_value like = qf_pt2_in(call, "self");
    if (!dtype_or(call, like.id ? qf_pt2_dtype_of(call, like) : QF_F32, &dtype)) return qf_pt2_decline(call, no_type);
    if (!qf_pt2_dims(call, "size", dims, QF_MAX_RANK, &rank)) return QF_PT2_FAILED;
    return qf_pt2_done(call, qf_pt2_filled(call, dtype, call->row->argument, dims, rank));
}

qf_pt2_outcome qf_pt2_map_full(qf_pt2_call *call) {
    qf_dim dims[QF_MAX_RANK];
    uint32_t rank;
    qf_dtype dtype;
    qf_value like = qf_pt2_in(call, "self");
    if (!dtype_or(call, like.id ? qf_pt2_dtype_of(call, like) : number_dtype(call, "fill_value"), &dtype))
        return qf_pt2_decline(call, no_type);
    if (!qf_pt2_dims(call, "size", dims, QF_MAX_RANK, &rank)) return QF_PT2_FAILED;
    qf_value value = qf_pt2_number_value(call, "fill_value", dtype);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_full, attributes);
    attributes[QF_ATTR(full, shape)] = (qf_attribute){.dims = dims, .count = rank};
    return qf_pt2_done(call, rank ? qf_import_op(qf_pt2_target(call), QF_OP_full, &value, 1, attributes) : value);
}

/* zeros_like, ones_like, empty_like, full_like. */
qf_pt2_outcome qf_pt2_map_like(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_dtype dtype;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, "the shape of its input is unknown");
    if (!dtype_or(call, qf_pt2_dtype_of(call, x), &dtype)) return qf_pt2_decline(call, no_type);
    qf_value number = qf_pt2_has(call, "fill_value") ? qf_pt2_number_value(call, "fill_value", dtype)
                                                     : qf_pt2_scalar(call, dtype, call->row->argument);
    return qf_pt2_done(
        call, qf_import_full(qf_pt2_target(call), number, qf_value_dims(qf_pt2_graph(call), x), qf_pt2_rank(call, x)));
}

qf_pt2_outcome qf_pt2_map_scalar_tensor(qf_pt2_call *call) {
    qf_dtype dtype;
    if (!dtype_or(call, number_dtype(call, "s"), &dtype)) return qf_pt2_decline(call, no_type);
    return qf_pt2_done(call, qf_pt2_number_value(call, "s", dtype));
}

static bool is_fraction(qf_pt2_call *call, const char *name) {
    qf_dim dim;
    return qf_pt2_is_number(call, name) && !qf_pt2_dim(call, name, &dim);
}

/* start + step * index, computed in f64 and rounded once, as torch does. */
static qf_pt2_outcome fractions(qf_pt2_call *call) {
    double start = qf_pt2_number(call, "start", 0), step = qf_pt2_number(call, "step", 1);
    double count = ceil((qf_pt2_number(call, "end", 0) - start) / step);
    qf_dtype dtype;
    if (!dtype_or(call, QF_F32, &dtype)) return qf_pt2_decline(call, no_type);
    if (!(count >= 0 && count < 1e15)) return qf_pt2_decline(call, "its bounds and its step do not fit");
    qf_value y = qf_import_iota(qf_pt2_target(call), QF_F64, qf_pt2_constant(call, (int64_t)count),
                                qf_pt2_constant(call, 0), qf_pt2_constant(call, 1));
    y = qf_pt2_binary(call, QF_OP_mul, y, qf_pt2_scalar(call, QF_F64, step));
    y = qf_pt2_binary(call, QF_OP_add, y, qf_pt2_scalar(call, QF_F64, start));
    return qf_pt2_done(call, qf_pt2_cast(call, y, dtype));
}

/* arange(end), arange(start, end), arange(start, end, step) */
qf_pt2_outcome qf_pt2_map_arange(qf_pt2_call *call) {
    if (is_fraction(call, "end") || is_fraction(call, "start") || is_fraction(call, "step")) return fractions(call);
    qf_context *context = call->import->context;
    qf_symbol_facts facts = qf_graph_facts(qf_pt2_graph(call));
    qf_dim start = qf_pt2_constant(call, 0), end, step = qf_pt2_constant(call, 1);
    qf_dtype dtype;
    int64_t stride;
    if (!dtype_or(call, QF_I64, &dtype)) return qf_pt2_decline(call, no_type);
    if (!qf_pt2_dim(call, "end", &end) || (qf_pt2_has(call, "start") && !qf_pt2_dim(call, "start", &start)) ||
        (qf_pt2_has(call, "step") && !qf_pt2_dim(call, "step", &step)))
        return qf_pt2_decline(call, "its bounds are no integers");
    if (!qf_dim_is_constant(context, step, &stride) || stride == 0)
        return qf_pt2_decline(call, "its step is not known");
    qf_dim span = stride > 0 ? qf_dim_subtract(context, end, start) : qf_dim_subtract(context, start, end);
    int64_t size = stride > 0 ? stride : -stride;
    qf_dim count = size == 1 ? span
                             : qf_dim_floor_divide(context, qf_dim_add_constant(context, span, size - 1),
                                                   qf_pt2_constant(call, size));
    if (!qf_dim_nonnegative(context, &facts, count)) count = qf_dim_maximum(context, count, qf_pt2_constant(call, 0));
    return qf_pt2_done(call, qf_import_iota(qf_pt2_target(call), dtype, count, start, step));
}

/* `steps` numbers from start to end, as torch computes them: the second half is counted back from the end. */
qf_pt2_outcome qf_pt2_map_linspace(qf_pt2_call *call) {
    qf_import_target to = qf_pt2_target(call);
    double start = qf_pt2_number(call, "start", 0), end = qf_pt2_number(call, "end", 0);
    int64_t steps = qf_pt2_int(call, "steps", -1);
    qf_dtype dtype;
    if (!dtype_or(call, QF_F32, &dtype)) return qf_pt2_decline(call, no_type);
    if (!qf_pt2_is_number(call, "start") || !qf_pt2_is_number(call, "end") || steps < 1 ||
        (dtype != QF_F32 && dtype != QF_F64))
        return qf_pt2_decline(call,
                              "its bounds or its steps are not known, or it gives other numbers than f32 and f64");
    qf_value index = qf_pt2_cast(
        call,
        qf_import_iota(to, QF_I64, qf_pt2_constant(call, steps), qf_pt2_constant(call, 0), qf_pt2_constant(call, 1)),
        dtype);
    qf_value first = qf_pt2_scalar(call, dtype, start), last = qf_pt2_scalar(call, dtype, end);
    qf_value step = qf_import_binary(to, QF_OP_sub, last, first);
    step = qf_import_binary(to, QF_OP_div, step, qf_pt2_scalar(call, dtype, steps > 1 ? (double)steps - 1 : 1));
    qf_value rest = qf_import_binary(to, QF_OP_sub, qf_pt2_scalar(call, dtype, (double)steps - 1), index);
    qf_value up = qf_import_binary(to, QF_OP_add, first, qf_import_binary(to, QF_OP_mul, step, index));
    qf_value down = qf_import_binary(to, QF_OP_sub, last, qf_import_binary(to, QF_OP_mul, step, rest));
    double half = floor((double)steps / 2);
    qf_value lower = qf_import_binary(to, QF_OP_less, index, qf_pt2_scalar(call, dtype, steps > 1 ? half : 1));
    return qf_pt2_done(call, qf_import_where(to, lower, up, down));
}

/* 1 on the diagonal. */
qf_pt2_outcome qf_pt2_map_eye(qf_pt2_call *call) {
    qf_import_target to = qf_pt2_target(call);
    qf_dim rows, columns, zero = qf_pt2_constant(call, 0), one = qf_pt2_constant(call, 1);
    qf_dtype dtype;
    if (!dtype_or(call, QF_F32, &dtype)) return qf_pt2_decline(call, no_type);
    if (!qf_pt2_dim(call, "n", &rows)) return QF_PT2_FAILED;
    if (!qf_pt2_dim(call, "m", &columns)) columns = rows;
    qf_value row = qf_pt2_unsqueeze(call, qf_import_iota(to, QF_I64, rows, zero, one), 1);
    qf_value column = qf_import_iota(to, QF_I64, columns, zero, one);
    return qf_pt2_done(call, qf_pt2_cast(call, qf_import_binary(to, QF_OP_equal, row, column), dtype));
}

/* Each vector spread over the axes of all; with "xy" the first two change places. */
qf_pt2_outcome qf_pt2_map_grid(qf_pt2_call *call) {
    uint32_t *tensors, count;
    qf_value vectors[QF_MAX_RANK];
    qf_dim shape[QF_MAX_RANK], dims[QF_MAX_RANK];
    if (!qf_pt2_tensors(call, "tensors", &tensors, &count)) return QF_PT2_FAILED;
    if (count > QF_MAX_RANK || count != call->output_count)
        return qf_pt2_decline(call, "it has more axes than QFuse has");
    bool swapped = count > 1 && strcmp(qf_pt2_string(call, "indexing", "ij"), "xy") == 0;
    for (uint32_t i = 0; i < count; i++) {
        vectors[i] = tensors[i] ? qf_pt2_read(call, tensors[i]) : (qf_value){0};
        if (qf_pt2_rank(call, vectors[i]) > 1) return qf_pt2_decline(call, "its inputs are not vectors");
        shape[swapped && i < 2 ? 1 - i : i] =
            qf_pt2_rank(call, vectors[i]) ? qf_pt2_dim_of(call, vectors[i], 0) : qf_pt2_constant(call, 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = swapped && i < 2 ? 1 - i : i;
        for (uint32_t k = 0; k < count; k++) dims[k] = k == axis ? shape[k] : qf_pt2_constant(call, 1);
        qf_value view = qf_import_view(qf_pt2_target(call), vectors[i], dims, count);
        call->outputs[i] = qf_import_expand(qf_pt2_target(call), view, shape, count);
    }
    return count ? qf_pt2_done(call, call->outputs[0]) : QF_PT2_MAPPED;
}

/* --- sizes --- */
static qf_pt2_outcome give(qf_pt2_call *call, qf_dim dim) {
    if (!dim.id) return QF_PT2_FAILED;
    if (call->output_count) call->output_dims[0] = dim;
    return QF_PT2_MAPPED;
}

qf_pt2_outcome qf_pt2_map_size(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    uint32_t axis;
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, "the shape of its input is unknown");
    if (!qf_pt2_axis(call, qf_pt2_int(call, "dim", 0), qf_pt2_rank(call, x), &axis)) return QF_PT2_FAILED;
    return give(call, qf_pt2_dim_of(call, x, (int32_t)axis));
}

qf_pt2_outcome qf_pt2_map_element_count(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    if (qf_pt2_rank(call, x) > QF_MAX_RANK) return qf_pt2_decline(call, "the shape of its input is unknown");
    return give(call, qf_dim_product(call->import->context, qf_value_dims(qf_pt2_graph(call), x),
                                     qf_pt2_rank(call, x) - call->complex));
}

/* The larger or the smaller one, where facts say which it is as itself. */
static qf_dim extreme(qf_pt2_call *call, bool largest, qf_dim a, qf_dim b) {
    qf_context *context = call->import->context;
    qf_symbol_facts facts = qf_graph_facts(qf_pt2_graph(call));
    if (qf_dim_nonnegative(context, &facts, qf_dim_subtract(context, a, b))) return largest ? a : b;
    if (qf_dim_nonnegative(context, &facts, qf_dim_subtract(context, b, a))) return largest ? b : a;
    return largest ? qf_dim_maximum(context, a, b) : qf_dim_minimum(context, a, b);
}

typedef enum arithmetic { ADD, SUBTRACT, MULTIPLY, DIVIDE, MODULO, MAXIMUM, MINIMUM, NEGATE } arithmetic;

qf_pt2_outcome qf_pt2_map_arithmetic(qf_pt2_call *call) {
    qf_context *context = call->import->context;
    qf_dim a, b = {0};
    if (!qf_pt2_dim(call, "a", &a) || (qf_pt2_has(call, "b") && !qf_pt2_dim(call, "b", &b)))
        return qf_pt2_decline(call, "it computes with other numbers than integers");
    switch ((arithmetic)call->row->argument) {
    case ADD: return give(call, qf_dim_add(context, a, b));
    case SUBTRACT: return give(call, qf_dim_subtract(context, a, b));
    case MULTIPLY: return give(call, qf_dim_multiply(context, a, b));
    case DIVIDE: return give(call, qf_dim_floor_divide(context, a, b));
    case MODULO: return give(call, qf_dim_modulo(context, a, b));
    case MAXIMUM: return give(call, extreme(call, true, a, b));
    case MINIMUM: return give(call, extreme(call, false, a, b));
    case NEGATE: return give(call, qf_dim_subtract(context, qf_pt2_constant(call, 0), a));
    }
    return QF_PT2_FAILED;
}

/* A number read from a tensor: known where the tensor's element is, else a symbol of its own. */
qf_pt2_outcome qf_pt2_map_item(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    const qf_dim *elements;
    uint32_t count;
    if (x.id && qf_symbolic_elements(call->import->symbolic, x, &elements, &count) && count == 1)
        return give(call, elements[0]);
    return give(call, qf_dim_fresh(call->import->context, "u"));
}

/* --- triangles --- */
qf_pt2_outcome qf_pt2_map_triangle(qf_pt2_call *call) {
    qf_value x = qf_pt2_in(call, "self");
    qf_dim diagonal = qf_pt2_constant(call, 0);
    if (qf_pt2_has(call, "diagonal") && !qf_pt2_dim(call, "diagonal", &diagonal)) return QF_PT2_FAILED;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_triangle, attributes);
    attributes[QF_ATTR(triangle, upper)].integer = call->row->argument;
    attributes[QF_ATTR(triangle, diagonal)].dim = diagonal;
    return qf_pt2_done(call, qf_import_op(qf_pt2_target(call), QF_OP_triangle, &x, 1, attributes));
}
