/* Owns: emitting attention, rotary embeddings, index masks, and splitting and merging heads.
 * Does not own: the source ops (map_attention.c, map_microsoft.c).
 * Next: map_attention.c. */
#include "frontends/onnx/attention.h"

#include <math.h>

qf_value qf_onnx_emit_attention(qf_onnx_call *call, const qf_onnx_attention *attention) {
    if (!attention->q.id || !attention->k.id || !attention->v.id) {
        call->import->failed = true;
        return (qf_value){0};
    }
    qf_value operands[QF_IN(attention, sinks) + 1] = {{0}};
    operands[QF_IN(attention, q)] = attention->q;
    operands[QF_IN(attention, k)] = attention->k;
    operands[QF_IN(attention, v)] = attention->v;
    operands[QF_IN(attention, bias)] = attention->bias;
    operands[QF_IN(attention, mask)] = attention->mask;
    operands[QF_IN(attention, kv_lens)] = attention->kv_lens;
    operands[QF_IN(attention, sinks)] = attention->sinks;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_attention, attributes);
    attributes[QF_ATTR(attention, scale)].number = attention->scale;
    attributes[QF_ATTR(attention, causal)].integer = attention->causal;
    attributes[QF_ATTR(attention, align)].integer = attention->top_left ? QF_VALUE_top_left : QF_VALUE_bottom_right;
    attributes[QF_ATTR(attention, window_left)].integer = attention->window_left;
    attributes[QF_ATTR(attention, window_right)].integer = attention->window_right;
    attributes[QF_ATTR(attention, softcap)].number = attention->softcap;
    attributes[QF_ATTR(attention, layout)].integer = QF_VALUE_bhsd;
    attributes[QF_ATTR(attention, empty_row)].integer = attention->empty_row_nan ? QF_VALUE_nan : QF_VALUE_zero;
    return qf_import_op(qf_onnx_target(call), QF_OP_attention, operands, QF_COUNT_OF(operands), attributes);
}

qf_value qf_onnx_split_heads(qf_onnx_call *call, qf_value x, int64_t heads) {
    qf_context *context = call->import->context;
    if (!x.id) return x;
    qf_dim hidden = qf_onnx_dim(call, x, -1), count = qf_onnx_constant(call, heads);
    qf_dim head_dim = heads > 0 ? qf_dim_divide_exactly(context, hidden, count) : (qf_dim){0};
    if (qf_onnx_rank(call, x) != 3 || !head_dim.id) {
        qf_buffer text = {.context = context};
        qf_type_print(&text, context, qf_value_type(qf_onnx_graph(call), x));
        (void)qf_onnx_fault(call, QF_ERROR_VERIFY, "%s: expected [batch, sequence, %lld heads * head size], found %s",
                            qf_onnx_text(call->node->op_type), (long long)heads, text.data ? text.data : "");
        qf_buffer_destroy(&text);
        return (qf_value){0};
    }
    return qf_import_view(qf_onnx_target(call), x,
                          (qf_dim[]){qf_onnx_dim(call, x, 0), qf_onnx_dim(call, x, 1), count, head_dim}, 4);
}

qf_value qf_onnx_swap_heads(qf_onnx_call *call, qf_value x) {
    return qf_import_permute(qf_onnx_target(call), x, (int64_t[]){0, 2, 1, 3}, 4);
}

qf_value qf_onnx_merge_heads(qf_onnx_call *call, qf_value x) {
    qf_value rows = qf_onnx_swap_heads(call, x);
    if (!rows.id) return rows;
    qf_dim width = qf_dim_multiply(call->import->context, qf_onnx_dim(call, rows, 2), qf_onnx_dim(call, rows, 3));
    return qf_import_view(qf_onnx_target(call), rows,
                          (qf_dim[]){qf_onnx_dim(call, rows, 0), qf_onnx_dim(call, rows, 1), width}, 3);
}

qf_value qf_onnx_rotate(qf_onnx_call *call, qf_value x, qf_value cos, qf_value sin, qf_value positions,
                        bool interleaved) {
    uint32_t rank = qf_onnx_rank(call, cos);
    int64_t half;
    if (!x.id) return x;
    if (rank == 0 || rank > 3 || !qf_dim_is_constant(call->import->context, qf_onnx_dim(call, cos, -1), &half)) {
        (void)qf_onnx_fault(call, QF_ERROR_UNSUPPORTED, "%s: the rotary caches have no constant width",
                            qf_onnx_text(call->node->op_type));
        return (qf_value){0};
    }
    qf_value table = qf_import_concat(qf_onnx_target(call), (qf_value[]){cos, sin}, 2, rank - 1);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(qf_onnx_graph(call), QF_OP_rope, attributes);
    attributes[QF_ATTR(rope, interleaved)].integer = interleaved;
    attributes[QF_ATTR(rope, rotary_dim)].integer = 2 * half;
    return qf_import_op(qf_onnx_target(call), QF_OP_rope, (qf_value[]){x, table, positions}, 3, attributes);
}

qf_value qf_onnx_band(qf_onnx_call *call, qf_dim rows, qf_dim columns, qf_dim offset, qf_value offset_per_batch,
                      int64_t left, int64_t right) {
    qf_dim one = qf_onnx_constant(call, 1), zero = qf_onnx_constant(call, 0);
    qf_value row = qf_import_view(qf_onnx_target(call), qf_import_iota(qf_onnx_target(call), QF_I64, rows, offset, one),
                                  (qf_dim[]){rows, one}, 2);
    qf_value column = qf_import_iota(qf_onnx_target(call), QF_I64, columns, zero, one), result = {0};
    if (offset_per_batch.id) {
        qf_dim batch[] = {qf_onnx_dim(call, offset_per_batch, 0), one, one, one};
        row = qf_import_binary(qf_onnx_target(call), QF_OP_add, row,
                               qf_import_view(qf_onnx_target(call), offset_per_batch, batch, 4));
    }
    if (right >= 0) {
        qf_value last =
            right ? qf_import_binary(qf_onnx_target(call), QF_OP_add, row, qf_onnx_number(call, QF_I64, (double)right))
                  : row;
        result = qf_import_binary(qf_onnx_target(call), QF_OP_less_equal, column, last);
    }
    if (left >= 0) {
        qf_value first =
            left ? qf_import_binary(qf_onnx_target(call), QF_OP_sub, row, qf_onnx_number(call, QF_I64, (double)left))
                 : row;
        qf_value after = qf_import_binary(qf_onnx_target(call), QF_OP_greater_equal, column, first);
        result = result.id ? qf_import_binary(qf_onnx_target(call), QF_OP_and, result, after) : after;
    }
    return result;
}

qf_value qf_onnx_as_bias(qf_onnx_call *call, qf_value mask, qf_dtype dtype, double otherwise) {
    return qf_import_where(qf_onnx_target(call), mask, qf_onnx_number(call, dtype, 0),
                           qf_onnx_number(call, dtype, otherwise));
}
