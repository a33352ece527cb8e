/* Owns: tests of the builders of rope, kv_cache_write and rope_quantize_cache_write: streams, slots, angles, geometry.
 * Does not own: numbers (tests/gpu).
 * Next: cuda_check.h. */
#include "tests/kernels/cuda_check.h"

#include "kernels/cuda/cache.h"

#define PLACE(n) ((uintptr_t)0x10000000 + (uintptr_t)(n)*0x10000000)
#define HEADS    32
#define KV_HEADS 8
#define DEPTH    128
#define PAGE     64
#define PAGES    100

static qf_kernel_step *add_write(cuda_test *test, int64_t rows, int64_t layout, qf_dtype cache_dtype, bool in_place) {
    bool nhd = layout == QF_VALUE_nhd;
    cuda_shape cache = nhd ? CUDA_SHAPE(PAGES, PAGE, KV_HEADS, DEPTH) : CUDA_SHAPE(PAGES, KV_HEADS, PAGE, DEPTH);
    qf_kernel_step *step = cuda_add(test, QF_OP_kv_cache_write);
    cuda_operand(test, step, cache_dtype, cache, PLACE(0));
    cuda_operand(test, step, QF_BF16, CUDA_SHAPE(rows, KV_HEADS, DEPTH), PLACE(1));
    cuda_operand(test, step, QF_I64, CUDA_SHAPE(rows), PLACE(2));
    if (cache_dtype != QF_BF16) cuda_operand(test, step, QF_F32, CUDA_SHAPE(KV_HEADS), PLACE(3));
    cuda_result(test, step, cache_dtype, cache, in_place ? PLACE(0) : PLACE(4));
    cuda_room(test, step)->attributes[QF_ATTR(kv_cache_write, layout)].integer = layout;
    return step;
}

static void fault_47_layouts_step_differently(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        cuda_test test;
        cuda_start(&test);
        add_write(&test, 10, i ? QF_VALUE_hnd : QF_VALUE_nhd, QF_F8E4M3FN, true);
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        assert_int_equal(cuda_action_count(&test), 1);
        const qf_cache_params *params = cuda_launch_at(&test, 0, "qf_cache_vectors")->params;
        const qf_cache_stream *stream = &params->streams[0];
        assert_int_equal(stream->page_stride, PAGE * KV_HEADS * DEPTH);
        assert_int_equal(stream->token_stride, i ? DEPTH : KV_HEADS * DEPTH);
        assert_int_equal(stream->head_stride, i ? PAGE * DEPTH : DEPTH);
        assert_int_equal(stream->scale_stride, 1);
        assert_int_equal(params->page, PAGE);
        assert_int_equal(params->slot_count, PAGES * PAGE);
        assert_false(stream->is_copy);
        cuda_finish(&test);
    }
}

static void a_cache_elsewhere_is_copied_first(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_write(&test, 10, QF_VALUE_nhd, QF_BF16, false);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2);
    const qf_cuda_action *copy = test.recorder.first;
    assert_int_equal(copy->kind, QF_CUDA_COPY);
    assert_int_equal(copy->copy.size, (size_t)PAGES * PAGE * KV_HEADS * DEPTH * 2);
    const qf_cache_params *params = cuda_launch_at(&test, 1, "qf_cache_vectors")->params;
    assert_true(params->streams[0].is_copy);
    assert_null(params->streams[0].scale);
    cuda_finish(&test);
}

/* Few rows look for later rows of their slot; of many, a first launch notes the last, and a second finds places. */
static void the_last_row_of_a_slot_is_found_either_way(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_write(&test, QF_CACHE_SEARCHED_ROWS, QF_VALUE_nhd, QF_F8E4M3FN, true);
    add_write(&test, QF_CACHE_SEARCHED_ROWS + 1, QF_VALUE_nhd, QF_F8E4M3FN, true);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 1);
    const qf_cache_params *searching = cuda_launch_at(&test, 0, "qf_cache_vectors")->params;
    assert_null(searching->winners);
    assert_null(searching->places);
    assert_int_equal(test.recorder.zeroed_size, 0);
    assert_int_equal(cuda_record(&test, 1), QF_OK);
    assert_int_equal(cuda_action_count(&test), 3);
    const qf_cuda_launch *winners = cuda_launch_at(&test, 0, "qf_cache_winners");
    const qf_cuda_launch *places = cuda_launch_at(&test, 1, "qf_cache_places");
    const qf_cuda_launch *launch = cuda_launch_at(&test, 2, "qf_cache_vectors");
    const qf_cache_params *params = launch->params;
    assert_int_equal(test.recorder.zeroed_size, PAGES * PAGE * sizeof(uint32_t));
    assert_ptr_equal(params->winners, test.recorder.zeroed);
    assert_ptr_equal(params->places, test.recorder.scratch);
    assert_int_equal(test.recorder.scratch_used,
                     (QF_CACHE_SEARCHED_ROWS + 1) * sizeof(qf_cache_place) / 256 * 256 + 256);
    assert_memory_equal(winners->params, launch->params, launch->params_size);
    assert_memory_equal(places->params, launch->params, launch->params_size);
    cuda_finish(&test);
}

