/* Owns: one match of a rule in a graph, and the entry point of the matcher.
 * Does not own: rules (rule.h), what a match leads to (rewrite.c).
 * Next: match.c. */
#ifndef QF_PATTERNS_MATCH_H
#define QF_PATTERNS_MATCH_H

#include "patterns/predicates.h"

typedef struct qf_match {
    qf_graph *graph;
    qf_rule *rule;
    qf_node nodes[QF_RULE_MAX_NODES];
    qf_value values[QF_RULE_MAX_VALUES];
    qf_attribute variables[QF_RULE_MAX_VARIABLES];
    struct {
        qf_node nodes[QF_CHAIN_MAX]; /* from the consumer back to the producer */
        uint32_t count;
    } chains[QF_RULE_MAX_CHAINS];
    /* The first refusal by a predicate after which no other way matched. */
    qf_reason refusal;
    qf_node refused_at;
    qf_node attention; /* the attention among the nodes that matched before the refusal, or in the match */
} qf_match;

/* Tries the rule with `root` at its anchor. False: no match; then `refusal` says why where a predicate refused. */
bool qf_match_at(qf_match *match, qf_graph *graph, qf_rule *rule, qf_node root);

#endif
