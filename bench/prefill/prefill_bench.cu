// Owns: the timing of the prefill kernels on one GPU: tables of cells, rates, peers' figures.
// Does not own: correctness (tests/gpu/prefill) and the launch (kernels/cuda/prefill/launch.cuh).
// Read next: bench/RESULTS.md for dated results.
//
// prefill_bench [SECTION...] [--name=value...]
//   sections: dense, dense16 (bf16 in and out), paged, paged16, types (every pair of operands and result), mix
//             (sequences of different lengths in one packed batch); none = all
//   values:   cell (substring of a cell's name), ctas (0 = one a multiprocessor), section (KV heads handed out
//             together, 0 = the host's choice), warm (milliseconds of load before a row is timed), launches (of a
//             graph; 0 = some milliseconds; 1 = none overlaps its predecessor, as where a model's graph is replayed),
//             rows (of a tile of work, 0 = the host's choice), trace (a file for the stamps of
//             kernels/cuda/prefill/trace.cuh, of a cell's last launches), transpose (of V in FP8: inside, before,
//             shared; the host's choice where absent)
//
// Method: random normal q, k and v, the same buffers in every launch; a graph of launches of some milliseconds,
// replayed until the card is warm, then nine timed replays, median. FLOP = 4 * q tokens * keys * head dim * query
// heads, half of it under a causal mask. Clock and power are read while the last replay runs; /clk is FLOP a clock and
// multiprocessor at that clock, of 8192 (FP8) or 4096 (16 bits). Built with -DQF_PREFILL_CLOCKS, /clk uses the clocks
// that dense launches counted.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "bench/common/timing.cuh"
#include "cells.h"
#include "kernels/cuda/common/check.cuh"
#include "kernels/cuda/common/output.cuh"
#include "kernels/cuda/prefill/launch.cuh"
#include "kernels/cuda/prefill/trace.cuh"

using namespace qfuse::prefill;
using namespace bench;

namespace {

struct Options {
    std::string cell;
    int ctas = 0, section = 0, warm = 40, launches = 0, rows = 0, wish = QF_PREFILL_WISH_NONE;
    std::string trace;
    std::vector<std::string> sections;
} g_options;

int g_multiprocessors;
cudaStream_t g_stream;

// Random normal numbers, four at a time.
__global__ void fill_random(uint8_t *data, size_t groups, int dtype, uint32_t seed) {
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < groups; i += stride) {
        uint64_t state = (i + 1) * 0x9E3779B97F4A7C15ull + seed;
        float x[4];
        for (int k = 0; k < 4; ++k) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            const float u = ((state >> 40) + 1) * (1.0f / 16777217.0f), v = (state & 0xFFFFFF) * (1.0f / 16777216.0f);
            x[k] = sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
        }
        if (dtype == QF_PREFILL_E4M3) {
            reinterpret_cast<uint32_t *>(data)[i] =
                qfuse::f32_to_e4m3x2(x[0], x[1]) | static_cast<uint32_t>(qfuse::f32_to_e4m3x2(x[2], x[3])) << 16;
        } else {
            reinterpret_cast<uint2 *>(data)[i] = qfuse::f32x4_to_16x4(x, dtype);
        }
    }
}

template <class T>
struct Buffer {
    T *data = nullptr;
    explicit Buffer(size_t count) {
        CHECK(cudaMalloc(&data, std::max<size_t>(count, 1) * sizeof(T)));
    }
    Buffer(const Buffer &) = delete;
    ~Buffer() {
        cudaFree(data);
    }
};

void fill(Buffer<uint8_t> &buffer, size_t elements, int dtype, uint32_t seed) {
    fill_random<<<1024, 256, 0, g_stream>>>(buffer.data, elements / 4, dtype, seed);
}

struct Variant {
    int page_size = 0, dtype = QF_PREFILL_E4M3, out_dtype = QF_PREFILL_E4M3;
    bool causal = true, head_major = false;
    std::vector<int> mix; // tokens of each sequence of a packed, paged batch; empty: the cell's batch and tokens
};

// What follows from a cell and a variant before any memory is taken.
struct Shape {
    std::vector<int> lengths;
    int64_t tokens = 0, blocks = 0; // of q; of k and v: pages, or batch elements
    int block = 0, width = 0;       // tokens of a block; blocks of the longest sequence
    double flop = 0;

    Shape(const Cell &cell, const Variant &variant)
        : lengths(variant.mix.empty() ? std::vector<int>(cell.batch, cell.tokens) : variant.mix) {
        block = variant.page_size > 0 ? variant.page_size : cell.tokens;
        for (int length : lengths) {
            const int count = (length + block - 1) / block;
            tokens += length, blocks += count, width = std::max(width, count);
            flop += 4.0 * length * length * cell.head_dim * cell.q_heads * (variant.causal ? 0.5 : 1.0);
        }
    }
};

