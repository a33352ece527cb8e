// Owns: elements of every dtype on a GPU: the conversions of base/convert.h, bit for bit; loads and stores of one
// element or of N consecutive ones, by a dtype that is known at run time only. Does not own: the rules
// (base/convert.h), packed conversions of one format (convert.cuh). Read next: base/convert.h, kernels/README.md.
#pragma once

#include <cstdint>

#include <qfuse/dtype.h>

namespace qfuse {

// Everything here runs on the host as well, so that the conversions can be compared with base/convert.h without a GPU.
// `dtype` should be the same for all threads of a warp. Offsets count elements and have 64 bits.
#define QF_BOTH __host__ __device__ __forceinline__

// ---------------------------------------------------------------------------------------------------- bits of numbers

QF_BOTH uint32_t bits_of(float number) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(number);
#else
    uint32_t bits;
    __builtin_memcpy(&bits, &number, sizeof bits);
    return bits;
#endif
}

QF_BOTH float float_of(uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float number;
    __builtin_memcpy(&number, &bits, sizeof number);
    return number;
#endif
}

QF_BOTH uint64_t bits_of(double number) {
#ifdef __CUDA_ARCH__
    return (uint64_t)__double_as_longlong(number);
#else
    uint64_t bits;
    __builtin_memcpy(&bits, &number, sizeof bits);
    return bits;
#endif
}

QF_BOTH double double_of(uint64_t bits) {
#ifdef __CUDA_ARCH__
    return __longlong_as_double((long long)bits);
#else
    double number;
    __builtin_memcpy(&number, &bits, sizeof number);
    return number;
#endif
}

QF_BOTH bool is_nan(float number) {
    return (bits_of(number) & 0x7FFFFFFFu) > 0x7F800000u;
}

QF_BOTH bool is_nan(double number) {
    return (bits_of(number) & 0x7FFFFFFFFFFFFFFFull) > 0x7FF0000000000000ull;
}

// NaNs keep their sign and the leading bits of their payload, as on the CPU; the instructions alone would not.
QF_BOTH double widen(float number) {
    const uint64_t bits = bits_of(number);
    if (is_nan(number)) return double_of((bits >> 31) << 63 | 0x7FF8000000000000ull | (bits & 0x007FFFFF) << 29);
    return (double)number;
}

QF_BOTH float narrow(double number) {
    const uint64_t bits = bits_of(number);
    if (is_nan(number))
        return float_of((uint32_t)(bits >> 63) << 31 | 0x7FC00000u | (uint32_t)(bits >> 29 & 0x007FFFFF));
    return (float)number;
}

// ------------------------------------------------------------------------------------------------------------- dtypes

QF_BOTH uint32_t element_bits(uint32_t dtype) {
    switch (dtype) {
    case QF_F64:
    case QF_I64: return 64;
    case QF_F32:
    case QF_I32: return 32;
    case QF_F16:
    case QF_BF16: return 16;
    case QF_F4E2M1FN: return 4;
    default: return 8;
    }
}

QF_BOTH bool is_float(uint32_t dtype) {
    return dtype == QF_F64 || (dtype >= QF_F32 && dtype <= QF_F4E2M1FN);
}

// ----------------------------------------------------------------------------------------------------------- decoding

QF_BOTH float decode_f16(uint32_t code) {
    const uint32_t sign = (code & 0x8000) << 16, magnitude = (code & 0x7FFF) << 13;
    if (magnitude >= 0x0F800000) return float_of(sign | magnitude | 0x70000000); // infinity, NaN
    return float_of(sign | bits_of(float_of(magnitude) * 0x1p112f));             // exact, subnormals too
}

// An FP8 code: the exponent is rebased by a multiplication, which is exact and normalises subnormals.
template <int MANTISSA, int BIAS>
QF_BOTH float decode_f8(uint32_t code) {
    const uint32_t magnitude = (code & 0x7F) << (23 - MANTISSA);
    return float_of((code & 0x80) << 24 | bits_of(float_of(magnitude) * float_of((uint32_t)(254 - BIAS) << 23)));
}

QF_BOTH float decode_e4m3fn(uint32_t code) {
    return (code & 0x7F) == 0x7F ? float_of(0x7FC00000) : decode_f8<3, 7>(code);
}

