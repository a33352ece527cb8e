/* Owns: the text report that explain and opt --remarks share.
 * Does not own: the report's data (qfuse/pass.h).
 * Next: explain.c. */
#ifndef QF_TOOLS_EXPLAIN_H
#define QF_TOOLS_EXPLAIN_H

#include "tools/tool.h"

void explain_print(FILE *out, const qf_run *run);

#endif
