/* Owns: tests of the builder of elementwise GPU programs: what joins a chain, what is stored, what memory forbids.
 * Does not own: numbers (tests/gpu).
 * Next: cuda_check.h. */
#include "tests/kernels/cuda_check.h"

#include "kernels/cuda/elementwise.h"

/* Tensors of 64 x 128 elements that lie apart. */
#define PLACE(n) ((uintptr_t)0x10000000 + (uintptr_t)(n)*0x100000)
#define ROWS     64
#define COLUMNS  128
#define WHOLE    CUDA_SHAPE(ROWS, COLUMNS)

static const qf_elementwise_params *program(const cuda_test *test, const char *kernel) {
    const qf_cuda_launch *launch = cuda_launch_at(test, 0, kernel);
    assert_int_equal(launch->params_size, sizeof(qf_elementwise_params));
    return launch->params;
}

static qf_kernel_step *add_unary(cuda_test *test, qf_op op, qf_dtype dtype, uintptr_t from, uintptr_t to) {
    qf_kernel_step *step = cuda_add(test, op);
    cuda_operand(test, step, dtype, WHOLE, from);
    cuda_result(test, step, dtype, WHOLE, to);
    return step;
}

static qf_kernel_step *add_binary(cuda_test *test, qf_op op, qf_dtype dtype, uintptr_t a, uintptr_t b, uintptr_t to) {
    qf_kernel_step *step = add_unary(test, op, dtype, a, to);
    cuda_operand(test, step, dtype, WHOLE, b);
    return step;
}

static void one_step_is_one_instruction(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_binary(&test, QF_OP_sub, QF_BF16, PLACE(0), PLACE(1), PLACE(2));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 1);
    const qf_elementwise_params *params = program(&test, "qf_elementwise_runs_16");
    assert_int_equal(params->count, ROWS * COLUMNS);
    assert_int_equal(params->code_count, 1);
    assert_int_equal(params->codes[0].op, QF_OP_sub);
    assert_int_equal(params->tensors[params->codes[0].first].address, PLACE(0));
    assert_int_equal(params->tensors[params->codes[0].second].address, PLACE(1));
    assert_int_equal(params->tensors[params->codes[0].result].address, PLACE(2));
    assert_int_equal(params->tensors[0].kind, QF_ELEMENTWISE_ALIGNED);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_elementwise_runs_16");
    assert_int_equal(launch->grid[0] * launch->block[0] * QF_ELEMENTWISE_RUN * QF_ELEMENTWISE_RUNS_16, ROWS * COLUMNS);
    cuda_finish(&test);
}

/* Common ops over aligned runs of the compact dtypes have a kernel of their own, and one where what they read has 16
 * bits; the general one takes the rest. */
static void runs_are_common_aligned_and_compact(void **state) {
    (void)state;
    static const struct {
        qf_op op;
        qf_dtype dtype;
        uintptr_t shift;
        bool runs;
    } cases[] = {{QF_OP_neg, QF_BF16, 0, true},       {QF_OP_neg, QF_BF16, 8, false},    {QF_OP_neg, QF_F32, 16, true},
                 {QF_OP_silu, QF_F16, 16, true},      {QF_OP_neg, QF_F8E4M3FN, 8, true}, {QF_OP_tanh, QF_F32, 0, false},
                 {QF_OP_neg, QF_F8E5M2FNUZ, 0, false}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        add_unary(&test, cases[i].op, cases[i].dtype, PLACE(0) + cases[i].shift, PLACE(1));
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        const char *kernel = qf_dtype_bits(cases[i].dtype) == 16 ? "qf_elementwise_runs_16" : "qf_elementwise_runs";
        (void)cuda_launch_at(&test, 0, cases[i].runs ? kernel : "qf_elementwise");
        cuda_finish(&test);
    }
    /* A row that is added to all rows lies in runs; one that ends within a run does not. */
    for (int columns = COLUMNS; columns >= COLUMNS - 4; columns -= 4) {
        cuda_test test;
        cuda_start(&test);
        qf_kernel_step *step = cuda_add(&test, QF_OP_add);
        cuda_operand(&test, step, QF_F32, CUDA_SHAPE(ROWS, columns), PLACE(0));
        cuda_operand(&test, step, QF_F32, CUDA_SHAPE(columns), PLACE(1));
        cuda_result(&test, step, QF_F32, CUDA_SHAPE(ROWS, columns), PLACE(2));
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        (void)cuda_launch_at(&test, 0, columns % 8 ? "qf_elementwise" : "qf_elementwise_runs");
        cuda_finish(&test);
    }
    /* Codes that do not saturate. */
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_cast);
    cuda_operand(&test, step, QF_F32, WHOLE, PLACE(0));
    cuda_result(&test, step, QF_F8E4M3FN, WHOLE, PLACE(1));
    for (int saturate = 0; saturate < 2; saturate++) {
        cuda_room(&test, step)->attributes[QF_ATTR(cast, dtype)].integer = QF_F8E4M3FN;
        cuda_room(&test, step)->attributes[QF_ATTR(cast, saturate)].integer = saturate;
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        (void)cuda_launch_at(&test, 0, saturate ? "qf_elementwise_runs" : "qf_elementwise");
    }
    cuda_finish(&test);
}

