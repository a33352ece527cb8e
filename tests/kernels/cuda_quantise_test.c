/* Owns: tests of the builders of quantize, dequantize, dynamic_quantize, rms_norm, silu_mul: which kernel, which scale
 * belongs to which element, launch geometry. Does not own: numbers (tests/gpu). Next: cuda_check.h. */
#include "tests/kernels/cuda_check.h"

#include "kernels/cuda/activation.h"
#include "kernels/cuda/quantise.h"

#define PLACE(n) ((uintptr_t)0x10000000 + (uintptr_t)(n)*0x1000000)

static qf_kernel_step *add_quantize(cuda_test *test, qf_dtype x, cuda_shape shape, cuda_shape scale, qf_dtype y) {
    qf_kernel_step *step = cuda_add(test, QF_OP_quantize);
    cuda_operand(test, step, x, shape, PLACE(0));
    cuda_operand(test, step, QF_F32, scale, PLACE(1));
    cuda_result(test, step, y, shape, PLACE(2));
    return step;
}

static void set_axis(cuda_test *test, const qf_kernel_step *step, int64_t axis, int64_t group) {
    cuda_room(test, step)->attributes[QF_ATTR(quantize, axis)].integer = axis;
    cuda_room(test, step)->attributes[QF_ATTR(quantize, group)].integer = group;
}

static void one_scale_needs_no_axes(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = add_quantize(&test, QF_BF16, CUDA_SHAPE(100, 3, 77), CUDA_SCALAR, QF_F8E4M3FN);
    cuda_room(&test, step)->attributes[QF_ATTR(quantize, mode)].integer = QF_VALUE_mul_recip;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 1);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_quantize_one_16");
    const qf_quantise_params *params = launch->params;
    assert_string_equal(launch->image, "quantise");
    assert_int_equal(params->axis_count, 0);
    assert_int_equal(params->count, 100 * 3 * 77);
    assert_int_equal(params->mode, QF_VALUE_mul_recip);
    assert_int_equal(launch->grid[0], (100 * 3 * 77 + 32 * 256 - 1) / (32 * 256)); /* all at once */
    assert_true(launch->dependent);
    cuda_finish(&test);
}

static void per_channel_scales_collapse_to_two_axes(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = add_quantize(&test, QF_F16, CUDA_SHAPE(2, 5, 4, 16), CUDA_SHAPE(5), QF_F8E5M2);
    set_axis(&test, step, 1, 0);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_quantise_params *params = cuda_launch_at(&test, 0, "qf_quantize_runs_16")->params;
    /* The batch axis steps through nothing and is the outermost: the remainder of the channel's index drops it. */
    assert_int_equal(params->axis_count, 2);
    assert_int_equal(params->sizes[0], 5);
    assert_int_equal(params->scale_strides[0], 1);
    assert_int_equal(params->sizes[1], 4 * 16);
    assert_int_equal(params->scale_strides[1], 0);
    cuda_finish(&test);
}

static void groups_of_the_last_axis_are_blocks(void **state) {
    (void)state;
    for (int group = 4; group <= 16; group *= 4) {
        cuda_test test;
        cuda_start(&test);
        qf_kernel_step *step =
            add_quantize(&test, QF_F32, CUDA_SHAPE(3, 7, 64), CUDA_SHAPE(3, 7, 64 / group), QF_F8E4M3FN);
        set_axis(&test, step, 2, group);
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        /* Runs of eight share a scale where blocks are whole runs. */
        const qf_quantise_params *params =
            cuda_launch_at(&test, 0, group % 8 ? "qf_quantize" : "qf_quantize_granules")->params;
        assert_int_equal(params->axis_count, 2);
        assert_int_equal(params->sizes[0], 21);
        assert_int_equal(params->scale_strides[0], 64 / group);
        assert_int_equal(params->blocks[1], group);
        assert_int_equal(params->scale_strides[1], 1);
        /* Division by 64 and by the group. */
        assert_int_equal(params->by_size[1].shift, 6);
        assert_int_equal(params->by_block[1].shift, group == 4 ? 2 : 4);
        cuda_finish(&test);
    }
}

