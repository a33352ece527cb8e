/* Owns: reading the nodes of a rule's sides: results, op, operands, attributes.
 * Does not own: the rest of a rule (rule_parse.c).
 * Next: rule_check.c. */
#include "patterns/rule_parser.h"

static bool chain_of(qf_rule_parser *p, uint32_t value, uint32_t *out_chain) {
    for (uint32_t i = 0; i < p->rule->chain_count; i++)
        if (p->rule->chains[i].value == value) {
            *out_chain = i;
            return true;
        }
    return false;
}

/* ~%a, in the left side: a new chain of layout ops. */
static bool look_through(qf_rule_parser *p, uint32_t node, uint32_t operand, qf_operand_pattern *out) {
    qf_rule *rule = p->rule;
    out->kind = QF_PATTERN_VALUE;
    qf_token token = p->lexer.token;
    if (!qf_rule_parser_value(p, &out->value)) return false;
    if (chain_of(p, out->value, &out->chain)) {
        (void)qf_lexer_fail(&p->lexer, &token, QF_ERROR_PARSE, "~ stands before the same value twice");
        return false;
    }
    if (rule->chain_count == QF_RULE_MAX_CHAINS) return qf_rule_parser_too_many(p, "~", QF_RULE_MAX_CHAINS);
    out->chain = rule->chain_count++;
    rule->chains[out->chain].value = out->value;
    rule->chains[out->chain].consumer = node;
    rule->chains[out->chain].operand = operand;
    return true;
}

/* ~a(%x), in the right side: %x through the chain of ~%a. */
static bool replay(qf_rule_parser *p, qf_operand_pattern *out) {
    out->kind = QF_PATTERN_REPLAY;
    if (p->lexer.token.kind != QF_TOKEN_NAME)
        return qf_rule_parser_fail(p, "the name of a value that ~ looked through");
    qf_token token = p->lexer.token;
    qf_string name = qf_lexer_name(&p->lexer, &token);
    if (!name.id) return false;
    for (uint32_t i = 0; i < p->rule->chain_count; i++)
        if (p->rule->values[p->rule->chains[i].value].name.id == name.id) out->chain = i;
    if (out->chain == QF_NO_INDEX) {
        (void)qf_lexer_fail(&p->lexer, &token, QF_ERROR_PARSE, "the left side has no ~%%%s to replay",
                            qf_string_c(p->set->context, name));
        return false;
    }
    qf_lexer_next(&p->lexer);
    p->rule->chains[out->chain].replayed = true;
    return qf_lexer_expect(&p->lexer, "(", "before the value to replay on") && qf_rule_parser_value(p, &out->value) &&
           qf_lexer_expect(&p->lexer, ")", "after the value to replay on");
}

static bool operand_pattern(qf_rule_parser *p, uint32_t node, uint32_t operand, qf_operand_pattern *out) {
    *out = (qf_operand_pattern){.chain = QF_NO_INDEX};
    qf_lexer *lexer = &p->lexer;
    if (qf_lexer_accept(lexer, "~")) return p->after ? replay(p, out) : look_through(p, node, operand, out);
    if (qf_lexer_accept(lexer, "none")) return true;
    switch (lexer->token.kind) {
    case QF_TOKEN_VALUE:
        out->kind = QF_PATTERN_VALUE;
        if (!qf_rule_parser_value(p, &out->value)) return false;
        if (!p->after) out->optional = qf_lexer_accept(lexer, "?");
        if (out->optional) p->rule->values[out->value].optional = true;
        return true;
    case QF_TOKEN_VARIABLE:
        out->kind = QF_PATTERN_UNIFORM;
        return qf_rule_parser_variable(p, &out->variable) &&
               qf_rule_parser_give_kind(p, out->variable, QF_ATTRIBUTE_FLOAT, NULL);
    case QF_TOKEN_INTEGER:
    case QF_TOKEN_FLOAT:
    case QF_TOKEN_MARK:
    case QF_TOKEN_NAME:
        out->kind = QF_PATTERN_NUMBER;
        return qf_lexer_number(lexer, "an operand (%x, ~%x, $x, a number or `none`)", &out->number);
    default: return qf_rule_parser_fail(p, "an operand (%x, ~%x, $x, a number or `none`)");
    }
}

