/* Owns: the generated protobuf declarations under one name, and the few accessors that every file needs.
 * Does not own: the schema (onnx.proto of the onnx project), unpacking (model.h).
 * Next: model.h. */
#ifndef QF_FRONTENDS_ONNX_PROTO_H
#define QF_FRONTENDS_ONNX_PROTO_H

#include <onnx.pb-c.h>

#include "base/type.h"

/* "" for a missing string. */
static inline const char *qf_onnx_text(const char *text) {
    return text ? text : "";
}

/* The dtype of a TensorProto.DataType number; QF_DTYPE_NONE for those that QFuse lacks. */
qf_dtype qf_onnx_dtype(int64_t number);
/* The number of a dtype; 0 for none and token. */
int32_t qf_onnx_dtype_number(qf_dtype dtype);
/* "FLOAT8E4M3FN"; "type 99" style names are not made: "unknown". */
const char *qf_onnx_dtype_name(int64_t number);

#endif
