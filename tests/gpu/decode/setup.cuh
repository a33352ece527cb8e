// Owns: test cases: what a problem, its inputs and its launch are made of.
// Does not own: what must come out (compare.cuh).
// Read next: compare.cuh.
#pragma once

#include <random>

#include "kernels/cuda/decode/launch.cuh"
#include "tests/gpu/common/harness.cuh"
#include "tests/gpu/common/inputs.h"

namespace harness {

using namespace qfuse::decode;

static_assert(reference::kBf16 == QF_DECODE_BF16 && reference::kF16 == QF_DECODE_F16 &&
                  reference::kE4m3 == QF_DECODE_E4M3 && reference::kE5m2 == QF_DECODE_E5M2 &&
                  reference::kNone == QF_DECODE_NONE,
              "the reference speaks of types by the kernels' numbers");

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

inline int64_t Setup::cache_index(int page, int token, int head) const {
    const int64_t page_rows = static_cast<int64_t>(problem.page_size) * problem.kv_heads;
    const int64_t row = c.head_major ? static_cast<int64_t>(head) * problem.page_size + token
                                     : static_cast<int64_t>(token) * problem.kv_heads + head;
    return (page * page_rows + row) * problem.head_dim;
}

inline Setup::Setup(const Case &the_case, uint8_t poison)
    : c(the_case), problem(the_case.problem), lengths(the_case.lengths) {
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
            const double x = query_value(c.keys, random, i % dim, q_unit);
            put(q, static_cast<int64_t>(t) * row_elements() + i, problem.q_dtype, x);
        }
    }
    // Caches.
    const int kv_bytes = qf_decode_element_bytes(problem.kv_dtype);
    const size_t cache_bytes = static_cast<size_t>(pages) * page * problem.kv_heads * dim * kv_bytes;
    k.assign(cache_bytes, poison), v.assign(cache_bytes, poison);
    const float score_unit = (c.softmax_scale != 0 ? c.softmax_scale : 1.0f / std::sqrt(static_cast<float>(dim))) *
                             (problem.q_dtype == QF_DECODE_E4M3 ? c.q_scale : 1.0f) * c.k_scale * 2.0f;
    reference::parallel(static_cast<int64_t>(problem.batch) * problem.kv_heads, [&](int64_t item) {
        const int b = static_cast<int>(item / problem.kv_heads), h = static_cast<int>(item % problem.kv_heads);
        KeyRows rows(c.keys, c.values, problem.kv_dtype, dim, score_unit, c.tail_exponent, c.seed * 1000003 + item);
        for (int j = 0; j < lengths[b]; ++j) {
            rows.put_row(k, v, cache_index(table[b * table_width + j / page], j % page, h), j, lengths[b]);
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
    p.token_rows = tokens;
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

} // namespace harness
