/* Owns: the comparison of fused sites with what stood there before.
 * Does not own: what counts as equal enough in other places (case.c).
 * Next: judge.h. */
#include "tools/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/convert.h"
#include "tools/tensors.h"

/* f32 graphs: DESIGN's bound for class rounding. */
#define LEAST_EQUAL_SHARE 0.99

typedef struct judge {
    qf_tool *tool;
    const qf_graph *before_graph, *after_graph;
    const qf_interpreter *before;
    qf_interpreter *after, *unrounded;
    qf_graph *unrounded_graph; /* `after` with f32 in place of every FP8 output of attention */
    judge_result *result;
    bool sixteen_bit;
} judge;

bool judge_is_sixteen_bit(const qf_graph *graph) {
    QF_FOR_EACH_NODE(graph, node) {
        const qf_node_data *data = qf_node_at(graph, node);
        qf_dtype dtype = data->result_count ? qf_value_dtype(graph, qf_result_at(data, 0)) : QF_DTYPE_NONE;
        bool contracts = data->op == QF_OP_contract || data->op == QF_OP_matmul || data->op == QF_OP_attention;
        if (contracts && (dtype == QF_F16 || dtype == QF_BF16)) return true;
    }
    return false;
}

static bool is_fused(const qf_graph *graph, qf_node node) {
    qf_op op = qf_node_op(graph, node);
    if (op != QF_OP_attention && op != QF_OP_paged_attention) return false;
    return qf_dtype_is_float8(qf_value_dtype(graph, qf_node_result(graph, node, 0)));
}

static bool survives(const judge *state, uint32_t node) {
    return node && node < state->before_graph->node_count && node < state->after_graph->node_count &&
           !state->before_graph->nodes[node].erased && !state->after_graph->nodes[node].erased &&
           state->before_graph->nodes[node].op == state->after_graph->nodes[node].op;
}

/* The attention that `value` is a layout of, or 0. */
static qf_node fused_source(const qf_graph *graph, qf_value value) {
    qf_node node = qf_value_producer(graph, value);
    while (node.id && qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_LAYOUT))
        node = qf_value_producer(graph, qf_node_operand(graph, node, 0));
    return node.id && is_fused(graph, node) ? node : (qf_node){0};
}

static void override_common(const judge *state, qf_interpreter *interpreter, const qf_graph *graph) {
    qf_interpreter_copy_symbols(interpreter, state->before);
    for (uint32_t id = 1; id < state->before_graph->value_count && id < graph->value_count; id++) {
        const qf_value_data *a = &state->before_graph->values[id], *b = &graph->values[id];
        bool same = a->producer.id == b->producer.id && a->type.id == b->type.id &&
                    (!a->producer.id || (survives(state, a->producer.id) && !is_fused(graph, b->producer)));
        qf_tensor tensor;
        if (same && qf_interpreter_value(state->before, (qf_value){id}, &tensor))
            (void)qf_interpreter_override(interpreter, (qf_value){id}, &tensor);
    }
}

/* Everything that is only a layout of `value` takes dtype f32 too. */
static void widen_layouts(qf_graph *graph, qf_value value) {
    qf_graph_set_type(graph, value, qf_type_with_dtype(graph->context, qf_value_type(graph, value), QF_F32));
    QF_FOR_EACH_USE(graph, value, use) {
        if (!qf_op_has_trait(qf_node_op(graph, use->user), QF_TRAIT_LAYOUT)) continue;
        const qf_node_data *user = qf_node_at(graph, use->user);
        for (uint32_t i = 0; i < user->result_count; i++) widen_layouts(graph, qf_result_at(user, i));
    }
}

static void drop_output_rounding(qf_graph *graph, qf_node node) {
    bool paged = qf_node_op(graph, node) == QF_OP_paged_attention;
    uint32_t out_scale = paged ? QF_IN(paged_attention, out_scale) : QF_IN(attention, out_scale);
    uint32_t out = paged ? QF_ATTR(paged_attention, out) : QF_ATTR(attention, out);
    uint32_t via = paged ? QF_ATTR(paged_attention, via) : QF_ATTR(attention, via);
    qf_graph_set_operand(graph, node, out_scale, (qf_value){0});
    qf_node_attribute(graph, node, out)->integer = QF_F32;
    qf_node_attribute(graph, node, via)->integer = QF_DTYPE_NONE;
    widen_layouts(graph, qf_node_result(graph, node, 0));
}

