/* Owns: the pass that quantises q of attentions whose K and V are FP8.
 * Does not own: fusing that quantise into what produces q (rules).
 * Next: manager.c; docs/numerics.md for the class. */
#include <string.h>

#include "passes/pass.h"

qf_status qf_pass_insert_query_quant(qf_pass_call *call);

/* What one q becomes; shared by all attentions that read the same (q, scale, dtype). */
typedef struct quantised_query {
    qf_value q, given_scale, quantised, scale;
    qf_dtype dtype;
} quantised_query;

typedef struct query_quantiser {
    qf_pass_call *call;
    quantised_query *made;
    uint32_t made_count, made_capacity;
    qf_index index;
} query_quantiser;

/* Operand and attribute columns that both attention ops have, by name, so that one pass serves both. */
typedef struct attention_columns {
    uint32_t q, k, v, q_scale, out, count;
} attention_columns;

static bool columns_of(qf_op op, attention_columns *out) {
    if (op == QF_OP_attention)
        *out = (attention_columns){QF_IN(attention, q),       QF_IN(attention, k),     QF_IN(attention, v),
                                   QF_IN(attention, q_scale), QF_ATTR(attention, out), QF_IN(attention, end_)};
    else if (op == QF_OP_paged_attention)
        *out = (attention_columns){QF_IN(paged_attention, q),       QF_IN(paged_attention, k_cache),
                                   QF_IN(paged_attention, v_cache), QF_IN(paged_attention, q_scale),
                                   QF_ATTR(paged_attention, out),   QF_IN(paged_attention, end_)};
    else
        return false;
    return true;
}

static bool wants_query_quantised(const qf_graph *graph, qf_node node, attention_columns columns) {
    qf_dtype q = qf_value_dtype(graph, qf_node_operand(graph, node, columns.q));
    qf_dtype k = qf_value_dtype(graph, qf_node_operand(graph, node, columns.k));
    qf_dtype v = qf_value_dtype(graph, qf_node_operand(graph, node, columns.v));
    bool wide = q == QF_F16 || q == QF_BF16 || q == QF_F32;
    return wide && (k == QF_F8E4M3FN || k == QF_F8E5M2) && (v == QF_F8E4M3FN || v == QF_F8E5M2);
}

static bool query_equal(const void *owner, uint32_t id, const void *key) {
    const quantised_query *a = &((const query_quantiser *)owner)->made[id - 1], *b = key;
    return a->q.id == b->q.id && a->given_scale.id == b->given_scale.id && a->dtype == b->dtype;
}

static qf_value unit_scale(qf_graph *graph, qf_node before) {
    const float one = 1.0F;
    qf_literal literal = {qf_type_tensor(graph->context, QF_F32, NULL, 0), sizeof one, &one};
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {[QF_ATTR(constant, value)] = {.literal = &literal}};
    qf_node_spec spec = {.op = QF_OP_constant,
                         .attributes = attributes,
                         .result_types = &literal.type,
                         .location = qf_node_at(graph, before)->location};
    qf_node node = qf_graph_insert(graph, before, &spec);
    return node.id ? qf_node_result(graph, node, 0) : (qf_value){0};
}

static bool make_dynamic(qf_graph *graph, qf_node before, quantised_query *query) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(graph, QF_OP_dynamic_quantize, attributes);
    attributes[QF_ATTR(dynamic_quantize, dtype)].integer = query->dtype;
    qf_node_spec spec = {.op = QF_OP_dynamic_quantize,
                         .operands = &query->q,
                         .operand_count = 1,
                         .attributes = attributes,
                         .location = qf_node_at(graph, before)->location};
    qf_node node = qf_graph_insert(graph, before, &spec);
    if (!node.id) return false;
    query->quantised = qf_node_result(graph, node, QF_OUT(dynamic_quantize, y));
    query->scale = qf_node_result(graph, node, QF_OUT(dynamic_quantize, scale));
    return true;
}

/* The axis of q that holds heads: 1 in bhsd, rank - 2 elsewhere. */
static int64_t head_axis(const qf_graph *graph, qf_node attention, qf_value q) {
    int64_t rank = qf_value_rank(graph, q);
    bool bhsd = qf_node_op(graph, attention) == QF_OP_attention && rank == 4 &&
                qf_node_attribute(graph, attention, QF_ATTR(attention, layout))->integer == QF_VALUE_bhsd;
    return bhsd ? 1 : rank - 2;
}

