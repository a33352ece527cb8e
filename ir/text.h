/* Owns: entry points of the text form and of DOT.
 * Does not own: the language (docs/ir.md).
 * Next: parse.c, print.c, dot.c. */
#ifndef QF_IR_TEXT_H
#define QF_IR_TEXT_H

#include "ir/graph.h"

/* Limits on what the parser accepts; larger inputs fail with QF_ERROR_LIMIT. */
#define QF_TEXT_MAX_BYTES ((size_t)1 << 30)
#define QF_TEXT_MAX_DEPTH 64

/* Parses one graph. Reports several faults, each with file:line:column and the source line; 0 after any error.
 * `file_name` is for locations ("<stdin>"). The result is verified. */
qf_graph *qf_graph_parse(qf_context *context, qf_text text, const char *file_name);
/* parse(print(g)) prints the same text again. */
void qf_graph_print(qf_buffer *buffer, const qf_graph *graph);
void qf_node_print(qf_buffer *buffer, const qf_graph *graph, qf_node node); /* one line, no newline */
/* One attribute value as the text form writes it. */
void qf_attribute_print(qf_buffer *buffer, const qf_graph *graph, const qf_attribute_info *info,
                        const qf_attribute *attribute);
void qf_graph_print_dot(qf_buffer *buffer, const qf_graph *graph);

#endif
