/* Owns: cases of ops that move elements by index, indices out of range among them.
 * Does not own: cache writes (cache_cases.c).
 * Next: cases.h. */
#include "tests/gpu/conformance/cases.h"

static const qf_dtype widths[] = {QF_F32, QF_BF16, QF_F8E4M3FN, QF_I64, QF_F4E2M1FN};
static const qf_dtype index_dtypes[] = {QF_I64, QF_I32};

static void gathers(suite *to) {
    static const struct {
        shape x, indices;
        int axis;
    } all[] = {{{2, {9, 8}}, {1, {5}}, 0},    {{2, {5, 9}}, {2, {2, 3}}, 1},     {{1, {7}}, {0, {0}}, 0},
               {{3, {2, 6, 4}}, {1, {0}}, 1}, {{2, {1000, 512}}, {1, {333}}, 0}, {{3, {3, 17, 5}}, {2, {4, 1}}, 1}};
    for (uint32_t i = 0; i < QF_COUNT_OF(all); i++)
        for (uint32_t j = 0; j < QF_COUNT_OF(widths); j++) {
            test_case *test = &to->test;
            int64_t size = all[i].x.dims[all[i].axis];
            case_begin(to, test, QF_OP_gather, "%s_%s_at_%s", qf_dtype_name(widths[j]), shape_text(all[i].x),
                       shape_text(all[i].indices));
            (void)case_add_input(test, "x", widths[j], all[i].x, ODD);
            (void)case_add_input(test, "i", index_dtypes[j % 2], all[i].indices, INTEGERS(-size, size - 1));
            case_node(test, "  %%y = gather %%x, %%i {axis=%d}", all[i].axis);
            case_output(test, "y", bound_of(QF_OP_gather, widths[j], widths[j]));
            test->small = i < 4;
            case_end(test);
        }
}

static void gather_others(suite *to) {
    for (uint32_t j = 0; j < QF_COUNT_OF(widths); j++) {
        test_case *test = &to->test;
        qf_dtype dtype = widths[j];
        for (int axis = 0; axis < 3; axis++) {
            static const int64_t sizes[] = {4, 5, 6};
            case_begin(to, test, QF_OP_gather_elements, "%s_axis%d", qf_dtype_name(dtype), axis);
            (void)case_add_input(test, "x", dtype, SHAPE(4, 5, 6), ODD);
            (void)case_add_input(test, "i", index_dtypes[axis % 2], SHAPE(3, 4, 5),
                                 INTEGERS(-sizes[axis], sizes[axis] - 1));
            case_node(test, "  %%y = gather_elements %%x, %%i {axis=%d}", axis);
            case_output(test, "y", bound_of(QF_OP_gather_elements, dtype, dtype));
            test->small = true;
            case_end(test);
        }
        static const struct {
            shape x, indices;
            int batch;
        } all[] = {{{3, {5, 5, 6}}, {2, {7, 2}}, 0},
                   {{3, {2, 5, 8}}, {3, {2, 3, 1}}, 1},
                   {{2, {4, 4}}, {1, {2}}, 0},
                   {{3, {3, 3, 3}}, {2, {4, 3}}, 0},
                   {{2, {4, 4}}, {2, {0, 1}}, 0}};
        for (uint32_t i = 0; i < QF_COUNT_OF(all); i++) {
            case_begin(to, test, QF_OP_gather_nd, "%s_%s_at_%s", qf_dtype_name(dtype), shape_text(all[i].x),
                       shape_text(all[i].indices));
            (void)case_add_input(test, "x", dtype, all[i].x, ODD);
            (void)case_add_input(test, "i", QF_I64, all[i].indices, INTEGERS(-3, 2));
            case_node(test, "  %%y = gather_nd %%x, %%i {batch_dims=%d}", all[i].batch);
            case_output(test, "y", bound_of(QF_OP_gather_nd, dtype, dtype));
            test->small = true;
            case_end(test);
        }
        case_begin(to, test, QF_OP_one_hot, "%s", qf_dtype_name(dtype));
        (void)case_add_input(test, "i", QF_I64, SHAPE(3, 7), INTEGERS(-12, 12));
        (void)case_add_input(test, "v", dtype, SHAPE(2), ODD);
        case_node(test, "  %%y = one_hot %%i, %%v {depth=9, axis=%d}", (int)(j % 3));
        case_output(test, "y", bound_of(QF_OP_one_hot, dtype, dtype));
        test->small = true;
        case_end(test);
    }
}

