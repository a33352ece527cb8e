/* Owns: tests of the builders of contract, matmul and scaled_matmul: who computes the product, and how it is described.
 * Does not own: numbers (tests/gpu), the order of sums (contract_test.c).
 * Next: cuda_check.h. */
#include "tests/kernels/cuda_check.h"

#include "kernels/cuda/contract.h"

#define PLACE(n) ((uintptr_t)0x10000000 + (uintptr_t)(n)*0x10000000)

static qf_kernel_step *add_contract(cuda_test *test, const char *equation, qf_dtype dtype, cuda_shape a, cuda_shape b,
                                    cuda_shape y) {
    qf_kernel_step *step = cuda_add(test, QF_OP_contract);
    cuda_operand(test, step, dtype, a, PLACE(0));
    cuda_operand(test, step, dtype, b, PLACE(1));
    cuda_result(test, step, dtype, y, PLACE(2));
    cuda_room(test, step)->attributes[QF_ATTR(contract, equation)].string = equation;
    return step;
}

static const qf_cuda_matmul *matmul_at(const cuda_test *test, uint32_t index) {
    const qf_cuda_action *action = test->recorder.first;
    for (; action && index; index--) action = action->next;
    assert_non_null(action);
    assert_int_equal(action->kind, QF_CUDA_MATMUL);
    return &action->matmul;
}

/* Heads are a strided batch of one product wherever they lie; no operand is moved. */
static void heads_become_a_strided_batch(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    test.recorder.has_matmul = true;
    add_contract(&test, "bthd,bshd->bhts", QF_BF16, CUDA_SHAPE(2, 48, 8, 64), CUDA_SHAPE(2, 80, 8, 64),
                 CUDA_SHAPE(2, 8, 48, 80));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2); /* one for each b: its stride is not that of the heads */
    for (uint32_t i = 0; i < 2; i++) {
        const qf_cuda_matmul *matmul = matmul_at(&test, i);
        assert_int_equal(matmul->m, 48);
        assert_int_equal(matmul->n, 80);
        assert_int_equal(matmul->k, 64);
        assert_int_equal(matmul->batch, 8);
        assert_false(matmul->transpose_a);
        assert_true(matmul->transpose_b);
        assert_int_equal(matmul->a_leading, 8 * 64);
        assert_int_equal(matmul->b_leading, 8 * 64);
        assert_int_equal(matmul->d_leading, 80);
        assert_int_equal(matmul->a_batch_stride, 64);
        assert_int_equal(matmul->d_batch_stride, 48 * 80);
        assert_int_equal((uintptr_t)matmul->a, PLACE(0) + i * 48 * 8 * 64 * 2);
        assert_int_equal((uintptr_t)matmul->d, PLACE(2) + i * 8 * 48 * 80 * 2);
        assert_int_equal(matmul->workspace_size, 32 << 20);
    }
    cuda_finish(&test);
}

static void rows_of_several_axes_are_one_matrix(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    test.recorder.has_matmul = true;
    add_contract(&test, "btf,fe->bte", QF_F32, CUDA_SHAPE(3, 5, 7), CUDA_SHAPE(7, 11), CUDA_SHAPE(3, 5, 11));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_cuda_matmul *matmul = matmul_at(&test, 0);
    assert_int_equal(matmul->m, 15);
    assert_int_equal(matmul->batch, 1);
    assert_false(matmul->transpose_b);
    cuda_finish(&test);
}

static void a_transposed_result_exchanges_the_operands(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    test.recorder.has_matmul = true;
    add_contract(&test, "mk,kn->nm", QF_F16, CUDA_SHAPE(16, 32), CUDA_SHAPE(32, 8), CUDA_SHAPE(8, 16));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_cuda_matmul *matmul = matmul_at(&test, 0);
    assert_int_equal(matmul->m, 8);
    assert_int_equal(matmul->n, 16);
    assert_int_equal((uintptr_t)matmul->a, PLACE(1));
    assert_true(matmul->transpose_a);
    assert_true(matmul->transpose_b);
    cuda_finish(&test);
}