static void broadcasts_become_loops(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_clamp);
    cuda_operand(&test, step, QF_F32, WHOLE, PLACE(0) + 4);
    cuda_operand(&test, step, QF_F32, CUDA_SHAPE(COLUMNS), PLACE(1));
    cuda_operand(&test, step, QF_F32, CUDA_SHAPE(ROWS, 1), PLACE(2));
    cuda_result(&test, step, QF_F32, WHOLE, PLACE(3));
    step = cuda_add(&test, QF_OP_mul);
    cuda_operand(&test, step, QF_F32, WHOLE, PLACE(3));
    cuda_operand(&test, step, QF_F32, CUDA_SCALAR, PLACE(4));
    cuda_result(&test, step, QF_F32, WHOLE, PLACE(5));
    test.rooms[0].last_uses[0] = 1;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 2);
    const qf_elementwise_params *params = program(&test, "qf_elementwise");
    assert_int_equal(params->code_count, 3);
    assert_int_equal(params->codes[0].op, QF_OP_maximum);
    assert_int_equal(params->codes[1].op, QF_OP_minimum);
    assert_int_equal(params->codes[1].first, QF_ELEMENTWISE_LAST);
    assert_int_equal(params->codes[1].result, QF_ELEMENTWISE_NONE);
    assert_int_equal(params->codes[2].first, QF_ELEMENTWISE_LAST);
    assert_int_equal(params->tensors[params->codes[0].first].kind, QF_ELEMENTWISE_SAME); /* not aligned to 16 */
    assert_int_equal(params->tensors[params->codes[0].second].kind, QF_ELEMENTWISE_RUNS);
    assert_int_equal(params->tensors[params->codes[1].second].kind, QF_ELEMENTWISE_REPEATS);
    assert_int_equal(params->tensors[params->codes[2].second].kind, QF_ELEMENTWISE_ONE);
    cuda_finish(&test);
}

/* silu(x) * y, then cast: intermediates that nobody else reads are not stored. */
static void chains_keep_values_in_registers(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_unary(&test, QF_OP_silu, QF_F16, PLACE(0), PLACE(1));
    add_unary(&test, QF_OP_neg, QF_F16, PLACE(2), PLACE(3));
    add_binary(&test, QF_OP_mul, QF_F16, PLACE(3), PLACE(1), PLACE(4));
    qf_kernel_step *cast = cuda_add(&test, QF_OP_cast);
    cuda_operand(&test, cast, QF_F16, WHOLE, PLACE(4));
    cuda_result(&test, cast, QF_F8E4M3FN, WHOLE, PLACE(5));
    cuda_room(&test, cast)->attributes[QF_ATTR(cast, saturate)].integer = 0;
    test.rooms[0].last_uses[0] = test.rooms[1].last_uses[0] = 2;
    test.rooms[2].last_uses[0] = 7; /* somebody else reads the product */
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 4);
    assert_int_equal(cuda_action_count(&test), 1);
    const qf_elementwise_params *params = program(&test, "qf_elementwise");
    assert_int_equal(params->code_count, 4);
    assert_int_equal(params->codes[0].slot, QF_ELEMENTWISE_SLOT(0));
    assert_int_equal(params->codes[0].dtype, QF_F16);
    assert_int_equal(params->codes[0].result, QF_ELEMENTWISE_NONE);
    assert_int_equal(params->codes[1].slot, QF_ELEMENTWISE_NONE);
    assert_int_equal(params->codes[1].dtype, QF_DTYPE_NONE); /* a negative f16 is one */
    assert_int_equal(params->codes[2].first, QF_ELEMENTWISE_LAST);
    assert_int_equal(params->codes[2].second, QF_ELEMENTWISE_SLOT(0));
    assert_int_equal(params->tensors[params->codes[2].result].address, PLACE(4));
    assert_int_equal(params->codes[3].first, QF_ELEMENTWISE_LAST);
    assert_int_equal(params->codes[3].saturate, 0);
    const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_elementwise");
    assert_int_equal(launch->shared_bytes, launch->block[0] * QF_ELEMENTWISE_VECTOR * QF_ELEMENTWISE_GROUPS * 4);
    cuda_finish(&test);
}

