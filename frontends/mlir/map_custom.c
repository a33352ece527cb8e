/* Owns: custom calls: cuDNN's attention as XLA spells it, FP8 included.
 * Does not own: calls of functions (calls.c).
 * Next: docs/mlir.md. */
#include <stdlib.h>

#include "frontends/mlir/maps.h"

/* The configuration is JSON; integers in it stand in quotes. */
typedef struct cudnn_config {
    double scale;
    bool rows_first; /* q is [B, T, N, H], not [B, N, T, H] */
    bool causal, padding;
    int64_t window;
    const char *fault;
} cudnn_config;

static int64_t json_int(const char *at, int64_t otherwise) {
    if (!at) return otherwise;
    if (*at == '"') at++;
    char *end;
    long long number = strtoll(at, &end, 10);
    return end == at ? otherwise : number;
}

/* The batch axes of the left operand of the first product: [0, 1] or [0, 2]. */
static int64_t second_batch_axis(const char *text) {
    const char *numbers = qf_mlir_json_field(text, "bmm1_dot_dimension_numbers");
    const char *axes = qf_mlir_json_field(numbers, "lhs_batch_dimensions");
    const char *comma = axes && *axes == '[' ? strchr(axes, ',') : NULL;
    if (!comma) return -1;
    comma++;
    while (*comma == ' ') comma++;
    return json_int(comma, -1);
}

static bool json_is(const char *field, const char *text) {
    size_t size = strlen(text);
    return field && *field == '"' && strncmp(field + 1, text, size) == 0 && field[size + 1] == '"';
}

static cudnn_config read_config(const char *text) {
    cudnn_config config = {0};
    const char *scale = qf_mlir_json_field(text, "fmha_scale"), *mask = qf_mlir_json_field(text, "mask_type");
    const char *dropout = qf_mlir_json_field(text, "dropout_rate"),
               *paged = qf_mlir_json_field(text, "is_paged_attention");
    int64_t axis = second_batch_axis(text);
    config.scale = scale ? strtod(scale, NULL) : 0;
    config.rows_first = axis == 2;
    config.causal = json_is(mask, "CAUSAL") || json_is(mask, "PADDING_CAUSAL");
    config.padding = json_is(mask, "PADDING") || json_is(mask, "PADDING_CAUSAL");
    config.window = json_int(qf_mlir_json_field(text, "sliding_window_length"), 0);
    if (!scale || axis < 1 || axis > 2)
        config.fault = "its configuration has no scale, or other dimension numbers";
    else if (!config.causal && !config.padding && mask && !json_is(mask, "NO_MASK"))
        config.fault = "its mask_type is none that the importer knows";
    else if ((dropout && strtod(dropout, NULL) != 0) || (paged && strncmp(paged, "true", 4) == 0))
        config.fault = "it drops elements at random, or reads pages";
    else if (json_int(qf_mlir_json_field(text, "max_seg_per_batch"), 1) > 1)
        config.fault = "it packs several sequences into a row";
    return config;
}

static void attention_attributes(qf_mlir_call *call, const cudnn_config *config, qf_attribute *attributes) {
    qf_mlir_defaults(call, QF_OP_attention, attributes);
    attributes[QF_ATTR(attention, scale)].number = config->scale;
    attributes[QF_ATTR(attention, causal)].integer = config->causal;
    attributes[QF_ATTR(attention, align)].integer = QF_VALUE_top_left;
    attributes[QF_ATTR(attention, layout)].integer = config->rows_first ? QF_VALUE_bshd : QF_VALUE_bhsd;
    if (config->window > 0) attributes[QF_ATTR(attention, window_left)].integer = config->window - 1;
}

static bool is_used(const qf_mlir_call *call, uint32_t result) {
    return result < call->result_count &&
           !mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(call->operation, result)));
}

