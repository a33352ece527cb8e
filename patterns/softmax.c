/* Owns: the walk from a contraction's operand to the logits of its softmax.
 * Does not own: the score chain (scores.c), selects that guard probabilities (guard.c).
 * Next: scores.h. */
#include "patterns/softmax.h"

#include <math.h>

#include "patterns/denominator.h"
#include "patterns/guard.h"
#include "patterns/predicates.h"

#define MAX_STEPS 48

/* What all keys of a row are shifted by does not change its softmax, unless it is infinite. */
void qf_strip_shift(qf_labelling *labels, qf_path *path, qf_probabilities *out) {
    qf_graph *graph = labels->graph;
    qf_value value = out->logits;
    qf_axes at = out->axes;
    uint32_t mark = path->count;
    qf_trace_root(labels, path, &value, &at);
    qf_node node = qf_producer_of_op(graph, value, QF_OP_sub);
    qf_axes minuend_axes, shift_axes;
    if (node.id && qf_labelling_broadcast_value(labels, qf_node_operand(graph, node, 0), &at, &minuend_axes) &&
        qf_labelling_broadcast_value(labels, qf_node_operand(graph, node, 1), &at, &shift_axes) &&
        qf_axes_lack(labels, &shift_axes, out->normalised) && !qf_axes_lack(labels, &minuend_axes, out->normalised)) {
        qf_path_add(path, node);
        out->logits = qf_node_operand(graph, node, 0);
        out->axes = minuend_axes;
        out->shift = qf_node_operand(graph, node, 1);
        out->shift_axes = shift_axes;
        return;
    }
    path->count = mark;
}

/* --- the softmax itself --- */

static bool softmax_op(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes,
                       qf_probabilities *out) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, value, QF_OP_softmax);
    if (!node.id) return false;
    uint32_t axis = (uint32_t)qf_node_attribute(graph, node, QF_ATTR(softmax, axis))->integer;
    if (axis >= axes->rank) return false;
    qf_path_add(path, node);
    out->softmax = node;
    out->logits = qf_node_operand(graph, node, 0);
    out->axes = *axes;
    out->normalised = axes->axis[axis];
    return true;
}

/* exp(log_softmax(x)) */
static bool exponential_of_log(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes,
                               qf_probabilities *out) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, value, QF_OP_exp);
    if (!node.id) return false;
    qf_value source = qf_node_operand(graph, node, 0);
    qf_axes at = *axes;
    qf_path passed = {.count = 0};
    qf_trace_root(labels, &passed, &source, &at);
    qf_node log = qf_producer_of_op(graph, source, QF_OP_log_softmax);
    if (!log.id) return false;
    uint32_t axis = (uint32_t)qf_node_attribute(graph, log, QF_ATTR(log_softmax, axis))->integer;
    if (axis >= at.rank) return false;
    for (uint32_t i = 0; i < passed.count; i++) qf_path_add(path, passed.nodes[i]);
    qf_path_add(path, node);
    qf_path_add(path, log);
    out->softmax = log;
    out->logits = qf_node_operand(graph, log, 0);
    out->axes = at;
    out->normalised = at.axis[axis];
    return true;
}

