/* Owns: encoding, decoding and array conversion of every dtype.
 * Does not own: the rules, which stand in the header.
 * Next: convert.h. */
#include "base/convert.h"

#include <math.h>
#include <string.h>

/* --- decoding --- */

/* Constant expressions, so that the tables need no initialisation at run time. */
#define POWER(exponent)         ((double)((uint64_t)1 << (exponent)))
#define SIGNED(code, magnitude) ((float)(((code)&0x80) ? -(magnitude) : (magnitude)))
#define E4M3(code, bias_power)                                                                                         \
    SIGNED(code, ((code)&0x78) ? (8 + ((code)&7)) * POWER(((code) >> 3) & 15) / (bias_power)                           \
                               : ((code)&7) * 2.0 / (bias_power))
#define E5M2(code, bias_power)                                                                                         \
    SIGNED(code, ((code)&0x7C) ? (4 + ((code)&3)) * POWER(((code) >> 2) & 31) / (bias_power)                           \
                               : ((code)&3) * 2.0 / (bias_power))
#define E4M3FN(code)   ((code)&0x7F) == 0x7F ? NAN : E4M3(code, 1024.0)
#define E4M3FNUZ(code) (code) == 0x80 ? NAN : E4M3(code, 2048.0)
#define E5M2IEEE(code)                                                                                                 \
    ((code)&0x7C) != 0x7C ? E5M2(code, 131072.0) : ((code)&3) ? NAN : ((code)&0x80) ? -INFINITY : INFINITY
#define E5M2FNUZ(code)    (code) == 0x80 ? NAN : E5M2(code, 262144.0)
#define TIMES_4(X, code)  X(code), X((code) + 1), X((code) + 2), X((code) + 3)
#define TIMES_16(X, code) TIMES_4(X, code), TIMES_4(X, (code) + 4), TIMES_4(X, (code) + 8), TIMES_4(X, (code) + 12)
#define TIMES_64(X, code)                                                                                              \
    TIMES_16(X, code), TIMES_16(X, (code) + 16), TIMES_16(X, (code) + 32), TIMES_16(X, (code) + 48)
#define TIMES_256(X)                                                                                                   \
    { TIMES_64(X, 0), TIMES_64(X, 64), TIMES_64(X, 128), TIMES_64(X, 192) }

