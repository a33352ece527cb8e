/* Owns: mappings of constants and of ops that make or change shapes.
 * Does not own: moving elements (map_layout.c).
 * Next: map_layout.c. */
#include <math.h>
#include <string.h>

#include "base/convert.h"
#include "frontends/onnx/maps.h"

/* --- constants --- */
static qf_value literal_value(qf_onnx_call *call, qf_dtype dtype, const void *data, size_t count, bool scalar) {
    int64_t size = (int64_t)count;
    return qf_onnx_literal(call, dtype, data, &size, scalar ? 0 : 1);
}

qf_onnx_outcome qf_onnx_map_constant(qf_onnx_call *call) {
    if (call->node->n_attribute != 1)
        return qf_onnx_fault(call, QF_ERROR_VERIFY, "Constant: expected one attribute with the value, found %zu",
                             call->node->n_attribute);
    const Onnx__AttributeProto *attribute = call->node->attribute[0];
    const char *name = attribute->name;
    if (strcmp(name, "value_float") == 0)
        return qf_onnx_done(call, literal_value(call, QF_F32, &attribute->f, 1, true));
    if (strcmp(name, "value_floats") == 0)
        return qf_onnx_done(call, literal_value(call, QF_F32, attribute->floats, attribute->n_floats, false));
    if (strcmp(name, "value_int") == 0) return qf_onnx_done(call, literal_value(call, QF_I64, &attribute->i, 1, true));
    if (strcmp(name, "value_ints") == 0)
        return qf_onnx_done(call, literal_value(call, QF_I64, attribute->ints, attribute->n_ints, false));
    if (!attribute->t) return qf_onnx_fault(call, QF_ERROR_VERIFY, "Constant: attribute 'value' holds no tensor");
    if (call->scope->parent)
        call->import->node_count += protobuf_c_message_get_packed_size(&attribute->t->base) / QF_ONNX_BYTES_A_NODE;
    const char *output = qf_onnx_text(call->node->output[0]);
    size_t size = strlen(call->scope->path) + strlen(output) + 1;
    char *key = qf_arena_allocate(&call->import->scratch, size);
    if (!key) return QF_ONNX_FAILED;
    memcpy(key, call->scope->path, strlen(call->scope->path));
    memcpy(key + strlen(call->scope->path), output, strlen(output) + 1);
    return qf_onnx_done(call,
                        qf_onnx_import_tensor(call->import, attribute->t, NULL, key, call->location, call->where));
}

qf_onnx_outcome qf_onnx_map_constant_of_shape(qf_onnx_call *call) {
    const qf_dim *dims;
    uint32_t rank;
    if (!qf_onnx_elements(call, qf_onnx_in(call, 0), &dims, &rank) || rank > QF_MAX_RANK)
        return qf_onnx_decline(call, "its shape is computed at run time");
    const Onnx__AttributeProto *attribute = qf_onnx_attribute(call->node, "value");
    static const float zero = 0;
    qf_onnx_bytes bytes = {.data = &zero};
    qf_dtype dtype = QF_F32;
    if (attribute && attribute->t) {
        qf_type type = qf_onnx_tensor_type(call->import->context, attribute->t, call->where);
        uint64_t count = 0;
        if (!type.id) return QF_ONNX_FAILED;
        dtype = qf_type_dtype(call->import->context, type);
        if (dtype == QF_DTYPE_NONE) return qf_onnx_decline(call, "its element type is unknown to QFuse");
        if (qf_onnx_tensor_bytes(call->import->storage, &call->import->folders, attribute->t, NULL, type, call->where,
                                 &bytes) != QF_OK)
            return QF_ONNX_FAILED;
        if (!qf_type_static_count(call->import->context, type, &count) || count != 1)
            return qf_onnx_fault(call, QF_ERROR_VERIFY, "ConstantOfShape: expected a value with one element");
    }
    qf_value value = literal_value(call, dtype, bytes.data, 1, true);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_full, attributes);
    attributes[QF_ATTR(full, shape)] = (qf_attribute){.dims = dims, .count = rank};
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_full, &value, 1, attributes));
}

