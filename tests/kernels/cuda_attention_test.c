/* Owns: tests of the builders of attention on a GPU: which kernels a step becomes, their parameters, launches, tensor
 * maps, what is handed over and what is refused. Does not own: prefill (cuda_prefill_test.c), which row a query gets
 * (tests/spec/hopper_rows_test.c), numbers (tests/gpu). Next: cuda_attention_steps.h. */
#include "tests/kernels/cuda_attention_steps.h"

#include "kernels/cuda/decode/params.h"
#include "kernels/cuda/decode/select.h"

/* --- the general kernels --- */

static void operand_types_choose_the_kernel(void **state) {
    (void)state;
    static const struct {
        qf_dtype q, k, v;
        int64_t depth;
        const char *kernel;
    } cases[] = {{QF_F16, QF_F16, QF_F16, 64, "qf_attention_tensor"},
                 {QF_BF16, QF_F8E4M3FN, QF_F8E5M2, 80, "qf_attention_tensor"},
                 {QF_F8E4M3FNUZ, QF_F8E4M3FN, QF_F16, 256, "qf_attention_tensor"},
                 {QF_F16, QF_BF16, QF_F16, 64, "qf_attention_plain"},
                 {QF_F32, QF_F8E4M3FN, QF_F8E4M3FN, 64, "qf_attention_plain"},
                 {QF_F64, QF_F64, QF_F64, 64, "qf_attention_plain"},
                 {QF_F16, QF_F16, QF_F16, 264, "qf_attention_plain"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cuda_test test;
        start_dense(&test, cases[i].q, cases[i].k, cases[i].v, cases[i].depth, 32);
        assert_int_equal(record(&test, DENSE), QF_OK);
        assert_int_equal(cuda_action_count(&test), 1);
        const qf_cuda_attention_params *params = general(&test, 0, cases[i].kernel);
        assert_int_equal(params->depth, cases[i].depth);
        assert_int_equal(params->out_depth, 32);
        assert_int_equal(params->q_scale.data != NULL, qf_dtype_is_float8(cases[i].q));
        assert_true(cuda_launch_at(&test, 0, cases[i].kernel)->shared_bytes < 99 * 1024); /* sm_89 has no more */
        cuda_finish(&test);
    }
}

static void rows_of_a_group_fill_tiles(void **state) {
    (void)state;
    cuda_test test;
    start_dense(&test, QF_F16, QF_F16, QF_F16, 64, 192);
    assert_int_equal(record(&test, DENSE), QF_OK);
    const qf_cuda_attention_params *params = general(&test, 0, "qf_attention_tensor");
    assert_int_equal(params->tiles, 7); /* 4 heads of 100 rows in tiles of 64 */
    assert_int_equal(params->chunks, 2);
    assert_int_equal(params->work, 7 * 2 * 2 * 2);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_attention_tensor");
    assert_int_equal(launch->grid[0], 7 * 2 * 2 * 2);
    assert_int_equal(launch->block[0], 128);
    assert_false(launch->dependent);
    assert_int_equal(launch->shared_bytes, qf_attention_tensor_bytes(64));
    assert_int_equal(params->k_steps.head, 300 * 64);
    assert_int_equal(params->k_steps.key, 64);
    assert_int_equal(params->q_steps.sequence, 8 * 100 * 64);
    assert_int_equal(params->lse_steps.head, 100);
    assert_true(params->q_aligned && params->k_aligned && params->v_aligned);
    cuda_finish(&test);
}

static void tokens_before_heads(void **state) {
    (void)state;
    cuda_test test;
    start_dense(&test, QF_F16, QF_F16, QF_F16, 20, 20);
    attribute(&test, QF_ATTR(attention, layout))->integer = QF_VALUE_bshd;
    set(&test, 0, QF_F16, CUDA_SHAPE(2, 100, 8, 20));
    set(&test, 1, QF_F16, CUDA_SHAPE(2, 300, 2, 20));
    set(&test, 2, QF_F16, CUDA_SHAPE(2, 300, 2, 20));
    assert_int_equal(record(&test, DENSE), QF_OK);
    const qf_cuda_attention_params *params = general(&test, 0, "qf_attention_tensor");
    assert_int_equal(params->k_steps.key, 40);
    assert_int_equal(params->k_steps.head, 20);
    assert_int_equal(params->q_steps.row, 160);
    assert_false(params->q_aligned); /* rows of 40 bytes */
    cuda_finish(&test);
}

/* 57: an address of one element's alignment makes a difference of speed only. */
static void odd_addresses_are_read_one_by_one(void **state) {
    (void)state;
    cuda_test test;
    start_dense(&test, QF_BF16, QF_BF16, QF_BF16, 64, 64);
    test.rooms[0].operands[1].data = (void *)(PLACE(1) + 2);
    assert_int_equal(record(&test, DENSE), QF_OK);
    const qf_cuda_attention_params *params = general(&test, 0, "qf_attention_tensor");
    assert_true(params->q_aligned && !params->k_aligned && params->v_aligned);
    cuda_finish(&test);
}

static void bias_and_mask_broadcast(void **state) {
    (void)state;
    cuda_test test;
    start_dense(&test, QF_F16, QF_F16, QF_F16, 64, 64);
    set(&test, QF_IN(attention, bias), QF_F32, CUDA_SHAPE(8, 1, 300));
    set(&test, QF_IN(attention, mask), QF_I1, CUDA_SHAPE(2, 1, 100, 1));
    assert_int_equal(record(&test, DENSE), QF_OK);
    const qf_cuda_attention_params *params = general(&test, 0, "qf_attention_tensor");
    assert_int_equal(params->bias_steps.sequence, 0);
    assert_int_equal(params->bias_steps.head, 300);
    assert_int_equal(params->bias_steps.row, 0);
    assert_int_equal(params->bias_steps.key, 1);
    assert_true(params->bias_rows == INT64_MAX);
    assert_int_equal(params->mask_steps.sequence, 100);
    assert_int_equal(params->mask_steps.row, 1);
    assert_int_equal(params->mask_steps.key, 0);
    assert_int_equal(params->mask_rows, 100);
    cuda_finish(&test);
}

static void packed_rows_have_a_tile_more_for_every_sequence(void **state) {
    (void)state;
    cuda_test test;
    start_dense(&test, QF_F16, QF_F16, QF_F16, 64, 64);
    set(&test, 0, QF_F16, CUDA_SHAPE(50, 8, 64));
    set(&test, QF_IN(attention, q_start), QF_I32, CUDA_SHAPE(3));
    test.rooms[0].results[0] = cuda_view(QF_BF16, CUDA_SHAPE(50, 8, 64), PLACE(30));
    assert_int_equal(record(&test, DENSE), QF_OK);
    const qf_cuda_attention_params *params = general(&test, 0, "qf_attention_tensor");
    assert_int_equal(params->tiles, 4 + 2 + 2); /* 200 rows, 2 sequences, rows before and behind them */
    assert_int_equal(params->work, 8 * 2);
    assert_true(params->packed);
    assert_int_equal(params->q_steps.row, 8 * 64);
    cuda_finish(&test);
}

static void nothing_to_do_is_no_launch(void **state) {
    (void)state;
    cuda_test test;
    start_dense(&test, QF_F16, QF_F16, QF_F16, 64, 64);
    set(&test, 0, QF_F16, CUDA_SHAPE(2, 8, 0, 64));
    test.rooms[0].results[0] = cuda_view(QF_BF16, CUDA_SHAPE(2, 8, 0, 64), PLACE(30));
    assert_int_equal(record(&test, DENSE), QF_OK);
    assert_int_equal(cuda_action_count(&test), 0);
    /* Without keys there are rows to write. */
    set(&test, 0, QF_F16, CUDA_SHAPE(2, 8, 5, 64));
    set(&test, 1, QF_F16, CUDA_SHAPE(2, 2, 0, 64));
    set(&test, 2, QF_F16, CUDA_SHAPE(2, 2, 0, 64));
    test.rooms[0].results[0] = cuda_view(QF_BF16, CUDA_SHAPE(2, 8, 5, 64), PLACE(30));
    assert_int_equal(record(&test, DENSE), QF_OK);
    assert_int_equal(cuda_action_count(&test), 1);
    cuda_finish(&test);
}

static void what_no_kernel_takes_is_refused(void **state) {
    (void)state;
    cuda_test test;
    start_dense(&test, QF_F16, QF_F16, QF_F16, 64, 64);
    set(&test, 2, QF_F4E2M1FN, CUDA_SHAPE(2, 2, 300, 64));
    set(&test, QF_IN(attention, v_scale), QF_F32, CUDA_SCALAR);
    assert_int_equal(record(&test, DENSE), QF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(test.message, "found f4E2M1FN"));
    set(&test, 1, QF_F16, CUDA_SHAPE(2, 2, (int64_t)1 << 31, 64));
    set(&test, 2, QF_F16, CUDA_SHAPE(2, 2, (int64_t)1 << 31, 64));
    assert_int_equal(record(&test, DENSE), QF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(test.message, "fewer than 2^31 keys"));
    set(&test, 1, QF_F16, CUDA_SHAPE(2, 3, 300, 64));
    set(&test, 2, QF_F16, CUDA_SHAPE(2, 3, 300, 64));
    assert_int_equal(record(&test, DENSE), QF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(test.message, "multiples of the KV heads"));
    cuda_finish(&test);
}

static void p_scale_and_out_scale_are_scalars(void **state) {
    (void)state;
    static const uint32_t columns[] = {QF_IN(attention, p_scale), QF_IN(attention, out_scale)};
    static const char *const messages[] = {"a scalar p_scale", "a scalar out_scale"};
    for (int64_t count = 0; count < 3; count++)
        for (size_t i = 0; i < QF_COUNT_OF(columns); i++) {
            cuda_test test;
            start_dense(&test, QF_F16, QF_F16, QF_F16, 64, 64);
            set(&test, columns[i], QF_F32, CUDA_SHAPE(count));
            assert_int_equal(record(&test, DENSE), count == 1 ? QF_OK : QF_ERROR_INVALID_ARGUMENT);
            if (count != 1) assert_non_null(strstr(test.message, messages[i]));
            cuda_finish(&test);
        }
}

/* --- decode --- */

/* Copied: parameter blocks of launches are aligned less than the type. */
static qf_decode_params decode(const cuda_test *test, const char *kernel) {
    const qf_cuda_launch *launch = cuda_launch_at(test, 0, kernel);
    assert_int_equal(launch->params_size, sizeof(qf_decode_params));
    assert_true(launch->dependent);
    assert_non_null(launch->maps);
    assert_non_null(launch->maps->next);
    assert_null(launch->maps->next->next);
    qf_decode_params params;
    memcpy(&params, launch->params, sizeof params);
    return params;
}

static void one_token_a_sequence_is_decode_alone(void **state) {
    (void)state;
    for (int hnd = 0; hnd < 2; hnd++) {
        cuda_test test;
        start_paged(&test, QF_F8E4M3FN, QF_F8E4M3FN, 4, 128, 32);
        if (hnd) {
            attribute(&test, QF_ATTR(paged_attention, layout))->integer = QF_VALUE_hnd;
            set(&test, QF_IN(paged_attention, k_cache), QF_F8E4M3FN, CUDA_SHAPE(50, 2, 32, 128));
            set(&test, QF_IN(paged_attention, v_cache), QF_F8E4M3FN, CUDA_SHAPE(50, 2, 32, 128));
        }
        attribute(&test, QF_ATTR(paged_attention, window_left))->integer = INT64_MAX;
        set(&test, QF_IN(paged_attention, q_scale), QF_F32, CUDA_SHAPE(2));
        assert_int_equal(record(&test, DECODE), QF_OK);
        assert_int_equal(cuda_action_count(&test), 1);
        const qf_decode_params params = decode(&test, "qf_paged_decode_e4m3_d128_r1");
        assert_int_equal(params.batch, 4);
        assert_int_equal(params.group, 4);
        assert_int_equal(params.q_tokens, 1);
        assert_int_equal(params.page_shift, 5);
        assert_int_equal(params.max_kv_len, 256);
        assert_int_equal(params.block_table_stride, 8);
        assert_int_equal(params.q_token_stride, 1024);
        assert_int_equal(params.q_scale_stride, 1);
        assert_int_equal(params.q_scale_head_stride, 0);
        assert_int_equal(params.k_scale_stride, 1);
        assert_int_equal(params.v_scale_stride, 0);
        assert_int_equal(params.window_left, INT32_MAX / 2);
        assert_int_equal(params.out_dtype, QF_DECODE_E4M3);
        assert_int_equal(params.via, QF_DECODE_NONE);
        assert_null(params.q_start);
        /* The maps: of the page, the head and the key, which the layouts order differently. */
        const qf_cuda_tensor_map *v_map = cuda_launch_at(&test, 0, "qf_paged_decode_e4m3_d128_r1")->maps;
        const qf_cuda_tensor_map *k_map = v_map->next;
        assert_int_equal(k_map->params_offset, offsetof(qf_decode_params, k_map));
        assert_int_equal(v_map->params_offset, offsetof(qf_decode_params, v_map));
        assert_ptr_equal(k_map->address, (void *)PLACE(1));
        assert_ptr_equal(v_map->address, (void *)PLACE(2));
        const uint64_t extents[] = {128, 32, 2, 50}, nhd_strides[] = {256, 128, 8192},
                       hnd_strides[] = {128, 4096, 8192};
        for (int i = 0; i < 4; i++) assert_int_equal(k_map->extents[i], extents[i]);
        for (int i = 0; i < 3; i++) assert_int_equal(k_map->strides[i], hnd ? hnd_strides[i] : nhd_strides[i]);
        assert_int_equal(k_map->box[0], 128);
        assert_int_equal(k_map->box[1], QF_DECODE_TILE);
        assert_true(test.recorder.scratch_size > 0 && test.recorder.zeroed_size > 0);
        assert_ptr_equal(params.tickets, test.recorder.zeroed);
        assert_ptr_equal(params.partials, test.recorder.scratch);
        cuda_finish(&test);
    }
}

/* Lengths of packed sequences are not known: short ones go to decode, the others to prefill, none to both. */
static void packed_sequences_are_divided_by_length(void **state) {
    (void)state;
    cuda_test test;
    start_paged(&test, QF_F8E4M3FN, QF_F8E4M3FN, 600, 128, 64);
    set(&test, QF_IN(paged_attention, q_start), QF_I32, CUDA_SHAPE(5));
    assert_int_equal(record(&test, DECODE), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2);
    const qf_decode_params params = decode(&test, "qf_paged_decode_e4m3_d128_r2");
    assert_int_equal(params.q_tokens, 4);
    assert_int_equal(params.token_rows, 600);
    const qf_prefill_params rest = prefill(&test, 1);
    assert_int_equal(rest.least_tokens, 5);
    assert_int_equal(rest.q_tokens, 600);
    assert_ptr_equal(rest.q_start, params.q_start);
    cuda_finish(&test);
    /* A bf16 query is nothing for the FP8 prefill kernel. */
    start_paged(&test, QF_BF16, QF_F8E4M3FN, 600, 128, 64);
    set(&test, QF_IN(paged_attention, q_start), QF_I32, CUDA_SHAPE(5));
    assert_int_equal(record(&test, DECODE), QF_OK);
    const qf_decode_params again = decode(&test, "qf_paged_decode_e4m3_d128_r2");
    const qf_cuda_attention_params *general_rest = general(&test, 1, "qf_attention_tensor");
    assert_int_equal(general_rest->least_rows, again.q_tokens + 1);
    assert_int_equal(general_rest->tiles, (600 * 4 + 63) / 64 + 4 + 2);
    cuda_finish(&test);
}

/* Sixteen heads of a group fill a block of rows with one token; more tokens only where the batch has them. */
static void tokens_fill_one_block_of_rows(void **state) {
    (void)state;
    for (int64_t rows = 4; rows <= 12; rows += 8) {
        cuda_test test;
        start_paged(&test, QF_F8E4M3FN, QF_F8E4M3FN, rows, 128, 64);
        set(&test, QF_IN(paged_attention, q), QF_F8E4M3FN, CUDA_SHAPE(rows, 32, 128));
        test.rooms[0].results[0] = cuda_view(QF_F8E4M3FN, CUDA_SHAPE(rows, 32, 128), PLACE(30));
        set(&test, QF_IN(paged_attention, q_start), QF_I32, CUDA_SHAPE(5));
        assert_int_equal(record(&test, DECODE), QF_OK);
        const qf_decode_params params = decode(&test, "qf_paged_decode_e4m3_d128_r2");
        assert_int_equal(params.q_tokens, rows / 4);
        assert_int_equal(params.row_blocks, rows / 4);
        cuda_finish(&test);
    }
}

static void what_decode_does_not_take_is_handed_over(void **state) {
    (void)state;
    cuda_test test;
    start_paged(&test, QF_BF16, QF_F8E4M3FN, 4, 192, 64); /* head dim */
    expect_only(&test, DECODE, "qf_attention_tensor");
    start_paged(&test, QF_BF16, QF_F8E4M3FN, 4, 128, 48); /* page */
    expect_only(&test, DECODE, "qf_attention_tensor");
    start_paged(&test, QF_BF16, QF_F8E4M3FN, 4, 128, 64);
    set(&test, QF_IN(paged_attention, v_scale), QF_F16, CUDA_SCALAR); /* a scale that is not f32 */
    expect_only(&test, DECODE, "qf_attention_tensor");
    start_paged(&test, QF_BF16, QF_F8E4M3FN, 4, 128, 64);
    test.rooms[0].operands[1].data = (void *)(PLACE(1) + 8); /* no address for TMA */
    expect_only(&test, DECODE, "qf_attention_tensor");
    start_paged(&test, QF_BF16, QF_F8E4M3FN, 4, 128, 64);
    attribute(&test, QF_ATTR(paged_attention, causal))->integer = 0;
    attribute(&test, QF_ATTR(paged_attention, window_right))->integer = 3;
    expect_only(&test, DECODE, "qf_attention_tensor");
    start_paged(&test, QF_BF16, QF_F8E4M3FN, 4, 128, 64);
    attribute(&test, QF_ATTR(paged_attention, out_compute))->integer = QF_BF16;
    expect_only(&test, DECODE, "qf_attention_tensor");
    start_paged(&test, QF_F8E4M3FN, QF_F8E4M3FN, 4, 128, 64);
    attribute(&test, QF_ATTR(paged_attention, empty_row))->integer = QF_VALUE_nan;
    expect_only(&test, DECODE, "qf_prefill_e4m3_d128_f16");
}

/* A window of nothing after the row is what causal says. */
static void no_keys_after_the_row_is_causal(void **state) {
    (void)state;
    cuda_test test;
    start_paged(&test, QF_BF16, QF_BF16, 4, 64, 16);
    attribute(&test, QF_ATTR(paged_attention, causal))->integer = 0;
    attribute(&test, QF_ATTR(paged_attention, window_right))->integer = 0;
    assert_int_equal(record(&test, 2002), QF_OK);
    assert_int_equal(decode(&test, "qf_paged_decode_bf16_d64_r1").causal, 1);
    cuda_finish(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(operand_types_choose_the_kernel),
                                       cmocka_unit_test(rows_of_a_group_fill_tiles),
                                       cmocka_unit_test(tokens_before_heads),
                                       cmocka_unit_test(odd_addresses_are_read_one_by_one),
                                       cmocka_unit_test(bias_and_mask_broadcast),
                                       cmocka_unit_test(packed_rows_have_a_tile_more_for_every_sequence),
                                       cmocka_unit_test(nothing_to_do_is_no_launch),
                                       cmocka_unit_test(what_no_kernel_takes_is_refused),
                                       cmocka_unit_test(p_scale_and_out_scale_are_scalars),
                                       cmocka_unit_test(one_token_a_sequence_is_decode_alone),
                                       cmocka_unit_test(packed_sequences_are_divided_by_length),
                                       cmocka_unit_test(tokens_fill_one_block_of_rows),
                                       cmocka_unit_test(what_decode_does_not_take_is_handed_over),
                                       cmocka_unit_test(no_keys_after_the_row_is_causal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
