/* Owns: the pass that merges multiplications into attention's scale and scale operands.
 * Does not own: the rules (patterns/rules/scales.rules).
 * Next: manager.c. */
#include "passes/rule_phase.h"

qf_status qf_pass_fold_scales(qf_pass_call *call);

qf_status qf_pass_fold_scales(qf_pass_call *call) {
    /* A number between a dequantise and attention hides the FP8 operand until it is folded. */
    qf_status status = qf_rule_phase_run(call, "fold_scales");
    return status == QF_OK ? qf_rule_phase_run(call, "attention_operands") : status;
}
