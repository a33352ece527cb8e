/* Owns: finding two rules of one phase that may match the same place with the same benefit.
 * Does not own: checks of single rules (rule_check.c).
 * Next: engine.c. */
#include "patterns/predicates.h"

/* Conservative: `true` unless ops, compared attributes, numbers or absent operands keep the patterns apart. Predicates
 * are not looked at; rules that only they separate name different benefits. */
typedef struct pair {
    const qf_rule *a, *b;
} pair;

static bool nodes_overlap(const pair *rules, const qf_rule_node *a, const qf_rule_node *b);

static const qf_rule_node *producer(const qf_rule *rule, const qf_operand_pattern *operand) {
    if (operand->kind != QF_PATTERN_VALUE || rule->values[operand->value].before == QF_NO_INDEX) return NULL;
    return &rule->before[rule->values[operand->value].before];
}

static bool may_be_absent(const qf_operand_pattern *operand) {
    return operand->kind == QF_PATTERN_ABSENT || operand->kind == QF_PATTERN_REST || operand->optional;
}

static bool operands_overlap(const pair *rules, const qf_operand_pattern *a, const qf_operand_pattern *b) {
    if (a->kind == QF_PATTERN_REST || b->kind == QF_PATTERN_REST) return true;
    if (a->kind == QF_PATTERN_ABSENT || b->kind == QF_PATTERN_ABSENT) return may_be_absent(a) && may_be_absent(b);
    if (a->kind == QF_PATTERN_NUMBER && b->kind == QF_PATTERN_NUMBER) return a->number == b->number;
    const qf_rule_node *x = producer(rules->a, a), *y = producer(rules->b, b);
    bool a_known = a->kind == QF_PATTERN_NUMBER || a->kind == QF_PATTERN_UNIFORM;
    bool b_known = b->kind == QF_PATTERN_NUMBER || b->kind == QF_PATTERN_UNIFORM;
    /* Known numbers come from constants, casts and layout ops. */
    if (a_known && y)
        return y->op == QF_OP_constant || y->op == QF_OP_cast || y->op == QF_OP_full || qf_op_is_replayable(y->op);
    if (b_known && x)
        return x->op == QF_OP_constant || x->op == QF_OP_cast || x->op == QF_OP_full || qf_op_is_replayable(x->op);
    if (!x || !y) return true;
    if (x->op != y->op)
        return (a->chain != QF_NO_INDEX && qf_op_is_replayable(y->op)) ||
               (b->chain != QF_NO_INDEX && qf_op_is_replayable(x->op));
    return nodes_overlap(rules, x, y);
}

static bool lists_overlap(const pair *rules, const qf_rule_node *a, const qf_rule_node *b, bool swapped) {
    static const qf_operand_pattern absent = {.kind = QF_PATTERN_ABSENT, .chain = QF_NO_INDEX};
    uint32_t count = a->operand_count > b->operand_count ? a->operand_count : b->operand_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = swapped && i < 2 ? 1 - i : i;
        if (!operands_overlap(rules, i < a->operand_count ? &a->operands[i] : &absent,
                              other < b->operand_count ? &b->operands[other] : &absent))
            return false;
    }
    return true;
}

static bool nodes_overlap(const pair *rules, const qf_rule_node *a, const qf_rule_node *b) {
    if (a->op != b->op) return false;
    for (uint32_t i = 0; i < a->info->attribute_count; i++)
        if (a->attributes[i].kind == QF_PATTERN_LITERAL && b->attributes[i].kind == QF_PATTERN_LITERAL &&
            !qf_attributes_equal(&a->info->attributes[i], &a->attributes[i].literal, &b->attributes[i].literal))
            return false;
    if (lists_overlap(rules, a, b, false)) return true;
    return a->info->traits & QF_TRAIT_COMMUTATIVE && lists_overlap(rules, a, b, true);
}

qf_status qf_rules_check_overlap(qf_rule_set *set, uint32_t first_new) {
    qf_status status = QF_OK;
    for (uint32_t n = first_new; n < set->rule_count; n++)
        for (uint32_t o = 0; o < n; o++) {
            const qf_rule *a = set->rules[n], *b = set->rules[o];
            if (a->phase.id != b->phase.id || a->benefit != b->benefit) continue;
            if (!nodes_overlap(&(pair){a, b}, &a->before[a->anchor], &b->before[b->anchor])) continue;
            qf_position position = qf_rule_position(set, a, a->line, 1);
            status = qf_fail(set->context, QF_ERROR_VERIFY, &position,
                             "rule %s: may match the same place as rule %s (%s:%u) with the same benefit, %u; write "
                             "`benefit N` to say which comes first",
                             qf_string_c(set->context, a->name), qf_string_c(set->context, b->name),
                             qf_string_c(set->context, b->file), b->line, a->benefit);
            break; /* one fault a rule */
        }
    return status;
}
