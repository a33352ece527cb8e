/* Owns: result types of ops, and the values of small integer tensors as dims.
 * Does not own: checks beyond what a type needs (verify.h).
 * Next: infer.c, symbolic.c. */
#ifndef QF_IR_INFER_H
#define QF_IR_INFER_H

#include "ir/graph.h"

/* What an op's shape rule sees. Operand types are 0 for absent operands. */
typedef struct qf_infer_call {
    qf_graph *graph;
    const qf_op_info *info;
    const qf_value *operands;
    uint32_t operand_count;
    const qf_attribute *attributes;
    uint32_t result_count;
    qf_type *out_types;   /* result_count of them; rule `given` keeps what stands there */
    qf_location location; /* for messages and guards */
    qf_position position; /* for messages; where position.location is NULL, `location` is printed */
    bool record_nothing;  /* a check: guards are not recorded */
} qf_infer_call;

/* Fills out_types by the op's rule. Broadcasting a symbol against a literal or another symbol that might be equal
 * records an assumed equality as a guard of the graph; provably unequal dims fail with QF_ERROR_VERIFY and a located
 * message that names operand, expected and found. Unranked or none-typed operands give unranked results where the rule
 * cannot know better. */
qf_status qf_infer(qf_infer_call *call);
/* The rule in ops.def is `given`: result types are written, not inferred. */
bool qf_infer_is_given(qf_op op);

/* Types of every node again, in order, after assumed equalities were substituted: opaque and derived symbols give way
 * to input symbols, those to literals. Guards stay in the symbols that they were recorded in. At most 4 rounds. */
qf_status qf_graph_infer_all(qf_graph *graph);
/* The same where guards still have something to say of the graph's types, else nothing: cheap to call again and again.
 */
qf_status qf_graph_apply_guards(qf_graph *graph, bool *out_changed);

/* Integer, bool and shape values of up to 256 elements as dims (bool: 0 or 1), computed on demand and remembered.
 * Covers constants, symbolic, shape_of, arithmetic, comparisons, where, gather, slice, concat, layout ops, casts,
 * reductions. */
typedef struct qf_symbolic qf_symbolic;
qf_symbolic *qf_symbolic_create(qf_graph *graph); /* 0 on failure */
void qf_symbolic_destroy(qf_symbolic *symbolic);
/* False when the elements are not known. `*out_elements` (row-major) lives as long as the analysis. */
bool qf_symbolic_elements(qf_symbolic *symbolic, qf_value value, const qf_dim **out_elements, uint32_t *out_count);

#endif
