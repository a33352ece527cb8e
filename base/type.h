/* Owns: tensor types (dtype and dims), interned so that equal types have equal ids.
 * Does not own: dims (dim.h).
 * Next: type.c. */
#ifndef QF_BASE_TYPE_H
#define QF_BASE_TYPE_H

#include <qfuse/dtype.h>
#include <qfuse/type.h>

#include "dim.h"

bool qf_type_table_create(qf_context *context);
void qf_type_table_destroy(qf_context *context);

/* `rank` up to QF_MAX_RANK (else QF_ERROR_LIMIT), or QF_UNRANKED with dims NULL: nothing is known of the shape. */
qf_type qf_type_tensor(qf_context *context, qf_dtype dtype, const qf_dim *dims, uint32_t rank);
qf_dtype qf_type_dtype(const qf_context *context, qf_type type); /* QF_DTYPE_NONE: unknown element type */
uint32_t qf_type_rank(const qf_context *context, qf_type type);  /* QF_UNRANKED where unknown */
bool qf_type_is_ranked(const qf_context *context, qf_type type);
const qf_dim *qf_type_dims(const qf_context *context, qf_type type); /* `rank` dims; lives as long as the context */
qf_dim qf_type_dim(const qf_context *context, qf_type type,
                   int32_t axis); /* negative axes count from the end; 0 outside */
qf_type qf_type_with_dtype(qf_context *context, qf_type type, qf_dtype dtype);
qf_dim qf_type_element_count(qf_context *context, qf_type type); /* 0 if unranked */
/* Elements if all dims are constants and the product fits; false otherwise. */
bool qf_type_static_count(const qf_context *context, qf_type type, uint64_t *out_count);
static inline bool qf_type_equal(qf_type a, qf_type b) {
    return a.id == b.id;
}
/* "bf16[B, 32, T, 128]", "f32[]", "f32[*]" (unranked), "none[*]", "token". */
void qf_type_print(qf_buffer *buffer, const qf_context *context, qf_type type);
qf_type qf_type_parse(qf_context *context, qf_text *text); /* 0 if there is no type there (nothing recorded) */

#endif
