// Owns: one variant of a cell on the GPU: its buffers, and the graph of launches that is timed.
// Does not own: the cells (cells.h), how graphs are timed (bench/common/timing.cuh), tables (prefill_bench.cu).
// Read next: prefill_bench.cu.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "bench/common/random.cuh"
#include "bench/common/timing.cuh"
#include "cells.h"
#include "kernels/cuda/common/output.cuh"
#include "kernels/cuda/prefill/launch.cuh"
#include "kernels/cuda/prefill/trace.cuh"

namespace bench {

using namespace qfuse::prefill;

// What the command line asks of every launch.
struct Options {
    std::string cell;
    int ctas = 0, section = 0, warm = 40, launches = 0, rows = 0, wish = QF_PREFILL_WISH_NONE;
    std::string trace;
    std::vector<std::string> sections;
};

struct Device {
    int multiprocessors = 0;
    cudaStream_t stream = nullptr;
};

__global__ void fill_random(uint8_t *data, size_t groups, int dtype, uint32_t seed) {
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < groups; i += stride) {
        float x[4];
        random_normal(x, i, seed);
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
    void upload(const std::vector<T> &host) {
        CHECK(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
};

struct Variant {
    int page_size = 0, dtype = QF_PREFILL_E4M3, out_dtype = QF_PREFILL_E4M3;
    bool causal = true, head_major = false;
    int wish = QF_PREFILL_WISH_NONE;
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

inline std::string cell_name(const Cell &cell, const Variant &variant) {
    char text[80];
    std::snprintf(text, sizeof text, "%s%dx%d %d/%d d%d", variant.mix.empty() ? "" : "mix of ", cell.batch, cell.tokens,
                  cell.q_heads, cell.kv_heads, cell.head_dim);
    return text;
}

inline qf_prefill_problem make_problem(const Cell &cell, const Variant &variant, const Shape &shape,
                                       const Options &options, int multiprocessors) {
    qf_prefill_problem problem = {};
    problem.dtype = variant.dtype, problem.out_dtype = variant.out_dtype, problem.head_dim = cell.head_dim;
    problem.kv_heads = cell.kv_heads, problem.group = cell.q_heads / cell.kv_heads;
    problem.batch = static_cast<int>(shape.lengths.size()), problem.packed = !variant.mix.empty();
    problem.q_tokens = problem.packed ? static_cast<int>(shape.tokens) : cell.tokens;
    problem.kv_tokens = shape.width * shape.block, problem.page_size = variant.page_size;
    problem.pages = shape.blocks;
    problem.softmax_scale = 1.0f / std::sqrt(static_cast<float>(cell.head_dim));
    problem.causal = variant.causal, problem.window_left = problem.window_right = -1;
    problem.wish = variant.wish != QF_PREFILL_WISH_NONE ? variant.wish : options.wish;
    if (qf_prefill_refusal(&problem) == nullptr) {
        problem.tile_rows = options.rows > 0 ? options.rows : qf_prefill_choose_rows(&problem, multiprocessors);
    }
    return problem;
}

// Of a problem that is not refused.
class Run {
  public:
    Run(const Cell &cell, const Variant &variant, const Shape &the_shape, const qf_prefill_problem &the_problem,
        const Options &options, const Device &device);
    Run(const Run &) = delete;
    ~Run() {
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
    double milliseconds() const { // of a replay, about
        return launches * shape.flop / 8e14 * 1e3;
    }

    const Shape shape;
    const qf_prefill_problem problem;
    const qf_prefill_choice choice;
    int most, launches; // of a graph: for some milliseconds; as asked for
    cudaGraphExec_t exec;
    Buffer<int> table; // and, after it, room for the clocks of QF_PREFILL_CLOCKS
#ifdef QF_PREFILL_TRACE
    size_t stamp_words; // of 32 bits, a launch
    Buffer<int> stamps;
#endif

  private:
    void fill_pages(std::vector<int> &host_table) const;
    void set_pointers(const Cell &cell, const Variant &variant);

    cudaGraph_t graph;
    const size_t q_count, k_count;
    Buffer<uint8_t> q, k, v, out, transposed;
    Buffer<int> lengths, start;
    Buffer<float> scales;
    Buffer<uint32_t> ticket;
    qf_prefill_params p;
};

// Pages in random order.
inline void Run::fill_pages(std::vector<int> &host_table) const {
    std::vector<int> pages(shape.blocks);
    for (int64_t i = 0; i < shape.blocks; ++i) pages[i] = static_cast<int>(i);
    std::mt19937 shuffle(1);
    std::shuffle(pages.begin(), pages.end(), shuffle);
    int64_t used = 0;
    for (size_t b = 0; b < shape.lengths.size(); ++b) {
        for (int i = 0; i < (shape.lengths[b] + shape.block - 1) / shape.block; ++i) {
            host_table[b * shape.width + i] = pages[used++];
        }
    }
}

inline void Run::set_pointers(const Cell &cell, const Variant &variant) {
    const int64_t row = int64_t{cell.head_dim} * qf_prefill_element_bytes(variant.dtype), kv_row = row * cell.kv_heads;
    const qf_prefill_tensor q_tensor = {q.data, row * cell.q_heads, row, row * cell.q_heads * cell.tokens};
    const qf_prefill_tensor k_tensor = {k.data, variant.head_major ? row : kv_row,
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
    if (problem.packed) p.q_start = start.data, p.kv_lens = lengths.data;
    p.out_head_stride = cell.head_dim, p.out_token_stride = p.out_head_stride * cell.q_heads;
    p.out_batch_stride = p.out_token_stride * cell.tokens, p.bottom_right = 1;
}

inline Run::Run(const Cell &cell, const Variant &variant, const Shape &the_shape, const qf_prefill_problem &the_problem,
                const Options &options, const Device &device)
    : shape(the_shape), problem(the_problem),
      choice(qf_prefill_choose(&problem, options.ctas > 0 ? options.ctas : device.multiprocessors)),
      most(static_cast<int>(std::min(200.0, std::max(1.0, 5e-3 / (shape.flop / 8e14))))),
      launches(options.launches > 0 ? std::min(options.launches, most) : most),
      table(shape.lengths.size() * shape.width + 2 * device.multiprocessors),
#ifdef QF_PREFILL_TRACE
      stamp_words(static_cast<size_t>(choice.ctas) * kTraceRoles * kTraceSlots * 2), stamps(launches * stamp_words),
#endif
      q_count(static_cast<size_t>(shape.tokens) * cell.q_heads * cell.head_dim),
      k_count(static_cast<size_t>(shape.blocks) * shape.block * cell.kv_heads * cell.head_dim),
      q(q_count * qf_prefill_element_bytes(variant.dtype)), k(k_count * qf_prefill_element_bytes(variant.dtype)),
      v(k_count * qf_prefill_element_bytes(variant.dtype)), out(q_count * 2), transposed(choice.transposed_bytes),
      lengths(shape.lengths.size()), start(shape.lengths.size() + 1), scales(4), ticket(1) {
    fill_random<<<1024, 256, 0, device.stream>>>(q.data, q_count / 4, variant.dtype, 1);
    fill_random<<<1024, 256, 0, device.stream>>>(k.data, k_count / 4, variant.dtype, 2);
    fill_random<<<1024, 256, 0, device.stream>>>(v.data, k_count / 4, variant.dtype, 3);
    std::vector<int> host_table(shape.lengths.size() * shape.width, 0), host_start(1, 0);
    fill_pages(host_table);
    for (int length : shape.lengths) host_start.push_back(host_start.back() + length);
    table.upload(host_table), lengths.upload(shape.lengths), start.upload(host_start);
    scales.upload({1.0f, 1.0f, 1.0f, 0.01f}), ticket.upload({0});
    qf_prefill_fill(&problem, &choice, &p);
    if (options.section > 0) p.section_heads = options.section;
    set_pointers(cell, variant);
#ifdef QF_PREFILL_TRACE
    p.block_table = stamps.data;
#endif
    CHECK(launch(problem, choice, p, true, device.stream)); // attributes are set outside the capture
    CHECK(cudaStreamSynchronize(device.stream));
    CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
#ifdef QF_PREFILL_TRACE
        p.block_table = stamps.data + i * stamp_words;
#endif
        CHECK(launch(problem, choice, p, true, device.stream));
    }
    CHECK(cudaStreamEndCapture(device.stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
}

} // namespace bench