static bool is_many(const qf_op_info *info) {
    return info->operand_count && info->operands[info->operand_count - 1].kind == QF_OPERAND_MANY;
}

/* Where the next operand goes: by name, or the next column. */
static bool operand_slot(qf_rule_parser *p, qf_rule_node *node, uint32_t *next, uint32_t *out_slot) {
    qf_lexer *lexer = &p->lexer;
    *out_slot = *next;
    if (lexer->token.kind == QF_TOKEN_NAME && !qf_lexer_is(lexer, "none") && !qf_lexer_is(lexer, "inf") &&
        !qf_lexer_is(lexer, "nan")) {
        int32_t index = qf_op_operand_index(node->op, lexer->token.text);
        if (index < 0) {
            (void)qf_lexer_fail(lexer, &lexer->token, QF_ERROR_PARSE, "%s has no operand \"%.*s\"", node->info->name,
                                (int)lexer->token.text.size, lexer->token.text.data);
            return false;
        }
        *out_slot = (uint32_t)index;
        qf_lexer_next(lexer);
        return qf_lexer_expect(lexer, "=", "after the operand's name");
    }
    if (*out_slot >= node->info->operand_count && !is_many(node->info)) {
        (void)qf_lexer_fail(lexer, &lexer->token, QF_ERROR_PARSE, "%s has %u operands", node->info->name,
                            node->info->operand_count);
        return false;
    }
    *next += 1;
    return true;
}

#define MAX_OPERANDS 24

static bool operands(qf_rule_parser *p, uint32_t index, qf_rule_node *node) {
    qf_operand_pattern list[MAX_OPERANDS];
    uint32_t columns = node->info->operand_count - is_many(node->info), next = 0;
    uint32_t count = columns;
    for (uint32_t i = 0; i < MAX_OPERANDS; i++) list[i] = (qf_operand_pattern){.chain = QF_NO_INDEX};
    qf_lexer *lexer = &p->lexer;
    if (!qf_lexer_is(lexer, "{") && !lexer->token.first_on_line && lexer->token.kind != QF_TOKEN_END) do {
            if (qf_lexer_accept(lexer, "...")) {
                node->rest_operands = true;
                break;
            }
            uint32_t slot;
            if (!operand_slot(p, node, &next, &slot)) return false;
            if (slot >= MAX_OPERANDS) return qf_rule_parser_too_many(p, "operands in a node", MAX_OPERANDS);
            if (slot + 1 > count) count = slot + 1;
            if (!operand_pattern(p, index, slot, &list[slot])) return false;
            /* `none` is written, not left open: `...` does not cover it. */
            if (list[slot].kind == QF_PATTERN_ABSENT) list[slot].first = true;
        } while (qf_lexer_accept(lexer, ","));
    for (uint32_t i = 0; i < count && node->rest_operands; i++)
        if (list[i].kind == QF_PATTERN_ABSENT && !list[i].first) list[i].kind = QF_PATTERN_REST;
    for (uint32_t i = 0; i < count; i++) list[i].first = false;
    node->operand_count = count;
    node->operands = qf_arena_copy(&p->set->arena, list, count * sizeof *list);
    return node->operands != NULL;
}

static bool dtype_literal(qf_rule_parser *p, qf_attribute *out) {
    qf_text text = p->lexer.token.text;
    for (int i = 0; i < QF_DTYPE_COUNT; i++)
        if (qf_text_is(text, qf_dtype_name((qf_dtype)i))) {
            out->integer = i;
            qf_lexer_next(&p->lexer);
            return true;
        }
    return qf_rule_parser_fail(p, "a dtype such as f16");
}