/* Nodes that lead from common values to an attention's layouts, but not beyond. */
static qf_status run_up_to_sites(judge *state, qf_interpreter *interpreter, const qf_graph *graph) {
    bool *needed = calloc(graph->node_count, sizeof *needed);
    if (!needed) return qf_record(graph->context, QF_ERROR_OUT_OF_MEMORY);
    for (qf_node node = graph->last; node.id; node = qf_node_at(graph, node)->previous) {
        const qf_node_data *data = qf_node_at(graph, node);
        bool attention = data->op == QF_OP_attention || data->op == QF_OP_paged_attention;
        for (uint32_t i = 0; i < data->result_count && !attention; i++)
            if (fused_source(state->after_graph, qf_result_at(data, i)).id) needed[node.id] = true;
        if (attention && is_fused(state->after_graph, node)) needed[node.id] = true;
        for (uint32_t i = 0; needed[node.id] && i < data->operand_count; i++)
            needed[qf_value_producer(graph, data->operands[i].value).id] = true;
    }
    qf_status status = qf_interpreter_run(interpreter, needed);
    free(needed);
    return status;
}

static double code_distance(qf_dtype dtype, const qf_tensor *a, const qf_tensor *b, int64_t i) {
    unsigned x = ((const uint8_t *)a->data)[i], y = ((const uint8_t *)b->data)[i];
    if (x == y) return 0;
    double u = qf_load_f64(dtype, a->data, i), v = qf_load_f64(dtype, b->data, i);
    if (u == v || (isnan(u) && isnan(v))) return 0; /* +0 and -0; a NaN is a NaN */
    int ordered_x = x & 0x80 ? -(int)(x & 0x7F) : (int)x, ordered_y = y & 0x80 ? -(int)(y & 0x7F) : (int)y;
    return abs(ordered_x - ordered_y);
}

static float rounded(qf_dtype dtype, float number) {
    return dtype == QF_F32 ? number : qf_round_f32(dtype, number, false);
}

/* A value that a quantise read before, and the attention quantises now (slices and concatenations came between): its
 * codes by the attention's own scale. False where it has no such numbers. */
static bool quantise_before(const judge *state, qf_node attention, const qf_tensor *was, qf_dtype dtype,
                            uint8_t *codes) {
    const qf_graph *graph = state->after_graph;
    if (qf_node_op(graph, attention) != QF_OP_attention || !qf_dtype_is_float(was->dtype)) return false;
    qf_tensor tensor;
    if (!qf_interpreter_value(state->after, qf_node_operand(graph, attention, QF_IN(attention, out_scale)), &tensor))
        return false;
    int64_t mode = qf_node_attribute(graph, attention, QF_ATTR(attention, out_mode))->integer;
    qf_dtype compute = (qf_dtype)qf_node_attribute(graph, attention, QF_ATTR(attention, out_compute))->integer;
    float factor = rounded(compute, (float)qf_load_f64(tensor.dtype, tensor.data, 0));
    if (mode == QF_VALUE_mul_recip) factor = rounded(compute, 1.0F / factor);
    for (int64_t i = 0, count = tensor_count(was); i < count; i++) {
        float x = rounded(compute, (float)qf_load_f64(was->dtype, was->data, i));
        x = rounded(compute, mode == QF_VALUE_div ? x / factor : x * factor);
        qf_store_f64(dtype, codes, i, x, true);
    }
    return true;
}

static double scale_of(const judge *state, qf_node attention) {
    const qf_graph *graph = state->after_graph;
    bool paged = qf_node_op(graph, attention) == QF_OP_paged_attention;
    uint32_t operand = paged ? QF_IN(paged_attention, out_scale) : QF_IN(attention, out_scale);
    uint32_t mode = paged ? QF_ATTR(paged_attention, out_mode) : QF_ATTR(attention, out_mode);
    qf_tensor tensor;
    if (!qf_interpreter_value(state->after, qf_node_operand(graph, attention, operand), &tensor)) return 1;
    double scale = qf_load_f64(tensor.dtype, tensor.data, 0);
    return qf_node_attribute(graph, attention, mode)->integer == QF_VALUE_mul ? 1 / scale : scale;
}

