/* Owns: the pass that moves the output quantisation into attention, and says of each attention left over why not.
 * Does not own: the rules (patterns/rules/attention.rules).
 * Next: manager.c. */
#include "passes/rule_phase.h"
#include "patterns/parts.h"

qf_status qf_pass_fuse_attention_quant(qf_pass_call *call);

/* What the rules leave over may wait for quantises that stand behind slices and concatenations. */
static qf_status fuse_parts(qf_pass_call *call) {
    qf_rules_options options = qf_rule_phase_options(call);
    bool changed = false;
    qf_status status = qf_attention_quantise_parts(call->graph, &options, call->report, &changed);
    call->changed = call->changed || changed;
    return status == QF_OK && changed ? qf_rule_phase_run(call, "fuse_attention_quant") : status;
}

qf_status qf_pass_fuse_attention_quant(qf_pass_call *call) {
    qf_status status = qf_rule_phase_run(call, "fuse_attention_quant");
    if (status == QF_OK) status = fuse_parts(call);
    if (status != QF_OK) return status;
    return qf_explain_misses(call->graph, call->report);
}