static void only_plain_cases_take_runs(void **state) {
    (void)state;
    static const struct {
        qf_dtype x, y;
        uintptr_t shift;
        bool saturate;
    } cases[] = {{QF_BF16, QF_F8E4M3FN, 2, true},
                 {QF_F64, QF_F8E4M3FN, 0, true},
                 {QF_BF16, QF_I8, 0, true},
                 {QF_BF16, QF_F4E2M1FN, 0, true},
                 {QF_BF16, QF_F8E4M3FN, 0, false}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        qf_kernel_step *step = add_quantize(&test, cases[i].x, CUDA_SHAPE(64), CUDA_SCALAR, cases[i].y);
        cuda_room(&test, step)->operands[0].data = (void *)(PLACE(0) + cases[i].shift);
        cuda_room(&test, step)->attributes[QF_ATTR(quantize, saturate)].integer = cases[i].saturate;
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        (void)cuda_launch_at(&test, 0, "qf_quantize");
        cuda_finish(&test);
    }
}

static void zero_points_have_strides_of_their_own(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_dequantize);
    cuda_operand(&test, step, QF_U8, CUDA_SHAPE(6, 10), PLACE(0));
    cuda_operand(&test, step, QF_F32, CUDA_SHAPE(6), PLACE(1));
    cuda_operand(&test, step, QF_U8, CUDA_SHAPE(1), PLACE(3));
    cuda_result(&test, step, QF_F32, CUDA_SHAPE(6, 10), PLACE(2));
    cuda_room(&test, step)->attributes[QF_ATTR(dequantize, axis)].integer = 0;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_quantise_params *params = cuda_launch_at(&test, 0, "qf_dequantize")->params;
    assert_int_equal((uintptr_t)params->zero_point, PLACE(3));
    assert_int_equal(params->scale_strides[0], 1);
    assert_int_equal(params->zero_strides[0], 0);
    cuda_finish(&test);
}

static void a_scale_of_another_rank_is_refused(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = add_quantize(&test, QF_F32, CUDA_SHAPE(3, 7, 64), CUDA_SHAPE(7, 64), QF_F8E4M3FN);
    set_axis(&test, step, 1, 1);
    assert_int_equal(cuda_record(&test, 0), QF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(test.message, "x's rank"));
    cuda_finish(&test);
}

/* --- dynamic_quantize --- */

static qf_kernel_step *add_dynamic(cuda_test *test, qf_dtype x, cuda_shape shape, qf_dtype y, cuda_shape scale,
                                   int64_t granularity, int64_t group) {
    qf_kernel_step *step = cuda_add(test, QF_OP_dynamic_quantize);
    cuda_operand(test, step, x, shape, PLACE(0));
    cuda_result(test, step, y, shape, PLACE(2));
    cuda_result(test, step, QF_F32, scale, PLACE(3));
    cuda_room(test, step)->attributes[QF_ATTR(dynamic_quantize, granularity)].integer = granularity;
    cuda_room(test, step)->attributes[QF_ATTR(dynamic_quantize, group)].integer = group;
    return step;
}

static void a_whole_tensor_takes_two_launches(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_dynamic(&test, QF_BF16, CUDA_SHAPE(4096, 4096), QF_F8E4M3FN, CUDA_SCALAR, QF_VALUE_tensor, 0);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2);
    const qf_cuda_launch *first = cuda_launch_at(&test, 0, "qf_dynamic_scale");
    const qf_dynamic_params *params = first->params;
    assert_int_equal(first->grid[0], 4 * 132);
    assert_ptr_equal(params->maximum, test.recorder.zeroed);
    assert_int_equal(test.recorder.zeroed_size, 8);
    assert_true(params->largest == 448.0f);
    const qf_quantise_params *second = cuda_launch_at(&test, 1, "qf_quantize_one_16")->params;
    assert_int_equal((uintptr_t)second->scale, PLACE(3));
    cuda_finish(&test);
}

