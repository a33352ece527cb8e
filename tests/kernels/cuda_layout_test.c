/* Owns: tests of the builders of GPU kernels that move elements: merged loops, wide elements, tiles, copies, updates.
 * Does not own: numbers (tests/gpu).
 * Next: cuda_check.h. */
#include "tests/kernels/cuda_check.h"

#include "kernels/cuda/create.h"
#include "kernels/cuda/gather.h"
#include "kernels/cuda/layout.h"

#define A ((uintptr_t)0x10000000)
#define B ((uintptr_t)0x20000000)
#define C ((uintptr_t)0x30000000)
#define Y ((uintptr_t)0x40000000)

static void add_permute(cuda_test *test, qf_dtype dtype, cuda_shape from, cuda_shape to, const int64_t *order,
                        uintptr_t address) {
    qf_kernel_step *step = cuda_add(test, QF_OP_permute);
    cuda_operand(test, step, dtype, from, address);
    cuda_result(test, step, dtype, to, Y);
    cuda_ints(test, step, QF_ATTR(permute, order), order, from.rank);
    assert_int_equal(cuda_record(test, test->count - 1), QF_OK);
}

/* Division by multiplication gives what division gives, at the edges and in between. */
static void divisions_are_exact(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 2, 3, 5, 7, 64, 127, 641, 4096, 65535, 1000003, INT32_MAX - 1};
    for (size_t i = 0; i < QF_COUNT_OF(sizes); i++) {
        uint32_t magic, shift;
        qf_cuda_division(sizes[i], &magic, &shift);
        for (int64_t n = 0; n < INT32_MAX - 1; n += n < 4096 ? 1 : n / 7 + sizes[i] % 3) {
            uint64_t quotient = (((uint64_t)n * magic >> 32) + (uint64_t)n) >> shift;
            assert_int_equal(quotient, n / sizes[i]);
        }
        for (int64_t n = sizes[i] - 1; n < INT32_MAX - 1; n += sizes[i] * 1009) {
            uint64_t quotient = (((uint64_t)n * magic >> 32) + (uint64_t)n) >> shift;
            assert_int_equal(quotient, n / sizes[i]);
        }
    }
}

/* [batch, tokens, heads, head_dim] to [batch, heads, tokens, head_dim]: heads move as 16-byte elements. */
static void permuted_heads_move_sixteen_bytes_at_a_time(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_permute(&test, QF_BF16, CUDA_SHAPE(2, 64, 8, 128), CUDA_SHAPE(2, 8, 64, 128), (const int64_t[]){0, 2, 1, 3}, A);
    const qf_strided_params *params = cuda_launch_at(&test, 0, "qf_strided")->params;
    assert_int_equal(params->element_bytes, 16);
    assert_int_equal(params->loops.rank, 4);
    assert_int_equal(params->loops.loop[0].size, 16);
    assert_int_equal(params->loops.loop[1].from, 8 * 16);
    assert_int_equal(params->loops.count, 2 * 64 * 8 * 16);
    /* An address that is only aligned to its elements allows no wider ones. */
    add_permute(&test, QF_BF16, CUDA_SHAPE(2, 64, 8, 128), CUDA_SHAPE(2, 8, 64, 128), (const int64_t[]){0, 2, 1, 3},
                A + 2);
    params = cuda_launch_at(&test, 0, "qf_strided")->params;
    assert_int_equal(params->element_bytes, 2);
    cuda_finish(&test);
}

