/* Owns: how passes run a phase of rules.
 * Does not own: rules (patterns/rules.h).
 * Next: rule_phase.c. */
#ifndef QF_PASSES_RULE_PHASE_H
#define QF_PASSES_RULE_PHASE_H

#include "passes/pass.h"
#include "patterns/rules.h"

/* The pass's class and target, as rules ask for them. */
qf_rules_options qf_rule_phase_options(qf_pass_call *call);
/* Runs one phase over the call's graph, with the pass's class and target. */
qf_status qf_rule_phase_run(qf_pass_call *call, const char *phase);

#endif
