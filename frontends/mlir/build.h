/* Owns: what mapping functions use to read an operation's attributes and to emit nodes.
 * Does not own: the mappings (map_*.c).
 * Next: attributes.c, printed.c, build.c. */
#ifndef QF_FRONTENDS_MLIR_BUILD_H
#define QF_FRONTENDS_MLIR_BUILD_H

#include <string.h>

#include "frontends/emit.h"
#include "frontends/mlir/import.h"

/* Helpers that emit return 0 after a recorded failure, and given 0 for a required value return 0 in turn; mappings end
 * with qf_mlir_done, which sees that. */

static inline MlirStringRef qf_mlir_string(const char *text) {
    MlirStringRef string = {text, strlen(text)};
    return string;
}
static inline qf_text qf_mlir_text_of(MlirStringRef string) {
    qf_text text = {string.data, string.length};
    return text;
}
static inline qf_text qf_mlir_name(MlirOperation operation) { /* "stablehlo.add" */
    return qf_mlir_text_of(mlirIdentifierStr(mlirOperationGetName(operation)));
}
static inline bool qf_mlir_is(MlirOperation operation, const char *name) { /* false for none */
    return !mlirOperationIsNull(operation) && qf_text_is(qf_mlir_name(operation), name);
}

/* --- attributes by name (attributes.c) --- */
MlirAttribute qf_mlir_attribute(MlirOperation operation, const char *name); /* null: absent */
bool qf_mlir_has(const qf_mlir_call *call, const char *name);
int64_t qf_mlir_int(const qf_mlir_call *call, const char *name, int64_t otherwise);
bool qf_mlir_bool(const qf_mlir_call *call, const char *name, bool otherwise);
double qf_mlir_number(const qf_mlir_call *call, const char *name, double otherwise);
qf_text qf_mlir_symbol_name(MlirOperation operation, const char *name); /* of a string or a flat symbol; "": absent */
/* A list: dense array, array of integers, or dense elements. False: absent, something else, or longer than `limit`. */
bool qf_mlir_ints(const qf_mlir_call *call, const char *name, int64_t *out, uint32_t limit, uint32_t *out_count);
/* The printed form, in scratch memory; NULL: absent, or a failure. */
const char *qf_mlir_printed(qf_mlir_call *call, const char *name);

/* --- parts of printed attributes (printed.c) --- */
/* "[1, 2]" or "1" after `key =` in "#dialect.name<key = [1, 2], ...>". False where the key is not there: a list is
 * empty then. */
bool qf_mlir_printed_ints(const char *text, const char *key, int64_t *out, uint32_t limit, uint32_t *out_count);
int64_t qf_mlir_printed_int(const char *text, const char *key, int64_t otherwise);
/* Whether "#dialect<kind WORD>" holds the word, or "<WORD>". */
bool qf_mlir_printed_word(const char *text, const char *word);
/* affine_map<(d0, d1, d2) -> (d0, d2)> as places: results[i] is the number of the dim. False: something else. */
bool qf_mlir_printed_map(const char **text, int64_t *results, uint32_t limit, uint32_t *out_count);
/* A field of JSON text: what follows "key":, spaces skipped; NULL where the key is not there. */
const char *qf_mlir_json_field(const char *text, const char *key);

/* --- outcomes --- */
qf_mlir_outcome qf_mlir_done(qf_mlir_call *call, qf_value first);
qf_mlir_outcome qf_mlir_decline(qf_mlir_call *call, const char *reason);

/* --- values --- */
static inline qf_graph *qf_mlir_graph(const qf_mlir_call *call) {
    return call->import->graph;
}
static inline qf_value qf_mlir_in(const qf_mlir_call *call, uint32_t index) {
    return index < call->operand_count ? call->operands[index] : (qf_value){0};
}
qf_type qf_mlir_result_type(qf_mlir_call *call, uint32_t index); /* as declared; 0 after a failure */
qf_dtype qf_mlir_result_dtype(qf_mlir_call *call);               /* of the first result */
/* Dims of the first result where all are constants. False: dynamic, or unranked. */
bool qf_mlir_result_dims(qf_mlir_call *call, const qf_dim **out_dims, uint32_t *out_rank);
uint32_t qf_mlir_rank(const qf_mlir_call *call, qf_value value); /* QF_UNRANKED where unknown or absent */
qf_dtype qf_mlir_dtype_of(const qf_mlir_call *call, qf_value value);
qf_dim qf_mlir_dim_of(const qf_mlir_call *call, qf_value value, uint32_t axis);
qf_dim qf_mlir_constant(const qf_mlir_call *call, int64_t value);
/* The number that all elements of a constant are. False: not a constant, or different ones. */
bool qf_mlir_uniform(const qf_mlir_call *call, qf_value value, double *out_number);

/* --- emitting --- */
static inline qf_import_target qf_mlir_target(qf_mlir_call *call) {
    return QF_IMPORT_TARGET(call);
}
/* As XLA and MLIR convert: FP8 does not saturate. */
static inline qf_value qf_mlir_cast(qf_mlir_call *call, qf_value x, qf_dtype dtype) {
    return x.id ? qf_import_cast(qf_mlir_target(call), x, dtype, false) : x;
}
static inline qf_value qf_mlir_scalar(qf_mlir_call *call, qf_dtype dtype, double number) {
    return qf_import_number(qf_mlir_target(call), dtype, number, false);
}
static inline void qf_mlir_defaults(const qf_mlir_call *call, qf_op op, qf_attribute *attributes) {
    qf_attributes_default(qf_mlir_graph(call), op, attributes);
}
/* build.c; x itself where nothing would change. */
qf_value qf_mlir_permute(qf_mlir_call *call, qf_value x, const int64_t *order, uint32_t rank);
/* x's axis i is the result's axis axes[i]; the other axes of `dims` repeat it. */
qf_value qf_mlir_spread(qf_mlir_call *call, qf_value x, const int64_t *axes, uint32_t count, const qf_dim *dims,
                        uint32_t rank);
qf_value qf_mlir_squeeze_all(qf_mlir_call *call, qf_value x); /* one element, of whatever rank, as [] */
/* Labels of a contraction: result axes in the order of `result`. f32 accumulation, given as `out`. */
qf_value qf_mlir_contract(qf_mlir_call *call, const char *equation, qf_value a, qf_value b, qf_dtype out);

#endif