static void transpositions_go_through_tiles(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_permute(&test, QF_F8E4M3FN, CUDA_SHAPE(3, 100, 72), CUDA_SHAPE(3, 72, 100), (const int64_t[]){0, 2, 1}, A);
    const qf_transpose_params *params = cuda_launch_at(&test, 0, "qf_transpose")->params;
    assert_int_equal(params->down, 100);
    assert_int_equal(params->across, 72);
    assert_int_equal(params->down_from, 72);
    assert_int_equal(params->across_to, 100);
    assert_int_equal(params->batch.count, 3);
    assert_int_equal(params->down_tiles * params->across_tiles, 1); /* of 128 elements a side */
    assert_int_equal(params->packed, 3);
    add_permute(&test, QF_F8E4M3FN, CUDA_SHAPE(3, 100, 71), CUDA_SHAPE(3, 71, 100), (const int64_t[]){0, 2, 1}, A);
    params = cuda_launch_at(&test, 0, "qf_transpose")->params;
    assert_int_equal(params->packed, 2); /* rows of 71 bytes are not read by words */
    add_permute(&test, QF_F32, CUDA_SHAPE(3, 100, 72), CUDA_SHAPE(3, 72, 100), (const int64_t[]){0, 2, 1}, A);
    params = cuda_launch_at(&test, 0, "qf_transpose")->params;
    assert_int_equal(params->down_tiles * params->across_tiles, 4); /* 64 */
    /* A few elements are not worth a tile. */
    add_permute(&test, QF_F32, CUDA_SHAPE(1000, 3), CUDA_SHAPE(3, 1000), (const int64_t[]){1, 0}, A);
    (void)cuda_launch_at(&test, 0, "qf_strided");
    cuda_finish(&test);
}

static void slices_may_run_backwards(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_slice);
    const int64_t starts[] = {9, 4}, ends[] = {-1, 20}, steps[] = {-3, 1};
    cuda_operand(&test, step, QF_F32, CUDA_SHAPE(10, 32), A);
    cuda_result(&test, step, QF_F32, CUDA_SHAPE(4, 16), Y);
    cuda_ints(&test, step, QF_ATTR(slice, starts), starts, 2);
    cuda_ints(&test, step, QF_ATTR(slice, ends), ends, 2);
    cuda_ints(&test, step, QF_ATTR(slice, steps), steps, 2);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_strided_params *params = cuda_launch_at(&test, 0, "qf_strided")->params;
    assert_int_equal(params->from, A + (9 * 32 + 4) * 4);
    assert_int_equal(params->element_bytes, 16);
    assert_int_equal(params->loops.loop[1].from, -3 * 32 / 4);
    /* One that leaves x is refused. */
    cuda_room(&test, step)->results[0].dims[0] = 5;
    assert_int_equal(cuda_record(&test, 0), QF_ERROR_INVALID_ARGUMENT);
    assert_string_equal(test.message, "slice: 5 elements from 9 by -3 leave axis 0 of size 10");
    cuda_finish(&test);
}

static void parts_that_lie_together_are_copied(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_concat);
    cuda_operand(&test, step, QF_I64, CUDA_SHAPE(2, 3), A);
    cuda_operand(&test, step, QF_I64, CUDA_SHAPE(0, 3), B);
    cuda_operand(&test, step, QF_I64, CUDA_SHAPE(1, 3), C);
    cuda_result(&test, step, QF_I64, CUDA_SHAPE(3, 3), Y);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2);
    assert_int_equal(test.recorder.last->kind, QF_CUDA_COPY);
    assert_ptr_equal(test.recorder.last->copy.to, (void *)(Y + 48));
    assert_int_equal(test.recorder.last->copy.size, 24);
    cuda_finish(&test);
}

static void four_bit_elements_go_through_bytes(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_permute(&test, QF_F4E2M1FN, CUDA_SHAPE(5, 3), CUDA_SHAPE(3, 5), (const int64_t[]){1, 0}, A);
    assert_int_equal(cuda_action_count(&test), 3);
    const qf_packed_params *unpack = cuda_launch_at(&test, 0, "qf_unpack")->params;
    const qf_strided_params *move = cuda_launch_at(&test, 1, "qf_strided")->params;
    const qf_packed_params *pack = cuda_launch_at(&test, 2, "qf_pack")->params;
    assert_int_equal(unpack->from, A);
    assert_int_equal(move->from, unpack->to);
    assert_int_equal(move->element_bytes, 1);
    assert_int_equal(pack->from, move->to);
    assert_int_equal(pack->to, Y);
    assert_int_equal(pack->count, 15);
    assert_true(test.recorder.scratch_size >= 2 * 256);
    cuda_finish(&test);
}