std::string cell_name(const Cell &cell) {
    char text[80];
    std::snprintf(text, sizeof text, "%dx%d %d/%d d%d", cell.batch, cell.tokens, cell.q_heads, cell.kv_heads,
                  cell.head_dim);
    return text;
}

#ifdef QF_PREFILL_CLOCKS
// SM clocks of a CTA in the last launch.
double mean_clocks(const int *device, int ctas) {
    std::vector<long long> clocks(ctas);
    CHECK(cudaMemcpy(clocks.data(), device, ctas * 8, cudaMemcpyDeviceToHost));
    double sum = 0;
    for (long long x : clocks) sum += static_cast<double>(x);
    return sum / ctas;
}
#endif

#ifdef QF_PREFILL_TRACE
// Appends: CTAs, launches, roles, slots as 64-bit words, then the stamps.
void write_trace(const int *device, size_t words, int ctas, int launches) {
    std::FILE *file = g_options.trace.empty() ? nullptr : std::fopen(g_options.trace.c_str(), "ab");
    if (file == nullptr) return;
    std::vector<int> host(words);
    CHECK(cudaMemcpy(host.data(), device, words * 4, cudaMemcpyDeviceToHost));
    const int64_t head[4] = {ctas, launches, kTraceRoles, kTraceSlots};
    std::fwrite(head, sizeof head, 1, file);
    std::fwrite(host.data(), 4, words, file);
    std::fclose(file);
}
#endif

