/* Owns: the pass that gives each idea one spelling; its driver and the rules for identities, casts and constants.
 * Does not own: layout chains (canonicalize_layout.c), shape arithmetic (canonicalize_shape.c).
 * Next: canonicalize.h. */
#include "passes/canonicalize.h"

#include <stdio.h>

#include "ir/infer.h"
#include "passes/rule_phase.h"

#define MAX_ROUNDS 8

qf_status qf_pass_canonicalize(qf_pass_call *call);

/* Replaces the node's first result and erases the node. Always true. */
static bool replace_by_value(qf_graph *graph, qf_node node, qf_value value) {
    qf_graph_replace_all_uses(graph, qf_node_result(graph, node, 0), value);
    qf_graph_erase(graph, node);
    return true;
}

bool qf_replace_by_node(qf_graph *graph, qf_node node, const qf_node_spec *spec) {
    const qf_node_data *data = qf_node_at(graph, node);
    qf_string name = qf_value_at(graph, qf_result_at(data, 0))->name;
    qf_node_spec placed = *spec;
    placed.location = data->location;
    placed.tag = data->tag;
    if (!placed.result_names) placed.result_names = &name;
    qf_node made = qf_graph_insert(graph, node, &placed);
    if (!made.id) return false;
    return replace_by_value(graph, node, qf_node_result(graph, made, 0));
}

/* Operand 0 where the node's result is the very same tensor. */
static bool is_identity(const qf_graph *graph, qf_node node) {
    const qf_node_data *data = qf_node_at(graph, node);
    if (data->result_count != 1 || !data->operand_count || !data->operands[0].value.id) return false;
    qf_type from = qf_value_type(graph, data->operands[0].value), to = qf_value_type(graph, qf_result_at(data, 0));
    if (!qf_type_equal(from, to)) return false;
    bool ranked = qf_type_is_ranked(graph->context, to);
    switch (data->op) {
    case QF_OP_copy: return true;
    case QF_OP_cast:
    case QF_OP_bitcast: return qf_type_dtype(graph->context, to) != QF_DTYPE_NONE;
    case QF_OP_view:
    case QF_OP_expand: return ranked;
    case QF_OP_concat: return ranked && data->operand_count == 1;
    case QF_OP_split: return ranked;
    case QF_OP_clamp: return !qf_node_operand(graph, node, 1).id && !qf_node_operand(graph, node, 2).id;
    case QF_OP_permute: {
        const qf_attribute *order = &data->attributes[QF_ATTR(permute, order)];
        for (uint32_t i = 0; i < order->count; i++)
            if (order->ints[i] != i) return false;
        return true;
    }
    case QF_OP_slice: {
        const qf_attribute *steps = &data->attributes[QF_ATTR(slice, steps)];
        for (uint32_t i = 0; i < steps->count; i++)
            if (steps->ints[i] != 1) return false;
        return ranked; /* equal extents with unit steps: every slice is full */
    }
    default: return false;
    }
}

/* Every number of `narrow` is one of `wide`. */
static bool holds_exactly(qf_dtype wide, qf_dtype narrow) {
    if (wide == QF_F64) return narrow == QF_F32 || narrow == QF_F16 || narrow == QF_BF16 || qf_dtype_is_float8(narrow);
    if (wide == QF_F32) return narrow == QF_F16 || narrow == QF_BF16 || qf_dtype_is_float8(narrow);
    if (wide == QF_BF16) return qf_dtype_is_float8(narrow);
    if (wide == QF_F16) return qf_dtype_is_float8(narrow) && narrow != QF_F8E8M0FNU;
    if (wide == QF_I64) return narrow == QF_I32 || narrow == QF_I8 || narrow == QF_U8 || narrow == QF_I1;
    if (wide == QF_I32) return narrow == QF_I8 || narrow == QF_U8 || narrow == QF_I1;
    return false;
}

/* cast(cast(x, wide), y): the widening changes nothing. */
static bool drop_widening(qf_graph *graph, qf_node node) {
    if (qf_node_op(graph, node) != QF_OP_cast) return false;
    qf_node inner = qf_producer_of_op(graph, qf_node_operand(graph, node, 0), QF_OP_cast);
    if (!inner.id) return false;
    qf_value source = qf_node_operand(graph, inner, 0);
    if (!holds_exactly(qf_value_dtype(graph, qf_node_result(graph, inner, 0)), qf_value_dtype(graph, source)))
        return false;
    qf_graph_set_operand(graph, node, 0, source);
    if (is_identity(graph, node)) return replace_by_value(graph, node, source);
    return true;
}

static bool is_constant(const qf_graph *graph, qf_value value) {
    qf_op op = qf_node_op(graph, qf_value_producer(graph, value));
    return op == QF_OP_constant || op == QF_OP_parameter;
}

static bool constant_to_the_right(qf_graph *graph, qf_node node) {
    if (!qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_COMMUTATIVE)) return false;
    qf_value a = qf_node_operand(graph, node, 0), b = qf_node_operand(graph, node, 1);
    if (!is_constant(graph, a) || is_constant(graph, b)) return false;
    qf_graph_set_operand(graph, node, 0, b);
    qf_graph_set_operand(graph, node, 1, a);
    return true;
}

