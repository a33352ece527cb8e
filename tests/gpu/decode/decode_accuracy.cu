// Owns: the accuracy and robustness harness of the paged decode kernels.
// Does not own: the reference (reference.h) and the launch (kernels/cuda/decode/launch.cuh).
// Read next: reference.h, then `main` at the end for the list of tests.
//
// decode_accuracy [NAME-SUBSTRING]   runs all tests (or those whose name contains the argument), prints one line for
// each and a count; exit status 0 when all passed. A watchdog aborts the process when one test takes over a minute.
#include <csignal>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <unistd.h>

#include "kernels/cuda/decode/launch.cuh"
#include "reference.h"

using namespace qfuse::decode;

namespace {

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        const cudaError_t check_error = (call);                                                                        \
        if (check_error != cudaSuccess) {                                                                              \
            std::printf("FATAL %s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(check_error));           \
            std::fflush(stdout);                                                                                       \
            std::_Exit(3);                                                                                             \
        }                                                                                                              \
    } while (0)

int g_ctas = 0, g_passed = 0, g_failed = 0;
std::string g_filter;
const char *g_running = "";

void on_alarm(int) {
    static const char text[] = "FATAL watchdog: a test hangs\n";
    if (write(1, text, sizeof text - 1) < 0 || write(1, g_running, std::strlen(g_running)) < 0) std::_Exit(4);
    std::_Exit(4);
}

template <class T>
struct Device {
    T *data = nullptr;
    size_t count = 0;

    Device() = default;
    explicit Device(size_t n) : count(n) {
        CHECK(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T)));
    }
    explicit Device(const std::vector<T> &host) : Device(host.size()) {
        upload(host);
    }
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;
    Device(Device &&other) noexcept {
        *this = std::move(other);
    }
    Device &operator=(Device &&other) noexcept {
        std::swap(data, other.data);
        std::swap(count, other.count);
        return *this;
    }
    ~Device() {
        cudaFree(data);
    }
    void upload(const std::vector<T> &host) {
        CHECK(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    void fill(uint8_t byte) {
        CHECK(cudaMemset(data, byte, count * sizeof(T)));
    }
    std::vector<T> download() const {
        std::vector<T> host(count);
        CHECK(cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
};

enum class Fill { kNormal, kOnes, kMean, kEqual, kRising, kDominant, kExtreme, kOutliers, kNeedle, kTail };

struct Case {
    std::string name;
    qf_decode_problem problem = {QF_DECODE_E4M3, QF_DECODE_E4M3, QF_DECODE_E4M3, 128, 2, 4, 1, 0, 64};
    std::vector<int> lengths;
    bool head_major = false;
    int window = -1;
    bool causal = true, sinks = false, lse = false;
    float softcap = 0.0f, softmax_scale = 0.0f; // 0 = 1 / sqrt(head_dim)
    float q_scale = 0.25f, k_scale = 0.5f, v_scale = 2.0f, out_scale = 0.05f;
    bool head_scales = false;
    int out_mode = QF_DECODE_DIV, via = QF_DECODE_NONE;
    Fill keys = Fill::kNormal, values = Fill::kNormal;
    std::vector<int> token_counts; // ragged queries through q_start
    int q_padding = 0;             // elements between tokens of q and out
    int tail_exponent = 0;         // Fill::kTail: every other probability is 2^-this of the first
    int bundle = 0, ctas = 0, stages = 0, tiles_a_cta = 0, cluster = 4;
    bool odd_strides = false; // garbage strides in dimensions of one element
    bool emulate = false;     // also compare with the e4m3-P emulation
    double tolerance = 0.0;   // relative RMSE; 0 = by the output's type
    uint64_t seed = 1;
};

// Inputs of a case on host and device, and its launch.
struct Setup {
    Case c;
    qf_decode_problem problem;
    qf_decode_choice choice;
    qf_decode_params p;
    int ctas, tokens, q_heads;
    std::vector<int> q_start, table, lengths;
    int table_width, pages;
    std::vector<uint8_t> q, k, v;
    std::vector<float> q_scale, k_scale, v_scale, out_scale, sinks;
    Device<uint8_t> d_q, d_k, d_v, d_out;
    Device<float> d_q_scale, d_k_scale, d_v_scale, d_out_scale, d_sinks, d_lse, d_partials;
    Device<int> d_table, d_lengths, d_q_start;
    Device<uint32_t> d_tickets;

    explicit Setup(const Case &the_case, uint8_t poison = 0x7F);
    int64_t cache_index(int page, int token, int head) const;
    void run(bool dependent = false, cudaStream_t stream = nullptr) {
        CHECK(launch(problem, choice, p, dependent, stream));
    }
    size_t row_elements() const {
        return static_cast<size_t>(q_heads) * problem.head_dim + c.q_padding;
    }
    int out_bytes() const {
        return qf_decode_element_bytes(problem.out_dtype);
    }
    int token_begin(int b) const {
        return q_start.empty() ? b * problem.q_tokens : q_start[b];
    }
    int token_count(int b) const {
        return q_start.empty() ? problem.q_tokens : q_start[b + 1] - q_start[b];
    }
};

int64_t Setup::cache_index(int page, int token, int head) const {
    const int64_t page_rows = static_cast<int64_t>(problem.page_size) * problem.kv_heads;
    const int64_t row = c.head_major ? static_cast<int64_t>(head) * problem.page_size + token
                                     : static_cast<int64_t>(token) * problem.kv_heads + head;
    return (page * page_rows + row) * problem.head_dim;
}

void put(std::vector<uint8_t> &data, int64_t index, int dtype, double x) {
    if (qf_decode_element_bytes(dtype) == 1) {
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

Setup::Setup(const Case &the_case, uint8_t poison) : c(the_case), problem(the_case.problem), lengths(the_case.lengths) {
    problem.batch = static_cast<int>(lengths.size());
    const char *refusal = qf_decode_refusal(&problem);
    if (refusal != nullptr) {
        std::printf("FATAL %s refused: %s\n", c.name.c_str(), refusal);
        std::_Exit(3);
    }
    ctas = c.ctas > 0 ? c.ctas : g_ctas;
    q_heads = problem.kv_heads * problem.group;
    tokens = problem.batch * problem.q_tokens;
    if (!c.token_counts.empty()) {
        q_start.push_back(0);
        for (int n : c.token_counts) q_start.push_back(q_start.back() + n);
        tokens = q_start.back();
    }
    const int page = problem.page_size, dim = problem.head_dim;
    table_width = 1;
    for (int length : lengths) table_width = std::max(table_width, (length + page - 1) / page);
    problem.max_kv_len = static_cast<int64_t>(table_width) * page;
    choice = qf_decode_choose(&problem, ctas, c.cluster);
    // Pages in random order, with unused ones between; table entries past a sequence point at poison.
    pages = 3;
    for (int length : lengths) pages += (length + page - 1) / page;
    std::vector<int> order(pages);
    for (int i = 0; i < pages; ++i) order[i] = i;
    std::mt19937 shuffle(static_cast<unsigned>(c.seed));
    std::shuffle(order.begin(), order.end(), shuffle);
    table.assign(static_cast<size_t>(table_width) * problem.batch, order[0]);
    int used = 3;
    for (int b = 0; b < problem.batch; ++b) {
        for (int i = 0; i < (lengths[b] + page - 1) / page; ++i) table[b * table_width + i] = order[used++];
    }
    // Queries.
    Random random(c.seed + 77);
    const int q_bytes = qf_decode_element_bytes(problem.q_dtype);
    q.assign(std::max<size_t>(tokens, 1) * row_elements() * q_bytes, poison);
    const double q_unit = problem.q_dtype == QF_DECODE_E4M3 ? 1.0 / c.q_scale : 1.0;
    for (int t = 0; t < tokens; ++t) {
        for (int i = 0; i < q_heads * dim; ++i) {
            double x = random.normal() * q_unit;
            if (c.keys == Fill::kEqual) x = 0.0;
            if (c.keys == Fill::kExtreme) x = (random.bits() & 1 ? 1 : -1) * 0.5;
            if (c.keys == Fill::kRising || c.keys == Fill::kDominant || c.keys == Fill::kTail ||
                c.keys == Fill::kNeedle) {
                x = i % dim == 0 ? 2.0 : 0.0;
            }
            if (c.keys == Fill::kOutliers && random.bits() % 1000 == 0) x *= 10;
            put(q, static_cast<int64_t>(t) * row_elements() + i, problem.q_dtype, x);
        }
    }
    // Caches.
    const int kv_bytes = qf_decode_element_bytes(problem.kv_dtype);
    const size_t cache_bytes = static_cast<size_t>(pages) * page * problem.kv_heads * dim * kv_bytes;
    k.assign(cache_bytes, poison), v.assign(cache_bytes, poison);
    const float score_unit = (c.softmax_scale != 0 ? c.softmax_scale : 1.0f / std::sqrt(static_cast<float>(dim))) *
                             (problem.q_dtype == QF_DECODE_E4M3 ? c.q_scale : 1.0f) * c.k_scale * 2.0f;
    // Values that many random draws share: speed, not statistics, matters for long caches.
    reference::parallel(static_cast<int64_t>(problem.batch) * problem.kv_heads, [&](int64_t item) {
        const int b = static_cast<int>(item / problem.kv_heads), h = static_cast<int>(item % problem.kv_heads);
        Random draw(c.seed * 1000003 + item);
        std::vector<uint8_t> pool(4096 * 2), pool_mean(4096 * 2);
        for (int i = 0; i < 4096; ++i) {
            const double x = draw.normal();
            put(pool, i, problem.kv_dtype, x);
            put(pool_mean, i, problem.kv_dtype, 0.25 + x);
        }
        for (int j = 0; j < lengths[b]; ++j) {
            const int64_t base = cache_index(table[b * table_width + j / page], j % page, h);
            for (int d = 0; d < dim; ++d) {
                const uint32_t pick = draw.bits();
                const auto copy = [&](std::vector<uint8_t> &to, const std::vector<uint8_t> &from, uint32_t which) {
                    std::memcpy(&to[(base + d) * kv_bytes], &from[which % 4096 * kv_bytes], kv_bytes);
                };
                const double first = d == 0 ? 1.0 : 0.0; // the queries of the shaped fills see element 0 only
                switch (c.keys) {
                case Fill::kNormal:
                case Fill::kEqual: copy(k, pool, pick); break;
                case Fill::kOnes:
                case Fill::kMean: put(k, base + d, problem.kv_dtype, 1.0); break;
                // The maximum rises by about a fifth of an octave a tile, up to the format's range.
                case Fill::kRising:
                    put(k, base + d, problem.kv_dtype, first * std::min(0.14 * (j / 16) / score_unit, 440.0));
                    break;
                case Fill::kDominant:
                    put(k, base + d, problem.kv_dtype, first * (j == lengths[b] / 2 ? 30.0 / score_unit : 0.0));
                    break;
                case Fill::kTail:
                    put(k, base + d, problem.kv_dtype,
                        first * (j == 0 ? 0.0 : -c.tail_exponent * 0.6931472 / score_unit));
                    break;
                case Fill::kNeedle:
                    put(k, base + d, problem.kv_dtype, first * (j == lengths[b] / 3 ? 16.0 / score_unit : 0.0));
                    break;
                case Fill::kExtreme: put(k, base + d, problem.kv_dtype, pick & 1 ? 448.0 : -448.0); break;
                case Fill::kOutliers:
                    put(k, base + d, problem.kv_dtype,
                        reference::decode(pool.data(), pick % 4096, problem.kv_dtype) *
                            ((pick >> 12) % 1000 == 0 ? 10 : 1));
                    break;
                }
                switch (c.values) {
                case Fill::kOnes: put(v, base + d, problem.kv_dtype, 1.0); break;
                case Fill::kMean: copy(v, pool_mean, pick >> 12); break;
                case Fill::kExtreme: put(v, base + d, problem.kv_dtype, pick >> 1 & 1 ? 448.0 : -448.0); break;
                case Fill::kNeedle: put(v, base + d, problem.kv_dtype, j == lengths[b] / 3 ? 4.0 : 0.0); break;
                default: copy(v, pool, pick >> 12); break;
                }
            }
        }
    });
    // Scales.
    const auto scales = [&](float base) {
        std::vector<float> s;
        for (int h = 0; h < problem.kv_heads; ++h) s.push_back(base * (c.head_scales ? 1.0f + 0.37f * h : 1.0f));
        return s;
    };
    k_scale = scales(c.k_scale), v_scale = scales(c.v_scale), out_scale = scales(c.out_scale);
    q_scale.assign(std::max(tokens * q_heads, 1), 1.0f);
    if (problem.q_dtype == QF_DECODE_E4M3) {
        for (int i = 0; i < tokens * q_heads; ++i)
            q_scale[i] = c.q_scale * (c.head_scales ? 1.0f + 0.1f * (i % 7) : 1.0f);
    }
    for (int h = 0; h < q_heads; ++h) sinks.push_back(-1.0f + 0.5f * h);
    d_q = Device<uint8_t>(q), d_k = Device<uint8_t>(k), d_v = Device<uint8_t>(v);
    d_q_scale = Device<float>(q_scale), d_k_scale = Device<float>(k_scale), d_v_scale = Device<float>(v_scale);
    d_out_scale = Device<float>(out_scale), d_sinks = Device<float>(sinks);
    d_table = Device<int>(table), d_lengths = Device<int>(lengths);
    if (!q_start.empty()) d_q_start = Device<int>(q_start);
    d_out = Device<uint8_t>(std::max<size_t>(tokens, 1) * row_elements() * out_bytes());
    d_lse = Device<float>(std::max(tokens, 1) * q_heads);
    d_partials = Device<float>(choice.partial_bytes / 4);
    d_tickets = Device<uint32_t>(choice.ticket_bytes / 4);
    d_out.fill(0xAA), d_lse.fill(0xAA), d_partials.fill(0xFF), d_tickets.fill(0);

    p = make_params(problem, choice);
    Cache k_cache = make_cache(d_k.data, pages, problem, c.head_major);
    Cache v_cache = make_cache(d_v.data, pages, problem, c.head_major);
    if (c.odd_strides) {
        if (problem.kv_heads == 1) k_cache.head_stride = 7, v_cache.head_stride = 123456789;
    }
    if (!encode_cache(k_cache, problem, choice.box_bytes, &p.k_map) ||
        !encode_cache(v_cache, problem, choice.box_bytes, &p.v_map)) {
        std::printf("FATAL %s: tensor map refused\n", c.name.c_str());
        std::_Exit(3);
    }
    p.q = d_q.data, p.out = d_out.data, p.lse = c.lse ? d_lse.data : nullptr;
    p.sinks = c.sinks ? d_sinks.data : nullptr;
    p.q_scale = problem.q_dtype == QF_DECODE_E4M3 ? d_q_scale.data : nullptr;
    p.k_scale = d_k_scale.data, p.v_scale = d_v_scale.data, p.out_scale = d_out_scale.data;
    p.k_scale_stride = p.v_scale_stride = p.out_scale_stride = c.head_scales ? 1 : 0;
    p.q_scale_head_stride = 1, p.q_scale_token_stride = q_heads;
    p.block_table = d_table.data, p.seq_lens = d_lengths.data, p.q_start = d_q_start.data;
    p.block_table_stride = table_width;
    p.partials = d_partials.data, p.tickets = d_tickets.data;
    p.q_token_stride = p.out_token_stride = static_cast<int64_t>(row_elements());
    p.softmax_scale = c.softmax_scale != 0.0f ? c.softmax_scale : 1.0f / std::sqrt(static_cast<float>(dim));
    p.softcap = c.softcap, p.window_left = c.window, p.causal = c.causal;
    p.out_mode = c.out_mode, p.via = c.via;
    if (c.bundle > 0) force_bundle(&p, c.bundle);
    if (c.tiles_a_cta > 0) p.tiles_a_cta_shift = c.tiles_a_cta;
    if (c.stages > 0) p.stages = c.stages;
}

struct Expected {
    std::vector<double> out, emulated, rounded; // [token][q head][dim], before the output scale
    std::vector<double> lse;
};

Expected expect(const Setup &s) {
    const qf_decode_problem &pr = s.problem;
    Expected e;
    const int64_t rows = static_cast<int64_t>(s.tokens) * s.q_heads;
    e.out.assign(rows * pr.head_dim, 0.0), e.emulated = e.rounded = e.out, e.lse.assign(rows, -INFINITY);
    for (int b = 0; b < pr.batch; ++b) {
        const int count = s.token_count(b), length = s.lengths[b];
        if (count == 0) continue;
        for (int h = 0; h < pr.kv_heads; ++h) {
            std::vector<float> k(static_cast<size_t>(length) * pr.head_dim), v(k.size());
            reference::parallel((length + 1023) / 1024, [&](int64_t chunk) {
                for (int j = static_cast<int>(chunk) * 1024; j < std::min<int64_t>(length, (chunk + 1) * 1024); ++j) {
                    const int64_t base =
                        s.cache_index(s.table[b * s.table_width + j / pr.page_size], j % pr.page_size, h);
                    for (int d = 0; d < pr.head_dim; ++d) {
                        k[static_cast<size_t>(j) * pr.head_dim + d] =
                            static_cast<float>(reference::decode(s.k.data(), base + d, pr.kv_dtype));
                        v[static_cast<size_t>(j) * pr.head_dim + d] =
                            static_cast<float>(reference::decode(s.v.data(), base + d, pr.kv_dtype));
                    }
                }
            });
            reference::parallel(static_cast<int64_t>(count) * pr.group, [&](int64_t item) {
                const int t = static_cast<int>(item / pr.group),
                          head = h * pr.group + static_cast<int>(item % pr.group);
                const int64_t token = s.token_begin(b) + t;
                std::vector<double> q(pr.head_dim);
                for (int d = 0; d < pr.head_dim; ++d) {
                    q[d] = reference::decode(s.q.data(),
                                             token * static_cast<int64_t>(s.row_elements()) +
                                                 static_cast<int64_t>(head) * pr.head_dim + d,
                                             pr.q_dtype);
                }
                const int position = length - count + t;
                reference::Row row = {k.data(), v.data(), q.data(), length, pr.head_dim};
                row.end = std::max(s.c.causal ? std::min(position + 1, length) : length, 0);
                row.begin = s.c.window >= 0 ? std::max(position - s.c.window, 0) : 0;
                row.begin = std::min(row.begin, row.end);
                const int scale_head = s.c.head_scales ? h : 0;
                row.multiplier = static_cast<double>(s.p.softmax_scale) * s.q_scale[token * s.q_heads + head] *
                                 s.k_scale[scale_head];
                row.softcap = s.c.softcap, row.v_scale = s.v_scale[scale_head];
                row.has_sink = s.c.sinks, row.sink = s.sinks[head];
                const reference::RowResult r =
                    reference::attend(row, s.c.emulate, pr.kv_dtype == QF_DECODE_BF16 ? QF_DECODE_BF16 : QF_DECODE_F16);
                std::copy(r.rounded.begin(), r.rounded.end(),
                          e.rounded.begin() + (token * s.q_heads + head) * pr.head_dim);
                std::copy(r.out.begin(), r.out.end(), e.out.begin() + (token * s.q_heads + head) * pr.head_dim);
                std::copy(r.emulated.begin(), r.emulated.end(),
                          e.emulated.begin() + (token * s.q_heads + head) * pr.head_dim);
                e.lse[token * s.q_heads + head] = r.lse;
            });
        }
    }
    return e;
}

void report(const std::string &name, bool ok, const char *format, double a = 0, double b = 0, double c = 0) {
    char text[256];
    std::snprintf(text, sizeof text, format, a, b, c);
    std::printf("%s %-58s %s\n", ok ? "ok  " : "FAIL", name.c_str(), text);
    std::fflush(stdout);
    (ok ? g_passed : g_failed) += 1;
}

// What is rounded to the output's type: the definition computes it in f32.
double scaled(const Setup &s, double exact, int head) {
    const float scale = s.out_scale[s.c.head_scales ? head / s.problem.group : 0];
    float x = static_cast<float>(exact);
    if (s.c.via != QF_DECODE_NONE) {
        x = static_cast<float>(reference::decode_16(reference::encode_16(x, s.c.via), s.c.via));
    }
    if (s.c.out_mode == QF_DECODE_MUL) return x * scale;
    return s.c.out_mode == QF_DECODE_MUL_RECIPROCAL ? x * (1.0f / scale) : x / scale;
}

// Compares the output buffer with the expectation; prints and counts.
bool compare(const Setup &s, const Expected &e, const std::string &name) {
    const std::vector<uint8_t> out = s.d_out.download();
    const bool fp8 = s.out_bytes() == 1;
    double error = 0, norm = 0, emulated_error = 0, mean = 0, mean_reference = 0;
    int64_t equal = 0, total = 0, far = 0, bad = 0;
    for (int64_t t = 0; t < s.tokens; ++t) {
        double row_size = 0; // root mean square of the head's output, scaled
        for (int i = 0; i < s.q_heads * s.problem.head_dim; ++i) {
            if (fp8 && i % s.problem.head_dim == 0) {
                row_size = 0;
                for (int d = 0; d < s.problem.head_dim; ++d) {
                    const double x =
                        scaled(s, e.out[t * s.q_heads * s.problem.head_dim + i + d], i / s.problem.head_dim);
                    row_size += x * x / s.problem.head_dim;
                }
                row_size = std::sqrt(row_size);
            }
            const int64_t index = t * static_cast<int64_t>(s.row_elements()) + i,
                          at = t * s.q_heads * s.problem.head_dim + i;
            double want = e.out[at];
            const double got = reference::decode(out.data(), index, s.problem.out_dtype);
            if (fp8) {
                want = scaled(s, want, i / s.problem.head_dim);
                // Codes: against the emulation with P rounded as the kernel rounds it. More than one code away is
                // allowed only where that is less than 2^-10 of the row's size (sums that cancel).
                const double near = scaled(s, e.rounded[at], i / s.problem.head_dim);
                const uint8_t code = reference::encode_fp8(near, s.problem.out_dtype);
                const int distance = std::abs(reference::order_fp8(code) - reference::order_fp8(out[index]));
                equal += distance == 0;
                far += distance > 1 &&
                       std::fabs(got - near) > row_size / (s.problem.kv_dtype == QF_DECODE_BF16 ? 128 : 1024);
                emulated_error += std::pow(
                    reference::decode_fp8(
                        reference::encode_fp8(scaled(s, e.emulated[at], i / s.problem.head_dim), s.problem.out_dtype),
                        s.problem.out_dtype) -
                        want,
                    2);
            } else {
                emulated_error += std::pow(e.emulated[at] - want, 2);
            }
            if (fp8) {
                const double largest =
                    reference::decode_fp8(s.problem.out_dtype == QF_DECODE_E4M3 ? 0x7E : 0x7B, s.problem.out_dtype);
                want = std::min(std::max(want, -largest), largest);
            }
            if (!std::isfinite(got)) ++bad;
            error += (got - want) * (got - want), norm += want * want, mean += got, mean_reference += want;
            ++total;
        }
        for (int i = s.q_heads * s.problem.head_dim; i < static_cast<int>(s.row_elements()); ++i) {
            const int64_t index = (t * static_cast<int64_t>(s.row_elements()) + i) * s.out_bytes();
            if (out[index] != 0xAA) ++bad; // padding must stay untouched
        }
    }
    const double rmse = norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
    const double emulated = norm > 0 ? std::sqrt(emulated_error / norm) : 0;
    double limit = s.c.tolerance;
    if (limit == 0.0)
        limit = fp8                                     ? (s.problem.out_dtype == QF_DECODE_E4M3 ? 0.035 : 0.07)
                : s.problem.out_dtype == QF_DECODE_BF16 ? 0.0025
                                                        : 0.0006;
    if (limit < 0.003 && s.problem.kv_dtype == QF_DECODE_BF16) limit = 0.0035; // P is bf16 too
    bool ok = bad == 0 && rmse <= limit;
    if (s.c.emulate) ok = ok && rmse <= 1.15 * emulated;
    const double codes = total ? 100.0 * equal / total : 100.0;
    if (fp8) ok = ok && codes >= (s.c.via != QF_DECODE_NONE ? 97.0 : 99.0) && far == 0;
    if (s.c.values == Fill::kOnes || s.c.values == Fill::kMean) {
        const double bias = std::fabs(mean / mean_reference - 1.0);
        ok = ok && bias < 0.005;
        report(name, ok, fp8 ? "rmse %.3g bias %.2g codes %.2f %%" : "rmse %.3g bias %.2g", rmse, bias, codes);
    } else if (fp8) {
        report(name, ok, s.c.emulate ? "rmse %.3g codes %.2f %% (e4m3 P: rmse %.3g)" : "rmse %.3g codes %.2f %%", rmse,
               codes, emulated);
    } else {
        report(name, ok, s.c.emulate ? "rmse %.3g bad %.0f (e4m3 P: rmse %.3g)" : "rmse %.3g bad %.0f", rmse,
               static_cast<double>(bad), emulated);
    }
    if (s.c.lse) {
        const std::vector<float> lse = s.d_lse.download();
        double worst = 0;
        for (size_t i = 0; i < e.lse.size(); ++i) {
            if (std::isinf(e.lse[i])) {
                worst = std::max(worst, std::isinf(lse[i]) && lse[i] < 0 ? 0.0 : 1e9);
            } else {
                worst = std::max(worst, std::fabs(e.lse[i] - lse[i]) / std::max(1.0, std::fabs(e.lse[i])));
            }
            if (std::isnan(lse[i])) worst = 1e9;
        }
        report(name + " lse", worst < 2e-3, "largest relative difference %.2g", worst);
    }
    return ok;
}

bool selected(const std::string &name) {
    return g_filter.empty() || name.find(g_filter) != std::string::npos;
}

// The usual test: accuracy, then a second run with another poison must give the same bits.
void test(const Case &c) {
    if (!selected(c.name)) return;
    g_running = c.name.c_str();
    alarm(60);
    Setup s(c);
    s.run();
    CHECK(cudaDeviceSynchronize());
    compare(s, expect(s), c.name);
    Setup other(c, 0xFF);
    other.run();
    CHECK(cudaDeviceSynchronize());
    if (s.d_out.download() != other.d_out.download()) report(c.name + " poison", false, "bits depend on unused bytes");
    for (uint32_t ticket : s.d_tickets.download()) {
        if (ticket != 0) {
            report(c.name + " tickets", false, "a ticket stayed at %.0f", ticket);
            break;
        }
    }
    alarm(0);
}

const std::vector<int> kEdges = {1, 15, 16, 17, 0, 31, 33, 63, 64, 65, 127, 129, 300, 1000, 2049};

const char *dtype_name(int dtype) {
    static const char *const names[] = {"bf16", "f16", "e4m3", "e5m2"};
    return names[dtype];
}

void test_shapes() {
    const int groups[] = {1, 2, 4, 5, 8, 16};
    for (int kv : {QF_DECODE_E4M3, QF_DECODE_E5M2, QF_DECODE_BF16}) {
        for (int dim : {64, 128, 256}) {
            for (int page : {16, 32, 64, 128}) {
                for (int major : {0, 1}) {
                    const int index = (page / 32 + dim / 64 + 3 * major + kv) % 6;
                    Case c;
                    c.problem = {kv,
                                 kv == QF_DECODE_BF16 ? QF_DECODE_BF16 : QF_DECODE_E4M3,
                                 QF_DECODE_E4M3,
                                 dim,
                                 2,
                                 groups[index],
                                 1,
                                 0,
                                 page};
                    c.head_major = major != 0;
                    c.lengths = kEdges;
                    c.head_scales = (page == 32);
                    c.name = std::string("shape ") + dtype_name(kv) + " d" + std::to_string(dim) + " page " +
                             std::to_string(page) + (major ? " HND" : " NHD") + " group " +
                             std::to_string(groups[index]);
                    c.seed = static_cast<uint64_t>(kv * 1000 + dim + page + major);
                    test(c);
                }
            }
        }
    }
    for (int group : groups) {
        for (int out : {QF_DECODE_E4M3, QF_DECODE_E5M2, QF_DECODE_BF16, QF_DECODE_F16}) {
            for (int q : {QF_DECODE_E4M3, QF_DECODE_BF16, QF_DECODE_F16}) {
                Case c;
                c.problem = {QF_DECODE_E4M3, q, out, 128, 4, group, 1, 0, 64};
                c.lengths = {777, 64, 5};
                c.emulate = true;
                c.lse = out == QF_DECODE_BF16;
                c.name = std::string("types q ") + dtype_name(q) + " out " + dtype_name(out) + " group " +
                         std::to_string(group);
                test(c);
            }
        }
    }
    for (int heads : {1, 3, 5, 8}) {
        for (int bundle : {0, 1, 2, 4, 8}) {
            if (bundle > 0 && heads % bundle != 0) continue;
            for (int ctas : {0, 5, 37}) {
                Case c;
                c.problem.kv_heads = heads;
                c.lengths = {100, 3000, 1, 0, 517, 64};
                c.bundle = bundle, c.ctas = ctas, c.head_scales = true;
                c.name = "division heads " + std::to_string(heads) + " bundle " + std::to_string(bundle) + " ctas " +
                         std::to_string(ctas);
                test(c);
            }
        }
    }
    for (int cluster : {0, 1, 2, 3, 4}) {
        for (int heads : {1, 4, 8}) {
            for (int batch : {1, 2, 7}) {
                for (int length : {1, 40, 1000, 5000}) {
                    Case c;
                    c.problem.kv_heads = heads, c.cluster = cluster, c.head_scales = true;
                    c.problem.group = 1 + (length + heads) % 9, c.sinks = batch == 2, c.lse = length == 40;
                    c.lengths.assign(batch, length);
                    c.name = "clusters " + std::to_string(1 << cluster) + " heads " + std::to_string(heads) +
                             " batch " + std::to_string(batch) + " keys " + std::to_string(length);
                    test(c);
                }
            }
        }
    }
    for (int stages : {1, 2, 3, 4}) {
        Case c;
        c.lengths = {5000, 70}, c.stages = stages, c.ctas = 3;
        c.name = "stages " + std::to_string(stages);
        test(c);
    }
    for (int tiles : {1, 2, 3, 5}) {
        for (int rows : {1, 8}) {
            Case c;
            c.problem.kv_heads = 1, c.problem.group = rows, c.tiles_a_cta = tiles;
            c.lengths = {40000};
            c.name = "two-level merge rows " + std::to_string(rows) + " log2 tiles a CTA " + std::to_string(tiles);
            test(c);
        }
    }
    Case strides;
    strides.problem.kv_heads = 1, strides.problem.group = 8, strides.odd_strides = true, strides.q_padding = 16;
    strides.lengths = {130, 7};
    strides.name = "odd strides of single heads, padded tokens";
    test(strides);
    Case many;
    many.problem.kv_heads = 2;
    for (int b = 0; b < 700; ++b) many.lengths.push_back((b * 37) % 260);
    many.name = "batch 700";
    test(many);
    many.lengths.resize(2048, 20);
    many.problem.group = 1;
    many.name = "batch 2048";
    test(many);
}

void test_attributes() {
    for (int q_tokens : {1, 2, 3, 4}) {
        for (int group : {1, 4, 8, 16}) {
            for (int causal : {1, 0}) {
                Case c;
                c.problem.q_tokens = q_tokens, c.problem.group = group, c.causal = causal != 0;
                c.lengths = {0, 1, 2, 3, 4, 5, 16, 17, 18, 19, 33, 257, 1026};
                c.name = "tokens " + std::to_string(q_tokens) + " group " + std::to_string(group) +
                         (causal ? " causal" : " full");
                test(c);
            }
        }
    }
    for (int window : {0, 1, 5, 15, 16, 17, 100, 5000}) {
        for (int q_tokens : {1, 3}) {
            Case c;
            c.window = window, c.problem.q_tokens = q_tokens, c.lengths = kEdges, c.lse = true;
            c.name = "window " + std::to_string(window) + " tokens " + std::to_string(q_tokens);
            test(c);
        }
    }
    for (int dim : {64, 128, 256}) {
        Case c;
        c.problem.head_dim = dim, c.lengths = kEdges, c.sinks = true, c.lse = true;
        c.name = "sinks d" + std::to_string(dim);
        test(c);
        c.sinks = false, c.softcap = 2.0f;
        c.name = "soft cap d" + std::to_string(dim);
        test(c);
        c.sinks = true, c.window = 50, c.problem.q_tokens = 2;
        c.name = "soft cap, sinks, window, two tokens d" + std::to_string(dim);
        test(c);
    }
    Case negative;
    negative.softmax_scale = -0.1f, negative.lengths = kEdges, negative.name = "negative softmax scale";
    test(negative);
    Case zero;
    zero.softmax_scale = 1e-30f, zero.lengths = kEdges, zero.name = "vanishing softmax scale";
    test(zero);
    Case ragged;
    ragged.problem.q_tokens = 4, ragged.token_counts = {1, 0, 4, 2, 3}, ragged.lengths = {50, 60, 70, 1, 333};
    ragged.name = "ragged tokens through q_start";
    test(ragged);
    for (int mode : {QF_DECODE_DIV, QF_DECODE_MUL, QF_DECODE_MUL_RECIPROCAL}) {
        for (int via : {QF_DECODE_NONE, QF_DECODE_BF16, QF_DECODE_F16}) {
            Case c;
            c.out_mode = mode, c.via = via, c.lengths = {500, 20};
            c.out_scale = mode == QF_DECODE_MUL ? 20.0f : 0.05f;
            c.name = "output mode " + std::to_string(mode) + " via " + std::to_string(via);
            test(c);
        }
    }
    // Power-of-two scales 0.125 and 8 in each place: each is applied exactly once.
    for (float scale : {0.125f, 8.0f, 1e-3f, 1e3f}) {
        for (int place = 0; place < 4; ++place) {
            Case c;
            c.lengths = {300, 40};
            (place == 0 ? c.q_scale : place == 1 ? c.k_scale : place == 2 ? c.v_scale : c.out_scale) = scale;
            if (place == 1) c.softmax_scale = 0.1f / scale;
            if (place == 2) c.out_scale = 0.025f * scale;
            if (place == 3 && scale < 1) c.v_scale = scale;
            char name[64];
            std::snprintf(name, sizeof name, "scale %g at %s", scale,
                          place == 0   ? "q"
                          : place == 1 ? "k"
                          : place == 2 ? "v"
                                       : "out");
            c.name = name;
            if (place == 3 && scale > 100) c.tolerance = 1.0; // nearly everything rounds to zero
            test(c);
        }
    }
}

void test_numerics() {
    for (Fill values : {Fill::kOnes, Fill::kMean}) {
        for (int length : {1024, 4096, 16384, 65536, 131072}) {
            for (int ctas : {0, 1}) {
                for (int kv : {QF_DECODE_E4M3, QF_DECODE_BF16}) {
                    if (kv == QF_DECODE_BF16 && (ctas == 0 || values == Fill::kMean)) continue;
                    Case c;
                    c.problem.out_dtype = QF_DECODE_F16, c.problem.kv_heads = 1;
                    c.problem.kv_dtype = kv;
                    c.lengths = {length}, c.values = values, c.ctas = ctas;
                    if (ctas == 1) c.bundle = 1;
                    // The output of a long average is small against its rounding noise: P is f16.
                    c.tolerance = kv == QF_DECODE_BF16 ? 0.004 : 0.002;
                    c.name = std::string("bias V ") + (values == Fill::kOnes ? "1" : "mean 0.25") + " keys " +
                             std::to_string(length) + (ctas ? " one CTA" : "") + " " + dtype_name(kv);
                    test(c);
                }
            }
        }
    }
    {
        // All keys in one warp's chain: eight heads, one CTA, bundle 8.
        Case c;
        c.problem.out_dtype = QF_DECODE_F16, c.problem.kv_heads = 8, c.problem.group = 1;
        c.lengths = {131072}, c.values = Fill::kOnes, c.ctas = 1, c.bundle = 8, c.tolerance = 0.005;
        c.name = "bias V 1 keys 131072, one warp a head";
        test(c);
    }
    for (int length : {1000, 131072}) {
        Case c;
        c.problem.kv_heads = 1, c.lengths = {length}, c.keys = Fill::kNeedle, c.values = Fill::kNeedle;
        c.out_scale = 0.02f;
        c.name = "needle among " + std::to_string(length);
        test(c);
    }
    for (int exponent : {10, 12, 14, 16, 17, 18, 20}) {
        Case c;
        c.problem.kv_heads = 1, c.problem.out_dtype = QF_DECODE_BF16, c.lengths = {131072}, c.keys = Fill::kTail,
        c.values = Fill::kMean;
        c.tail_exponent = exponent, c.tolerance = 0.004, c.softmax_scale = 0.25f, c.problem.kv_dtype = QF_DECODE_E4M3;
        c.name = "flat tail at 2^-" + std::to_string(exponent);
        test(c);
    }
    const std::pair<Fill, const char *> fills[] = {{Fill::kEqual, "equal scores"},
                                                   {Fill::kRising, "rising maximum"},
                                                   {Fill::kDominant, "dominating score"},
                                                   {Fill::kOutliers, "outliers"}};
    for (const auto &fill : fills) {
        for (int out : {QF_DECODE_E4M3, QF_DECODE_BF16}) {
            for (int ctas : {0, 1}) {
                Case c;
                c.problem.out_dtype = out, c.keys = fill.first, c.lengths = {3000, 100, 17}, c.ctas = ctas;
                if (fill.first == Fill::kEqual) c.out_scale = 0.00531f;
                c.name = std::string(fill.second) + " out " + dtype_name(out) + (ctas ? " one CTA" : "");
                test(c);
            }
        }
    }
    for (int dim : {64, 128, 256}) {
        for (int q : {QF_DECODE_E4M3, QF_DECODE_BF16}) {
            Case c;
            c.problem.head_dim = dim, c.problem.q_dtype = q, c.keys = Fill::kExtreme, c.values = Fill::kExtreme,
            c.lengths = {700, 30};
            c.softmax_scale = q == QF_DECODE_E4M3 ? 0.002f : 0.0005f, c.out_scale = 0.5f;
            c.name = "values at +-448 d" + std::to_string(dim) + " q " + dtype_name(q);
            test(c);
        }
    }
    {
        // Saturation: |x| / scale far above 448 gives +-448, never NaN.
        Case c;
        c.out_scale = 1e-6f, c.lengths = {50}, c.name = "output saturates";
        test(c);
    }
}

// Large and tiny bf16 queries: f16 arithmetic must not overflow or lose them.
void test_query_range() {
    for (float scale : {1e-30f, 1e-6f, 1e5f, 1e30f}) {
        char name[64];
        std::snprintf(name, sizeof name, "bf16 queries of magnitude %g", scale);
        if (!selected(name)) continue;
        alarm(60);
        Case c;
        c.name = name, c.problem.q_dtype = QF_DECODE_BF16, c.problem.out_dtype = QF_DECODE_F16, c.lengths = {400, 20};
        c.softmax_scale = 0.1f / scale;
        Setup s(c);
        for (size_t i = 0; i < s.q.size() / 2; ++i) {
            uint16_t bits;
            std::memcpy(&bits, &s.q[2 * i], 2);
            bits = reference::encode_16(reference::decode_16(bits, QF_DECODE_BF16) * scale, QF_DECODE_BF16);
            std::memcpy(&s.q[2 * i], &bits, 2);
        }
        s.d_q.upload(s.q);
        s.run();
        CHECK(cudaDeviceSynchronize());
        compare(s, expect(s), name);
        alarm(0);
    }
}

void test_empty() {
    if (!selected("empty")) return;
    alarm(60);
    for (int sinks : {0, 1}) {
        for (int out : {QF_DECODE_E4M3, QF_DECODE_BF16}) {
            Case c;
            c.problem.out_dtype = out, c.sinks = sinks != 0, c.lse = true;
            c.lengths.assign(40, 0);
            c.name = std::string("empty batch") + (sinks ? " with sinks" : "");
            Setup s(c);
            s.run();
            CHECK(cudaDeviceSynchronize());
            bool zero = true;
            for (uint8_t byte : s.d_out.download()) zero = zero && byte == 0;
            report(c.name, zero, "all bytes zero");
        }
    }
    alarm(0);
}

void test_window_sweep() {
    if (!selected("window sweep")) return;
    alarm(60);
    int bad = 0, runs = 0;
    Case c;
    c.problem.kv_heads = 1, c.problem.group = 1, c.problem.out_dtype = QF_DECODE_F16, c.window = 256,
    c.values = Fill::kOnes, c.problem.head_dim = 64;
    for (int length = 1; length <= 600; ++length) c.lengths.push_back(length);
    for (int window : {0, 1, 63, 64, 255, 256, 257}) {
        c.window = window;
        Setup s(c);
        s.run();
        CHECK(cudaDeviceSynchronize());
        const std::vector<uint8_t> out = s.d_out.download();
        for (size_t i = 0; i < out.size() / 2; ++i, ++runs) {
            if (std::fabs(reference::decode(out.data(), static_cast<int64_t>(i), QF_DECODE_F16) - 2.0) > 2e-3) ++bad;
        }
    }
    report("window sweep, lengths 1..600", bad == 0, "%.0f wrong of %.0f", bad, runs);
    alarm(0);
}

void test_nan_stays() {
    if (!selected("NaN")) return;
    alarm(60);
    Case c;
    c.lengths = {100, 100}, c.problem.out_dtype = QF_DECODE_E4M3, c.problem.kv_heads = 1;
    Setup s(c);
    s.k[s.cache_index(s.table[0], 5, 0)] = 0x7F; // a NaN in a key of sequence 0
    s.d_k.upload(s.k);
    s.run();
    CHECK(cudaDeviceSynchronize());
    const std::vector<uint8_t> out = s.d_out.download();
    bool ok = true;
    for (size_t i = 0; i < out.size(); ++i) ok = ok && ((out[i] & 0x7F) == 0x7F) == (i < out.size() / 2);
    report("NaN in a key stays NaN in its sequence only", ok, "");
    alarm(0);
}

// Twenty replays under a graph, with lengths and scales changed in place between them.
void test_replay(bool dependent) {
    const std::string name = dependent ? "graph replay, dependent launches" : "graph replay";
    if (!selected(name)) return;
    alarm(60);
    Case c;
    c.problem.kv_heads = 8, c.lengths = {4000, 10, 700, 2222, 64, 1, 900};
    Setup s(c);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    s.run(dependent, stream); // attributes are set outside the capture
    CHECK(cudaStreamSynchronize(stream));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    s.run(dependent, stream), s.run(dependent, stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    int different = 0;
    const std::vector<std::vector<int>> lengths = {{4000, 10, 700, 2222, 64, 1, 900},
                                                   {1, 1, 1, 1, 1, 1, 1},
                                                   {0, 0, 700, 0, 0, 0, 3},
                                                   {4000, 10, 700, 2222, 64, 1, 900}};
    std::vector<uint8_t> first;
    for (size_t round = 0; round < lengths.size(); ++round) {
        Case fresh_case = c;
        const float v_scale = 1.0f + 0.5f * static_cast<float>(round % 3);
        // Same bytes, other lengths: copies of the buffers, new lengths.
        s.d_lengths.upload(lengths[round]);
        s.d_v_scale.upload({v_scale, v_scale, v_scale, v_scale, v_scale, v_scale, v_scale, v_scale});
        std::vector<uint8_t> reference_bits;
        s.d_out.fill(0xAA);
        CHECK(launch(s.problem, s.choice, s.p, false, stream));
        CHECK(cudaStreamSynchronize(stream));
        reference_bits = s.d_out.download();
        for (int replay = 0; replay < 20; ++replay) {
            s.d_out.fill(0x55);
            CHECK(cudaGraphLaunch(exec, stream));
            CHECK(cudaStreamSynchronize(stream));
            different += s.d_out.download() != reference_bits;
        }
        s.lengths = lengths[round];
        for (float &x : s.v_scale) x = v_scale;
        compare(s, expect(s), name + " round " + std::to_string(round));
    }
    report(name + ": 80 replays equal a fresh launch", different == 0, "%.0f differ", different);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    alarm(0);
}

// Writes lengths and a page table late, after having allowed its dependents to start.
__global__ void late_writer(int *lengths, const int *new_lengths, int batch, int *table, const int *new_table,
                            int entries, int microseconds) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    for (int i = 0; i < microseconds; ++i) __nanosleep(1000);
    for (int i = threadIdx.x; i < entries; i += blockDim.x) table[i] = new_table[i];
    for (int i = threadIdx.x; i < batch; i += blockDim.x) lengths[i] = new_lengths[i];
}

cudaError_t launch_late_writer(Setup &s, const int *lengths, const int *table, int microseconds, cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1), config.blockDim = dim3(128), config.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute, config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, late_writer, s.d_lengths.data, lengths, s.problem.batch, s.d_table.data, table,
                              static_cast<int>(s.table.size()), microseconds);
}

void test_late_predecessor() {
    if (!selected("late predecessor")) return;
    alarm(60);
    Case c;
    c.problem.kv_heads = 4, c.lengths = {2000, 300, 4000};
    Setup s(c);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    s.run(false, stream);
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<uint8_t> full = s.d_out.download();
    Device<int> long_lengths(s.lengths), short_lengths(std::vector<int>{1, 2, 3}), right_table(s.table),
        wrong_table(std::vector<int>(s.table.size(), s.table[0]));
    CHECK(launch_late_writer(s, short_lengths.data, wrong_table.data, 0, stream));
    s.run(true, stream);
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<uint8_t> small = s.d_out.download();
    int wrong = 0;
    for (int i = 0; i < 50; ++i) {
        CHECK(launch_late_writer(s, long_lengths.data, right_table.data, 20, stream));
        s.run(true, stream);
        CHECK(cudaStreamSynchronize(stream));
        wrong += s.d_out.download() != full;
        CHECK(launch_late_writer(s, short_lengths.data, wrong_table.data, 20, stream));
        s.run(true, stream);
        CHECK(cudaStreamSynchronize(stream));
        wrong += s.d_out.download() != small;
    }
    report("late predecessor writes lengths and tables", wrong == 0 && small != full, "%.0f of 100 wrong", wrong);
    CHECK(cudaStreamDestroy(stream));
    alarm(0);
}

// 1000 launches that overlap themselves, with alternating lengths, outputs kept apart and compared.
void test_overlap() {
    if (!selected("overlap")) return;
    alarm(60);
    Case a;
    a.problem.kv_heads = 8, a.lengths = {3000, 17, 900, 64};
    Case b = a;
    b.lengths = {5, 2500, 1, 333};
    Setup first(a), second(b);
    // One workspace for both, as in a plan.
    second.p.partials = first.p.partials, second.p.tickets = first.p.tickets;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    first.run(false, stream), second.run(false, stream);
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<uint8_t> want_first = first.d_out.download(), want_second = second.d_out.download();
    const int launches = 1000;
    const size_t bytes = want_first.size();
    Device<uint8_t> outputs(bytes * launches);
    outputs.fill(0xAA);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < launches; ++i) {
        Setup &s = i & 1 ? second : first;
        s.p.out = outputs.data + bytes * i;
        s.run(true, stream);
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    const std::vector<uint8_t> got = outputs.download();
    int wrong = 0;
    for (int i = 0; i < launches; ++i)
        wrong += std::memcmp(&got[bytes * i], (i & 1 ? want_second : want_first).data(), bytes) != 0;
    report("overlap: 1000 dependent launches, alternating lengths", wrong == 0, "%.0f wrong", wrong);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    alarm(0);
}

// Tickets left dirty by an aborted launch: zeroing them, as an executor does after an error, recovers.
void test_dirty_tickets() {
    if (!selected("tickets")) return;
    alarm(60);
    Case c;
    c.lengths = {5000, 40}, c.problem.kv_heads = 2;
    Setup s(c);
    s.run();
    CHECK(cudaDeviceSynchronize());
    const std::vector<uint8_t> want = s.d_out.download();
    s.d_tickets.fill(0x3F);
    s.run();
    CHECK(cudaDeviceSynchronize()); // wrong results are allowed, a hang is not
    s.d_tickets.fill(0), s.d_out.fill(0xAA);
    s.run();
    CHECK(cudaDeviceSynchronize());
    report("dirty tickets: no hang, zeroing recovers", s.d_out.download() == want, "");
    alarm(0);
}

// The used pages lie beyond 2^31 bytes of the cache.
void test_large_cache() {
    if (!selected("large cache")) return;
    alarm(60);
    for (int major : {0, 1}) {
        Case c;
        c.problem.kv_heads = 2, c.lengths = {500, 33}, c.head_major = major != 0;
        Setup s(c);
        const int64_t page_bytes = 64 * 2 * 128, extra = (int64_t{5} << 30) / page_bytes;
        Device<uint8_t> large_k((extra + s.pages) * page_bytes), large_v((extra + s.pages) * page_bytes);
        large_k.fill(0x7F), large_v.fill(0x7F);
        CHECK(cudaMemcpy(large_k.data + extra * page_bytes, s.k.data(), s.k.size(), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(large_v.data + extra * page_bytes, s.v.data(), s.v.size(), cudaMemcpyHostToDevice));
        encode_cache(make_cache(large_k.data, extra + s.pages, s.problem, c.head_major), s.problem, s.choice.box_bytes,
                     &s.p.k_map);
        encode_cache(make_cache(large_v.data, extra + s.pages, s.problem, c.head_major), s.problem, s.choice.box_bytes,
                     &s.p.v_map);
        std::vector<int> table = s.table;
        for (int &page : table) page += static_cast<int>(extra);
        s.d_table.upload(table);
        s.run();
        CHECK(cudaDeviceSynchronize());
        compare(s, expect(s), std::string("large cache, pages beyond 5 GiB ") + (major ? "HND" : "NHD"));
    }
    alarm(0);
}

} // namespace

int main(int argc, char **argv) {
    if (argc > 1) g_filter = argv[1];
    std::signal(SIGALRM, on_alarm);
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    g_ctas = std::min(properties.multiProcessorCount, QF_DECODE_MAX_CTAS);
    std::printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
    test_shapes();
    test_attributes();
    test_query_range();
    test_empty();
    test_window_sweep();
    test_nan_stays();
    test_dirty_tickets();
    test_replay(false);
    test_replay(true);
    test_late_predecessor();
    test_overlap();
    test_large_cache();
    test_numerics();
    std::printf("%d passed, %d failed\n", g_passed, g_failed);
    return g_failed == 0 ? 0 : 1;
}