/* Ones where column - row = k. */
qf_onnx_outcome qf_onnx_map_eye_like(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    if (qf_onnx_rank(call, x) != 2) return qf_onnx_decline(call, "the shape of its input is unknown");
    qf_dtype dtype =
        qf_onnx_has(call, "dtype") ? qf_onnx_dtype(qf_onnx_int(call, "dtype", 1)) : qf_onnx_dtype_of(call, x);
    if (dtype == QF_DTYPE_NONE) return qf_onnx_decline(call, "its element type is unknown to QFuse");
    qf_dim zero = qf_onnx_constant(call, 0), one = qf_onnx_constant(call, 1);
    qf_value rows = qf_import_iota(qf_onnx_target(call), QF_I64, qf_onnx_dim(call, x, 0),
                                   qf_onnx_constant(call, qf_onnx_int(call, "k", 0)), one);
    qf_value columns = qf_import_iota(qf_onnx_target(call), QF_I64, qf_onnx_dim(call, x, 1), zero, one);
    rows = qf_import_view(qf_onnx_target(call), rows, (qf_dim[]){qf_onnx_dim(call, x, 0), one}, 2);
    return qf_onnx_done(
        call, qf_onnx_cast(call, qf_import_binary(qf_onnx_target(call), QF_OP_equal, rows, columns), dtype, true));
}

/* --- reading shapes --- */
qf_onnx_outcome qf_onnx_map_shape(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x);
    int64_t start = qf_onnx_int(call, "start", 0), end = qf_onnx_int(call, "end", INT64_MAX);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_shape_of, attributes);
    if (rank != QF_UNRANKED) {
        int64_t r = rank;
        start = start < 0 ? start + r : start;
        end = end < 0 ? end + r : end;
        start = start < 0 ? 0 : start > r ? r : start;
        end = end < start ? start : end > r ? r : end;
    }
    attributes[QF_ATTR(shape_of, start)].integer = start;
    attributes[QF_ATTR(shape_of, end)].integer = end;
    return qf_onnx_done(call, qf_import_op(qf_onnx_target(call), QF_OP_shape_of, &x, 1, attributes));
}

