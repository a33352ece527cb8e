// Owns: what must come out of a case, and the comparison with it.
// Does not own: the mathematics (tests/gpu/common/reference.h).
// Read next: accuracy.cuh, robustness.cuh.
#pragma once

#include "setup.cuh"

namespace harness {

struct Expected {
    std::vector<double> out, emulated, rounded; // [token][q head][dim], before the output scale
    std::vector<double> lse;
};

inline Expected expect(const Setup &s) {
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
                const int p_dtype = pr.kv_dtype == QF_DECODE_BF16 ? QF_DECODE_BF16 : QF_DECODE_F16;
                const reference::RowResult r = reference::attend(row, s.c.emulate, {p_dtype, 4});
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

// What is rounded to the output's type.
inline double scaled(const Setup &s, double exact, int head) {
    const float scale = s.out_scale[s.c.head_scales ? head / s.problem.group : 0];
    return reference::scale_output(exact, scale, s.c.via, s.c.out_mode);
}

// Compares the output buffer with the expectation; prints and counts.
inline bool compare(const Setup &s, const Expected &e, const std::string &name) {
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

// The usual test: accuracy, then a second run with another poison must give the same bits.
inline void test(const Case &c) {
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

} // namespace harness
