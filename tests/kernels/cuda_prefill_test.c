/* Owns: tests of the builder of prefill attention: which launches a step becomes, their parameters and tensor maps.
 * Does not own: how packed batches are divided (cuda_attention_test.c), the host's choices (prefill_select_test.c),
 * numbers (tests/gpu/prefill). Next: cuda_attention_steps.h. */
#include "tests/kernels/cuda_attention_steps.h"

static void dense_float8_is_prefill(void **state) {
    (void)state;
    cuda_test test;
    start_dense(&test, QF_F8E4M3FN, QF_F8E4M3FN, QF_F8E4M3FN, 128, 128);
    attribute(&test, QF_ATTR(attention, p))->integer = QF_VALUE_kernel;
    set(&test, QF_IN(attention, k_scale), QF_F32, CUDA_SHAPE(2));
    assert_int_equal(record(&test, PREFILL), QF_OK);
    assert_int_equal(cuda_action_count(&test), 1);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_prefill_e4m3_d128_f16");
    const qf_prefill_params params = prefill(&test, 0);
    assert_int_equal(params.batch, 2);
    assert_int_equal(params.q_tokens, 100);
    assert_int_equal(params.kv_tokens, 300);
    assert_int_equal(params.page_size, 0);
    assert_int_equal(params.k_scale_stride, 1);
    assert_int_equal(params.out_head_stride, 100 * 128);
    assert_int_equal(params.out_token_stride, 128);
    assert_int_equal(params.least_tokens, 0);
    assert_ptr_equal(params.ticket, test.recorder.zeroed);
    assert_int_equal(launch->maps->params_offset, offsetof(qf_prefill_params, v_map));
    assert_ptr_equal(launch->maps->next->address, (void *)PLACE(1));
    assert_int_equal(launch->maps->next->strides[0], 128);
    assert_int_equal(launch->maps->next->strides[1], 300 * 128);
    cuda_finish(&test);
}

/* Where many rows read V it is transposed once, into scratch, by a launch of its own. */
static void long_float8_transposes_v_first(void **state) {
    (void)state;
    cuda_test test;
    start_dense(&test, QF_F8E4M3FN, QF_F8E4M3FN, QF_F8E4M3FN, 256, 256);
    attribute(&test, QF_ATTR(attention, p))->integer = QF_VALUE_kernel;
    set(&test, 0, QF_F8E4M3FN, CUDA_SHAPE(2, 8, 8192, 256));
    set(&test, 1, QF_F8E4M3FN, CUDA_SHAPE(2, 2, 8190, 256));
    set(&test, 2, QF_F8E4M3FN, CUDA_SHAPE(2, 2, 8190, 256));
    test.rooms[0].results[0] = cuda_view(QF_BF16, CUDA_SHAPE(2, 8, 8192, 256), PLACE(30));
    assert_int_equal(record(&test, PREFILL), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2);
    const qf_cuda_launch *before = cuda_launch_at(&test, 0, "qf_prefill_before_d256");
    const qf_cuda_launch *launch = cuda_launch_at(&test, 1, "qf_prefill_e4m3_d256_f16_before");
    qf_prefill_params first, params;
    memcpy(&first, before->params, sizeof first);
    memcpy(&params, launch->params, sizeof params);
    assert_string_equal(before->image, "prefill_before");
    assert_int_equal(before->grid[0],
                     2 * 2 * 64 * 2); /* sequences, heads, blocks of 128 keys, halves of the head dim */
    assert_true(before->dependent && launch->dependent);
    assert_int_equal(before->maps->params_offset, offsetof(qf_prefill_params, v_map));
    assert_ptr_equal(before->maps->address, (void *)PLACE(2));
    assert_null(before->maps->next);
    assert_int_equal(launch->maps->params_offset, offsetof(qf_prefill_params, k_map));
    assert_int_equal(launch->cluster, 2);
    assert_int_equal(launch->grid[0] % 2, 0);
    assert_int_equal(params.cluster, 2);
    assert_ptr_equal(params.transposed, first.transposed);
    assert_ptr_equal(params.transposed, test.recorder.scratch);
    assert_int_equal(params.transposed_blocks, 64);
    assert_int_equal(test.recorder.scratch_size, 2 * 2 * 64 * 128 * 256);
    cuda_finish(&test);
}