qf_onnx_outcome qf_onnx_map_size(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    if (qf_onnx_rank(call, x) > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    qf_dim count = qf_type_element_count(call->import->context, qf_value_type(qf_onnx_graph(call), x));
    return qf_onnx_done(call, qf_import_symbolic(qf_onnx_target(call), &count, 1, true));
}

/* --- ranges --- */
static bool one_element(qf_onnx_call *call, qf_value value, qf_dim *out) {
    const qf_dim *dims;
    uint32_t count;
    if (!qf_onnx_elements(call, value, &dims, &count) || count != 1) {
        double number;
        if (!qf_onnx_number_of(call, value, &number) || number != (double)(int64_t)number) return false;
        *out = qf_onnx_constant(call, (int64_t)number);
        return out->id != 0;
    }
    *out = dims[0];
    return true;
}

/* max(0, ceil((limit - start) / step)) */
static qf_dim range_length(qf_onnx_call *call, qf_dim start, qf_dim limit, int64_t step) {
    qf_context *context = call->import->context;
    qf_symbol_facts facts = qf_graph_facts(qf_onnx_graph(call));
    qf_dim span = step > 0 ? qf_dim_subtract(context, limit, start) : qf_dim_subtract(context, start, limit);
    int64_t stride = step > 0 ? step : -step;
    if (stride != 1)
        span = qf_dim_floor_divide(context, qf_dim_add_constant(context, span, stride - 1),
                                   qf_dim_constant(context, stride));
    if (span.id && qf_dim_nonnegative(context, &facts, span)) return span;
    return qf_dim_maximum(context, span, qf_dim_constant(context, 0));
}

/* start + i * step in floats of which one or both are no whole numbers. */
static qf_onnx_outcome float_range(qf_onnx_call *call, qf_dtype dtype) {
    qf_dim limit, length;
    double start, step, end;
    if (!qf_dtype_is_float(dtype) || !qf_onnx_number_of(call, qf_onnx_in(call, 0), &start) ||
        !qf_onnx_number_of(call, qf_onnx_in(call, 2), &step) || !(fabs(start) < 0x1p31) || !(fabs(step) > 0x1p-31))
        return qf_onnx_decline(call, "its bounds are computed at run time");
    if (qf_onnx_number_of(call, qf_onnx_in(call, 1), &end)) {
        double count = ceil((end - start) / step);
        if (!(count < 0x1p31)) return qf_onnx_decline(call, "it has too many elements");
        length = qf_onnx_constant(call, count > 0 ? (int64_t)count : 0);
    } else {
        if (step != 1 || !one_element(call, qf_onnx_in(call, 1), &limit))
            return qf_onnx_decline(call, "its bounds are computed at run time");
        length = range_length(call, qf_onnx_constant(call, (int64_t)floor(start)), limit, 1);
    }
    qf_value x =
        qf_import_iota(qf_onnx_target(call), QF_I64, length, qf_onnx_constant(call, 0), qf_onnx_constant(call, 1));
    x = qf_onnx_scale(call, qf_onnx_cast(call, x, dtype, true), step);
    return qf_onnx_done(call, qf_import_binary(qf_onnx_target(call), QF_OP_add, x, qf_onnx_number(call, dtype, start)));
}

qf_onnx_outcome qf_onnx_map_range(qf_onnx_call *call) {
    qf_dim start, limit, step;
    int64_t stride;
    qf_dtype dtype = qf_onnx_dtype_of(call, qf_onnx_in(call, 0));
    if (!one_element(call, qf_onnx_in(call, 0), &start) || !one_element(call, qf_onnx_in(call, 1), &limit) ||
        !one_element(call, qf_onnx_in(call, 2), &step) || !qf_dim_is_constant(call->import->context, step, &stride) ||
        stride == 0 || stride == INT64_MIN)
        return float_range(call, dtype);
    return qf_onnx_done(
        call, qf_import_iota(qf_onnx_target(call), dtype, range_length(call, start, limit, stride), start, step));
}

/* --- new shapes --- */
/* The dim that stands for -1: what is left of the elements. */
static qf_dim left_over(qf_onnx_call *call, qf_value x, const qf_dim *dims, uint32_t rank, uint32_t hole) {
    qf_context *context = call->import->context;
    const qf_dim *own = qf_value_dims(qf_onnx_graph(call), x);
    uint32_t own_rank = qf_onnx_rank(call, x);
    bool cancelled[QF_MAX_RANK] = {false};
    qf_dim total = qf_dim_constant(context, 1), taken = total;
    /* Equal dims cancel, so that a symbol that might be 0 does not hide what is left. */
    for (uint32_t i = 0; i < rank; i++) {
        if (i == hole) continue;
        bool found = false;
        for (uint32_t j = 0; !found && j < own_rank; j++)
            if (!cancelled[j] && qf_dim_equal(own[j], dims[i])) found = cancelled[j] = true;
        if (!found) taken = qf_dim_multiply(context, taken, dims[i]);
    }
    for (uint32_t j = 0; j < own_rank; j++)
        if (!cancelled[j]) total = qf_dim_multiply(context, total, own[j]);
    qf_dim exact = qf_dim_divide_exactly(context, total, taken);
    return exact.id ? exact : qf_dim_floor_divide(context, total, taken);
}

qf_onnx_outcome qf_onnx_map_reshape(qf_onnx_call *call) {
    qf_context *context = call->import->context;
    qf_value x = qf_onnx_in(call, 0);
    uint32_t own_rank = qf_onnx_rank(call, x), rank, hole = UINT32_MAX;
    const qf_dim *wanted;
    if (own_rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    if (!qf_onnx_elements(call, qf_onnx_in(call, 1), &wanted, &rank))
        return qf_onnx_decline(call, "its shape is computed at run time");
    if (rank > QF_MAX_RANK)
        return qf_onnx_fault(call, QF_ERROR_LIMIT, "Reshape to rank %u; at most %d is supported", rank, QF_MAX_RANK);
    bool allow_zero = qf_onnx_int(call, "allowzero", 0) != 0;
    qf_dim dims[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = wanted[i];
        if (qf_dim_is(context, wanted[i], 0) && !allow_zero) {
            if (i >= own_rank)
                return qf_onnx_fault(call, QF_ERROR_VERIFY,
                                     "Reshape: 0 at position %u copies a dim, but the input has rank %u", i, own_rank);
            dims[i] = qf_onnx_dim(call, x, (int32_t)i);
        } else if (qf_dim_is(context, wanted[i], -1)) {
            if (hole != UINT32_MAX)
                return qf_onnx_fault(call, QF_ERROR_VERIFY, "Reshape: -1 at positions %u and %u; expected one at most",
                                     hole, i);
            hole = i;
        }
    }
    if (hole != UINT32_MAX) dims[hole] = left_over(call, x, dims, rank, hole);
    if (hole != UINT32_MAX && !dims[hole].id)
        return qf_onnx_fault(call, QF_ERROR_VERIFY, "Reshape: the dim for -1 cannot be computed from the input's dims");
    return qf_onnx_done(call, qf_import_view(qf_onnx_target(call), x, dims, rank));
}

qf_onnx_outcome qf_onnx_map_flatten(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x);
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    int64_t axis = qf_onnx_int(call, "axis", 1);
    axis = axis < 0 ? axis + (int64_t)rank : axis;
    if (axis < 0 || axis > (int64_t)rank)
        return qf_onnx_fault(call, QF_ERROR_VERIFY, "Flatten: axis %lld is outside of rank %u", (long long)axis, rank);
    const qf_dim *own = qf_value_dims(qf_onnx_graph(call), x);
    qf_context *context = call->import->context;
    qf_dim dims[2] = {qf_dim_product(context, own, (uint32_t)axis),
                      qf_dim_product(context, own + axis, rank - (uint32_t)axis)};
    return qf_onnx_done(call, qf_import_view(qf_onnx_target(call), x, dims, 2));
}

qf_onnx_outcome qf_onnx_map_squeeze(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x), kept = 0;
    qf_onnx_axes axes;
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    if (!qf_onnx_read_axes(call, 1, rank, &axes)) return qf_onnx_decline(call, call->reason);
    qf_dim dims[QF_MAX_RANK];
    for (uint32_t i = 0, next = 0; i < rank; i++) {
        qf_dim dim = qf_onnx_dim(call, x, (int32_t)i);
        bool removed =
            axes.given ? next < axes.count && axes.items[next] == (int64_t)i : qf_dim_is(call->import->context, dim, 1);
        if (removed)
            next++;
        else
            dims[kept++] = dim;
    }
    return qf_onnx_done(call, qf_import_view(qf_onnx_target(call), x, dims, kept));
}

