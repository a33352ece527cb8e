/* Owns: what a pass is, the options of a pipeline, and the manager's entry points.
 * Does not own: the passes (one file each), the public API over it (qfuse/pass.h).
 * Next: passes.def, manager.c. */
#ifndef QF_PASSES_PASS_H
#define QF_PASSES_PASS_H

#include "patterns/report.h"
#include "spec/kernels.h"

/* How insert-query-quant finds a scale where the graph has none for q. */
typedef enum qf_query_scale {
    QF_QUERY_SCALE_GRAPH = 0,
    QF_QUERY_SCALE_UNIT = 1,
    QF_QUERY_SCALE_DYNAMIC = 2
} qf_query_scale;

/* Computes one node with constant operands for `fold`: the run-time half's CPU device by default. `out` has its type
 * and size set and room for the bytes. */
typedef qf_status (*qf_evaluate)(void *user, const qf_graph *graph, qf_node node, const qf_literal *const *operands,
                                 qf_literal *const *out);

typedef struct qf_pass_options {
    qf_numerics numerics;
    const qf_target_info *target; /* never NULL */
    qf_query_scale query_scale;
    qf_evaluate evaluate;
    void *evaluate_user;
} qf_pass_options;

typedef struct qf_pass_call {
    qf_graph *graph;
    const qf_pass_options *options;
    qf_report *report;
    bool changed; /* set by the pass */
} qf_pass_call;

/* A pass leaves the graph verified, is deterministic and idempotent. On failure the manager restores the graph. */
typedef qf_status (*qf_pass_function)(qf_pass_call *call);

/* passes.def: PASS(name_with_underscores, "name-in-text", "doc") -> qf_pass_<name>. */

#endif
