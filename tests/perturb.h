/* Owns: changes to a graph that keep its meaning: new names, another order, duplicates, identity layouts, swapped
 * operands. Does not own: what must stay the same afterwards (tests/e2e/perturb_test.c). Next: ir/graph.h. */
#ifndef QF_TESTS_PERTURB_H
#define QF_TESTS_PERTURB_H

#include "ir/graph.h"
#include "tests/check.h"

static inline uint64_t perturb_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline bool perturb_chance(uint64_t *state, uint32_t percent) {
    return perturb_random(state) % 100 < percent;
}

static inline void perturb_names(qf_graph *graph, uint64_t *state) {
    char name[32];
    for (uint32_t i = 1; i < graph->value_count; i++) {
        (void)snprintf(name, sizeof name, "v%llx", (unsigned long long)perturb_random(state));
        graph->values[i].name = qf_intern_c(graph->context, name);
    }
    QF_FOR_EACH_NODE(graph, node) {
        (void)snprintf(name, sizeof name, "n%llx", (unsigned long long)perturb_random(state));
        qf_node_at(graph, node)->location = qf_location_make(graph, qf_text_of(name), 0, 0);
    }
}

static inline void perturb_commute(qf_graph *graph, uint64_t *state) {
    QF_FOR_EACH_NODE(graph, node) {
        if (!qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_COMMUTATIVE) || !perturb_chance(state, 50)) continue;
        qf_value a = qf_node_operand(graph, node, 0), b = qf_node_operand(graph, node, 1);
        qf_graph_set_operand(graph, node, 0, b);
        qf_graph_set_operand(graph, node, 1, a);
    }
}

/* A copy of the node after it; some of its uses read the copy. */
static inline void perturb_duplicate(qf_graph *graph, qf_node node, uint64_t *state) {
    const qf_node_data *data = qf_node_at(graph, node);
    qf_value operands[64];
    qf_type types[64];
    if (data->operand_count > 64 || data->result_count > 64) return;
    uint32_t operand_count = data->operand_count, result_count = data->result_count;
    for (uint32_t i = 0; i < operand_count; i++) operands[i] = data->operands[i].value;
    for (uint32_t i = 0; i < result_count; i++) types[i] = qf_value_type(graph, qf_result_at(data, i));
    qf_node_spec spec = {.op = data->op,
                         .operands = operands,
                         .operand_count = operand_count,
                         .attributes = data->attributes,
                         .result_count = result_count,
                         .result_types = types};
    qf_node copy = qf_graph_insert(graph, data->next, &spec);
    assert_int_not_equal(copy.id, 0);
    for (uint32_t i = 0; i < result_count; i++) {
        qf_value from = qf_node_result(graph, node, i);
        qf_use *next;
        for (qf_use *use = qf_value_at(graph, from)->first_use; use; use = next) {
            next = use->next;
            if (perturb_chance(state, 50))
                qf_graph_set_operand(graph, use->user, qf_use_index(graph, use), qf_node_result(graph, copy, i));
        }
    }
}

static inline void perturb_duplicates(qf_graph *graph, uint64_t *state) {
    qf_node next;
    for (qf_node node = graph->first; node.id; node = next) {
        next = qf_node_at(graph, node)->next;
        if (qf_op_has_trait(qf_node_op(graph, node), QF_TRAIT_PURE) && perturb_chance(state, 40))
            perturb_duplicate(graph, node, state);
    }
}

static inline qf_value perturb_layout_node(qf_graph *graph, qf_node before, qf_op op, qf_attribute attribute,
                                           qf_value value) {
    qf_attribute attributes[QF_MAX_ATTRIBUTES] = {attribute};
    qf_node_spec spec = {.op = op, .operands = &value, .operand_count = 1, .attributes = attributes};
    qf_node node = qf_graph_insert(graph, before, &spec);
    assert_int_not_equal(node.id, 0);
    return qf_node_result(graph, node, 0);
}

