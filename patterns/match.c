/* Owns: running a rule's match plan at one node.
 * Does not own: the plan (rule_plan.c), predicates (predicates.c), guarantees about users and effects (rewrite.c).
 * Next: rewrite.c. */
#include "patterns/match.h"

#include <string.h>

static bool run_steps(qf_match *match, uint32_t step);

static bool is_attention(qf_op op) {
    return op == QF_OP_attention || op == QF_OP_paged_attention;
}

/* Steps over layout ops up to the producer that the pattern names. */
static bool look_through(qf_match *match, uint32_t chain_index, qf_node consumer, qf_value *value) {
    const qf_graph *graph = match->graph;
    const qf_rule *rule = match->rule;
    uint32_t named = rule->values[rule->chains[chain_index].value].before, count = 0;
    qf_op wanted = named == QF_NO_INDEX ? QF_OP_none : rule->before[named].op;
    for (;;) {
        qf_node producer = qf_value_producer(graph, *value);
        qf_op op = qf_node_op(graph, producer);
        if (!producer.id || op == wanted || !qf_op_is_replayable(op)) break;
        if (count == QF_CHAIN_MAX) return false;
        match->chains[chain_index].nodes[count++] = producer;
        *value = qf_node_operand(graph, producer, 0);
    }
    match->chains[chain_index].count = count;
    if (!count) return true;
    if (!rule->chains[chain_index].crosses_producer)
        return qf_node_is_pointwise(graph, consumer, rule->chains[chain_index].operand);
    qf_node producer = qf_value_producer(graph, *value);
    uint32_t operand = rule->chains[chain_index].producer_operand;
    if (!producer.id) return false;
    /* Which way round the producer's operands stand is not known yet. */
    bool swappable = operand < 2 && qf_op_has_trait(qf_node_op(graph, producer), QF_TRAIT_COMMUTATIVE);
    return qf_node_is_pointwise(graph, producer, operand) ||
           (swappable && qf_node_is_pointwise(graph, producer, 1 - operand));
}

static bool match_value(qf_match *match, const qf_operand_pattern *pattern, qf_node node, qf_value value) {
    if (!value.id) {
        if (!pattern->optional) return false;
        if (!pattern->first) return !match->values[pattern->value].id;
        match->values[pattern->value] = value;
        return true;
    }
    if (pattern->chain != QF_NO_INDEX && !look_through(match, pattern->chain, node, &value)) return false;
    if (!pattern->first) return qf_values_equal(match->graph, match->values[pattern->value], value);
    match->values[pattern->value] = value;
    uint32_t producer = match->rule->values[pattern->value].before;
    if (producer == QF_NO_INDEX) return true;
    /* Early rejection, before other operands are walked. */
    return qf_node_op(match->graph, qf_value_producer(match->graph, value)) == match->rule->before[producer].op;
}

static bool match_operand(qf_match *match, const qf_operand_pattern *pattern, qf_node node, qf_value value) {
    double number;
    switch (pattern->kind) {
    case QF_PATTERN_ABSENT: return !value.id;
    case QF_PATTERN_REST: return true;
    case QF_PATTERN_VALUE: return match_value(match, pattern, node, value);
    case QF_PATTERN_UNIFORM:
        if (!value.id || !qf_value_uniform(match->graph, value, &number)) return false;
        if (pattern->first) match->variables[pattern->variable].number = number;
        return match->variables[pattern->variable].number == number;
    case QF_PATTERN_NUMBER:
        return value.id && qf_value_uniform(match->graph, value, &number) && number == pattern->number;
    case QF_PATTERN_REPLAY: break;
    }
    return false;
}

static bool match_attributes(qf_match *match, const qf_rule_node *pattern, qf_node node) {
    for (uint32_t i = 0; i < pattern->info->attribute_count; i++) {
        const qf_attribute_pattern *wanted = &pattern->attributes[i];
        const qf_attribute *found = qf_node_attribute(match->graph, node, i);
        const qf_attribute_info *info = &pattern->info->attributes[i];
        if (wanted->kind == QF_PATTERN_VARIABLE && wanted->first) match->variables[wanted->variable] = *found;
        if (wanted->kind == QF_PATTERN_VARIABLE &&
            !qf_attributes_equal(info, &match->variables[wanted->variable], found))
            return false;
        if (wanted->kind == QF_PATTERN_LITERAL && !qf_attributes_equal(info, &wanted->literal, found)) return false;
    }
    return true;
}

static bool match_results(qf_match *match, const qf_rule_node *pattern, qf_node node) {
    const qf_graph *graph = match->graph;
    const qf_node_data *data = qf_node_at(graph, node);
    for (uint32_t i = 0; i < pattern->result_count; i++) {
        qf_value result = qf_node_result(graph, node, i);
        if (!result.id && !pattern->result_optional[i]) return false;
        if (pattern->result_first[i])
            match->values[pattern->results[i]] = result;
        else if (!qf_values_equal(graph, match->values[pattern->results[i]], result))
            return false;
    }
    bool several = pattern->info->result_count && pattern->info->results[0].kind == QF_RESULT_SEVERAL;
    if (several && data->result_count != pattern->result_count) return false;
    for (uint32_t i = pattern->result_count; i < data->result_count; i++)
        if (qf_value_at(graph, qf_result_at(data, i))->use_count && !pattern->keep) return false;
    return true;
}

