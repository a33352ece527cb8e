/* Owns: tests of rope, kv_cache_write and rope_quantize_cache_write.
 * Does not own: attention over caches (attention_test.c).
 * Next: kernel_check.h. */
#include "tests/kernels/kernel_check.h"

#define TOKENS 3
#define HEADS  2
#define DEPTH  8

static void put_angles(qf_view *cos_sin, int64_t rotary_dim) {
    int64_t rows = view_count(cos_sin) / rotary_dim, half = rotary_dim / 2;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)row * pow(100, -2.0 * (double)i / (double)rotary_dim);
            qf_store_f64(QF_F32, cos_sin->data, row * rotary_dim + i, cos(angle), true);
            qf_store_f64(QF_F32, cos_sin->data, row * rotary_dim + half + i, sin(angle), true);
        }
}

/* Pairs turn by position * 100^(-2i / rotary_dim), as complex numbers do. */
static void rotations_are_complex_products(void **state) {
    (void)state;
    random_state random = {51};
    const double positions[] = {5, 0, 9};
    for (int i = 0; i < 8; i++) {
        bool interleaved = i & 1, with_positions = i & 4;
        int64_t rotary_dim = i & 2 ? 6 : DEPTH, half = rotary_dim / 2;
        kernel_test test;
        check_start(&test, QF_OP_rope);
        test.attributes[QF_ATTR(rope, interleaved)].integer = interleaved;
        test.attributes[QF_ATTR(rope, rotary_dim)].integer = i & 2 ? 6 : 0;
        const qf_view *x = check_random_operand(&test, 0, QF_F32, SHAPE(2, TOKENS, HEADS, DEPTH), &random, 1, 0);
        put_angles(
            check_operand(&test, 1, QF_F32, with_positions ? SHAPE(10, rotary_dim) : SHAPE(TOKENS, rotary_dim), NULL),
            rotary_dim);
        if (with_positions) check_operand(&test, 2, QF_I64, i & 1 ? SHAPE(TOKENS) : SHAPE(1, TOKENS), positions);
        check_result(&test, 0, QF_F32, SHAPE(2, TOKENS, HEADS, DEPTH));
        check_succeeds(&test);
        for (int64_t line = 0; line < 2 * TOKENS * HEADS; line++) {
            int64_t token = line / HEADS % TOKENS;
            double position = with_positions ? positions[token] : (double)token;
            for (int64_t e = 0; e < DEPTH; e++) {
                int64_t pair = interleaved ? e / 2 : e % half, second = interleaved ? e % 2 : e / half;
                int64_t other = interleaved ? e + 1 - 2 * second : e + (second ? -half : half);
                double own = qf_load_f64(QF_F32, x->data, line * DEPTH + e),
                       angle = position * pow(100, -2.0 * (double)pair / (double)rotary_dim);
                double expected = own;
                if (e < rotary_dim)
                    expected = own * cos(angle) +
                               (second ? 1 : -1) * qf_load_f64(QF_F32, x->data, line * DEPTH + other) * sin(angle);
                assert_true(fabs(result_at(&test, 0, line * DEPTH + e) - expected) < 1e-6 * (1 + fabs(expected)));
            }
        }
        check_finish(&test);
    }
}

static void positions_out_of_range_are_refused(void **state) {
    (void)state;
    const double bad[] = {-1, 4, 1e12};
    for (int i = 0; i < 3; i++) {
        kernel_test test;
        check_start(&test, QF_OP_rope);
        check_operand(&test, 0, QF_F32, SHAPE(1, 1, 2), NUMBERS(1, 2));
        check_operand(&test, 1, QF_F32, SHAPE(4, 2), NUMBERS(1, 0, 1, 0, 1, 0, 1, 0));
        check_operand(&test, 2, QF_I64, SHAPE(1), &bad[i]);
        check_result(&test, 0, QF_F32, SHAPE(1, 1, 2));
        check_refuses(&test, "position");
    }
}

