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

/* The key for a cache of plans: covers the graph's text (names, dtypes, shapes, constants, weights' hashes), rules,
 * pipeline, target, numerics and the library's version. options->source is ignored. */
QF_API QF_MUST_USE qf_status qf_compile_fingerprint(const qf_graph *graph, const qf_compile_options *options,
                                                    qf_fingerprint *out_fingerprint);

#ifdef __cplusplus
}
#endif

#endif
