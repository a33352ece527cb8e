// Owns: the timing of the paged decode kernels on one GPU: the tables of cells, floors, and peers' figures.
// Does not own: correctness (tests/gpu/decode) and the launch (kernels/cuda/decode/launch.cuh).
// Read next: bench/RESULTS.md for dated results.
//
// decode_bench [SECTION...] [--name=value...]
//   sections: main (32/8 and 8/1, NHD), wide (64/8), hnd, page16, types, dims, ceiling; none = all
//   Built with QF_NVCC_FLAGS=-DQF_DECODE_STAMPS it also prints clock counts of the kernel's stages before each row.
//   values:   bundle, stages, tiles (log2 of the least a CTA), ctas (0 = the kernel's own choice), promotion (0, 64,
//   128, 256 bytes),
//             dependent (0 or 1), cell (substrings of cells' names, separated by commas), small (0 skips the runs with
//             a kernel between), cluster (log2 of the largest cluster, 0 = none)
//
// Method: random K, V and q; a graph of max(20, copies) launches, each on its own pages and table, with enough copies
// to exceed the L2 cache (180 MB); one warm-up replay, nine timed, median. Everything a launch needs is inside. The
// second figure has one small kernel, as large as a cast of the output, before every launch; it is launched without
// programmatic dependency, as the peers' casts were. The third has the same kernel launched as the library launches its
// own. Floors use the read bandwidth of the same run. Peer figures: cells.h.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "bench/common/random.cuh"
#include "bench/common/timing.cuh"
#include "cells.h"
#include "kernels/cuda/common/barrier.cuh"
#include "kernels/cuda/common/check.cuh"
#include "kernels/cuda/common/convert.cuh"
#include "kernels/cuda/decode/launch.cuh"

using namespace qfuse::decode;
using namespace bench;

namespace {

constexpr size_t kPoolBytes = size_t{3} << 30;
constexpr double kRotateBytes = 180e6;

struct Options {
    int bundle = 0, stages = 0, tiles = 0, ctas = 0, promotion = 128, dependent = 1, small = 1, cluster = 4;
    std::string cell;
    std::vector<std::string> sections;
} g_options;

int g_multiprocessors;
double g_read_bandwidth; // bytes per second, of this run
uint8_t *g_k_pool, *g_v_pool;
cudaStream_t g_stream;

__global__ void fill_random(uint32_t *data, size_t words, uint32_t seed, int dtype) {
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += stride) {
        float x[4];
        random_normal(x, i, seed);
        if (dtype == QF_DECODE_BF16) {
            data[i] = qfuse::f32_to_bf16x2(x[0], x[1]);
        } else if (dtype == QF_DECODE_E5M2) {
            data[i] = qfuse::f32_to_e5m2x2(x[0], x[1]) | static_cast<uint32_t>(qfuse::f32_to_e5m2x2(x[2], x[3])) << 16;
        } else {
            data[i] = qfuse::f32_to_e4m3x2(x[0], x[1]) | static_cast<uint32_t>(qfuse::f32_to_e4m3x2(x[2], x[3])) << 16;
        }
    }
}

__global__ void read_only(const uint4 *data, size_t count, uint32_t *sink) {
    const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    uint32_t x = 0;
    for (; i + 7 * stride < count; i += 8 * stride) {
        uint4 v[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) v[k] = __ldcs(data + i + k * stride);
#pragma unroll
        for (int k = 0; k < 8; ++k) x ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    if (x == 0x12345678) *sink = x;
}

// A stand-in for the neighbour of a decode launch in a real graph: reads bf16, writes bytes. Launched as `dependent` it
// does what the library's own kernels do: it waits for its predecessor, then lets its successor start.
__global__ void small_kernel(const uint32_t *in, uint16_t *out, int pairs, bool dependent) {
    if (dependent) {
        qfuse::wait_for_predecessor();
        qfuse::launch_dependents();
    }
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pairs) {
        out[i] = qfuse::f32_to_e4m3x2(qfuse::bf16_low_to_f32(in[i]), qfuse::bf16_high_to_f32(in[i]));
    }
}

