/* Owns: the declaration of the rule files that the build embeds (patterns/rules/).
 * Does not own: their text; cmake/QFuseRules.cmake writes the definition.
 * Next: engine.c. */
#ifndef QF_PATTERNS_EMBEDDED_H
#define QF_PATTERNS_EMBEDDED_H

#include <stddef.h>

typedef struct qf_embedded_rule_file {
    const char *name; /* "rules/raise_quantise.rules" */
    const char *text;
    size_t size;
} qf_embedded_rule_file;

extern const qf_embedded_rule_file qf_embedded_rule_files[];
extern const size_t qf_embedded_rule_file_count;

#endif
