// Owns: the tests of what surrounds a launch: replays, overlapping launches, NaN, large caches.
// Does not own: accuracy over shapes and types (accuracy.cuh).
// Read next: prefill_accuracy.cu.
#pragma once

#include "accuracy.cuh"
#include "tests/gpu/common/replay.cuh"

extern "C" __global__ void qf_prefill_jitter_e4m3(const __grid_constant__ qf_prefill_params p);
extern "C" __global__ void qf_prefill_jitter_e4m3_before(const __grid_constant__ qf_prefill_params p);
extern "C" __global__ void qf_prefill_jitter_bf16(const __grid_constant__ qf_prefill_params p);
extern "C" __global__ void qf_prefill_jitter_bf16_d256(const __grid_constant__ qf_prefill_params p);

namespace harness {

// A NaN in a key reaches the rows that see it, and no others.
inline void test_nan_stays() {
    for (const Kernel &kernel : all_kernels()) {
        const std::string name = kernel.name() + " NaN in a key";
        if (!selected(name)) continue;
        alarm(60);
        for (int key : {5, 77, 100, 140}) {
            Case c = kernel.usual();
            c.queries = {150, 150}, c.kv_heads = 1, c.group = 2;
            c.wish = key == 5     ? QF_PREFILL_WISH_INSIDE
                     : key == 77  ? QF_PREFILL_WISH_BEFORE
                     : key == 100 ? QF_PREFILL_WISH_DIVIDED
                                  : QF_PREFILL_WISH_SHARED;
            Setup s(c);
            put(s.k, s.key_index(0, key, 0) + c.head_dim / 2, c.dtype, NAN);
            s.d_k.upload(s.k);
            s.run();
            CHECK(cudaDeviceSynchronize());
            const std::vector<uint8_t> out = s.d_out.download();
            int64_t wrong = 0;
            for (int b = 0; b < 2; ++b) {
                for (int t = 0; t < 150; ++t) {
                    for (int h = 0; h < 2; ++h) {
                        const bool sees = b == 0 && t >= key;
                        for (int d = 0; d < c.head_dim; ++d) {
                            wrong += ((out[s.q_index(b, t, h) + d] & 0x7F) == 0x7F) != sees;
                        }
                    }
                }
            }
            report(name + " " + std::to_string(key), wrong == 0, "%.0f elements wrong", static_cast<double>(wrong));
        }
        alarm(0);
    }
}

// A scale that is no number leaves no number in rows that see a key; a zero makes all scores equal.
inline void test_odd_scales() {
    if (!selected("odd scales")) return;
    alarm(60);
    for (const Kernel &kernel : all_kernels()) {
        if (kernel.head_dim != 128) continue;
        for (float scale : {NAN, INFINITY, -INFINITY, 0.0f}) {
            Case c = kernel.usual();
            c.queries = {100}, c.kv_heads = 1, c.values = Fill::kOnes;
            Setup s(c);
            s.d_q_scale.upload(std::vector<float>(1, scale));
            s.run();
            CHECK(cudaDeviceSynchronize());
            const std::vector<uint8_t> out = s.d_out.download();
            const uint8_t one = reference::encode_fp8(scaled(s, c.v_scale, 0), c.out_dtype);
            int64_t wrong = 0;
            for (uint8_t code : out) wrong += scale == 0.0f ? code != one : (code & 0x7F) != 0x7F;
            report("odd scales " + std::to_string(scale) + " " + kernel.name(), wrong == 0, "%.0f elements wrong",
                   static_cast<double>(wrong));
        }
    }
    alarm(0);
}

// Twenty replays under a graph, with lengths, token counts and scales changed in place between them.
inline void test_replay(int dtype, bool dependent, int wish) {
    const std::string name = std::string(dtype_name(dtype)) +
                             (dependent ? " graph replay, dependent launches" : " graph replay") +
                             wish_name(dtype, wish);
    if (!selected(name)) return;
    alarm(60);
    Case c;
    c.dtype = dtype, c.packed = true, c.page_size = 64, c.queries = {300, 64, 1, 135}, c.lengths = {700, 64, 500, 2000},
    c.row_step = 7, c.wish = wish;
    Setup s(c);
    const Stream stream;
    s.run(dependent, stream.at);
    stream.wait();
    const Graph graph(stream, [&] { s.run(dependent, stream.at), s.run(dependent, stream.at); });
    const std::vector<std::vector<int>> lengths = {
        {700, 64, 500, 2000}, {300, 64, 1, 135}, {0, 0, 499, 1023}, {700, 64, 500, 2000}};
    const std::vector<std::vector<int>> queries = {
        {300, 64, 1, 135}, {300, 64, 1, 135}, {0, 1, 400, 99}, {300, 64, 1, 135}};
    int different = 0;
    for (size_t round = 0; round < lengths.size(); ++round) {
        const float v_scale = 1.0f + 0.5f * static_cast<float>(round % 3);
        std::vector<int> start(1, 0);
        for (int n : queries[round]) start.push_back(start.back() + n);
        s.d_lengths.upload(lengths[round]), s.d_q_start.upload(start);
        s.d_v_scale.upload(std::vector<float>(s.v_scale.size(), v_scale));
        s.d_out.fill(0xAA), s.d_transposed.fill(0x7F);
        CHECK(launch(s.problem, s.choice, s.p, false, stream.at));
        stream.wait();
        const std::vector<uint8_t> fresh = s.d_out.download();
        different += count_different(s.d_out, fresh, 20, 0x55, [&](int) { graph.run(); });
        s.lengths = lengths[round], s.q_start = start, s.c.queries = queries[round];
        for (float &x : s.v_scale) x = v_scale;
        compare(s, expect(s), name + " round " + std::to_string(round));
    }
    report(name + ": 80 replays equal a fresh launch", different == 0, "%.0f differ", different);
    report(name + ": the ticket is zero", s.d_ticket.download()[0] == 0, "");
    alarm(0);
}

// 1000 launches that overlap themselves, of two problems that share a ticket and the memory of V^T, outputs kept apart
// and compared.
inline void test_overlap(int dtype, int first_wish, int second_wish) {
    const std::string name = std::string(dtype_name(dtype)) + " overlap" + wish_name(dtype, first_wish) +
                             (second_wish == first_wish ? "" : " and inside");
    if (!selected(name)) return;
    alarm(60);
    Case a;
    a.dtype = dtype, a.queries = {200, 200}, a.lengths = {900, 17}, a.wish = first_wish;
    Case b = a;
    b.queries = {33}, b.lengths = {2500}, b.seed = 2, b.wish = second_wish;
    Setup first(a), second(b);
    second.p.ticket = first.p.ticket;
    Device<uint8_t> transposed(std::max(first.choice.transposed_bytes, second.choice.transposed_bytes));
    first.p.transposed = second.p.transposed = transposed.data;
    const Stream stream;
    first.run(false, stream.at), second.run(false, stream.at);
    stream.wait();
    const std::vector<uint8_t> want_first = first.d_out.download(), want_second = second.d_out.download();
    int wrong = 0;
    for (int i = 0; i < 20; ++i) {
        first.d_out.fill(0x55), second.d_out.fill(0x55);
        CHECK(cudaDeviceSynchronize());
        for (int k = 0; k < 25; ++k) first.run(true, stream.at), second.run(true, stream.at);
        stream.wait();
        wrong += first.d_out.download() != want_first;
        wrong += second.d_out.download() != want_second;
    }
    report(name + ": 1000 dependent launches of two problems", wrong == 0, "%.0f wrong", wrong);
    alarm(0);
}

// Warps that sleep at random must not change a bit: every hand-over of shared memory is guarded.
inline void test_jitter(int dtype, int wish, int head_dim = 128) {
    const std::string name = std::string(dtype_name(dtype)) + " jitter " + (head_dim == 256 ? "d256 " : "");
    if (!selected(name)) return;
    const bool before = wish >= QF_PREFILL_WISH_BEFORE;
    const void *kernel = dtype == QF_PREFILL_BF16 ? head_dim == 256
                                                        ? reinterpret_cast<const void *>(qf_prefill_jitter_bf16_d256)
                                                        : reinterpret_cast<const void *>(qf_prefill_jitter_bf16)
                         : before ? reinterpret_cast<const void *>(qf_prefill_jitter_e4m3_before)
                                                  : reinterpret_cast<const void *>(qf_prefill_jitter_e4m3);
    for (int mask = 0; mask < 3; ++mask) {
        alarm(60);
        Case c;
        c.dtype = dtype, c.head_dim = head_dim, c.page_size = mask == 1 ? 16 : 0, c.packed = mask == 1,
        c.causal = mask > 0, c.group = mask == 2 ? 1 : 4;
        c.queries = {300, 300, 300}, c.lengths = {900, 17, 2222}, c.kv_heads = 4;
        if (c.packed) c.queries = {300, 5, 129};
        c.wish = wish;
        Setup s(c);
        s.run();
        CHECK(cudaDeviceSynchronize());
        const std::vector<uint8_t> want = s.d_out.download();
        const std::string full_name = name + (c.packed ? "paged" : mask_name(c)) + wish_name(dtype, wish);
        g_running = full_name.c_str();
        const int wrong = count_different(s.d_out, want, 500, 0xAA, [&](int i) {
            CHECK(launch_kernel(kernel, s.choice, s.p, i % 2 != 0, nullptr));
            CHECK(cudaDeviceSynchronize());
        });
        report(full_name, wrong == 0, "%.0f of 500 differ", wrong);
        g_running = "";
        alarm(0);
    }
}

// The used pages lie beyond 2^31 bytes of the cache (fault_58).
inline void test_large_cache(int dtype, int wish) {
    const std::string type = std::string(dtype_name(dtype)) + " large cache" + wish_name(dtype, wish);
    if (!selected(type)) return;
    alarm(60);
    for (int major : {0, 1}) {
        Case c;
        c.dtype = dtype, c.page_size = 64, c.packed = true, c.queries = {100, 33}, c.lengths = {500, 33},
        c.head_major = major != 0, c.wish = wish;
        Setup s(c);
        const int64_t row = int64_t{c.head_dim} * reference::element_bytes(dtype);
        const int64_t page_bytes = 64 * c.kv_heads * row, extra = (int64_t{5} << 30) / page_bytes;
        const Device<uint8_t> large_k = far_behind(s.k, extra * page_bytes),
                              large_v = far_behind(s.v, extra * page_bytes);
        s.problem.pages = extra + s.outer;
        qf_prefill_tensor tensor = {large_k.data, c.head_major ? row : row * c.kv_heads, c.head_major ? row * 64 : row,
                                    page_bytes};
        qf_prefill_map plan;
        qf_prefill_describe_keys(&s.problem, &tensor, &plan);
        bool encoded = encode_map(plan, &s.p.k_map);
        tensor.address = large_v.data;
        qf_prefill_describe_values(&s.problem, &tensor, &plan);
        encoded = encode_map(plan, &s.p.v_map) && encoded;
        std::vector<int> table = s.table;
        for (int &page : table) page += static_cast<int>(extra);
        s.d_table.upload(table);
        s.run();
        CHECK(cudaDeviceSynchronize());
        const std::string name = type + (major ? ", pages beyond 5 GiB HND" : ", pages beyond 5 GiB NHD");
        report(name + " maps", encoded, "");
        compare(s, expect(s), name);
    }
    alarm(0);
}

} // namespace harness
