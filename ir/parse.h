/* Owns: the state that the files of the text parser share.
 * Does not own: the entry point (text.h), tokens (lexer.h).
 * Next: parse.c, parse_attribute.c. */
#ifndef QF_IR_PARSE_H
#define QF_IR_PARSE_H

#include "ir/graph.h"
#include "ir/lexer.h"

/* A value's spelling: its name, or the number of an unnamed one (as text). */
typedef struct qf_parse_name {
    qf_string text;
    bool numbered;
    qf_value value;
    uint32_t line;
} qf_parse_name;

typedef struct qf_parser {
    qf_lexer lexer;
    qf_context *context;
    qf_graph *graph;
    qf_arena scratch;     /* attribute lists and literals until the graph has copied them */
    qf_parse_name *names; /* index 0 unused */
    uint32_t name_count, name_capacity;
    qf_index name_index;
    uint64_t previous_tag;
    /* the statement being read */
    qf_value *operands;
    uint32_t operand_count, operand_capacity;
    qf_string *operand_names; /* names of a return's operands */
    uint32_t operand_name_capacity;
    qf_token *results;
    uint32_t result_count, result_capacity;
    qf_type *types;
    uint32_t type_count, type_capacity;
} qf_parser;

/* Each reads at the cursor and gives false after a fault. */
bool qf_parse_attributes(qf_parser *parser, const qf_op_info *info, const qf_token *op, qf_attribute *attributes);
bool qf_parse_location(qf_parser *parser, qf_location *out_location);
bool qf_parse_type(qf_parser *parser, qf_type *out_type);
bool qf_parse_dim(qf_parser *parser, const char *what, qf_dim *out_dim);

#endif
