// Owns: the accuracy tests: shapes, types, attributes, numerics.
// Does not own: streams, replays and neighbours (robustness.cuh).
// Read next: robustness.cuh.
#pragma once

#include "compare.cuh"

namespace harness {

inline const std::vector<int> kEdges = {1, 15, 16, 17, 0, 31, 33, 63, 64, 65, 127, 129, 300, 1000, 2049};

inline void test_shapes() {
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
    // Launched as clusters, but divided by tickets, since the lengths differ.
    for (int heads : {1, 4}) {
        for (int length : {0, 5, 1000}) {
            Case c;
            c.problem.kv_heads = heads, c.lengths = {length, 70, 600}, c.head_scales = true;
            c.name = "clusters of unequal lengths heads " + std::to_string(heads) + " keys " + std::to_string(length);
            test(c);
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

inline void test_attributes() {
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

inline void test_numerics() {
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
    for (const ShapedFill &fill : kShapedFills) {
        for (int out : {QF_DECODE_E4M3, QF_DECODE_BF16}) {
            for (int ctas : {0, 1}) {
                Case c;
                c.problem.out_dtype = out, c.keys = fill.fill, c.lengths = {3000, 100, 17}, c.ctas = ctas;
                if (fill.fill == Fill::kEqual) c.out_scale = 0.00531f;
                c.name = std::string(fill.name) + " out " + dtype_name(out) + (ctas ? " one CTA" : "");
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

} // namespace harness
