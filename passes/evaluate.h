/* Owns: the evaluator that `fold` uses by default: one op on the CPU.
 * Does not own: the kernels (the run-time half, through qf_op_run).
 * Next: evaluate.c. */
#ifndef QF_PASSES_EVALUATE_H
#define QF_PASSES_EVALUATE_H

#include "passes/pass.h"

/* A qf_evaluate; `user` is not looked at. Nodes with symbolic attributes are refused with QF_ERROR_UNSUPPORTED. */
qf_status qf_evaluate_on_cpu(void *user, const qf_graph *graph, qf_node node, const qf_literal *const *operands,
                             qf_literal *const *out);

#endif