static void tokens_and_groups_take_one(void **state) {
    (void)state;
    static const struct {
        int64_t size;
        uint32_t lanes, block, kept;
        const char *kernel;
    } cases[] = {{16, 2, 256, 0, "qf_dynamic_quantize_held_16"},     {128, 16, 256, 0, "qf_dynamic_quantize_held_16"},
                 {1024, 32, 256, 0, "qf_dynamic_quantize_held_16"},  {1032, 64, 64, 0, "qf_dynamic_quantize_held_16"},
                 {8192, 256, 256, 0, "qf_dynamic_quantize_held_16"}, {8200, 512, 512, 3, "qf_dynamic_quantize"},
                 {20000, 512, 512, 5, "qf_dynamic_quantize"},        {40000, 512, 512, 0, "qf_dynamic_quantize"}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        add_dynamic(&test, QF_BF16, CUDA_SHAPE(1000, cases[i].size), QF_F8E4M3FN, CUDA_SHAPE(1000, 1), QF_VALUE_token,
                    0);
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        assert_int_equal(cuda_action_count(&test), 1);
        const qf_cuda_launch *launch = cuda_launch_at(&test, 0, cases[i].kernel);
        const qf_dynamic_params *params = launch->params;
        assert_int_equal(params->lanes, cases[i].lanes);
        assert_int_equal(launch->block[0], cases[i].block);
        assert_int_equal(params->kept_runs, cases[i].kept);
        assert_int_equal(launch->shared_bytes, cases[i].kept * cases[i].block * 16);
        uint32_t teams = cases[i].block / cases[i].lanes;
        assert_int_equal(launch->grid[0], (1000 + teams - 1) / teams);
        cuda_finish(&test);
    }
}

/* Scales in the order of their elements are found by one division. */
static void scales_in_order_have_a_granule(void **state) {
    (void)state;
    static const struct {
        cuda_shape x, scale;
        int64_t axis, group, granule;
    } cases[] = {{CUDA_SHAPE(6, 64, 128), CUDA_SHAPE(6, 64, 1), 2, 128, 128},
                 {CUDA_SHAPE(6, 64), CUDA_SHAPE(6), 0, 0, 64},
                 {CUDA_SHAPE(6, 64), CUDA_SHAPE(6, 4), 1, 16, 16},
                 {CUDA_SHAPE(64), CUDA_SHAPE(64), 0, 0, 1},
                 {CUDA_SHAPE(6, 5, 64), CUDA_SHAPE(1, 5, 1), 1, 1, 0},
                 {CUDA_SHAPE(6, 64), CUDA_SHAPE(64), 1, 0, 0},
                 {CUDA_SHAPE(6, 64), CUDA_SCALAR, -1, 0, 0}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        qf_kernel_step *step = add_quantize(&test, QF_BF16, cases[i].x, cases[i].scale, QF_F8E4M3FN);
        cuda_room(&test, step)->attributes[QF_ATTR(quantize, axis)].integer = cases[i].axis;
        cuda_room(&test, step)->attributes[QF_ATTR(quantize, group)].integer = cases[i].group;
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        const qf_quantise_params *params = test.recorder.first->launch.params;
        assert_int_equal(params->granule, cases[i].granule);
        cuda_finish(&test);
    }
}

static void odd_groups_of_nibbles_are_stored_apart(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_dynamic(&test, QF_F32, CUDA_SHAPE(2, 9), QF_F4E2M1FN, CUDA_SHAPE(2, 3), QF_VALUE_group, 3);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2);
    const qf_dynamic_params *first = cuda_launch_at(&test, 0, "qf_dynamic_quantize")->params;
    assert_null(first->y);
    const qf_quantise_params *second = cuda_launch_at(&test, 1, "qf_quantize")->params;
    assert_int_equal(second->blocks[0], 3);
    cuda_finish(&test);
}

