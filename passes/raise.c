/* Owns: the pass that raises decomposed quantisation, normalisation and attention to the canonical ops.
 * Does not own: the spellings (patterns/rules), the recognition of attention (patterns/attention.h).
 * Next: manager.c. */
#include "passes/rule_phase.h"
#include "patterns/attention.h"

qf_status qf_pass_raise(qf_pass_call *call);

/* Attention is looked for after the quantise spellings became quantise nodes, and before rules that look at attention
 * nodes. */
static qf_status raise_attention(qf_pass_call *call) {
    qf_graph *graph = call->graph;
    qf_symbolic *symbolic = qf_symbolic_create(graph);
    if (!symbolic) return QF_ERROR_OUT_OF_MEMORY;
    bool changed = false;
    qf_status status = qf_attention_raise(graph, symbolic, call->options->numerics, call->report, &changed);
    qf_symbolic_destroy(symbolic);
    call->changed = call->changed || changed;
    return status;
}

qf_status qf_pass_raise(qf_pass_call *call) {
    qf_status status = qf_rule_phase_run(call, "raise");
    if (status == QF_OK) status = raise_attention(call);
    return status == QF_OK ? qf_rule_phase_run(call, "attention_operands") : status;
}
