// Owns: random normal numbers for the operands that a bench fills.
// Does not own: their types and layout.
// Read next: a bench that uses it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

// Four of them, the same for the same index and seed, by Box and Muller's transform of a xorshift generator.
__device__ inline void random_normal(float (&x)[4], size_t index, uint32_t seed) {
    uint64_t state = (index + 1) * 0x9E3779B97F4A7C15ull + seed;
    for (int k = 0; k < 4; ++k) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        const float u = ((state >> 40) + 1) * (1.0f / 16777217.0f), v = (state & 0xFFFFFF) * (1.0f / 16777216.0f);
        x[k] = sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
    }
}

} // namespace bench
