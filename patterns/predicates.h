/* Owns: what a named predicate of the rule language sees and may do.
 * Does not own: the predicates (predicates.def, predicates.c).
 * Next: predicates.def. */
#ifndef QF_PATTERNS_PREDICATES_H
#define QF_PATTERNS_PREDICATES_H

#include "patterns/rule.h"

/* An argument at match time. */
typedef struct qf_predicate_argument {
    qf_value value;          /* VALUE; 0: an optional one that is absent */
    qf_attribute *attribute; /* VARIABLE, NUMBER (in `number`), or where an output goes */
    qf_attribute_kind kind;  /* of the attribute */
    qf_string name;          /* NAME */
} qf_predicate_argument;

typedef struct qf_predicate_call {
    qf_graph *graph;
    const qf_predicate_argument *arguments;
    uint32_t argument_count;
} qf_predicate_call;

typedef bool (*qf_predicate)(const qf_predicate_call *call);

/* signature: one letter an argument: v value, a attribute variable or number, n name, o output variable; a letter after
 * ':' is the kind of the output: f FLOAT, d DTYPE, i INT, l INTS, s DIMS, t STRING, b BOOL. */
typedef struct qf_predicate_info {
    const char *name, *signature, *doc;
    qf_reason reason;
    qf_predicate function;
} qf_predicate_info;

const qf_predicate_info *qf_predicate_find(qf_text name); /* NULL: unknown */

/* --- facts that predicates share with other C code --- */
/* The value is one number everywhere and known: constants, `full`, and layout or casts of them. */
bool qf_value_uniform(const qf_graph *graph, qf_value value, double *out_number);
/* Exactly one element, whatever the rank. */
bool qf_value_is_scalar(const qf_graph *graph, qf_value value);
/* Equal by construction: the same value, or equal pure nodes over equal operands (to a bounded depth). */
bool qf_values_equal(const qf_graph *graph, qf_value a, qf_value b);
/* Of one element each: equal by construction, or known numbers that are equal, of one type. */
bool qf_scales_equal(const qf_graph *graph, qf_value a, qf_value b);
bool qf_attributes_equal(const qf_attribute_info *info, const qf_attribute *a, const qf_attribute *b);
/* Result element i depends on element i of `operand` and on nothing else but single elements: layout ops commute with
 * it. */
bool qf_node_is_pointwise(const qf_graph *graph, qf_node node, uint32_t operand);
/* One operand whose elements it moves, drops or repeats; may be replayed behind a pointwise op. */
bool qf_op_is_replayable(qf_op op);
/* Every number of `from` is a number of `to`. */
bool qf_dtype_widens(qf_dtype from, qf_dtype to);

#endif
