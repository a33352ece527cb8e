/* Owns: the pass that raises decomposed quantisation, normalisation and attention to the canonical ops.
 * Does not own: the spellings (patterns/rules), the recognition of attention (patterns/attention.h).
 * Next: manager.c. */
#include "passes/rule_phase.h"

qf_status qf_pass_raise(qf_pass_call *call);

qf_status qf_pass_raise(qf_pass_call *call) {
    return qf_rule_phase_run(call, "raise");
}
