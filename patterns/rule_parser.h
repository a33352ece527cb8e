/* Owns: the state of reading rules, and what the two files that read them share.
 * Does not own: the rules that come out (rule.h).
 * Next: rule_parse.c. */
#ifndef QF_PATTERNS_RULE_PARSER_H
#define QF_PATTERNS_RULE_PARSER_H

#include "ir/lexer.h"
#include "patterns/rule.h"

typedef struct qf_rule_parser {
    qf_rule_set *set;
    qf_lexer lexer;
    qf_rule *rule;
    bool after; /* reading the right side */
} qf_rule_parser;

/* --- rule_parse.c. Each returns false after a located fault. --- */
bool qf_rule_parser_fail(qf_rule_parser *p, const char *expected);
bool qf_rule_parser_too_many(qf_rule_parser *p, const char *what, unsigned most);
/* The value or variable that is named here; a new name makes a new one. */
bool qf_rule_parser_value(qf_rule_parser *p, uint32_t *out_index);
bool qf_rule_parser_variable(qf_rule_parser *p, uint32_t *out_index);
/* A variable has one kind in all its places; FLOAT is also what a uniform constant binds. */
bool qf_rule_parser_give_kind(qf_rule_parser *p, uint32_t variable, qf_attribute_kind kind,
                              const qf_enum_info *enumeration);

/* --- rule_parse_node.c --- */
/* The statements of one side. */
bool qf_rule_parser_statements(qf_rule_parser *p);

#endif
