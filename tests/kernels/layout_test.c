/* Owns: tests of kernels that move elements, by shape and by index tensors.
 * Does not own: arithmetic.
 * Next: kernel_check.h. */
#include "tests/kernels/kernel_check.h"

#define COUNTED(from) from, from + 1, from + 2, from + 3, from + 4, from + 5

static void moves_by_shape(void **state) {
    (void)state;
    /* Every width: the numbers are small integers, exact in all of them. */
    const qf_dtype dtypes[] = {QF_F64, QF_F32, QF_F16, QF_F8E4M3FN, QF_F4E2M1FN};
    for (size_t i = 0; i < QF_COUNT_OF(dtypes); i++) {
        qf_dtype dtype = dtypes[i];
        const double x[] = {0, 1, 2, 3, 4, 6};
        kernel_test test;
        check_start(&test, QF_OP_permute);
        check_operand(&test, 0, dtype, SHAPE(1, 2, 3), x);
        check_ints(&test, QF_ATTR(permute, order), INTS(2, 0, 1));
        check_result(&test, 0, dtype, SHAPE(3, 1, 2));
        check_gives(&test, NUMBERS(0, 3, 1, 4, 2, 6), 0);
        check_start(&test, QF_OP_view);
        check_operand(&test, 0, dtype, SHAPE(2, 3), x);
        check_result(&test, 0, dtype, SHAPE(6));
        check_gives(&test, x, 0);
        check_start(&test, QF_OP_slice);
        check_operand(&test, 0, dtype, SHAPE(2, 3), x);
        check_ints(&test, QF_ATTR(slice, starts), INTS(1, 2));
        check_ints(&test, QF_ATTR(slice, ends), INTS(-1, -1));
        check_ints(&test, QF_ATTR(slice, steps), INTS(-1, -2));
        check_result(&test, 0, dtype, SHAPE(2, 2));
        check_gives(&test, NUMBERS(6, 3, 2, 0), 0);
        check_start(&test, QF_OP_concat);
        test.attributes[0].integer = 1;
        check_operand(&test, 0, dtype, SHAPE(2, 1), NUMBERS(1, 2));
        check_operand(&test, 1, dtype, SHAPE(2, 2), NUMBERS(3, 4, 6, 0));
        check_result(&test, 0, dtype, SHAPE(2, 3));
        check_gives(&test, NUMBERS(1, 3, 4, 2, 6, 0), 0);
        check_start(&test, QF_OP_expand);
        check_operand(&test, 0, dtype, SHAPE(2, 1), NUMBERS(1, 2));
        check_result(&test, 0, dtype, SHAPE(2, 2, 3));
        check_gives(&test, NUMBERS(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2), 0);
        check_start(&test, QF_OP_pad);
        check_operand(&test, 0, dtype, SHAPE(2, 3), x);
        check_operand(&test, 1, dtype, SCALAR, NUMBERS(-1));
        check_ints(&test, QF_ATTR(pad, before), INTS(1, -1));
        check_ints(&test, QF_ATTR(pad, after), INTS(0, 1));
        check_result(&test, 0, dtype, SHAPE(3, 3));
        check_gives(&test, NUMBERS(-1, -1, -1, 1, 2, -1, 4, 6, -1), 0);
    }
}

static void split_gives_its_parts(void **state) {
    (void)state;
    kernel_test test;
    check_start(&test, QF_OP_split);
    test.attributes[QF_ATTR(split, axis)].integer = 1;
    check_operand(&test, 0, QF_F32, SHAPE(2, 3), NUMBERS(COUNTED(1)));
    check_result(&test, 0, QF_F32, SHAPE(2, 1));
    check_result(&test, 1, QF_F32, SHAPE(2, 2));
    check_succeeds(&test);
    check_numbers_of(&test, 0, NUMBERS(1, 4), 0);
    check_numbers_of(&test, 1, NUMBERS(2, 3, 5, 6), 0);
    check_finish(&test);
}

