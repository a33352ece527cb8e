/* Owns: constant masks: fitting a band to every element, telling along which axes elements differ.
 * Does not own: masks computed by the graph (mask_value.c).
 * Next: mask.h. */
#include <string.h>

#include "base/convert.h"
#include "patterns/mask_value.h"

#define MAX_ELEMENTS ((uint64_t)1 << 22)

/* A constant tensor. */
typedef struct constant_mask {
    const uint8_t *data;
    size_t element_size;
    uint32_t rank;
    uint64_t dims[QF_MAX_RANK], strides[QF_MAX_RANK], count; /* strides in elements */
    uint32_t varying[2], varying_count;                      /* axes along which elements differ */
} constant_mask;

static const void *parameter_data(const qf_graph *graph, qf_value value, uint64_t bytes) {
    qf_node node = qf_producer_of_op(graph, value, QF_OP_parameter);
    if (!node.id) return NULL;
    qf_string name = qf_node_attribute(graph, node, QF_ATTR(parameter, name))->string;
    for (uint32_t i = 0; i < graph->weight_count; i++)
        if (graph->weights[i].name.id == name.id)
            return graph->weights[i].size == bytes ? graph->weights[i].data : NULL;
    return NULL;
}

static bool load(const qf_graph *graph, qf_value value, const qf_literal *literal, constant_mask *out) {
    qf_type type = qf_value_type(graph, value);
    qf_dtype dtype = qf_type_dtype(graph->context, type);
    if (qf_dtype_bits(dtype) < 8 || !qf_type_static_count(graph->context, type, &out->count) || !out->count ||
        out->count > MAX_ELEMENTS)
        return false;
    out->element_size = qf_dtype_bits(dtype) / 8;
    out->data = literal ? literal->data : parameter_data(graph, value, out->count * out->element_size);
    if (!out->data) return false;
    out->rank = qf_type_rank(graph->context, type);
    uint64_t stride = 1;
    for (uint32_t i = out->rank; i-- > 0;) {
        int64_t dim;
        if (!qf_dim_is_constant(graph->context, qf_type_dims(graph->context, type)[i], &dim)) return false;
        out->dims[i] = (uint64_t)dim;
        out->strides[i] = stride;
        stride *= (uint64_t)dim;
    }
    return true;
}

static const uint8_t *element(const constant_mask *mask, uint64_t index) {
    return mask->data + index * mask->element_size;
}

static bool same_element(const constant_mask *mask, const uint8_t *a, const uint8_t *b) {
    return memcmp(a, b, mask->element_size) == 0;
}

/* Whether elements differ along the axis: a block equals itself moved by one index where they do not. */
static bool varies(const constant_mask *mask, uint32_t axis) {
    uint64_t stride = mask->strides[axis], block = stride * mask->dims[axis];
    if (mask->dims[axis] == 1) return false;
    for (uint64_t start = 0; start < mask->count; start += block)
        if (memcmp(element(mask, start), element(mask, start + stride), (block - stride) * mask->element_size) != 0)
            return true;
    return false;
}

static bool is_binary(const constant_mask *constant, qf_dtype dtype) {
    for (uint64_t i = 0; i < constant->count; i++) {
        double number = qf_load_f64(dtype, element(constant, i), 0);
        if (number != 0.0 && number != 1.0) return false;
    }
    return true;
}

bool qf_constant_is_binary(const qf_graph *graph, qf_value value) {
    constant_mask constant = {.data = NULL};
    return load(graph, value, qf_value_literal(graph, value), &constant) &&
           is_binary(&constant, qf_value_dtype(graph, value));
}

bool qf_constants_blend(qf_labelling *labels, qf_value factor, const qf_axes *factor_axes, qf_value addend,
                        const qf_axes *addend_axes, double *out_number) {
    const qf_graph *graph = labels->graph;
    constant_mask m = {.data = NULL}, b = {.data = NULL};
    qf_axes m_axes = *factor_axes, b_axes = *addend_axes;
    qf_dtype m_dtype = qf_value_dtype(graph, factor), b_dtype = qf_value_dtype(graph, addend);
    bool found = false;
    if (!load(graph, factor, qf_value_literal(graph, factor), &m) ||
        !load(graph, addend, qf_value_literal(graph, addend), &b) || m.count != b.count ||
        !qf_labelling_axes_equal(labels, &m_axes, &b_axes) || !is_binary(&m, m_dtype))
        return false;
    for (uint64_t i = 0; i < m.count; i++) {
        double number = qf_load_f64(b_dtype, element(&b, i), 0);
        bool keeps = qf_load_f64(m_dtype, element(&m, i), 0) == 1.0;
        if (keeps ? number != 0.0 : found && number != *out_number) return false;
        if (keeps) continue;
        *out_number = number;
        found = true;
    }
    return found && *out_number == *out_number;
}

bool qf_constant_varies(const qf_graph *graph, qf_value value, uint32_t axis) {
    constant_mask constant = {.data = NULL};
    return !load(graph, value, qf_value_literal(graph, value), &constant) || axis >= constant.rank ||
           varies(&constant, axis);
}

