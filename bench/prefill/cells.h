// Owns: the cells of the prefill bench and the peers' figures in them.
// Does not own: how a cell is timed (prefill_bench.cu).
// Read next: prefill_bench.cu.
//
// Peers, TFLOPS, full and causal: the better of cuDNN 9.19 (FP8 in, FP8 out) and FlashAttention-3 (FP8 in, bf16 out,
// one-level accumulation), on this kind of card on 2026-11-30, dense, BSHD, random data. 0 = not measured.
#pragma once

#include <vector>

namespace bench {

struct Cell {
    int batch, tokens, q_heads, kv_heads, head_dim;
    double peer_full, peer_causal;
};

inline const std::vector<Cell> kDenseCells = {
    {16, 1024, 16, 16, 128, 812, 524}, {4, 4096, 16, 16, 128, 964, 821},  {1, 16384, 16, 16, 128, 997, 941},
    {1, 32768, 16, 16, 128, 910, 908}, {4, 4096, 32, 8, 128, 986, 897},   {1, 8192, 32, 8, 128, 992, 939},
    {1, 16384, 32, 8, 128, 927, 972},  {4, 4096, 40, 8, 128, 1003, 882},  {1, 2048, 32, 8, 128, 785, 590},
    {1, 1024, 32, 8, 128, 504, 298},   {4, 4096, 32, 32, 64, 577, 496},   {1, 16384, 32, 32, 64, 632, 578},
    {4, 4096, 8, 8, 256, 1144, 1083},  {1, 16384, 8, 8, 256, 1241, 1163}, {1, 4096, 32, 8, 128, 0, 0},
};

// The same with bf16 in and out: the better of cuDNN 9.19 and FlashAttention-3, on the same day.
inline const std::vector<Cell> kDense16Cells = {
    {16, 1024, 16, 16, 128, 595, 467}, {4, 4096, 16, 16, 128, 660, 675}, {1, 16384, 16, 16, 128, 667, 745},
    {1, 32768, 16, 16, 128, 604, 667}, {4, 4096, 32, 8, 128, 669, 696},  {1, 8192, 32, 8, 128, 668, 723},
    {1, 16384, 32, 8, 128, 606, 663},  {4, 4096, 40, 8, 128, 678, 695},  {1, 2048, 32, 8, 128, 601, 509},
    {1, 1024, 32, 8, 128, 446, 294},   {4, 4096, 32, 32, 64, 531, 452},  {1, 16384, 32, 32, 64, 516, 533},
    {4, 4096, 8, 8, 256, 716, 595},    {1, 16384, 8, 8, 256, 736, 652},
};

// Paged, causal, one sequence of 32/8 heads of 128: published figures of FlashInfer fmha_v2.
inline const std::vector<Cell> kPagedCells = {
    {1, 4096, 32, 8, 128, 0, 778},  {1, 8192, 32, 8, 128, 0, 805},  {1, 16384, 32, 8, 128, 0, 820},
    {1, 32768, 32, 8, 128, 0, 844}, {1, 65536, 32, 8, 128, 0, 864},
};

// Where output types are timed beside each other.
inline const std::vector<Cell> kTypeCells = {
    {4, 4096, 32, 8, 128, 0, 0}, {1, 16384, 32, 8, 128, 0, 0}, {1, 1024, 32, 8, 128, 0, 0}};

inline const std::vector<Cell> kPaged16Cells = {{1, 4096, 32, 8, 128, 0, 0}, {1, 16384, 32, 8, 128, 0, 0}};

// Heads of the packed mix, whose lengths are the bench's; and its sequences alone.
inline const std::vector<Cell> kMixUniformCells = {{1, 16384, 32, 8, 128, 0, 0}, {15, 1024, 32, 8, 128, 0, 0}};
inline const Cell kMixCell = {16, 1024, 32, 8, 128, 0, 0};

} // namespace bench
