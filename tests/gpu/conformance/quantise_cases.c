/* Owns: cases of quantize, dequantize, dynamic_quantize: every granularity, mode, precision and target type.
 * Does not own: quantised results of other ops.
 * Next: cases.h. */
#include <math.h>
#include <string.h>

#include "tests/gpu/conformance/cases.h"

static const qf_dtype sources[] = {QF_F32, QF_F16, QF_BF16, QF_F64};
static const qf_dtype targets[] = {QF_F8E4M3FN, QF_F8E5M2, QF_F8E4M3FNUZ, QF_F8E5M2FNUZ, QF_F4E2M1FN, QF_I8, QF_U8};

static bool is_whole(qf_dtype dtype) {
    return qf_dtype_kind_of(dtype) == QF_DTYPE_KIND_INTEGER;
}

typedef struct grain {
    shape x, scale;
    int axis, group;
} grain;

static const grain grains[] = {{{2, {7, 65}}, {0, {0}}, -1, 0},
                               {{2, {7, 65}}, {1, {1}}, -1, 0},
                               {{2, {7, 65}}, {1, {7}}, 0, 0},
                               {{3, {3, 5, 32}}, {1, {32}}, 2, 0},
                               {{3, {3, 5, 32}}, {1, {5}}, 1, 0},
                               {{2, {6, 64}}, {2, {6, 4}}, 1, 16},
                               {{2, {12, 5}}, {1, {3}}, 0, 4},
                               {{2, {0, 5}}, {0, {0}}, -1, 0},
                               {{1, {1}}, {0, {0}}, -1, 0},
                               {{3, {2, 8, 128}}, {3, {2, 8, 1}}, 2, 128},
                               {{2, {513, 1024}}, {0, {0}}, -1, 0},
                               {{2, {257, 4096}}, {2, {257, 32}}, 1, 128},
                               {{3, {9, 8, 24}}, {3, {9, 8, 1}}, 2, 24},
                               {{3, {6, 5, 64}}, {1, {5}}, 1, 0},
                               {{2, {40, 64}}, {1, {40}}, 0, 0}};

static void quantize(suite *to, qf_dtype from, qf_dtype dtype, const grain *at, const char *mode, const char *compute,
                     bool saturate, bool zero_point, fill values) {
    test_case *test = &to->test;
    case_begin(to, test, QF_OP_quantize, "%s_to_%s_%s_axis%d_group%d_%s_%s%s%s%s", qf_dtype_name(from),
               qf_dtype_name(dtype), shape_text(at->x), at->axis, at->group, mode, compute,
               saturate ? "" : "_unsaturated", zero_point ? "_zero_point" : "", values.kind == FILL_ODD ? "_odd" : "");
    (void)case_add_input(test, "x", from, at->x, values);
    bool product = mode[0] == 'm' && !mode[3];
    double scale = is_whole(dtype) ? 0.07 : 0.031;
    (void)case_add_input(test, "s", QF_F32, at->scale,
                         product ? UNIFORM(0.7 / scale, 1.4 / scale) : UNIFORM(0.7 * scale, 1.4 * scale));
    (void)case_add_input(test, "z", dtype, at->scale, is_whole(dtype) ? INTEGERS(0, 20) : ODD);
    case_node(test, "  %%y = quantize %%x, %%s%s {dtype=%s, mode=%s, compute=%s, saturate=%s, axis=%d, group=%d}",
              zero_point ? ", zero_point=%z" : "", qf_dtype_name(dtype), mode, compute, saturate ? "true" : "false",
              at->axis, at->group);
    case_output(test, "y", bound_of(QF_OP_quantize, from, dtype));
    test->small = shape_count(at->x) < 3000;
    case_end(test);
}

static void quantizes(suite *to) {
    for (uint32_t i = 0; i < QF_COUNT_OF(sources); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(targets); j++) {
            bool whole = is_whole(targets[j]);
            for (uint32_t k = 0; k < QF_COUNT_OF(grains); k++) {
                if (k > 2 && targets[j] != QF_F8E4M3FN && !(whole && k < 7)) continue;
                quantize(to, sources[i], targets[j], &grains[k], "div", "f32", true, false, NORMAL(4, 0));
            }
            quantize(to, sources[i], targets[j], &grains[1], "div", "f32", true, false, ODD);
            quantize(to, sources[i], targets[j], &grains[0], "mul", "f32", true, false, ODD);
            quantize(to, sources[i], targets[j], &grains[0], "mul_recip", "f32", true, false, ODD);
            quantize(to, sources[i], targets[j], &grains[5], "mul", "f32", true, false, NORMAL(4, 0));
            if (!whole) quantize(to, sources[i], targets[j], &grains[0], "div", "f32", false, false, ODD);
            if (whole) quantize(to, sources[i], targets[j], &grains[0], "div", "f32", true, true, ODD);
            if (whole) quantize(to, sources[i], targets[j], &grains[3], "div", "f32", true, true, NORMAL(4, 0));
            quantize(to, sources[i], targets[j], &grains[0], "div", "bf16", true, false, ODD);
            quantize(to, sources[i], targets[j], &grains[0], "div", "f16", true, false, ODD);
            quantize(to, sources[i], targets[j], &grains[2], "mul", "bf16", true, false, NORMAL(4, 0));
            quantize(to, sources[i], targets[j], &grains[2], "mul", "f16", true, false, NORMAL(4, 0));
        }
}

