/* Owns: running rule phases from passes, with the target's kernel table as the judge of what may be built.
 * Does not own: the table (spec/kernels.def), the engine (patterns/).
 * Next: rule_phase.h. */
#include "passes/rule_phase.h"

#include "ir/capability.h"

static bool target_supports(void *user, const qf_graph *graph, qf_node node, char *reason, size_t reason_size) {
    const qf_pass_call *call = user;
    return qf_node_is_runnable(graph, node, call->options->target->target, reason, reason_size);
}

qf_rules_options qf_rule_phase_options(qf_pass_call *call) {
    return (qf_rules_options){.numerics = call->options->numerics, .supports = target_supports, .supports_user = call};
}

qf_status qf_rule_phase_run(qf_pass_call *call, const char *phase) {
    qf_rules_options options = qf_rule_phase_options(call);
    return qf_rules_run(call->graph, phase, &options, call->report, &call->changed);
}
