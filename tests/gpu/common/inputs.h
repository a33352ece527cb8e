// Owns: the inputs of the GPU attention harnesses: kinds of queries, keys and values, and how they are drawn.
// Does not own: number formats (reference.h), where elements lie (setup.cuh of each harness).
// Read next: setup.cuh of a harness.
#pragma once

#include <cstring>
#include <vector>

#include "reference.h"

namespace harness {

enum class Fill { kNormal, kOnes, kMean, kEqual, kRising, kDominant, kExtreme, kOutliers, kNeedle, kTail };

// Scores that a running maximum may get wrong.
struct ShapedFill {
    Fill fill;
    const char *name;
};
inline constexpr ShapedFill kShapedFills[] = {{Fill::kEqual, "equal scores"},
                                              {Fill::kRising, "rising maximum"},
                                              {Fill::kDominant, "dominating score"},
                                              {Fill::kOutliers, "outliers"}};

inline const char *dtype_name(int dtype) {
    static const char *const names[] = {"bf16", "f16", "e4m3", "e5m2"};
    return names[dtype];
}

inline void put(std::vector<uint8_t> &data, int64_t index, int dtype, double x) {
    if (reference::element_bytes(dtype) == 1) {
        data[index] = reference::encode_fp8(x, dtype);
    } else {
        const uint16_t bits = reference::encode_16(x, dtype);
        std::memcpy(&data[2 * index], &bits, 2);
    }
}

// A quick normal deviate, reproducible from its coordinates.
struct Random {
    uint64_t state;
    explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15ull + 0x1234567) {}
    uint32_t bits() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return static_cast<uint32_t>(state >> 32);
    }
    double uniform() {
        return bits() / 4294967296.0;
    }
    double normal() {
        double sum = -6.0;
        for (int i = 0; i < 12; ++i) sum += uniform();
        return sum;
    }
};

// Element d of a query row's stored values; `unit` is the size of a normal one.
inline double query_value(Fill keys, Random &random, int d, double unit) {
    double x = random.normal() * unit;
    if (keys == Fill::kEqual) x = 0.0;
    if (keys == Fill::kExtreme) x = (random.bits() & 1 ? 1 : -1) * 0.5;
    // The shaped fills' queries see element 0 only.
    if (keys == Fill::kRising || keys == Fill::kDominant || keys == Fill::kTail || keys == Fill::kNeedle) {
        x = d == 0 ? 2.0 : 0.0;
    }
    if (keys == Fill::kOutliers && random.bits() % 1000 == 0) x *= 10;
    return x;
}

// Draws rows of K and V for one head of one sequence. Many draws share values: speed, not statistics, matters for long
// caches.
class KeyRows {
  public:
    // `score_unit`: score in nats of a query of a shaped fill against a key whose first element is 1.
    KeyRows(Fill keys, Fill values, int dtype, int head_dim, double score_unit, int tail_exponent, uint64_t seed)
        : keys_(keys), values_(values), dtype_(dtype), bytes_(reference::element_bytes(dtype)), head_dim_(head_dim),
          score_unit_(score_unit), tail_exponent_(tail_exponent), draw_(seed), pool_(4096 * 2), pool_mean_(4096 * 2) {
        for (int i = 0; i < 4096; ++i) {
            const double x = draw_.normal();
            put(pool_, i, dtype, x);
            put(pool_mean_, i, dtype, 0.25 + x);
        }
    }

    // Key j of `length`, whose head starts at element `base` of k and v.
    void put_row(std::vector<uint8_t> &k, std::vector<uint8_t> &v, int64_t base, int j, int length) {
        for (int d = 0; d < head_dim_; ++d) {
            const uint32_t pick = draw_.bits();
            put_key(k, base + d, d, j, length, pick);
            put_value(v, base + d, j, length, pick);
        }
    }

  private:
    void copy(std::vector<uint8_t> &to, int64_t index, const std::vector<uint8_t> &from, uint32_t which) const {
        std::memcpy(&to[index * bytes_], &from[which % 4096 * bytes_], bytes_);
    }
    void put_key(std::vector<uint8_t> &k, int64_t index, int d, int j, int length, uint32_t pick) const {
        const double first = d == 0 ? 1.0 : 0.0;
        switch (keys_) {
        case Fill::kNormal:
        case Fill::kEqual: copy(k, index, pool_, pick); break;
        case Fill::kOnes:
        case Fill::kMean: put(k, index, dtype_, 1.0); break;
        // The maximum rises by about a fifth of an octave a tile, up to the format's range.
        case Fill::kRising: put(k, index, dtype_, first * std::min(0.14 * (j / 16) / score_unit_, 440.0)); break;
        case Fill::kDominant: put(k, index, dtype_, first * (j == length / 2 ? 30.0 / score_unit_ : 0.0)); break;
        case Fill::kTail:
            put(k, index, dtype_, first * (j == 0 ? 0.0 : -tail_exponent_ * 0.6931472 / score_unit_));
            break;
        case Fill::kNeedle: put(k, index, dtype_, first * (j == length / 3 ? 16.0 / score_unit_ : 0.0)); break;
        case Fill::kExtreme: put(k, index, dtype_, pick & 1 ? 448.0 : -448.0); break;
        case Fill::kOutliers:
            put(k, index, dtype_,
                reference::decode(pool_.data(), pick % 4096, dtype_) * ((pick >> 12) % 1000 == 0 ? 10 : 1));
            break;
        }
    }
    void put_value(std::vector<uint8_t> &v, int64_t index, int j, int length, uint32_t pick) const {
        switch (values_) {
        case Fill::kOnes: put(v, index, dtype_, 1.0); break;
        case Fill::kMean: copy(v, index, pool_mean_, pick >> 12); break;
        case Fill::kExtreme: put(v, index, dtype_, pick >> 1 & 1 ? 448.0 : -448.0); break;
        case Fill::kNeedle: put(v, index, dtype_, j == length / 3 ? 4.0 : 0.0); break;
        default: copy(v, index, pool_, pick >> 12); break;
        }
    }

    Fill keys_, values_;
    int dtype_, bytes_, head_dim_;
    double score_unit_;
    int tail_exponent_;
    Random draw_;
    std::vector<uint8_t> pool_, pool_mean_;
};

} // namespace harness
