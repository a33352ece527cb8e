/* Owns: the correspondence of ONNX's element types with QFuse's.
 * Does not own: tensors (tensor.c).
 * Next: tensor.c. */
#include "frontends/onnx/proto.h"

/* number of TensorProto.DataType, its name, QFuse's dtype (none: carried as unknown). Numbers are plain integers here,
 * so that an older onnx.proto, which lacks the newer names, serves as well. */
#define TYPES(X)                                                                                                       \
    X(1, "FLOAT", QF_F32)                                                                                              \
    X(2, "UINT8", QF_U8)                                                                                               \
    X(3, "INT8", QF_I8)                                                                                                \
    X(4, "UINT16", QF_DTYPE_NONE)                                                                                      \
    X(5, "INT16", QF_DTYPE_NONE)                                                                                       \
    X(6, "INT32", QF_I32)                                                                                              \
    X(7, "INT64", QF_I64)                                                                                              \
    X(8, "STRING", QF_DTYPE_NONE)                                                                                      \
    X(9, "BOOL", QF_I1)                                                                                                \
    X(10, "FLOAT16", QF_F16)                                                                                           \
    X(11, "DOUBLE", QF_F64)                                                                                            \
    X(12, "UINT32", QF_DTYPE_NONE)                                                                                     \
    X(13, "UINT64", QF_DTYPE_NONE)                                                                                     \
    X(14, "COMPLEX64", QF_DTYPE_NONE)                                                                                  \
    X(15, "COMPLEX128", QF_DTYPE_NONE)                                                                                 \
    X(16, "BFLOAT16", QF_BF16)                                                                                         \
    X(17, "FLOAT8E4M3FN", QF_F8E4M3FN)                                                                                 \
    X(18, "FLOAT8E4M3FNUZ", QF_F8E4M3FNUZ)                                                                             \
    X(19, "FLOAT8E5M2", QF_F8E5M2)                                                                                     \
    X(20, "FLOAT8E5M2FNUZ", QF_F8E5M2FNUZ)                                                                             \
    X(21, "UINT4", QF_DTYPE_NONE)                                                                                      \
    X(22, "INT4", QF_DTYPE_NONE)                                                                                       \
    X(23, "FLOAT4E2M1", QF_F4E2M1FN)                                                                                   \
    X(24, "FLOAT8E8M0", QF_F8E8M0FNU)                                                                                  \
    X(25, "UINT2", QF_DTYPE_NONE)                                                                                      \
    X(26, "INT2", QF_DTYPE_NONE)                                                                                       \
    X(27, "FLOAT6E2M3", QF_DTYPE_NONE)                                                                                 \
    X(28, "FLOAT6E3M2", QF_DTYPE_NONE)

qf_dtype qf_onnx_dtype(int64_t number) {
    switch (number) {
#define X(code, name, dtype)                                                                                           \
    case code: return dtype;
        TYPES(X)
#undef X
    default: return QF_DTYPE_NONE;
    }
}

int32_t qf_onnx_dtype_number(qf_dtype dtype) {
    if (dtype == QF_DTYPE_NONE) return 0;
#define X(code, name, type)                                                                                            \
    if (type == dtype) return code;
    TYPES(X)
#undef X
    return 0;
}

const char *qf_onnx_dtype_name(int64_t number) {
    switch (number) {
#define X(code, name, dtype)                                                                                           \
    case code: return name;
        TYPES(X)
#undef X
    default: return "unknown";
    }
}