static void judge_codes(judge *state, qf_node attention, qf_value new_value, qf_tensor was, qf_tensor is,
                        qf_tensor exact) {
    judge_result *result = state->result;
    double scale = scale_of(state, attention), error_was = 0, error_is = 0;
    uint64_t equal = 0, far = 0, lost = 0, count = qf_tensor_bytes(&is); /* lost: no numbers where there were */
    for (uint64_t i = 0; i < count; i++) {
        double distance = code_distance(is.dtype, &was, &is, (int64_t)i);
        equal += distance == 0;
        far += distance > 1;
        double reference = qf_load_f64(exact.dtype, exact.data, (int64_t)i);
        double limit = qf_dtype_largest(is.dtype) * fabs(scale);
        reference = fmin(fmax(reference, -limit), limit);
        double x = qf_load_f64(was.dtype, was.data, (int64_t)i) * scale - reference;
        double y = qf_load_f64(is.dtype, is.data, (int64_t)i) * scale - reference;
        lost += isnan(y) && !isnan(x);
        if (!isnan(x)) error_was += x * x;
        if (!isnan(y)) error_is += y * y;
    }
    double share = count ? (double)equal / (double)count : 1, ratio = error_is == 0 ? 0 : sqrt(error_is / error_was);
    result->judged++;
    result->codes += count;
    result->equal += equal;
    result->far += far;
    if (share < result->worst_share) result->worst_share = share;
    if (ratio > result->worst_error_ratio) result->worst_error_ratio = ratio;
    bool ok = state->sixteen_bit ? ratio <= 1.0 || share == 1.0 : share >= LEAST_EQUAL_SHARE && far == 0;
    ok = ok && !lost;
    if (ok || !result->ok) return;
    result->ok = false;
    (void)snprintf(result->reason, sizeof result->reason,
                   "site %s: %.4f of codes equal, %llu off by more than one, error ratio %.4f",
                   qf_string_c(state->after_graph->context, qf_value_at(state->after_graph, new_value)->name), share,
                   (unsigned long long)far, ratio);
}

/* False where the two cannot be compared. */
static bool judge_site(judge *state, qf_node attention, qf_value old_value, qf_value new_value) {
    qf_tensor was, is, exact;
    if (!qf_interpreter_value(state->before, old_value, &was) || !qf_interpreter_value(state->after, new_value, &is) ||
        !qf_interpreter_value(state->unrounded, new_value, &exact) || tensor_count(&was) != tensor_count(&is))
        return false;
    uint8_t *codes = NULL;
    bool same = was.dtype == is.dtype;
    if (!same && qf_dtype_is_float8(is.dtype)) {
        codes = malloc((size_t)tensor_count(&is) + 1);
        same = codes && quantise_before(state, attention, &was, is.dtype, codes);
        was.data = codes;
        was.dtype = is.dtype;
    }
    if (same) judge_codes(state, attention, new_value, was, is, exact);
    free(codes);
    return same;
}

/* The FP8 value that `value` was dequantised from by casts and products with a scale; 0: none. */
static qf_value codes_of(const qf_graph *graph, qf_value value, uint32_t steps) {
    if (!value.id || qf_dtype_is_float8(qf_value_dtype(graph, value))) return value;
    qf_node node = qf_value_producer(graph, value);
    qf_op op = qf_node_op(graph, node);
    bool passes = op == QF_OP_cast || op == QF_OP_mul || op == QF_OP_dequantize || qf_op_has_trait(op, QF_TRAIT_LAYOUT);
    if (!node.id || !passes || steps == 0) return (qf_value){0};
    qf_value found = codes_of(graph, qf_node_operand(graph, node, 0), steps - 1);
    return found.id || op != QF_OP_mul ? found : codes_of(graph, qf_node_operand(graph, node, 1), steps - 1);
}

/* A dequantise that the pipeline wrote in place of casts and products has no counterpart; what it reads was their FP8.
 */
static void judge_dequantise(judge *state, bool *done, qf_value was, qf_value is) {
    qf_node node = qf_producer_of_op(state->after_graph, is, QF_OP_dequantize);
    if (!node.id || survives(state, node.id)) return;
    qf_value codes = qf_node_operand(state->after_graph, node, 0), old = codes_of(state->before_graph, was, 8);
    qf_node site = fused_source(state->after_graph, codes);
    if (!site.id || done[site.id] || !old.id) return;
    done[site.id] = judge_site(state, site, old, codes);
}