QF_BOTH float decode_e5m2(uint32_t code) {
    if ((code & 0x7C) == 0x7C) return float_of(code & 3 ? 0x7FC00000 : (code & 0x80) << 24 | 0x7F800000);
    return decode_f8<2, 15>(code);
}

QF_BOTH float decode_e4m3fnuz(uint32_t code) {
    return (code & 0xFF) == 0x80 ? float_of(0x7FC00000) : decode_f8<3, 8>(code);
}

QF_BOTH float decode_e5m2fnuz(uint32_t code) {
    return (code & 0xFF) == 0x80 ? float_of(0x7FC00000) : decode_f8<2, 16>(code);
}

QF_BOTH float decode_e8m0(uint32_t code) {
    code &= 0xFF;
    return float_of(code == 0xFF ? 0x7FC00000 : code ? code << 23 : 0x00400000);
}

QF_BOTH float decode_e2m1(uint32_t code) {
    const uint32_t magnitude = (code & 7) << 22;
    return float_of((code & 8) << 28 | bits_of(float_of(magnitude) * 0x1p126f));
}

// qf_decode. Codes of floats of up to 32 bits; other dtypes give NaN.
QF_BOTH float decode_f32(uint32_t dtype, uint32_t code) {
    switch (dtype) {
    case QF_F32: return float_of(code);
    case QF_F16: return decode_f16(code);
    case QF_BF16: return float_of(code << 16);
    case QF_F8E4M3FN: return decode_e4m3fn(code);
    case QF_F8E5M2: return decode_e5m2(code);
    case QF_F8E4M3FNUZ: return decode_e4m3fnuz(code);
    case QF_F8E5M2FNUZ: return decode_e5m2fnuz(code);
    case QF_F8E8M0FNU: return decode_e8m0(code);
    case QF_F4E2M1FN: return decode_e2m1(code);
    default: return float_of(0x7FC00000);
    }
}

// ------------------------------------------------------------------------------------------------- encoding from f32

QF_BOTH uint32_t encode_f16(float number) {
    const uint32_t bits = bits_of(number), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return sign | 0x7E00;
#ifdef __CUDA_ARCH__
    uint16_t code;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(number));
    return code;
#else
    if (magnitude >= 0x47800000) return sign | 0x7C00;
    if (magnitude < 0x38800000) return sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3F000000);
    return sign | (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
#endif
}