static bool ints_literal(qf_rule_parser *p, qf_attribute *out) {
    int64_t items[16];
    uint32_t count = 0;
    if (!qf_lexer_expect(&p->lexer, "[", "before a list")) return false;
    if (!qf_lexer_is(&p->lexer, "]")) do {
            if (count == QF_COUNT_OF(items)) return qf_rule_parser_too_many(p, "entries in a list", QF_COUNT_OF(items));
            if (!qf_lexer_integer(&p->lexer, "a list entry", &items[count++])) return false;
        } while (qf_lexer_accept(&p->lexer, ","));
    out->count = count;
    out->ints = qf_arena_copy(&p->set->arena, items, count * sizeof *items);
    return out->ints && qf_lexer_expect(&p->lexer, "]", "after a list");
}

static bool literal(qf_rule_parser *p, const qf_attribute_info *info, qf_attribute *out) {
    qf_lexer *lexer = &p->lexer;
    int64_t integer;
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL:
        out->integer = qf_lexer_is(lexer, "true");
        return qf_lexer_accept(lexer, "true") || qf_lexer_expect(lexer, "false", "or true");
    case QF_ATTRIBUTE_INT: return qf_lexer_integer(lexer, info->name, &out->integer);
    case QF_ATTRIBUTE_FLOAT: return qf_lexer_number(lexer, info->name, &out->number);
    case QF_ATTRIBUTE_DTYPE: return dtype_literal(p, out);
    case QF_ATTRIBUTE_ENUM:
        out->integer = qf_enum_number(info->enumeration, lexer->token.text);
        if (out->integer < 0) return qf_rule_parser_fail(p, info->enumeration->name);
        qf_lexer_next(lexer);
        return true;
    case QF_ATTRIBUTE_DIM:
        if (!qf_lexer_integer(lexer, info->name, &integer)) return false;
        out->dim = qf_dim_constant(p->set->context, integer);
        return out->dim.id != 0;
    case QF_ATTRIBUTE_INTS: return ints_literal(p, out);
    case QF_ATTRIBUTE_STRING: return qf_lexer_string(lexer, info->name, &out->string);
    default: return qf_rule_parser_fail(p, "a variable: this kind of attribute has no literal form in rules");
    }
}

static bool attribute(qf_rule_parser *p, qf_rule_node *node, uint32_t *written) {
    qf_lexer *lexer = &p->lexer;
    if (lexer->token.kind != QF_TOKEN_NAME) return qf_rule_parser_fail(p, "an attribute's name");
    int32_t index = qf_op_attribute_index(node->op, lexer->token.text);
    if (index < 0 || (*written >> index & 1)) {
        (void)qf_lexer_fail(lexer, &lexer->token, QF_ERROR_PARSE,
                            index < 0 ? "%s has no attribute \"%.*s\"" : "%s: attribute \"%.*s\" is written twice",
                            node->info->name, (int)lexer->token.text.size, lexer->token.text.data);
        return false;
    }
    *written |= (uint32_t)1 << index;
    const qf_attribute_info *info = &node->info->attributes[index];
    qf_attribute_pattern *pattern = &node->attributes[index];
    qf_lexer_next(lexer);
    if (!qf_lexer_expect(lexer, "=", "after the attribute's name")) return false;
    if (!p->after && qf_lexer_accept(lexer, "any")) {
        pattern->kind = QF_PATTERN_ANY;
        return true;
    }
    if (lexer->token.kind == QF_TOKEN_VARIABLE) {
        pattern->kind = QF_PATTERN_VARIABLE;
        return qf_rule_parser_variable(p, &pattern->variable) &&
               qf_rule_parser_give_kind(p, pattern->variable, info->kind, info->enumeration);
    }
    pattern->kind = QF_PATTERN_LITERAL;
    return literal(p, info, &pattern->literal);
}

