/* Owns: nodes that hold other operators: subgraphs and functionalised calls.
 * Does not own: the operators inside (nodes.c, customs.c).
 * Next: functional.c. */
#ifndef QF_FRONTENDS_PT2_FUNCTIONAL_H
#define QF_FRONTENDS_PT2_FUNCTIONAL_H

#include "frontends/pt2/import.h"

bool qf_pt2_is_higher_order(const char *target);
qf_pt2_outcome qf_pt2_map_higher_order(qf_pt2_call *call);

#endif
