/* Owns: what a rule must keep to be loaded: names, attributes, carried operands, chains, termination.
 * Does not own: the grammar (rule_parse.c), overlap of two rules (rule_overlap.c), the order of matching (rule_plan.c).
 * Next: docs/rules.md, rule_overlap.c. */
#include <stdio.h>
#include <string.h>

#include "patterns/predicates.h"

static const char *const phases[] = {"canonicalize", "raise", "attention_operands", "fuse_attention_quant",
                                     "fold_scales"};

typedef struct checker {
    qf_rule_set *set;
    qf_rule *rule;
    qf_status status;
} checker;

qf_position qf_rule_position(const qf_rule_set *set, const qf_rule *rule, uint32_t line, uint32_t column) {
    qf_buffer text = {.context = set->context};
    qf_buffer_print(&text, "%s:%u:%u", qf_string_c(set->context, rule->file), line, column);
    qf_string interned = text.size ? qf_intern(set->context, (qf_text){text.data, text.size}) : (qf_string){0};
    qf_buffer_destroy(&text);
    return (qf_position){.location = qf_string_c(set->context, interned), .column = column};
}

/* One located fault: "rule NAME: <message about `name`>". The format takes one string. */
static void fault(checker *check, const qf_rule_node *node, const char *format, const char *name) {
    const qf_rule *rule = check->rule;
    qf_position position = qf_rule_position(check->set, rule, node ? node->line : rule->line, node ? node->column : 1);
    char message[256];
    (void)snprintf(message, sizeof message, format, name);
    check->status = qf_fail(check->set->context, QF_ERROR_VERIFY, &position, "rule %s: %s",
                            qf_string_c(check->set->context, rule->name), message);
}

static const char *value_name(const checker *check, uint32_t value) {
    return qf_string_c(check->set->context, check->rule->values[value].name);
}

/* --- names --- */

static void check_before_names(checker *check) {
    qf_rule *rule = check->rule;
    for (uint32_t n = 0; n < rule->before_count; n++) {
        const qf_rule_node *node = &rule->before[n];
        for (uint32_t i = 0; i < node->operand_count; i++) {
            const qf_operand_pattern *operand = &node->operands[i];
            if (operand->kind != QF_PATTERN_VALUE) continue;
            uint32_t producer = rule->values[operand->value].before;
            rule->values[operand->value].used_before = true;
            if (producer != QF_NO_INDEX && producer >= n)
                fault(check, node, "%%%s is used before the line that defines it", value_name(check, operand->value));
            if (operand->optional && producer != QF_NO_INDEX)
                fault(check, node, "%%%s cannot be optional: a node of the left side defines it",
                      value_name(check, operand->value));
        }
    }
}

static void check_after_operand(checker *check, const qf_rule_node *node, uint32_t index) {
    qf_rule *rule = check->rule;
    const qf_operand_pattern *operand = &node->operands[index];
    if (operand->kind != QF_PATTERN_VALUE && operand->kind != QF_PATTERN_REPLAY) return;
    qf_rule_value *value = &rule->values[operand->value];
    uint32_t own = (uint32_t)(node - rule->after);
    value->used_after = true;
    bool is_input = value->used_before || value->before != QF_NO_INDEX;
    bool made = value->after != QF_NO_INDEX && value->after < own;
    if (!made && (!is_input || value->after != QF_NO_INDEX))
        fault(check, node,
              value->after != QF_NO_INDEX && is_input
                  ? "%%%s is replaced by the right side and cannot be read there before"
                  : "%%%s is bound nowhere",
              value_name(check, operand->value));
    bool column_optional =
        node->info && index < node->info->operand_count && node->info->operands[index].kind == QF_OPERAND_OPTIONAL;
    if (value->optional && !made && !column_optional)
        fault(check, node, "%%%s may be absent, but stands where an operand is required",
              value_name(check, operand->value));
}