/* log(sum), or log(sum) + shift, through the absolute value that logsumexp takes of a sum. */
static bool logarithm_of_sum(qf_labelling *labels, qf_path *path, qf_value value, qf_axes axes, qf_value *out_sum,
                             qf_axes *out_axes, qf_value *out_shift, qf_axes *out_shift_axes) {
    qf_graph *graph = labels->graph;
    *out_shift = (qf_value){0};
    qf_trace_root(labels, path, &value, &axes);
    qf_node sum = qf_producer_of_op(graph, value, QF_OP_add);
    for (uint32_t side = 0; sum.id && side < 2; side++) {
        qf_value log = qf_node_operand(graph, sum, side), shift = qf_node_operand(graph, sum, 1 - side);
        qf_axes log_axes;
        if (!qf_labelling_broadcast_value(labels, log, &axes, &log_axes) ||
            !qf_labelling_broadcast_value(labels, shift, &axes, out_shift_axes))
            return false;
        qf_trace_root(labels, path, &log, &log_axes);
        if (!qf_producer_of_op(graph, log, QF_OP_log).id) continue;
        qf_path_add(path, sum);
        *out_shift = shift;
        value = log;
        axes = log_axes;
        break;
    }
    qf_node log = qf_producer_of_op(graph, value, QF_OP_log);
    if (!log.id) return false;
    qf_path_add(path, log);
    *out_sum = qf_node_operand(graph, log, 0);
    *out_axes = axes;
    qf_trace_root(labels, path, out_sum, out_axes);
    qf_node absolute = qf_producer_of_op(graph, *out_sum, QF_OP_abs);
    if (!absolute.id) return true;
    qf_path_add(path, absolute);
    *out_sum = qf_node_operand(graph, absolute, 0);
    return true;
}

/* exp(x - log(sum(exp(x)))), and exp(x - (log(sum(exp(x - shift))) + shift)) */
static bool exponential_minus_logarithm(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes,
                                        qf_probabilities *out) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_producer_of_op(graph, value, QF_OP_exp);
    if (!node.id) return false;
    uint32_t mark = path->count;
    qf_value x, log, sum, shift, other_shift, summed, inner;
    qf_axes x_axes, log_axes, sum_axes, shift_axes, other_axes, summed_axes, inner_axes;
    qf_axis all;
    bool found =
        qf_shifted_exponential(labels, path, value, *axes, &x, &x_axes, &log, &log_axes) && x.id &&
        logarithm_of_sum(labels, path, log, log_axes, &sum, &sum_axes, &shift, &shift_axes) &&
        qf_labelling_flatten(labels, &x_axes, &all) &&
        qf_reduction_of(labels, path, QF_OP_reduce_sum, sum, sum_axes, all, &summed, &summed_axes, &out->normalised);
    if (found && shift.id) {
        found =
            qf_shifted_exponential(labels, path, summed, summed_axes, &inner, &inner_axes, &other_shift, &other_axes) &&
            inner.id && qf_same_traced(labels, path, shift, shift_axes, other_shift, other_axes);
    } else if (found) {
        qf_trace_root(labels, path, &summed, &summed_axes);
        qf_node exponential = qf_producer_of_op(graph, summed, QF_OP_exp);
        found = exponential.id != 0;
        if (found) qf_path_add(path, exponential);
        inner = qf_node_operand(graph, exponential, 0);
        inner_axes = summed_axes;
    }
    if (!found || !qf_same_traced(labels, path, x, x_axes, inner, inner_axes)) {
        path->count = mark;
        return false;
    }
    out->softmax = node;
    out->logits = x;
    out->axes = x_axes;
    return true;
}

/* exp(x) / sum(exp(x)) */
static bool exponentials_over_sum(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes,
                                  qf_probabilities *out) {
    qf_graph *graph = labels->graph;
    uint32_t mark = path->count;
    qf_value numerator, sum;
    qf_axes numerator_axes, sum_axes;
    if (!qf_division_by_sum(labels, path, value, axes, &numerator, &numerator_axes, &sum, &sum_axes)) return false;
    qf_trace_root(labels, path, &numerator, &numerator_axes);
    uint32_t zeroed = out->zeroed_count;
    if (qf_strip_zeroing(labels, path, &numerator, &numerator_axes, QF_ZEROED_EXPONENTIALS, out))
        qf_trace_root(labels, path, &numerator, &numerator_axes);
    qf_node exponential = qf_producer_of_op(graph, numerator, QF_OP_exp);
    if (!exponential.id || !qf_is_sum_of(labels, path, sum, sum_axes, numerator, numerator_axes, out)) {
        path->count = mark;
        out->zeroed_count = zeroed;
        return false;
    }
    qf_path_add(path, exponential);
    out->softmax = exponential;
    out->logits = qf_node_operand(graph, exponential, 0);
    out->axes = numerator_axes;
    return true;
}

