/* Owns: asking the capability table about a node, built or still planned.
 * Does not own: the table and the answer (spec/kernels.h).
 * Next: capability.c. */
#ifndef QF_IR_CAPABILITY_H
#define QF_IR_CAPABILITY_H

#include "ir/graph.h"
#include "spec/kernels.h"

/* A node by its parts. Operand and result types in table order; 0: absent. */
typedef struct qf_capability_query {
    qf_op op;
    const qf_type *operands, *results;
    uint32_t operand_count, result_count;
    const qf_attribute *attributes;
} qf_capability_query;

/* The kernel row that runs the node on the target, or NULL with the reason in one line. `return` needs no kernel and
 * has no row: ask qf_node_is_runnable. */
const qf_kernel_row *qf_capability_select(const qf_context *context, const qf_capability_query *query, qf_target target,
                                          char *reason, size_t reason_size);
const qf_kernel_row *qf_node_kernel(const qf_graph *graph, qf_node node, qf_target target, char *reason,
                                    size_t reason_size);
/* True where the target has a kernel for the node, or none is needed. */
bool qf_node_is_runnable(const qf_graph *graph, qf_node node, qf_target target, char *reason, size_t reason_size);

/* The form in which rules and passes ask, so that a host may answer for a target of its own. */
typedef bool (*qf_capability_function)(void *user, const qf_context *context, const qf_capability_query *query,
                                       char *reason, size_t reason_size);

#endif