static void padding_merges_axes_that_keep_their_size(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_pad);
    const int64_t before[] = {1, -2, 0}, after[] = {0, 3, 0};
    cuda_operand(&test, step, QF_F32, CUDA_SHAPE(4, 6, 8), A);
    cuda_operand(&test, step, QF_F32, CUDA_SCALAR, B);
    cuda_result(&test, step, QF_F32, CUDA_SHAPE(5, 7, 8), Y);
    cuda_ints(&test, step, QF_ATTR(pad, before), before, 3);
    cuda_ints(&test, step, QF_ATTR(pad, after), after, 3);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_pad_params *params = cuda_launch_at(&test, 0, "qf_pad")->params;
    assert_int_equal(params->loops.rank, 2);
    assert_int_equal(params->unit_bytes, 16);
    assert_int_equal(params->axes[0].before, -2 * 8 / 4);
    assert_int_equal(params->axes[0].size, 6 * 8 / 4);
    assert_int_equal(params->loops.loop[0].size, 7 * 8 / 4);
    assert_int_equal(params->loops.loop[1].from, 6 * 8 / 4);
    cuda_finish(&test);
}

static void gathered_rows_move_as_units(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_gather);
    cuda_operand(&test, step, QF_BF16, CUDA_SHAPE(1000, 96), A);
    cuda_operand(&test, step, QF_I32, CUDA_SHAPE(7), B);
    cuda_result(&test, step, QF_BF16, CUDA_SHAPE(7, 96), Y);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_gather_params *params = cuda_launch_at(&test, 0, "qf_gather")->params;
    assert_int_equal(params->unit_bytes, 16);
    assert_int_equal(params->loops.loop[0].size, 12);
    assert_int_equal(params->size, 1000);
    assert_int_equal(params->loops.count, 7 * 12);
    cuda_finish(&test);
}

static qf_kernel_step *add_scatter(cuda_test *test, int64_t updates, uintptr_t result) {
    qf_kernel_step *step = cuda_add(test, QF_OP_scatter_nd);
    cuda_operand(test, step, QF_F32, CUDA_SHAPE(500, 8), A);
    cuda_operand(test, step, QF_I64, CUDA_SHAPE(updates, 1), B);
    cuda_operand(test, step, QF_F32, CUDA_SHAPE(updates, 8), C);
    cuda_result(test, step, QF_F32, CUDA_SHAPE(500, 8), result);
    return step;
}

/* A kernel copies what the driver would give to a slow copy engine, if both sides have the same alignment. */
static void large_copies_go_by_a_kernel(void **state) {
    (void)state;
    static const struct {
        int64_t count;
        uint32_t from, to;
        uint32_t head, tail;
        bool by_kernel;
    } cases[] = {{1 << 20, 0, 0, 0, 0, false},
                 {(1 << 28) + 7, 0, 0, 0, 7, true},
                 {(1 << 28) + 7, 5, 21, 11, 12, true},
                 {1 << 28, 1, 0, 0, 0, false}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        cuda_test test;
        cuda_start(&test);
        qf_kernel_step *step = cuda_add(&test, QF_OP_copy);
        cuda_operand(&test, step, QF_I8, CUDA_SHAPE(cases[i].count), 0x100000000 + cases[i].from);
        cuda_result(&test, step, QF_I8, CUDA_SHAPE(cases[i].count), 0x200000000 + cases[i].to);
        assert_int_equal(cuda_record(&test, 0), QF_OK);
        assert_int_equal(cuda_action_count(&test), 1);
        assert_int_equal(test.recorder.first->kind == QF_CUDA_LAUNCH, cases[i].by_kernel);
        if (cases[i].by_kernel) {
            const qf_cuda_launch *launch = cuda_launch_at(&test, 0, "qf_copy");
            const qf_copy_params *params = launch->params;
            assert_int_equal(params->head, cases[i].head);
            assert_int_equal(params->tail, cases[i].tail);
            assert_int_equal(params->head + params->vectors * 16 + params->tail, cases[i].count);
            assert_true((int64_t)launch->grid[0] * launch->block[0] >= params->vectors);
        }
        cuda_finish(&test);
    }
}