QF_BOTH uint32_t encode_bf16(float number) {
    const uint32_t bits = bits_of(number);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return (bits >> 16 & 0x8000) | 0x7FC0;
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

// The magnitude's code, rounded to nearest even; above the format's largest code where the number is past it. Normal
// numbers are rebased and rounded in place, a carry running into the exponent; for subnormal ones a power of two whose
// last place is the smallest code does the rounding.
template <int MANTISSA, int LEAST_EXPONENT>
QF_BOTH uint32_t round_magnitude(uint32_t magnitude) {
    constexpr uint32_t least = (uint32_t)(LEAST_EXPONENT + 127) << 23, shift = 23 - MANTISSA;
    constexpr uint32_t rounder = (uint32_t)(LEAST_EXPONENT - MANTISSA + 23 + 127) << 23;
    if (magnitude < least) return bits_of(float_of(magnitude) + float_of(rounder)) - rounder;
    return (magnitude - (least - (1u << 23)) + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1)) >> shift;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define QF_F8_INSTRUCTION(format, number)                                                                              \
    uint16_t pair;                                                                                                     \
    asm("cvt.rn.satfinite." format "x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(number));                        \
    return pair & 0xFF
#endif

QF_BOTH uint32_t encode_e4m3fn(float number, bool saturate) {
    const uint32_t bits = bits_of(number), sign = bits >> 24 & 0x80, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return sign | 0x7F;
#ifdef QF_F8_INSTRUCTION
    if (saturate) {
        QF_F8_INSTRUCTION("e4m3", number);
    }
#endif
    const uint32_t code = round_magnitude<3, -6>(magnitude);
    return sign | (code > 0x7E ? (saturate ? 0x7E : 0x7F) : code);
}

QF_BOTH uint32_t encode_e5m2(float number, bool saturate) {
    const uint32_t bits = bits_of(number), sign = bits >> 24 & 0x80, magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return sign | 0x7F;
#ifdef QF_F8_INSTRUCTION
    if (saturate) {
        QF_F8_INSTRUCTION("e5m2", number);
    }
#endif
    const uint32_t code = round_magnitude<2, -14>(magnitude);
    return sign | (code > 0x7B ? (saturate ? 0x7B : 0x7C) : code);
}

// f8E4M3FNUZ and f8E5M2FNUZ: no negative zero, 0x80 is NaN.
template <int MANTISSA, int LEAST_EXPONENT>
QF_BOTH uint32_t encode_fnuz(float number, bool saturate) {
    const uint32_t bits = bits_of(number), magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return 0x80;
    const uint32_t code = round_magnitude<MANTISSA, LEAST_EXPONENT>(magnitude);
    if (code > 0x7F) return saturate ? (bits >> 24 & 0x80) | 0x7F : 0x80;
    return code ? (bits >> 24 & 0x80) | code : 0;
}

QF_BOTH uint32_t encode_e8m0(float number, bool saturate) {
    const uint32_t bits = bits_of(number), magnitude = bits & 0x7FFFFFFF, past = saturate ? 0xFE : 0xFF;
    if (magnitude == 0) return 0;
    if (bits >> 31 || magnitude > 0x7F800000) return 0xFF;
    if (magnitude == 0x7F800000) return past;
    if (magnitude < 0x00800000) return magnitude > 0x00600000;
    const uint32_t exponent = magnitude >> 23, rest = magnitude & 0x007FFFFF;
    const uint32_t code = exponent + (rest > 0x00400000 || (rest == 0x00400000 && (exponent & 1)));
    return code > 0xFE ? past : code;
}

QF_BOTH uint32_t encode_e2m1(float number) {
    const uint32_t bits = bits_of(number), magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return 7;
    const uint32_t code = round_magnitude<1, 0>(magnitude);
    return bits >> 28 & 8 | (code > 7 ? 7 : code);
}

// qf_encode_f32. Floats of up to 32 bits; other dtypes give 0.
QF_BOTH uint32_t encode_f32(uint32_t dtype, float number, bool saturate) {
    switch (dtype) {
    case QF_F32: return bits_of(number);
    case QF_F16: return encode_f16(number);
    case QF_BF16: return encode_bf16(number);
    case QF_F8E4M3FN: return encode_e4m3fn(number, saturate);
    case QF_F8E5M2: return encode_e5m2(number, saturate);
    case QF_F8E4M3FNUZ: return encode_fnuz<3, -7>(number, saturate);
    case QF_F8E5M2FNUZ: return encode_fnuz<2, -15>(number, saturate);
    case QF_F8E8M0FNU: return encode_e8m0(number, saturate);
    case QF_F4E2M1FN: return encode_e2m1(number);
    default: return 0;
    }
}

// qf_round_f32.
QF_BOTH float round_f32(uint32_t dtype, float number, bool saturate) {
    if (dtype == QF_F32 || dtype == QF_F64) return number;
    return decode_f32(dtype, encode_f32(dtype, number, saturate));
}

// ----------------------------------------------------------------------------- encoding from 64 bits, with one
// rounding

// An f32 that any narrower format rounds as it would round the number given: truncated, with the last bit set where
// something was lost (round to odd). f32 has at least two bits more than each of those formats, down to its own
// smallest number, and those formats' smallest numbers lie far above that.
QF_BOTH float to_odd(double number) {
    const double magnitude = double_of(bits_of(number) & 0x7FFFFFFFFFFFFFFFull);
    const uint32_t sign = (uint32_t)(bits_of(number) >> 63) << 31;
    if (magnitude >= 0x1p128)
        return float_of(sign | (magnitude == double_of(0x7FF0000000000000ull) ? 0x7F800000u : 0x7F7FFFFFu));
#ifdef __CUDA_ARCH__
    const float low = __double2float_rz(magnitude);
#else
    float low = (float)magnitude;
    if ((double)low > magnitude) low = float_of(bits_of(low) - 1);
#endif
    return float_of(sign | bits_of(low) | ((double)low != magnitude));
}

// qf_encode_f64.
QF_BOTH uint32_t encode_f64(uint32_t dtype, double number, bool saturate) {
    if (is_nan(number)) {
        const uint32_t sign = (uint32_t)(bits_of(number) >> 63) << 31;
        return dtype == QF_F32 ? sign | 0x7FC00000 : encode_f32(dtype, float_of(sign | 0x7FC00000), saturate);
    }
    if (dtype == QF_F32) return bits_of((float)number);
    return encode_f32(dtype, to_odd(number), saturate);
}

// What qf_store_i64 stores in a float of up to 32 bits: one rounding, saturated.
QF_BOTH uint32_t encode_i64(uint32_t dtype, int64_t number) {
    if (dtype == QF_F32) return bits_of((float)number);
    const bool negative = number < 0;
    const uint64_t magnitude = negative ? 0 - (uint64_t)number : (uint64_t)number;
    // The top 24 bits, the last of them odd where something was lost.
    int shift = 0;
#ifdef __CUDA_ARCH__
    if (magnitude >> 24) shift = 40 - __clzll((long long)magnitude);
#else
    while (magnitude >> shift >> 24) shift++;
#endif
    const uint64_t kept = magnitude >> shift | ((magnitude & (((uint64_t)1 << shift) - 1)) != 0);
    const float value = (float)(uint32_t)kept * float_of((uint32_t)(shift + 127) << 23);
    return encode_f32(dtype, negative ? -value : value, true);
}

// ------------------------------------------------------------------------------------------------- floats to integers

// Toward zero, clamped to 64 bits; NaN gives 0.
QF_BOTH int64_t truncate(double number) {
    if (is_nan(number)) return 0;
#ifdef __CUDA_ARCH__
    return __double2ll_rz(number);
#else
    return number <= -0x1p63 ? INT64_MIN : number >= 0x1p63 ? INT64_MAX : (int64_t)number;
#endif
}

QF_BOTH int64_t truncate(float number) {
    if (is_nan(number)) return 0;
#ifdef __CUDA_ARCH__
    return __float2ll_rz(number);
#else
    return truncate((double)number);
#endif
}

QF_BOTH int64_t clamp_to(uint32_t dtype, int64_t number) {
    const int64_t low = dtype == QF_I8 ? -128 : dtype == QF_U8 ? 0 : dtype == QF_I32 ? INT32_MIN : INT64_MIN;
    const int64_t high = dtype == QF_I8 ? 127 : dtype == QF_U8 ? 255 : dtype == QF_I32 ? INT32_MAX : INT64_MAX;
    return number < low ? low : number > high ? high : number;
}

// The integer that a float is stored as.
template <typename T>
QF_BOTH int64_t integer_of(uint32_t dtype, T number) {
    return dtype == QF_I1 ? number != 0 : clamp_to(dtype, truncate(number));
}

// -------------------------------------------------------------------------------------------------------- one element

// The bits of an element, zero-extended.
QF_BOTH uint64_t load_bits(uint32_t bits, const void *data, int64_t index) {
    switch (bits) {
    case 64: return static_cast<const uint64_t *>(data)[index];
    case 32: return static_cast<const uint32_t *>(data)[index];
    case 16: return static_cast<const uint16_t *>(data)[index];
    case 8: return static_cast<const uint8_t *>(data)[index];
    default: return static_cast<const uint8_t *>(data)[index >> 1] >> ((index & 1) * 4) & 0xF;
    }
}

// Of 4-bit elements one thread must own both of a byte: the other half is read and written back.
QF_BOTH void store_bits(uint32_t bits, void *data, int64_t index, uint64_t code) {
    switch (bits) {
    case 64: static_cast<uint64_t *>(data)[index] = code; return;
    case 32: static_cast<uint32_t *>(data)[index] = (uint32_t)code; return;
    case 16: static_cast<uint16_t *>(data)[index] = (uint16_t)code; return;
    case 8: static_cast<uint8_t *>(data)[index] = (uint8_t)code; return;
    default: {
        uint8_t *byte = static_cast<uint8_t *>(data) + (index >> 1);
        const int shift = (int)(index & 1) * 4;
        *byte = (uint8_t)((*byte & (0xF0 >> shift)) | (uint32_t)(code & 0xF) << shift);
    }
    }
}

QF_BOTH int64_t integer_from_bits(uint32_t dtype, uint64_t code) {
    switch (dtype) {
    case QF_I1: return code != 0;
    case QF_I8: return (int8_t)code;
    case QF_I32: return (int32_t)code;
    default: return (int64_t)code; // i64, and u8, which was zero-extended
    }
}

QF_BOTH float f32_from_bits(uint32_t dtype, uint64_t code) {
    if (dtype == QF_F64) return narrow(double_of(code));
    if (!is_float(dtype)) return (float)integer_from_bits(dtype, code);
    return decode_f32(dtype, (uint32_t)code);
}

QF_BOTH double f64_from_bits(uint32_t dtype, uint64_t code) {
    if (dtype == QF_F64) return double_of(code);
    if (!is_float(dtype)) return (double)integer_from_bits(dtype, code);
    return widen(decode_f32(dtype, (uint32_t)code));
}

QF_BOTH int64_t i64_from_bits(uint32_t dtype, uint64_t code) {
    if (dtype == QF_F64) return truncate(double_of(code));
    if (!is_float(dtype)) return integer_from_bits(dtype, code);
    return truncate(decode_f32(dtype, (uint32_t)code));
}

QF_BOTH uint64_t bits_from_f32(uint32_t dtype, float number, bool saturate) {
    if (dtype == QF_F64) return bits_of(widen(number));
    if (!is_float(dtype)) return (uint64_t)integer_of(dtype, number);
    return encode_f32(dtype, number, saturate);
}

QF_BOTH uint64_t bits_from_f64(uint32_t dtype, double number, bool saturate) {
    if (dtype == QF_F64) return bits_of(number);
    if (!is_float(dtype)) return (uint64_t)integer_of(dtype, number);
    return encode_f64(dtype, number, saturate);
}

QF_BOTH uint64_t bits_from_i64(uint32_t dtype, int64_t number) {
    if (dtype == QF_F64) return bits_of((double)number);
    if (!is_float(dtype)) return dtype == QF_I1 ? number != 0 : (uint64_t)number;
    return encode_i64(dtype, number);
}

// qf_load_f32 and so on.
QF_BOTH float load_f32(uint32_t dtype, const void *data, int64_t index) {
    return f32_from_bits(dtype, load_bits(element_bits(dtype), data, index));
}

QF_BOTH double load_f64(uint32_t dtype, const void *data, int64_t index) {
    return f64_from_bits(dtype, load_bits(element_bits(dtype), data, index));
}

QF_BOTH int64_t load_i64(uint32_t dtype, const void *data, int64_t index) {
    return i64_from_bits(dtype, load_bits(element_bits(dtype), data, index));
}

QF_BOTH void store_f32(uint32_t dtype, void *data, int64_t index, float number, bool saturate) {
    store_bits(element_bits(dtype), data, index, bits_from_f32(dtype, number, saturate));
}

QF_BOTH void store_f64(uint32_t dtype, void *data, int64_t index, double number, bool saturate) {
    store_bits(element_bits(dtype), data, index, bits_from_f64(dtype, number, saturate));
}

QF_BOTH void store_i64(uint32_t dtype, void *data, int64_t index, int64_t number) {
    store_bits(element_bits(dtype), data, index, bits_from_i64(dtype, number));
}

// ---------------------------------------------------------------------------------------------- N consecutive elements

// N is a power of two from 2 to 16. The address of the first of N elements is a multiple of min(16, their bytes); of
// 4-bit elements `first` is even. Code is a constant-index use of registers: loops over N must be unrolled.

// BYTES bytes as 32-bit words; fewer than four fill the low part of one.
template <int BYTES>
QF_BOTH void load_words(const void *address, uint32_t (&words)[(BYTES + 3) / 4]) {
    if constexpr (BYTES >= 16) {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++) {
            const uint4 part = static_cast<const uint4 *>(address)[i];
            words[4 * i] = part.x, words[4 * i + 1] = part.y, words[4 * i + 2] = part.z, words[4 * i + 3] = part.w;
        }
    } else if constexpr (BYTES == 8) {
        const uint2 part = *static_cast<const uint2 *>(address);
        words[0] = part.x, words[1] = part.y;
    } else if constexpr (BYTES == 4) {
        words[0] = *static_cast<const uint32_t *>(address);
    } else if constexpr (BYTES == 2) {
        words[0] = *static_cast<const uint16_t *>(address);
    } else {
        words[0] = *static_cast<const uint8_t *>(address);
    }
}

template <int BYTES>
QF_BOTH void store_words(void *address, const uint32_t (&words)[(BYTES + 3) / 4]) {
    if constexpr (BYTES >= 16) {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++)
            static_cast<uint4 *>(address)[i] =
                make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    } else if constexpr (BYTES == 8) {
        *static_cast<uint2 *>(address) = make_uint2(words[0], words[1]);
    } else if constexpr (BYTES == 4) {
        *static_cast<uint32_t *>(address) = words[0];
    } else if constexpr (BYTES == 2) {
        *static_cast<uint16_t *>(address) = (uint16_t)words[0];
    } else {
        *static_cast<uint8_t *>(address) = (uint8_t)words[0];
    }
}

