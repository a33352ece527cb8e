/* Owns: reading rule text into rules.
 * Does not own: tokens (ir/lexer.h), whether a rule makes sense (rule_check.c).
 * Next: docs/rules.md, rule_check.c. */
#include <string.h>

#include "ir/lexer.h"
#include "patterns/predicates.h"

typedef struct parser {
    qf_rule_set *set;
    qf_lexer lexer;
    qf_rule *rule;
    bool after; /* reading the right side */
} parser;

static bool fail(parser *p, const char *what) {
    (void)qf_lexer_unexpected(&p->lexer, what);
    return false;
}

static bool too_many(parser *p, const char *what, unsigned most) {
    (void)qf_lexer_fail(&p->lexer, &p->lexer.token, QF_ERROR_LIMIT, "a rule has at most %u %s", most, what);
    return false;
}

static bool value_of(parser *p, uint32_t *out_index) {
    if (p->lexer.token.kind != QF_TOKEN_VALUE) return fail(p, "a value such as %x");
    qf_string name = qf_lexer_name(&p->lexer, &p->lexer.token);
    if (!name.id) return false;
    qf_rule *rule = p->rule;
    qf_lexer_next(&p->lexer);
    for (uint32_t i = 0; i < rule->value_count; i++)
        if (rule->values[i].name.id == name.id) {
            *out_index = i;
            return true;
        }
    if (rule->value_count == QF_RULE_MAX_VALUES) return too_many(p, "values", QF_RULE_MAX_VALUES);
    *out_index = rule->value_count++;
    rule->values[*out_index] = (qf_rule_value){.name = name, .before = QF_NO_INDEX, .after = QF_NO_INDEX};
    return true;
}

static bool variable_of(parser *p, uint32_t *out_index) {
    if (p->lexer.token.kind != QF_TOKEN_VARIABLE) return fail(p, "a variable such as $x");
    qf_string name = qf_lexer_name(&p->lexer, &p->lexer.token);
    if (!name.id) return false;
    qf_rule *rule = p->rule;
    qf_lexer_next(&p->lexer);
    for (uint32_t i = 0; i < rule->variable_count; i++)
        if (rule->variables[i].name.id == name.id) {
            *out_index = i;
            return true;
        }
    if (rule->variable_count == QF_RULE_MAX_VARIABLES) return too_many(p, "variables", QF_RULE_MAX_VARIABLES);
    *out_index = rule->variable_count++;
    rule->variables[*out_index] = (qf_rule_variable){.name = name};
    return true;
}

/* A variable has one kind in all its places; FLOAT is also what a uniform constant binds. */
static bool give_kind(parser *p, uint32_t variable, qf_attribute_kind kind, const qf_enum_info *enumeration) {
    qf_rule_variable *v = &p->rule->variables[variable];
    if (!v->known_kind) {
        v->known_kind = true;
        v->kind = kind;
        v->enumeration = enumeration;
        return true;
    }
    if (v->kind == kind && v->enumeration == enumeration) return true;
    (void)qf_lexer_fail(&p->lexer, &p->lexer.token, QF_ERROR_PARSE, "$%s stands for attributes of different kinds",
                        qf_string_c(p->set->context, v->name));
    return false;
}

static bool chain_of(parser *p, uint32_t value, uint32_t *out_chain) {
    for (uint32_t i = 0; i < p->rule->chain_count; i++)
        if (p->rule->chains[i].value == value) {
            *out_chain = i;
            return true;
        }
    return false;
}

/* ~%a, in the left side: a new chain of layout ops. */
static bool look_through(parser *p, uint32_t node, uint32_t operand, qf_operand_pattern *out) {
    qf_rule *rule = p->rule;
    out->kind = QF_PATTERN_VALUE;
    qf_token token = p->lexer.token;
    if (!value_of(p, &out->value)) return false;
    if (chain_of(p, out->value, &out->chain)) {
        (void)qf_lexer_fail(&p->lexer, &token, QF_ERROR_PARSE, "~ stands before the same value twice");
        return false;
    }
    if (rule->chain_count == QF_RULE_MAX_CHAINS) return too_many(p, "~", QF_RULE_MAX_CHAINS);
    out->chain = rule->chain_count++;
    rule->chains[out->chain].value = out->value;
    rule->chains[out->chain].consumer = node;
    rule->chains[out->chain].operand = operand;
    return true;
}

