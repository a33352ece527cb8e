/* Owns: running a graph node by node, every value observable: the oracle that rewrites are judged by.
 * Does not own: plans and executors (compile.c, runtime/), the kernels (kernels/).
 * Next: interpret.c. */
#ifndef QF_CODEGEN_INTERPRET_H
#define QF_CODEGEN_INTERPRET_H

#include <qfuse/tensor.h>

#include "ir/graph.h"

typedef struct qf_interpreter qf_interpreter;

/* `graph` must outlive it and not change while it is used. 0 on failure. */
qf_interpreter *qf_interpreter_create(const qf_graph *graph, uint32_t thread_count);
void qf_interpreter_destroy(qf_interpreter *interpreter);

/* Gives graph input `index` its tensor (borrowed until destroyed) and binds the symbols of its dims. A size that
 * contradicts an earlier one fails with QF_ERROR_GUARD. */
qf_status qf_interpreter_bind_input(qf_interpreter *interpreter, uint32_t index, const qf_tensor *tensor);
/* Gives a value to a symbol that no input has for a dim by itself. */
qf_status qf_interpreter_bind_symbol(qf_interpreter *interpreter, qf_dim_symbol symbol, int64_t value);
/* The dim with the symbols that are bound so far; false where that is not enough. */
bool qf_interpreter_dim(qf_interpreter *interpreter, qf_dim dim, int64_t *out_size);
/* Gives any value its tensor (borrowed): its producer is then not run. */
qf_status qf_interpreter_override(qf_interpreter *interpreter, qf_value value, const qf_tensor *tensor);
/* Symbols as in `other`, an interpreter of the same context. */
void qf_interpreter_copy_symbols(qf_interpreter *interpreter, const qf_interpreter *other);

/* Runs the nodes whose results are not there yet. With `needed` (one flag for each node id) only those. An opaque op
 * that is reached fails with QF_ERROR_UNSUPPORTED. */
qf_status qf_interpreter_run(qf_interpreter *interpreter, const bool *needed);
/* The tensor of a value, valid as long as the interpreter; false when it has none. */
bool qf_interpreter_value(const qf_interpreter *interpreter, qf_value value, qf_tensor *out_tensor);

#endif
