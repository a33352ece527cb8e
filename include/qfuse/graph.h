/* Owns: the public graph: handles, building, reading, text form, DOT.
 * Does not own: passes (pass.h), frontends (frontend.h), plans (plan.h).
 * Next: pass.h; docs/ir.md for the language, docs/ops.md for every op. */
#ifndef QFUSE_GRAPH_H
#define QFUSE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qfuse/context.h>
#include <qfuse/dtype.h>
#include <qfuse/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A straight-line graph of tensor ops. Belongs to the context it was made in; destroy it before the context. */
typedef struct qf_graph qf_graph;

/* Ids within one graph; 0 = none. They stay valid until the graph is destroyed; the id of an erased node is never
 * reused. */
typedef struct qf_node {
    uint32_t id;
} qf_node;
typedef struct qf_value {
    uint32_t id;
} qf_value;

/* An empty graph. On failure *out_graph is NULL. */
QF_API QF_MUST_USE qf_status qf_graph_create(qf_context *context, const char *name, qf_graph **out_graph);
/* NULL is allowed. */
QF_API void qf_graph_destroy(qf_graph *graph);

#ifdef __cplusplus
}
#endif

#endif
