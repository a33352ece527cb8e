/* Owns: the pass that moves the output quantisation into attention, and says of each attention left over why not.
 * Does not own: the rules (patterns/rules/attention.rules).
 * Next: manager.c. */
#include "passes/rule_phase.h"

qf_status qf_pass_fuse_attention_quant(qf_pass_call *call);

qf_status qf_pass_fuse_attention_quant(qf_pass_call *call) {
    qf_status status = qf_rule_phase_run(call, "fuse_attention_quant");
    if (status != QF_OK) return status;
    return qf_explain_misses(call->graph, call->report);
}
