/* Owns: tests of the builders of GPU kernels along axes: reductions, softmax, layer_norm, running sums, top_k, conv.
 * Does not own: numbers (tests/gpu).
 * Next: cuda_check.h. */
#include "tests/kernels/cuda_check.h"

#include "kernels/cuda/conv.h"
#include "kernels/cuda/held_row.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/top_k.h"

#define A ((uintptr_t)0x10000000)
#define B ((uintptr_t)0x20000000)
#define Y ((uintptr_t)0x40000000)
#define Z ((uintptr_t)0x50000000)

static void add_reduce(cuda_test *test, qf_op op, qf_dtype dtype, cuda_shape from, cuda_shape to, const int64_t *axes,
                       uint64_t count) {
    qf_kernel_step *step = cuda_add(test, op);
    cuda_operand(test, step, dtype, from, A);
    cuda_result(test, step, dtype, to, Y);
    cuda_ints(test, step, QF_ATTR(reduce_sum, axes), axes, count);
    assert_int_equal(cuda_record(test, test->count - 1), QF_OK);
}

static void rows_are_shared_by_neighbouring_threads(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_reduce(&test, QF_OP_reduce_mean, QF_BF16, CUDA_SHAPE(8192, 4096), CUDA_SHAPE(8192, 1), (const int64_t[]){1}, 1);
    assert_int_equal(cuda_action_count(&test), 1);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_reduce");
    const qf_reduce_params *params = launch->params;
    assert_int_equal(params->lanes, QF_REDUCE_THREADS);
    assert_int_equal(params->vector, 1);
    assert_int_equal(params->divisor, 4096);
    assert_int_equal(params->is_last, 1);
    assert_int_equal(launch->grid[1], 1);
    cuda_finish(&test);
}

/* One result of a million elements: parts in scratch, then their sum. The order is a matter of sizes alone. */
static void few_results_are_made_of_parts(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_reduce(&test, QF_OP_reduce_sum, QF_F32, CUDA_SHAPE(1000, 1000), CUDA_SCALAR, (const int64_t[]){0, 1}, 2);
    assert_int_equal(cuda_action_count(&test), 2);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_reduce");
    const qf_reduce_params *first = launch->params, *second = cuda_launch_at(&test, 1, "qf_reduce")->params;
    assert_true(launch->grid[1] > 1);
    assert_int_equal(first->is_last, 0);
    assert_int_equal(first->part % 4, 0);
    assert_true(first->part * launch->grid[1] >= 1000000);
    assert_true(first->part * (launch->grid[1] - 1) < 1000000);
    assert_int_equal(second->x, first->y);
    assert_int_equal(second->reduced.count, launch->grid[1]);
    assert_int_equal(second->is_last, 1);
    assert_int_equal(second->y, Y);
    assert_true(test.recorder.scratch_size >= launch->grid[1] * sizeof(float));
    cuda_finish(&test);
}

static void axes_anywhere_become_two_nests(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_reduce(&test, QF_OP_reduce_max, QF_I8, CUDA_SHAPE(3, 4, 5, 6), CUDA_SHAPE(1, 4, 1, 6), (const int64_t[]){0, 2},
               2);
    const qf_reduce_params *params = cuda_launch_at(&test, 0, "qf_reduce")->params;
    assert_int_equal(params->kept.count, 24);
    assert_int_equal(params->reduced.count, 15);
    assert_int_equal(params->reduced.rank, 2);
    assert_int_equal(params->reduced.loop[0].from, 6);
    assert_int_equal(params->identity, INT8_MIN);
    /* Nothing to reduce: one thread a result stores what the op gives for nothing. */
    add_reduce(&test, QF_OP_reduce_prod, QF_F32, CUDA_SHAPE(2, 0), CUDA_SHAPE(2, 1), (const int64_t[]){1}, 1);
    params = cuda_launch_at(&test, 0, "qf_reduce")->params;
    assert_int_equal(params->reduced.count, 0);
    assert_int_equal(params->kept.count, 2);
    cuda_finish(&test);
}

/* 4-bit results are made in f32: two threads would share a byte. */
static void four_bit_results_are_rounded_at_the_end(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_reduce(&test, QF_OP_reduce_sum, QF_F4E2M1FN, CUDA_SHAPE(6, 8), CUDA_SHAPE(6, 1), (const int64_t[]){1}, 1);
    assert_int_equal(cuda_action_count(&test), 2);
    const qf_reduce_params *params = cuda_launch_at(&test, 0, "qf_reduce")->params;
    assert_int_equal(params->y_dtype, QF_F32);
    (void)cuda_launch_at(&test, 1, "qf_elementwise");
    assert_int_equal(test.recorder.taken, 1);
    cuda_finish(&test);
}