static bool attributes(qf_rule_parser *p, qf_rule_node *node) {
    qf_lexer *lexer = &p->lexer;
    uint32_t written = 0;
    node->attributes = QF_ARENA_NEW(&p->set->arena, qf_attribute_pattern, node->info->attribute_count + 1);
    if (!node->attributes) return false;
    if (qf_lexer_accept(lexer, "{")) {
        if (!qf_lexer_is(lexer, "}")) do {
                if (qf_lexer_accept(lexer, "...")) {
                    node->rest_attributes = true;
                    break;
                }
                if (!attribute(p, node, &written)) return false;
            } while (qf_lexer_accept(lexer, ","));
        if (!qf_lexer_expect(lexer, "}", "after attributes")) return false;
    }
    for (uint32_t i = 0; i < node->info->attribute_count && node->rest_attributes; i++)
        if (!(written >> i & 1)) node->attributes[i].kind = QF_PATTERN_REST_ATTRIBUTE;
    return true;
}

static bool results(qf_rule_parser *p, uint32_t index, qf_rule_node *node) {
    qf_rule *rule = p->rule;
    do {
        if (node->result_count == QF_RULE_MAX_RESULTS)
            return qf_rule_parser_too_many(p, "results in a node", QF_RULE_MAX_RESULTS);
        uint32_t value, at = node->result_count;
        qf_token token = p->lexer.token;
        if (!qf_rule_parser_value(p, &value)) return false;
        uint32_t *definition = p->after ? &rule->values[value].after : &rule->values[value].before;
        if (*definition != QF_NO_INDEX) {
            (void)qf_lexer_fail(&p->lexer, &token, QF_ERROR_PARSE, "%.*s is defined twice", (int)token.text.size,
                                token.text.data);
            return false;
        }
        *definition = index;
        *(p->after ? &rule->values[value].after_result : &rule->values[value].result) = at;
        node->results[at] = value;
        node->result_optional[at] = qf_lexer_accept(&p->lexer, "?");
        if (node->result_optional[at] && !p->after) rule->values[value].optional = true;
        node->result_count++;
    } while (qf_lexer_accept(&p->lexer, ","));
    return qf_lexer_expect(&p->lexer, "=", "after results");
}

static bool statement(qf_rule_parser *p) {
    qf_rule *rule = p->rule;
    uint32_t *count = p->after ? &rule->after_count : &rule->before_count;
    if (*count == QF_RULE_MAX_NODES) return qf_rule_parser_too_many(p, "nodes on a side", QF_RULE_MAX_NODES);
    uint32_t index = (*count)++;
    qf_rule_node *node = p->after ? &rule->after[index] : &rule->before[index];
    *node = (qf_rule_node){.source = QF_NO_INDEX, .line = p->lexer.token.line, .column = p->lexer.token.column};
    if (!results(p, index, node)) return false;
    if (p->after && (p->lexer.token.kind == QF_TOKEN_VALUE || qf_lexer_is(&p->lexer, "~"))) {
        node->operand_count = 1;
        node->operands = QF_ARENA_NEW(&p->set->arena, qf_operand_pattern, 1);
        return node->operands && operand_pattern(p, index, 0, &node->operands[0]);
    }
    if (p->lexer.token.kind != QF_TOKEN_NAME) return qf_rule_parser_fail(p, "an op");
    node->op = qf_op_from_name(p->lexer.token.text);
    node->info = qf_op_info_of(node->op);
    if (!node->info || node->op == QF_OP_return) return qf_rule_parser_fail(p, "an op (see docs/ops.md)");
    qf_lexer_next(&p->lexer);
    return operands(p, index, node) && attributes(p, node);
}

bool qf_rule_parser_statements(qf_rule_parser *p) {
    while (p->lexer.token.kind == QF_TOKEN_VALUE)
        if (!statement(p)) return false;
    return true;
}
