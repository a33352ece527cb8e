/* Owns: element types, in one table.
 * Does not own: conversions between them (base/convert.h) and tensor types (graph.h).
 * Next: context.h. */
#ifndef QFUSE_DTYPE_H
#define QFUSE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include <qfuse/export.h>
#include <qfuse/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* number, enumerator, name in text, storage bits, kind.
 * The FP8 kinds are distinct types; nothing is ever inferred from storage width. Numbers are never reused.
 * f4E2M1FN packs two elements a byte, the first in the low half. `token` orders opaque ops and has no storage. */
#define QF_DTYPE_TABLE(X)                                                                                              \
    X(0, QF_DTYPE_NONE, "none", 0, QF_DTYPE_KIND_NONE)                                                                 \
    X(1, QF_F32, "f32", 32, QF_DTYPE_KIND_FLOAT)                                                                       \
    X(2, QF_F16, "f16", 16, QF_DTYPE_KIND_FLOAT)                                                                       \
    X(3, QF_BF16, "bf16", 16, QF_DTYPE_KIND_FLOAT)                                                                     \
    X(4, QF_F8E4M3FN, "f8E4M3FN", 8, QF_DTYPE_KIND_FLOAT8)                                                             \
    X(5, QF_F8E5M2, "f8E5M2", 8, QF_DTYPE_KIND_FLOAT8)                                                                 \
    X(6, QF_F8E4M3FNUZ, "f8E4M3FNUZ", 8, QF_DTYPE_KIND_FLOAT8)                                                         \
    X(7, QF_F8E5M2FNUZ, "f8E5M2FNUZ", 8, QF_DTYPE_KIND_FLOAT8)                                                         \
    X(8, QF_F8E8M0FNU, "f8E8M0FNU", 8, QF_DTYPE_KIND_FLOAT8)                                                           \
    X(9, QF_F4E2M1FN, "f4E2M1FN", 4, QF_DTYPE_KIND_FLOAT4)                                                             \
    X(10, QF_I1, "i1", 8, QF_DTYPE_KIND_BOOL)                                                                          \
    X(11, QF_I8, "i8", 8, QF_DTYPE_KIND_INTEGER)                                                                       \
    X(12, QF_U8, "u8", 8, QF_DTYPE_KIND_INTEGER)                                                                       \
    X(13, QF_I32, "i32", 32, QF_DTYPE_KIND_INTEGER)                                                                    \
    X(14, QF_I64, "i64", 64, QF_DTYPE_KIND_INTEGER)                                                                    \
    X(15, QF_F64, "f64", 64, QF_DTYPE_KIND_FLOAT)                                                                      \
    X(16, QF_TOKEN, "token", 0, QF_DTYPE_KIND_NONE)

typedef enum qf_dtype_kind {
    QF_DTYPE_KIND_NONE = 0,
    QF_DTYPE_KIND_FLOAT = 1,
    QF_DTYPE_KIND_FLOAT8 = 2,
    QF_DTYPE_KIND_FLOAT4 = 3,
    QF_DTYPE_KIND_BOOL = 4,
    QF_DTYPE_KIND_INTEGER = 5
} qf_dtype_kind;

typedef enum qf_dtype {
#define X(number, enumerator, name, bits, kind) enumerator = number,
    QF_DTYPE_TABLE(X)
#undef X
        QF_DTYPE_COUNT = 17
} qf_dtype;

/* The name used in the text form, or "invalid". Static storage. Any thread. */
QF_API const char *qf_dtype_name(qf_dtype dtype);
/* Storage bits of one element (i1 takes a byte, f4E2M1FN half of one); 0 for none, token and invalid numbers. */
QF_API uint32_t qf_dtype_bits(qf_dtype dtype);
QF_API qf_dtype_kind qf_dtype_kind_of(qf_dtype dtype);
/* True for the five 8-bit floating-point types. */
QF_API bool qf_dtype_is_float8(qf_dtype dtype);
/* True for 64, 32, 16, 8 and 4-bit floating-point types. */
QF_API bool qf_dtype_is_float(qf_dtype dtype);
/* Largest finite magnitude of a floating-point dtype (448 for f8E4M3FN, 57344 for f8E5M2); 0 for others. */
QF_API double qf_dtype_largest(qf_dtype dtype);
/* Bytes of `count` elements, rounded up to a whole byte; UINT64_MAX when that overflows. */
QF_API uint64_t qf_dtype_bytes(qf_dtype dtype, uint64_t count);
/* The dtype of exactly this text name; QF_DTYPE_NONE when there is none. */
QF_API qf_dtype qf_dtype_from_name(const char *name);
/* Reads the strings by which serving frameworks configure the element type of a KV cache: "auto" gives QF_DTYPE_NONE
 * (keep what the graph's own types say; no checkpoint changes that), "fp8" and "fp8_e4m3" give QF_F8E4M3FN, "fp8_e5m2"
 * QF_F8E5M2, "bfloat16", "float16", "half", "float32", "int8" and the short forms likewise. Strict: any other text,
 * another case or a space gives QF_ERROR_NOT_FOUND and QF_DTYPE_NONE. Any thread. */
QF_API QF_MUST_USE qf_status qf_dtype_from_cache_string(const char *text, qf_dtype *out_dtype);

#ifdef __cplusplus
}
#endif

#endif