/* Threads share out an entry by runs of whole bytes: two threads that store halves of one byte lose one of them. */
static void threads_of_an_entry_own_whole_bytes(void **state) {
    (void)state;
    static const qf_dtype types[] = {QF_F8E4M3FN, QF_F4E2M1FN, QF_I8};
    static const int64_t sizes[] = {2, 16, 18, 128, 4096};
    for (size_t i = 0; i < QF_COUNT_OF(types) * QF_COUNT_OF(sizes); i++) {
        qf_dtype y = types[i % QF_COUNT_OF(types)];
        int64_t size = sizes[i / QF_COUNT_OF(types)];
        cuda_test test;
        cuda_start(&test);
        add_dynamic(&test, QF_BF16, CUDA_SHAPE(6, 4 * size), y, CUDA_SHAPE(6, 4), QF_VALUE_group, size);
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        assert_int_equal(cuda_action_count(&test), 1);
        bool held = y == QF_F8E4M3FN && size % 8 == 0;
        const qf_dynamic_params *params =
            cuda_launch_at(&test, 0, held ? "qf_dynamic_quantize_held_16" : "qf_dynamic_quantize")->params;
        assert_non_null(params->y);
        if (held) {
            cuda_finish(&test);
            continue;
        }
        assert_int_equal(params->run * qf_dtype_bits(y) % 8, 0);
        assert_int_equal(params->size * qf_dtype_bits(y) % 8, 0); /* an entry begins on a byte */
        assert_int_equal(params->run, params->is_fast ? 8 : 2);
        cuda_finish(&test);
    }
}

/* --- norms and activations --- */

static qf_kernel_step *add_norm(cuda_test *test, qf_dtype dtype, cuda_shape shape, qf_dtype out, int64_t axis) {
    qf_kernel_step *step = cuda_add(test, QF_OP_add_rms_norm);
    cuda_operand(test, step, dtype, shape, PLACE(0));
    cuda_operand(test, step, dtype, shape, PLACE(1));
    cuda_operand(test, step, QF_BF16, CUDA_SHAPE(shape.dims[shape.rank - 1]), PLACE(4));
    cuda_operand(test, step, QF_F32, CUDA_SCALAR, PLACE(5));
    cuda_result(test, step, out, shape, PLACE(2));
    cuda_result(test, step, dtype, shape, PLACE(3));
    cuda_room(test, step)->attributes[QF_ATTR(add_rms_norm, axis)].integer = axis;
    cuda_room(test, step)->attributes[QF_ATTR(add_rms_norm, via)].integer = QF_BF16;
    return step;
}

static void norm_rows_are_shared_by_lanes(void **state) {
    (void)state;
    static const struct {
        int64_t size;
        uint32_t lanes, block, kept;
    } cases[] = {{64, 8, 256, 0},     {256, 32, 256, 0},   {4096, 256, 256, 0}, {5120, 320, 320, 0},
                 {8192, 512, 512, 0}, {8200, 512, 512, 2}, {20480, 512, 512, 2}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        add_norm(&test, QF_BF16, CUDA_SHAPE(10, 30, cases[i].size), QF_F8E4M3FN, 2);
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        const char *kernel = cases[i].kept ? "qf_rms_norm_runs" : "qf_rms_norm_held_16";
        const qf_cuda_launch *launch = cuda_launch_at(&test, 0, kernel);
        const qf_norm_params *params = launch->params;
        assert_int_equal(params->rows, 300);
        assert_int_equal(params->lanes, cases[i].lanes);
        assert_int_equal(params->kept_runs, cases[i].kept);
        assert_int_equal(launch->block[0], cases[i].block);
        /* x and residual; else the weight */
        assert_int_equal(launch->shared_bytes, (cases[i].kept ? cases[i].kept : 1) * cases[i].block * 16 * 2);
        assert_int_equal(params->output.via, QF_BF16);
        assert_int_equal((uintptr_t)params->output.scale, PLACE(5));
        cuda_finish(&test);
    }
}

static void norms_of_odd_sizes_go_by_elements(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_norm(&test, QF_BF16, CUDA_SHAPE(3, 30), QF_F8E4M3FN, 1);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_norm_params *params = cuda_launch_at(&test, 0, "qf_rms_norm")->params;
    assert_int_equal(params->lanes, 32);
    cuda_finish(&test);
}

