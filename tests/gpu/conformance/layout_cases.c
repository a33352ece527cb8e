/* Owns: cases of ops that move elements: permute, slice, concat, split, expand, pad, triangle, view.
 * Does not own: moves by index (index_cases.c).
 * Next: cases.h. */
#include <string.h>

#include "tests/gpu/conformance/cases.h"

/* One of each width, and the packed one. */
static const qf_dtype widths[] = {QF_F32, QF_BF16, QF_F8E4M3FN, QF_I64, QF_F4E2M1FN, QF_I1};

static void move(suite *to, qf_op op, qf_dtype dtype, shape dims, const char *attributes) {
    test_case *test = &to->test;
    case_begin(to, test, op, "%s_%s_%s", qf_dtype_name(dtype), shape_text(dims), attributes);
    (void)case_add_input(test, "x", dtype, dims, ODD);
    case_node(test, "  %%y = %s %%x {%s}", qf_op_name(op), attributes);
    case_output(test, "y", bound_of(op, dtype, dtype));
    test->small = shape_count(dims) < 3000;
    case_end(test);
}

static void every_width(suite *to, qf_op op, shape dims, const char *attributes) {
    for (uint32_t i = 0; i < QF_COUNT_OF(widths); i++) move(to, op, widths[i], dims, attributes);
}

static void permutes(suite *to) {
    every_width(to, QF_OP_permute, SHAPE(7, 13), "order=[1, 0]");
    every_width(to, QF_OP_permute, SHAPE(2, 3, 5, 16), "order=[0, 2, 1, 3]");
    every_width(to, QF_OP_permute, SHAPE(2, 3, 5, 8), "order=[0, 1, 3, 2]");
    every_width(to, QF_OP_permute, SHAPE(3, 0, 4), "order=[2, 0, 1]");
    every_width(to, QF_OP_permute, SHAPE(1, 2, 1, 3, 2, 1, 4, 3), "order=[7, 5, 3, 1, 6, 4, 2, 0]");
    every_width(to, QF_OP_permute, SHAPE(2, 3, 4), "order=[0, 1, 2]");
    move(to, QF_OP_permute, QF_BF16, SHAPE(1024, 2049), "order=[1, 0]");
    move(to, QF_OP_permute, QF_F8E4M3FN, SHAPE(2, 300, 8, 128), "order=[0, 2, 1, 3]");
    move(to, QF_OP_permute, QF_F32, SHAPE(4, 64, 3, 129), "order=[0, 3, 1, 2]");
}

static void slices(suite *to) {
    every_width(to, QF_OP_slice, SHAPE(9, 11), "starts=[1, 2], ends=[8, 11], steps=[1, 1]");
    every_width(to, QF_OP_slice, SHAPE(9, 12), "starts=[0, 1], ends=[9, 12], steps=[2, 3]");
    every_width(to, QF_OP_slice, SHAPE(6, 8), "starts=[5, 7], ends=[-1, 0], steps=[-1, -2]");
    every_width(to, QF_OP_slice, SHAPE(5, 8), "starts=[2, 0], ends=[2, 8], steps=[1, 1]");
    move(to, QF_OP_slice, QF_F16, SHAPE(64, 4096), "starts=[0, 1024], ends=[64, 2048], steps=[1, 1]");
    move(to, QF_OP_slice, QF_F32, SHAPE(3, 2, 1, 2, 2, 1, 2, 9),
         "starts=[1, 0, 0, 1, 0, 0, 0, 3], ends=[3, 2, 1, 2, 2, 1, 2, 8], steps=[1, 1, 1, 1, 1, 1, 1, 2]");
}

static void expands(suite *to) {
    every_width(to, QF_OP_expand, SHAPE(3, 1), "shape=[3, 9]");
    every_width(to, QF_OP_expand, SHAPE(1), "shape=[2, 3, 17]");
    every_width(to, QF_OP_expand, SCALAR, "shape=[33]");
    every_width(to, QF_OP_expand, SHAPE(2, 1, 8), "shape=[2, 4, 8]");
    every_width(to, QF_OP_expand, SHAPE(1, 3), "shape=[0, 3]");
    move(to, QF_OP_expand, QF_F8E4M3FN, SHAPE(2, 2, 1, 100, 128), "shape=[2, 2, 4, 100, 128]");
    move(to, QF_OP_expand, QF_BF16, SHAPE(1, 513), "shape=[700, 513]");
    every_width(to, QF_OP_view, SHAPE(6, 8), "shape=[3, 16]");
    every_width(to, QF_OP_triangle, SHAPE(5, 7), "upper=false, diagonal=0");
    every_width(to, QF_OP_triangle, SHAPE(2, 7, 5), "upper=true, diagonal=-2");
    every_width(to, QF_OP_triangle, SHAPE(4, 6), "upper=false, diagonal=3");
    move(to, QF_OP_triangle, QF_F32, SHAPE(513, 1000), "upper=true, diagonal=1");
}