static bool find_varying(constant_mask *mask) {
    for (uint32_t i = 0; i < mask->rank; i++) {
        if (!varies(mask, i)) continue;
        if (mask->varying_count == 2) return false;
        mask->varying[mask->varying_count++] = i;
    }
    return mask->varying_count > 0;
}

/* Elements depend on the difference of the two indices only: each row is the one above, moved by one. */
static bool is_constant_on_diagonals(const constant_mask *mask) {
    uint32_t i_axis = mask->varying[0], j_axis = mask->varying[1];
    uint64_t rows = mask->dims[i_axis], columns = mask->dims[j_axis];
    uint64_t row = mask->strides[i_axis], column = mask->strides[j_axis];
    for (uint64_t i = 1; i < rows; i++) {
        const uint8_t *above = element(mask, (i - 1) * row), *below = element(mask, i * row + column);
        if (column == 1) {
            if (memcmp(above, below, (columns - 1) * mask->element_size) != 0) return false;
            continue;
        }
        for (uint64_t j = 0; j + 1 < columns; j++)
            if (!same_element(mask, element(mask, (i - 1) * row + j * column),
                              element(mask, i * row + (j + 1) * column)))
                return false;
    }
    return true;
}

typedef struct band {
    int64_t low, high, least, most; /* true for low <= d <= high; d runs from least to most */
    double high_number, low_number;
} band;

/* The element where the index (or the difference of the two indices) is d. */
static const uint8_t *at_difference(const constant_mask *mask, int64_t d) {
    uint64_t index =
        d >= 0 ? (uint64_t)d * mask->strides[mask->varying[0]] : (uint64_t)-d * mask->strides[mask->varying[1]];
    return element(mask, index);
}

/* Two values, the larger one exactly on an interval of d. */
static bool fit(const constant_mask *mask, qf_dtype dtype, band *out) {
    bool two = mask->varying_count == 2;
    if (two && !is_constant_on_diagonals(mask)) return false;
    *out = (band){.low = INT64_MAX,
                  .high = INT64_MIN,
                  .least = two ? 1 - (int64_t)mask->dims[mask->varying[1]] : 0,
                  .most = (int64_t)mask->dims[mask->varying[0]] - 1};
    const uint8_t *first = at_difference(mask, out->least), *second = NULL;
    for (int64_t d = out->least; d <= out->most; d++) {
        const uint8_t *at = at_difference(mask, d);
        if (same_element(mask, at, first)) continue;
        if (second && !same_element(mask, at, second)) return false;
        second = at;
    }
    if (!second) return false;
    double a = qf_load_f64(dtype, first, 0), b = qf_load_f64(dtype, second, 0);
    if (a != a || b != b || a == b) return false;
    const uint8_t *high = a > b ? first : second;
    out->high_number = a > b ? a : b;
    out->low_number = a > b ? b : a;
    int64_t count = 0;
    for (int64_t d = out->least; d <= out->most; d++) {
        if (!same_element(mask, at_difference(mask, d), high)) continue;
        if (d < out->low) out->low = d;
        out->high = d;
        count++;
    }
    return count == out->high - out->low + 1;
}

/* The band as clauses d - low >= 0 and high - d >= 0, where they bind at all. */
static bool band_condition(qf_labelling *labels, const band *fitted, const qf_affine *d, qf_value origin,
                           const qf_axes *axes, qf_condition *out) {
    *out = qf_condition_constant(true);
    for (uint32_t side = 0; side < 2; side++) {
        qf_affine form;
        qf_condition clause;
        if (side == 0 ? fitted->low == fitted->least : fitted->high == fitted->most) continue;
        if (!qf_affine_integer(labels, side == 0 ? -fitted->low : fitted->high, &form) ||
            !qf_affine_add(labels, &form, d, side == 0 ? 1 : -1, &form) ||
            !qf_condition_affine(labels, &form, origin, axes, &clause) || !qf_condition_and(labels, out, &clause, out))
            return false;
    }
    return true;
}

bool qf_band_fit(qf_labelling *labels, qf_value value, const qf_literal *literal, const qf_axes *axes,
                 qf_abstract *out) {
    qf_dtype dtype = qf_value_dtype(labels->graph, value);
    constant_mask mask = {.data = NULL};
    band fitted;
    qf_affine d, j;
    qf_condition condition;
    bool boolean = dtype == QF_I1;
    if (!load(labels->graph, value, literal, &mask) || mask.rank != axes->rank || !find_varying(&mask) ||
        !fit(&mask, dtype, &fitted) || !qf_affine_of_axis(labels, axes->axis[mask.varying[0]], &d))
        return false;
    if (mask.varying_count == 2 &&
        (!qf_affine_of_axis(labels, axes->axis[mask.varying[1]], &j) || !qf_affine_add(labels, &d, &j, -1, &d)))
        return false;
    if (!band_condition(labels, &fitted, &d, boolean ? value : (qf_value){0}, axes, &condition)) return false;
    out->kind = boolean ? QF_ABSTRACT_CONDITION : QF_ABSTRACT_SELECT;
    out->condition = condition;
    out->a = fitted.high_number;
    out->b = fitted.low_number;
    return true;
}