static const qf_rows_params *softmax_of(cuda_test *test, qf_dtype dtype, cuda_shape shape, int64_t axis,
                                        const char *kernel) {
    qf_kernel_step *step = cuda_add(test, QF_OP_softmax);
    cuda_operand(test, step, dtype, shape, A);
    cuda_result(test, step, dtype, shape, Y);
    cuda_room(test, step)->attributes[QF_ATTR(softmax, axis)].integer = axis;
    assert_int_equal(cuda_record(test, test->count - 1), QF_OK);
    return cuda_launch_at(test, 0, kernel)->params;
}

static void rows_are_held_where_they_fit(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    /* In runs of eight: a run a thread up to a warp, two past that, or four of 16 bits. */
    assert_int_equal(softmax_of(&test, QF_BF16, CUDA_SHAPE(64, 24), 1, "qf_softmax_held_16")->lanes, 4);
    assert_int_equal(softmax_of(&test, QF_F32, CUDA_SHAPE(64, 512), 1, "qf_softmax_held")->lanes, 32);
    assert_int_equal(softmax_of(&test, QF_F32, CUDA_SHAPE(64, 520), 1, "qf_softmax_held")->lanes, 64);
    assert_int_equal(softmax_of(&test, QF_BF16, CUDA_SHAPE(64, 1024), 1, "qf_softmax_held_16")->lanes, 32);
    assert_int_equal(softmax_of(&test, QF_BF16, CUDA_SHAPE(64, 5120), 1, "qf_softmax_held_16")->lanes, 160);
    assert_int_equal(softmax_of(&test, QF_F8E4M3FN, CUDA_SHAPE(64, 8192), 1, "qf_softmax_held")->lanes, 512);
    /* Longer ones, and those of four, by vectors of four. */
    const qf_rows_params *params = softmax_of(&test, QF_BF16, CUDA_SHAPE(64, 16384), 1, "qf_softmax");
    assert_int_equal(params->lanes, 1024);
    assert_int_equal(params->in_registers, 1);
    assert_int_equal(softmax_of(&test, QF_F32, CUDA_SHAPE(64, 60), 1, "qf_softmax")->in_registers, 1);
    params = softmax_of(&test, QF_BF16, CUDA_SHAPE(64, 32768), 1, "qf_softmax");
    assert_int_equal(params->in_registers, 0);
    params = softmax_of(&test, QF_F32, CUDA_SHAPE(64, 30), 1, "qf_softmax");
    assert_int_equal(params->lanes, 8);
    assert_int_equal(params->in_registers, 0); /* rows of 30 are not aligned */
    params = softmax_of(&test, QF_F64, CUDA_SHAPE(64, 64), 1, "qf_softmax");
    assert_int_equal(params->in_registers, 0);
    /* Along another axis neighbouring threads take neighbouring lines. */
    params = softmax_of(&test, QF_F32, CUDA_SHAPE(16, 9, 8192), 1, "qf_softmax");
    assert_int_equal(params->inner, 8192);
    assert_int_equal(params->lanes, 1);
    cuda_finish(&test);
}

static void layer_norm_takes_all_axes_from_one_on(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_layer_norm);
    cuda_operand(&test, step, QF_F16, CUDA_SHAPE(10, 4, 32), A);
    cuda_operand(&test, step, QF_F32, CUDA_SHAPE(4, 32), B);
    cuda_result(&test, step, QF_F16, CUDA_SHAPE(10, 4, 32), Y);
    cuda_room(&test, step)->attributes[QF_ATTR(layer_norm, axis)].integer = 1;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_layer_norm_held");
    const qf_rows_params *params = launch->params;
    assert_int_equal(launch->shared_bytes, launch->block[0] * QF_HELD_RUNS * 32); /* the weight */
    assert_int_equal(params->size, 128);
    assert_int_equal(params->count, 10);
    assert_int_equal(params->weight, B);
    assert_int_equal(params->weight_dtype, QF_F32);
    assert_int_equal(params->bias, 0);
    cuda_room(&test, step)->operands[1].dims[0] = 3;
    assert_int_equal(cuda_record(&test, 0), QF_ERROR_INVALID_ARGUMENT);
    cuda_finish(&test);
}

