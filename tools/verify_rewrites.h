/* Owns: the entry point of opt --verify-rewrites.
 * Does not own: judging sites (judge.h).
 * Next: verify_rewrites.c. */
#ifndef QF_TOOLS_VERIFY_REWRITES_H
#define QF_TOOLS_VERIFY_REWRITES_H

#include "tools/tool.h"

/* Runs `before` on random inputs (sizes by --dims, numbers by --seed), judges each fused attention of `after` on the
 * same inputs, and prints a line on standard error. TOOL_DIFFERENT when a site fails its numerics class. */
int verify_rewrites(qf_tool *tool, qf_graph *before, const qf_graph *after);

#endif