static void triangles(void **state) {
    (void)state;
    const double x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const struct {
        int64_t upper, diagonal;
        double y[9];
    } cases[] = {{0, 0, {1, 0, 0, 4, 5, 0, 7, 8, 9}},         {1, 0, {1, 2, 3, 0, 5, 6, 0, 0, 9}},
                 {0, -1, {0, 0, 0, 4, 0, 0, 7, 8, 0}},        {1, 1, {0, 2, 3, 0, 0, 6, 0, 0, 0}},
                 {0, INT64_MAX, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, {1, INT64_MAX, {0}},
                 {1, INT64_MIN, {1, 2, 3, 4, 5, 6, 7, 8, 9}}, {0, INT64_MIN, {0}}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        kernel_test test;
        check_start(&test, QF_OP_triangle);
        test.attributes[QF_ATTR(triangle, upper)].integer = cases[i].upper;
        test.attributes[QF_ATTR(triangle, diagonal)].integer = cases[i].diagonal;
        check_operand(&test, 0, QF_F32, SHAPE(1, 3, 3), x);
        check_result(&test, 0, QF_F32, SHAPE(1, 3, 3));
        check_gives(&test, cases[i].y, 0);
    }
}

static void gathers(void **state) {
    (void)state;
    const double x[] = {COUNTED(1)};
    kernel_test test;
    check_start(&test, QF_OP_gather);
    test.attributes[0].integer = 1;
    check_operand(&test, 0, QF_F32, SHAPE(2, 3), x);
    check_operand(&test, 1, QF_I64, SHAPE(2), NUMBERS(2, -3));
    check_result(&test, 0, QF_F32, SHAPE(2, 2));
    check_gives(&test, NUMBERS(3, 1, 6, 4), 0);
    check_start(&test, QF_OP_gather);
    check_operand(&test, 0, QF_F32, SHAPE(2, 3), x);
    check_operand(&test, 1, QF_I32, SCALAR, NUMBERS(1));
    check_result(&test, 0, QF_F32, SHAPE(3));
    check_gives(&test, NUMBERS(4, 5, 6), 0);
    check_start(&test, QF_OP_gather_elements);
    test.attributes[0].integer = 1;
    check_operand(&test, 0, QF_F32, SHAPE(2, 3), x);
    check_operand(&test, 1, QF_I64, SHAPE(2, 2), NUMBERS(0, 2, -1, 1));
    check_result(&test, 0, QF_F32, SHAPE(2, 2));
    check_gives(&test, NUMBERS(1, 3, 6, 5), 0);
    check_start(&test, QF_OP_gather_nd);
    check_operand(&test, 0, QF_F32, SHAPE(2, 3), x);
    check_operand(&test, 1, QF_I64, SHAPE(2, 2), NUMBERS(0, 1, 1, -1));
    check_result(&test, 0, QF_F32, SHAPE(2));
    check_gives(&test, NUMBERS(2, 6), 0);
    check_start(&test, QF_OP_gather_nd);
    test.attributes[QF_ATTR(gather_nd, batch_dims)].integer = 1;
    check_operand(&test, 0, QF_F32, SHAPE(2, 3), x);
    check_operand(&test, 1, QF_I64, SHAPE(2, 1), NUMBERS(2, 0));
    check_result(&test, 0, QF_F32, SHAPE(2));
    check_gives(&test, NUMBERS(3, 4), 0);
}

static void scatters(void **state) {
    (void)state;
    const double x[] = {COUNTED(1)};
    for (int in_place = 0; in_place < 2; in_place++) {
        kernel_test test;
        check_start(&test, QF_OP_scatter_nd);
        check_operand(&test, 0, QF_F32, SHAPE(2, 3), x);
        check_operand(&test, 1, QF_I64, SHAPE(1, 1), NUMBERS(-1));
        check_operand(&test, 2, QF_F32, SHAPE(1, 3), NUMBERS(7, 8, 9));
        check_result(&test, 0, QF_F32, SHAPE(2, 3));
        if (in_place) {
            free(test.results[0].data);
            test.results[0].data = test.operands[0].data;
            test.borrowed[0] = true;
        }
        check_gives(&test, NUMBERS(1, 2, 3, 7, 8, 9), 0);
        check_start(&test, QF_OP_scatter_elements);
        test.attributes[0].integer = 0;
        check_operand(&test, 0, QF_F32, SHAPE(2, 3), x);
        check_operand(&test, 1, QF_I64, SHAPE(1, 2), NUMBERS(1, 0));
        check_operand(&test, 2, QF_F32, SHAPE(1, 2), NUMBERS(7, 8));
        check_result(&test, 0, QF_F32, SHAPE(2, 3));
        check_gives(&test, NUMBERS(1, 8, 3, 7, 5, 6), 0);
    }
}

static void one_hot_marks_indices(void **state) {
    (void)state;
    kernel_test test;
    check_start(&test, QF_OP_one_hot);
    test.attributes[QF_ATTR(one_hot, depth)].integer = 3;
    test.attributes[QF_ATTR(one_hot, axis)].integer = 0;
    check_operand(&test, 0, QF_I64, SHAPE(4), NUMBERS(0, -1, 3, 1));
    check_operand(&test, 1, QF_F32, SHAPE(2), NUMBERS(-5, 5));
    check_result(&test, 0, QF_F32, SHAPE(3, 4));
    check_gives(&test, NUMBERS(5, -5, -5, -5, -5, -5, -5, 5, -5, 5, -5, -5), 0);
}

static void bad_indices_are_refused(void **state) {
    (void)state;
    const double bad[] = {3, -4, 1e15, -1e15};
    const qf_op ops[] = {QF_OP_gather, QF_OP_gather_elements, QF_OP_gather_nd, QF_OP_scatter_nd,
                         QF_OP_scatter_elements};
    for (size_t o = 0; o < QF_COUNT_OF(ops); o++) {
        for (int i = 0; i < 4; i++) {
            bool scatters_here = ops[o] == QF_OP_scatter_nd || ops[o] == QF_OP_scatter_elements;
            bool tuples = ops[o] == QF_OP_gather_nd || ops[o] == QF_OP_scatter_nd;
            kernel_test test;
            check_start(&test, ops[o]);
            check_operand(&test, 0, QF_F32, SHAPE(3), NUMBERS(1, 2, 3));
            check_operand(&test, 1, QF_I64, tuples ? SHAPE(1, 1) : SHAPE(1), &bad[i]);
            if (scatters_here) check_operand(&test, 2, QF_F32, SHAPE(1), NUMBERS(1));
            check_result(&test, 0, QF_F32, scatters_here ? SHAPE(3) : SHAPE(1));
            check_refuses(&test, "outside of axis 0 of size 3");
        }
    }
    kernel_test test;
    check_start(&test, QF_OP_slice);
    check_operand(&test, 0, QF_F32, SHAPE(3), NUMBERS(1, 2, 3));
    check_ints(&test, QF_ATTR(slice, starts), INTS(1));
    check_ints(&test, QF_ATTR(slice, ends), INTS(4));
    check_ints(&test, QF_ATTR(slice, steps), INTS(1));
    check_result(&test, 0, QF_F32, SHAPE(3));
    check_refuses(&test, "leave axis 0 of size 3");
}

static void empty_tensors_are_fine(void **state) {
    (void)state;
    kernel_test test;
    check_start(&test, QF_OP_concat);
    check_operand(&test, 0, QF_F32, SHAPE(0, 2), NULL);
    check_operand(&test, 1, QF_F32, SHAPE(1, 2), NUMBERS(1, 2));
    check_result(&test, 0, QF_F32, SHAPE(1, 2));
    check_gives(&test, NUMBERS(1, 2), 0);
    check_start(&test, QF_OP_gather);
    check_operand(&test, 0, QF_F32, SHAPE(0, 2), NULL);
    check_operand(&test, 1, QF_I64, SHAPE(0), NULL);
    check_result(&test, 0, QF_F32, SHAPE(0, 2));
    check_gives(&test, NULL, 0);
    check_start(&test, QF_OP_permute);
    check_operand(&test, 0, QF_F32, SHAPE(2, 0), NULL);
    check_ints(&test, QF_ATTR(permute, order), INTS(1, 0));
    check_result(&test, 0, QF_F32, SHAPE(0, 2));
    check_gives(&test, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_by_shape),
        cmocka_unit_test(split_gives_its_parts),
        cmocka_unit_test(triangles),
        cmocka_unit_test(gathers),
        cmocka_unit_test(scatters),
        cmocka_unit_test(one_hot_marks_indices),
        cmocka_unit_test(bad_indices_are_refused),
        cmocka_unit_test(empty_tensors_are_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
