/* Owns: forgetting the macros of ops.def after an expansion.
 * Does not own: the table (ops.def).
 * Next: spec.h. No include guard: included after every expansion of ops.def. */
#undef OPERANDS
#undef RESULTS
#undef ATTRIBUTES
#undef IN
#undef OPT
#undef MANY
#undef OUT
#undef MAYBE
#undef SEVERAL
#undef REQUIRED
#undef BOOL
#undef INT
#undef FLOAT
#undef DTYPE
#undef DIM
#undef STRING_
#undef ENUMERATED
#undef OP
