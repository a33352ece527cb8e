/* Owns: constant masks: fitting a band to every element.
 * Does not own: masks computed by the graph (mask_value.c).
 * Next: mask.h. */
#include <string.h>

#include "base/convert.h"
#include "patterns/mask_value.h"

#define MAX_ELEMENTS ((uint64_t)1 << 22)

/* A constant tensor of at most two different elements. */
typedef struct two_valued {
    const uint8_t *data;
    size_t element_size;
    uint32_t rank;
    uint64_t dims[QF_MAX_RANK], strides[QF_MAX_RANK], count;
    const uint8_t *high; /* the larger element */
    double high_number, low_number;
} two_valued;

static const void *parameter_data(const qf_graph *graph, qf_value value, uint64_t bytes) {
    qf_node node = qf_producer_of_op(graph, value, QF_OP_parameter);
    if (!node.id) return NULL;
    qf_string name = qf_node_attribute(graph, node, QF_ATTR(parameter, name))->string;
    for (uint32_t i = 0; i < graph->weight_count; i++)
        if (graph->weights[i].name.id == name.id)
            return graph->weights[i].size == bytes ? graph->weights[i].data : NULL;
    return NULL;
}

static bool load(const qf_graph *graph, qf_value value, const qf_literal *literal, two_valued *out) {
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

static const uint8_t *element(const two_valued *mask, uint64_t index) {
    return mask->data + index * mask->element_size;
}

static bool is_high(const two_valued *mask, uint64_t index) {
    return memcmp(element(mask, index), mask->high, mask->element_size) == 0;
}

static bool find_values(two_valued *mask, qf_dtype dtype) {
    const uint8_t *first = element(mask, 0), *second = first;
    for (uint64_t i = 1; i < mask->count; i++) {
        const uint8_t *at = element(mask, i);
        if (memcmp(at, first, mask->element_size) == 0) continue;
        if (second == first)
            second = at;
        else if (memcmp(at, second, mask->element_size) != 0)
            return false;
    }
    double a = qf_load_f64(dtype, first, 0), b = qf_load_f64(dtype, second, 0);
    mask->high = a >= b ? first : second;
    mask->high_number = a >= b ? a : b;
    mask->low_number = a >= b ? b : a;
    return a == a && b == b;
}

/* Whether elements differ along the axis. */
static bool varies(const two_valued *mask, uint32_t axis) {
    uint64_t stride = mask->strides[axis], block = stride * mask->dims[axis];
    if (mask->dims[axis] == 1) return false;
    for (uint64_t start = 0; start < mask->count; start += block)
        for (uint64_t i = stride; i < block; i += stride)
            if (memcmp(element(mask, start), element(mask, start + i), stride * mask->element_size) != 0) return true;
    return false;
}

typedef struct band {
    int64_t low, high, least, most; /* true for low <= d <= high; d runs from least to most */
} band;

/* d = i - j over the two axes (or i where there is one). */
static bool fit(const two_valued *mask, uint32_t axis_i, uint32_t axis_j, bool two, band *out) {
    uint64_t rows = mask->dims[axis_i], columns = two ? mask->dims[axis_j] : 1;
    uint64_t stride_j = two ? mask->strides[axis_j] : 0;
    *out =
        (band){.low = INT64_MAX, .high = INT64_MIN, .least = two ? 1 - (int64_t)columns : 0, .most = (int64_t)rows - 1};
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++) {
            int64_t d = (int64_t)i - (int64_t)j;
            if (!is_high(mask, i * mask->strides[axis_i] + j * stride_j)) continue;
            if (d < out->low) out->low = d;
            if (d > out->high) out->high = d;
        }
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++) {
            int64_t d = (int64_t)i - (int64_t)j;
            if (is_high(mask, i * mask->strides[axis_i] + j * stride_j) != (d >= out->low && d <= out->high))
                return false;
        }
    return true;
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
    two_valued mask = {.data = NULL};
    uint32_t varying[2] = {0, 0}, count = 0;
    if (!load(labels->graph, value, literal, &mask) || mask.rank != axes->rank || !find_values(&mask, dtype))
        return false;
    for (uint32_t i = 0; i < mask.rank; i++) {
        if (!varies(&mask, i)) continue;
        if (count == 2) return false;
        varying[count++] = i;
    }
    band fitted;
    qf_affine d, j;
    qf_condition condition;
    bool boolean = dtype == QF_I1;
    if (!count || !fit(&mask, varying[0], varying[1], count == 2, &fitted) ||
        !qf_affine_of_axis(labels, axes->axis[varying[0]], &d))
        return false;
    if (count == 2 &&
        (!qf_affine_of_axis(labels, axes->axis[varying[1]], &j) || !qf_affine_add(labels, &d, &j, -1, &d)))
        return false;
    if (!band_condition(labels, &fitted, &d, boolean ? value : (qf_value){0}, axes, &condition)) return false;
    out->kind = boolean ? QF_ABSTRACT_CONDITION : QF_ABSTRACT_SELECT;
    out->condition = condition;
    out->a = mask.high_number;
    out->b = mask.low_number;
    return true;
}
