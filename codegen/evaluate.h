/* Owns: computing one node from literal operands, for the `fold` pass and for rule checks.
 * Does not own: when folding pays (passes), the kernels (the run-time half).
 * Next: evaluate.c. */
#ifndef QF_CODEGEN_EVALUATE_H
#define QF_CODEGEN_EVALUATE_H

#include "passes/pass.h"

/* A qf_evaluate on the run-time half's CPU kernels; `user` is ignored. Operands NULL: absent. Every dim of the node's
 * attributes and results has to be constant, else QF_ERROR_UNSUPPORTED without a diagnostic: the caller leaves the node
 * alone. */
qf_status qf_evaluate_on_cpu(void *user, const qf_graph *graph, qf_node node, const qf_literal *const *operands,
                             qf_literal *const *out);

#endif
