// Owns: the accuracy tests: shapes, layouts, attributes, numerics.
// Does not own: what must come out (compare.cuh).
// Read next: robustness.cuh.
#pragma once

#include "compare.cuh"

namespace harness {

inline void test_shapes() {
    // Dense, lengths around every tile edge; q and k of one length, and q shorter.
    for (int mask = 0; mask < 3; ++mask) {
        for (int tokens : {1, 47, 48, 49, 63, 64, 65, 127, 128, 129, 191, 192, 193, 384, 500}) {
            Case c;
            c.queries = {tokens, tokens}, c.causal = mask > 0, c.bottom_right = mask != 2;
            c.group = tokens % 3 == 0 ? 1 : 4, c.row_step = tokens > 200 ? 3 : 1;
            c.give_lengths = tokens % 2 == 0;
            c.name = std::string("dense ") + mask_name(c) + " tokens " + std::to_string(tokens);
            test(c);
            c.lengths = {tokens + 333, tokens + 1}, c.give_lengths = true;
            c.name += " of longer keys";
            test(c);
        }
    }
    for (int group : {1, 2, 3, 4, 5, 7, 8, 16, 64}) {
        Case c;
        c.group = group, c.queries = {150}, c.lengths = {210};
        c.row_step = 3, c.head_scales = true, c.lse = true;
        c.name = "group " + std::to_string(group);
        test(c);
    }
    for (int layout = 0; layout < 8; ++layout) {
        Case c;
        c.queries = {200, 200, 200}, c.lengths = {200, 77, 0}, c.kv_heads = 3, c.row_step = 3;
        c.head_major = layout & 1, c.q_head_major = layout & 2, c.padding = layout & 4 ? 32 : 0, c.extra_keys = 5;
        c.name = "layout " + std::to_string(layout);
        test(c);
    }
    for (int out : {QF_PREFILL_E4M3, QF_PREFILL_E5M2, QF_PREFILL_BF16, QF_PREFILL_F16}) {
        Case c;
        c.out_dtype = out, c.queries = {260}, c.lse = true, c.row_step = 2;
        c.name = std::string("out ") + dtype_name(out);
        test(c);
    }
    for (int page : {16, 32, 64, 128}) {
        for (int major : {0, 1}) {
            for (int group : {1, 4}) {
                Case c;
                c.page_size = page, c.head_major = major != 0, c.group = group, c.row_step = 3;
                c.queries = {130, 1, 0, 257, 90}, c.lengths = {130, 300, 40, 257, 1001}, c.packed = true;
                c.head_scales = page == 32, c.lead = page == 64 ? 3 : 0, c.trail = page == 64 ? 200 : 1;
                c.name = std::string("paged ") + std::to_string(page) + (major ? " HND" : " NHD") + " group " +
                         std::to_string(group);
                test(c);
            }
        }
    }
    Case strides;
    strides.kv_heads = 1, strides.group = 1, strides.queries = {1}, strides.lengths = {1}, strides.odd_strides = true;
    strides.name = "odd strides of single elements";
    test(strides);
    Case many;
    many.packed = true, many.kv_heads = 1, many.group = 2, many.queries.clear();
    for (int b = 0; b < 300; ++b) many.queries.push_back(b % 7), many.lengths.push_back(b % 7 + (b * 37) % 160);
    many.name = "300 short sequences";
    test(many);
    many.page_size = 16;
    many.name = "300 short sequences, paged";
    test(many);
    for (int ctas : {1, 2, 7}) {
        Case c;
        c.ctas = ctas, c.queries = {300, 300}, c.row_step = 3;
        c.name = "ctas " + std::to_string(ctas);
        test(c);
    }
    Case large;
    large.queries = {2048}, large.lengths = {2500}, large.row_step = 37;
    large.name = "2048 tokens of 2500 keys";
    test(large);
    large.causal = false, large.name = "2048 tokens of 2500 keys, full";
    test(large);
}

// One kernel of the list in config.h.
struct Kernel {
    int dtype, head_dim;
    bool f32_scores;