static void check_results(checker *check) {
    qf_rule *rule = check->rule;
    bool replaces_anchor = false;
    for (uint32_t v = 0; v < rule->value_count; v++) {
        const qf_rule_value *value = &rule->values[v];
        if (value->after == QF_NO_INDEX || value->before == QF_NO_INDEX) continue;
        replaces_anchor |= value->before == rule->anchor;
        const qf_rule_node *before = &rule->before[value->before], *after = &rule->after[value->after];
        if (before->result_optional[value->result] != after->result_optional[value->after_result])
            fault(check, after, "%%%s must be optional on both sides or on none", value_name(check, v));
    }
    if (!replaces_anchor)
        fault(check, NULL, "the right side defines no result of the pattern's last node, %s",
              rule->before[rule->anchor].info->name);
    for (uint32_t n = 0; n < rule->after_count; n++)
        for (uint32_t i = 0; i < rule->after[n].result_count; i++) {
            const qf_rule_value *value = &rule->values[rule->after[n].results[i]];
            if (value->before == QF_NO_INDEX && value->used_before)
                fault(check, &rule->after[n], "%%%s is an input of the pattern and cannot be replaced",
                      value_name(check, rule->after[n].results[i]));
            if (value->before == QF_NO_INDEX && !value->used_after && !rule->after[n].result_optional[i])
                fault(check, &rule->after[n], "%%%s is neither used nor part of the pattern",
                      value_name(check, rule->after[n].results[i]));
        }
}

/* --- variables --- */

static void check_variables(checker *check) {
    qf_rule *rule = check->rule;
    bool *bound = QF_ARENA_NEW(&check->set->arena, bool, QF_RULE_MAX_VARIABLES * 2);
    if (!bound) {
        check->status = QF_ERROR_OUT_OF_MEMORY;
        return;
    }
    bool *consumed = bound + QF_RULE_MAX_VARIABLES;
    for (uint32_t n = 0; n < rule->before_count; n++) {
        const qf_rule_node *node = &rule->before[n];
        for (uint32_t i = 0; i < node->info->attribute_count; i++)
            if (node->attributes[i].kind == QF_PATTERN_VARIABLE) {
                consumed[node->attributes[i].variable] |= !node->attributes[i].first;
                bound[node->attributes[i].variable] = true;
            }
        for (uint32_t i = 0; i < node->operand_count; i++)
            if (node->operands[i].kind == QF_PATTERN_UNIFORM) {
                consumed[node->operands[i].variable] |= !node->operands[i].first;
                bound[node->operands[i].variable] = true;
            }
    }
    for (uint32_t p = 0; p < rule->predicate_count; p++)
        for (uint32_t i = 0; i < rule->predicates[p].argument_count; i++) {
            const qf_rule_argument *argument = &rule->predicates[p].arguments[i];
            if (argument->kind != QF_ARGUMENT_VARIABLE) continue;
            bool output = rule->predicates[p].info->signature[i] == 'o';
            if (output && bound[argument->index])
                fault(check, NULL, "$%s is computed by a predicate but bound already",
                      qf_string_c(check->set->context, rule->variables[argument->index].name));
            *(output ? &bound[argument->index] : &consumed[argument->index]) = true;
        }
    for (uint32_t n = 0; n < rule->after_count; n++) {
        const qf_rule_node *node = &rule->after[n];
        for (uint32_t i = 0; node->info && i < node->info->attribute_count; i++)
            if (node->attributes[i].kind == QF_PATTERN_VARIABLE) consumed[node->attributes[i].variable] = true;
        for (uint32_t i = 0; i < node->operand_count; i++)
            if (node->operands[i].kind == QF_PATTERN_UNIFORM) consumed[node->operands[i].variable] = true;
    }
    for (uint32_t v = 0; v < rule->variable_count; v++) {
        const char *name = qf_string_c(check->set->context, rule->variables[v].name);
        if (!bound[v]) fault(check, NULL, "$%s is bound nowhere in the left side", name);
        if (bound[v] && !consumed[v])
            fault(check, NULL, "$%s is bound, but neither tested nor used in the right side", name);
    }
}