// Element i of N elements of BITS bits that lie in words.
template <int BITS, int WORDS>
QF_BOTH uint64_t unpack(const uint32_t (&words)[WORDS], int i) {
    if constexpr (BITS == 64) return (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
    if constexpr (BITS == 32) return words[i];
    if constexpr (BITS == 16) return words[i / 2] >> (i % 2 * 16) & 0xFFFF;
    if constexpr (BITS == 8) return words[i / 4] >> (i % 4 * 8) & 0xFF;
    return words[i / 8] >> (i % 8 * 4) & 0xF;
}

// Words are zero before; `code` has no bits above BITS.
template <int BITS, int WORDS>
QF_BOTH void pack(uint32_t (&words)[WORDS], int i, uint64_t code) {
    if constexpr (BITS == 64) words[2 * i] = (uint32_t)code, words[2 * i + 1] = (uint32_t)(code >> 32);
    if constexpr (BITS == 32) words[i] = (uint32_t)code;
    if constexpr (BITS == 16) words[i / 2] |= (uint32_t)code << (i % 2 * 16);
    if constexpr (BITS == 8) words[i / 4] |= (uint32_t)code << (i % 4 * 8);
    if constexpr (BITS == 4) words[i / 8] |= (uint32_t)code << (i % 8 * 4);
}

// Calls convert(code) for N elements of BITS bits, in order.
template <int N, int BITS, typename T, typename CONVERT>
QF_BOTH void load_run(const void *data, int64_t first, T (&out)[N], CONVERT convert) {
    uint32_t words[(N * BITS / 8 + 3) / 4];
    load_words<N * BITS / 8>(static_cast<const char *>(data) + first * BITS / 8, words);
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = convert(unpack<BITS>(words, i));
}

template <int N, int BITS, typename T, typename CONVERT>
QF_BOTH void store_run(void *data, int64_t first, const T (&in)[N], CONVERT convert) {
    uint32_t words[(N * BITS / 8 + 3) / 4] = {};
#pragma unroll
    for (int i = 0; i < N; i++) pack<BITS>(words, i, convert(in[i]));
    store_words<N * BITS / 8>(static_cast<char *>(data) + first * BITS / 8, words);
}

// N codes of up to 32 bits, zero-extended, and of 64 bits.
template <int N>
QF_BOTH void load_vector_bits(uint32_t bits, const void *data, int64_t first, uint64_t (&out)[N]) {
    const auto same = [](uint64_t code) { return code; };
    switch (bits) {
    case 64: load_run<N, 64>(data, first, out, same); return;
    case 32: load_run<N, 32>(data, first, out, same); return;
    case 16: load_run<N, 16>(data, first, out, same); return;
    case 8: load_run<N, 8>(data, first, out, same); return;
    default: load_run<N, 4>(data, first, out, same); return;
    }
}

template <int N>
QF_BOTH void store_vector_bits(uint32_t bits, void *data, int64_t first, const uint64_t (&in)[N]) {
    switch (bits) {
    case 64: store_run<N, 64>(data, first, in, [](uint64_t code) { return code; }); return;
    case 32: store_run<N, 32>(data, first, in, [](uint64_t code) { return code; }); return;
    case 16: store_run<N, 16>(data, first, in, [](uint64_t code) { return code & 0xFFFF; }); return;
    case 8: store_run<N, 8>(data, first, in, [](uint64_t code) { return code & 0xFF; }); return;
    default: store_run<N, 4>(data, first, in, [](uint64_t code) { return code & 0xF; }); return;
    }
}

// qf_load_array_f32 for the floats of up to 32 bits by code of their own; for other dtypes through their bits.
template <int N>
QF_BOTH void load_vector_f32(uint32_t dtype, const void *data, int64_t first, float (&out)[N]) {
    switch (dtype) {
    case QF_F32: load_run<N, 32>(data, first, out, [](uint64_t code) { return float_of((uint32_t)code); }); return;
    case QF_F16: load_run<N, 16>(data, first, out, [](uint64_t code) { return decode_f16((uint32_t)code); }); return;
    case QF_BF16:
        load_run<N, 16>(data, first, out, [](uint64_t code) { return float_of((uint32_t)code << 16); });
        return;
    case QF_F8E4M3FN:
        load_run<N, 8>(data, first, out, [](uint64_t code) { return decode_e4m3fn((uint32_t)code); });
        return;
    case QF_F8E5M2: load_run<N, 8>(data, first, out, [](uint64_t code) { return decode_e5m2((uint32_t)code); }); return;
    case QF_F4E2M1FN:
        load_run<N, 4>(data, first, out, [](uint64_t code) { return decode_e2m1((uint32_t)code); });
        return;
    case QF_I32: load_run<N, 32>(data, first, out, [](uint64_t code) { return (float)(int32_t)code; }); return;
    case QF_F64: load_run<N, 64>(data, first, out, [](uint64_t code) { return narrow(double_of(code)); }); return;
    case QF_I64: load_run<N, 64>(data, first, out, [](uint64_t code) { return (float)(int64_t)code; }); return;
    default: load_run<N, 8>(data, first, out, [dtype](uint64_t code) { return f32_from_bits(dtype, code); }); return;
    }
}

template <int N>
QF_BOTH void store_vector_f32(uint32_t dtype, void *data, int64_t first, const float (&in)[N], bool saturate) {
    switch (dtype) {
    case QF_F32: store_run<N, 32>(data, first, in, [](float number) -> uint64_t { return bits_of(number); }); return;
    case QF_F16: store_run<N, 16>(data, first, in, [](float number) -> uint64_t { return encode_f16(number); }); return;
    case QF_BF16:
        store_run<N, 16>(data, first, in, [](float number) -> uint64_t { return encode_bf16(number); });
        return;
    case QF_F8E4M3FN:
        store_run<N, 8>(data, first, in, [=](float number) -> uint64_t { return encode_e4m3fn(number, saturate); });
        return;
    case QF_F8E5M2:
        store_run<N, 8>(data, first, in, [=](float number) -> uint64_t { return encode_e5m2(number, saturate); });
        return;
    case QF_F4E2M1FN:
        store_run<N, 4>(data, first, in, [](float number) -> uint64_t { return encode_e2m1(number); });
        return;
    case QF_I32:
        store_run<N, 32>(data, first, in,
                         [](float number) -> uint64_t { return (uint32_t)integer_of(QF_I32, number); });
        return;
    case QF_F64: store_run<N, 64>(data, first, in, [](float number) { return bits_of(widen(number)); }); return;
    case QF_I64: store_run<N, 64>(data, first, in, [](float number) { return (uint64_t)truncate(number); }); return;
    default:
        store_run<N, 8>(data, first, in, [=](float number) { return bits_from_f32(dtype, number, saturate) & 0xFF; });
        return;
    }
}

// In 64 bits speed does not matter: the conversions switch by dtype for each element.
template <int N>
QF_BOTH void load_vector_f64(uint32_t dtype, const void *data, int64_t first, double (&out)[N]) {
    uint64_t codes[N];
    load_vector_bits(element_bits(dtype), data, first, codes);
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = f64_from_bits(dtype, codes[i]);
}

template <int N>
QF_BOTH void load_vector_i64(uint32_t dtype, const void *data, int64_t first, int64_t (&out)[N]) {
    uint64_t codes[N];
    load_vector_bits(element_bits(dtype), data, first, codes);
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = i64_from_bits(dtype, codes[i]);
}

template <int N>
QF_BOTH void store_vector_f64(uint32_t dtype, void *data, int64_t first, const double (&in)[N], bool saturate) {
    uint64_t codes[N];
#pragma unroll
    for (int i = 0; i < N; i++) codes[i] = bits_from_f64(dtype, in[i], saturate);
    store_vector_bits(element_bits(dtype), data, first, codes);
}

template <int N>
QF_BOTH void store_vector_i64(uint32_t dtype, void *data, int64_t first, const int64_t (&in)[N]) {
    uint64_t codes[N];
#pragma unroll
    for (int i = 0; i < N; i++) codes[i] = bits_from_i64(dtype, in[i]);
    store_vector_bits(element_bits(dtype), data, first, codes);
}

} // namespace qfuse
