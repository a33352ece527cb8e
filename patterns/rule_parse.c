/* Owns: reading rule text into rules: their frame, names, predicates and samples.
 * Does not own: nodes (rule_parse_node.c), tokens (ir/lexer.h), whether a rule makes sense (rule_check.c).
 * Next: docs/rules.md, rule_parse_node.c, rule_check.c. */
#include "patterns/rule_parser.h"

#include <string.h>

#include "patterns/predicates.h"

bool qf_rule_parser_fail(qf_rule_parser *p, const char *what) {
    (void)qf_lexer_unexpected(&p->lexer, what);
    return false;
}

bool qf_rule_parser_too_many(qf_rule_parser *p, const char *what, unsigned most) {
    (void)qf_lexer_fail(&p->lexer, &p->lexer.token, QF_ERROR_LIMIT, "a rule has at most %u %s", most, what);
    return false;
}

bool qf_rule_parser_value(qf_rule_parser *p, uint32_t *out_index) {
    if (p->lexer.token.kind != QF_TOKEN_VALUE) return qf_rule_parser_fail(p, "a value such as %x");
    qf_string name = qf_lexer_name(&p->lexer, &p->lexer.token);
    if (!name.id) return false;
    qf_rule *rule = p->rule;
    qf_lexer_next(&p->lexer);
    for (uint32_t i = 0; i < rule->value_count; i++)
        if (rule->values[i].name.id == name.id) {
            *out_index = i;
            return true;
        }
    if (rule->value_count == QF_RULE_MAX_VALUES) return qf_rule_parser_too_many(p, "values", QF_RULE_MAX_VALUES);
    *out_index = rule->value_count++;
    rule->values[*out_index] = (qf_rule_value){.name = name, .before = QF_NO_INDEX, .after = QF_NO_INDEX};
    return true;
}

bool qf_rule_parser_variable(qf_rule_parser *p, uint32_t *out_index) {
    if (p->lexer.token.kind != QF_TOKEN_VARIABLE) return qf_rule_parser_fail(p, "a variable such as $x");
    qf_string name = qf_lexer_name(&p->lexer, &p->lexer.token);
    if (!name.id) return false;
    qf_rule *rule = p->rule;
    qf_lexer_next(&p->lexer);
    for (uint32_t i = 0; i < rule->variable_count; i++)
        if (rule->variables[i].name.id == name.id) {
            *out_index = i;
            return true;
        }
    if (rule->variable_count == QF_RULE_MAX_VARIABLES)
        return qf_rule_parser_too_many(p, "variables", QF_RULE_MAX_VARIABLES);
    *out_index = rule->variable_count++;
    rule->variables[*out_index] = (qf_rule_variable){.name = name};
    return true;
}