/* Of equal indices the last update stays: few updates are compared, many are entered first. In place nothing is copied.
 */
static void updates_of_one_target_are_settled_first(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    add_scatter(&test, 20, Y);
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    assert_int_equal(cuda_action_count(&test), 2);
    assert_int_equal(test.recorder.first->kind, QF_CUDA_COPY);
    const qf_tuples_params *params = cuda_launch_at(&test, 1, "qf_scatter_tuples")->params;
    assert_int_equal(params->owners, 0);
    add_scatter(&test, 3000, A);
    assert_int_equal(cuda_record(&test, 1), QF_OK);
    assert_int_equal(cuda_action_count(&test), 3);
    params = cuda_launch_at(&test, 0, "qf_scatter_enter")->params;
    assert_int_equal(params->phase, QF_SCATTER_CLEAR);
    assert_true(params->owners != 0);
    params = cuda_launch_at(&test, 1, "qf_scatter_enter")->params;
    assert_int_equal(params->phase, QF_SCATTER_ENTER);
    params = cuda_launch_at(&test, 2, "qf_scatter_tuples")->params;
    assert_true(params->owners != 0);
    assert_true(test.recorder.scratch_size >= 500 * sizeof(int32_t));
    cuda_finish(&test);
}

static void literals_travel_in_parameters(void **state) {
    (void)state;
    cuda_test test;
    cuda_start(&test);
    qf_kernel_step *step = cuda_add(&test, QF_OP_shape_of);
    cuda_operand(&test, step, QF_F32, CUDA_SHAPE(3, 5, 7), A);
    cuda_result(&test, step, QF_I64, CUDA_SHAPE(2), Y);
    cuda_room(&test, step)->attributes[QF_ATTR(shape_of, start)].integer = -2;
    assert_int_equal(cuda_record(&test, 0), QF_OK);
    const qf_literal_params *params = cuda_launch_at(&test, 0, "qf_literal")->params;
    const int64_t expected[] = {5, 7};
    assert_int_equal(params->size, sizeof expected);
    assert_memory_equal(params->bytes, expected, sizeof expected);
    step = cuda_add(&test, QF_OP_parameter);
    cuda_room(&test, step)->attributes[QF_ATTR(parameter, name)].string = "w";
    cuda_result(&test, step, QF_F32, CUDA_SHAPE(2), Y);
    assert_int_equal(cuda_record(&test, 1), QF_ERROR_UNSUPPORTED);
    assert_string_equal(test.message, "parameter \"w\" has no bytes bound to it; bind it by name");
    cuda_finish(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divisions_are_exact),
        cmocka_unit_test(permuted_heads_move_sixteen_bytes_at_a_time),
        cmocka_unit_test(transpositions_go_through_tiles),
        cmocka_unit_test(slices_may_run_backwards),
        cmocka_unit_test(parts_that_lie_together_are_copied),
        cmocka_unit_test(four_bit_elements_go_through_bytes),
        cmocka_unit_test(padding_merges_axes_that_keep_their_size),
        cmocka_unit_test(gathered_rows_move_as_units),
        cmocka_unit_test(large_copies_go_by_a_kernel),
        cmocka_unit_test(updates_of_one_target_are_settled_first),
        cmocka_unit_test(literals_travel_in_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
