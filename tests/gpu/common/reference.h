// Owns: the GPU harnesses' number formats and their f64 reference, written from the definitions.
// Does not own: inputs (inputs.h), test cases and launches (setup.cuh of each harness). Shares nothing with the
// kernels. Read next: inputs.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace reference {

// Element types, by the numbers that the kernels' params.h share.
constexpr int kBf16 = 0, kF16 = 1, kE4m3 = 2, kE5m2 = 3, kNone = 4;
// How the output is scaled, likewise.
constexpr int kDivide = 0, kMultiply = 1, kMultiplyByReciprocal = 2;

inline int element_bytes(int dtype) {
    return dtype == kBf16 || dtype == kF16 ? 2 : 1;
}

// Value of an FP8 code, from its fields.
inline double decode_fp8(uint8_t code, int dtype) {
    const int mantissa_bits = dtype == kE4m3 ? 3 : 2, bias = dtype == kE4m3 ? 7 : 15;
    const int mantissa = code & ((1 << mantissa_bits) - 1), exponent = (code & 0x7F) >> mantissa_bits;
    const double sign = code & 0x80 ? -1.0 : 1.0;
    if (dtype == kE4m3 && (code & 0x7F) == 0x7F) return NAN;
    if (dtype == kE5m2 && exponent == 31) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(1.0 + std::ldexp(mantissa, -mantissa_bits), exponent - bias);
}

// Nearest code, ties to even, saturating.
inline uint8_t encode_fp8(double x, int dtype) {
    if (std::isnan(x)) return 0x7F;
    const int mantissa_bits = dtype == kE4m3 ? 3 : 2, bias = dtype == kE4m3 ? 7 : 15;
    const uint8_t largest = dtype == kE4m3 ? 0x7E : 0x7B, sign = std::signbit(x) ? 0x80 : 0;
    const double magnitude = std::fabs(x);
    if (magnitude >= decode_fp8(largest, dtype)) return sign | largest;
    int exponent;
    std::frexp(magnitude, &exponent);
    const int ulp = std::max(exponent - 1, 1 - bias) - mantissa_bits;
    const double steps = std::nearbyint(std::ldexp(magnitude, -ulp)); // default rounding: ties to even
    const double rounded = std::ldexp(steps, ulp);
    if (rounded == 0.0) return sign;
    std::frexp(rounded, &exponent);
    if (exponent - 1 < 1 - bias) return sign | static_cast<uint8_t>(steps);
    const int e = exponent - 1;
    const int mantissa = static_cast<int>(std::ldexp(rounded, mantissa_bits - e)) - (1 << mantissa_bits);
    return sign | static_cast<uint8_t>(((e + bias) << mantissa_bits) | mantissa);
}