static bool make_static(qf_graph *graph, qf_node attention, quantised_query *query) {
    qf_value scale = query->given_scale.id ? query->given_scale : unit_scale(graph, attention);
    if (!scale.id) return false;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(graph, QF_OP_quantize, attributes);
    attributes[QF_ATTR(quantize, dtype)].integer = query->dtype;
    qf_dim entries = qf_type_element_count(graph->context, qf_value_type(graph, scale));
    if (!qf_dim_is(graph->context, entries, 1)) {
        /* One scale a KV head: heads / entries neighbouring query heads share an entry. */
        int64_t axis = head_axis(graph, attention, query->q), group;
        qf_dim heads = qf_type_dim(graph->context, qf_value_type(graph, query->q), (int32_t)axis);
        if (!qf_dim_is_constant(graph->context, qf_dim_divide_exactly(graph->context, heads, entries), &group))
            return false;
        attributes[QF_ATTR(quantize, axis)].integer = axis;
        attributes[QF_ATTR(quantize, group)].integer = group > 1 ? group : 0;
    }
    qf_value operands[] = {query->q, scale};
    qf_node_spec spec = {.op = QF_OP_quantize,
                         .operands = operands,
                         .operand_count = 2,
                         .attributes = attributes,
                         .location = qf_node_at(graph, attention)->location};
    qf_node node = qf_graph_insert(graph, attention, &spec);
    if (!node.id) return false;
    query->quantised = qf_node_result(graph, node, 0);
    query->scale = scale;
    return true;
}

/* The quantised form of q, made once before its first user. NULL on failure. */
static const quantised_query *quantise(query_quantiser *state, qf_node attention, quantised_query wanted) {
    qf_graph *graph = state->call->graph;
    uint64_t hash = qf_hash_mix(qf_hash_mix(wanted.q.id, wanted.given_scale.id), wanted.dtype);
    uint32_t id = qf_index_find(&state->index, hash, query_equal, state, &wanted);
    if (id) return &state->made[id - 1];
    bool dynamic = state->call->options->query_scale == QF_QUERY_SCALE_DYNAMIC;
    if (!(dynamic ? make_dynamic(graph, attention, &wanted) : make_static(graph, attention, &wanted))) return NULL;
    if (!QF_GROW(graph->context, state->made, state->made_capacity, (uint64_t)state->made_count + 1)) return NULL;
    state->made[state->made_count++] = wanted;
    if (!qf_index_add(graph->context, &state->index, hash, state->made_count)) return NULL;
    state->call->report->query_quants_inserted++;
    return &state->made[state->made_count - 1];
}

static qf_status rewrite(query_quantiser *state, qf_node node, attention_columns columns) {
    qf_graph *graph = state->call->graph;
    const qf_pass_options *options = state->call->options;
    if (!qf_report_may_rewrite(state->call->report)) return QF_OK;
    qf_value q = qf_node_operand(graph, node, columns.q);
    quantised_query wanted = {.q = q, .dtype = QF_F8E4M3FN};
    if (options->query_scale == QF_QUERY_SCALE_GRAPH)
        wanted.given_scale = qf_node_operand(graph, node, columns.q_scale);
    const quantised_query *query = quantise(state, node, wanted);
    if (!query) return qf_context_status(graph->context) ? qf_context_status(graph->context) : QF_ERROR_OUT_OF_MEMORY;
    qf_attribute *out = qf_node_attribute(graph, node, columns.out);
    if (out->integer == QF_DTYPE_NONE) out->integer = qf_value_dtype(graph, q);
    qf_graph_set_operand(graph, node, columns.q, query->quantised);
    qf_graph_set_operand(graph, node, columns.q_scale, query->scale);
    state->call->changed = true;
    qf_rewrite done = {.rule = qf_intern_c(graph->context, "insert-query-quant"),
                       .numerics = QF_NUMERICS_QUANTISING,
                       .tag = qf_node_at(graph, node)->tag,
                       .location = qf_node_at(graph, node)->location,
                       .note = qf_intern_c(graph->context, "q is rounded to f8E4M3FN")};
    return qf_report_rewrite(state->call->report, &done) ? QF_OK : QF_ERROR_OUT_OF_MEMORY;
}

qf_status qf_pass_insert_query_quant(qf_pass_call *call) {
    qf_graph *graph = call->graph;
    bool class_allows =
        call->options->numerics == QF_NUMERICS_DEFAULT || call->options->numerics >= QF_NUMERICS_QUANTISING;
    query_quantiser state = {.call = call};
    qf_status status = QF_OK;
    QF_FOR_EACH_NODE(graph, node) {
        attention_columns columns;
        if (status != QF_OK || !columns_of(qf_node_op(graph, node), &columns)) continue;
        if (!wants_query_quantised(graph, node, columns)) continue;
        if (!class_allows || !call->options->target->float8_query) {
            qf_miss miss = {.reason = class_allows ? QF_REASON_target : QF_REASON_numerics_class,
                            .tag = qf_node_at(graph, node)->tag,
                            .node = node,
                            .node_text = qf_intern_c(graph->context, qf_op_name(qf_node_op(graph, node))),
                            .location = qf_node_at(graph, node)->location,
                            .detail = qf_intern_c(graph->context, "query quantisation")};
            if (!qf_report_miss(call->report, &miss)) status = QF_ERROR_OUT_OF_MEMORY;
            continue;
        }
        status = rewrite(&state, node, columns);
    }
    qf_index_destroy(graph->context, &state.index);
    QF_FREE_ITEMS(graph->context, state.made, state.made_capacity);
    return status;
}
