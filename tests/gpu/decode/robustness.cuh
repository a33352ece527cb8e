// Owns: the tests of what surrounds a launch: replays, late predecessors, overlap, dirty tickets, NaN, large caches.
// Does not own: accuracy over shapes and types (accuracy.cuh).
// Read next: decode_accuracy.cu.
#pragma once

#include "compare.cuh"
#include "tests/gpu/common/replay.cuh"

extern "C" __global__ void qf_paged_decode_jitter(const __grid_constant__ qf_decode_params p);

namespace harness {

// Large and tiny bf16 queries: f16 arithmetic must not overflow or lose them.
inline void test_query_range() {
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

inline void test_empty() {
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

inline void test_window_sweep() {
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

inline void test_nan_stays() {
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
inline void test_replay(bool dependent) {
    const std::string name = dependent ? "graph replay, dependent launches" : "graph replay";
    if (!selected(name)) return;
    alarm(60);
    Case c;
    c.problem.kv_heads = 8, c.lengths = {4000, 10, 700, 2222, 64, 1, 900};
    Setup s(c);
    const Stream stream;
    s.run(dependent, stream.at);
    stream.wait();
    const Graph graph(stream, [&] { s.run(dependent, stream.at), s.run(dependent, stream.at); });
    int different = 0;
    const std::vector<std::vector<int>> lengths = {{4000, 10, 700, 2222, 64, 1, 900},
                                                   {1, 1, 1, 1, 1, 1, 1},
                                                   {0, 0, 700, 0, 0, 0, 3},
                                                   {4000, 10, 700, 2222, 64, 1, 900}};
    for (size_t round = 0; round < lengths.size(); ++round) {
        const float v_scale = 1.0f + 0.5f * static_cast<float>(round % 3);
        // Same bytes, other lengths: copies of the buffers, new lengths.
        s.d_lengths.upload(lengths[round]);
        s.d_v_scale.upload({v_scale, v_scale, v_scale, v_scale, v_scale, v_scale, v_scale, v_scale});
        s.d_out.fill(0xAA);
        CHECK(launch(s.problem, s.choice, s.p, false, stream.at));
        stream.wait();
        const std::vector<uint8_t> fresh = s.d_out.download();
        different += count_different(s.d_out, fresh, 20, 0x55, [&](int) { graph.run(); });
        s.lengths = lengths[round];
        for (float &x : s.v_scale) x = v_scale;
        compare(s, expect(s), name + " round " + std::to_string(round));
    }
    report(name + ": 80 replays equal a fresh launch", different == 0, "%.0f differ", different);
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

inline cudaError_t launch_late_writer(Setup &s, const int *lengths, const int *table, int microseconds,
                                      cudaStream_t stream) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1), config.blockDim = dim3(128), config.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute, config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, late_writer, s.d_lengths.data, lengths, s.problem.batch, s.d_table.data, table,
                              static_cast<int>(s.table.size()), microseconds);
}

inline void test_late_predecessor() {
    if (!selected("late predecessor")) return;
    alarm(60);
    Case c;
    c.problem.kv_heads = 4, c.lengths = {2000, 300, 4000};
    Setup s(c);
    const Stream stream;
    s.run(false, stream.at);
    stream.wait();
    const std::vector<uint8_t> full = s.d_out.download();
    Device<int> long_lengths(s.lengths), short_lengths(std::vector<int>{1, 2, 3}), right_table(s.table),
        wrong_table(std::vector<int>(s.table.size(), s.table[0]));
    CHECK(launch_late_writer(s, short_lengths.data, wrong_table.data, 0, stream.at));
    s.run(true, stream.at);
    stream.wait();
    const std::vector<uint8_t> small = s.d_out.download();
    int wrong = 0;
    for (int i = 0; i < 50; ++i) {
        CHECK(launch_late_writer(s, long_lengths.data, right_table.data, 20, stream.at));
        s.run(true, stream.at);
        stream.wait();
        wrong += s.d_out.download() != full;
        CHECK(launch_late_writer(s, short_lengths.data, wrong_table.data, 20, stream.at));
        s.run(true, stream.at);
        stream.wait();
        wrong += s.d_out.download() != small;
    }
    report("late predecessor writes lengths and tables", wrong == 0 && small != full, "%.0f of 100 wrong", wrong);
    alarm(0);
}

// 1000 launches that overlap themselves, with alternating lengths, outputs kept apart and compared.
inline void test_overlap() {
    if (!selected("overlap")) return;
    alarm(60);
    Case a;
    a.problem.kv_heads = 8, a.lengths = {3000, 17, 900, 64};
    Case b = a;
    b.lengths = {5, 2500, 1, 333};
    Setup first(a), second(b);
    // One workspace for both, as in a plan.
    second.p.partials = first.p.partials, second.p.tickets = first.p.tickets;
    const Stream stream;
    first.run(false, stream.at), second.run(false, stream.at);
    stream.wait();
    const std::vector<uint8_t> want_first = first.d_out.download(), want_second = second.d_out.download();
    const int launches = 1000;
    const size_t bytes = want_first.size();
    Device<uint8_t> outputs(bytes * launches);
    outputs.fill(0xAA);
    const Graph graph(stream, [&] {
        for (int i = 0; i < launches; ++i) {
            Setup &s = i & 1 ? second : first;
            s.p.out = outputs.data + bytes * i;
            s.run(true, stream.at);
        }
    });
    graph.run();
    const std::vector<uint8_t> got = outputs.download();
    int wrong = 0;
    for (int i = 0; i < launches; ++i)
        wrong += std::memcmp(&got[bytes * i], (i & 1 ? want_second : want_first).data(), bytes) != 0;
    report("overlap: 1000 dependent launches, alternating lengths", wrong == 0, "%.0f wrong", wrong);
    alarm(0);
}

// Warps that sleep for random times between their steps must compute the same bits: every order of arrivals in rings,
// merges and tickets is right.
inline void test_jitter() {
    if (!selected("jitter")) return;
    for (int cluster : {0, 3}) {
        for (int heads : {1, 8}) {
            alarm(60);
            Case c;
            c.problem.kv_heads = heads, c.problem.group = heads == 1 ? 8 : 4, c.cluster = cluster;
            c.lengths = {3000, 17, 900, 64, 1, 2222};
            if (cluster > 0) c.lengths = {900};
            Setup s(c);
            s.run();
            CHECK(cudaDeviceSynchronize());
            const std::vector<uint8_t> want = s.d_out.download();
            const int wrong = count_different(s.d_out, want, 50, 0xAA, [&](int i) {
                CHECK(launch_kernel(reinterpret_cast<const void *>(qf_paged_decode_jitter), s.problem, s.choice, s.p,
                                    i % 2 != 0, nullptr));
                CHECK(cudaDeviceSynchronize());
            });
            report("jitter, clusters " + std::to_string(1 << s.choice.cluster_shift) + " heads " +
                       std::to_string(heads),
                   wrong == 0, "%.0f of 50 differ", wrong);
            alarm(0);
        }
    }
}

// Tickets left dirty by an aborted launch: zeroing them, as an executor does after an error, recovers.
inline void test_dirty_tickets() {
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
inline void test_large_cache() {
    if (!selected("large cache")) return;
    alarm(60);
    for (int major : {0, 1}) {
        Case c;
        c.problem.kv_heads = 2, c.lengths = {500, 33}, c.head_major = major != 0;
        Setup s(c);
        const int64_t page_bytes = 64 * 2 * 128, extra = (int64_t{5} << 30) / page_bytes;
        const Device<uint8_t> large_k = far_behind(s.k, extra * page_bytes),
                              large_v = far_behind(s.v, extra * page_bytes);
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

} // namespace harness
