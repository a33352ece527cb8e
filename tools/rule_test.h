/* Owns: the entry point of `qfuse rules test`.
 * Does not own: instances of rules (patterns/instance.h).
 * Next: rule_test.c. */
#ifndef QF_TOOLS_RULE_TEST_H
#define QF_TOOLS_RULE_TEST_H

#include "patterns/rules.h"
#include "tools/tool.h"

/* Runs the left side before and after the rewrite for every `test` clause, with --seed, and prints a line.
 * TOOL_DIFFERENT when a result breaks the rule's numerics class, or a clause does not match the rule's own left side.
 */
int tool_test_rule(qf_tool *tool, qf_rule *rule);

#endif
