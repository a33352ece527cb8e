/* Owns: asking the capability table about a node.
 * Does not own: the table and the answer (spec/kernels.h).
 * Next: capability.c. */
#ifndef QF_IR_CAPABILITY_H
#define QF_IR_CAPABILITY_H

#include "ir/graph.h"
#include "spec/kernels.h"

/* The kernel row that runs the node on the target, or NULL with the reason in one line. `return` needs no kernel and
 * has no row: ask qf_node_is_runnable. */
const qf_kernel_row *qf_node_kernel(const qf_graph *graph, qf_node node, qf_target target, char *reason,
                                    size_t reason_size);
/* The same over given rows: whether one kernel takes the node. */
const qf_kernel_row *qf_node_kernel_from(const qf_graph *graph, qf_node node, const qf_kernel_row *rows,
                                         uint32_t row_count, qf_target target, char *reason, size_t reason_size);
/* True where the target has a kernel for the node, or none is needed. */
bool qf_node_is_runnable(const qf_graph *graph, qf_node node, qf_target target, char *reason, size_t reason_size);

#endif