static void without_the_library_kernels_of_our_own_serve(void **state) {
    (void)state;
    static const struct {
        qf_dtype dtype;
        int64_t m, n, k;
        const char *kernel;
        uint32_t grid;
    } cases[] = {{QF_BF16, 256, 256, 64, "qf_contract_bf16", 4},
                 {QF_F16, 16, 256, 64, "qf_contract_f16_few", 2},
                 {QF_F8E4M3FN, 256, 256, 64, "qf_contract_f16", 4},
                 {QF_BF16, 256, 250, 64, "qf_contract_f32", 16}, /* rows of b are no whole runs of eight */
                 {QF_F8E4M3FNUZ, 64, 64, 64, "qf_contract_f32", 1},
                 {QF_F32, 65, 64, 64, "qf_contract_f32", 2},
                 {QF_F64, 64, 65, 64, "qf_contract_f64", 2},
                 {QF_I32, 64, 64, 64, "qf_contract_i64", 1}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        int64_t m = cases[i].m, n = cases[i].n, k = cases[i].k;
        add_contract(&test, "mk,kn->mn", cases[i].dtype, CUDA_SHAPE(m, k), CUDA_SHAPE(k, n), CUDA_SHAPE(m, n));
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        assert_int_equal(cuda_action_count(&test), 1);
        const qf_cuda_launch *launch = cuda_launch_at(&test, 0, cases[i].kernel);
        assert_int_equal(launch->grid[0], cases[i].grid);
        const qf_contract_params *params = launch->params;
        assert_int_equal(params->m.size, m);
        assert_int_equal(params->axes[params->k.first].size, k);
        assert_true(params->a_along_k);
        assert_false(params->b_along_k);
        cuda_finish(&test);
    }
}

/* Integers, mixed results and diagonals are nothing for the library. */
static void the_library_gets_only_what_it_takes(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    test.recorder.has_matmul = true;
    add_contract(&test, "mk,kn->mn", QF_I32, CUDA_SHAPE(4, 4), CUDA_SHAPE(4, 4), CUDA_SHAPE(4, 4));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    (void)cuda_launch_at(&test, 0, "qf_contract_i64");
    add_contract(&test, "iij,jk->ik", QF_F32, CUDA_SHAPE(4, 4, 6), CUDA_SHAPE(6, 5), CUDA_SHAPE(4, 5));
    assert_int_equal(cuda_record(&test, 1), QF_OK);
    assert_int_equal(matmul_at(&test, 0)->a_leading, 4 * 6 + 6); /* the diagonal is a matrix with a wider step */
    add_contract(&test, "mk,kn->mn", QF_F32, CUDA_SHAPE(4, 0), CUDA_SHAPE(0, 4), CUDA_SHAPE(4, 4));
    assert_int_equal(cuda_record(&test, 2), QF_OK);
    (void)cuda_launch_at(&test, 0, "qf_contract_f32"); /* a sum of nothing is written as well */
    add_contract(&test, "mk,kn->mn", QF_F32, CUDA_SHAPE(0, 4), CUDA_SHAPE(4, 4), CUDA_SHAPE(0, 4));
    assert_int_equal(cuda_record(&test, 3), QF_OK);
    assert_int_equal(cuda_action_count(&test), 0);
    cuda_finish(&test);
}

static qf_kernel_step *add_scaled(cuda_test *test, int64_t m, cuda_shape a_scale, qf_dtype out, qf_dtype bias) {
    qf_kernel_step *step = cuda_add(test, QF_OP_scaled_matmul);
    cuda_operand(test, step, QF_F8E4M3FN, CUDA_SHAPE(m, 64), PLACE(0));
    cuda_operand(test, step, QF_F8E4M3FN, CUDA_SHAPE(64, 96), PLACE(1));
    cuda_operand(test, step, QF_F32, a_scale, PLACE(3));
    cuda_operand(test, step, QF_F32, CUDA_SCALAR, PLACE(4));
    cuda_operand(test, step, bias, CUDA_SHAPE(96), PLACE(5));
    if (qf_dtype_is_float8(out)) cuda_operand(test, step, QF_F32, CUDA_SCALAR, PLACE(6));
    cuda_result(test, step, out, CUDA_SHAPE(m, 96), PLACE(2));
    return step;
}

