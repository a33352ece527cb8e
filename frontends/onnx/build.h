/* Owns: what mapping functions use to read a node's attributes and constants and to emit nodes.
 * Does not own: the mappings (map_*.c).
 * Next: build.c. */
#ifndef QF_FRONTENDS_ONNX_BUILD_H
#define QF_FRONTENDS_ONNX_BUILD_H

#include "frontends/emit.h"
#include "frontends/onnx/import.h"

/* Helpers that emit return 0 after a recorded failure, and given 0 for a required value return 0 in turn; mappings end
 * with qf_onnx_done, which sees that. */

/* --- the node --- */
static inline qf_value qf_onnx_in(const qf_onnx_call *call, uint32_t index) {
    return index < call->input_count ? call->inputs[index] : (qf_value){0};
}
static inline qf_graph *qf_onnx_graph(const qf_onnx_call *call) {
    return call->import->graph;
}
bool qf_onnx_wants(const qf_onnx_call *call, uint32_t output); /* the output has a name */
qf_onnx_outcome qf_onnx_done(qf_onnx_call *call, qf_value first);
qf_onnx_outcome qf_onnx_decline(qf_onnx_call *call, const char *reason);

/* Attributes of the node; the default where it has none. A wrong kind of attribute is a recorded failure. */
bool qf_onnx_has(const qf_onnx_call *call, const char *name);
int64_t qf_onnx_int(qf_onnx_call *call, const char *name, int64_t otherwise);
double qf_onnx_float(qf_onnx_call *call, const char *name, double otherwise);
qf_text qf_onnx_string(qf_onnx_call *call, const char *name, const char *otherwise);
bool qf_onnx_ints(qf_onnx_call *call, const char *name, const int64_t **out, uint32_t *out_count); /* false: absent */
const Onnx__AttributeProto *qf_onnx_attribute(const Onnx__NodeProto *node, const char *name);

/* --- values --- */
uint32_t qf_onnx_rank(const qf_onnx_call *call, qf_value value); /* QF_UNRANKED where unknown or absent */
qf_dtype qf_onnx_dtype_of(const qf_onnx_call *call, qf_value value);
qf_dim qf_onnx_dim(const qf_onnx_call *call, qf_value value, int32_t axis); /* negative ones count from the end */
/* axis made non-negative for `rank`; false when out of range, after a recorded failure. */
bool qf_onnx_axis(qf_onnx_call *call, int64_t axis, uint32_t rank, uint32_t *out);
/* The elements of a small integer tensor as dims; false where they are not known. */
bool qf_onnx_elements(qf_onnx_call *call, qf_value value, const qf_dim **out, uint32_t *out_count);
/* The same where all are constants; at most `limit` of them. */
bool qf_onnx_constants(qf_onnx_call *call, qf_value value, int64_t *out, uint32_t limit, uint32_t *out_count);
/* The number of a literal with a single element. */
bool qf_onnx_number_of(const qf_onnx_call *call, qf_value value, double *out);
/* True where the value is a literal of zeros only. */
bool qf_onnx_is_zero(const qf_onnx_call *call, qf_value value);
/* Axes from an input (opset-dependent) or attribute; all axes where neither is given. False: not known (call->reason).
 */
typedef struct qf_onnx_axes {
    int64_t items[QF_MAX_RANK];
    uint32_t count;
    bool given;
} qf_onnx_axes;
bool qf_onnx_read_axes(qf_onnx_call *call, uint32_t input, uint32_t rank, qf_onnx_axes *out);

/* --- emitting: as in frontends/emit.h --- */
static inline qf_import_target qf_onnx_target(qf_onnx_call *call) {
    return (qf_import_target){.graph = call->import->graph,
                              .location = call->location,
                              .where = call->where,
                              .failed = &call->import->failed};
}
static inline qf_value qf_onnx_cast(qf_onnx_call *call, qf_value x, qf_dtype dtype, bool saturate) {
    return qf_import_cast(qf_onnx_target(call), x, dtype, saturate);
}
static inline qf_value qf_onnx_slice_axis(qf_onnx_call *call, qf_value x, uint32_t axis, qf_dim start, qf_dim end) {
    return qf_import_slice_axis(qf_onnx_target(call), x, axis, start, end, 1);
}
static inline qf_value qf_onnx_number(qf_onnx_call *call, qf_dtype dtype, double number) {
    return qf_import_number(qf_onnx_target(call), dtype, number, true);
}
static inline qf_value qf_onnx_filled(qf_onnx_call *call, qf_dtype dtype, double number, const qf_dim *dims,
                                      uint32_t rank) {
    return qf_import_full(qf_onnx_target(call), qf_onnx_number(call, dtype, number), dims, rank);
}

/* --- emitting: build.c --- */
qf_value qf_onnx_softmax(qf_onnx_call *call, qf_value x, uint32_t axis);
/* Rounds to 16-bit types once at the end: x as f32 (f64 stays), and a result back in x's dtype. */
qf_value qf_onnx_widen(qf_onnx_call *call, qf_value x);
qf_value qf_onnx_narrow(qf_onnx_call *call, qf_value y, qf_value like);
/* True where the caller asked for the definition's own steps, and x has 16 bits. */
bool qf_onnx_is_stepwise(const qf_onnx_call *call, qf_value x);
/* x times a number in x's dtype; x itself for 1. */
qf_value qf_onnx_scale(qf_onnx_call *call, qf_value x, double factor);

/* Producers that check no types mix floats (f16 with f32): all of `values` (0: absent) in the widest of their dtypes,
 * with a warning where they differed. True when something was converted. */
bool qf_onnx_harmonise(qf_onnx_call *call, qf_value *values, uint32_t count);
/* The mapping's end where qf_onnx_harmonise converted: the first output in the float dtype that the model declares for
 * it. */
qf_onnx_outcome qf_onnx_done_mixed(qf_onnx_call *call, qf_value first, bool mixed);

/* dims, short */
qf_dim qf_onnx_constant(const qf_onnx_call *call, int64_t value);

/* A constant of up to QF_MAX_RANK axes; data are copied. */
qf_value qf_onnx_literal(qf_onnx_call *call, qf_dtype dtype, const void *data, const int64_t *sizes, uint32_t rank);

#endif
