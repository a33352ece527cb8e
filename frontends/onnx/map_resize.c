/* Owns: Resize: each axis by itself, as a product with the matrix of its weights, or as repeated or selected elements.
 * Does not own: other ops that move elements (map_layout.c).
 * Next: map_contract.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/convert.h"
#include "frontends/onnx/maps.h"

#define LARGEST_AXIS 4096 /* elements of a resized axis: its matrix has the square of that */

typedef enum resize_mode { NEAREST, LINEAR, CUBIC } resize_mode;
typedef enum resize_place {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC
} resize_place;
typedef enum resize_round { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL } resize_round;

typedef struct resize {
    int64_t mode, place, round; /* the enums above */
    bool antialias, exclude_outside;
    double cubic;
} resize;

/* One axis: `scale` is how much longer it becomes, as the spec reads it; `to` the number of elements then. */
typedef struct resize_axis {
    int64_t from, to;
    double scale;
} resize_axis;

static bool choose(qf_onnx_call *call, const char *attribute, const char *otherwise, const char *const *names,
                   int64_t count, int64_t *out) {
    qf_text text = qf_onnx_string(call, attribute, otherwise);
    for (*out = 0; *out < count; ++*out)
        if (qf_text_is(text, names[*out])) return true;
    return false;
}

/* NULL, or what of the node's attributes QFuse lacks. */
static const char *read_modes(qf_onnx_call *call, resize *out) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const places[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                         "asymmetric"};
    static const char *const rounds[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    if (!choose(call, "mode", "nearest", modes, QF_COUNT_OF(modes), &out->mode) ||
        !choose(call, "coordinate_transformation_mode", "half_pixel", places, QF_COUNT_OF(places), &out->place) ||
        !choose(call, "nearest_mode", "round_prefer_floor", rounds, QF_COUNT_OF(rounds), &out->round))
        return "its mode is none that QFuse has";
    if (!qf_text_is(qf_onnx_string(call, "keep_aspect_ratio_policy", "stretch"), "stretch"))
        return "it keeps the aspect ratio";
    out->antialias = qf_onnx_int(call, "antialias", 0) != 0;
    out->exclude_outside = qf_onnx_int(call, "exclude_outside", 0) != 0;
    out->cubic = qf_onnx_float(call, "cubic_coeff_a", -0.75);
    return NULL;
}

/* Where element `index` of the result lies in the input. */
static double place_of(const resize *r, const resize_axis *axis, double index) {
    double length = axis->scale * (double)axis->from;
    switch ((resize_place)r->place) {
    case ALIGN_CORNERS: return length == 1 ? 0 : index * (double)(axis->from - 1) / (length - 1);
    case ASYMMETRIC: return index / axis->scale;
    case PYTORCH_HALF_PIXEL: return length == 1 ? -0.5 : (index + 0.5) / axis->scale - 0.5;
    case HALF_PIXEL_SYMMETRIC:
        return (double)axis->from / 2 * (1 - (double)axis->to / length) + (index + 0.5) / axis->scale - 0.5;
    case HALF_PIXEL: break;
    }
    return (index + 0.5) / axis->scale - 0.5;
}