void launch_small(const uint32_t *in, uint16_t *out, int pairs, bool dependent) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((pairs + 255) / 256);
    config.blockDim = dim3(256);
    config.stream = g_stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = dependent;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, small_kernel, in, out, pairs, dependent));
}

double measure_read_bandwidth() {
    uint32_t *sink;
    CHECK(cudaMalloc(&sink, 4));
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    double best = 0;
    for (int i = 0; i < 12; ++i) {
        CHECK(cudaEventRecord(begin, g_stream));
        read_only<<<g_multiprocessors * 8, 256, 0, g_stream>>>(reinterpret_cast<const uint4 *>(g_k_pool),
                                                               kPoolBytes / 16, sink);
        CHECK(cudaEventRecord(end, g_stream));
        CHECK(cudaEventSynchronize(end));
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        best = std::max(best, kPoolBytes / (milliseconds * 1e-3));
    }
    CHECK(cudaFree(sink));
    return best;
}

template <class T>
T *device_copy(const std::vector<T> &host) {
    T *data;
    CHECK(cudaMalloc(&data, host.size() * sizeof(T)));
    CHECK(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return data;
}

#ifdef QF_DECODE_STAMPS
// SM clocks from a launch's start to the end of each of its stages (see Stamp in merge.cuh), of the first warps of some
// CTAs of the last launch; -1 where a warp took another way.
void print_stamps(const long long *device, size_t words, int warps) {
    static const char *const names[QF_DECODE_STAMP_COUNT] = {
        "entry",  "ready", "divided", "started", "noted",  "planned", "released", "copied",   "verified",
        "issued", "query", "data",    "tiles",   "stored", "merged",  "arrived",  "finished", "left"};
    std::vector<long long> stamps(words);
    CHECK(cudaMemcpy(stamps.data(), device, words * 8, cudaMemcpyDeviceToHost));
    constexpr size_t kCount = QF_DECODE_STAMP_COUNT;
    for (size_t cta = 0; cta * warps * kCount < words; cta += 16) {
        const long long *s = &stamps[cta * warps * kCount];
        if (s[kCount - 1] == 0) continue; // had no work
        std::printf("  CTA %zu:", cta);
        for (size_t i = 1; i < kCount; ++i) std::printf(" %s %lld", names[i], s[i] > 0 ? s[i] - s[0] : -1);
        std::printf("\n");
    }
}
#endif

// Times one cell in both settings and prints its row.
void run_cell(qf_decode_problem problem, bool head_major, const Cell &cell) {
    problem.batch = static_cast<int>(cell.lengths.size());
    const int64_t row = qf_decode_row_bytes(qf_decode_element_bytes(problem.kv_dtype), problem.head_dim);
    const int64_t page_bytes = row * problem.kv_heads * problem.page_size, pool_pages = kPoolBytes / page_bytes;
    int width = 0;
    int64_t pages = 0, keys = 0;
    for (int length : cell.lengths) {
        const int count = (length + problem.page_size - 1) / problem.page_size;
        width = std::max(width, count), pages += count, keys += length;
    }
    if (pages > pool_pages) return;
    problem.max_kv_len = static_cast<int64_t>(width) * problem.page_size;
    const int ctas = g_options.ctas > 0 ? g_options.ctas : g_multiprocessors;
    const qf_decode_choice choice = qf_decode_choose(&problem, ctas, g_options.cluster);
    qf_decode_params p = make_params(problem, choice);
    const double kv_bytes = 2.0 * static_cast<double>(keys) * row * problem.kv_heads;
    const int copies = static_cast<int>(
        std::min<double>(std::max(1.0, std::ceil(kRotateBytes / kv_bytes)), static_cast<double>(pool_pages / pages)));
    const int launches = kv_bytes > 1.5e9 ? 8 : std::max(20, copies);

    // Each copy has its own pages, all in random order.
    std::vector<int> order(pool_pages);
    for (int64_t i = 0; i < pool_pages; ++i) order[i] = static_cast<int>(i);
    srand(1);
    for (int64_t i = pool_pages - 1; i > 0; --i)
        std::swap(order[i], order[((static_cast<int64_t>(rand()) << 31) ^ rand()) % (i + 1)]);
    const size_t table_entries = static_cast<size_t>(width) * problem.batch;
    std::vector<int> table(table_entries * copies, 0);
    int64_t used = 0;
    for (int copy = 0; copy < copies; ++copy) {
        for (int b = 0; b < problem.batch; ++b) {
            for (int i = 0; i < (cell.lengths[b] + problem.page_size - 1) / problem.page_size; ++i) {
                table[copy * table_entries + static_cast<size_t>(b) * width + i] = order[used++];
            }
        }
    }
    const int q_heads = problem.kv_heads * problem.group;
    const size_t out_elements = static_cast<size_t>(problem.batch) * problem.q_tokens * q_heads * problem.head_dim;
    int *d_table = device_copy(table), *d_lengths = device_copy(cell.lengths);
    uint32_t *d_q, *d_tickets, *d_small_in;
    uint8_t *d_out;
    uint16_t *d_small_out;
    float *d_partials;
    CHECK(cudaMalloc(&d_q, out_elements * 2));
    fill_random<<<64, 256>>>(d_q, out_elements * qf_decode_element_bytes(problem.q_dtype) / 4, 7, problem.q_dtype);
    CHECK(cudaMalloc(&d_out, out_elements * 2));
    CHECK(cudaMalloc(&d_small_in, out_elements * 2));
    CHECK(cudaMalloc(&d_small_out, out_elements));
    CHECK(cudaMemset(d_small_in, 0, out_elements * 2));
    CHECK(cudaMalloc(&d_partials, choice.partial_bytes));
    CHECK(cudaMalloc(&d_tickets, choice.ticket_bytes));
    CHECK(cudaMemset(d_tickets, 0, choice.ticket_bytes));
    float *d_scales = device_copy(std::vector<float>{0.9f, 1.1f, 0.7f, 0.01f});

    Cache k_cache = make_cache(g_k_pool, pool_pages, problem, head_major);
    Cache v_cache = make_cache(g_v_pool, pool_pages, problem, head_major);
    k_cache.promotion = v_cache.promotion = g_options.promotion == 0     ? CU_TENSOR_MAP_L2_PROMOTION_NONE
                                            : g_options.promotion == 64  ? CU_TENSOR_MAP_L2_PROMOTION_L2_64B
                                            : g_options.promotion == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
                                                                         : CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    if (!encode_cache(k_cache, problem, choice.box_bytes, &p.k_map) ||
        !encode_cache(v_cache, problem, choice.box_bytes, &p.v_map)) {
        std::printf("FATAL tensor map refused\n");
        std::exit(3);
    }
    p.q = d_q, p.out = d_out, p.seq_lens = d_lengths, p.partials = d_partials, p.tickets = d_tickets;
    p.q_scale = problem.q_dtype == QF_DECODE_E4M3 ? d_scales : nullptr;
    p.k_scale = d_scales + 1, p.v_scale = d_scales + 2, p.out_scale = d_scales + 3;
    p.block_table_stride = width;
    p.softmax_scale = 1.0f / std::sqrt(static_cast<float>(problem.head_dim));
    if (g_options.bundle > 0) force_bundle(&p, g_options.bundle);
    if (g_options.stages > 0) p.stages = g_options.stages;
    if (g_options.tiles > 0) p.tiles_a_cta_shift = g_options.tiles;

#ifdef QF_DECODE_STAMPS
    const size_t stamp_words = static_cast<size_t>(choice.ctas) * choice.threads / 32 * QF_DECODE_STAMP_COUNT;
    long long *d_stamps = device_copy(std::vector<long long>(stamp_words, 0));
    p.lse = reinterpret_cast<float *>(d_stamps);
#endif
    Timing timing[3] = {}; // back to back, with a small kernel, with one launched as the library's own
    for (int setting = 0; setting <= (g_options.small ? 2 : 0); ++setting) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        p.block_table = d_table;
        CHECK(launch(problem, choice, p, false, g_stream));
        CHECK(cudaStreamSynchronize(g_stream));
        CHECK(cudaStreamBeginCapture(g_stream, cudaStreamCaptureModeGlobal));
        for (int i = 0; i < launches; ++i) {
            if (setting > 0) {
                const int pairs = static_cast<int>(out_elements / 2);
                launch_small(d_small_in, d_small_out, pairs, setting == 2);
            }
            p.block_table = d_table + table_entries * (i % copies);
            CHECK(launch(problem, choice, p, setting == 2 ? choice.early != 0 : g_options.dependent != 0, g_stream));
        }
        CHECK(cudaStreamEndCapture(g_stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        timing[setting] = time_graph(exec, launches, g_stream);
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
#ifdef QF_DECODE_STAMPS
    print_stamps(d_stamps, stamp_words, choice.threads / 32);
    CHECK(cudaFree(d_stamps));
#endif
    const double floor = kv_bytes / g_read_bandwidth * 1e6;
    std::printf("%-22s %8.1f %8.1f %9.2f [%8.2f %8.2f] %6.0f %6.2f", cell.name, kv_bytes / 1e6, floor, timing[0].median,
                timing[0].low, timing[0].high, kv_bytes / timing[0].median / 1e3, timing[0].median / floor);
    if (cell.peer > 0) {
        std::printf(" %8.2f %5.3f", cell.peer, timing[0].median / cell.peer);
    } else {
        std::printf("        -     -");
    }
    std::printf(" %9.2f", timing[1].median);
    if (cell.peer_small > 0 && g_options.small) {
        std::printf(" %8.2f %5.3f", cell.peer_small, timing[1].median / cell.peer_small);
    } else {
        std::printf("        -     -");
    }
    std::printf(" %7.2f %5u %4u\n", timing[2].median, timing[0].megahertz, timing[0].watts);
    std::fflush(stdout);
    for (void *pointer :
         {static_cast<void *>(d_table), static_cast<void *>(d_lengths), static_cast<void *>(d_q),
          static_cast<void *>(d_out), static_cast<void *>(d_small_in), static_cast<void *>(d_small_out),
          static_cast<void *>(d_partials), static_cast<void *>(d_tickets), static_cast<void *>(d_scales)}) {
        CHECK(cudaFree(pointer));
    }
}

bool wanted(const char *section) {
    if (g_options.sections.empty()) return true;
    return std::find(g_options.sections.begin(), g_options.sections.end(), section) != g_options.sections.end();
}

// Whether a cell's name contains one of the substrings, separated by commas, of --cell.
bool selected(const std::string &name) {
    std::stringstream list(g_options.cell);
    std::string part;
    bool any = g_options.cell.empty();
    while (std::getline(list, part, ',')) any |= name.find(part) != std::string::npos;
    return any;
}

void run_table(const char *title, const qf_decode_problem &problem, bool head_major, const std::vector<Cell> &cells) {
    std::printf("\n%s\n%-22s %8s %8s %9s %19s %6s %6s %8s %5s %9s %8s %5s %7s %5s %4s\n", title, "cell", "KV MB",
                "floor us", "us", "[lowest  highest]", "GB/s", "/floor", "peer us", "/peer", "+small us", "peer us",
                "/peer", "+own us", "MHz", "W");
    for (const Cell &cell : cells) {
        if (selected(cell.name)) run_cell(problem, head_major, cell);
    }
}

void fill_pools(int dtype) {
    fill_random<<<g_multiprocessors * 8, 256>>>(reinterpret_cast<uint32_t *>(g_k_pool), kPoolBytes / 4, 11, dtype);
    fill_random<<<g_multiprocessors * 8, 256>>>(reinterpret_cast<uint32_t *>(g_v_pool), kPoolBytes / 4, 23, dtype);
    CHECK(cudaDeviceSynchronize());
}

void parse(int argc, char **argv) {
    const std::pair<const char *, int *> values[] = {
        {"--bundle=", &g_options.bundle},       {"--stages=", &g_options.stages},
        {"--tiles=", &g_options.tiles},         {"--ctas=", &g_options.ctas},
        {"--promotion=", &g_options.promotion}, {"--dependent=", &g_options.dependent},
        {"--small=", &g_options.small},         {"--cluster=", &g_options.cluster}};
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        bool known = argument.rfind("--", 0) != 0;
        if (known) g_options.sections.push_back(argument);
        for (const auto &value : values) {
            if (argument.rfind(value.first, 0) == 0)
                *value.second = std::atoi(argument.c_str() + std::string(value.first).size()), known = true;
        }
        if (argument.rfind("--cell=", 0) == 0) g_options.cell = argument.substr(7), known = true;
        if (!known) {
            std::printf("unknown argument %s\n", argv[i]);
            std::exit(2);
        }
    }
}

} // namespace

int main(int argc, char **argv) {
    parse(argc, argv);
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    g_multiprocessors = properties.multiProcessorCount;
    CHECK(cudaMalloc(&g_k_pool, kPoolBytes));
    CHECK(cudaMalloc(&g_v_pool, kPoolBytes));
    CHECK(cudaStreamCreate(&g_stream));
    fill_pools(QF_DECODE_E4M3);
    g_read_bandwidth = measure_read_bandwidth();
    std::printf("%s, read-only bandwidth %.0f GB/s (3 GiB, 16-byte loads)\n", properties.name, g_read_bandwidth / 1e9);
    const qf_decode_problem base = {QF_DECODE_E4M3, QF_DECODE_E4M3, QF_DECODE_E4M3, 128, 8, 4, 1, 0, 64};
    qf_decode_problem wide = base, narrow = base, page16 = base;
    wide.group = 8;
    narrow.kv_heads = 1, narrow.group = 8;
    page16.page_size = 16;
    if (wanted("main")) {
        run_table("32/8 d128 page 64 NHD, q e4m3, KV e4m3, out e4m3", base, false, kCells328);
        run_table("8/1 d128 page 64, q e4m3, KV e4m3, out e4m3", narrow, false, kCells81);
    }
    if (wanted("wide")) run_table("64/8 d128 page 64 NHD, out e4m3", wide, false, kCells648);
    if (wanted("hnd")) run_table("32/8 d128 page 64 HND, out e4m3 (peers: NHD figures)", base, true, kCells328);
    if (wanted("page16"))
        run_table("32/8 d128 page 16 NHD, out e4m3 (peers: page 64 figures)", page16, false, kCells328);
    if (wanted("types")) {
        qf_decode_problem other = base;
        other.out_dtype = QF_DECODE_BF16;
        run_table("32/8 d128 page 64 NHD, out bf16", other, false, probe_cells());
        other = base, other.q_dtype = QF_DECODE_BF16;
        run_table("32/8 d128 page 64 NHD, q bf16, out e4m3", other, false, probe_cells());
        other = base, other.q_tokens = 4;
        run_table("32/8 d128 page 64 NHD, 4 query tokens", other, false, probe_cells());
    }
    if (wanted("dims")) {
        for (int dim : {64, 256}) {
            qf_decode_problem other = base;
            other.head_dim = dim;
            run_table(dim == 64 ? "32/8 d64 page 64 NHD" : "32/8 d256 page 64 NHD", other, false, probe_cells());
        }
        qf_decode_problem other = base;
        other.kv_dtype = QF_DECODE_E5M2;
        fill_pools(QF_DECODE_E5M2);
        run_table("32/8 d128 page 64 NHD, KV e5m2", other, false, probe_cells());
        other.kv_dtype = QF_DECODE_BF16, other.q_dtype = QF_DECODE_BF16;
        fill_pools(QF_DECODE_BF16);
        run_table("32/8 d128 page 64 NHD, KV bf16, q bf16", other, false, probe_cells());
    }
    std::printf("\nread-only bandwidth again %.0f GB/s\n", measure_read_bandwidth() / 1e9);
    return 0;
}