void run_cell(const Cell &cell, const Variant &variant) {
    const std::string name = variant.mix.empty() ? cell_name(cell) : "mix of " + cell_name(cell);
    if (!g_options.cell.empty() && name.find(g_options.cell) == std::string::npos) return;
    const Shape shape(cell, variant);
    const bool packed = !variant.mix.empty();
    qf_prefill_problem problem = {};
    problem.dtype = variant.dtype, problem.out_dtype = variant.out_dtype, problem.head_dim = cell.head_dim;
    problem.kv_heads = cell.kv_heads, problem.group = cell.q_heads / cell.kv_heads;
    problem.batch = static_cast<int>(shape.lengths.size()), problem.packed = packed;
    problem.q_tokens = packed ? static_cast<int>(shape.tokens) : cell.tokens;
    problem.kv_tokens = shape.width * shape.block, problem.page_size = variant.page_size;
    problem.pages = shape.blocks;
    problem.softmax_scale = 1.0f / std::sqrt(static_cast<float>(cell.head_dim));
    problem.causal = variant.causal, problem.window_left = problem.window_right = -1;
    problem.wish = g_options.wish;
    if (qf_prefill_refusal(&problem) != nullptr) return;
    problem.tile_rows = g_options.rows > 0 ? g_options.rows : qf_prefill_choose_rows(&problem, g_multiprocessors);
    qf_prefill_choice choice = qf_prefill_choose(&problem, g_options.ctas > 0 ? g_options.ctas : g_multiprocessors);
    const size_t q_count = static_cast<size_t>(shape.tokens) * cell.q_heads * cell.head_dim;
    const size_t k_count = static_cast<size_t>(shape.blocks) * shape.block * cell.kv_heads * cell.head_dim;
    const size_t entries = shape.lengths.size() * shape.width;
    const int bytes = qf_prefill_element_bytes(variant.dtype);
    Buffer<uint8_t> q(q_count * bytes), k(k_count * bytes), v(k_count * bytes), out(q_count * 2),
        transposed(choice.transposed_bytes);
    Buffer<int> table(entries + 2 * g_multiprocessors), lengths(shape.lengths.size()), start(shape.lengths.size() + 1);
    Buffer<float> scales(4);
    Buffer<uint32_t> ticket(1);
    fill(q, q_count, variant.dtype, 1), fill(k, k_count, variant.dtype, 2), fill(v, k_count, variant.dtype, 3);
    std::vector<int> pages(shape.blocks), host_table(entries, 0), host_start(1, 0);
    for (int64_t i = 0; i < shape.blocks; ++i) pages[i] = static_cast<int>(i);
    std::mt19937 shuffle(1);
    std::shuffle(pages.begin(), pages.end(), shuffle);
    int64_t used = 0;
    for (size_t b = 0; b < shape.lengths.size(); ++b) {
        for (int i = 0; i < (shape.lengths[b] + shape.block - 1) / shape.block; ++i) {
            host_table[b * shape.width + i] = pages[used++];
        }
        host_start.push_back(host_start.back() + shape.lengths[b]);
    }
    const float host_scales[4] = {1.0f, 1.0f, 1.0f, 0.01f};
    CHECK(cudaMemcpy(table.data, host_table.data(), entries * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(lengths.data, shape.lengths.data(), shape.lengths.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(start.data, host_start.data(), host_start.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(scales.data, host_scales, sizeof host_scales, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(ticket.data, 0, 4));
    qf_prefill_params p;
    qf_prefill_fill(&problem, &p);
    const int64_t row = int64_t{cell.head_dim} * bytes, kv_row = row * cell.kv_heads;
    const qf_prefill_tensor q_tensor = {q.data, row * cell.q_heads, row, row * cell.q_heads * cell.tokens};
    qf_prefill_tensor k_tensor = {k.data, variant.head_major ? row : kv_row,
                                  variant.head_major ? row * shape.block : row, kv_row * shape.block};
    qf_prefill_tensor v_tensor = k_tensor;
    v_tensor.address = v.data;
    if (!encode_maps(problem, q_tensor, k_tensor, v_tensor, &p)) {
        std::printf("FATAL tensor map refused\n");
        std::exit(3);
    }
    p.out = out.data, p.ticket = ticket.data, p.transposed = transposed.data;
    p.q_scale = scales.data, p.k_scale = scales.data + 1, p.v_scale = scales.data + 2, p.out_scale = scales.data + 3;
    p.block_table = table.data, p.block_table_stride = shape.width;
    if (packed) p.q_start = start.data, p.kv_lens = lengths.data;
    p.out_head_stride = cell.head_dim, p.out_token_stride = p.out_head_stride * cell.q_heads;
    p.out_batch_stride = p.out_token_stride * cell.tokens, p.bottom_right = 1;
    if (g_options.section > 0) p.section_heads = g_options.section;

    const double flop = shape.flop;
    const int most = static_cast<int>(std::min(200.0, std::max(1.0, 5e-3 / (flop / 8e14))));
    const int launches = g_options.launches > 0 ? std::min(g_options.launches, most) : most;
#ifdef QF_PREFILL_TRACE
    const size_t stamp_words = static_cast<size_t>(choice.ctas) * kTraceRoles * kTraceSlots * 2; // of 32 bits
    Buffer<int> stamps(launches * stamp_words);
    p.block_table = stamps.data;
#endif
    CHECK(launch(problem, choice, p, true, g_stream)); // attributes are set outside the capture
    CHECK(cudaStreamSynchronize(g_stream));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(g_stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
#ifdef QF_PREFILL_TRACE
        p.block_table = stamps.data + i * stamp_words;
#endif
        CHECK(launch(problem, choice, p, true, g_stream));
    }
    CHECK(cudaStreamEndCapture(g_stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    const double replay = launches * flop / 8e14 * 1e3; // milliseconds, about
    for (int i = 0; i < g_options.warm / replay; ++i) CHECK(cudaGraphLaunch(exec, g_stream));
    const Timing timing = time_graph(exec, launches, g_stream, most / launches);
#ifdef QF_PREFILL_TRACE
    write_trace(stamps.data, launches * stamp_words, choice.ctas, launches);
#endif
    const double tflops = flop / timing.median * 1e-6, peer = variant.causal ? cell.peer_causal : cell.peer_full;
    std::printf("%-24s %-7s %10.2f [%9.2f %9.2f] %7.0f", name.c_str(), variant.causal ? "causal" : "full",
                timing.median, timing.low, timing.high, tflops);
    if (peer > 0)
        std::printf(" %6.0f %5.2f", peer, tflops / peer);
    else
        std::printf(" %6s %5s", "", "");
    double clocks = timing.median * timing.megahertz;
#ifdef QF_PREFILL_CLOCKS
    if (variant.page_size == 0) clocks = mean_clocks(table.data, choice.ctas);
#endif
    std::printf("  %5u %4u %6.0f %s\n", timing.megahertz, timing.watts, flop / clocks / g_multiprocessors,
                choice.cluster > 1       ? "before, shared"
                : choice.before_ctas > 0 ? "before"
                                         : "");
    std::fflush(stdout);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

void run_table(const char *title, const std::vector<Cell> &cells, Variant variant, bool full) {
    std::printf("\n%s\n%-24s %-7s %10s %23s %7s %6s %5s  %5s %4s %6s\n", title, "cell", "mask", "us",
                "[lowest   highest]", "TFLOPS", "peer", "/peer", "MHz", "W", "/clk V^T");
    for (const Cell &cell : cells) {
        for (int causal = full ? 0 : 1; causal < 2; ++causal) {
            variant.causal = causal != 0;
            run_cell(cell, variant);
        }
    }
}

bool wanted(const char *section) {
    if (g_options.sections.empty()) return true;
    for (const std::string &name : g_options.sections) {
        if (name == section) return true;
    }
    return false;
}

void parse(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        const size_t equals = argument.find('=');
        if (argument.rfind("--", 0) != 0 || equals == std::string::npos) {
            g_options.sections.push_back(argument);
            continue;
        }
        const std::string name = argument.substr(2, equals - 2), value = argument.substr(equals + 1);
        if (name == "cell")
            g_options.cell = value;
        else if (name == "ctas")
            g_options.ctas = std::atoi(value.c_str());
        else if (name == "section")
            g_options.section = std::atoi(value.c_str());
        else if (name == "launches")
            g_options.launches = std::atoi(value.c_str());
        else if (name == "rows")
            g_options.rows = std::atoi(value.c_str());
        else if (name == "trace")
            g_options.trace = value;
        else if (name == "warm")
            g_options.warm = std::atoi(value.c_str());
        else if (name == "transpose")
            g_options.wish = value == "shared"   ? QF_PREFILL_WISH_SHARED
                             : value == "before" ? QF_PREFILL_WISH_BEFORE
                                                 : QF_PREFILL_WISH_INSIDE;
        else
            std::printf("unknown option %s\n", name.c_str()), std::exit(2);
    }
}

} // namespace

int main(int argc, char **argv) {
    parse(argc, argv);
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    g_multiprocessors = properties.multiProcessorCount;
    CHECK(cudaStreamCreate(&g_stream));
    std::printf("%s, %d multiprocessors\n", properties.name, g_multiprocessors);
    if (wanted("dense")) run_table("dense BSHD, e4m3 in and out", kDenseCells, {}, true);
    if (wanted("dense16")) {
        Variant variant;
        variant.dtype = variant.out_dtype = QF_PREFILL_BF16;
        run_table("dense BSHD, bf16 in and out", kDense16Cells, variant, true);
    }
    if (wanted("paged")) {
        Variant variant;
        for (int page : {64, 16}) {
            variant.page_size = page;
            run_table(page == 64 ? "paged 64 NHD, e4m3 in and out" : "paged 16 NHD", kPagedCells, variant, false);
        }
        variant.page_size = 64, variant.head_major = true;
        run_table("paged 64 HND", kPagedCells, variant, false);
    }
    if (wanted("paged16")) {
        Variant variant;
        variant.dtype = variant.out_dtype = QF_PREFILL_BF16, variant.page_size = 64;
        run_table("paged 64 NHD, bf16 in and out", kPaged16Cells, variant, false);
        variant.page_size = 16;
        run_table("paged 16 NHD, bf16 in and out", kPaged16Cells, variant, false);
    }
    if (wanted("types")) {
        static const char *const names[] = {"bf16", "f16", "e4m3"};
        for (int dtype : {QF_PREFILL_E4M3, QF_PREFILL_BF16, QF_PREFILL_F16}) {
            for (int out_dtype : {QF_PREFILL_E4M3, QF_PREFILL_BF16, QF_PREFILL_F16}) {
                if (dtype != QF_PREFILL_E4M3 && out_dtype != QF_PREFILL_E4M3 && out_dtype != dtype) continue;
                Variant variant;
                variant.dtype = dtype, variant.out_dtype = out_dtype;
                const std::string title = std::string(names[dtype]) + " in, " + names[out_dtype] + " out";
                run_table(title.c_str(), kTypeCells, variant, true);
            }
        }
    }
    for (int dtype : {QF_PREFILL_E4M3, QF_PREFILL_BF16}) {
        if (!wanted("mix")) break;
        const std::string title =
            dtype == QF_PREFILL_E4M3 ? "e4m3, packed, page 64 NHD: " : "bf16, packed, page 64 NHD: ";
        Variant variant;
        variant.dtype = variant.out_dtype = dtype, variant.page_size = 64;
        // What the mix is measured by; then the longest sequence first, then last: the order must not matter much.
        run_table((title + "one sequence").c_str(), kMixUniformCells, variant, false);
        variant.mix.assign(16, 1024);
        variant.mix.front() = 16384;
        run_table((title + "16k, then 15 of 1k").c_str(), kMixCells, variant, false);
        std::swap(variant.mix.front(), variant.mix.back());
        run_table((title + "15 of 1k, then 16k").c_str(), kMixCells, variant, false);
    }
    return 0;
}
