// Owns: the cells of the decode bench: batches of lengths, and what peers took for them.
// Does not own: the measurement (decode_bench.cu).
// Read next: bench/RESULTS.md. Peers of 2026-11-30 on the same kind of card, output cast included where their kernel
// has no FP8 output (only in the figure with the small kernel).
#pragma once

#include <vector>

namespace bench {

struct Cell {
    const char *name;
    std::vector<int> lengths;
    double peer;       // best peer back to back, microseconds; 0 = not measured
    double peer_small; // with a small kernel between
};

inline std::vector<int> uniform(int batch, int length) {
    return std::vector<int>(batch, length);
}

inline std::vector<int> mix(int batch, int length, int more, int more_length) {
    std::vector<int> lengths(batch, length);
    lengths.insert(lengths.end(), more, more_length);
    return lengths;
}

inline const std::vector<Cell> kCells328 = {
    {"B1 L1024", uniform(1, 1024), 6.21, 7.68},
    {"B1 L4096", uniform(1, 4096), 8.57, 10.28},
    {"B1 L16384", uniform(1, 16384), 14.59, 16.55},
    {"B1 L65536", uniform(1, 65536), 39.19, 41.09},
    {"B1 L131072", uniform(1, 131072), 70.52, 72.34},
    {"B8 L1024", uniform(8, 1024), 8.36, 11.89},
    {"B8 L4096", uniform(8, 4096), 20.46, 24.88},
    {"B8 L16384", uniform(8, 16384), 66.26, 70.19},
    {"B8 L65536", uniform(8, 65536), 249.8, 251.8},
    {"B8 L131072", uniform(8, 131072), 490.0, 506.1},
    {"B32 L1024", uniform(32, 1024), 20.92, 23.63},
    {"B32 L4096", uniform(32, 4096), 69.85, 69.18},
    {"B32 L16384", uniform(32, 16384), 253.4, 251.8},
    {"B32 L65536", uniform(32, 65536), 993.4, 990.9},
    {"B128 L1024", uniform(128, 1024), 71.17, 75.06},
    {"B128 L4096", uniform(128, 4096), 255.8, 265.9},
    {"B128 L16384", uniform(128, 16384), 1020, 1028},
    {"B256 L1024", uniform(256, 1024), 141.9, 145.4},
    {"B256 L4096", uniform(256, 4096), 518.3, 533.0},
    {"1x64k+31x4k", mix(1, 65536, 31, 4096), 103.6, 105.9},
    {"32x128+32x4k", mix(32, 128, 32, 4096), 74.37, 76.70},
    {"1x128k+31x4k", mix(1, 131072, 31, 4096), 0, 0},
};

inline const std::vector<Cell> kCells648 = {
    {"B1 L1024", uniform(1, 1024), 6.41, 7.79},   {"B1 L16384", uniform(1, 16384), 15.01, 16.73},
    {"B8 L4096", uniform(8, 4096), 20.89, 0},     {"B32 L4096", uniform(32, 4096), 70.48, 0},
    {"B32 L16384", uniform(32, 16384), 254.7, 0}, {"B128 L1024", uniform(128, 1024), 72.60, 0},
    {"B128 L2048", uniform(128, 2048), 134.3, 0}, {"B128 L16384", uniform(128, 16384), 1021, 0},
    {"B256 L4096", uniform(256, 4096), 521.8, 0},
};

inline const std::vector<Cell> kCells81 = {
    {"B1 L1024", uniform(1, 1024), 5.83, 0},
    {"B1 L4096", uniform(1, 4096), 6.33, 0},
    {"B1 L16384", uniform(1, 16384), 7.87, 0},
    {"B1 L65536", uniform(1, 65536), 11.42, 0},
    {"B1 L131072", uniform(1, 131072), 16.13, 0},
    {"B8 L1024", uniform(8, 1024), 6.37, 0},
    {"B8 L4096", uniform(8, 4096), 9.15, 0},
    {"B8 L16384", uniform(8, 16384), 15.29, 16.90},
    {"B8 L65536", uniform(8, 65536), 40.00, 41.57},
    {"B8 L131072", uniform(8, 131072), 69.44, 71.16},
    {"B32 L1024", uniform(32, 1024), 7.28, 10.26},
    {"B32 L4096", uniform(32, 4096), 13.28, 16.86},
    {"B32 L16384", uniform(32, 16384), 37.14, 41.71},
    {"B32 L65536", uniform(32, 65536), 129.6, 132.6},
    {"B32 L131072", uniform(32, 131072), 250.2, 252.2},
    {"B128 L1024", uniform(128, 1024), 12.21, 16.57},
    {"B128 L4096", uniform(128, 4096), 35.76, 40.35},
    {"B128 L16384", uniform(128, 16384), 128.3, 131.2},
    {"B128 L65536", uniform(128, 65536), 488.0, 490.0},
    {"B128 L131072", uniform(128, 131072), 965.9, 970.6},
    {"B256 L1024", uniform(256, 1024), 21.78, 23.87},
    {"B256 L4096", uniform(256, 4096), 69.60, 70.00},
    {"B256 L16384", uniform(256, 16384), 250.6, 253.4},
    {"B256 L65536", uniform(256, 65536), 966.2, 973.7},
};

// A few cells without peers: sizes that show the ceiling.
inline std::vector<Cell> probe_cells() {
    return {{"B1 L1024", uniform(1, 1024), 0, 0},
            {"B8 L4096", uniform(8, 4096), 0, 0},
            {"B32 L4096", uniform(32, 4096), 0, 0},
            {"B32 L16384", uniform(32, 16384), 0, 0},
            {"B64 L16384", uniform(64, 16384), 0, 0}};
}

} // namespace bench