/* A thread a unit: a head of 128 elements is eight units of two runs of eight. */
static void blocks_step_over_rows_of_units(void **state) {
    (void)state;
    static const struct {
        int64_t rows;
        uint32_t grid;
    } cases[] = {{3, 3}, {1000, 1000}, {2000, 8 * 132}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        add_write(&test, cases[i].rows, QF_VALUE_nhd, QF_F8E4M3FN, true);
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_cache_vectors");
        assert_int_equal(((const qf_cache_params *)launch->params)->streams[0].units, 8);
        assert_int_equal(launch->block[0], 64);
        assert_int_equal(launch->grid[0], cases[i].grid);
        assert_int_equal(launch->grid[1], 1);
        assert_int_equal(launch->shared_bytes, 0); /* nothing is rotated */
        cuda_finish(&test);
    }
}

/* Rows of another dtype than the cache's go through f32: a row a block, of few rows parts of it. */
static void few_rows_are_spread_over_blocks(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = add_write(&test, 3, QF_VALUE_nhd, QF_F8E4M3FN, true);
    cuda_room(&test, step)->operands[1].dtype = QF_F32;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_cache_vectors_any");
    assert_int_equal(launch->block[0], 64);
    assert_int_equal(launch->grid[0], 3);
    assert_int_equal(launch->grid[1], 1);
    cuda_finish(&test);
}

static qf_kernel_step *add_fused(cuda_test *test, int64_t rows, int64_t v_depth, int64_t rotary_dim) {
    qf_kernel_step *step = cuda_add(test, QF_OP_rope_quantize_cache_write);
    cuda_shape k_cache = CUDA_SHAPE(PAGES, PAGE, KV_HEADS, DEPTH), v_cache = CUDA_SHAPE(PAGES, PAGE, KV_HEADS, v_depth);
    cuda_operand(test, step, QF_BF16, CUDA_SHAPE(rows, HEADS, DEPTH), PLACE(0));
    cuda_operand(test, step, QF_BF16, CUDA_SHAPE(rows, KV_HEADS, DEPTH), PLACE(1));
    cuda_operand(test, step, QF_BF16, CUDA_SHAPE(rows, KV_HEADS, v_depth), PLACE(2));
    cuda_operand(test, step, QF_F32, CUDA_SHAPE(4096, rotary_dim ? rotary_dim : DEPTH), PLACE(3));
    cuda_operand(test, step, QF_I64, CUDA_SHAPE(rows), PLACE(4));
    cuda_operand(test, step, QF_I32, CUDA_SHAPE(rows), PLACE(5));
    cuda_operand(test, step, QF_F8E4M3FN, k_cache, PLACE(6));
    cuda_operand(test, step, QF_F8E4M3FN, v_cache, PLACE(7));
    for (int i = 0; i < 3; i++) cuda_operand(test, step, QF_F32, CUDA_SCALAR, PLACE(8 + i));
    cuda_result(test, step, QF_F8E4M3FN, CUDA_SHAPE(rows, HEADS, DEPTH), PLACE(11));
    cuda_result(test, step, QF_F8E4M3FN, k_cache, PLACE(6));
    cuda_result(test, step, QF_F8E4M3FN, v_cache, PLACE(7));
    cuda_room(test, step)->attributes[QF_ATTR(rope_quantize_cache_write, rotary_dim)].integer = rotary_dim;
    return step;
}

static void one_launch_rotates_quantises_and_writes(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_fused(&test, 256, DEPTH, 0);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 1);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_cache_vectors");
    const qf_cache_params *params = launch->params;
    assert_int_equal(params->stream_count, 3);
    assert_int_equal(params->streams[0].rotated_units, 8);
    assert_int_equal(params->streams[1].rotated_units, 8);
    assert_int_equal(params->streams[2].rotated_units, 0);
    assert_int_equal(params->streams[2].units, 8);
    for (int i = 0; i < 3; i++) assert_int_equal((uintptr_t)params->streams[i].scale, PLACE(8 + i));
    /* 48 heads of eight units. */
    assert_int_equal(launch->block[0], 384);
    assert_int_equal(launch->grid[0], 256);
    assert_int_equal(launch->grid[1], 1);
    assert_int_equal(launch->shared_bytes, 2 * DEPTH * sizeof(float)); /* angles of two rows */
    assert_true(launch->dependent);
    cuda_finish(&test);
}