static const float values_e4m3fn[256] = TIMES_256(E4M3FN);
static const float values_e5m2[256] = TIMES_256(E5M2IEEE);
static const float values_e4m3fnuz[256] = TIMES_256(E4M3FNUZ);
static const float values_e5m2fnuz[256] = TIMES_256(E5M2FNUZ);
static const float values_e2m1fn[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                        -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

static inline float float_of(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static inline uint32_t bits_of(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static inline float decode_f16(uint32_t code) {
    uint32_t sign = (code & 0x8000) << 16, magnitude = (code & 0x7FFF) << 13;
    if (magnitude >= 0x0F800000) return float_of(sign | magnitude | 0x70000000); /* infinity, NaN */
    /* Multiplication by 2^112 moves the exponent bias from 15 to 127 and normalises subnormals, exactly. */
    return float_of(sign | bits_of(float_of(magnitude) * 0x1p112f));
}

static inline float decode_e8m0(uint32_t code) {
    if (code == 0xFF) return NAN;
    return float_of(code ? code << 23 : 0x00400000);
}

static inline float decode(qf_dtype dtype, uint32_t code) {
    switch (dtype) {
    case QF_F32: return float_of(code);
    case QF_F16: return decode_f16(code & 0xFFFF);
    case QF_BF16: return float_of(code << 16);
    case QF_F8E4M3FN: return values_e4m3fn[code & 0xFF];
    case QF_F8E5M2: return values_e5m2[code & 0xFF];
    case QF_F8E4M3FNUZ: return values_e4m3fnuz[code & 0xFF];
    case QF_F8E5M2FNUZ: return values_e5m2fnuz[code & 0xFF];
    case QF_F8E8M0FNU: return decode_e8m0(code & 0xFF);
    case QF_F4E2M1FN: return values_e2m1fn[code & 0xF];
    default: return NAN;
    }
}

double qf_decode(qf_dtype dtype, uint32_t code) {
    return (double)decode(dtype, code);
}

/* --- encoding --- */

typedef struct format {
    int32_t mantissa_bits, least_exponent; /* of normal numbers */
    uint32_t largest, overflow, nan, sign; /* codes; `overflow` is what an unsaturated overflow gives */
    bool negative_zero, may_saturate;
} format;

static const format formats[QF_DTYPE_COUNT] = {
    [QF_F32] = {23, -126, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x80000000, true, false},
    [QF_F16] = {10, -14, 0x7BFF, 0x7C00, 0x7E00, 0x8000, true, false},
    [QF_BF16] = {7, -126, 0x7F7F, 0x7F80, 0x7FC0, 0x8000, true, false},
    [QF_F8E4M3FN] = {3, -6, 0x7E, 0x7F, 0x7F, 0x80, true, true},
    [QF_F8E5M2] = {2, -14, 0x7B, 0x7C, 0x7F, 0x80, true, true},
    [QF_F8E4M3FNUZ] = {3, -7, 0x7F, 0x80, 0x80, 0x80, false, true},
    [QF_F8E5M2FNUZ] = {2, -15, 0x7F, 0x80, 0x80, 0x80, false, true},
    [QF_F4E2M1FN] = {1, 0, 0x7, 0x7, 0x7, 0x8, true, true},
};

static uint32_t with_sign(const format *to, uint32_t code, bool negative) {
    if (!negative || (code == 0 && !to->negative_zero)) return code;
    return code | to->sign;
}

static uint32_t overflow_code(const format *to, bool negative, bool saturate) {
    return with_sign(to, saturate && to->may_saturate ? to->largest : to->overflow, negative);
}

/* Rounds significand * 2^(exponent - 63); the significand has its top bit set. */
static uint32_t encode_magnitude(const format *to, bool negative, int32_t exponent, uint64_t significand,
                                 bool saturate) {
    const uint64_t half = (uint64_t)1 << 63;
    int32_t at = exponent > to->least_exponent ? exponent : to->least_exponent;
    int32_t shift = 63 - to->mantissa_bits + (at - exponent);
    uint64_t units = 0, rest;
    if (shift > 64) return with_sign(to, 0, negative);
    if (shift == 64) {
        rest = significand;
    } else {
        units = significand >> shift;
        rest = significand << (64 - shift);
    }
    if (rest > half || (rest == half && (units & 1))) units++;
    /* A carry out of the mantissa runs into the exponent field, as it must. */
    uint64_t code = ((uint64_t)(at - to->least_exponent) << to->mantissa_bits) + units;
    if (code > to->largest) return overflow_code(to, negative, saturate);
    return with_sign(to, (uint32_t)code, negative);
}

/* Codes grow with the exponent: the nearer power of two, the even code in the middle (1.5 * 2^k). */
static uint32_t encode_e8m0(bool negative, int32_t exponent, uint64_t significand, bool saturate) {
    const uint64_t middle = (uint64_t)3 << 62;
    if (negative) return 0xFF;
    if (exponent < -127) return 0;
    uint32_t code = (uint32_t)(exponent + 127);
    if (significand > middle || (significand == middle && (code & 1))) code++;
    if (code > 0xFE) return saturate ? 0xFE : 0xFF;
    return code;
}

static uint32_t encode_parts(qf_dtype dtype, bool negative, int32_t exponent, uint64_t significand, bool saturate) {
    if (dtype == QF_F8E8M0FNU) return encode_e8m0(negative, exponent, significand, saturate);
    return encode_magnitude(&formats[dtype], negative, exponent, significand, saturate);
}

static uint32_t encode_zero(qf_dtype dtype, bool negative) {
    return dtype == QF_F8E8M0FNU ? 0 : with_sign(&formats[dtype], 0, negative);
}

static uint32_t encode_nan(qf_dtype dtype, bool negative) {
    if (dtype == QF_F8E8M0FNU) return 0xFF;
    if (dtype == QF_F4E2M1FN) return formats[dtype].nan;
    return formats[dtype].nan | (negative ? formats[dtype].sign : 0);
}

uint32_t qf_encode_f64(qf_dtype dtype, double number, bool saturate) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    bool negative = bits >> 63;
    int32_t field = (int32_t)(bits >> 52 & 0x7FF);
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    if (field == 0x7FF && fraction) return encode_nan(dtype, negative);
    if (field == 0x7FF && dtype == QF_F8E8M0FNU) return negative || !saturate ? 0xFF : 0xFE;
    if (field == 0x7FF) return overflow_code(&formats[dtype], negative, saturate);
    if (field == 0 && fraction == 0) return encode_zero(dtype, negative);
    /* f64 subnormals lie under half of every smallest code: any exponent as small will do. */
    uint64_t significand = field ? ((uint64_t)1 << 63) | fraction << 11 : (uint64_t)1 << 63;
    return encode_parts(dtype, negative, field ? field - 1023 : -1023, significand, saturate);
}

/* The common targets, from f32, without 64-bit arithmetic. Normal numbers: the exponent is rebased and the mantissa
 * rounded in place, a carry running into the exponent. Subnormal ones: adding a power of two whose last place is the
 * smallest code makes the addition round to it. */
static inline uint32_t encode_f16(float number) {
    uint32_t bits = bits_of(number), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return sign | 0x7E00;
    if (magnitude >= 0x47800000) return sign | 0x7C00; /* 2^16 */
    if (magnitude < 0x38800000) return sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3F000000);
    return sign | (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
}

static inline uint32_t encode_bf16(float number) {
    uint32_t bits = bits_of(number);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return (bits >> 16 & 0x8000) | 0x7FC0;
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

static inline uint32_t encode_e4m3fn(float number, bool saturate) {
    uint32_t bits = bits_of(number), sign = bits >> 24 & 0x80, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return sign | 0x7F;
    if (magnitude < 0x3C800000) return sign | (bits_of(float_of(magnitude) + 0x1p14f) - 0x46800000); /* 2^-6 */
    uint32_t code = (magnitude - 0x3C000000 + 0x7FFFF + (magnitude >> 20 & 1)) >> 20;
    if (code > 0x7E) code = saturate ? 0x7E : 0x7F;
    return sign | code;
}

uint32_t qf_encode_f32(qf_dtype dtype, float number, bool saturate) {
    switch (dtype) {
    case QF_F32: return bits_of(number);
    case QF_F16: return encode_f16(number);
    case QF_BF16: return encode_bf16(number);
    case QF_F8E4M3FN: return encode_e4m3fn(number, saturate);
    default: return qf_encode_f64(dtype, (double)number, saturate);
    }
}

static uint32_t encode_i64(qf_dtype dtype, int64_t number) {
    bool negative = number < 0;
    uint64_t magnitude = negative ? 0 - (uint64_t)number : (uint64_t)number;
    if (magnitude == 0) return encode_zero(dtype, false);
    int32_t exponent = 63;
    for (; !(magnitude >> 63); exponent--) magnitude <<= 1;
    return encode_parts(dtype, negative, exponent, magnitude, true);
}

float qf_round_f32(qf_dtype dtype, float number, bool saturate) {
    if (dtype == QF_F32 || dtype == QF_F64) return number;
    return decode(dtype, qf_encode_f32(dtype, number, saturate));
}

/* --- elements --- */

static uint32_t load_code(qf_dtype dtype, const void *data, int64_t index) {
    const unsigned char *bytes = data;
    uint16_t half;
    uint32_t word;
    switch (qf_dtype_bits(dtype)) {
    case 4: return (uint32_t)(bytes[index >> 1] >> ((index & 1) * 4)) & 0xF;
    case 8: return bytes[index];
    case 16: memcpy(&half, bytes + index * 2, sizeof half); return half;
    default: memcpy(&word, bytes + index * 4, sizeof word); return word;
    }
}

static void store_code(qf_dtype dtype, void *data, int64_t index, uint32_t code) {
    unsigned char *bytes = data;
    uint16_t half = (uint16_t)code;
    int shift = (int)(index & 1) * 4;
    switch (qf_dtype_bits(dtype)) {
    case 4: bytes[index >> 1] = (unsigned char)((bytes[index >> 1] & (0xF0 >> shift)) | (code & 0xF) << shift); return;
    case 8: bytes[index] = (unsigned char)code; return;
    case 16: memcpy(bytes + index * 2, &half, sizeof half); return;
    default: memcpy(bytes + index * 4, &code, sizeof code); return;
    }
}

static int64_t load_integer(qf_dtype dtype, const void *data, int64_t index) {
    const unsigned char *bytes = data;
    int64_t wide;
    int32_t word;
    switch (dtype) {
    case QF_I1: return bytes[index] != 0;
    case QF_I8: return (int8_t)bytes[index];
    case QF_U8: return bytes[index];
    case QF_I32: memcpy(&word, bytes + index * 4, sizeof word); return word;
    default: memcpy(&wide, bytes + index * 8, sizeof wide); return wide;
    }
}

static double load_double(const void *data, int64_t index) {
    double number;
    memcpy(&number, (const unsigned char *)data + index * 8, sizeof number);
    return number;
}

float qf_load_f32(qf_dtype dtype, const void *data, int64_t index) {
    if (dtype == QF_F64) return (float)load_double(data, index);
    if (!qf_dtype_is_float(dtype)) return (float)load_integer(dtype, data, index);
    return decode(dtype, load_code(dtype, data, index));
}

double qf_load_f64(qf_dtype dtype, const void *data, int64_t index) {
    if (dtype == QF_F64) return load_double(data, index);
    if (!qf_dtype_is_float(dtype)) return (double)load_integer(dtype, data, index);
    return (double)decode(dtype, load_code(dtype, data, index));
}

/* Truncation toward zero within [low, high]; both are exact in f64 or one past the last value that is. */
static int64_t truncate_within(double number, int64_t low, int64_t high) {
    if (isnan(number)) return 0;
    if (number <= (double)low) return low;
    if (number >= (double)high) return high;
    return (int64_t)number;
}

int64_t qf_load_i64(qf_dtype dtype, const void *data, int64_t index) {
    if (!qf_dtype_is_float(dtype)) return load_integer(dtype, data, index);
    return truncate_within(qf_load_f64(dtype, data, index), INT64_MIN, INT64_MAX);
}

void qf_store_i64(qf_dtype dtype, void *data, int64_t index, int64_t number) {
    unsigned char *bytes = data;
    uint32_t word = (uint32_t)(uint64_t)number;
    double wide = (double)number;
    switch (dtype) {
    case QF_I1: bytes[index] = number != 0; return;
    case QF_I8:
    case QF_U8: bytes[index] = (unsigned char)word; return;
    case QF_I32: memcpy(bytes + index * 4, &word, sizeof word); return;
    case QF_I64: memcpy(bytes + index * 8, &number, sizeof number); return;
    case QF_F64: memcpy(bytes + index * 8, &wide, sizeof wide); return;
    default: store_code(dtype, data, index, encode_i64(dtype, number)); return;
    }
}

static int64_t integer_of(qf_dtype dtype, double number) {
    switch (dtype) {
    case QF_I1: return number != 0.0;
    case QF_I8: return truncate_within(number, INT8_MIN, INT8_MAX);
    case QF_U8: return truncate_within(number, 0, UINT8_MAX);
    case QF_I32: return truncate_within(number, INT32_MIN, INT32_MAX);
    default: return truncate_within(number, INT64_MIN, INT64_MAX);
    }
}

void qf_store_f64(qf_dtype dtype, void *data, int64_t index, double number, bool saturate) {
    if (dtype == QF_F64) {
        memcpy((unsigned char *)data + index * 8, &number, sizeof number);
    } else if (!qf_dtype_is_float(dtype)) {
        qf_store_i64(dtype, data, index, integer_of(dtype, number));
    } else {
        store_code(dtype, data, index, qf_encode_f64(dtype, number, saturate));
    }
}

void qf_store_f32(qf_dtype dtype, void *data, int64_t index, float number, bool saturate) {
    if (dtype == QF_F64 || !qf_dtype_is_float(dtype)) {
        qf_store_f64(dtype, data, index, (double)number, saturate);
    } else {
        store_code(dtype, data, index, qf_encode_f32(dtype, number, saturate));
    }
}

/* --- arrays: the common dtypes have loops of their own, the others go element by element --- */

static void load_table(const float *table, const unsigned char *codes, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++) out[i] = table[codes[i]];
}

void qf_load_array_f32(qf_dtype dtype, const void *data, int64_t first, int64_t count, float *out) {
    const unsigned char *bytes = data;
    if (count <= 0) return;
    switch (dtype) {
    case QF_F32: memcpy(out, bytes + first * 4, (size_t)count * 4); return;
    case QF_F8E4M3FN: load_table(values_e4m3fn, bytes + first, count, out); return;
    case QF_F8E5M2: load_table(values_e5m2, bytes + first, count, out); return;
    case QF_F8E4M3FNUZ: load_table(values_e4m3fnuz, bytes + first, count, out); return;
    case QF_F8E5M2FNUZ: load_table(values_e5m2fnuz, bytes + first, count, out); return;
    case QF_F16:
    case QF_BF16:
        for (int64_t i = 0; i < count; i++) {
            uint16_t code;
            memcpy(&code, bytes + (first + i) * 2, sizeof code);
            out[i] = dtype == QF_BF16 ? float_of((uint32_t)code << 16) : decode_f16(code);
        }
        return;
    default:
        for (int64_t i = 0; i < count; i++) out[i] = qf_load_f32(dtype, data, first + i);
    }
}

void qf_load_array_f64(qf_dtype dtype, const void *data, int64_t first, int64_t count, double *out) {
    for (int64_t i = 0; i < count; i++) out[i] = qf_load_f64(dtype, data, first + i);
}

void qf_load_array_i64(qf_dtype dtype, const void *data, int64_t first, int64_t count, int64_t *out) {
    for (int64_t i = 0; i < count; i++) out[i] = qf_load_i64(dtype, data, first + i);
}

void qf_store_array_f32(qf_dtype dtype, void *data, int64_t first, int64_t count, const float *in, bool saturate) {
    if (count <= 0) return;
    if (dtype == QF_F32) {
        memcpy((unsigned char *)data + first * 4, in, (size_t)count * 4);
        return;
    }
    for (int64_t i = 0; i < count; i++) qf_store_f32(dtype, data, first + i, in[i], saturate);
}

void qf_store_array_f64(qf_dtype dtype, void *data, int64_t first, int64_t count, const double *in, bool saturate) {
    for (int64_t i = 0; i < count; i++) qf_store_f64(dtype, data, first + i, in[i], saturate);
}

void qf_store_array_i64(qf_dtype dtype, void *data, int64_t first, int64_t count, const int64_t *in) {
    for (int64_t i = 0; i < count; i++) qf_store_i64(dtype, data, first + i, in[i]);
}

void qf_convert_array(qf_dtype to, void *out, qf_dtype from, const void *data, int64_t count, bool saturate) {
    if (count <= 0) return;
    if (to == from && to != QF_F4E2M1FN) {
        memcpy(out, data, (size_t)qf_dtype_bytes(to, (uint64_t)count));
        return;
    }
    bool from_float = qf_dtype_is_float(from);
    for (int64_t i = 0; i < count; i++) {
        if (!from_float) {
            qf_store_i64(to, out, i, load_integer(from, data, i));
        } else if (from == QF_F64) {
            qf_store_f64(to, out, i, load_double(data, i), saturate);
        } else {
            qf_store_f32(to, out, i, decode(from, load_code(from, data, i)), saturate);
        }
    }
}
