/* Owns: mappings of torch's attention operators.
 * Does not own: attention of serving frameworks (map_custom.c).
 * Next: map_index.c. */
#include <math.h>

#include "frontends/pt2/maps.h"

typedef struct attention_parts {
    qf_value q, k, v, mask; /* [B, H, T, D]; mask: boolean, or added to the scores */
    double scale;
    bool causal, top_left;
} attention_parts;

static qf_value emit_attention(qf_pt2_call *call, const attention_parts *attention, uint32_t results,
                               qf_value *out_lse) {
    qf_value operands[QF_IN(attention, mask) + 1] = {{0}};
    if (!attention->q.id || !attention->k.id || !attention->v.id) return (qf_value){0};
    operands[QF_IN(attention, q)] = attention->q;
    operands[QF_IN(attention, k)] = attention->k;
    operands[QF_IN(attention, v)] = attention->v;
    bool boolean = qf_pt2_dtype_of(call, attention->mask) == QF_I1;
    if (attention->mask.id) operands[boolean ? QF_IN(attention, mask) : QF_IN(attention, bias)] = attention->mask;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_attention, attributes);
    attributes[QF_ATTR(attention, scale)].number = attention->scale;
    attributes[QF_ATTR(attention, causal)].integer = attention->causal;
    attributes[QF_ATTR(attention, align)].integer = attention->top_left ? QF_VALUE_top_left : QF_VALUE_bottom_right;
    attributes[QF_ATTR(attention, layout)].integer = QF_VALUE_bhsd;
    attributes[QF_ATTR(attention, empty_row)].integer = QF_VALUE_zero;
    qf_node node =
        qf_import_node(qf_pt2_target(call), QF_OP_attention, operands, QF_COUNT_OF(operands), attributes, results);
    if (!node.id) return (qf_value){0};
    if (out_lse) *out_lse = qf_node_result(qf_pt2_graph(call), node, QF_OUT(attention, lse));
    return qf_node_result(qf_pt2_graph(call), node, 0);
}

/* [T, D], [H, T, D] and [B, H, T, D] as the last; more leading axes merge into B. */
static qf_value as_rank_4(qf_pt2_call *call, qf_value x) {
    uint32_t rank = qf_pt2_rank(call, x);
    while (x.id && qf_pt2_rank(call, x) < 4) x = qf_pt2_unsqueeze(call, x, 0);
    if (rank <= 4) return x;
    qf_dim dims[4];
    dims[0] = qf_dim_product(call->import->context, qf_value_dims(qf_pt2_graph(call), x), rank - 3);
    for (uint32_t i = 1; i < 4; i++) dims[i] = qf_pt2_dim_of(call, x, (int32_t)(rank - 4 + i));
    return qf_import_view(qf_pt2_target(call), x, dims, 4);
}

static qf_value back_to(qf_pt2_call *call, qf_value y, qf_value q) {
    uint32_t rank = qf_pt2_rank(call, q);
    qf_dim dims[QF_MAX_RANK];
    if (!y.id || rank == 4) return y;
    for (uint32_t i = 0; i < rank; i++) dims[i] = qf_pt2_dim_of(call, q, (int32_t)i);
    dims[rank - 1] = qf_pt2_dim_of(call, y, 3);
    return qf_import_view(qf_pt2_target(call), y, dims, rank);
}

static bool head_dim_of(const qf_pt2_call *call, qf_value x, int64_t *out) {
    return qf_dim_is_constant(call->import->context, qf_pt2_dim_of(call, x, -1), out) && *out > 0;
}

/* Heads of k and v that are fewer than q's are shared by groups of them, as the op reads them. */
static const char *check(const qf_pt2_call *call, qf_value q, qf_value k, qf_value v, qf_value mask) {
    uint32_t rank = qf_pt2_rank(call, q);
    if (rank < 2 || rank > QF_MAX_RANK || qf_pt2_rank(call, k) != rank || qf_pt2_rank(call, v) != rank)
        return "the shapes of its operands are unknown or of different ranks";
    if (mask.id && qf_pt2_rank(call, mask) > 4 && rank > 4) return "it has a mask over more than four axes";
    if (mask.id && qf_pt2_rank(call, mask) > QF_MAX_RANK) return "the shape of its mask is unknown";
    return NULL;
}

/* scaled_dot_product_attention and its backends; row argument 1: those that also give the logarithm of the sum. */
qf_pt2_outcome qf_pt2_map_attention(qf_pt2_call *call) {
    qf_value q = qf_pt2_in(call, "query"), k = qf_pt2_in(call, "key"), v = qf_pt2_in(call, "value");
    qf_value mask = qf_pt2_in(call, qf_pt2_has(call, "attn_bias") ? "attn_bias" : "attn_mask");
    int64_t head_dim;
    const char *reason = check(call, q, k, v, mask);
    if (reason) return qf_pt2_decline(call, reason);
    if (qf_pt2_number(call, "dropout_p", 0) != 0) return qf_pt2_decline(call, "it drops probabilities at random");
    if (!qf_pt2_has(call, "scale") && !head_dim_of(call, q, &head_dim))
        return qf_pt2_decline(call, "its scale follows from a head size that is not known");
    attention_parts attention = {.q = as_rank_4(call, q),
                                 .k = as_rank_4(call, k),
                                 .v = as_rank_4(call, v),
                                 .causal = qf_pt2_bool(call, "is_causal", false),
                                 .top_left = true};
    attention.scale = qf_pt2_has(call, "scale") ? qf_pt2_number(call, "scale", 1) : 1 / sqrt((double)head_dim);
    if (mask.id) {
        if (qf_pt2_dtype_of(call, mask) != QF_I1) mask = qf_pt2_cast(call, mask, qf_pt2_dtype_of(call, q));
        attention.mask = as_rank_4(call, mask);
    }
    bool with_sum = call->row->argument == 1 && qf_pt2_wants(call, 1);
    qf_value lse = {0}, y = emit_attention(call, &attention, with_sum ? 2 : 1, with_sum ? &lse : NULL);
    if (with_sum) call->outputs[1] = lse;
    return qf_pt2_done(call, back_to(call, y, q));
}