static bool match_operands(qf_match *match, const qf_rule_node *pattern, qf_node node, bool swapped) {
    const qf_node_data *data = qf_node_at(match->graph, node);
    uint32_t count = data->operand_count > pattern->operand_count ? data->operand_count : pattern->operand_count;
    for (uint32_t i = 0; i < count; i++) {
        qf_value value = qf_node_operand(match->graph, node, swapped && i < 2 ? 1 - i : i);
        if (i >= pattern->operand_count) {
            if (value.id) return false;
        } else if (!match_operand(match, &pattern->operands[i], node, value)) {
            return false;
        }
    }
    return true;
}

static bool match_node(qf_match *match, uint32_t step, qf_node node) {
    uint32_t index = match->rule->steps[step].node;
    const qf_rule_node *pattern = &match->rule->before[index];
    if (qf_node_op(match->graph, node) != pattern->op || qf_node_at(match->graph, node)->erased) return false;
    match->nodes[index] = node;
    if (is_attention(pattern->op)) match->attention = node;
    uint32_t ways = pattern->info->traits & QF_TRAIT_COMMUTATIVE ? 2 : 1;
    for (uint32_t way = 0; way < ways; way++)
        if (match_attributes(match, pattern, node) && match_operands(match, pattern, node, way == 1) &&
            match_results(match, pattern, node) && run_steps(match, step + 1))
            return true;
    match->nodes[index] = (qf_node){0};
    return false;
}

static bool match_producer(qf_match *match, uint32_t step, qf_value value, uint32_t result) {
    qf_node producer = qf_value_producer(match->graph, value);
    return producer.id && qf_value_at(match->graph, value)->result_index == result && match_node(match, step, producer);
}

static bool match_user(qf_match *match, uint32_t step) {
    const qf_match_step *plan = &match->rule->steps[step];
    qf_value value = match->values[plan->value];
    if (!value.id) return false;
    bool commutative = match->rule->before[plan->node].info->traits & QF_TRAIT_COMMUTATIVE && plan->operand < 2;
    QF_FOR_EACH_USE(match->graph, value, use) {
        uint32_t index = qf_use_index(match->graph, use);
        if (index != plan->operand && !(commutative && index < 2)) continue;
        bool taken = false;
        for (uint32_t i = 0; i < match->rule->before_count; i++)
            taken |= match->nodes[i].id == use->user.id && i != plan->node;
        if (!taken && match_node(match, step, use->user)) return true;
    }
    return false;
}

static bool ask_predicate(qf_match *match, const qf_rule_predicate *predicate) {
    qf_predicate_argument arguments[QF_RULE_MAX_ARGUMENTS];
    qf_attribute numbers[QF_RULE_MAX_ARGUMENTS];
    for (uint32_t i = 0; i < predicate->argument_count; i++) {
        const qf_rule_argument *given = &predicate->arguments[i];
        arguments[i] = (qf_predicate_argument){.name = given->name, .kind = QF_ATTRIBUTE_FLOAT};
        if (given->kind == QF_ARGUMENT_VALUE) arguments[i].value = match->values[given->index];
        if (given->kind == QF_ARGUMENT_VARIABLE) {
            arguments[i].attribute = &match->variables[given->index];
            arguments[i].kind = match->rule->variables[given->index].kind;
        } else {
            numbers[i] = (qf_attribute){.number = given->number};
            arguments[i].attribute = &numbers[i];
        }
    }
    qf_predicate_call call = {match->graph, arguments, predicate->argument_count};
    return predicate->info->function(&call) != predicate->negated;
}

static bool run_steps(qf_match *match, uint32_t step) {
    if (step == match->rule->step_count) return true;
    const qf_match_step *plan = &match->rule->steps[step];
    switch (plan->kind) {
    case QF_STEP_NODE:
        return match_producer(match, step, match->values[plan->value], match->rule->values[plan->value].result);
    case QF_STEP_USER: return match_user(match, step);
    case QF_STEP_PREDICATE: break;
    }
    const qf_rule_predicate *predicate = &match->rule->predicates[plan->predicate];
    if (ask_predicate(match, predicate)) return run_steps(match, step + 1);
    if (!match->refusal) {
        match->refusal = predicate->info->reason;
        match->refused_at = match->nodes[match->rule->anchor];
    }
    return false;
}

bool qf_match_at(qf_match *match, qf_graph *graph, qf_rule *rule, qf_node root) {
    match->graph = graph;
    match->rule = rule;
    match->refusal = QF_REASON_none;
    match->refused_at = match->attention = (qf_node){0};
    memset(match->nodes, 0, sizeof match->nodes);
    return match_node(match, 0, root);
}
