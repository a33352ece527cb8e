// Owns: what must come out of a case, and the comparison with it.
// Does not own: the mathematics (tests/gpu/common/reference.h).
// Read next: accuracy.cuh.
#pragma once

#include "setup.cuh"

namespace harness {

// One looked-at query row.
struct ExpectedRow {
    int sequence, token, head;
    reference::RowResult result;
};

inline std::vector<ExpectedRow> expect(const Setup &s) {
    const Case &c = s.c;
    std::vector<ExpectedRow> rows;
    for (int b = 0; b < s.batch; ++b) {
        for (int h = 0; h < c.kv_heads; ++h) {
            const int length = s.lengths[b];
            std::vector<float> k(static_cast<size_t>(length) * c.head_dim), v(k.size());
            reference::parallel((length + 1023) / 1024, [&](int64_t part) {
                for (int j = static_cast<int>(part) * 1024; j < std::min<int64_t>(length, (part + 1) * 1024); ++j) {
                    const int64_t from = s.key_index(b, j, h), to = static_cast<int64_t>(j) * c.head_dim;
                    for (int d = 0; d < c.head_dim; ++d) {
                        k[to + d] = static_cast<float>(reference::decode(s.k.data(), from + d, c.dtype));
                        v[to + d] = static_cast<float>(reference::decode(s.v.data(), from + d, c.dtype));
                    }
                }
            });
            const size_t first = rows.size();
            for (int t = 0; t < c.queries[b]; ++t) {
                if (t % c.row_step != 0 && t != c.queries[b] - 1) continue;
                for (int g = 0; g < c.group; ++g) rows.push_back({b, t, h * c.group + g, {}});
            }
            reference::parallel(static_cast<int64_t>(rows.size() - first), [&](int64_t item) {
                ExpectedRow &row = rows[first + item];
                std::vector<double> q(c.head_dim);
                const int64_t at = s.q_index(b, row.token, row.head);
                for (int d = 0; d < c.head_dim; ++d) q[d] = reference::decode(s.q.data(), at + d, c.dtype);
                const int position = row.token + (c.bottom_right ? length - c.queries[b] : 0);
                reference::Row r = {k.data(), v.data(), q.data(), length, c.head_dim};
                int64_t end = length, begin = 0;
                if (c.causal) end = std::min<int64_t>(end, position + 1);
                if (c.window_right >= 0) end = std::min<int64_t>(end, int64_t{position} + c.window_right + 1);
                if (c.window_left >= 0) begin = std::max<int64_t>(begin, int64_t{position} - c.window_left);
                r.end = static_cast<int>(std::max<int64_t>(end, 0));
                r.begin = static_cast<int>(std::min<int64_t>(begin, r.end));
                const int scale = c.head_scales ? h : 0;
                r.multiplier = static_cast<double>(s.problem.softmax_scale) * s.q_scale[scale] * s.k_scale[scale];
                r.softcap = c.softcap, r.v_scale = s.v_scale[scale];
                r.has_sink = c.sinks, r.sink = s.sinks[row.head];
                row.result = reference::attend(r, false, {c.dtype, 8}); // P has the elements of V
                if (r.begin == r.end && c.empty_is_nan) row.result.out.assign(c.head_dim, NAN);
            });
        }
    }
    return rows;
}

// What is rounded to the output's type.
inline double scaled(const Setup &s, double exact, int head) {
    if (s.out_bytes() == 2) return exact;
    const float scale = s.out_scale[s.c.head_scales ? head / s.c.group : 0];
    return reference::scale_output(exact, scale, s.c.via, s.c.out_mode);
}

struct Totals {
    double error = 0, norm = 0, emulated_error = 0, mean = 0, mean_reference = 0;
    int64_t equal = 0, total = 0, far = 0, bad = 0;
};

// `largest`: of the output's type, FP8 only.
inline void compare_element(const Setup &s, const ExpectedRow &row, const std::vector<uint8_t> &out, int d,
                            double row_size, double largest, Totals *totals) {
    const int64_t index = s.q_index(row.sequence, row.token, row.head) + d;
    const double got = reference::decode(out.data(), index, s.c.out_dtype);
    double want = scaled(s, row.result.out[d], row.head), emulated = scaled(s, row.result.rounded[d], row.head);
    if (std::isnan(want)) {
        totals->bad += !std::isnan(got);
        return;
    }
    if (s.out_bytes() == 1) {
        // More than one code from the emulation only where that is little against the row: f16 scores and the
        // truncating adder move a P near a tie to the other code, a twelfth of it, and sums cancel.
        const uint8_t code = reference::encode_fp8(emulated, s.c.out_dtype);
        emulated = reference::decode_fp8(code, s.c.out_dtype);
        const int distance = std::abs(reference::order_fp8(code) - reference::order_fp8(out[index]));
        totals->equal += distance == 0;
        totals->far += distance > 1 && std::fabs(got - emulated) > row_size / 2;
        want = std::min(std::max(want, -largest), largest);
    } else {
        emulated = reference::decode_16(reference::encode_16(emulated, s.c.out_dtype), s.c.out_dtype);
    }
    totals->bad += !std::isfinite(got);
    totals->error += (got - want) * (got - want), totals->norm += want * want;
    totals->emulated_error += (emulated - want) * (emulated - want);
    totals->mean += got, totals->mean_reference += want;
    totals->total += 1;
}

// Bytes that belong to no row, and rows outside of all sequences.
inline int64_t count_stray_bytes(const Setup &s, const std::vector<uint8_t> &out) {
    int64_t bad = 0;
    const int bytes = s.out_bytes();
    for (int outer = 0; outer < s.q_outer; ++outer) {
        const int lines = s.c.q_head_major ? s.q_heads : s.q_rows;
        const int64_t step = s.c.q_head_major ? s.head_step() : s.line();
        for (int i = 0; i < lines; ++i) {
            const int64_t end = (outer * s.outer_step() + (i + 1) * step) * bytes;
            for (int64_t at = end - static_cast<int64_t>(s.c.padding) * bytes; at < end; ++at) bad += out[at] != 0xAA;
        }
    }
    for (int row = 0; s.c.packed && row < s.q_rows; ++row) {
        if (row >= s.q_start.front() && row < s.q_start.back()) continue;
        for (int h = 0; h < s.q_heads; ++h) {
            for (int d = 0; d < s.c.head_dim; ++d) {
                const double x = reference::decode(out.data(), row * s.line() + h * s.head_step() + d, s.c.out_dtype);
                bad += s.c.empty_is_nan ? !std::isnan(x) : x != 0.0;
            }
        }
    }
    return bad;
}

inline double worst_lse(const Setup &s, const std::vector<ExpectedRow> &rows) {
    const std::vector<float> lse = s.d_lse.download();
    double worst = 0;
    for (const ExpectedRow &row : rows) {
        const double want = row.result.lse, got = lse[s.lse_index(row.sequence, row.token, row.head)];
        if (std::isinf(want))
            worst = std::max(worst, std::isinf(got) && got < 0 ? 0.0 : 1e9);
        else
            worst = std::max(worst, std::fabs(want - got));
        if (std::isnan(got)) worst = 1e9;
    }
    return worst;
}

// Compares the output buffer with the expectation; prints and counts. The bound is the emulation's own error times
// 1.15: P in V's elements at the integer maximum, everything else exact, one rounding at the end.
inline bool compare(const Setup &s, const std::vector<ExpectedRow> &rows, const std::string &name) {
    const std::vector<uint8_t> out = s.d_out.download();
    const bool fp8 = s.out_bytes() == 1, narrow = reference::element_bytes(s.c.dtype) == 1;
    const double largest = reference::decode_fp8(s.c.out_dtype == QF_PREFILL_E5M2 ? 0x7B : 0x7E, s.c.out_dtype);
    Totals t;
    for (const ExpectedRow &row : rows) {
        double size = 0;
        for (double x : row.result.out) size += std::pow(scaled(s, x, row.head), 2) / s.c.head_dim;
        for (int d = 0; d < s.c.head_dim; ++d) compare_element(s, row, out, d, std::sqrt(size), largest, &t);
    }
    t.bad += count_stray_bytes(s, out);
    const double rmse = t.norm > 0 ? std::sqrt(t.error / t.norm) : std::sqrt(t.error);
    const double emulated = t.norm > 0 ? std::sqrt(t.emulated_error / t.norm) : 0;
    const double limit = s.c.tolerance > 0 ? s.c.tolerance : std::max(1.15 * emulated, narrow ? 0.008 : 3e-4);
    const double codes = t.total ? 100.0 * t.equal / t.total : 100.0;
    // f16 scores move more of P's codes than f32 scores do.
    const bool f32_scores = s.choice.form.scores == QF_PREFILL_SCORES_F32;
    const double least = std::max(s.c.least_codes, !narrow ? 98.0 : f32_scores ? 94.0 : 0.0);
    bool ok = t.bad == 0 && rmse <= limit && t.far == 0 && (!fp8 || codes >= least);
    char text[160];
    int length = std::snprintf(text, sizeof text, "rmse %.3g (emulated %.3g)", rmse, emulated);
    if (s.c.values == Fill::kOnes || s.c.values == Fill::kMean) {
        const double bias = std::fabs(t.mean / t.mean_reference - 1.0);
        ok = ok && bias < 0.005;
        length += std::snprintf(text + length, sizeof text - length, " bias %.2g", bias);
    }
    if (fp8) length += std::snprintf(text + length, sizeof text - length, " codes %.2f %%", codes);
    if (t.bad + t.far > 0) {
        std::snprintf(text + length, sizeof text - length, " bad %lld far %lld", static_cast<long long>(t.bad),
                      static_cast<long long>(t.far));
    }
    report_text(name, ok, text);
    if (s.c.lse) {
        const double worst = worst_lse(s, rows);
        // The sum is that of the rounded P, as docs/numerics.md defines it: with a single key off by up to half a unit.
        const double most = narrow ? 0.065 : s.c.dtype == QF_PREFILL_BF16 ? 0.0042 : 0.0006;
        report(name + " lse", worst < most, "largest difference %.2g", worst);
    }
    return ok;
}

inline const char *mask_name(const Case &c) {
    return !c.causal ? "full" : c.bottom_right ? "causal" : "causal top-left";
}

inline const char *wish_name(int dtype, int wish) {
    if (dtype != QF_PREFILL_E4M3) return wish == QF_PREFILL_WISH_SHARED ? ", shared" : "";
    return wish == QF_PREFILL_WISH_DIVIDED  ? ", keys divided"
           : wish == QF_PREFILL_WISH_SHARED ? ", V^T before, shared"
           : wish == QF_PREFILL_WISH_BEFORE ? ", V^T before"
                                            : "";
}

// Where two CTAs divide the keys of a tile, sums are added in another order: accuracy again, and the same bits twice.
inline void test_divided(const Case &c, const std::vector<ExpectedRow> &rows) {
    Case changed = c;
    changed.wish = QF_PREFILL_WISH_DIVIDED;
    Setup s(changed, 0xFF);
    if (s.choice.divide_from == INT32_MAX) return;
    s.run();
    CHECK(cudaDeviceSynchronize());
    compare(s, rows, c.name + wish_name(c.dtype, changed.wish));
    const std::vector<uint8_t> want = s.d_out.download();
    s.d_out.fill(0xAA);
    s.run();
    CHECK(cudaDeviceSynchronize());
    if (want != s.d_out.download()) report(c.name + " divided again", false, "other bits");
    if (s.d_ticket.download()[0] != 0) report(c.name + " ticket", false, "the ticket was not reset");
}

// The usual test: accuracy, then runs with another poison, with V transposed before by each CTA for itself (8-bit
// elements), and with clusters that share keys and values, must give the same bits.
inline void test(const Case &c) {
    if (!selected(c.name)) return;
    g_running = c.name.c_str();
    alarm(60);
    Setup s(c);
    s.run();
    CHECK(cudaDeviceSynchronize());
    const std::vector<ExpectedRow> rows = expect(s);
    compare(s, rows, c.name);
    if (s.d_ticket.download()[0] != 0) report(c.name + " ticket", false, "the ticket was not reset");
    const std::vector<uint8_t> want = s.d_out.download();
    for (int wish : {QF_PREFILL_WISH_INSIDE, QF_PREFILL_WISH_BEFORE, QF_PREFILL_WISH_SHARED}) {
        Case changed = c;
        changed.wish = wish;
        Setup other(changed, 0xFF);
        if (wish == QF_PREFILL_WISH_BEFORE && other.choice.before_ctas == 0) continue;
        if (wish == QF_PREFILL_WISH_SHARED && other.choice.cluster == 1) continue;
        other.run();
        CHECK(cudaDeviceSynchronize());
        const bool same = want == other.d_out.download() && (!c.lse || s.d_lse.download() == other.d_lse.download());
        if (wish != QF_PREFILL_WISH_INSIDE)
            report(c.name + wish_name(c.dtype, wish), same, "the same bits");
        else if (!same)
            report(c.name + " poison", false, "bits depend on unused bytes");
        if (other.d_ticket.download()[0] != 0) report(c.name + " ticket", false, "the ticket was not reset");
    }
    test_divided(c, rows);
    alarm(0);
}

} // namespace harness