static void concats(suite *to) {
    static const shape parts[][3] = {{{2, {3, 4}}, {2, {2, 4}}, {2, {1, 4}}},
                                     {{3, {2, 3, 5}}, {3, {2, 0, 5}}, {3, {2, 4, 5}}},
                                     {{2, {3, 7}}, {2, {3, 8}}, {2, {3, 1}}},
                                     {{4, {1, 2, 100, 64}}, {4, {1, 2, 1, 64}}, {4, {1, 2, 27, 64}}}};
    static const int axes[] = {0, 1, 1, 2};
    for (uint32_t i = 0; i < QF_COUNT_OF(parts); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(widths); j++) {
            test_case *test = &to->test;
            case_begin(to, test, QF_OP_concat, "%s_axis%d_%s", qf_dtype_name(widths[j]), axes[i],
                       shape_text(parts[i][0]));
            (void)case_add_input(test, "a", widths[j], parts[i][0], ODD);
            (void)case_add_input(test, "b", widths[j], parts[i][1], ODD);
            (void)case_add_input(test, "c", widths[j], parts[i][2], ODD);
            case_node(test, "  %%y = concat %%a, %%b, %%c, %%a {axis=%d}", axes[i]);
            case_output(test, "y", bound_of(QF_OP_concat, widths[j], widths[j]));
            test->small = true;
            case_end(test);
        }
    /* More parts than fit in a block of parameters. */
    test_case *test = &to->test;
    case_begin(to, test, QF_OP_concat, "f16_many_parts");
    char names[1200] = "";
    (void)case_add_input(test, "a", QF_F16, SHAPE(3, 2), ODD);
    (void)case_add_input(test, "b", QF_F16, SHAPE(3, 5), ODD);
    for (int i = 0; i < 150; i++) (void)strcat(names, i == 0 ? "%a" : i % 3 ? ", %b" : ", %a");
    case_node(test, "  %%y = concat %s {axis=1}", names);
    case_output(test, "y", bound_of(QF_OP_concat, QF_F16, QF_F16));
    case_end(test);
}

static void splits(suite *to) {
    static const struct {
        shape dims;
        int axis;
        const char *sizes;
    } all[] = {{{2, {6, 9}}, 0, "1, 2, 3"},
               {{2, {5, 9}}, 1, "4, 0, 5"},
               {{3, {2, 8, 6}}, 1, "1, 1, 6"},
               {{3, {3, 4, 192}}, 2, "64, 64, 64"}};
    for (uint32_t i = 0; i < QF_COUNT_OF(all); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(widths); j++) {
            test_case *test = &to->test;
            case_begin(to, test, QF_OP_split, "%s_%s_axis%d", qf_dtype_name(widths[j]), shape_text(all[i].dims),
                       all[i].axis);
            (void)case_add_input(test, "x", widths[j], all[i].dims, ODD);
            case_node(test, "  %%a, %%b, %%c = split %%x {axis=%d, sizes=[%s]}", all[i].axis, all[i].sizes);
            case_output(test, "a", bound_of(QF_OP_split, widths[j], widths[j]));
            case_output(test, "b", bound_of(QF_OP_split, widths[j], widths[j]));
            case_output(test, "c", bound_of(QF_OP_split, widths[j], widths[j]));
            test->small = true;
            case_end(test);
        }
}

static void pads(suite *to) {
    static const struct {
        shape dims;
        const char *before, *after;
    } all[] = {{{2, {3, 5}}, "1, 2", "0, 3"},
               {{2, {6, 5}}, "-1, 2", "2, -3"},
               {{1, {0}}, "4", "3"},
               {{3, {2, 64, 65}}, "0, 1, 0", "0, 0, 63"}};
    for (uint32_t i = 0; i < QF_COUNT_OF(all); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(widths); j++) {
            test_case *test = &to->test;
            case_begin(to, test, QF_OP_pad, "%s_%s_[%s]_[%s]", qf_dtype_name(widths[j]), shape_text(all[i].dims),
                       all[i].before, all[i].after);
            (void)case_add_input(test, "x", widths[j], all[i].dims, ODD);
            (void)case_add_input(test, "v", widths[j], SCALAR, ODD);
            case_node(test, "  %%y = pad %%x, %%v {before=[%s], after=[%s]}", all[i].before, all[i].after);
            case_output(test, "y", bound_of(QF_OP_pad, widths[j], widths[j]));
            test->small = true;
            case_end(test);
        }
}

void layout_cases(suite *to) {
    permutes(to);
    slices(to);
    expands(to);
    concats(to);
    splits(to);
    pads(to);
}
