/* Owns: the text of small tensors (values of constants), and comparing attribute values.
 * Does not own: where literals live (graph.h), element conversions (base/convert.h).
 * Next: literal.c. */
#ifndef QF_IR_LITERAL_H
#define QF_IR_LITERAL_H

#include "ir/graph.h"
#include "ir/lexer.h"

/* "f32[] 0.125", "i64[3] [1, -2, 3]", "f16[2, 40] hex \"003C...\"": numbers for up to 64 elements that read back bit
 * for bit, else the bytes in memory order. Lists are flat, row-major. */
void qf_literal_print(qf_buffer *buffer, const qf_context *context, const qf_literal *literal);

/* Reads what qf_literal_print writes into `arena`. NULL after a fault. Memory is bounded by the size of the text. */
const qf_literal *qf_literal_parse(qf_lexer *lexer, qf_arena *arena);

/* Bit for bit, also for floats. */
bool qf_attribute_equal(qf_attribute_kind kind, const qf_attribute *a, const qf_attribute *b);

#endif
