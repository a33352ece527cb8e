/* Owns: the entry points of the verifier.
 * Does not own: result types (infer.h), what each op asks for (verify.def, verify_*.c).
 * Next: verify.c, verify.def. */
#ifndef QF_IR_VERIFY_H
#define QF_IR_VERIFY_H

#include "ir/graph.h"

/* Checks structure (order, use-lists, result types against their rule) and every op's own invariants: scales exactly
 * where operands are FP8, granularity, head counts, attribute ranges. Reports all faults, each by operand name,
 * expected, found and location. QF_OK or QF_ERROR_VERIFY. */
qf_status qf_graph_verify(const qf_graph *graph);

/* One warning for each scale that is a constant with a zero, negative, infinite, subnormal or NaN element, at the node
 * that uses it. Such graphs are valid (the arithmetic is defined) but mostly a calibrator's mistake, so whoever imports
 * a graph calls this once. Gives the number of warnings. */
uint32_t qf_graph_warn_scales(const qf_graph *graph);

/* One op on its operands and attributes, before or after it becomes a node. */
typedef struct qf_verify_call {
    const qf_graph *graph;
    const qf_op_info *info;
    const qf_value *operands; /* 0: absent; trailing absent ones may be left out */
    uint32_t operand_count;
    const qf_attribute *attributes;
    uint32_t result_count;
    qf_location location; /* for messages and guards */
    qf_position position; /* for messages; where position.location is NULL, `location` is printed */
    qf_graph *reader;     /* a shallow copy of `graph` for inference that records nothing; NULL: made for each call */
    uint32_t fault_count; /* counts up */
} qf_verify_call;

/* The op's own invariants. Reports all faults; true where there are none. */
bool qf_verify_operation(qf_verify_call *call);

/* Result types by the op's rule (infer.h). `given` NULL: they go to `out_types` (ops without a rule then fail).
 * Otherwise `given` must agree with the rule; dims that may be equal count as equal. `out_types` becomes `given`, which
 * may be the same array. Assumed equalities become guards of `record_in`, the graph of the call; NULL: nothing is
 * recorded. */
bool qf_verify_types(qf_verify_call *call, qf_graph *record_in, qf_type *out_types, const qf_type *given);

#endif