/* 47, 48: both layouts hold the same rows; slot -1 leaves every byte alone; in place or not. */
static void fault_47_48_writes_go_to_their_slots_only(void **state) {
    (void)state;
    const double slots[] = {7, -1, 0, 4};
    for (int i = 0; i < 8; i++) {
        bool tokens_first = i & 1, in_place = i & 2, quantises = i & 4;
        random_state random = {52};
        kernel_test test;
        check_start(&test, QF_OP_kv_cache_write);
        test.attributes[QF_ATTR(kv_cache_write, layout)].integer = tokens_first ? QF_VALUE_nhd : QF_VALUE_hnd;
        shape dims = tokens_first ? SHAPE(3, 4, HEADS, DEPTH) : SHAPE(3, HEADS, 4, DEPTH);
        qf_view *cache = check_operand(&test, 0, QF_F8E4M3FN, dims, NULL);
        const qf_view *rows =
            check_random_operand(&test, 1, quantises ? QF_F32 : QF_F8E4M3FN, SHAPE(4, HEADS, DEPTH), &random, 1, 0);
        check_operand(&test, 2, QF_I64, SHAPE(4), slots);
        if (quantises) check_operand(&test, 3, QF_F32, SHAPE(HEADS), NUMBERS(0.5, 2));
        check_result(&test, 0, QF_F8E4M3FN, dims);
        if (in_place) {
            free(test.results[0].data);
            test.results[0].data = cache->data;
            test.borrowed[0] = true;
        }
        check_succeeds(&test);
        for (int64_t slot = 0; slot < 12; slot++)
            for (int64_t head = 0; head < HEADS; head++)
                for (int64_t e = 0; e < DEPTH; e++) {
                    int64_t line = tokens_first ? slot * HEADS + head : (slot / 4 * HEADS + head) * 4 + slot % 4,
                            row = -1;
                    for (int64_t r = 0; r < 4; r++)
                        if (slots[r] == (double)slot) row = r;
                    uint32_t found = ((const unsigned char *)test.results[0].data)[line * DEPTH + e], expected = 0xA5;
                    if (row >= 0) {
                        double x = qf_load_f64(rows->dtype, rows->data, (row * HEADS + head) * DEPTH + e);
                        expected = qf_encode_f64(QF_F8E4M3FN, quantises ? x / (head ? 2 : 0.5) : x, true);
                    }
                    assert_int_equal(found, expected);
                }
        check_finish(&test);
    }
}

static void bad_slots_write_nothing(void **state) {
    (void)state;
    const double bad[] = {-2, 12, 1e14};
    for (int i = 0; i < 3; i++) {
        kernel_test test;
        check_start(&test, QF_OP_kv_cache_write);
        check_operand(&test, 0, QF_F32, SHAPE(3, 4, 1, 1), NULL);
        check_operand(&test, 1, QF_F32, SHAPE(1, 1, 1), NUMBERS(1));
        check_operand(&test, 2, QF_I64, SHAPE(1), &bad[i]);
        check_result(&test, 0, QF_F32, SHAPE(3, 4, 1, 1));
        check_refuses(&test, "slots[0]");
    }
    kernel_test test;
    check_start(&test, QF_OP_kv_cache_write);
    check_operand(&test, 0, QF_F8E4M3FN, SHAPE(3, 4, 1, 1), NULL);
    check_operand(&test, 1, QF_F32, SHAPE(1, 1, 1), NUMBERS(1));
    check_operand(&test, 2, QF_I64, SHAPE(1), NUMBERS(1));
    check_result(&test, 0, QF_F8E4M3FN, SHAPE(3, 4, 1, 1));
    check_refuses(&test, "one scale");
}