/* P of the prefill kernel is e4m3: only where the graph takes the kernel's own. */
static void p_of_the_graph_is_not_prefill(void **state) {
    (void)state;
    for (int64_t p = QF_VALUE_none; p <= QF_VALUE_graph; p++) {
        cuda_test test;
        start_dense(&test, QF_F8E4M3FN, QF_F8E4M3FN, QF_F8E4M3FN, 128, 128);
        attribute(&test, QF_ATTR(attention, p))->integer = p;
        if (p == QF_VALUE_graph) set(&test, QF_IN(attention, p_scale), QF_F32, CUDA_SCALAR);
        expect_only(&test, PREFILL, "qf_attention_tensor");
    }
}

/* 16-bit operands keep P at 16 bits, which `none` and `kernel` allow; strides are in bytes. */
static void dense_16_bits_is_prefill(void **state) {
    (void)state;
    static const struct {
        qf_dtype type;
        const char *kernel;
        int row;
    } all[] = {{QF_BF16, "qf_prefill_bf16_d128_f32", 2012}, {QF_F16, "qf_prefill_f16_d128_f32", 2014}};
    for (size_t i = 0; i < QF_COUNT_OF(all); i++)
        for (int64_t p = QF_VALUE_none; p <= QF_VALUE_graph; p++) {
            cuda_test test;
            start_dense(&test, all[i].type, all[i].type, all[i].type, 128, 128);
            attribute(&test, QF_ATTR(attention, p))->integer = p;
            if (p == QF_VALUE_graph) {
                set(&test, QF_IN(attention, p_scale), QF_F32, CUDA_SCALAR);
                expect_only(&test, (uint32_t)all[i].row, "qf_attention_tensor");
                continue;
            }
            assert_int_equal(record(&test, (uint32_t)all[i].row), QF_OK);
            assert_int_equal(cuda_action_count(&test), 1);
            const qf_cuda_launch *launch = cuda_launch_at(&test, 0, all[i].kernel);
            const qf_cuda_tensor_map *v_map = launch->maps;
            assert_int_equal(v_map->params_offset, offsetof(qf_prefill_params, v_map));
            assert_int_equal(v_map->extents[0], 256);
            assert_int_equal(v_map->strides[0], 256);
            assert_int_equal(v_map->strides[1], 300 * 256);
            assert_int_equal(v_map->box[0], 128);
            qf_prefill_params params;
            memcpy(&params, launch->params, sizeof params);
            assert_int_equal(params.out_dtype, QF_PREFILL_BF16);
            assert_int_equal(params.out_token_stride, 128);
            cuda_finish(&test);
        }
}

/* Long sequences over a bf16 cache, and all of them over an f16 one, which decode does not know. */
static void paged_16_bits_is_prefill(void **state) {
    (void)state;
    cuda_test test;
    start_paged(&test, QF_BF16, QF_BF16, 600, 128, 64);
    set(&test, QF_IN(paged_attention, q_start), QF_I32, CUDA_SHAPE(5));
    assert_int_equal(record(&test, 2002), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2);
    (void)cuda_launch_at(&test, 1, "qf_prefill_bf16_d128_f32");
    cuda_finish(&test);
    start_paged(&test, QF_F16, QF_F16, 600, 256, 16);
    set(&test, QF_IN(paged_attention, q_start), QF_I32, CUDA_SHAPE(5));
    expect_only(&test, 2015, "qf_prefill_f16_d256_f32");
}

/* Paged rows without q_start are sequences of one token, one row apart. */
static void paged_rows_are_sequences(void **state) {
    (void)state;
    cuda_test test;
    start_paged(&test, QF_F8E4M3FN, QF_F8E4M3FN, 4, 128, 64);
    assert_int_equal(record(&test, PAGED_PRE), QF_OK);
    const qf_prefill_params params = prefill(&test, 0);
    assert_int_equal(params.batch, 4);
    assert_int_equal(params.q_tokens, 1);
    assert_int_equal(params.out_batch_stride, 8 * 128);
    assert_int_equal(params.page_size, 64);
    cuda_finish(&test);
    start_paged(&test, QF_F8E4M3FN, QF_F8E4M3FN, 4, 128, 64);
    assert_int_equal(record(&test, PAGED), QF_OK);
    const qf_cuda_attention_params *plain = general(&test, 0, "qf_attention_tensor");
    assert_int_equal(plain->tiles, 1);
    assert_int_equal(plain->work, 4 * 2);
    cuda_finish(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_float8_is_prefill),       cmocka_unit_test(long_float8_transposes_v_first),
        cmocka_unit_test(p_of_the_graph_is_not_prefill), cmocka_unit_test(dense_16_bits_is_prefill),
        cmocka_unit_test(paged_16_bits_is_prefill),      cmocka_unit_test(paged_rows_are_sequences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
