// Owns: test cases of the prefill kernels: what a problem, its inputs and its launch are made of.
// Does not own: what must come out (compare.cuh).
// Read next: compare.cuh.
#pragma once

#include <random>

#include "kernels/cuda/prefill/launch.cuh"
#include "tests/gpu/common/harness.cuh"
#include "tests/gpu/common/inputs.h"

namespace harness {

using namespace qfuse::prefill;

static_assert(reference::kBf16 == QF_PREFILL_BF16 && reference::kF16 == QF_PREFILL_F16 &&
                  reference::kE4m3 == QF_PREFILL_E4M3 && reference::kE5m2 == QF_PREFILL_E5M2 &&
                  reference::kNone == QF_PREFILL_NONE,
              "the reference speaks of types by the kernels' numbers");

struct Case {
    std::string name;
    int dtype = QF_PREFILL_E4M3, out_dtype = QF_PREFILL_E4M3, head_dim = 128, kv_heads = 2, group = 4;
    std::vector<int> queries = {300}; // tokens of each sequence; all equal unless packed
    std::vector<int> lengths;         // keys of each sequence; empty: as many as queries
    bool packed = false;              // q_start
    int lead = 0, trail = 0;          // packed rows before and after all sequences
    bool give_lengths = true;         // false: no kv_lens, every sequence has kv_tokens keys
    int extra_keys = 0;               // dense: rows of k and v past the longest sequence
    int page_size = 0;
    bool head_major = false;   // [heads][tokens] instead of [tokens][heads], for k and v (HND)
    bool q_head_major = false; // the same for q and out
    int padding = 0;           // elements between tokens (heads, where head-major) of q and out
    bool odd_strides = false;  // garbage strides in dimensions of one element
    bool causal = true, bottom_right = true, f32_scores = false;
    int window_left = -1, window_right = -1;
    bool sinks = false, lse = false, head_scales = false, empty_is_nan = false;
    float softcap = 0.0f, softmax_scale = 0.0f; // 0 = 1 / sqrt(head_dim)
    float q_scale = 0.25f, k_scale = 0.5f, v_scale = 2.0f, out_scale = 0.05f;
    int out_mode = QF_PREFILL_DIV, via = QF_PREFILL_NONE;
    Fill keys = Fill::kNormal, values = Fill::kNormal;
    int tail_exponent = 0;
    int row_step = 1;          // the reference looks at every row_step-th token of a sequence, and the last
    int ctas = 0;              // 0 = one a multiprocessor
    int tile_rows = 0;         // 0 = the host's choice
    double tolerance = 0.0;    // relative RMSE; 0 = by types
    double least_codes = 75.0; // per cent of FP8 codes that equal the emulation's; 16-bit inputs: 98
    uint64_t seed = 1;
    int wish = QF_PREFILL_WISH_INSIDE; // where V is transposed
};

// Inputs of a case on host and device, and its launch.
struct Setup {
    Case c;
    qf_prefill_problem problem = {};
    qf_prefill_choice choice;
    qf_prefill_params p;
    int batch, q_heads, q_rows, q_outer; // rows and batch elements of q and out
    std::vector<int> q_start, table, lengths;
    int table_width = 0, outer = 0, inner = 0; // pages and their tokens, or batch elements and their keys
    std::vector<uint8_t> q, k, v;
    std::vector<float> q_scale, k_scale, v_scale, out_scale, sinks;
    Device<uint8_t> d_q, d_k, d_v, d_out, d_transposed;
    Device<float> d_q_scale, d_k_scale, d_v_scale, d_out_scale, d_sinks, d_lse;
    Device<int> d_table, d_lengths, d_q_start;
    Device<uint32_t> d_ticket;

    explicit Setup(const Case &the_case, uint8_t poison = 0x7F);
    void run(bool dependent = false, cudaStream_t stream = nullptr) {
        CHECK(launch(problem, choice, p, dependent, stream));
    }
    int64_t line() const { // elements between heads, or of all heads of a token, with their padding
        return c.q_head_major ? c.head_dim : static_cast<int64_t>(q_heads) * c.head_dim + c.padding;
    }
    int64_t head_step() const {
        return c.q_head_major ? static_cast<int64_t>(q_rows) * c.head_dim + c.padding : c.head_dim;
    }
    int64_t outer_step() const {
        return c.q_head_major ? head_step() * q_heads : line() * q_rows;
    }
    int64_t q_elements() const {
        return outer_step() * q_outer;
    }
    int64_t q_index(int sequence, int token, int head) const {
        return (c.packed ? 0 : sequence) * outer_step() + row_of(sequence, token) * line() + head * head_step();
    }
    int row_of(int sequence, int token) const {
        return (c.packed ? q_start[sequence] : 0) + token;
    }
    int out_bytes() const {
        return reference::element_bytes(c.out_dtype);
    }
    int64_t lse_index(int sequence, int token, int head) const { // [batch][heads][tokens], or [rows][heads]
        return c.packed ? static_cast<int64_t>(row_of(sequence, token)) * q_heads + head
                        : (static_cast<int64_t>(sequence) * q_heads + head) * q_rows + token;
    }
    // Element of k and v where a key's head begins.
    int64_t key_index(int sequence, int key, int head) const {
        const int block = c.page_size > 0 ? table[static_cast<size_t>(sequence) * table_width + key / inner] : sequence;
        const int64_t at = c.page_size > 0 ? key % inner : key;
        const int64_t row = c.head_major ? static_cast<int64_t>(head) * inner + at : at * c.kv_heads + head;
        return (static_cast<int64_t>(block) * inner * c.kv_heads + row) * c.head_dim;
    }

