/* Owns: random inputs of a graph.
 * Does not own: tensors (tensors.h).
 * Next: inputs.c. */
#ifndef QF_TOOLS_INPUTS_H
#define QF_TOOLS_INPUTS_H

#include "tools/tensors.h"

/* Input `index` of the graph: sizes by tool_symbol_extent; floats about normal; integers that index stay within the
 * axis that they index, lengths within what they count, starts of packed rows rise to their total; others are 0 or 1.
 * Follows layout ops, casts and concatenations. Reproducible by --seed. False after a message; freed by tensor_free
 * either way. */
bool random_input(qf_tool *tool, const qf_graph *graph, uint32_t index, qf_tensor *out);
/* After a run on random inputs failed: one note that says with which sizes. */
void random_inputs_note(qf_tool *tool, const qf_graph *graph);

#endif
