/* Owns: how passes run a phase of rules.
 * Does not own: rules (patterns/rules.h).
 * Next: rule_phase.c. */
#ifndef QF_PASSES_RULE_PHASE_H
#define QF_PASSES_RULE_PHASE_H

#include "passes/pass.h"
#include "patterns/rules.h"

/* Options for the pass's class and target; `target` holds what the kernel question needs and must outlive them. */
typedef struct qf_rule_target {
    const qf_pass_call *call;
} qf_rule_target;
qf_rules_options qf_rule_phase_options(const qf_pass_call *call, qf_rule_target *target);

/* Runs one phase over the call's graph. */
qf_status qf_rule_phase_run(qf_pass_call *call, const char *phase);

#endif