/* NumPy matmul as einsum. A batch axis of extent 1 that the other operand broadcasts gets a label of its own, summed
 * over its one element. */
static bool matmul_to_contract(qf_graph *graph, qf_node node) {
    if (qf_node_op(graph, node) != QF_OP_matmul) return false;
    qf_context *context = graph->context;
    qf_value a = qf_node_operand(graph, node, 0), b = qf_node_operand(graph, node, 1);
    uint32_t rank_a = qf_value_rank(graph, a), rank_b = qf_value_rank(graph, b);
    if (rank_a == QF_UNRANKED || rank_b == QF_UNRANKED || rank_a == 0 || rank_b == 0) return false;
    uint32_t batch_a = rank_a > 2 ? rank_a - 2 : 0, batch_b = rank_b > 2 ? rank_b - 2 : 0;
    uint32_t batch = batch_a > batch_b ? batch_a : batch_b;
    char label_a[QF_MAX_RANK + 1] = "", label_b[QF_MAX_RANK + 1] = "", out[QF_MAX_RANK + 1] = "", text[4 * QF_MAX_RANK];
    uint32_t used_a = 0, used_b = 0, used_out = 0;
    for (uint32_t i = 0; i < batch; i++) {
        char label = (char)('a' + i), single = (char)('A' + i);
        bool in_a = i >= batch - batch_a, in_b = i >= batch - batch_b;
        qf_dim dim_a = in_a ? qf_value_dims(graph, a)[i - (batch - batch_a)] : (qf_dim){0};
        qf_dim dim_b = in_b ? qf_value_dims(graph, b)[i - (batch - batch_b)] : (qf_dim){0};
        bool one_a = in_a && qf_dim_is(context, dim_a, 1), one_b = in_b && qf_dim_is(context, dim_b, 1);
        if (in_a) label_a[used_a++] = one_a && in_b && !one_b ? single : label;
        if (in_b) label_b[used_b++] = one_b && in_a && !one_a ? single : label;
        out[used_out++] = label;
    }
    if (rank_a > 1) label_a[used_a++] = out[used_out++] = 'm';
    label_a[used_a++] = 'k';
    label_b[used_b++] = 'k';
    if (rank_b > 1) label_b[used_b++] = out[used_out++] = 'n';
    (void)snprintf(text, sizeof text, "%.*s,%.*s->%.*s", (int)used_a, label_a, (int)used_b, label_b, (int)used_out,
                   out);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_attributes_default(graph, QF_OP_contract, attributes);
    attributes[QF_ATTR(contract, equation)].string = qf_intern_c(context, text);
    attributes[QF_ATTR(contract, out)].integer = qf_node_attribute(graph, node, QF_ATTR(matmul, out))->integer;
    qf_value operands[] = {a, b};
    qf_node_spec spec = {.op = QF_OP_contract, .operands = operands, .operand_count = 2, .attributes = attributes};
    return attributes[QF_ATTR(contract, equation)].string.id && qf_replace_by_node(graph, node, &spec);
}

static bool simplify(qf_graph *graph, qf_symbolic *symbolic, qf_node node) {
    if (is_identity(graph, node)) return replace_by_value(graph, node, qf_node_operand(graph, node, 0));
    return drop_widening(graph, node) || constant_to_the_right(graph, node) || matmul_to_contract(graph, node) ||
           qf_canonicalize_shape(graph, symbolic, node) || qf_canonicalize_layout(graph, node) ||
           qf_canonicalize_broadcast(graph, node);
}

static bool run_round(qf_graph *graph, bool *out_failed) {
    bool changed = false;
    qf_symbolic *symbolic = qf_symbolic_create(graph);
    *out_failed = symbolic == NULL;
    qf_node next;
    for (qf_node node = graph->first; node.id && symbolic; node = next) {
        next = qf_node_at(graph, node)->next;
        if (simplify(graph, symbolic, node)) changed = true;
    }
    qf_symbolic_destroy(symbolic);
    return changed;
}

/* Rules and code until neither changes anything, so that running the pass again finds nothing to do. */
qf_status qf_pass_canonicalize(qf_pass_call *call) {
    bool failed = false, again = true, substituted;
    /* Equalities that inference had to assume: the same size is the same dim from here on. */
    qf_status applied = qf_graph_apply_guards(call->graph, &substituted);
    if (applied != QF_OK) return applied;
    call->changed |= substituted;
    for (int round = 0; round < MAX_ROUNDS && again; round++) {
        qf_pass_call rules = *call;
        rules.changed = false;
        qf_status status = qf_rule_phase_run(&rules, "canonicalize");
        if (status != QF_OK) return status;
        again = run_round(call->graph, &failed) || rules.changed;
        if (failed) return QF_ERROR_OUT_OF_MEMORY;
        call->changed |= again;
    }
    return qf_context_status(call->graph->context);
}