/* The planner gives a result the memory of an operand that died: fine element on element, else the chain ends before.
 */
static void memory_that_others_still_read_ends_a_chain(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *cast = cuda_add(&test, QF_OP_cast); /* f32 to bf16 */
    cuda_operand(&test, cast, QF_F32, WHOLE, PLACE(0));
    cuda_result(&test, cast, QF_BF16, WHOLE, PLACE(1));
    add_unary(&test, QF_OP_exp, QF_BF16, PLACE(1), PLACE(0)); /* over the f32 operand, with other widths */
    add_unary(&test, QF_OP_neg, QF_BF16, PLACE(0), PLACE(2));
    test.rooms[0].last_uses[0] = 1;
    test.rooms[1].last_uses[0] = 9;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 1);
    assert_int_equal(cuda_record(&test, 1), QF_OK);
    assert_int_equal(test.recorder.taken, 2);
    /* Where nobody reads the middle value later, it is never stored and nothing is overwritten. */
    test.rooms[1].last_uses[0] = 2;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 3);
    cuda_finish(&test);
    /* The same bytes of the same elements may be replaced. */
    cuda_start(&test);
    add_binary(&test, QF_OP_add, QF_F32, PLACE(0), PLACE(1), PLACE(2));
    add_unary(&test, QF_OP_exp, QF_F32, PLACE(2), PLACE(0));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 2);
    cuda_finish(&test);
    /* A broadcast operand is read by threads everywhere. */
    cuda_start(&test);
    qf_kernel_step *add = cuda_add(&test, QF_OP_add);
    cuda_operand(&test, add, QF_F32, WHOLE, PLACE(0));
    cuda_operand(&test, add, QF_F32, CUDA_SHAPE(COLUMNS), PLACE(1));
    cuda_result(&test, add, QF_F32, WHOLE, PLACE(2));
    add_unary(&test, QF_OP_exp, QF_F32, PLACE(2), PLACE(1));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 1);
    cuda_finish(&test);
}

/* A later step that reads a part of a result, or its bytes as another type, finds it in memory only. */
static void parts_and_other_types_of_a_result_end_a_chain(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_unary(&test, QF_OP_exp, QF_F32, PLACE(0), PLACE(1));
    qf_kernel_step *add = cuda_add(&test, QF_OP_add);
    cuda_operand(&test, add, QF_F32, WHOLE, PLACE(2));
    cuda_operand(&test, add, QF_F32, CUDA_SHAPE(COLUMNS), PLACE(1) + 512);
    cuda_result(&test, add, QF_F32, WHOLE, PLACE(3));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 1);
    cuda_finish(&test);
    cuda_start(&test);
    qf_kernel_step *cast = cuda_add(&test, QF_OP_cast);
    cuda_operand(&test, cast, QF_F32, WHOLE, PLACE(0));
    cuda_result(&test, cast, QF_I32, WHOLE, PLACE(1));
    cast = cuda_add(&test, QF_OP_cast);
    cuda_operand(&test, cast, QF_I32, WHOLE, PLACE(1));
    cuda_result(&test, cast, QF_F32, WHOLE, PLACE(2));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 1); /* integers are not exact in f32 */
    cuda_finish(&test);
}

static void integers_and_f64_take_the_wide_kernel(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_binary(&test, QF_OP_mul, QF_I64, PLACE(0), PLACE(1), PLACE(2));
    add_binary(&test, QF_OP_mod, QF_I64, PLACE(2), PLACE(3), PLACE(4));
    qf_kernel_step *less = cuda_add(&test, QF_OP_less);
    cuda_operand(&test, less, QF_I64, WHOLE, PLACE(4));
    cuda_operand(&test, less, QF_I64, WHOLE, PLACE(2));
    cuda_result(&test, less, QF_I1, WHOLE, PLACE(5));
    test.rooms[0].last_uses[0] = test.rooms[1].last_uses[0] = 2;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 3);
    const qf_elementwise_params *params = program(&test, "qf_elementwise_wide");
    assert_int_equal(params->code_count, 3);
    assert_int_equal(params->codes[2].second, QF_ELEMENTWISE_SLOT(0));
    assert_int_equal(params->codes[2].dtype, QF_I1);
    cuda_finish(&test);
}

