/* Owns: the entry point of the verifier.
 * Does not own: result types (infer.h).
 * Next: verify.c. */
#ifndef QF_IR_VERIFY_H
#define QF_IR_VERIFY_H

#include "ir/graph.h"

/* Checks structure (order, use-lists, result types against their rule) and every op's own invariants: scales exactly
 * where operands are FP8, granularity, head counts, attribute ranges. Reports all faults, each by operand name,
 * expected, found and location. QF_OK or QF_ERROR_VERIFY. */
qf_status qf_graph_verify(const qf_graph *graph);

#endif