/* Of equal indices the last one stays, so indices repeat here. */
static void scatters(suite *to) {
    for (uint32_t j = 0; j < QF_COUNT_OF(widths); j++)
        for (int in_place = 0; in_place < 2; in_place++) {
            test_case *test = &to->test;
            qf_dtype dtype = widths[j];
            for (int axis = 0; axis < 2; axis++) {
                case_begin(to, test, QF_OP_scatter_elements, "%s_axis%d%s", qf_dtype_name(dtype), axis,
                           in_place ? "_in_place" : "");
                (void)case_add_input(test, "x", dtype, SHAPE(9, 12), ODD);
                (void)case_add_input(test, "i", index_dtypes[axis], SHAPE(7, 11), INTEGERS(-9, 8));
                (void)case_add_input(test, "u", dtype, SHAPE(7, 11), ODD);
                case_node(test, "  %%y = scatter_elements %%x, %%i, %%u {axis=%d}", axis);
                case_output(test, "y", bound_of(QF_OP_scatter_elements, dtype, dtype));
                test->in_place[0] = in_place ? 0 : -1;
                test->small = true;
                case_end(test);
            }
            case_begin(to, test, QF_OP_scatter_nd, "%s%s", qf_dtype_name(dtype), in_place ? "_in_place" : "");
            (void)case_add_input(test, "x", dtype, SHAPE(5, 4, 6), ODD);
            (void)case_add_input(test, "i", QF_I64, SHAPE(9, 2), INTEGERS(-4, 3));
            (void)case_add_input(test, "u", dtype, SHAPE(9, 6), ODD);
            case_node(test, "  %%y = scatter_nd %%x, %%i, %%u");
            case_output(test, "y", bound_of(QF_OP_scatter_nd, dtype, dtype));
            test->in_place[0] = in_place ? 0 : -1;
            test->small = true;
            case_end(test);
        }
    test_case *test = &to->test;
    case_begin(to, test, QF_OP_scatter_nd, "bf16_rows_many");
    (void)case_add_input(test, "x", QF_BF16, SHAPE(3000, 128), NORMAL(1, 0));
    (void)case_add_input(test, "i", QF_I64, SHAPE(2000, 1), INTEGERS(0, 2999));
    (void)case_add_input(test, "u", QF_BF16, SHAPE(2000, 128), NORMAL(1, 0));
    case_node(test, "  %%y = scatter_nd %%x, %%i, %%u");
    case_output(test, "y", bound_of(QF_OP_scatter_nd, QF_BF16, QF_BF16));
    case_end(test);
}

/* Values that the CPU refuses: a GPU reads zero there, or writes nothing. The reference graph says so with indices and
 * a mask that are in range. */