/* Scalar scales and a bias of the result's type go along; b is turned so that both operands lie along k. */
static void an_fp8_product_goes_to_the_library_turned(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    test.recorder.has_matmul = true;
    add_scaled(&test, 256, CUDA_SCALAR, QF_BF16, QF_BF16);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2);
    const qf_contract_turn_params *turn = cuda_launch_at(&test, 0, "qf_contract_turn")->params;
    const qf_cuda_matmul *matmul = matmul_at(&test, 1);
    assert_int_equal(turn->rows, 64);
    assert_int_equal(turn->columns, 96);
    assert_ptr_equal(matmul->b, turn->out);
    assert_true(matmul->transpose_b);
    assert_int_equal(matmul->b_leading, 64);
    assert_int_equal((uintptr_t)matmul->a_scale, PLACE(3));
    assert_int_equal((uintptr_t)matmul->b_scale, PLACE(4));
    assert_int_equal((uintptr_t)matmul->bias, PLACE(5));
    assert_int_equal(matmul->d_dtype, QF_BF16);
    assert_int_equal((uintptr_t)matmul->d, PLACE(2));
    cuda_finish(&test);
}

/* What the library cannot do is left to a kernel at the end, on f32 values. */
static void token_scales_and_quantisation_are_left_to_the_end(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    test.recorder.has_matmul = true;
    add_scaled(&test, 256, CUDA_SHAPE(256, 1), QF_F8E4M3FN, QF_F32);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 3);
    const qf_cuda_matmul *matmul = matmul_at(&test, 1);
    const qf_contract_end_params *end = cuda_launch_at(&test, 2, "qf_contract_end")->params;
    assert_int_equal(matmul->d_dtype, QF_F32);
    assert_ptr_equal(matmul->d, end->product);
    assert_null(matmul->a_scale);
    assert_int_equal((uintptr_t)matmul->b_scale, PLACE(4)); /* once, not twice */
    assert_null(matmul->bias);
    assert_int_equal((uintptr_t)end->a_scale, PLACE(3));
    assert_null(end->b_scale);
    assert_int_equal(end->a_scale_stride, 1);
    assert_int_equal(end->bias_stride, 1);
    assert_int_equal((uintptr_t)end->output.scale, PLACE(6));
    assert_int_equal(end->rows, 256);
    assert_int_equal(end->columns, 96);
    cuda_finish(&test);
}

static void few_rows_have_a_kernel_of_their_own(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_scaled(&test, 4, CUDA_SHAPE(4, 1), QF_BF16, QF_BF16);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 1);
    const qf_contract_params *params = cuda_launch_at(&test, 0, "qf_contract_f16_few")->params;
    assert_int_equal(params->axes[params->m.first].stride[QF_CONTRACT_A_SCALE], 1);
    assert_int_equal(params->axes[params->n.first].stride[QF_CONTRACT_BIAS], 1);
    cuda_finish(&test);
}

static void a_wrong_equation_is_a_fault(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_contract(&test, "mk,kn", QF_F32, CUDA_SHAPE(4, 4), CUDA_SHAPE(4, 4), CUDA_SHAPE(4, 4));
    assert_int_equal(cuda_record(&test, 0), QF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(test.message, "equation"));
    cuda_finish(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads_become_a_strided_batch),
                                       cmocka_unit_test(rows_of_several_axes_are_one_matrix),
                                       cmocka_unit_test(a_transposed_result_exchanges_the_operands),
                                       cmocka_unit_test(without_the_library_kernels_of_our_own_serve),
                                       cmocka_unit_test(the_library_gets_only_what_it_takes),
                                       cmocka_unit_test(an_fp8_product_goes_to_the_library_turned),
                                       cmocka_unit_test(token_scales_and_quantisation_are_left_to_the_end),
                                       cmocka_unit_test(few_rows_have_a_kernel_of_their_own),
                                       cmocka_unit_test(a_wrong_equation_is_a_fault)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