/* Results are [B, N, T, H] in both layouts. */
static qf_value heads_first(qf_mlir_call *call, const cudnn_config *config, qf_value y) {
    return config->rows_first ? qf_mlir_permute(call, y, (const int64_t[]){0, 2, 1, 3}, 4) : y;
}

/* Rows past the query's length are zero: y [B, N, T, H]. */
static qf_value zero_past(qf_mlir_call *call, qf_value y, qf_value lengths) {
    qf_dim one = qf_mlir_constant(call, 1), rows = qf_mlir_dim_of(call, y, 2), batch = qf_mlir_dim_of(call, y, 0);
    qf_value row = qf_import_iota(qf_mlir_target(call), QF_I32, rows, qf_mlir_constant(call, 0), one);
    row = qf_import_view(qf_mlir_target(call), row, (const qf_dim[]){one, one, rows, one}, 4);
    lengths = qf_import_view(qf_mlir_target(call), qf_mlir_cast(call, lengths, QF_I32),
                             (const qf_dim[]){batch, one, one, one}, 4);
    qf_value inside = qf_import_binary(qf_mlir_target(call), QF_OP_less, row, lengths);
    return qf_import_where(qf_mlir_target(call), inside, y, qf_mlir_scalar(call, qf_mlir_dtype_of(call, y), 0));
}

/* {q, k, v, bias?, q_seqlen, kv_seqlen (padding)} -> {output, softmax statistics?, workspace}. */
static qf_mlir_outcome map_attention(qf_mlir_call *call, const cudnn_config *config, bool bias) {
    qf_value operands[QF_IN(attention, kv_lens) + 1] = {{0}};
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    uint32_t expected = 3 + bias + (config->padding ? 2 : 0), last = call->operand_count;
    if (call->operand_count != expected || call->result_count < 2 || call->result_count > 3)
        return qf_mlir_decline(call, "it has another number of operands or results than XLA's");
    for (uint32_t i = 0; i < 3; i++) operands[i] = qf_mlir_in(call, i);
    if (bias) operands[QF_IN(attention, bias)] = qf_mlir_in(call, 3);
    if (config->padding) operands[QF_IN(attention, kv_lens)] = qf_mlir_cast(call, qf_mlir_in(call, last - 1), QF_I32);
    attention_attributes(call, config, attributes);
    bool statistics = call->result_count == 3 && is_used(call, 1);
    qf_node node = qf_import_node(qf_mlir_target(call), QF_OP_attention, operands, QF_IN(attention, kv_lens) + 1,
                                  attributes, statistics ? 2 : 1);
    if (!node.id) return QF_MLIR_FAILED;
    qf_value y = heads_first(call, config, qf_node_result(qf_mlir_graph(call), node, 0));
    if (statistics) call->results[1] = qf_node_result(qf_mlir_graph(call), node, 1);
    if (config->padding) y = zero_past(call, y, qf_mlir_in(call, last - 2));
    return qf_mlir_done(call, y);
}

/* {q, k, v, descale_q, descale_k, descale_v, descale_s, scale_s, scale_o} -> {output, amax_s, amax_o, workspace}. By
 * cuDNN's contract scale_s is the reciprocal of descale_s, which is P's scale. amax_o is that of the result before it
 * is quantised, so where somebody reads it the quantisation stands for itself. */