static void choices_take_their_condition_first(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *compare = cuda_add(&test, QF_OP_greater);
    cuda_operand(&test, compare, QF_F32, WHOLE, PLACE(0));
    cuda_operand(&test, compare, QF_F32, CUDA_SCALAR, PLACE(1));
    cuda_result(&test, compare, QF_I1, WHOLE, PLACE(2));
    qf_kernel_step *where = cuda_add(&test, QF_OP_where);
    cuda_operand(&test, where, QF_I1, WHOLE, PLACE(2));
    cuda_operand(&test, where, QF_F32, WHOLE, PLACE(0));
    cuda_operand(&test, where, QF_F32, CUDA_SCALAR, PLACE(3));
    cuda_result(&test, where, QF_F32, WHOLE, PLACE(4));
    test.rooms[0].last_uses[0] = 1;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 2);
    const qf_elementwise_params *params = program(&test, "qf_elementwise");
    assert_int_equal(params->code_count, 3);
    assert_int_equal(params->codes[1].op, QF_ELEMENTWISE_CONDITION);
    assert_int_equal(params->codes[1].second, QF_ELEMENTWISE_LAST);
    assert_int_equal(params->codes[2].op, QF_OP_where);
    assert_int_equal(params->codes[2].first, params->codes[0].first); /* one tensor, read twice */
    cuda_finish(&test);
}

/* Six values that wait for their turn are more than there are slots: the chain is cut where it still fits. */
static void long_chains_are_cut(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    for (uintptr_t i = 0; i < 6; i++) add_unary(&test, QF_OP_exp, QF_F32, PLACE(0), PLACE(1 + i));
    uintptr_t sum = PLACE(1);
    for (uintptr_t i = 1; i < 6; i++) {
        add_binary(&test, QF_OP_add, QF_F32, sum, PLACE(1 + i), PLACE(10 + i));
        sum = PLACE(10 + i);
    }
    assert_int_equal(test.count, 11);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(test.recorder.taken, 10); /* the last sum takes the sixth value from memory */
    const qf_elementwise_params *params = program(&test, "qf_elementwise");
    assert_int_equal(params->codes[4].slot, QF_ELEMENTWISE_SLOT(4));
    assert_int_equal(params->codes[5].slot, QF_ELEMENTWISE_NONE);
    assert_int_equal(params->codes[6].first, QF_ELEMENTWISE_SLOT(0));
    assert_int_equal(params->codes[6].second, QF_ELEMENTWISE_SLOT(1));
    assert_int_equal(params->codes[7].first, QF_ELEMENTWISE_LAST);
    assert_int_equal(cuda_record(&test, 10), QF_OK);
    assert_int_equal(test.recorder.taken, 1);
    cuda_finish(&test);
}

static void what_has_no_meaning_is_refused(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_unary(&test, QF_OP_exp, QF_I32, PLACE(0), PLACE(1));
    assert_int_equal(cuda_record(&test, 0), QF_ERROR_UNSUPPORTED);
    assert_string_equal(test.message, "exp has no meaning for i32");
    qf_kernel_step *add = cuda_add(&test, QF_OP_add);
    cuda_operand(&test, add, QF_F32, WHOLE, PLACE(0));
    cuda_operand(&test, add, QF_F32, CUDA_SHAPE(COLUMNS - 1), PLACE(1));
    cuda_result(&test, add, QF_F32, WHOLE, PLACE(2));
    assert_int_equal(cuda_record(&test, 1), QF_ERROR_INVALID_ARGUMENT);
    assert_string_equal(test.message, "add: expected operands that broadcast to the result");
    cuda_finish(&test);
    /* Nothing to do. */
    cuda_start(&test);
    qf_kernel_step *empty = cuda_add(&test, QF_OP_neg);
    cuda_operand(&test, empty, QF_F32, CUDA_SHAPE(0, 5), PLACE(0));
    cuda_result(&test, empty, QF_F32, CUDA_SHAPE(0, 5), PLACE(1));
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 0);
    cuda_finish(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_step_is_one_instruction),
        cmocka_unit_test(runs_are_common_aligned_and_compact),
        cmocka_unit_test(broadcasts_become_loops),
        cmocka_unit_test(chains_keep_values_in_registers),
        cmocka_unit_test(memory_that_others_still_read_ends_a_chain),
        cmocka_unit_test(parts_and_other_types_of_a_result_end_a_chain),
        cmocka_unit_test(integers_and_f64_take_the_wide_kernel),
        cmocka_unit_test(choices_take_their_condition_first),
        cmocka_unit_test(long_chains_are_cut),
        cmocka_unit_test(what_has_no_meaning_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