static void add_top_k(cuda_test *test, int64_t size, int64_t k) {
    qf_kernel_step *step = cuda_add(test, QF_OP_top_k);
    cuda_operand(test, step, QF_F32, CUDA_SHAPE(2, size), A);
    cuda_result(test, step, QF_F32, CUDA_SHAPE(2, k), Y);
    cuda_result(test, step, QF_I64, CUDA_SHAPE(2, k), Z);
    cuda_room(test, step)->attributes[QF_ATTR(top_k, axis)].integer = 1;
    cuda_room(test, step)->attributes[QF_ATTR(top_k, k)].integer = k;
    assert_int_equal(cuda_record(test, test->count - 1), QF_OK);
}

static void top_k_shrinks_lines_by_rounds_or_sorts_them(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_top_k(&test, 2000, 7);
    assert_int_equal(cuda_action_count(&test), 1);
    add_top_k(&test, 130000, 50); /* 64 chunks, 3200 entries; 2 chunks, 100; 1 */
    assert_int_equal(cuda_action_count(&test), 3);
    const qf_top_k_params *second = cuda_launch_at(&test, 1, "qf_top_k_chunks")->params;
    assert_int_equal(second->size, 3200);
    const qf_top_k_params *last = cuda_launch_at(&test, 2, "qf_top_k_chunks")->params;
    assert_int_equal(last->size, 100);
    assert_int_equal(last->is_last, 1);
    assert_int_equal(last->from, second->to);
    add_top_k(&test, 5000, 3000); /* 8192 entries: widths 2048, 4096 and 8192 */
    (void)cuda_launch_at(&test, 0, "qf_sort_enter");
    assert_int_equal(cuda_action_count(&test), 1 + 1 + 2 + 3 + 1);
    (void)cuda_launch_at(&test, 7, "qf_sort_leave");
    cuda_finish(&test);
}

static void convolutions_have_a_tile_a_block(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_conv);
    const int64_t strides[] = {2, 1}, none[] = {0, 0}, dilations[] = {1, 3};
    cuda_operand(&test, step, QF_F16, CUDA_SHAPE(2, 6, 9, 20), A);
    cuda_operand(&test, step, QF_F16, CUDA_SHAPE(130, 3, 3, 2), B);
    cuda_result(&test, step, QF_F16, CUDA_SHAPE(2, 130, 4, 17), Y);
    cuda_ints(&test, step, QF_ATTR(conv, strides), strides, 2);
    cuda_ints(&test, step, QF_ATTR(conv, pads_before), none, 2);
    cuda_ints(&test, step, QF_ATTR(conv, pads_after), none, 2);
    cuda_ints(&test, step, QF_ATTR(conv, dilations), dilations, 2);
    cuda_room(&test, step)->attributes[QF_ATTR(conv, groups)].integer = 2;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_conv");
    const qf_conv_params *params = launch->params;
    assert_int_equal(params->rows, 65);
    assert_int_equal(params->depth.count, 18);
    assert_int_equal(params->positions.count, 2 * 4 * 17);
    assert_int_equal(params->strides[0], 1); /* innermost first */
    assert_int_equal(params->dilations[0], 3);
    assert_int_equal(launch->grid[0], 2 * 2 * 3);
    cuda_room(&test, step)->operands[0].dtype = cuda_room(&test, step)->operands[1].dtype = QF_F64;
    assert_int_equal(cuda_record(&test, 0), QF_ERROR_UNSUPPORTED);
    cuda_finish(&test);
}

static void running_sums_go_by_thread_or_by_block(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    for (int64_t lines = 4; lines <= 4096; lines *= 1024) {
        qf_kernel_step *step = cuda_add(&test, QF_OP_cumulative_sum);
        cuda_operand(&test, step, QF_F32, CUDA_SHAPE(lines, 1000), A);
        cuda_result(&test, step, QF_F32, CUDA_SHAPE(lines, 1000), Y);
        cuda_room(&test, step)->attributes[QF_ATTR(cumulative_sum, axis)].integer = 1;
        assert_int_equal(cuda_record(&test, test.count - 1), QF_OK);
        const qf_lines_params *params = cuda_launch_at(&test, 0, "qf_running_sum")->params;
        assert_int_equal(params->lanes, lines == 4 ? QF_REDUCE_THREADS : 1);
    }
    cuda_finish(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_shared_by_neighbouring_threads),
        cmocka_unit_test(few_results_are_made_of_parts),
        cmocka_unit_test(axes_anywhere_become_two_nests),
        cmocka_unit_test(four_bit_results_are_rounded_at_the_end),
        cmocka_unit_test(rows_are_held_where_they_fit),
        cmocka_unit_test(layer_norm_takes_all_axes_from_one_on),
        cmocka_unit_test(top_k_shrinks_lines_by_rounds_or_sorts_them),
        cmocka_unit_test(convolutions_have_a_tile_a_block),
        cmocka_unit_test(running_sums_go_by_thread_or_by_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