/* --- attributes and what `...` carries --- */

static bool a_predicate_sees(const qf_rule *rule, const qf_rule_node *node) {
    for (uint32_t p = 0; p < rule->predicate_count; p++)
        for (uint32_t i = 0; i < rule->predicates[p].argument_count; i++) {
            const qf_rule_argument *argument = &rule->predicates[p].arguments[i];
            for (uint32_t r = 0; r < node->result_count; r++)
                if (argument->kind == QF_ARGUMENT_VALUE && argument->index == node->results[r]) return true;
        }
    return false;
}

static const qf_rule_node *carrier_of(const qf_rule *rule, uint32_t source) {
    for (uint32_t n = 0; n < rule->after_count; n++)
        if (rule->after[n].source == source) return &rule->after[n];
    return NULL;
}

static void check_before_attributes(checker *check) {
    qf_rule *rule = check->rule;
    for (uint32_t n = 0; n < rule->before_count; n++) {
        const qf_rule_node *node = &rule->before[n], *carrier = carrier_of(rule, n);
        if ((node->rest_operands || node->rest_attributes) && !carrier && !node->keep)
            fault(check, node, "what `...` takes from %s is not carried to the right side", node->info->name);
        for (uint32_t i = 0; i < node->info->attribute_count; i++) {
            const char *name = node->info->attributes[i].name;
            bool written = carrier && carrier->attributes[i].kind != QF_PATTERN_REST_ATTRIBUTE;
            switch (node->attributes[i].kind) {
            case QF_PATTERN_DEFAULT:
                fault(check, node, "attribute %s is neither bound, compared, nor named `any`", name);
                break;
            case QF_PATTERN_ANY:
                if (!written && !a_predicate_sees(rule, node))
                    fault(check, node,
                          "attribute %s is `any`, but no predicate looks at the node and nothing replaces it", name);
                break;
            case QF_PATTERN_REST_ATTRIBUTE:
                if (written)
                    fault(check, node, "attribute %s is taken by `...` and then overwritten: bind or compare it", name);
                break;
            default: break;
            }
        }
    }
}

static void resolve_carriers(checker *check) {
    qf_rule *rule = check->rule;
    for (uint32_t n = 0; n < rule->after_count; n++) {
        qf_rule_node *node = &rule->after[n];
        if (!node->rest_operands && !node->rest_attributes) continue;
        uint32_t found = 0;
        for (uint32_t b = 0; b < rule->before_count; b++) {
            const qf_rule_node *before = &rule->before[b];
            if (before->op != node->op || before->rest_operands != node->rest_operands ||
                before->rest_attributes != node->rest_attributes || carrier_of(rule, b))
                continue;
            if (!found++) node->source = b;
        }
        if (!found) fault(check, node, "no %s of the left side has the same `...`", node->info->name);
    }
}

static void check_carried_operands(checker *check) {
    qf_rule *rule = check->rule;
    for (uint32_t n = 0; n < rule->after_count; n++) {
        const qf_rule_node *node = &rule->after[n];
        if (node->source == QF_NO_INDEX) continue;
        const qf_rule_node *source = &rule->before[node->source];
        for (uint32_t i = 0; i < node->info->operand_count; i++) {
            bool taken = i < source->operand_count && source->operands[i].kind == QF_PATTERN_REST;
            bool carried = i < node->operand_count && node->operands[i].kind == QF_PATTERN_REST;
            if (taken && !carried)
                fault(check, node, "operand %s is taken by `...` and then overwritten: bind or compare it",
                      node->info->operands[i].name);
            if (carried && !taken)
                fault(check, node, "operand %s is not written, and `...` of the left side does not hold it",
                      node->info->operands[i].name);
        }
    }
}

