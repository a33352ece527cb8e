/* Owns: what mapping functions use to read a node's arguments and to emit nodes.
 * Does not own: the mappings (map_*.c).
 * Next: build.c, arguments.c. */
#ifndef QF_FRONTENDS_PT2_BUILD_H
#define QF_FRONTENDS_PT2_BUILD_H

#include "frontends/emit.h"
#include "frontends/pt2/import.h"

/* Helpers that emit return 0 after a recorded failure, and given 0 for a required value return 0 in turn; mappings end
 * with qf_pt2_done, which sees that. */

/* --- arguments by name (arguments.c); what is absent or None gives the default --- */
static inline qf_graph *qf_pt2_graph(const qf_pt2_call *call) {
    return call->import->graph;
}
bool qf_pt2_has(const qf_pt2_call *call, const char *name);           /* given, and not None */
uint32_t qf_pt2_tensor_argument(qf_pt2_call *call, const char *name); /* 0: absent */
qf_value qf_pt2_in(qf_pt2_call *call, const char *name);              /* its value now; 0: absent */
bool qf_pt2_is_number(const qf_pt2_call *call, const char *name);
bool qf_pt2_is_symbolic(const qf_pt2_call *call, const char *name); /* one that only a run tells */
/* Where it is symbolic these give `otherwise`, and the node becomes opaque. */
double qf_pt2_number(const qf_pt2_call *call, const char *name, double otherwise);
int64_t qf_pt2_int(const qf_pt2_call *call, const char *name, int64_t otherwise);
bool qf_pt2_bool(const qf_pt2_call *call, const char *name, bool otherwise);
const char *qf_pt2_string(const qf_pt2_call *call, const char *name, const char *otherwise);
/* An integer that may be symbolic. False: absent, or no integer. */
bool qf_pt2_dim(qf_pt2_call *call, const char *name, qf_dim *out);
/* A list of such; a single one counts as a list of one. False: absent, or longer than `limit`. */
bool qf_pt2_dims(qf_pt2_call *call, const char *name, qf_dim *out, uint32_t limit, uint32_t *out_count);
/* The sizes of a tensor that is complex where the call is: with the last axis that the program does not count. */
bool qf_pt2_sizes(qf_pt2_call *call, const char *name, qf_dim *out, uint32_t limit, uint32_t *out_count);
/* The same as qf_pt2_dims where all are constants. */
bool qf_pt2_ints(qf_pt2_call *call, const char *name, int64_t *out, uint32_t limit, uint32_t *out_count);
/* A list of tensors, in scratch memory; 0 for None. False: absent, or a failure. */
bool qf_pt2_tensors(qf_pt2_call *call, const char *name, uint32_t **out, uint32_t *out_count);
/* The tensors of one argument of the node, {"arg": ...}: none, one or a list. False after a failure. */
bool qf_pt2_tensors_of(qf_pt2_call *call, const json_t *argument, uint32_t **out, uint32_t *out_count);
/* The dtype of a scalar type argument. False: given, but unknown to QFuse. */
bool qf_pt2_dtype_argument(const qf_pt2_call *call, const char *name, qf_dtype otherwise, qf_dtype *out);

/* --- outcomes --- */
bool qf_pt2_wants(const qf_pt2_call *call, uint32_t output);
qf_pt2_outcome qf_pt2_done(qf_pt2_call *call, qf_value first);
qf_pt2_outcome qf_pt2_decline(qf_pt2_call *call, const char *reason);

/* --- values --- */
uint32_t qf_pt2_rank(const qf_pt2_call *call, qf_value value); /* QF_UNRANKED where unknown or absent */
qf_dtype qf_pt2_dtype_of(const qf_pt2_call *call, qf_value value);
qf_dim qf_pt2_dim_of(const qf_pt2_call *call, qf_value value, int32_t axis); /* negative ones count from the end */
qf_dim qf_pt2_constant(const qf_pt2_call *call, int64_t value);
/* axis made non-negative for `rank` (a scalar has the axes -1 and 0), which counts the last axis of complex values;
 * false when out of range, after a failure. */
