/* Owns: what passes and tools call: loading rules and running the rules of one phase over a graph.
 * Does not own: rules as data (rule.h), the language (docs/rules.md).
 * Next: engine.c. */
#ifndef QF_PATTERNS_RULES_H
#define QF_PATTERNS_RULES_H

#include "patterns/rule.h"

typedef struct qf_rules_options {
    qf_numerics numerics;
    /* Asked for every new node of a fusion before it is kept: does the target have a kernel for it? NULL: everything
     * runs. Only fuse_attention_quant asks: the other phases spell the graph in one way for every target. */
    bool (*supports)(void *user, const qf_graph *graph, qf_node node, char *reason, size_t reason_size);
    void *supports_user;
    const qf_string *only; /* NULL, or the one rule that may run (tests, `qfuse rules test`) */
} qf_rules_options;

/* The rules of the context: those that were embedded at build time, parsed and checked at the first call, and what was
 * loaded since. The context owns them. NULL on failure (reported). */
qf_rule_set *qf_rules_of(qf_context *context);
/* Adds rules from text or from a file. On failure the set is as before; every fault has been reported. */
qf_status qf_rules_load(qf_context *context, qf_text text, const char *file_name);
qf_status qf_rules_load_file(qf_context *context, const char *path);
/* The rule of this name, or NULL. */
qf_rule *qf_rules_find(qf_rule_set *set, qf_text name);
/* "canonicalize", "raise", "attention_operands", "fuse_attention_quant", "fold_scales"; NULL where no rule has it. */
qf_rule_phase *qf_rules_phase(qf_rule_set *set, qf_text name);

/* Rewrites with the rules of `phase` until none applies. A rewrite takes: a match, its predicates, no user outside of
 * it, no graph output inside of it, an allowed numerics class, equal types of what it replaces, a kernel for each new
 * node, and a number below the report's limit. Refusals are counted in the rules' statistics and, where an attention is
 * in the match, kept for qf_explain_misses. *out_changed is set, never cleared. Linear in nodes. */
qf_status qf_rules_run(qf_graph *graph, const char *phase, const qf_rules_options *options, qf_report *report,
                       bool *out_changed);

/* The class that a pipeline's `numerics` allows at a node: for QF_NUMERICS_DEFAULT quantising where the node is an
 * attention whose K and V are FP8, rounding elsewhere (node 0 too). */
qf_numerics qf_numerics_at(const qf_graph *graph, qf_node node, qf_numerics numerics);

/* For each attention whose result is not FP8: one miss that says why its output quantisation did not fuse. Call it once
 * the rules of fuse_attention_quant have run. */
qf_status qf_explain_misses(qf_graph *graph, qf_report *report);

#endif