static void heads_that_are_no_runs_go_by_elements(void **state) {
    (void)state;
    static const struct {
        int64_t v_depth, rotary_dim;
        const char *kernel;
    } cases[] = {{64, 0, "qf_cache_vectors"},
                 {128, 32, "qf_cache_vectors"},
                 {72, 0, "qf_cache_elements"},
                 {128, 40, "qf_cache_elements"}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        add_fused(&test, 4, cases[i].v_depth, cases[i].rotary_dim);
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        (void)cuda_launch_at(&test, 0, cases[i].kernel);
        cuda_finish(&test);
    }
}

static void angles_broadcast_over_token_axes(void **state) {
    (void)state;
    static const struct {
        cuda_shape positions;
        uint32_t axes;
        int64_t strides[2];
    } cases[] = {{CUDA_SHAPE(5, 7), 1, {1, 0}},
                 {CUDA_SHAPE(7), 2, {0, 1}},
                 {CUDA_SHAPE(5, 1), 2, {1, 0}},
                 {CUDA_SHAPE(1, 1), 1, {0, 0}}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        qf_kernel_step *step = cuda_add(&test, QF_OP_rope);
        cuda_operand(&test, step, QF_BF16, CUDA_SHAPE(5, 7, HEADS, DEPTH), PLACE(0));
        cuda_operand(&test, step, QF_F32, CUDA_SHAPE(100, DEPTH), PLACE(1));
        cuda_operand(&test, step, QF_I32, cases[i].positions, PLACE(2));
        cuda_result(&test, step, QF_BF16, CUDA_SHAPE(5, 7, HEADS, DEPTH), PLACE(3));
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        const qf_cache_params *params = cuda_launch_at(&test, 0, "qf_cache_vectors")->params;
        assert_int_equal(params->rows, 35);
        assert_int_equal(params->position_count, 100);
        assert_null(params->slots);
        assert_int_equal(params->axis_count, cases[i].axes);
        for (uint32_t j = 0; j < cases[i].axes; j++) assert_int_equal(params->axis_strides[j], cases[i].strides[j]);
        cuda_finish(&test);
    }
}

static void no_rows_launch_nothing(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_fused(&test, 0, DEPTH, 0);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 0);
    cuda_finish(&test);
}

/* Also where a plan's guards did not see it: a count between one and one a head would be read past its end. */
static void scales_are_one_or_one_a_head(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 2, KV_HEADS, KV_HEADS + 1};
    for (size_t i = 0; i < QF_COUNT_OF(counts); i++)
        for (int fused = 0; fused < 2; fused++) {
            cuda_test test;
            cuda_start(&test);
            qf_kernel_step *step =
                fused ? add_fused(&test, 3, DEPTH, 0) : add_write(&test, 10, QF_VALUE_nhd, QF_F8E4M3FN, true);
            uint32_t column = fused ? QF_IN(rope_quantize_cache_write, v_scale) : QF_IN(kv_cache_write, scale);
            cuda_room(&test, step)->operands[column] = cuda_view(QF_F32, CUDA_SHAPE(counts[i]), PLACE(13));
            bool right = counts[i] == 1 || counts[i] == KV_HEADS;
            assert_int_equal(cuda_record(&test, 0), right ? QF_OK : QF_ERROR_INVALID_ARGUMENT);
            cuda_finish(&test);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fault_47_layouts_step_differently),
                                       cmocka_unit_test(a_cache_elsewhere_is_copied_first),
                                       cmocka_unit_test(the_last_row_of_a_slot_is_found_either_way),
                                       cmocka_unit_test(blocks_step_over_rows_of_units),
                                       cmocka_unit_test(few_rows_are_spread_over_blocks),
                                       cmocka_unit_test(one_launch_rotates_quantises_and_writes),
                                       cmocka_unit_test(heads_that_are_no_runs_go_by_elements),
                                       cmocka_unit_test(angles_broadcast_over_token_axes),
                                       cmocka_unit_test(scales_are_one_or_one_a_head),
                                       cmocka_unit_test(no_rows_launch_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