bool qf_pt2_axis(qf_pt2_call *call, int64_t axis, uint32_t rank, uint32_t *out);
/* Axes of an argument, sorted, each once; all where it is absent or an empty list. False: out of range, after a
 * failure. */
typedef struct qf_pt2_axes {
    int64_t items[QF_MAX_RANK];
    uint32_t count;
} qf_pt2_axes;
bool qf_pt2_names_no_axes(qf_pt2_call *call, const char *name); /* an empty list */
bool qf_pt2_read_axes(qf_pt2_call *call, const char *name, uint32_t rank, qf_pt2_axes *out);

/* --- emitting: as in frontends/emit.h --- */
static inline qf_import_target qf_pt2_target(qf_pt2_call *call) {
    return QF_IMPORT_TARGET(call);
}
/* As torch does: FP8 does not saturate. */
static inline qf_value qf_pt2_cast(qf_pt2_call *call, qf_value x, qf_dtype dtype) {
    return x.id ? qf_import_cast(qf_pt2_target(call), x, dtype, false) : x;
}
static inline qf_value qf_pt2_reduce(qf_pt2_call *call, qf_op op, qf_value x, const int64_t *axes, uint32_t count,
                                     bool keep) {
    return count ? qf_import_reduce(qf_pt2_target(call), op, x, axes, count, keep) : x;
}
static inline qf_value qf_pt2_binary(qf_pt2_call *call, qf_op op, qf_value a, qf_value b) {
    return qf_import_binary(qf_pt2_target(call), op, a, b);
}
static inline qf_value qf_pt2_matmul(qf_pt2_call *call, qf_value a, qf_value b, bool swap_b) {
    return qf_import_matmul(qf_pt2_target(call), a, b, false, swap_b);
}
static inline qf_value qf_pt2_scalar(qf_pt2_call *call, qf_dtype dtype, double number) {
    return qf_import_number(qf_pt2_target(call), dtype, number, false);
}
static inline qf_value qf_pt2_filled(qf_pt2_call *call, qf_dtype dtype, double number, const qf_dim *dims,
                                     uint32_t rank) {
    return qf_import_full(qf_pt2_target(call), qf_pt2_scalar(call, dtype, number), dims, rank);
}
static inline qf_value qf_pt2_symbolic(qf_pt2_call *call, qf_dim dim) { /* i64[] */
    return qf_import_symbolic(qf_pt2_target(call), &dim, 1, true);
}

/* --- emitting: build.c --- */
/* Whether the value is one number, under whatever shape; that number as f32 [], 0 where it is none. */
bool qf_pt2_is_single(const qf_pt2_call *call, qf_value value);
qf_value qf_pt2_single(qf_pt2_call *call, qf_value value);
void qf_pt2_defaults(const qf_pt2_call *call, qf_op op, qf_attribute *attributes);
qf_value qf_pt2_bitcast(qf_pt2_call *call, qf_value x, qf_dtype dtype);
/* x itself where nothing would change. */
qf_value qf_pt2_permute(qf_pt2_call *call, qf_value x, const int64_t *order, uint32_t rank);
qf_value qf_pt2_swap(qf_pt2_call *call, qf_value x, uint32_t a, uint32_t b);
qf_value qf_pt2_concat(qf_pt2_call *call, const qf_value *parts, uint32_t count, uint32_t axis);
qf_value qf_pt2_slice_axis(qf_pt2_call *call, qf_value x, uint32_t axis, qf_dim start, qf_dim end, int64_t step);
/* x with start to end along axis replaced by part. */
qf_value qf_pt2_put_part(qf_pt2_call *call, qf_value x, qf_value part, uint32_t axis, qf_dim start, qf_dim end);
qf_value qf_pt2_unsqueeze(qf_pt2_call *call, qf_value x, uint32_t axis);
qf_value qf_pt2_squeeze(qf_pt2_call *call, qf_value x, uint32_t axis);
qf_value qf_pt2_vector(qf_pt2_call *call, qf_value x);              /* all elements along one axis; of known rank */
qf_value qf_pt2_like(qf_pt2_call *call, qf_value x, double number); /* x's type filled */

#endif