static double weight_at(const resize *r, double distance) {
    double x = fabs(distance), a = r->cubic;
    if (r->mode == LINEAR) return x < 1 ? 1 - x : 0;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* One row: the share that each element of the input has. Elements before the first and past the last are copies of
 * these. */
static void weights_of(const resize *r, const resize_axis *axis, double place, float *row) {
    double reach = r->mode == LINEAR ? 1 : 2, total = 0;
    double narrow = r->antialias && axis->scale < 1 ? axis->scale : 1; /* the filter's width is 1 / narrow */
    int64_t first = (int64_t)ceil(place - reach / narrow), last = (int64_t)floor(place + reach / narrow);
    bool normalise = r->exclude_outside || narrow < 1;
    for (int64_t i = first; normalise && i <= last; i++)
        if (!r->exclude_outside || (i >= 0 && i < axis->from)) total += weight_at(r, narrow * ((double)i - place));
    for (int64_t i = first; i <= last; i++) {
        int64_t inside = i < 0 ? 0 : i >= axis->from ? axis->from - 1 : i;
        if (r->exclude_outside && inside != i) continue;
        double weight = weight_at(r, narrow * ((double)i - place));
        row[inside] += (float)(normalise ? weight / total : weight);
    }
}

/* x with the axis contracted with the matrix of weights [to, from]. */
static qf_value weigh(qf_onnx_call *call, const resize *r, const resize_axis *sizes, qf_value x, uint32_t axis) {
    size_t count = (size_t)(sizes->from * sizes->to);
    float *matrix = qf_arena_allocate(&call->import->scratch, count * sizeof *matrix);
    if (!matrix) return (qf_value){0};
    memset(matrix, 0, count * sizeof *matrix);
    for (int64_t i = 0; i < sizes->to; i++)
        weights_of(r, sizes, place_of(r, sizes, (double)i), matrix + i * sizes->from);
    qf_value weights = qf_onnx_literal(call, QF_F32, matrix, (int64_t[]){sizes->to, sizes->from}, 2);
    weights = qf_onnx_cast(call, weights, qf_onnx_dtype_of(call, x), true);
    char equation[3 * QF_MAX_RANK + 8], left[QF_MAX_RANK + 1] = "", result[QF_MAX_RANK + 1] = "";
    uint32_t rank = qf_onnx_rank(call, x);
    for (uint32_t i = 0; i < rank; i++) {
        left[i] = (char)('a' + i);
        result[i] = (char)(i == axis ? 'z' : 'a' + i);
    }
    (void)snprintf(equation, sizeof equation, "%s,z%c->%s", left, 'a' + (int)axis, result);
    return qf_import_contract(qf_onnx_target(call), equation, x, weights);
}

static qf_value select_nearest(qf_onnx_call *call, const resize *r, const resize_axis *sizes, qf_value x,
                               uint32_t axis) {
    int64_t *indices = qf_arena_allocate(&call->import->scratch, (size_t)sizes->to * sizeof *indices);
    if (!indices) return (qf_value){0};
    for (int64_t i = 0; i < sizes->to; i++) {
        double place = place_of(r, sizes, (double)i);
        place = r->round == PREFER_FLOOR  ? ceil(place - 0.5)
                : r->round == PREFER_CEIL ? floor(place + 0.5)
                : r->round == FLOOR       ? floor(place)
                                          : ceil(place);
        indices[i] = (int64_t)fmin(fmax(place, 0), (double)(sizes->from - 1));
    }
    return qf_import_gather(qf_onnx_target(call), x, qf_onnx_literal(call, QF_I64, indices, &sizes->to, 1), axis);
}

/* Every element `times` times, for any size of the axis. */
static qf_value repeat(qf_onnx_call *call, qf_value x, uint32_t axis, int64_t times) {
    qf_dim apart[QF_MAX_RANK + 1], wide[QF_MAX_RANK + 1], merged[QF_MAX_RANK];
    uint32_t rank = qf_onnx_rank(call, x), at = 0;
    for (uint32_t i = 0; i < rank; i++) {
        merged[i] = wide[at] = apart[at] = qf_onnx_dim(call, x, (int32_t)i);
        at++;
        if (i != axis) continue;
        apart[at] = qf_onnx_constant(call, 1);
        wide[at++] = qf_onnx_constant(call, times);
        merged[i] = qf_dim_multiply(call->import->context, merged[i], qf_onnx_constant(call, times));
    }
    qf_value split = qf_import_view(qf_onnx_target(call), x, apart, rank + 1);
    return qf_import_view(qf_onnx_target(call), qf_import_expand(qf_onnx_target(call), split, wide, rank + 1), merged,
                          rank);
}

/* Whether nearest elements are all elements `times` times. */
static bool repeats(const resize *r, double scale) {
    bool half = r->place == HALF_PIXEL || r->place == PYTORCH_HALF_PIXEL || r->place == HALF_PIXEL_SYMMETRIC;
    bool whole = scale == floor(scale) && scale >= 1 && scale <= LARGEST_AXIS;
    return r->mode == NEAREST && whole &&
           ((r->place == ASYMMETRIC && r->round == FLOOR) ||
            (half && (r->round == PREFER_FLOOR || r->round == PREFER_CEIL)));
}

/* The numbers of input `scales`: a literal of floats, one an axis. */
static bool read_scales(qf_onnx_call *call, uint32_t count, double *out) {
    qf_value value = qf_onnx_in(call, 2);
    const qf_literal *literal = value.id ? qf_value_literal(qf_onnx_graph(call), value) : NULL;
    uint64_t found;
    if (!literal || !qf_type_static_count(call->import->context, literal->type, &found) || found != count) return false;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = qf_load_f64(qf_type_dtype(call->import->context, literal->type), literal->data, i);
        if (!(out[i] > 0) || out[i] > LARGEST_AXIS) return false;
    }
    return true;
}

