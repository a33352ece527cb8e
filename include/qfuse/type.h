/* Owns: tensor types and dims of the public API: making them from text and numbers, reading them.
 * Does not own: element types (dtype.h), graphs (graph.h).
 * Next: graph.h; docs/ir.md says how types and dims are written. */
#ifndef QFUSE_TYPE_H
#define QFUSE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qfuse/context.h>
#include <qfuse/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Both live as long as their context and are compared by id: equal types have equal ids. 0 = none. Functions here are
 * for the thread that uses the context. Those that make something return 0 after a failure, which is then in
 * qf_context_status; a 0 among their arguments gives 0. */

/* The size of an axis: a constant, or a polynomial over named symbols such as 2*T + 1. */
typedef struct qf_dim {
    uint32_t id;
} qf_dim;

/* An element type and the dims of a tensor, row-major, outermost first. */
typedef struct qf_type {
    uint32_t id;
} qf_type;

#define QF_MAX_RANK 8
/* The rank of a type of which only the element type is known ("f32[*]"). */
#define QF_UNRANKED UINT32_MAX

/* From text: "64", "T", "2*T + 1", "floordiv(T, 2)", "min(T, 128)". Symbols are made where they do not exist. Fails
 * with QF_ERROR_PARSE where the text is no dim, QF_ERROR_LIMIT where a coefficient overflows. */
QF_API qf_dim qf_dim_from_text(qf_context *context, const char *text);
QF_API qf_dim qf_dim_constant(qf_context *context, int64_t value);
/* True for a constant, whose value goes to *out_value (may be NULL). */
QF_API bool qf_dim_is_constant(const qf_context *context, qf_dim dim, int64_t *out_value);
/* The dim as it is written in the text form; lives as long as the context. "" for 0 or when memory is out. */
QF_API const char *qf_dim_text(qf_context *context, qf_dim dim);

/* From text: "bf16[B, 32, T, 128]", "f32[]" (a scalar), "f32[*]" (unknown shape). Fails with QF_ERROR_PARSE. */
QF_API qf_type qf_type_from_text(qf_context *context, const char *text);
/* From constant sizes (each at least 0). `rank` up to QF_MAX_RANK, else QF_ERROR_LIMIT. */
QF_API qf_type qf_type_from_sizes(qf_context *context, qf_dtype dtype, const int64_t *sizes, uint32_t rank);
/* From dims; or rank QF_UNRANKED with dims NULL. */
QF_API qf_type qf_type_tensor(qf_context *context, qf_dtype dtype, const qf_dim *dims, uint32_t rank);
/* QF_DTYPE_NONE: unknown element type, or type 0. */
QF_API qf_dtype qf_type_dtype(const qf_context *context, qf_type type);
/* QF_UNRANKED where unknown, or type 0. */
QF_API uint32_t qf_type_rank(const qf_context *context, qf_type type);
/* Negative axes count from the end; 0 outside. */
QF_API qf_dim qf_type_dim(const qf_context *context, qf_type type, int32_t axis);
/* The type as it is written in the text form; lives as long as the context. "" for 0 or when memory is out. */
QF_API const char *qf_type_text(qf_context *context, qf_type type);

#ifdef __cplusplus
}
#endif

#endif