static void silu_mul_halves_rows(void **state) {
    (void)state;
    for (int size = 24; size <= 25; size++) {
        cuda_test test;
        cuda_start(&test);
        qf_kernel_step *step = cuda_add(&test, QF_OP_silu_mul);
        cuda_operand(&test, step, QF_F16, CUDA_SHAPE(1000, 2 * size), PLACE(0));
        cuda_result(&test, step, QF_F16, CUDA_SHAPE(1000, size), PLACE(1));
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        const qf_silu_params *params =
            cuda_launch_at(&test, 0, size % 8 ? "qf_silu_mul" : "qf_silu_mul_runs_16")->params;
        assert_int_equal(params->size, size);
        assert_int_equal(params->count, 1000 * size);
        assert_null(params->output.scale);
        cuda_finish(&test);
    }
}

static void empty_tensors_launch_nothing(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_quantize(&test, QF_F32, CUDA_SHAPE(0, 5), CUDA_SCALAR, QF_F8E4M3FN);
    add_norm(&test, QF_BF16, CUDA_SHAPE(0, 64), QF_F8E4M3FN, 1);
    add_dynamic(&test, QF_F32, CUDA_SHAPE(0, 5), QF_I8, CUDA_SHAPE(0, 1), QF_VALUE_token, 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(cuda_record(&test, i), QF_OK);
        assert_int_equal(cuda_action_count(&test), 0);
    }
    /* The scale of nothing is 1 and has to be written all the same. */
    add_dynamic(&test, QF_F32, CUDA_SHAPE(0, 5), QF_I8, CUDA_SCALAR, QF_VALUE_tensor, 0);
    assert_int_equal(cuda_record(&test, 3), QF_OK);
    assert_int_equal(cuda_action_count(&test), 1);
    cuda_finish(&test);
}

static void scales_of_whole_results_are_scalars(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 2};
    for (size_t i = 0; i < QF_COUNT_OF(counts); i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            cuda_test test;
            cuda_start(&test);
            qf_kernel_step *step =
                dynamic ? add_dynamic(&test, QF_F32, CUDA_SHAPE(3, 64), QF_F8E4M3FN, CUDA_SCALAR, QF_VALUE_tensor, 0)
                        : add_norm(&test, QF_BF16, CUDA_SHAPE(3, 64), QF_F8E4M3FN, 1);
            if (dynamic) cuda_operand(&test, step, QF_F32, CUDA_SHAPE(counts[i]), PLACE(6));
            if (!dynamic)
                cuda_room(&test, step)->operands[QF_IN(add_rms_norm, out_scale)] =
                    cuda_view(QF_F32, CUDA_SHAPE(counts[i]), PLACE(6));
            assert_int_equal(cuda_record(&test, 0), counts[i] == 1 ? QF_OK : QF_ERROR_INVALID_ARGUMENT);
            cuda_finish(&test);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_scale_needs_no_axes),
                                       cmocka_unit_test(per_channel_scales_collapse_to_two_axes),
                                       cmocka_unit_test(groups_of_the_last_axis_are_blocks),
                                       cmocka_unit_test(only_plain_cases_take_runs),
                                       cmocka_unit_test(zero_points_have_strides_of_their_own),
                                       cmocka_unit_test(a_scale_of_another_rank_is_refused),
                                       cmocka_unit_test(a_whole_tensor_takes_two_launches),
                                       cmocka_unit_test(tokens_and_groups_take_one),
                                       cmocka_unit_test(scales_in_order_have_a_granule),
                                       cmocka_unit_test(odd_groups_of_nibbles_are_stored_apart),
                                       cmocka_unit_test(threads_of_an_entry_own_whole_bytes),
                                       cmocka_unit_test(norm_rows_are_shared_by_lanes),
                                       cmocka_unit_test(norms_of_odd_sizes_go_by_elements),
                                       cmocka_unit_test(silu_mul_halves_rows),
                                       cmocka_unit_test(empty_tensors_launch_nothing),
                                       cmocka_unit_test(scales_of_whole_results_are_scalars)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