/* 39: the codes in a cache are of the cache's dtype, whichever that is. */
static void fault_39_the_type_says_the_code(void **state) {
    (void)state;
    for (qf_dtype dtype = QF_F8E4M3FN; dtype <= QF_F8E5M2; dtype++) {
        kernel_test test;
        check_start(&test, QF_OP_kv_cache_write);
        check_operand(&test, 0, dtype, SHAPE(1, 1, 1, 1), NULL);
        check_operand(&test, 1, QF_BF16, SHAPE(1, 1, 1), NUMBERS(1.75));
        check_operand(&test, 2, QF_I32, SHAPE(1), NUMBERS(0));
        check_operand(&test, 3, QF_F32, SCALAR, NUMBERS(0.5));
        check_result(&test, 0, dtype, SHAPE(1, 1, 1, 1));
        check_succeeds(&test);
        assert_int_equal(((const unsigned char *)test.results[0].data)[0], dtype == QF_F8E4M3FN ? 0x46 : 0x43);
        check_finish(&test);
    }
}

/* 58: positions past 2^31 bytes are computed in 64 bits: a cache of which only the pages in use are ever touched. */
static void fault_58_offsets_are_64_bits(void **state) {
    (void)state;
    const int64_t pages = 40000, page = 16, heads = 8, depth = 512; /* 2.4 GiB of e4m3 */
    kernel_test test;
    check_start(&test, QF_OP_kv_cache_write);
    qf_view cache = {QF_F8E4M3FN, 4, {pages, page, heads, depth}, NULL};
    cache.data = calloc(1, view_bytes(&cache)); /* untouched pages take no memory */
    if (!cache.data) skip();
    assert_true(view_bytes(&cache) > (size_t)INT32_MAX);
    test.operands[0] = cache;
    test.call.operand_count = 1;
    qf_view *rows = check_operand(&test, 1, QF_F8E4M3FN, SHAPE(1, heads, depth), NULL);
    memset(rows->data, 0x3C, view_bytes(rows));
    const double slot = (double)(pages * page - 1);
    check_operand(&test, 2, QF_I64, SHAPE(1), &slot);
    test.results[0] = cache;
    test.borrowed[0] = true;
    test.call.result_count = 1;
    check_succeeds(&test);
    const unsigned char *end = (const unsigned char *)cache.data + view_bytes(&cache);
    assert_int_equal(end[-1], 0x3C);
    assert_int_equal(end[-heads * depth], 0x3C);
    assert_int_equal(end[-heads * depth - 1], 0);

    kernel_test attend;
    check_start(&attend, QF_OP_paged_attention);
    attend.attributes[QF_ATTR(paged_attention, scale)].number = 1;
    const double zero = 0, last = (double)(pages - 1), length = (double)page;
    double scale = 1;
    check_operand(&attend, 0, QF_F32, SHAPE(1, heads, depth), NULL);
    memset(attend.operands[0].data, 0, view_bytes(&attend.operands[0]));
    for (uint32_t i = 1; i <= 2; i++) attend.operands[i] = cache;
    check_operand(&attend, QF_IN(paged_attention, block_table), QF_I32, SHAPE(1, 1), &last);
    check_operand(&attend, QF_IN(paged_attention, kv_lens), QF_I32, SHAPE(1), &length);
    check_operand(&attend, QF_IN(paged_attention, k_scale), QF_F32, SCALAR, &scale);
    check_operand(&attend, QF_IN(paged_attention, v_scale), QF_F32, SCALAR, &scale);
    check_result(&attend, 0, QF_F32, SHAPE(1, heads, depth));
    check_succeeds(&attend);
    /* Sixteen equal scores; one of the values is 1.5, fifteen are 0. */
    for (int64_t i = 0; i < heads * depth; i++) assert_true(result_at(&attend, 0, i) == 1.5 / 16 + zero);
    for (uint32_t i = 1; i <= 2; i++) attend.operands[i] = (qf_view){0};
    check_finish(&attend);
    check_finish(&test);
}

static void copy_operand(kernel_test *to, uint32_t operand, const qf_view *from) {
    shape dims = {from->rank, {0}};
    memcpy(dims.dims, from->dims, sizeof dims.dims);
    memcpy(check_operand(to, operand, from->dtype, dims, NULL)->data, from->data, view_bytes(from));
}