/* --- what stands between softmax and contraction --- */

/* The one axis that the slice (or split) shortens by its last, or first, element. */
static bool cuts_one(const qf_labelling *labels, qf_value value, qf_value source, uint32_t *out_axis, bool *out_first) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_value_producer(graph, value);
    uint32_t rank = qf_value_rank(graph, value), cut = QF_MAX_RANK;
    const qf_dim *to = qf_value_dims(graph, value), *from = qf_value_dims(graph, source);
    for (uint32_t i = 0; i < rank; i++) {
        if (qf_dim_equal(to[i], from[i])) continue;
        if (cut != QF_MAX_RANK || !qf_dim_equal(qf_dim_add_constant(labels->context, to[i], 1), from[i])) return false;
        cut = i;
    }
    if (cut == QF_MAX_RANK) return false;
    *out_axis = cut;
    if (qf_node_op(graph, node) == QF_OP_split) {
        const qf_node_data *data = qf_node_at(graph, node);
        *out_first = qf_value_at(graph, value)->result_index == 1;
        return data->result_count == 2;
    }
    const qf_attribute *steps = qf_node_attribute(graph, node, QF_ATTR(slice, steps));
    for (uint32_t i = 0; i < rank; i++)
        if (steps->ints[i] != 1) return false;
    *out_first = qf_dim_is(labels->context, qf_node_attribute(graph, node, QF_ATTR(slice, starts))->dims[cut], 1);
    return true;
}

static bool cut_sink(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes, qf_probabilities *out,
                     qf_value *out_source, qf_axes *out_axes) {
    qf_graph *graph = labels->graph;
    qf_node node = qf_value_producer(graph, value);
    qf_op op = qf_node_op(graph, node);
    if ((op != QF_OP_slice && op != QF_OP_split) || out->has_sink) return false;
    *out_source = qf_node_operand(graph, node, 0);
    uint32_t axis;
    if (qf_value_rank(graph, *out_source) != axes->rank || qf_value_rank(graph, value) != axes->rank ||
        !cuts_one(labels, value, *out_source, &axis, &out->sink_first))
        return false;
    *out_axes = *axes;
    out->kept = axes->axis[axis];
    if (!qf_labelling_new(labels, qf_value_dims(graph, *out_source)[axis], &out->extended)) return false;
    out_axes->axis[axis] = out->extended;
    out->has_sink = true;
    qf_path_add(path, node);
    return true;
}

/* FP8 codes of the value's source, one scale for all of them, read as numbers without that scale. */
static bool read_codes(const qf_labelling *labels, qf_value value, qf_probabilities *out, qf_value *out_source) {
    const qf_graph *graph = labels->graph;
    qf_node node = qf_value_producer(graph, value);
    qf_pair pair = {
        .stored = value, .quantize = node, .dequantize = node, .scale_axis = -1, .dtype = qf_value_dtype(graph, value)};
    double scale = 1.0;
    if (!qf_dtype_is_float8(pair.dtype) || out->pair.dequantize.id) return false;
    if (qf_node_op(graph, node) == QF_OP_quantize) {
        bool multiplies = qf_node_attribute(graph, node, QF_ATTR(quantize, mode))->integer == QF_VALUE_mul;
        qf_value given = qf_node_operand(graph, node, QF_IN(quantize, scale));
        if (qf_node_operand(graph, node, QF_IN(quantize, zero_point)).id || !qf_value_is_scalar(graph, given))
            return false;
        if (!qf_scalar_number(labels, given, &scale))
            pair.scale = given;
        else if (multiplies)
            scale = 1.0 / scale;
        if (multiplies && pair.scale.id) return false;
        if (!pair.scale.id && !(isfinite(scale) && scale > 0.0)) return false;
    } else if (qf_node_op(graph, node) != QF_OP_cast) {
        return false;
    }
    out->pair = pair;
    out->codes = true;
    out->code_scale = scale;
    if (!pair.scale.id) out->multiplier /= scale;
    *out_source = qf_node_operand(graph, node, 0);
    return true;
}