static void check_after_nodes(checker *check) {
    qf_rule *rule = check->rule;
    for (uint32_t n = 0; n < rule->after_count; n++) {
        const qf_rule_node *node = &rule->after[n];
        for (uint32_t i = 0; i < node->operand_count; i++) check_after_operand(check, node, i);
        if (!node->info) continue;
        for (uint32_t i = 0; i < node->info->operand_count; i++)
            if (node->info->operands[i].kind == QF_OPERAND_REQUIRED && node->operands[i].kind == QF_PATTERN_ABSENT)
                fault(check, node, "operand %s is required", node->info->operands[i].name);
        for (uint32_t i = 0; i < node->info->attribute_count; i++)
            if (!node->info->attributes[i].default_text && node->attributes[i].kind == QF_PATTERN_DEFAULT)
                fault(check, node, "attribute %s is required", node->info->attributes[i].name);
    }
}

/* --- look-through --- */

static void check_chains(checker *check) {
    qf_rule *rule = check->rule;
    for (uint32_t c = 0; c < rule->chain_count; c++) {
        uint32_t value = rule->chains[c].value, producer = rule->values[value].before;
        const qf_rule_node *consumer = &rule->before[rule->chains[c].consumer];
        if (!rule->chains[c].replayed)
            fault(check, consumer, "~%%%s looks through layout ops that the right side does not replay",
                  value_name(check, value));
        if (producer != QF_NO_INDEX && qf_op_is_replayable(rule->before[producer].op))
            fault(check, consumer, "~%%%s: the value comes from a layout op itself", value_name(check, value));
        for (uint32_t n = 0; n < rule->after_count; n++)
            for (uint32_t i = 0; i < rule->after[n].operand_count; i++) {
                const qf_operand_pattern *operand = &rule->after[n].operands[i];
                if (operand->kind != QF_PATTERN_REPLAY || operand->chain != c) continue;
                if (rule->values[operand->value].after != QF_NO_INDEX) continue;
                /* On an operand of the producer: the producer must be what the chain commutes with. */
                bool found = false;
                for (uint32_t o = 0; producer != QF_NO_INDEX && o < rule->before[producer].operand_count; o++)
                    if (rule->before[producer].operands[o].kind == QF_PATTERN_VALUE &&
                        rule->before[producer].operands[o].value == operand->value) {
                        rule->chains[c].crosses_producer = found = true;
                        rule->chains[c].producer_operand = o;
                    }
                if (!found)
                    fault(check, &rule->after[n],
                          "~ can be replayed on a new result or on an operand of the producer; %%%s is neither",
                          value_name(check, operand->value));
            }
    }
}

/* --- termination --- */

/* Weight of the tree that a value unfolds to, and how often each input, chain and `...` occurs in it. A rewrite that
 * makes the tree of its anchor lighter, no other result heavier, and repeats no input more often than the pattern does,
 * makes the unfolded graph smaller, so that no set of rules runs for ever. A side result (attention's lse) may come to
 * depend on an input of the anchor (the output scale); the engine bounds its rounds besides. */
typedef struct tree {
    uint64_t weight;
    uint32_t inputs[QF_RULE_MAX_VALUES], chains[QF_RULE_MAX_CHAINS], rests[QF_RULE_MAX_NODES];
} tree;

#define WEIGHT_OF_NODE  8
#define WEIGHT_OF_VIEW  7 /* costs nothing at run time: permute may become view */
#define WEIGHT_OF_CLAMP 9 /* one-sided, it becomes minimum or maximum */
#define WEIGHT_LIMIT    ((uint64_t)1 << 32)

static void unfold_value(const qf_rule *rule, uint32_t value, bool after, tree *out);