bool qf_rule_parser_give_kind(qf_rule_parser *p, uint32_t variable, qf_attribute_kind kind,
                              const qf_enum_info *enumeration) {
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

static bool argument(qf_rule_parser *p, qf_rule_argument *out, char kind, char output_kind) {
    qf_lexer *lexer = &p->lexer;
    *out = (qf_rule_argument){.kind = QF_ARGUMENT_VALUE};
    if (kind == 'v') return qf_rule_parser_value(p, &out->index);
    if (kind == 'n') {
        out->kind = QF_ARGUMENT_NAME;
        if (lexer->token.kind != QF_TOKEN_NAME) return qf_rule_parser_fail(p, "a name");
        out->name = qf_intern(p->set->context, lexer->token.text);
        qf_lexer_next(lexer);
        return out->name.id != 0;
    }
    out->kind = QF_ARGUMENT_VARIABLE;
    if (lexer->token.kind != QF_TOKEN_VARIABLE && kind == 'a') {
        out->kind = QF_ARGUMENT_NUMBER;
        return qf_lexer_number(lexer, "a variable or a number", &out->number);
    }
    if (!qf_rule_parser_variable(p, &out->index)) return false;
    if (kind != 'o') return true;
    static const struct {
        char letter;
        qf_attribute_kind kind;
    } kinds[] = {{'f', QF_ATTRIBUTE_FLOAT}, {'d', QF_ATTRIBUTE_DTYPE}, {'i', QF_ATTRIBUTE_INT},
                 {'b', QF_ATTRIBUTE_BOOL},  {'l', QF_ATTRIBUTE_INTS},  {'s', QF_ATTRIBUTE_DIMS},
                 {'t', QF_ATTRIBUTE_STRING}};
    p->rule->variables[out->index].computed = true;
    for (size_t i = 0; i < QF_COUNT_OF(kinds); i++)
        if (kinds[i].letter == output_kind) return qf_rule_parser_give_kind(p, out->index, kinds[i].kind, NULL);
    return true;
}

static bool predicate(qf_rule_parser *p) {
    qf_lexer *lexer = &p->lexer;
    qf_rule *rule = p->rule;
    if (rule->predicate_count == QF_RULE_MAX_PREDICATES)
        return qf_rule_parser_too_many(p, "predicates", QF_RULE_MAX_PREDICATES);
    qf_rule_predicate *out = &rule->predicates[rule->predicate_count++];
    *out = (qf_rule_predicate){.line = lexer->token.line, .column = lexer->token.column};
    out->negated = qf_lexer_accept(lexer, "not");
    if (lexer->token.kind == QF_TOKEN_NAME) out->info = qf_predicate_find(lexer->token.text);
    if (!out->info) return qf_rule_parser_fail(p, "a predicate (see docs/rules.md)");
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
static bool sample(qf_rule_parser *p) {
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
            return qf_rule_parser_too_many(p, "alternatives", QF_RULE_MAX_ALTERNATIVES);
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
        if (end == start) return qf_rule_parser_fail(p, "a type or an attribute value");
        qf_string text = qf_intern(context, (qf_text){start, (size_t)(end - start)});
        if (!text.id) return false;
        out.alternatives[out.alternative_count++] = text;
    } while (qf_lexer_accept(lexer, "|"));
    if (!QF_GROW(context, rule->samples, rule->sample_capacity, (uint64_t)rule->sample_count + 1)) return false;
    rule->samples[rule->sample_count++] = out;
    return true;
}

static bool header(qf_rule_parser *p) {
    qf_lexer *lexer = &p->lexer;
    qf_rule *rule = p->rule;
    static const qf_numerics classes[] = {QF_NUMERICS_EXACT, QF_NUMERICS_ROUNDING, QF_NUMERICS_QUANTISING,
                                          QF_NUMERICS_RELAXED};
    rule->line = lexer->token.line;
    if (!qf_lexer_expect(lexer, "rule", "at the start of a rule")) return false;
    for (uint32_t i = 0; i < 2; i++) {
        if (lexer->token.kind != QF_TOKEN_NAME)
            return qf_rule_parser_fail(p, i ? "the rule's phase" : "the rule's name");
        *(i ? &rule->phase : &rule->name) = qf_intern(p->set->context, lexer->token.text);
        if (!(i ? rule->phase : rule->name).id) return false;
        qf_lexer_next(lexer);
    }
    if (!qf_lexer_expect(lexer, "numerics", "and a class")) return false;
    for (size_t i = 0; i < QF_COUNT_OF(classes); i++)
        if (qf_lexer_is(lexer, qf_numerics_name(classes[i]))) rule->numerics = classes[i];
    if (!rule->numerics) return qf_rule_parser_fail(p, "exact, rounding, quantising or relaxed");
    qf_lexer_next(lexer);
    int64_t benefit = 0;
    if (qf_lexer_accept(lexer, "benefit") && !qf_lexer_integer(lexer, "a benefit", &benefit)) return false;
    rule->benefit = benefit > 0 && benefit < 1000 ? (uint32_t)benefit : 0;
    return qf_lexer_string(lexer, "a sentence that says why the rule is good", &rule->doc);
}

static bool body(qf_rule_parser *p) {
    qf_lexer *lexer = &p->lexer;
    qf_rule *rule = p->rule;
    if (!qf_lexer_expect(lexer, "before", "and the pattern") || !qf_rule_parser_statements(p)) return false;
    if (qf_lexer_accept(lexer, "where"))
        while (lexer->token.kind == QF_TOKEN_NAME && !qf_lexer_is(lexer, "keep") && !qf_lexer_is(lexer, "after"))
            if (!predicate(p)) return false;
    if (qf_lexer_accept(lexer, "keep")) do {
            uint32_t value;
            if (!qf_rule_parser_value(p, &value)) return false;
            if (rule->values[value].before == QF_NO_INDEX)
                return qf_rule_parser_fail(p, "a value that the left side computes");
            rule->before[rule->values[value].before].keep = true;
        } while (qf_lexer_accept(lexer, ","));
    if (!qf_lexer_expect(lexer, "after", "and the replacement")) return false;
    p->after = true;
    if (!qf_rule_parser_statements(p)) return false;
    while (qf_lexer_accept(lexer, "test")) {
        rule->test_count++;
        while (lexer->token.kind == QF_TOKEN_VALUE || lexer->token.kind == QF_TOKEN_VARIABLE)
            if (!sample(p)) return false;
    }
    return qf_lexer_expect(lexer, "end", "at the end of a rule");
}

/* After a fault: on to the next rule, so that one run reports the faults of several. */
static void recover(qf_rule_parser *p) {
    while (p->lexer.token.kind != QF_TOKEN_END && !(p->lexer.token.first_on_line && qf_lexer_is(&p->lexer, "rule")))
        qf_lexer_next(&p->lexer);
}

qf_status qf_rules_parse(qf_rule_set *set, qf_text text, const char *file_name) {
    qf_rule_parser p = {.set = set};
    qf_context *context = set->context;
    qf_string file = qf_intern_c(context, file_name);
    bool good = true;
    qf_lexer_start(&p.lexer, context, text, file_name);
    while (p.lexer.token.kind != QF_TOKEN_END) {
        if (set->rule_count == QF_RULE_MAX_RULES) {
            (void)qf_lexer_fail(&p.lexer, &p.lexer.token, QF_ERROR_LIMIT,
                                "all rules, the built-in ones included, are at most %d", QF_RULE_MAX_RULES);
            break;
        }
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
