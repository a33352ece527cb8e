/* Owns: lookups in the dtype table.
 * Does not own: the table (qfuse/dtype.h), conversions (convert.h).
 * Next: convert.h. */
#include <qfuse/dtype.h>

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bits;
    qf_dtype_kind kind;
} dtypes[QF_DTYPE_COUNT] = {
#define X(number, enumerator, name, bits, kind) [number] = {name, bits, kind},
    QF_DTYPE_TABLE(X)
#undef X
};

static int known(qf_dtype dtype) {
    return (unsigned)dtype < QF_DTYPE_COUNT;
}

const char *qf_dtype_name(qf_dtype dtype) {
    return known(dtype) ? dtypes[dtype].name : "invalid";
}

uint32_t qf_dtype_bits(qf_dtype dtype) {
    return known(dtype) ? dtypes[dtype].bits : 0;
}

qf_dtype_kind qf_dtype_kind_of(qf_dtype dtype) {
    return known(dtype) ? dtypes[dtype].kind : QF_DTYPE_KIND_NONE;
}

bool qf_dtype_is_float8(qf_dtype dtype) {
    return qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_FLOAT8;
}

bool qf_dtype_is_float(qf_dtype dtype) {
    qf_dtype_kind kind = qf_dtype_kind_of(dtype);
    return kind == QF_DTYPE_KIND_FLOAT || kind == QF_DTYPE_KIND_FLOAT8 || kind == QF_DTYPE_KIND_FLOAT4;
}

double qf_dtype_largest(qf_dtype dtype) {
    switch (dtype) {
    case QF_F64: return 0x1.fffffffffffffp1023;
    case QF_F32: return 0x1.fffffep127;
    case QF_F16: return 65504.0;
    case QF_BF16: return 0x1.fep127;
    case QF_F8E4M3FN: return 448.0;
    case QF_F8E5M2: return 57344.0;
    case QF_F8E4M3FNUZ: return 240.0;
    case QF_F8E5M2FNUZ: return 57344.0;
    case QF_F8E8M0FNU: return 0x1p127;
    case QF_F4E2M1FN: return 6.0;
    default: return 0.0;
    }
}

uint64_t qf_dtype_bytes(qf_dtype dtype, uint64_t count) {
    uint64_t bits = qf_dtype_bits(dtype);
    if (bits >= 8) return count > UINT64_MAX / (bits / 8) ? UINT64_MAX : count * (bits / 8);
    return bits ? count / 2 + (count & 1) : 0;
}

qf_dtype qf_dtype_from_name(const char *name) {
    for (int i = 1; name && i < QF_DTYPE_COUNT; i++)
        if (strcmp(name, dtypes[i].name) == 0) return (qf_dtype)i;
    return QF_DTYPE_NONE;
}

qf_status qf_dtype_from_cache_string(const char *text, qf_dtype *out_dtype) {
    static const struct {
        const char *text;
        qf_dtype dtype;
    } rows[] = {{"auto", QF_DTYPE_NONE},
                {"fp8", QF_F8E4M3FN},
                {"fp8_e4m3", QF_F8E4M3FN},
                {"fp8_e4m3fn", QF_F8E4M3FN},
                {"fp8_e5m2", QF_F8E5M2},
                {"fp8_e4m3fnuz", QF_F8E4M3FNUZ},
                {"fp8_e5m2fnuz", QF_F8E5M2FNUZ},
                {"bfloat16", QF_BF16},
                {"bf16", QF_BF16},
                {"float16", QF_F16},
                {"fp16", QF_F16},
                {"half", QF_F16},
                {"float32", QF_F32},
                {"fp32", QF_F32},
                {"int8", QF_I8}};
    *out_dtype = QF_DTYPE_NONE;
    for (size_t i = 0; text && i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(text, rows[i].text) != 0) continue;
        *out_dtype = rows[i].dtype;
        return QF_OK;
    }
    return QF_ERROR_NOT_FOUND;
}