static qf_mlir_outcome map_fp8(qf_mlir_call *call, const cudnn_config *config) {
    if (call->operand_count != 9 || call->result_count != 4 || config->padding)
        return qf_mlir_decline(call, "it has another number of operands or results than XLA's");
    if (is_used(call, 1) || is_used(call, 3)) return qf_mlir_decline(call, "amax_s or its workspace is read");
    qf_dtype out = qf_mlir_result_dtype(call);
    if (!qf_dtype_is_float8(out)) return qf_mlir_decline(call, "its result is not FP8");
    qf_value operands[QF_IN(attention, out_scale) + 1] = {{0}}, scales[6];
    for (uint32_t i = 0; i < 6; i++) {
        uint64_t count;
        if (!qf_type_static_count(call->import->context, qf_value_type(qf_mlir_graph(call), qf_mlir_in(call, 3 + i)),
                                  &count) ||
            count != 1)
            return qf_mlir_decline(call, "its scales are not single numbers");
        scales[i] = qf_mlir_squeeze_all(call, qf_mlir_in(call, 3 + i));
    }
    for (uint32_t i = 0; i < 3; i++) operands[i] = qf_mlir_in(call, i);
    operands[QF_IN(attention, q_scale)] = scales[0];
    operands[QF_IN(attention, k_scale)] = scales[1];
    operands[QF_IN(attention, v_scale)] = scales[2];
    operands[QF_IN(attention, p_scale)] = scales[3];
    bool amax = is_used(call, 2);
    if (!amax) operands[QF_IN(attention, out_scale)] = scales[5];
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    attention_attributes(call, config, attributes);
    attributes[QF_ATTR(attention, p)].integer = QF_VALUE_graph;
    if (!amax) attributes[QF_ATTR(attention, out)].integer = out;
    if (!amax) attributes[QF_ATTR(attention, out_mode)].integer = QF_VALUE_mul;
    qf_value y =
        qf_import_op(qf_mlir_target(call), QF_OP_attention, operands, QF_IN(attention, out_scale) + 1, attributes);
    if (!amax) return qf_mlir_done(call, heads_first(call, config, y));
    qf_value largest =
        qf_import_reduce(qf_mlir_target(call), QF_OP_reduce_max, qf_import_unary(qf_mlir_target(call), QF_OP_abs, y),
                         (const int64_t[]){0, 1, 2, 3}, 4, true);
    qf_attribute rounding[QF_MAX_ATTRIBUTES];
    qf_mlir_defaults(call, QF_OP_quantize, rounding);
    rounding[QF_ATTR(quantize, dtype)].integer = out;
    rounding[QF_ATTR(quantize, mode)].integer = QF_VALUE_mul;
    call->results[2] = largest;
    y = qf_import_op(qf_mlir_target(call), QF_OP_quantize, (qf_value[]){y, scales[5]}, 2, rounding);
    return qf_mlir_done(call, heads_first(call, config, y));
}

/* Calls that say where their operand lies, and give it back. */
static bool is_annotation(const qf_mlir_call *call, qf_text target) {
    static const char *const targets[] = {"Sharding",     "LayoutConstraint",           "annotate_device_placement",
                                          "MoveToDevice", "xla.sdy.FuncResultSharding", "MoveToHost"};
    bool known = false;
    for (size_t i = 0; i < QF_COUNT_OF(targets); i++) known |= qf_text_is(target, targets[i]);
    return known && call->operand_count == 1 && call->result_count == 1;
}

qf_mlir_outcome qf_mlir_map_custom_call(qf_mlir_call *call) {
    qf_text target = qf_mlir_symbol_name(call->operation, "call_target_name");
    if (is_annotation(call, target)) return qf_mlir_done(call, qf_mlir_in(call, 0));
    if (qf_text_is(target, "shape_assertion") && !call->result_count)
        return QF_MLIR_MAPPED; /* whoever calls the function keeps it; the plan has guards of its own */
    bool fp8 = qf_text_is(target, "__cudnn$fmhaSoftmaxF8"), bias = qf_text_is(target, "__cudnn$fmhaScaleBiasSoftmax");
    if (!fp8 && !bias && !qf_text_is(target, "__cudnn$fmhaSoftmax"))
        return qf_mlir_decline(call, "the importer does not know its target");
    const char *text = qf_mlir_printed(call, "backend_config");
    if (!text) return call->import->failed ? QF_MLIR_FAILED : qf_mlir_decline(call, "it has no configuration");
    cudnn_config config = read_config(text);
    if (config.fault) return qf_mlir_decline(call, config.fault);
    return fp8 ? map_fp8(call, &config) : map_attention(call, &config, bias);
}