/* ~a(%x), in the right side: %x through the chain of ~%a. */
static bool replay(parser *p, qf_operand_pattern *out) {
    out->kind = QF_PATTERN_REPLAY;
    if (p->lexer.token.kind != QF_TOKEN_NAME) return fail(p, "the name of a value that ~ looked through");
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
    return qf_lexer_expect(&p->lexer, "(", "before the value to replay on") && value_of(p, &out->value) &&
           qf_lexer_expect(&p->lexer, ")", "after the value to replay on");
}

static bool operand_pattern(parser *p, uint32_t node, uint32_t operand, qf_operand_pattern *out) {
    *out = (qf_operand_pattern){.chain = QF_NO_INDEX};
    qf_lexer *lexer = &p->lexer;
    if (qf_lexer_accept(lexer, "~")) return p->after ? replay(p, out) : look_through(p, node, operand, out);
    if (qf_lexer_accept(lexer, "none")) return true;
    switch (lexer->token.kind) {
    case QF_TOKEN_VALUE:
        out->kind = QF_PATTERN_VALUE;
        if (!value_of(p, &out->value)) return false;
        if (!p->after) out->optional = qf_lexer_accept(lexer, "?");
        if (out->optional) p->rule->values[out->value].optional = true;
        return true;
    case QF_TOKEN_VARIABLE:
        out->kind = QF_PATTERN_UNIFORM;
        return variable_of(p, &out->variable) && give_kind(p, out->variable, QF_ATTRIBUTE_FLOAT, NULL);
    case QF_TOKEN_INTEGER:
    case QF_TOKEN_FLOAT:
    case QF_TOKEN_MARK:
    case QF_TOKEN_NAME:
        out->kind = QF_PATTERN_NUMBER;
        return qf_lexer_number(lexer, "an operand (%x, ~%x, $x, a number or `none`)", &out->number);
    default: return fail(p, "an operand (%x, ~%x, $x, a number or `none`)");
    }
}

static bool is_many(const qf_op_info *info) {
    return info->operand_count && info->operands[info->operand_count - 1].kind == QF_OPERAND_MANY;
}

/* Where the next operand goes: by name, or the next column. */
static bool operand_slot(parser *p, qf_rule_node *node, uint32_t *next, uint32_t *out_slot) {
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

static bool operands(parser *p, uint32_t index, qf_rule_node *node) {
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
            if (slot >= MAX_OPERANDS) return too_many(p, "operands in a node", MAX_OPERANDS);
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

static bool dtype_literal(parser *p, qf_attribute *out) {
    qf_text text = p->lexer.token.text;
    for (int i = 0; i < QF_DTYPE_COUNT; i++)
        if (qf_text_is(text, qf_dtype_name((qf_dtype)i))) {
            out->integer = i;
            qf_lexer_next(&p->lexer);
            return true;
        }
    return fail(p, "a dtype such as f16");
}

static bool ints_literal(parser *p, qf_attribute *out) {
    int64_t items[16];
    uint32_t count = 0;
    if (!qf_lexer_expect(&p->lexer, "[", "before a list")) return false;
    if (!qf_lexer_is(&p->lexer, "]")) do {
            if (count == QF_COUNT_OF(items)) return too_many(p, "entries in a list", QF_COUNT_OF(items));
            if (!qf_lexer_integer(&p->lexer, "a list entry", &items[count++])) return false;
        } while (qf_lexer_accept(&p->lexer, ","));
    out->count = count;
    out->ints = qf_arena_copy(&p->set->arena, items, count * sizeof *items);
    return out->ints && qf_lexer_expect(&p->lexer, "]", "after a list");
}

static bool literal(parser *p, const qf_attribute_info *info, qf_attribute *out) {
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
        if (out->integer < 0) return fail(p, info->enumeration->name);
        qf_lexer_next(lexer);
        return true;
    case QF_ATTRIBUTE_DIM:
        if (!qf_lexer_integer(lexer, info->name, &integer)) return false;
        out->dim = qf_dim_constant(p->set->context, integer);
        return out->dim.id != 0;
    case QF_ATTRIBUTE_INTS: return ints_literal(p, out);
    case QF_ATTRIBUTE_STRING: return qf_lexer_string(lexer, info->name, &out->string);
    default: return fail(p, "a variable: this kind of attribute has no literal form in rules");
    }
}

static bool attribute(parser *p, qf_rule_node *node, uint32_t *written) {
    qf_lexer *lexer = &p->lexer;
    if (lexer->token.kind != QF_TOKEN_NAME) return fail(p, "an attribute's name");
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
        return variable_of(p, &pattern->variable) && give_kind(p, pattern->variable, info->kind, info->enumeration);
    }
    pattern->kind = QF_PATTERN_LITERAL;
    return literal(p, info, &pattern->literal);
}

