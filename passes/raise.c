/* Owns: the pass that raises decomposed quantisation, normalisation and attention to the canonical ops.
 * Does not own: the spellings (patterns/rules), the recognition of attention (patterns/attention.h).
 * Next: manager.c. */
#include "passes/rule_phase.h"
#include "patterns/attention.h"
#include "patterns/factors.h"
#include "patterns/joined.h"

qf_status qf_pass_raise(qf_pass_call *call);

/* Attention is looked for after the quantise spellings became quantise nodes, and before rules that look at attention
 * nodes. */
static qf_status raise_attention(qf_pass_call *call) {
    qf_graph *graph = call->graph;
    qf_symbolic *symbolic = qf_symbolic_create(graph);
    if (!symbolic) return QF_ERROR_OUT_OF_MEMORY;
    qf_numerics numerics = call->options->numerics;
    bool raised = false, refined = false;
    qf_status status = qf_attention_raise(graph, symbolic, numerics, call->report, &raised);
    if (status == QF_OK) status = qf_attention_refine_masks(graph, symbolic, numerics, call->report, &refined);
    qf_symbolic_destroy(symbolic);
    call->changed = call->changed || raised || refined;
    return status;
}

qf_status qf_pass_raise(qf_pass_call *call) {
    qf_status status = qf_rule_phase_run(call, "raise");
    bool folded = false, joined = false;
    if (status == QF_OK) status = qf_join_dequantised(call->graph, call->report, &joined);
    if (status == QF_OK) status = raise_attention(call);
    if (status == QF_OK) status = qf_rule_phase_run(call, "attention_operands");
    if (status == QF_OK) status = qf_fold_output_factors(call->graph, call->options->numerics, call->report, &folded);
    call->changed = call->changed || folded || joined;
    /* What attention took in may have been the last other user of something. */
    return status == QF_OK ? qf_rule_phase_run(call, "raise") : status;
}
