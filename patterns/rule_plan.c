/* Owns: the order in which a pattern is matched: anchor, steps, which occurrence of a name binds it.
 * Does not own: running the steps (match.c), checks of meaning (rule_check.c).
 * Next: match.c. */
#include <string.h>

#include "patterns/predicates.h"

typedef struct planner {
    qf_rule_set *set;
    qf_rule *rule;
    bool value_bound[QF_RULE_MAX_VALUES], variable_bound[QF_RULE_MAX_VARIABLES];
    bool node_done[QF_RULE_MAX_NODES], predicate_done[QF_RULE_MAX_PREDICATES];
} planner;

/* A sink of the pattern, whatever order its results were written in: the one whose op comes last in the table
 * (composite ops are rarer than elementwise ones), the first written among equals. */
static uint32_t choose_anchor(const qf_rule *rule) {
    bool used[QF_RULE_MAX_NODES] = {false};
    for (uint32_t n = 0; n < rule->before_count; n++)
        for (uint32_t i = 0; i < rule->before[n].operand_count; i++) {
            const qf_operand_pattern *operand = &rule->before[n].operands[i];
            if (operand->kind == QF_PATTERN_VALUE && rule->values[operand->value].before != QF_NO_INDEX)
                used[rule->values[operand->value].before] = true;
        }
    uint32_t best = QF_NO_INDEX;
    for (uint32_t n = 0; n < rule->before_count; n++)
        if (!used[n] && (best == QF_NO_INDEX || rule->before[n].op > rule->before[best].op)) best = n;
    return best;
}

static bool is_ready(const planner *plan, const qf_rule_predicate *predicate) {
    for (uint32_t i = 0; i < predicate->argument_count; i++) {
        const qf_rule_argument *argument = &predicate->arguments[i];
        bool output = predicate->info->signature[i] == 'o';
        if (argument->kind == QF_ARGUMENT_VALUE && !plan->value_bound[argument->index]) return false;
        if (argument->kind == QF_ARGUMENT_VARIABLE && !output && !plan->variable_bound[argument->index]) return false;
    }
    return true;
}

static void add_ready_predicates(planner *plan) {
    qf_rule *rule = plan->rule;
    for (uint32_t p = 0; p < rule->predicate_count; p++) {
        if (plan->predicate_done[p] || !is_ready(plan, &rule->predicates[p])) continue;
        plan->predicate_done[p] = true;
        rule->steps[rule->step_count++] = (qf_match_step){.kind = QF_STEP_PREDICATE, .predicate = p};
        for (uint32_t i = 0; i < rule->predicates[p].argument_count; i++)
            if (rule->predicates[p].info->signature[i] == 'o')
                plan->variable_bound[rule->predicates[p].arguments[i].index] = true;
        p = UINT32_MAX; /* an output may make earlier ones ready */
    }
}

/* The order of these bindings is the order of match.c: attributes, operands, results. */
static void bind_node(planner *plan, qf_rule_node *node) {
    for (uint32_t i = 0; i < node->info->attribute_count; i++) {
        qf_attribute_pattern *pattern = &node->attributes[i];
        if (pattern->kind != QF_PATTERN_VARIABLE) continue;
        pattern->first = !plan->variable_bound[pattern->variable];
        plan->variable_bound[pattern->variable] = true;
    }
    for (uint32_t i = 0; i < node->operand_count; i++) {
        qf_operand_pattern *operand = &node->operands[i];
        if (operand->kind == QF_PATTERN_UNIFORM) {
            operand->first = !plan->variable_bound[operand->variable];
            plan->variable_bound[operand->variable] = true;
        } else if (operand->kind == QF_PATTERN_VALUE) {
            operand->first = !plan->value_bound[operand->value];
            plan->value_bound[operand->value] = true;
        }
    }
    for (uint32_t i = 0; i < node->result_count; i++) {
        node->result_first[i] = !plan->value_bound[node->results[i]];
        plan->value_bound[node->results[i]] = true;
    }
}

/* Depth is bounded by the number of nodes of a pattern. */
static void visit(planner *plan, uint32_t index, qf_match_step step) {
    qf_rule *rule = plan->rule;
    qf_rule_node *node = &rule->before[index];
    plan->node_done[index] = true;
    rule->steps[rule->step_count++] = step;
    bind_node(plan, node);
    add_ready_predicates(plan);
    for (uint32_t i = 0; i < node->operand_count; i++) {
        if (node->operands[i].kind != QF_PATTERN_VALUE) continue;
        uint32_t value = node->operands[i].value, producer = rule->values[value].before;
        if (producer != QF_NO_INDEX && !plan->node_done[producer])
            visit(plan, producer, (qf_match_step){.kind = QF_STEP_NODE, .node = producer, .value = value});
    }
}

/* A node that no visited one reads: reached as a user of a value that is bound already. */
static bool visit_user(planner *plan) {
    qf_rule *rule = plan->rule;
    for (uint32_t n = 0; n < rule->before_count; n++) {
        if (plan->node_done[n]) continue;
        for (uint32_t i = 0; i < rule->before[n].operand_count; i++) {
            const qf_operand_pattern *operand = &rule->before[n].operands[i];
            if (operand->kind != QF_PATTERN_VALUE || operand->chain != QF_NO_INDEX || operand->optional ||
                !plan->value_bound[operand->value])
                continue;
            visit(plan, n, (qf_match_step){.kind = QF_STEP_USER, .node = n, .value = operand->value, .operand = i});
            return true;
        }
    }
    return false;
}

qf_status qf_rule_plan(qf_rule_set *set, qf_rule *rule) {
    planner plan = {.set = set, .rule = rule};
    rule->anchor = choose_anchor(rule);
    qf_position position = qf_rule_position(set, rule, rule->line, 1);
    if (rule->anchor == QF_NO_INDEX)
        return qf_fail(set->context, QF_ERROR_VERIFY, &position, "rule %s: the left side has no node",
                       qf_string_c(set->context, rule->name));
    visit(&plan, rule->anchor, (qf_match_step){.kind = QF_STEP_NODE, .node = rule->anchor, .value = QF_NO_INDEX});
    while (visit_user(&plan)) continue;
    for (uint32_t n = 0; n < rule->before_count; n++)
        if (!plan.node_done[n]) {
            position = qf_rule_position(set, rule, rule->before[n].line, rule->before[n].column);
            return qf_fail(set->context, QF_ERROR_VERIFY, &position,
                           "rule %s: this %s shares no value with the rest of the left side",
                           qf_string_c(set->context, rule->name), rule->before[n].info->name);
        }
    for (uint32_t p = 0; p < rule->predicate_count; p++)
        if (!plan.predicate_done[p]) {
            position = qf_rule_position(set, rule, rule->predicates[p].line, rule->predicates[p].column);
            return qf_fail(set->context, QF_ERROR_VERIFY, &position,
                           "rule %s: an argument of %s is bound nowhere in the left side",
                           qf_string_c(set->context, rule->name), rule->predicates[p].info->name);
        }
    if (!rule->benefit) rule->benefit = rule->before_count;
    return QF_OK;
}