inline double decode_16(uint16_t bits, int dtype) {
    if (dtype == kBf16) {
        const uint32_t word = static_cast<uint32_t>(bits) << 16;
        float f;
        std::memcpy(&f, &word, 4);
        return f;
    }
    const int mantissa = bits & 0x3FF, exponent = (bits >> 10) & 31;
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

inline uint16_t encode_16(double x, int dtype) {
    if (dtype == kBf16) {
        const float f = static_cast<float>(x);
        uint32_t word;
        std::memcpy(&word, &f, 4);
        if (std::isnan(f)) return 0x7FC0;
        word += 0x7FFF + ((word >> 16) & 1);
        return static_cast<uint16_t>(word >> 16);
    }
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    const double magnitude = std::fabs(x);
    if (std::isnan(x)) return 0x7E00;
    if (magnitude >= 65520.0) return sign | 0x7C00;
    if (magnitude == 0.0) return sign;
    int exponent;
    std::frexp(magnitude, &exponent);
    const int ulp = std::max(exponent - 1, -14) - 10;
    const long steps = static_cast<long>(std::nearbyint(std::ldexp(magnitude, -ulp)));
    // Subnormals and carries fall out of the addition.
    return sign | static_cast<uint16_t>(((ulp + 24) << 10) + steps);
}

inline double decode(const void *data, int64_t index, int dtype) {
    if (dtype == kE4m3 || dtype == kE5m2) {
        static const std::vector<double> table = [] {
            std::vector<double> t(512);
            for (int i = 0; i < 256; ++i) {
                t[i] = decode_fp8(static_cast<uint8_t>(i), kE4m3);
                t[256 + i] = decode_fp8(static_cast<uint8_t>(i), kE5m2);
            }
            return t;
        }();
        return table[static_cast<const uint8_t *>(data)[index] + (dtype == kE4m3 ? 0 : 256)];
    }
    return decode_16(static_cast<const uint16_t *>(data)[index], dtype);
}

// Position of a code on the number line, for "off by how many codes"; both zeros are 0.
inline int order_fp8(uint8_t code) {
    return code & 0x80 ? -(code & 0x7F) : code & 0x7F;
}

// Runs body(i) for i in [0, count) on all cores.
template <class Body>
void parallel(int64_t count, Body body) {
    std::atomic<int64_t> next{0};
    std::vector<std::thread> threads;
    const int cores = std::max(1u, std::thread::hardware_concurrency());
    for (int i = 0; i < std::min<int64_t>(cores, count); ++i) {
        threads.emplace_back([&] {
            for (int64_t k = next++; k < count; k = next++) body(k);
        });
    }
    for (std::thread &thread : threads) thread.join();
}

// An FP8 output before its rounding: the definition computes it in f32.
inline double scale_output(double exact, float scale, int via, int mode) {
    float x = static_cast<float>(exact);
    if (via != kNone) x = static_cast<float>(decode_16(encode_16(x, via), via));
    if (mode == kMultiply) return x * scale;
    return mode == kMultiplyByReciprocal ? x * (1.0f / scale) : x / scale;
}

// One query row against one sequence's keys; everything already dequantised except the scales.
struct Row {
    const float *k, *v; // [keys][head_dim], stored values
    const double *q;    // [head_dim], stored values
    int keys, head_dim;
    int begin, end;    // visible keys
    double multiplier; // softmax scale * q scale * k scale
    double softcap, v_scale;
    bool has_sink;
    double sink;
};

struct RowResult {
    std::vector<double> out;      // before any output scale
    std::vector<double> emulated; // with P rounded to e4m3 at the integer log2 maximum, offset 8
    std::vector<double> rounded;  // with P rounded as the kernel does it (KernelRounding)
    double lse;
};

// How a kernel rounds P = 2^(score - integer maximum + offset).
struct KernelRounding {
    int p_dtype;
    int offset;
};

inline double round_to(double x, int dtype) {
    if (dtype == kE4m3 || dtype == kE5m2) return decode_fp8(encode_fp8(x, dtype), dtype);
    return decode_16(encode_16(x, dtype), dtype);
}

inline RowResult attend(const Row &row, bool emulate, const KernelRounding &rounding) {
    RowResult result;
    result.out.assign(row.head_dim, 0.0);
    result.emulated.assign(row.head_dim, 0.0);
    result.rounded.assign(row.head_dim, 0.0);
    std::vector<double> scores(std::max(row.end - row.begin, 0));
    double largest = -INFINITY;
    for (int key = row.begin; key < row.end; ++key) {
        double dot = 0.0;
        const float *k = row.k + static_cast<int64_t>(key) * row.head_dim;
        for (int d = 0; d < row.head_dim; ++d) dot += row.q[d] * k[d];
        double score = dot * row.multiplier;
        if (row.softcap > 0.0) score = row.softcap * std::tanh(score / row.softcap);
        scores[key - row.begin] = score;
        largest = std::max(largest, score);
    }
    const double top = row.has_sink ? std::max(largest, row.sink) : largest;
    double sum = row.has_sink ? std::exp(row.sink - top) : 0.0, emulated_sum = 0.0, kernel_sum = 0.0;
    const double reference = std::ceil(largest / std::log(2.0));
    for (int key = row.begin; key < row.end; ++key) {
        const double score = scores[key - row.begin], p = std::exp(score - top);
        const float *v = row.v + static_cast<int64_t>(key) * row.head_dim;
        sum += p;
        for (int d = 0; d < row.head_dim; ++d) result.out[d] += p * v[d];
        const double kernel_p =
            round_to(std::exp2(score / std::log(2.0) - reference + rounding.offset), rounding.p_dtype);
        kernel_sum += kernel_p;
        for (int d = 0; d < row.head_dim; ++d) result.rounded[d] += kernel_p * v[d];
        if (emulate) {
            const double code = round_to(std::exp2(score / std::log(2.0) - reference + 8), kE4m3);
            emulated_sum += code;
            for (int d = 0; d < row.head_dim; ++d) result.emulated[d] += code * v[d];
        }
    }
    if (emulate && row.has_sink) emulated_sum += std::exp2(row.sink / std::log(2.0) - reference + 8);
    if (row.has_sink) kernel_sum += std::exp2(row.sink / std::log(2.0) - reference + rounding.offset);
    for (int d = 0; d < row.head_dim; ++d) {
        result.rounded[d] = kernel_sum == 0.0 ? 0.0 : result.rounded[d] / kernel_sum * row.v_scale;
        result.out[d] = sum == 0.0 ? 0.0 : result.out[d] / sum * row.v_scale;
        result.emulated[d] = emulated_sum == 0.0 ? 0.0 : result.emulated[d] / emulated_sum * row.v_scale;
    }
    result.lse = sum == 0.0 ? -INFINITY : top + std::log(sum);
    return result;
}

} // namespace reference