static void run_rope(kernel_test *step, const kernel_test *fused, uint32_t x) {
    shape dims = SHAPE(fused->operands[x].dims[0], fused->operands[x].dims[1], DEPTH);
    check_start(step, QF_OP_rope);
    step->attributes[QF_ATTR(rope, rotary_dim)].integer = 6;
    copy_operand(step, 0, &fused->operands[x]);
    copy_operand(step, 1, &fused->operands[3]);
    copy_operand(step, 2, &fused->operands[4]);
    check_result(step, 0, QF_BF16, dims);
    check_succeeds(step);
}

/* The fused op gives the bits of rope, quantize and two cache writes. */
static void the_fused_write_equals_its_parts(void **state) {
    (void)state;
    random_state random = {53};
    const double positions[] = {3, 8, 1}, slots[] = {5, -1, 2}, scale = 0.05;
    kernel_test fused, step, write;
    check_start(&fused, QF_OP_rope_quantize_cache_write);
    fused.attributes[QF_ATTR(rope_quantize_cache_write, rotary_dim)].integer = 6;
    check_random_operand(&fused, 0, QF_BF16, SHAPE(3, 4, DEPTH), &random, 1, 0);
    check_random_operand(&fused, 1, QF_BF16, SHAPE(3, 2, DEPTH), &random, 1, 0);
    check_random_operand(&fused, 2, QF_BF16, SHAPE(3, 2, DEPTH), &random, 1, 0);
    put_angles(check_operand(&fused, 3, QF_F32, SHAPE(10, 6), NULL), 6);
    check_operand(&fused, 4, QF_I64, SHAPE(3), positions);
    check_operand(&fused, 5, QF_I64, SHAPE(3), slots);
    check_operand(&fused, 6, QF_F8E4M3FN, SHAPE(2, 4, 2, DEPTH), NULL);
    check_operand(&fused, 7, QF_F8E5M2, SHAPE(2, 4, 2, DEPTH), NULL);
    for (uint32_t i = 8; i <= 10; i++) check_operand(&fused, i, QF_F32, SCALAR, &scale);
    check_result(&fused, 0, QF_F8E4M3FN, SHAPE(3, 4, DEPTH));
    check_result(&fused, 1, QF_F8E4M3FN, SHAPE(2, 4, 2, DEPTH));
    check_result(&fused, 2, QF_F8E5M2, SHAPE(2, 4, 2, DEPTH));
    check_succeeds(&fused);

    run_rope(&step, &fused, 0);
    for (int64_t i = 0; i < 3 * 4 * DEPTH; i++)
        assert_int_equal(
            ((const unsigned char *)fused.results[0].data)[i],
            qf_encode_f32(QF_F8E4M3FN, qf_load_f32(QF_BF16, step.results[0].data, i) / (float)scale, true));
    check_finish(&step);
    for (uint32_t cache = 0; cache < 2; cache++) {
        check_start(&write, QF_OP_kv_cache_write);
        copy_operand(&write, 0, &fused.operands[6 + cache]);
        if (cache == 0) {
            run_rope(&step, &fused, 1);
            copy_operand(&write, 1, &step.results[0]);
            check_finish(&step);
        } else {
            copy_operand(&write, 1, &fused.operands[2]);
        }
        copy_operand(&write, 2, &fused.operands[5]);
        check_operand(&write, 3, QF_F32, SCALAR, &scale);
        check_result(&write, 0, fused.operands[6 + cache].dtype, SHAPE(2, 4, 2, DEPTH));
        check_succeeds(&write);
        assert_memory_equal(write.results[0].data, fused.results[1 + cache].data, view_bytes(&write.results[0]));
        check_finish(&write);
    }
    check_finish(&fused);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotations_are_complex_products),
        cmocka_unit_test(positions_out_of_range_are_refused),
        cmocka_unit_test(fault_47_48_writes_go_to_their_slots_only),
        cmocka_unit_test(bad_slots_write_nothing),
        cmocka_unit_test(fault_39_the_type_says_the_code),
        cmocka_unit_test(fault_58_offsets_are_64_bits),
        cmocka_unit_test(the_fused_write_equals_its_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