/* Fault 36: scales of zero, negative, NaN, infinite, subnormal. */
static void odd_scales(suite *to) {
    static const double scales[] = {0, -0.5, NAN, INFINITY, 1e-42, 1e-3, 1e3, -0.0};
    static const char *const modes[] = {"div", "mul", "mul_recip"};
    for (uint32_t i = 0; i < QF_COUNT_OF(modes); i++)
        for (uint32_t j = 0; j < 3; j++) {
            test_case *test = &to->test;
            case_begin(to, test, QF_OP_quantize, "%s_odd_scales_%s", qf_dtype_name(sources[j]), modes[i]);
            (void)case_add_input(test, "x", sources[j], SHAPE(8, 100), ODD);
            (void)case_add_input(test, "s", QF_F32, SHAPE(8), (fill){FILL_LIST, 0, 0, scales, 8});
            case_node(test, "  %%y = quantize %%x, %%s {dtype=f8E4M3FN, mode=%s, axis=0}", modes[i]);
            case_output(test, "y", bound_of(QF_OP_quantize, sources[j], QF_F8E4M3FN));
            test->small = true;
            case_end(test);
        }
}

static void dequantizes(suite *to) {
    for (uint32_t i = 0; i < QF_COUNT_OF(sources); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(targets); j++)
            for (uint32_t k = 0; k < QF_COUNT_OF(grains); k++)
                for (int zero_point = 0; zero_point <= is_whole(targets[j]); zero_point++) {
                    test_case *test = &to->test;
                    const grain *at = &grains[k];
                    if (k > 5 && targets[j] != QF_F8E4M3FN) continue;
                    case_begin(to, test, QF_OP_dequantize, "%s_to_%s_%s_axis%d_group%d%s", qf_dtype_name(targets[j]),
                               qf_dtype_name(sources[i]), shape_text(at->x), at->axis, at->group,
                               zero_point ? "_zero_point" : "");
                    (void)case_add_input(test, "x", targets[j], at->x, ODD);
                    (void)case_add_input(test, "s", QF_F32, at->scale, UNIFORM(0.01, 2));
                    (void)case_add_input(test, "z", targets[j], at->scale,
                                         is_whole(targets[j]) ? INTEGERS(0, 20) : ODD);
                    case_node(test, "  %%y = dequantize %%x, %%s%s {dtype=%s, axis=%d, group=%d}",
                              zero_point ? ", zero_point=%z" : "", qf_dtype_name(sources[i]), at->axis, at->group);
                    case_output(test, "y", bound_of(QF_OP_dequantize, targets[j], sources[i]));
                    test->small = shape_count(at->x) < 3000;
                    case_end(test);
                }
}

static void dynamics(suite *to) {
    static const struct {
        shape x;
        const char *attributes;
    } all[] = {{{2, {7, 65}}, "granularity=tensor"},
               {{2, {7, 65}}, "granularity=token"},
               {{2, {6, 64}}, "granularity=group, group=16"},
               {{3, {2, 3, 128}}, "granularity=token"},
               {{1, {100000}}, "granularity=tensor"},
               {{2, {0, 8}}, "granularity=token"},
               {{2, {301, 4096}}, "granularity=token"},
               {{2, {301, 4096}}, "granularity=group, group=128"},
               {{2, {9001, 520}}, "granularity=token"},
               {{2, {3, 5128}}, "granularity=token"},
               {{2, {3, 8192}}, "granularity=token"},
               {{2, {3, 8200}}, "granularity=token"},
               {{2, {3, 1}}, "granularity=token"}};
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(targets); j++)
            for (uint32_t k = 0; k < QF_COUNT_OF(all); k++)
                for (int form = 0; form < 4; form++) {
                    test_case *test = &to->test;
                    if (is_whole(targets[j]) && targets[j] == QF_U8) continue;
                    if ((form || k > 2) && j > 1) continue;
                    if (shape_count(all[k].x) > 2000000 && (form || j)) continue;
                    case_begin(to, test, QF_OP_dynamic_quantize, "%s_to_%s_%s_%s%s%s", qf_dtype_name(sources[i]),
                               qf_dtype_name(targets[j]), shape_text(all[k].x), all[k].attributes,
                               form & 1 ? "_bound" : "", form & 2 ? "_odd" : "");
                    (void)case_add_input(test, "x", sources[i], all[k].x, form & 2 ? ODD : NORMAL(3, 0));
                    (void)case_add_input(test, "u", QF_F32, SCALAR, CONSTANT(2.5));
                    case_node(test, "  %%y, %%s = dynamic_quantize %%x%s {dtype=%s, %s}",
                              form & 1 ? ", upper_bound=%u" : "", qf_dtype_name(targets[j]), all[k].attributes);
                    case_output(test, "y", bound_of(QF_OP_dynamic_quantize, sources[i], targets[j]));
                    case_output(test, "s", bound_of(QF_OP_dynamic_quantize, sources[i], QF_F32));
                    /* Rows that several warps share too. */
                    test->small = shape_count(all[k].x) < 3000 || (all[k].x.dims[1] == 5128 && form == 0 && j == 0);
                    case_end(test);
                }
    static const double rows[] = {0, 0, 0, 0, NAN, 1, 2, -3, INFINITY, 1, 2, 3, NAN, NAN, NAN, NAN};
    test_case *test = &to->test;
    case_begin(to, test, QF_OP_dynamic_quantize, "odd_rows");
    (void)case_add_input(test, "x", QF_F32, SHAPE(4, 4), (fill){FILL_LIST, 0, 0, rows, QF_COUNT_OF(rows)});
    case_node(test, "  %%y, %%s = dynamic_quantize %%x {dtype=f8E4M3FN, granularity=token}");
    case_output(test, "y", bound_of(QF_OP_dynamic_quantize, QF_F32, QF_F8E4M3FN));
    case_output(test, "s", bound_of(QF_OP_dynamic_quantize, QF_F32, QF_F32));
    test->small = true;
    case_end(test);
}

void quantise_cases(suite *to) {
    quantizes(to);
    odd_scales(to);
    dequantizes(to);
    dynamics(to);
}