static void unfold_node(const qf_rule *rule, const qf_rule_node *node, bool after, tree *out) {
    if (node->op)
        out->weight += node->op == QF_OP_view    ? WEIGHT_OF_VIEW
                       : node->op == QF_OP_clamp ? WEIGHT_OF_CLAMP
                                                 : WEIGHT_OF_NODE;
    if (node->rest_operands) out->rests[after ? node->source : (uint32_t)(node - rule->before)]++;
    for (uint32_t i = 0; i < node->operand_count && out->weight < WEIGHT_LIMIT; i++) {
        const qf_operand_pattern *operand = &node->operands[i];
        if (operand->chain != QF_NO_INDEX) out->chains[operand->chain]++;
        if (operand->kind == QF_PATTERN_UNIFORM || operand->kind == QF_PATTERN_NUMBER) out->weight += 1;
        if (operand->kind == QF_PATTERN_VALUE || operand->kind == QF_PATTERN_REPLAY)
            unfold_value(rule, operand->value, after, out);
    }
}

static void unfold_value(const qf_rule *rule, uint32_t value, bool after, tree *out) {
    uint32_t made = after ? rule->values[value].after : QF_NO_INDEX;
    if (made != QF_NO_INDEX)
        unfold_node(rule, &rule->after[made], true, out);
    else if (rule->values[value].before != QF_NO_INDEX)
        unfold_node(rule, &rule->before[rule->values[value].before], false, out);
    else
        out->inputs[value]++;
}

static void check_termination(checker *check) {
    qf_rule *rule = check->rule;
    tree whole = {0};
    unfold_node(rule, &rule->before[rule->anchor], false, &whole);
    for (uint32_t v = 0; v < rule->value_count; v++) {
        if (rule->values[v].before == QF_NO_INDEX || rule->values[v].after == QF_NO_INDEX) continue;
        tree before = {0}, after = {0};
        unfold_node(rule, &rule->before[rule->values[v].before], false, &before);
        unfold_node(rule, &rule->after[rule->values[v].after], true, &after);
        bool strict = rule->values[v].before == rule->anchor;
        bool lighter = strict ? after.weight < before.weight : after.weight <= before.weight;
        if (!lighter)
            fault(check, NULL, "the replacement of %%%s is not smaller: the rule might run for ever",
                  value_name(check, v));
        bool repeats = false;
        for (uint32_t i = 0; i < QF_RULE_MAX_VALUES; i++)
            repeats |= after.inputs[i] > before.inputs[i] && after.inputs[i] > whole.inputs[i];
        for (uint32_t i = 0; i < QF_RULE_MAX_CHAINS; i++) repeats |= after.chains[i] > before.chains[i];
        for (uint32_t i = 0; i < QF_RULE_MAX_NODES; i++) repeats |= after.rests[i] > before.rests[i];
        if (repeats)
            fault(check, NULL, "the replacement of %%%s repeats an input more often than the pattern",
                  value_name(check, v));
    }
}

static void check_phase(checker *check) {
    const qf_rule *rule = check->rule;
    bool known = false;
    for (size_t i = 0; i < QF_COUNT_OF(phases); i++)
        known |= qf_text_is(qf_string_text(check->set->context, rule->phase), phases[i]);
    if (!known)
        fault(check, NULL,
              "there is no phase \"%s\": canonicalize, raise, attention_operands, fuse_attention_quant or fold_scales",
              qf_string_c(check->set->context, rule->phase));
    for (uint32_t i = 0; check->set->rules[i] != rule; i++)
        if (check->set->rules[i]->name.id == rule->name.id)
            fault(check, NULL, "another rule has the name %s", qf_string_c(check->set->context, rule->name));
}

qf_status qf_rule_check(qf_rule_set *set, qf_rule *rule) {
    checker check = {.set = set, .rule = rule, .status = QF_OK};
    check_phase(&check);
    check_before_names(&check);
    if (check.status == QF_OK) check.status = qf_rule_plan(set, rule);
    if (check.status != QF_OK) return check.status;
    resolve_carriers(&check);
    if (check.status != QF_OK) return check.status;
    check_after_nodes(&check);
    check_results(&check);
    check_variables(&check);
    check_before_attributes(&check);
    check_carried_operands(&check);
    check_chains(&check);
    if (check.status == QF_OK) check_termination(&check);
    return check.status;
}