/* NULL and the axis resized in *x, or why it cannot be. `size` is 0 where a scale is given. */
static const char *resize_one(qf_onnx_call *call, const resize *r, qf_value *x, uint32_t axis, double scale,
                              qf_dim size) {
    qf_context *context = call->import->context;
    qf_dim own = qf_onnx_dim(call, *x, (int32_t)axis);
    resize_axis sizes = {.scale = scale};
    if (size.id ? qf_dim_equal(own, size) : scale == 1) return NULL;
    if (!size.id && repeats(r, scale)) {
        *x = repeat(call, *x, axis, (int64_t)scale);
        return NULL;
    }
    if (!qf_dim_is_constant(context, own, &sizes.from) || (size.id && !qf_dim_is_constant(context, size, &sizes.to)))
        return "a size is not known";
    if (!size.id) sizes.to = (int64_t)floor((double)sizes.from * scale);
    if (sizes.from < 1 || sizes.to < 1 || sizes.from > LARGEST_AXIS || sizes.to > LARGEST_AXIS)
        return "an axis is empty or too long";
    if (size.id) sizes.scale = (double)sizes.to / (double)sizes.from;
    *x = r->mode == NEAREST ? select_nearest(call, r, &sizes, *x, axis) : weigh(call, r, &sizes, *x, axis);
    return NULL;
}

/* Dims of the input `sizes`, one an axis. */
static bool read_sizes(qf_onnx_call *call, uint32_t count, const qf_dim **out) {
    uint32_t found;
    return qf_onnx_elements(call, qf_onnx_in(call, 3), out, &found) && found == count;
}

qf_onnx_outcome qf_onnx_map_resize(qf_onnx_call *call) {
    resize r = {.mode = NEAREST};
    qf_value x = qf_onnx_in(call, 0);
    uint32_t rank = qf_onnx_rank(call, x), count;
    double scales[QF_MAX_RANK] = {0};
    const qf_dim *sizes = NULL;
    const int64_t *axes;
    const char *reason = read_modes(call, &r);
    if (!reason && rank >= QF_MAX_RANK) reason = "the shape of its input is unknown, or has too many axes";
    if (reason) return qf_onnx_decline(call, reason);
    bool has_axes = qf_onnx_ints(call, "axes", &axes, &count);
    if (!has_axes) count = rank;
    if (count > rank) return qf_onnx_fault(call, QF_ERROR_VERIFY, "Resize: %u axes of rank %u", count, rank);
    bool sized = qf_onnx_in(call, 3).id != 0;
    if (sized ? !read_sizes(call, count, &sizes) : !read_scales(call, count, scales))
        return qf_onnx_decline(call, "its sizes are computed at run time");
    if (r.mode != NEAREST && (qf_dtype_kind_of(qf_onnx_dtype_of(call, x)) != QF_DTYPE_KIND_FLOAT ||
                              qf_dtype_bits(qf_onnx_dtype_of(call, x)) < 16))
        return qf_onnx_decline(call, "it interpolates something else than floats of 16 or more bits");
    qf_value wide = r.mode == NEAREST ? x : qf_onnx_widen(call, x), y = wide;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = i;
        if (!y.id || (has_axes && !qf_onnx_axis(call, axes[i], rank, &axis))) return QF_ONNX_FAILED;
        reason = resize_one(call, &r, &y, axis, scales[i], sized ? sizes[i] : (qf_dim){0});
        if (reason) return qf_onnx_decline(call, reason);
    }
    return qf_onnx_done(call, y.id == wide.id ? x : qf_onnx_narrow(call, y, x));
}