static void out_of_range(suite *to) {
    if (to->options.device && to->options.device[1] == 'p') return; /* the CPU refuses them */
    static const double far[] = {2, 1000000, 0, -1000000, 4, 5, 1, -6}, near[] = {2, 0, 0, 0, 4, 0, 1, 0},
                        in[] = {1, 0, 1, 0, 1, 0, 1, 0};
    test_case *test = &to->test;
    case_begin(to, test, QF_OP_gather, "out_of_range");
    (void)case_add_input(test, "x", QF_F32, SHAPE(5, 16), NORMAL(1, 0));
    (void)case_add_input(test, "i", QF_I64, SHAPE(8), (fill){FILL_LIST, 0, 0, far, 8});
    (void)case_add_input(test, "near", QF_I64, SHAPE(8), (fill){FILL_LIST, 0, 0, near, 8});
    (void)case_add_input(test, "in", QF_I1, SHAPE(8, 1), (fill){FILL_LIST, 0, 0, in, 8});
    (void)case_add_input(test, "zero", QF_F32, SCALAR, CONSTANT(0));
    case_node(test, "  %%y = gather %%x, %%i");
    case_other_node(test, "  %%g = gather %%x, %%near\n  %%y = where %%in, %%g, %%zero");
    case_output(test, "y", bound_of(QF_OP_gather, QF_F32, QF_F32));
    test->small = true;
    case_end(test);

    case_begin(to, test, QF_OP_gather_elements, "out_of_range");
    (void)case_add_input(test, "x", QF_F32, SHAPE(5), NORMAL(1, 0));
    (void)case_add_input(test, "i", QF_I64, SHAPE(8), (fill){FILL_LIST, 0, 0, far, 8});
    (void)case_add_input(test, "near", QF_I64, SHAPE(8), (fill){FILL_LIST, 0, 0, near, 8});
    (void)case_add_input(test, "in", QF_I1, SHAPE(8), (fill){FILL_LIST, 0, 0, in, 8});
    (void)case_add_input(test, "zero", QF_F32, SCALAR, CONSTANT(0));
    case_node(test, "  %%y = gather_elements %%x, %%i {axis=0}");
    case_other_node(test, "  %%g = gather %%x, %%near\n  %%y = where %%in, %%g, %%zero");
    case_output(test, "y", bound_of(QF_OP_gather_elements, QF_F32, QF_F32));
    test->small = true;
    case_end(test);

    /* Slices at 2, 0, 4, 1 are written, in this order; the others are nowhere. */
    static const double kept[] = {0, 2, 4, 6}, targets[] = {2, 0, 4, 1};
    case_begin(to, test, QF_OP_scatter_nd, "out_of_range");
    (void)case_add_input(test, "x", QF_F32, SHAPE(5, 16), NORMAL(1, 0));
    (void)case_add_input(test, "i", QF_I64, SHAPE(8, 1), (fill){FILL_LIST, 0, 0, far, 8});
    (void)case_add_input(test, "u", QF_F32, SHAPE(8, 16), NORMAL(1, 0));
    (void)case_add_input(test, "kept", QF_I64, SHAPE(4), (fill){FILL_LIST, 0, 0, kept, 4});
    (void)case_add_input(test, "targets", QF_I64, SHAPE(4, 1), (fill){FILL_LIST, 0, 0, targets, 4});
    case_node(test, "  %%y = scatter_nd %%x, %%i, %%u");
    case_other_node(test, "  %%v = gather %%u, %%kept\n  %%y = scatter_nd %%x, %%targets, %%v");
    case_output(test, "y", bound_of(QF_OP_scatter_nd, QF_F32, QF_F32));
    test->small = true;
    case_end(test);

    case_begin(to, test, QF_OP_scatter_elements, "out_of_range");
    (void)case_add_input(test, "x", QF_F32, SHAPE(5), NORMAL(1, 0));
    (void)case_add_input(test, "i", QF_I64, SHAPE(8), (fill){FILL_LIST, 0, 0, far, 8});
    (void)case_add_input(test, "u", QF_F32, SHAPE(8), NORMAL(1, 0));
    (void)case_add_input(test, "kept", QF_I64, SHAPE(4), (fill){FILL_LIST, 0, 0, kept, 4});
    (void)case_add_input(test, "targets", QF_I64, SHAPE(4), (fill){FILL_LIST, 0, 0, targets, 4});
    case_node(test, "  %%y = scatter_elements %%x, %%i, %%u {axis=0}");
    case_other_node(test, "  %%v = gather %%u, %%kept\n  %%y = scatter_elements %%x, %%targets, %%v {axis=0}");
    case_output(test, "y", bound_of(QF_OP_scatter_elements, QF_F32, QF_F32));
    test->small = true;
    case_end(test);
}

void index_cases(suite *to) {
    gathers(to);
    gather_others(to);
    scatters(to);
    out_of_range(to);
}