/* A permute and its inverse, or a flattening and its inverse, in front of one use. */
static inline void perturb_identity(qf_graph *graph, qf_use *use, uint64_t *state) {
    qf_value value = use->value;
    uint32_t rank = qf_value_rank(graph, value);
    if (rank == QF_UNRANKED || rank < 2 || qf_value_dtype(graph, value) == QF_DTYPE_NONE) return;
    const qf_dim *dims = qf_value_dims(graph, value);
    qf_value there;
    if (perturb_chance(state, 50)) {
        qf_dim count = qf_dim_product(graph->context, dims, rank);
        there = perturb_layout_node(graph, use->user, QF_OP_view, (qf_attribute){.dims = &count, .count = 1}, value);
        there = perturb_layout_node(graph, use->user, QF_OP_view, (qf_attribute){.dims = dims, .count = rank}, there);
    } else {
        int64_t order[QF_MAX_RANK], inverse[QF_MAX_RANK];
        for (uint32_t i = 0; i < rank; i++) order[i] = i;
        for (uint32_t i = rank; i-- > 1;) {
            uint32_t j = (uint32_t)(perturb_random(state) % (i + 1));
            int64_t kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        for (uint32_t i = 0; i < rank; i++) inverse[order[i]] = i;
        there =
            perturb_layout_node(graph, use->user, QF_OP_permute, (qf_attribute){.ints = order, .count = rank}, value);
        there =
            perturb_layout_node(graph, use->user, QF_OP_permute, (qf_attribute){.ints = inverse, .count = rank}, there);
    }
    qf_graph_set_operand(graph, use->user, qf_use_index(graph, use), there);
}

static inline void perturb_identities(qf_graph *graph, uint64_t *state) {
    qf_node next;
    for (qf_node node = graph->first; node.id; node = next) {
        next = qf_node_at(graph, node)->next;
        for (uint32_t i = 0; i < qf_node_at(graph, node)->operand_count; i++) {
            qf_use *use = &qf_node_at(graph, node)->operands[i];
            if (use->value.id && perturb_chance(state, 15)) perturb_identity(graph, use, state);
        }
    }
}

/* Any topological order; nodes with effects keep theirs. */
static inline void perturb_order(qf_graph *graph, uint64_t *state) {
    uint32_t *waiting = calloc(graph->node_count, sizeof *waiting), ready_count = 0;
    qf_node *ready = calloc(graph->node_count, sizeof *ready), last_effect = {0};
    qf_node *effect_after = calloc(graph->node_count, sizeof *effect_after);
    assert_true(waiting && ready && effect_after);
    QF_FOR_EACH_NODE(graph, node) {
        const qf_node_data *data = qf_node_at(graph, node);
        for (uint32_t i = 0; i < data->operand_count; i++)
            waiting[node.id] += qf_value_producer(graph, data->operands[i].value).id != 0;
        if (!qf_op_has_trait(data->op, QF_TRAIT_PURE) && data->op != QF_OP_return) {
            if (last_effect.id) {
                effect_after[last_effect.id] = node;
                waiting[node.id]++;
            }
            last_effect = node;
        }
        if (!waiting[node.id] && data->op != QF_OP_return) ready[ready_count++] = node;
    }
    while (ready_count) {
        uint32_t pick = (uint32_t)(perturb_random(state) % ready_count);
        qf_node node = ready[pick];
        ready[pick] = ready[--ready_count];
        qf_graph_move_before(graph, node, graph->last);
        const qf_node_data *data = qf_node_at(graph, node);
        for (uint32_t i = 0; i < data->result_count; i++) QF_FOR_EACH_USE(graph, qf_result_at(data, i), use)
        if (--waiting[use->user.id] == 0 && qf_node_op(graph, use->user) != QF_OP_return)
            ready[ready_count++] = use->user;
        qf_node after = effect_after[node.id];
        if (after.id && --waiting[after.id] == 0) ready[ready_count++] = after;
    }
    free(waiting);
    free(ready);
    free(effect_after);
}

/* All of them, reproducible by seed. */
static inline void perturb_graph(qf_graph *graph, uint64_t seed) {
    uint64_t state = seed * 0x2545F4914F6CDD1Du + 11;
    perturb_commute(graph, &state);
    perturb_duplicates(graph, &state);
    perturb_identities(graph, &state);
    perturb_order(graph, &state);
    perturb_names(graph, &state);
}

#endif