    std::string name() const {
        return std::string(dtype_name(dtype)) + " d" + std::to_string(head_dim) + (f32_scores ? " f32" : " f16");
    }
    Case usual() const {
        Case c;
        c.dtype = dtype, c.head_dim = head_dim, c.f32_scores = f32_scores, c.row_step = 5;
        return c;
    }
};

inline std::vector<Kernel> all_kernels() {
    std::vector<Kernel> kernels;
    for (int dim : {64, 128, 256}) {
        for (bool f32 : {false, true}) kernels.push_back({QF_PREFILL_E4M3, dim, f32});
        for (int dtype : {QF_PREFILL_BF16, QF_PREFILL_F16}) kernels.push_back({dtype, dim, true});
    }
    return kernels;
}

// Masks, pages, windows.
inline void test_kernel_shapes(const Kernel &kernel) {
    for (int mask = 0; mask < 3; ++mask) {
        for (int tokens : {1, 130, 300, 513}) {
            Case c = kernel.usual();
            c.queries = {tokens, tokens}, c.lengths = {tokens, tokens + 290}, c.causal = mask > 0;
            c.bottom_right = mask != 2, c.head_scales = true, c.group = tokens == 300 ? 1 : 4;
            c.name = kernel.name() + " " + mask_name(c) + " tokens " + std::to_string(tokens);
            test(c);
        }
    }
    for (int page : {16, 32, 64, 128}) {
        Case c = kernel.usual();
        c.page_size = page, c.head_major = page == 64, c.packed = true, c.lead = 1, c.trail = 9;
        c.queries = {130, 1, 0, 257, 90}, c.lengths = {130, 300, 40, 257, 1001};
        c.name = kernel.name() + " paged " + std::to_string(page);
        test(c);
    }
    for (int left : {0, 100, 300}) {
        Case c = kernel.usual();
        c.causal = false, c.window_left = left, c.window_right = 20, c.queries = {300}, c.lengths = {400};
        c.name = kernel.name() + " window " + std::to_string(left);
        test(c);
    }
    for (int group : {1, 3, 5, 16}) {
        Case c = kernel.usual();
        c.group = group, c.queries = {150}, c.lengths = {210}, c.lse = true;
        c.name = kernel.name() + " group " + std::to_string(group);
        test(c);
    }
}

// What is written, and from which numbers.
inline void test_kernel_numbers(const Kernel &kernel) {
    for (int out : {QF_PREFILL_BF16, QF_PREFILL_F16, QF_PREFILL_E5M2}) {
        Case c = kernel.usual();
        c.out_dtype = out, c.queries = {200}, c.lse = true, c.q_head_major = true, c.sinks = true;
        c.name = kernel.name() + " out " + dtype_name(out);
        test(c);
    }
    for (int via : {QF_PREFILL_BF16, QF_PREFILL_F16}) {
        Case c = kernel.usual();
        c.via = via, c.queries = {100};
        c.name = kernel.name() + " via " + dtype_name(via);
        test(c);
    }
    for (Fill values : {Fill::kOnes, Fill::kMean}) {
        Case c = kernel.usual();
        c.out_dtype = QF_PREFILL_F16, c.kv_heads = 1, c.group = 1, c.queries = {64}, c.lengths = {32768};
        c.values = values, c.row_step = 17, c.tolerance = 0.01;
        c.name = kernel.name() + (values == Fill::kOnes ? " bias V 1" : " bias V mean 0.25");
        test(c);
    }
    for (Fill keys : {Fill::kEqual, Fill::kRising, Fill::kOutliers}) {
        Case c = kernel.usual();
        c.keys = keys, c.queries = {100, 100}, c.lengths = {1500, 100};
        if (keys == Fill::kEqual) c.out_scale = 0.00531f;
        c.name = kernel.name() + (keys == Fill::kEqual ? " equal" : keys == Fill::kRising ? " rising" : " outliers");
        test(c);
    }
    for (float scale : {-0.25f, 1e-3f, 1e3f}) {
        Case c = kernel.usual();
        c.q_scale = scale, c.queries = {150};
        char name[64];
        std::snprintf(name, sizeof name, "%s q scale %g", kernel.name().c_str(), scale);
        c.name = name;
        test(c);
    }
    for (float cap : {0.5f, 30.0f}) {
        if (!kernel.f32_scores) break;
        Case c = kernel.usual();
        c.softcap = cap, c.queries = {200}, c.lengths = {300}, c.sinks = cap == 0.5f, c.lse = true;
        c.name = kernel.name() + (cap == 0.5f ? " soft cap 0.5" : " soft cap 30");
        test(c);
    }
}

inline void test_kernels() {
    for (const Kernel &kernel : all_kernels()) test_kernel_shapes(kernel), test_kernel_numbers(kernel);
}

inline void test_attributes() {
    for (int left : {0, 1, 63, 64, 127, 128, 200, 5000}) {
        for (int right : {-1, 0, 5, 130}) {
            Case c;
            c.causal = false, c.window_left = left, c.window_right = right, c.queries = {300}, c.lengths = {400};
            c.row_step = 2, c.lse = true, c.bottom_right = left % 2 == 0, c.group = left == 64 ? 1 : 4;
            c.name = "window " + std::to_string(left) + " " + std::to_string(right);
            test(c);
        }
    }
    // Tiles of fewer rows than a launch could take at once: warpgroups without rows pass over all.
    for (int rows : {64, 128}) {
        for (int group : {1, 4, 5, 16, 64}) {
            Case c;
            c.tile_rows = rows, c.group = group, c.queries = {130, 130}, c.lengths = {700, 130}, c.row_step = 3;
            c.lse = true, c.page_size = group == 5 ? 16 : 0;
            c.name = "tiles of " + std::to_string(rows) + " rows group " + std::to_string(group);
            test(c);
        }
    }
    for (int nan : {0, 1}) {
        for (int sinks : {0, 1}) {
            Case c;
            c.queries = {200, 200, 200}, c.lengths = {100, 0, 200}, c.lse = true, c.sinks = sinks != 0;
            c.empty_is_nan = nan != 0, c.row_step = 2;
            c.name = std::string("rows without a key") + (nan ? ", NaN" : "") + (sinks ? ", sinks" : "");
            test(c);
        }
    }
    for (int mode : {QF_PREFILL_DIV, QF_PREFILL_MUL, QF_PREFILL_MUL_RECIPROCAL}) {
        for (int via : {QF_PREFILL_NONE, QF_PREFILL_BF16, QF_PREFILL_F16}) {
            Case c;
            c.out_mode = mode, c.via = via, c.queries = {100};
            c.out_scale = mode == QF_PREFILL_MUL ? 20.0f : 0.05f;
            c.name = "output mode " + std::to_string(mode) + " via " + std::to_string(via);
            test(c);
        }
    }
    {
        Case c;
        c.queries = {150}, c.k_scale = -0.5f, c.name = "negative k scale";
        test(c);
    }
    // Each scale is applied exactly once.
    for (float scale : {0.125f, 8.0f, 1e-3f, 1e3f}) {
        for (int place = 0; place < 4; ++place) {
            Case c;
            c.queries = {150};
            (place == 0 ? c.q_scale : place == 1 ? c.k_scale : place == 2 ? c.v_scale : c.out_scale) = scale;
            if (place == 1) c.softmax_scale = 0.1f / scale;
            if (place == 2) c.out_scale = 0.025f * scale;
            if (place == 3) c.v_scale = scale;
            char name[64];
            std::snprintf(name, sizeof name, "scale %g at %s", scale,
                          place == 0   ? "q"
                          : place == 1 ? "k"
                          : place == 2 ? "v"
                                       : "out");
            c.name = name;
            test(c);
        }
    }
}

// At head dim 128, where lengths, spikes and ranges would show.
inline void test_numerics(int dtype) {
    const std::string type = std::string(dtype_name(dtype)) + " ";
    for (Fill values : {Fill::kOnes, Fill::kMean}) {
        for (int length : {1024, 4096, 16384, 65536, 131072}) {
            Case c;
            c.dtype = dtype, c.out_dtype = QF_PREFILL_F16, c.kv_heads = 1, c.group = 1, c.queries = {64};
            c.lengths = {length}, c.values = values, c.row_step = 7, c.tolerance = 0.01;
            c.name = type + "bias V " + (values == Fill::kOnes ? "1" : "mean 0.25") + " keys " + std::to_string(length);
            test(c);
        }
    }
    for (int length : {1000, 131072}) {
        Case c;
        c.dtype = dtype, c.kv_heads = 1, c.group = 1, c.queries = {64}, c.lengths = {length}, c.keys = Fill::kNeedle,
        c.values = Fill::kNeedle, c.row_step = 7, c.out_scale = 0.02f;
        c.name = type + "needle among " + std::to_string(length);
        test(c);
    }
    for (const ShapedFill &fill : kShapedFills) {
        for (int out : {QF_PREFILL_E4M3, QF_PREFILL_BF16}) {
            Case c;
            c.dtype = dtype, c.out_dtype = out, c.keys = fill.fill, c.queries = {100, 100}, c.lengths = {3000, 100};
            c.row_step = 3;
            if (fill.fill == Fill::kEqual) c.out_scale = 0.00531f;
            c.name = type + fill.name + " out " + dtype_name(out);
            test(c);
        }
    }
    {
        Case c;
        c.dtype = dtype, c.keys = Fill::kExtreme, c.values = Fill::kExtreme, c.queries = {100}, c.lengths = {700};
        c.softmax_scale = 0.002f, c.out_scale = 0.5f, c.least_codes = 50, c.name = type + "values at +-448";
        test(c);
    }
    {
        // Saturation: |x| / scale far above 448 gives +-448, never NaN.
        Case c;
        c.dtype = dtype, c.out_scale = 1e-6f, c.queries = {50}, c.name = type + "output saturates";
        test(c);
    }
}

} // namespace harness