/* Codes that the graph itself widens to numbers. */
static bool widens_codes(const qf_graph *graph, qf_value value, qf_value *out_source) {
    qf_node node = qf_producer_of_op(graph, value, QF_OP_cast);
    *out_source = qf_node_operand(graph, node, 0);
    return node.id && qf_dtype_kind_of(qf_value_dtype(graph, value)) == QF_DTYPE_KIND_FLOAT &&
           qf_dtype_is_float8(qf_value_dtype(graph, *out_source));
}

/* One step down from the contraction towards the softmax. */
static bool step_down(qf_labelling *labels, qf_path *path, qf_value *value, qf_axes *axes, qf_probabilities *out,
                      bool *out_pair_twice) {
    qf_node node = qf_value_producer(labels->graph, *value);
    qf_pair pair;
    qf_value source;
    qf_axes next = *axes;
    double factor;
    bool widens;
    if (qf_pair_read(labels, path, *value, axes, &pair)) {
        if (!pair.quantize.id) return false;
        *out_pair_twice = out->pair.dequantize.id != 0;
        out->pair = pair;
        *value = pair.source;
        *axes = pair.axes;
        return true;
    }
    if (qf_labelling_through_layout(labels, *value, axes, &source, &next) ||
        qf_is_float_cast(labels, *value, &source, &widens)) {
        qf_path_add(path, node);
    } else if (qf_infinity_guard(labels, path, *value, axes, &source, &next)) {
        /* nothing is guarded */
    } else if (widens_codes(labels->graph, *value, &source) || read_codes(labels, *value, out, &source)) {
        qf_path_add(path, node);
    } else if (qf_empty_row_guard(labels, path, *value, axes, &source, &next)) {
        out->guarded = true;
    } else if (qf_scalar_multiple(labels, *value, &source, &factor)) {
        if (out->pair.dequantize.id) return false; /* a multiple under the pair changes what is quantised */
        out->multiplier *= factor;
        qf_path_add(path, node);
    } else if (!out->pair.dequantize.id && qf_strip_zeroing(labels, path, value, axes, QF_ZEROED_PROBABILITIES, out)) {
        return true;
    } else if (!cut_sink(labels, path, *value, axes, out, &source, &next)) {
        return false;
    }
    *value = source;
    *axes = next;
    return true;
}

qf_softmax_result qf_probabilities_read(qf_labelling *labels, qf_path *path, qf_value value, const qf_axes *axes,
                                        qf_probabilities *out) {
    *out = (qf_probabilities){.multiplier = 1.0};
    qf_axes at = *axes;
    bool twice = false;
    for (uint32_t step = 0; step < MAX_STEPS; step++) {
        if (softmax_op(labels, path, value, &at, out) || exponential_of_log(labels, path, value, &at, out) ||
            exponential_minus_logarithm(labels, path, value, &at, out) ||
            exponentials_over_sum(labels, path, value, &at, out)) {
            qf_strip_shift(labels, path, out);
            return twice ? QF_SOFTMAX_PAIR_TWICE : QF_SOFTMAX_FOUND;
        }
        qf_node exponential = qf_producer_of_op(labels->graph, value, QF_OP_exp);
        if (exponential.id) {
            if (out->pair.dequantize.id || out->has_sink) return QF_SOFTMAX_NONE;
            qf_path_add(path, exponential);
            out->softmax = exponential;
            out->unnormalised = true;
            out->exponentials = value;
            out->exponential_axes = at;
            for (uint32_t i = 0; i < out->zeroed_count; i++) out->zeroed[i].place = QF_ZEROED_EXPONENTIALS;
            out->logits = qf_node_operand(labels->graph, exponential, 0);
            out->axes = at;
            return QF_SOFTMAX_FOUND; /* the caller strips the maximum once it knows what is normalised */
        }
        bool pair_twice = false;
        if (!step_down(labels, path, &value, &at, out, &pair_twice)) return QF_SOFTMAX_NONE;
        twice = twice || pair_twice;
    }
    return QF_SOFTMAX_NONE;
}
