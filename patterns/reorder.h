/* Owns: keeping the list topological when a rewrite replaces a value that is used before the place of the new nodes.
 * Does not own: the rewrite (rewrite.c).
 * Next: reorder.c. */
#ifndef QF_PATTERNS_REORDER_H
#define QF_PATTERNS_REORDER_H

#include "patterns/match.h"

typedef struct qf_reorder {
    qf_graph *graph;
    const qf_match *match;
    qf_node after;        /* moved nodes go behind it; the new nodes stand right before it */
    const qf_value *made; /* by rule value */
    /* out */
    qf_node *moved; /* in their order */
    uint32_t moved_count, moved_capacity;
    qf_node blocking;
    bool failed; /* out of memory */
} qf_reorder;

/* Finds the users of replaced values, and what depends on them, that stand before `after`. False where one of them
 * feeds the rewrite itself: then no order exists. */
bool qf_reorder_plan(qf_reorder *order);
/* Moves them behind `after` and frees the plan. */
void qf_reorder_commit(qf_reorder *order);
void qf_reorder_destroy(qf_reorder *order);

#endif