/* Each surviving reader of a fused site's result read something else before: that is what the site replaced. */
static void compare_readers(judge *state, bool *done) {
    const qf_graph *after = state->after_graph;
    QF_FOR_EACH_NODE(after, node) {
        if (!survives(state, node.id)) continue;
        const qf_node_data *now = qf_node_at(after, node), *old = qf_node_at(state->before_graph, node);
        for (uint32_t i = 0; i < now->operand_count && i < old->operand_count; i++) {
            judge_dequantise(state, done, old->operands[i].value, now->operands[i].value);
            qf_node site = fused_source(after, now->operands[i].value);
            if (!site.id || done[site.id] || now->operands[i].value.id == old->operands[i].value.id) continue;
            done[site.id] = judge_site(state, site, old->operands[i].value, now->operands[i].value);
        }
    }
}

/* A value of the graph before that has this name and type, or 0. */
static qf_value named_before(const judge *state, const qf_value_data *wanted) {
    const qf_graph *graph = state->before_graph;
    for (uint32_t id = 1; id < graph->value_count; id++) {
        const qf_value_data *value = &graph->values[id];
        bool live = !value->producer.id || !graph->nodes[value->producer.id].erased;
        if (live && value->name.id == wanted->name.id && value->type.id == wanted->type.id) return (qf_value){id};
    }
    return (qf_value){0};
}

/* Where no reader of a site survived (clamp, cast and widening around it became quantize and dequantize), the layouts
 * of its result are asked whose names they have. */
static void compare_names(judge *state, bool *done) {
    const qf_graph *after = state->after_graph;
    QF_FOR_EACH_NODE(after, node) {
        const qf_node_data *data = qf_node_at(after, node);
        qf_node site = data->result_count ? fused_source(after, qf_result_at(data, 0)) : (qf_node){0};
        if (!site.id || done[site.id]) continue;
        const qf_value_data *result = qf_value_at(after, qf_result_at(data, 0));
        qf_value old = result->name.id ? named_before(state, result) : (qf_value){0};
        if (!old.id) continue;
        done[site.id] = judge_site(state, site, old, qf_result_at(data, 0));
    }
}

static qf_status prepare(judge *state) {
    qf_graph *unrounded = qf_graph_clone(state->after_graph);
    if (!unrounded) return QF_ERROR_OUT_OF_MEMORY;
    state->unrounded_graph = unrounded;
    QF_FOR_EACH_NODE(state->after_graph, node) {
        if (!is_fused(state->after_graph, node)) continue;
        state->result->sites++;
        drop_output_rounding(unrounded, node);
    }
    state->after = qf_interpreter_create(state->after_graph, (uint32_t)state->tool->options.threads);
    state->unrounded = qf_interpreter_create(unrounded, (uint32_t)state->tool->options.threads);
    if (!state->after || !state->unrounded) return QF_ERROR_OUT_OF_MEMORY;
    override_common(state, state->after, state->after_graph);
    override_common(state, state->unrounded, unrounded);
    qf_status status = run_up_to_sites(state, state->after, state->after_graph);
    return status == QF_OK ? run_up_to_sites(state, state->unrounded, unrounded) : status;
}

qf_status judge_sites(qf_tool *tool, const qf_graph *before_graph, const qf_interpreter *before,
                      const qf_graph *after_graph, bool sixteen_bit, judge_result *out) {
    *out = (judge_result){.worst_share = 1, .ok = true};
    judge state = {.tool = tool,
                   .before_graph = before_graph,
                   .after_graph = after_graph,
                   .before = before,
                   .result = out,
                   .sixteen_bit = sixteen_bit};
    qf_status status = prepare(&state);
    bool *done = calloc(after_graph->node_count, sizeof *done);
    if (status == QF_OK && done) {
        compare_readers(&state, done);
        compare_names(&state, done);
    }
    free(done);
    if (status == QF_OK && out->judged < out->sites && out->ok) {
        out->ok = false;
        (void)snprintf(out->reason, sizeof out->reason, "%u of %u fused sites could not be compared",
                       out->sites - out->judged, out->sites);
    }
    qf_interpreter_destroy(state.after);
    qf_interpreter_destroy(state.unrounded);
    qf_graph_destroy(state.unrounded_graph);
    return status;
}