qf_onnx_outcome qf_onnx_map_unsqueeze(qf_onnx_call *call) {
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x), added;
    int64_t listed[QF_MAX_RANK];
    qf_onnx_axes axes;
    if (rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    if (!qf_onnx_constants(call, qf_onnx_in(call, 1), listed, QF_MAX_RANK, &added))
        return qf_onnx_decline(call, "its axes are computed at run time");
    if (rank + added > QF_MAX_RANK)
        return qf_onnx_fault(call, QF_ERROR_LIMIT, "Unsqueeze to rank %u; at most %d is supported", rank + added,
                             QF_MAX_RANK);
    if (!qf_onnx_read_axes(call, 1, rank + added, &axes)) return qf_onnx_decline(call, call->reason);
    qf_dim dims[QF_MAX_RANK];
    for (uint32_t i = 0, next = 0, source = 0; i < rank + added; i++) {
        if (next < axes.count && axes.items[next] == (int64_t)i) {
            dims[i] = qf_onnx_constant(call, 1);
            next++;
        } else {
            dims[i] = qf_onnx_dim(call, x, (int32_t)source++);
        }
    }
    return qf_onnx_done(call, qf_import_view(qf_onnx_target(call), x, dims, rank + added));
}

/* Both sides broadcast: a 1 in the wanted shape keeps the input's dim. Dims that might differ are assumed equal. */
qf_onnx_outcome qf_onnx_map_expand(qf_onnx_call *call) {
    qf_context *context = call->import->context;
    qf_value x = qf_onnx_in(call, 0);
    uint32_t own_rank = qf_onnx_rank(call, x), count;
    const qf_dim *wanted;
    if (own_rank > QF_MAX_RANK) return qf_onnx_decline(call, "the shape of its input is unknown");
    if (!qf_onnx_elements(call, qf_onnx_in(call, 1), &wanted, &count) || count > QF_MAX_RANK)
        return qf_onnx_decline(call, "its shape is computed at run time");
    uint32_t rank = own_rank > count ? own_rank : count;
    qf_dim dims[QF_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        qf_dim own =
            i + own_rank < rank ? qf_onnx_constant(call, 1) : qf_onnx_dim(call, x, (int32_t)(i + own_rank - rank));
        qf_dim asked = i + count < rank ? qf_onnx_constant(call, 1) : wanted[i + count - rank];
        dims[i] = qf_dim_is(context, own, 1) ? asked : own;
        if (qf_dim_equal(own, asked) || qf_dim_is(context, own, 1) || qf_dim_is(context, asked, 1)) continue;
        int64_t a, b;
        bool constant_own = qf_dim_is_constant(context, own, &a),
             constant_asked = qf_dim_is_constant(context, asked, &b);
        if (constant_own && constant_asked)
            return qf_onnx_fault(call, QF_ERROR_VERIFY, "Expand: axis %u has size %lld; it cannot become %lld", i,
                                 (long long)a, (long long)b);
        if (!qf_graph_add_guard(qf_onnx_graph(call), own, asked, call->location)) return QF_ONNX_FAILED;
        if (constant_asked) dims[i] = asked;
    }
    return qf_onnx_done(call, qf_import_expand(qf_onnx_target(call), x, dims, rank));
}
