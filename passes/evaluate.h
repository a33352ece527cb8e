/* Owns: attributes as the run-time half takes them; the evaluator that `fold` uses by default: one op on the CPU.
 * Does not own: the kernels (the run-time half, through qf_op_run); whole graphs (codegen/interpret.h).
 * Next: evaluate.c. */
#ifndef QF_PASSES_EVALUATE_H
#define QF_PASSES_EVALUATE_H

#include <qfuse/runtime.h>

#include "passes/pass.h"

/* The attribute with its dims evaluated through `lookup` (NULL: only constant ones). `list`: room for the `capacity`
 * items of a DIMS attribute; it, the graph and the attribute must outlive *out. False: a dim has no value, or the list
 * no room. */
bool qf_evaluate_attribute(const qf_context *context, qf_attribute_kind kind, const qf_attribute *attribute,
                           qf_symbol_lookup lookup, void *user, int64_t *list, uint32_t capacity, qf_op_attribute *out);

/* A qf_evaluate; `user` is not looked at. Nodes with symbolic attributes are refused with QF_ERROR_UNSUPPORTED. */
qf_status qf_evaluate_on_cpu(void *user, const qf_graph *graph, qf_node node, const qf_literal *const *operands,
                             qf_literal *const *out);

#endif
