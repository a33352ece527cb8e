/* Owns: finding and moving nodes that would stand before what they read.
 * Does not own: anything of matching.
 * Next: reorder.h. */
#include "patterns/reorder.h"

/* 0: not matched; 1: matched and dead after the rewrite; 2: matched and kept. */
static int role_in_match(const qf_match *match, qf_node node) {
    for (uint32_t i = 0; i < match->rule->before_count; i++)
        if (match->nodes[i].id == node.id) return match->rule->before[i].keep ? 2 : 1;
    for (uint32_t c = 0; c < match->rule->chain_count; c++)
        for (uint32_t i = 0; i < match->chains[c].count; i++)
            if (match->chains[c].nodes[i].id == node.id) return 1;
    return 0;
}

static bool is_replaced(const qf_match *match, qf_value value) {
    for (uint32_t v = 0; v < match->rule->value_count; v++)
        if (match->values[v].id == value.id && match->rule->values[v].before != QF_NO_INDEX &&
            match->rule->values[v].after != QF_NO_INDEX)
            return true;
    return false;
}

/* The first user of a replaced value that stands before the new nodes and stays; 0: none, as for every rule with one
 * result. */
static qf_node earliest_user(const qf_reorder *order) {
    const qf_rule *rule = order->match->rule;
    qf_node earliest = {0};
    for (uint32_t v = 0; v < rule->value_count; v++) {
        qf_value value = order->match->values[v];
        if (rule->values[v].before == QF_NO_INDEX || rule->values[v].after == QF_NO_INDEX || !value.id) continue;
        QF_FOR_EACH_USE(order->graph, value, use) {
            if (!qf_node_before(order->graph, use->user, order->after) || role_in_match(order->match, use->user) == 1)
                continue;
            if (!earliest.id || qf_node_before(order->graph, use->user, earliest)) earliest = use->user;
        }
    }
    return earliest;
}

static bool same_node(const void *owner, uint32_t id, const void *key) {
    (void)owner;
    return id == *(const uint32_t *)key;
}

typedef enum dependence { INDEPENDENT, ON_REPLACED, ON_MOVED } dependence;

static dependence depends(const qf_reorder *order, const qf_index *moved, qf_node node) {
    const qf_node_data *data = qf_node_at(order->graph, node);
    dependence found = INDEPENDENT;
    for (uint32_t i = 0; i < data->operand_count; i++) {
        qf_value value = data->operands[i].value;
        uint32_t producer = qf_value_producer(order->graph, value).id;
        if (producer && qf_index_find(moved, qf_hash_mix(11, producer), same_node, NULL, &producer)) return ON_MOVED;
        if (value.id && is_replaced(order->match, value)) found = ON_REPLACED;
    }
    return found;
}

static bool remember(qf_reorder *order, qf_index *index, qf_node node) {
    qf_context *context = order->graph->context;
    if (!QF_GROW(context, order->moved, order->moved_capacity, (uint64_t)order->moved_count + 1) ||
        !qf_index_add(context, index, qf_hash_mix(11, node.id), node.id)) {
        order->failed = true;
        return false;
    }
    order->moved[order->moved_count++] = node;
    return true;
}

bool qf_reorder_plan(qf_reorder *order) {
    qf_node node = earliest_user(order);
    if (!node.id) return true;
    qf_index index = {0};
    bool good = true;
    for (; good && node.id; node = qf_node_at(order->graph, node)->next) {
        int role = role_in_match(order->match, node);
        dependence found = depends(order, &index, node);
        if (role && (found == ON_MOVED || (role == 2 && found == ON_REPLACED))) {
            order->blocking = node;
            good = false;
        } else if (!role && found != INDEPENDENT) {
            good = remember(order, &index, node);
        }
        if (node.id == order->after.id) break;
    }
    qf_index_destroy(order->graph->context, &index);
    if (!good) qf_reorder_destroy(order);
    return good;
}

void qf_reorder_commit(qf_reorder *order) {
    qf_node place = qf_node_at(order->graph, order->after)->next;
    for (uint32_t i = 0; i < order->moved_count; i++) qf_graph_move_before(order->graph, order->moved[i], place);
    qf_reorder_destroy(order);
}

void qf_reorder_destroy(qf_reorder *order) {
    QF_FREE_ITEMS(order->graph->context, order->moved, order->moved_capacity);
    order->moved_count = 0;
}
