/* Owns: the entry point that turns a match into a rewrite or a refusal.
 * Does not own: matching (match.h), the loop over a graph (engine.c).
 * Next: rewrite.c. */
#ifndef QF_PATTERNS_REWRITE_H
#define QF_PATTERNS_REWRITE_H

#include "patterns/match.h"
#include "patterns/rules.h"

typedef enum qf_rewrite_outcome {
    QF_REWRITE_DONE,
    QF_REWRITE_REFUSED, /* `reason` and `at` say why; the graph is as before */
    QF_REWRITE_FAILED   /* recorded in the context */
} qf_rewrite_outcome;

typedef struct qf_rewrite_result {
    qf_rewrite_outcome outcome;
    qf_reason reason;
    qf_node at;
    qf_string detail;
    qf_node next; /* where to go on matching: the first new node, or what followed the match */
} qf_rewrite_result;

qf_rewrite_result qf_rewrite_match(const qf_match *match, const qf_rules_options *options, qf_report *report);

#endif
