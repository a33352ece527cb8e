/* Owns: what the parts of canonicalize share.
 * Does not own: the driver (canonicalize.c).
 * Next: canonicalize.c. */
#ifndef QF_PASSES_CANONICALIZE_H
#define QF_PASSES_CANONICALIZE_H

#include "ir/infer.h"
#include "passes/pass.h"

/* Each looks at one node; true when it changed the graph (the node may be gone). */
bool qf_canonicalize_layout(qf_graph *graph, qf_node node);
bool qf_canonicalize_broadcast(qf_graph *graph, qf_node node);
bool qf_canonicalize_shape(qf_graph *graph, qf_symbolic *symbolic, qf_node node);

/* Inserts `spec` in place of the node, which gives it location, tag and name. False on failure. */
bool qf_replace_by_node(qf_graph *graph, qf_node node, const qf_node_spec *spec);

#endif
