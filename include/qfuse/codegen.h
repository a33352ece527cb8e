/* Owns: making a plan from a graph, and the fingerprint that names the result.
 * Does not own: passes (pass.h), plans (plan.h), running them (runtime.h).
 * Next: plan.h. */
#ifndef QFUSE_CODEGEN_H
#define QFUSE_CODEGEN_H

#include <qfuse/graph.h>
#include <qfuse/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qf_compile_options {
    size_t struct_size;
    const char *target;           /* a row of spec/target.def; NULL: "cpu" */
    const char *pipeline;         /* text of the pipeline that the graph went or will go through; NULL: "" */
    const char *numerics;         /* its numerics class; NULL: "default" */
    const char *rules;            /* text of the rules in use, or anything that changes with it; NULL: "" */
    const qf_fingerprint *source; /* fingerprint taken before the pipeline ran; NULL: taken of the graph as it is now */
} qf_compile_options;

/* Lowers a verified graph: chooses a kernel for every node, places every value in memory, turns dims into expressions.
 * The graph is only read. Nodes without a kernel (opaque ops) compile; running the plan names them. Weights that the
 * host bound to the graph by name stay borrowed by the plan and must outlive its executors; they are not saved with it.
 * On failure *out_plan is NULL and a located diagnostic says why. `options` may be NULL. */
QF_API QF_MUST_USE qf_status qf_compile(const qf_graph *graph, const qf_compile_options *options, qf_plan **out_plan);

/* Lowers one node of a verified graph to a plan of its own, so that a host which compiles everything else itself can
 * call a fused attention as a function. The graph is only read.
 *
 * The plan's inputs are the node's operands that are given, in operand order, under their declared names (docs/ops.md):
 * "q", "k", "out_scale"; items of a list are "parts.0", "parts.1". Operands that are constants are carried by the plan;
 * those that are parameters are parameters of the plan. A value that stands at two operands is two inputs. The outputs
 * are the node's results under their declared names ("out", "lse"); qf_plan_output says which input's memory an output
 * may share (a KV cache). qf_node_named_operand leads from an input's name back to the value of the graph.
 *
 * Symbols keep their names and facts; assumed equalities are checked where the inputs' shapes determine them, the rest
 * remains with the graph's owner. A symbol that stands in attributes alone is bound by qf_executor_bind_symbol.
 *
 * Calling it: one executor a thread and device (runtime.h), made once with options.device and options.stream; for each
 * call bind the tensors' pointers (qf_tensor.device_type, device_id), then qf_executor_run. Nothing is copied.
 *
 * QF_ERROR_INVALID_ARGUMENT: no node of the graph, or one that computes nothing (return, constant, parameter);
 * QF_ERROR_UNSUPPORTED: an opaque node, or one that no kernel of the target runs. Weights that the host bound to the
 * graph stay borrowed, as in qf_compile. */
QF_API QF_MUST_USE qf_status qf_compile_site(const qf_graph *graph, qf_node node, const qf_compile_options *options,
                                             qf_plan **out_plan);

/* The key for a cache of plans: covers the graph's text (names, dtypes, shapes, constants, weights' hashes), rules,
 * pipeline, target, numerics and the library's version. options->source is ignored. */
QF_API QF_MUST_USE qf_status qf_compile_fingerprint(const qf_graph *graph, const qf_compile_options *options,
                                                    qf_fingerprint *out_fingerprint);

#ifdef __cplusplus
}
#endif

#endif