  private:
    void lay_out_keys();
    void draw_inputs(uint8_t poison);
    void make_scales();
    void fill_params();
};

inline void Setup::lay_out_keys() {
    int longest = 0;
    for (int length : lengths) longest = std::max(longest, length);
    if (c.page_size == 0) {
        outer = batch, inner = std::max(longest + c.extra_keys, 1);
        return;
    }
    // Pages in random order, with unused ones between; table entries past a sequence point at poison.
    inner = c.page_size, outer = 3;
    table_width = std::max((longest + inner - 1) / inner, 1);
    for (int length : lengths) outer += (length + inner - 1) / inner;
    std::vector<int> order(outer);
    for (int i = 0; i < outer; ++i) order[i] = i;
    std::mt19937 shuffle(static_cast<unsigned>(c.seed));
    std::shuffle(order.begin(), order.end(), shuffle);
    table.assign(static_cast<size_t>(table_width) * batch, order[0]);
    int used = 3;
    for (int b = 0; b < batch; ++b) {
        for (int i = 0; i < (lengths[b] + inner - 1) / inner; ++i) table[b * table_width + i] = order[used++];
    }
}

inline void Setup::draw_inputs(uint8_t poison) {
    const int bytes = reference::element_bytes(c.dtype);
    q.assign(std::max<int64_t>(q_elements(), 1) * bytes, poison);
    const double unit = 1.0 / c.q_scale;
    reference::parallel(batch, [&](int64_t b) {
        Random random(c.seed + 77 + b);
        for (int t = 0; t < c.queries[b]; ++t) {
            for (int h = 0; h < q_heads; ++h) {
                const int64_t at = q_index(static_cast<int>(b), t, h);
                for (int d = 0; d < c.head_dim; ++d) put(q, at + d, c.dtype, query_value(c.keys, random, d, unit));
            }
        }
    });
    const int64_t elements = static_cast<int64_t>(outer) * inner * c.kv_heads * c.head_dim;
    k.assign(elements * bytes, poison), v.assign(elements * bytes, poison);
    const float score_unit = problem.softmax_scale * c.q_scale * c.k_scale * 2.0f;
    reference::parallel(static_cast<int64_t>(batch) * c.kv_heads, [&](int64_t item) {
        const int b = static_cast<int>(item / c.kv_heads), h = static_cast<int>(item % c.kv_heads);
        KeyRows rows(c.keys, c.values, c.dtype, c.head_dim, score_unit, c.tail_exponent, c.seed * 1000003 + item);
        for (int j = 0; j < lengths[b]; ++j) rows.put_row(k, v, key_index(b, j, h), j, lengths[b]);
    });
}

inline void Setup::make_scales() {
    for (int h = 0; h < c.kv_heads; ++h) {
        q_scale.push_back(c.q_scale * (c.head_scales ? 1.0f + 0.11f * h : 1.0f));
        k_scale.push_back(c.k_scale * (c.head_scales ? 1.0f + 0.37f * h : 1.0f));
        v_scale.push_back(c.v_scale * (c.head_scales ? 1.0f + 0.29f * h : 1.0f));
        out_scale.push_back(c.out_scale * (c.head_scales ? 1.0f + 0.23f * h : 1.0f));
    }
    for (int h = 0; h < q_heads; ++h) sinks.push_back(-1.0f + 0.5f * h);
}

inline void Setup::fill_params() {
    const int bytes = reference::element_bytes(c.dtype);
    const int64_t row = static_cast<int64_t>(c.head_dim) * bytes;
    qf_prefill_fill(&problem, &choice, &p);
    const int64_t garbage = 7;
    qf_prefill_tensor q_tensor = {d_q.data, line() * bytes, head_step() * bytes, outer_step() * bytes};
    qf_prefill_tensor k_tensor = {d_k.data, c.head_major ? row : row * c.kv_heads, c.head_major ? row * inner : row,
                                  row * inner * c.kv_heads};
    if (c.odd_strides) {
        if (q_heads == 1) q_tensor.head_stride = garbage;
        if (q_rows == 1) q_tensor.token_stride = garbage;
        if (c.kv_heads == 1) k_tensor.head_stride = garbage;
        if (inner == 1) k_tensor.token_stride = garbage;
        if (outer == 1) k_tensor.outer_stride = garbage;
    }
    qf_prefill_tensor v_tensor = k_tensor;
    v_tensor.address = d_v.data;
    if (!encode_maps(problem, q_tensor, k_tensor, v_tensor, &p)) {
        std::printf("FATAL %s: tensor map refused\n", c.name.c_str());
        std::_Exit(3);
    }
    p.transposed = d_transposed.data;
    p.out = d_out.data, p.lse = c.lse ? d_lse.data : nullptr;
    p.sinks = c.sinks ? d_sinks.data : nullptr;
    p.q_scale = d_q_scale.data, p.k_scale = d_k_scale.data, p.v_scale = d_v_scale.data;
    p.out_scale = d_out_scale.data;
    p.q_scale_stride = p.k_scale_stride = p.v_scale_stride = p.out_scale_stride = c.head_scales ? 1 : 0;
    p.block_table = d_table.data, p.block_table_stride = table_width;
    p.kv_lens = c.give_lengths ? d_lengths.data : nullptr;
    p.q_start = c.packed ? d_q_start.data : nullptr;
    p.ticket = d_ticket.data;
    p.out_batch_stride = outer_step(), p.out_token_stride = line(), p.out_head_stride = head_step();
    if (c.packed) {
        p.lse_token_stride = q_heads, p.lse_head_stride = 1;
    } else {
        p.lse_batch_stride = static_cast<int64_t>(q_heads) * q_rows, p.lse_head_stride = q_rows, p.lse_token_stride = 1;
    }
    p.bottom_right = c.bottom_right, p.empty_is_nan = c.empty_is_nan;
    p.out_mode = c.out_mode, p.via = c.via;
}

inline Setup::Setup(const Case &the_case, uint8_t poison) : c(the_case), lengths(the_case.lengths) {
    if (lengths.empty()) lengths = c.queries;
    batch = static_cast<int>(lengths.size());
    if (!c.packed) c.queries.resize(batch, c.queries.empty() ? 0 : c.queries[0]);
    q_heads = c.kv_heads * c.group;
    q_rows = c.packed ? c.lead + c.trail : c.queries[0];
    if (c.packed) {
        q_start.push_back(c.lead);
        for (int n : c.queries) q_start.push_back(q_start.back() + n), q_rows += n;
    }
    q_outer = c.packed ? 1 : batch;
    lay_out_keys();
    problem.dtype = c.dtype, problem.out_dtype = c.out_dtype, problem.head_dim = c.head_dim;
    problem.kv_heads = c.kv_heads, problem.group = c.group, problem.batch = batch, problem.packed = c.packed;
    problem.q_tokens = q_rows, problem.kv_tokens = c.page_size > 0 ? table_width * inner : inner;
    problem.page_size = c.page_size, problem.pages = outer, problem.f32_scores = c.f32_scores;
    problem.softmax_scale =
        c.softmax_scale != 0.0f ? c.softmax_scale : 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    problem.softcap = c.softcap, problem.causal = c.causal;
    problem.window_left = c.window_left, problem.window_right = c.window_right, problem.wish = c.wish;
    const char *refusal = qf_prefill_refusal(&problem);
    if (refusal != nullptr) {
        std::printf("FATAL %s refused: %s\n", c.name.c_str(), refusal);
        std::_Exit(3);
    }
    problem.tile_rows = c.tile_rows > 0 ? c.tile_rows : qf_prefill_choose_rows(&problem, g_ctas);
    choice = qf_prefill_choose(&problem, c.ctas > 0 ? c.ctas : g_ctas);
    draw_inputs(poison);
    make_scales();
    d_q = Device<uint8_t>(q), d_k = Device<uint8_t>(k), d_v = Device<uint8_t>(v);
    d_q_scale = Device<float>(q_scale), d_k_scale = Device<float>(k_scale), d_v_scale = Device<float>(v_scale);
    d_out_scale = Device<float>(out_scale), d_sinks = Device<float>(sinks);
    d_table = Device<int>(table), d_lengths = Device<int>(lengths), d_q_start = Device<int>(q_start);
    d_out = Device<uint8_t>(std::max<int64_t>(q_elements(), 1) * out_bytes());
    d_lse = Device<float>(std::max<int64_t>(static_cast<int64_t>(q_rows) * q_outer * q_heads, 1));
    d_ticket = Device<uint32_t>(1);
    d_transposed = Device<uint8_t>(choice.transposed_bytes);
    d_out.fill(0xAA), d_lse.fill(0xAA), d_ticket.fill(0), d_transposed.fill(poison);
    fill_params();
}

} // namespace harness
