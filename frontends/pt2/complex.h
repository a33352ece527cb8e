/* Owns: which nodes are of complex numbers, and how those are mapped.
 * Does not own: operators that never see any (map_*.c).
 * Next: map_complex.c. */
#ifndef QF_FRONTENDS_PT2_COMPLEX_H
#define QF_FRONTENDS_PT2_COMPLEX_H

#include "frontends/pt2/import.h"

/* The program says that a result is complex. */
bool qf_pt2_gives_complex(const qf_pt2_call *call, uint32_t output);
/* It reads or gives complex tensors. */
bool qf_pt2_is_of_complex(qf_pt2_call *call);
/* In place of the mapping of its row. */
qf_pt2_outcome qf_pt2_map_complex(qf_pt2_call *call);

#endif