static bool attributes(parser *p, qf_rule_node *node) {
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

static bool results(parser *p, uint32_t index, qf_rule_node *node) {
    qf_rule *rule = p->rule;
    do {
        if (node->result_count == QF_RULE_MAX_RESULTS) return too_many(p, "results in a node", QF_RULE_MAX_RESULTS);
        uint32_t value, at = node->result_count;
        qf_token token = p->lexer.token;
        if (!value_of(p, &value)) return false;
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

static bool statement(parser *p) {
    qf_rule *rule = p->rule;
    uint32_t *count = p->after ? &rule->after_count : &rule->before_count;
    if (*count == QF_RULE_MAX_NODES) return too_many(p, "nodes on a side", QF_RULE_MAX_NODES);
    uint32_t index = (*count)++;
    qf_rule_node *node = p->after ? &rule->after[index] : &rule->before[index];
    *node = (qf_rule_node){.source = QF_NO_INDEX, .line = p->lexer.token.line, .column = p->lexer.token.column};
    if (!results(p, index, node)) return false;
    if (p->after && (p->lexer.token.kind == QF_TOKEN_VALUE || qf_lexer_is(&p->lexer, "~"))) {
        node->operand_count = 1;
        node->operands = QF_ARENA_NEW(&p->set->arena, qf_operand_pattern, 1);
        return node->operands && operand_pattern(p, index, 0, &node->operands[0]);
    }
    if (p->lexer.token.kind != QF_TOKEN_NAME) return fail(p, "an op");
    node->op = qf_op_from_name(p->lexer.token.text);
    node->info = qf_op_info_of(node->op);
    if (!node->info || node->op == QF_OP_return) return fail(p, "an op (see docs/ops.md)");
    qf_lexer_next(&p->lexer);
    return operands(p, index, node) && attributes(p, node);
}

static bool statements(parser *p) {
    while (p->lexer.token.kind == QF_TOKEN_VALUE)
        if (!statement(p)) return false;
    return true;
}

static bool argument(parser *p, qf_rule_argument *out, char kind, char output_kind) {
    qf_lexer *lexer = &p->lexer;
    *out = (qf_rule_argument){.kind = QF_ARGUMENT_VALUE};
    if (kind == 'v') return value_of(p, &out->index);
    if (kind == 'n') {
        out->kind = QF_ARGUMENT_NAME;
        if (lexer->token.kind != QF_TOKEN_NAME) return fail(p, "a name");
        out->name = qf_intern(p->set->context, lexer->token.text);
        qf_lexer_next(lexer);
        return out->name.id != 0;
    }
    out->kind = QF_ARGUMENT_VARIABLE;
    if (lexer->token.kind != QF_TOKEN_VARIABLE && kind == 'a') {
        out->kind = QF_ARGUMENT_NUMBER;
        return qf_lexer_number(lexer, "a variable or a number", &out->number);
    }
    if (!variable_of(p, &out->index)) return false;
    if (kind != 'o') return true;
    static const struct {
        char letter;
        qf_attribute_kind kind;
    } kinds[] = {{'f', QF_ATTRIBUTE_FLOAT}, {'d', QF_ATTRIBUTE_DTYPE}, {'i', QF_ATTRIBUTE_INT},
                 {'b', QF_ATTRIBUTE_BOOL},  {'l', QF_ATTRIBUTE_INTS},  {'s', QF_ATTRIBUTE_DIMS},
                 {'t', QF_ATTRIBUTE_STRING}};
    p->rule->variables[out->index].computed = true;
    for (size_t i = 0; i < QF_COUNT_OF(kinds); i++)
        if (kinds[i].letter == output_kind) return give_kind(p, out->index, kinds[i].kind, NULL);
    return true;
}

static bool predicate(parser *p) {
    qf_lexer *lexer = &p->lexer;
    qf_rule *rule = p->rule;
    if (rule->predicate_count == QF_RULE_MAX_PREDICATES) return too_many(p, "predicates", QF_RULE_MAX_PREDICATES);
    qf_rule_predicate *out = &rule->predicates[rule->predicate_count++];
    *out = (qf_rule_predicate){.line = lexer->token.line, .column = lexer->token.column};
    out->negated = qf_lexer_accept(lexer, "not");
    if (lexer->token.kind == QF_TOKEN_NAME) out->info = qf_predicate_find(lexer->token.text);
    if (!out->info) return fail(p, "a predicate (see docs/rules.md)");
    qf_lexer_next(lexer);
    if (!qf_lexer_expect(lexer, "(", "before arguments")) return false;
    const char *signature = out->info->signature, *colon = strchr(signature, ':');
    for (; *signature && *signature != ':'; signature++) {
        if (out->argument_count && !qf_lexer_expect(lexer, ",", "between arguments")) return false;
        if (!argument(p, &out->arguments[out->argument_count], *signature, colon ? colon[1] : 0)) return false;
        out->argument_count++;
    }
    return qf_lexer_expect(lexer, ")", "after the arguments");
}

/* test %x = f32[M, 64] | f16[M, 64]   $f8 = f8E4M3FN | f8E5M2: texts up to | or the next sample, read by the tests. */
static bool sample(parser *p) {
    qf_lexer *lexer = &p->lexer;
    qf_rule *rule = p->rule;
    qf_context *context = p->set->context;
    qf_rule_sample out = {.test = rule->test_count - 1, .is_value = lexer->token.kind == QF_TOKEN_VALUE};
    out.name = qf_lexer_name(lexer, &lexer->token);
    if (!out.name.id) return false;
    qf_lexer_next(lexer);
    if (!qf_lexer_expect(lexer, "=", "after what is to be drawn")) return false;
    do {
        if (out.alternative_count == QF_RULE_MAX_ALTERNATIVES)
            return too_many(p, "alternatives", QF_RULE_MAX_ALTERNATIVES);
        const char *start = lexer->token.text.data, *end = start;
        uint32_t depth = 0;
        while (lexer->token.kind != QF_TOKEN_END && lexer->token.kind != QF_TOKEN_INVALID &&
               (depth || !(qf_lexer_is(lexer, "|") || qf_lexer_is(lexer, "end") || qf_lexer_is(lexer, "test") ||
                           lexer->token.kind == QF_TOKEN_VALUE || lexer->token.kind == QF_TOKEN_VARIABLE))) {
            if (qf_lexer_is(lexer, "[")) depth++;
            if (depth && qf_lexer_is(lexer, "]")) depth--;
            end = lexer->token.text.data + lexer->token.text.size;
            qf_lexer_next(lexer);
        }
        if (end == start) return fail(p, "a type or an attribute value");
        qf_string text = qf_intern(context, (qf_text){start, (size_t)(end - start)});
        if (!text.id) return false;
        out.alternatives[out.alternative_count++] = text;
    } while (qf_lexer_accept(lexer, "|"));
    if (!QF_GROW(context, rule->samples, rule->sample_capacity, (uint64_t)rule->sample_count + 1)) return false;
    rule->samples[rule->sample_count++] = out;
    return true;
}

static bool header(parser *p) {
    qf_lexer *lexer = &p->lexer;
    qf_rule *rule = p->rule;
    static const qf_numerics classes[] = {QF_NUMERICS_EXACT, QF_NUMERICS_ROUNDING, QF_NUMERICS_QUANTISING,
                                          QF_NUMERICS_RELAXED};
    rule->line = lexer->token.line;
    if (!qf_lexer_expect(lexer, "rule", "at the start of a rule")) return false;
    for (uint32_t i = 0; i < 2; i++) {
        if (lexer->token.kind != QF_TOKEN_NAME) return fail(p, i ? "the rule's phase" : "the rule's name");
        *(i ? &rule->phase : &rule->name) = qf_intern(p->set->context, lexer->token.text);
        if (!(i ? rule->phase : rule->name).id) return false;
        qf_lexer_next(lexer);
    }
    if (!qf_lexer_expect(lexer, "numerics", "and a class")) return false;
    for (size_t i = 0; i < QF_COUNT_OF(classes); i++)
        if (qf_lexer_is(lexer, qf_numerics_name(classes[i]))) rule->numerics = classes[i];
    if (!rule->numerics) return fail(p, "exact, rounding, quantising or relaxed");
    qf_lexer_next(lexer);
    int64_t benefit = 0;
    if (qf_lexer_accept(lexer, "benefit") && !qf_lexer_integer(lexer, "a benefit", &benefit)) return false;
    rule->benefit = benefit > 0 && benefit < 1000 ? (uint32_t)benefit : 0;
    return qf_lexer_string(lexer, "a sentence that says why the rule is good", &rule->doc);
}

static bool body(parser *p) {
    qf_lexer *lexer = &p->lexer;
    qf_rule *rule = p->rule;
    if (!qf_lexer_expect(lexer, "before", "and the pattern") || !statements(p)) return false;
    if (qf_lexer_accept(lexer, "where"))
        while (lexer->token.kind == QF_TOKEN_NAME && !qf_lexer_is(lexer, "keep") && !qf_lexer_is(lexer, "after"))
            if (!predicate(p)) return false;
    if (qf_lexer_accept(lexer, "keep")) do {
            uint32_t value;
            if (!value_of(p, &value)) return false;
            if (rule->values[value].before == QF_NO_INDEX) return fail(p, "a value that the left side computes");
            rule->before[rule->values[value].before].keep = true;
        } while (qf_lexer_accept(lexer, ","));
    if (!qf_lexer_expect(lexer, "after", "and the replacement")) return false;
    p->after = true;
    if (!statements(p)) return false;
    while (qf_lexer_accept(lexer, "test")) {
        rule->test_count++;
        while (lexer->token.kind == QF_TOKEN_VALUE || lexer->token.kind == QF_TOKEN_VARIABLE)
            if (!sample(p)) return false;
    }
    return qf_lexer_expect(lexer, "end", "at the end of a rule");
}

/* After a fault: on to the next rule, so that one run reports the faults of several. */
static void recover(parser *p) {
    while (p->lexer.token.kind != QF_TOKEN_END && !(p->lexer.token.first_on_line && qf_lexer_is(&p->lexer, "rule")))
        qf_lexer_next(&p->lexer);
}

qf_status qf_rules_parse(qf_rule_set *set, qf_text text, const char *file_name) {
    parser p = {.set = set};
    qf_context *context = set->context;
    qf_string file = qf_intern_c(context, file_name);
    bool good = true;
    qf_lexer_start(&p.lexer, context, text, file_name);
    while (p.lexer.token.kind != QF_TOKEN_END) {
        qf_rule *rule = QF_ARENA_NEW(&set->arena, qf_rule, 1);
        if (!rule || !QF_GROW(context, set->rules, set->rule_capacity, (uint64_t)set->rule_count + 1))
            return QF_ERROR_OUT_OF_MEMORY;
        rule->file = file;
        p.rule = rule;
        p.after = false;
        set->rules[set->rule_count++] = rule;
        if (!header(&p) || !body(&p)) {
            good = false;
            if (p.lexer.token.kind == QF_TOKEN_END) break;
            qf_lexer_next(&p.lexer);
            recover(&p);
        }
    }
    if (good && !p.lexer.fault_count) return QF_OK;
    return qf_context_status(context) == QF_ERROR_OUT_OF_MEMORY ? QF_ERROR_OUT_OF_MEMORY : QF_ERROR_PARSE;
}
