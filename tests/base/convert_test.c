/* Owns: tests of base/convert.h: every code, every midpoint, against a slow search over the values of all codes.
 * Does not own: scales (tests/kernels/quantise_test.c).
 * Next: base/convert.h. */
#include "tests/check.h"

#include <math.h>

#include "base/convert.h"

/* The formats once more, from their definitions (OCP OFP8, OCP MX, the FNUZ paper, IEEE 754), with ldexp. */
typedef struct definition {
    qf_dtype dtype;
    uint32_t exponent_bits, mantissa_bits;
    int32_t bias;
    bool infinity, unsigned_zero, nan_is_all_ones, has_nan;
} definition;

static const definition definitions[] = {
    {QF_F16, 5, 10, 15, true, false, false, true},      {QF_BF16, 8, 7, 127, true, false, false, true},
    {QF_F8E4M3FN, 4, 3, 7, false, false, true, true},   {QF_F8E5M2, 5, 2, 15, true, false, false, true},
    {QF_F8E4M3FNUZ, 4, 3, 8, false, true, false, true}, {QF_F8E5M2FNUZ, 5, 2, 16, false, true, false, true},
    {QF_F4E2M1FN, 2, 1, 1, false, false, false, false},
};

static double defined_value(const definition *format, uint32_t code) {
    uint32_t m = format->mantissa_bits, e = format->exponent_bits;
    uint32_t mantissa = code & ((1u << m) - 1), exponent = code >> m & ((1u << e) - 1);
    bool negative = code >> (m + e) & 1;
    if (format->unsigned_zero && negative && !mantissa && !exponent) return NAN;
    if (format->nan_is_all_ones && exponent == (1u << e) - 1 && mantissa == (1u << m) - 1) return NAN;
    if (format->infinity && exponent == (1u << e) - 1) return mantissa ? NAN : negative ? -INFINITY : INFINITY;
    double value = exponent ? ldexp(1.0 + ldexp(mantissa, -(int)m), (int)exponent - format->bias)
                            : ldexp(mantissa, 1 - format->bias - (int)m);
    return negative ? -value : value;
}

static uint32_t code_count(const definition *format) {
    return 1u << (1 + format->exponent_bits + format->mantissa_bits);
}

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void every_code_decodes_to_its_definition_and_back(void **state) {
    (void)state;
    for (size_t f = 0; f < QF_COUNT_OF(definitions); f++) {
        for (uint32_t code = 0; code < code_count(&definitions[f]); code++) {
            double value = defined_value(&definitions[f], code), decoded = qf_decode(definitions[f].dtype, code);
            if (!same(value, decoded))
                fail_msg("%s code %#x: %a, not %a", qf_dtype_name(definitions[f].dtype), code, decoded, value);
            for (int saturate = 0; saturate < 2; saturate++) {
                uint32_t again = qf_encode_f64(definitions[f].dtype, value, saturate);
                if (isnan(value)) {
                    assert_true(isnan(qf_decode(definitions[f].dtype, again)));
                } else if (isinf(value) && saturate && qf_dtype_is_float8(definitions[f].dtype)) {
                    assert_true(fabs(qf_decode(definitions[f].dtype, again)) == qf_dtype_largest(definitions[f].dtype));
                } else {
                    assert_int_equal(again, code);
                }
                assert_int_equal(qf_encode_f32(definitions[f].dtype, (float)value, saturate), again);
            }
        }
    }
}

/* The non-negative finite values of a format, ascending with their codes. */
static double ladder[1 << 15];
static uint32_t ladder_count;

static void climb(const definition *format) {
    ladder_count = 0;
    for (uint32_t code = 0; code < code_count(format) / 2 && isfinite(defined_value(format, code)); code++)
        ladder[ladder_count++] = defined_value(format, code);
}

/* Nearest by search on the ladder, extended by one imaginary step: who lands there has overflowed. A tie goes to the
 * even code. */
static double slow_round(const definition *format, double number, bool saturate) {
    double magnitude = fabs(number), largest = ladder[ladder_count - 1];
    double past = largest + (largest - ladder[ladder_count - 2]), best;
    bool clips = format->dtype == QF_F4E2M1FN || (saturate && qf_dtype_is_float8(format->dtype));
    if (isnan(number)) return format->has_nan ? NAN : 6.0;
    uint32_t low = 0, high = ladder_count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (ladder[middle] <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double above = low + 1 < ladder_count ? ladder[low + 1] : past;
    double down = magnitude - ladder[low], up = above - magnitude;
    bool takes_above = down > up || (down == up && (low & 1));
    if (!takes_above)
        best = ladder[low];
    else if (low + 1 < ladder_count || clips)
        best = ladder[low + 1 < ladder_count ? low + 1 : low];
    else
        best = format->infinity ? INFINITY : NAN;
    if (format->unsigned_zero && best == 0.0) return 0.0;
    return copysign(best, number);
}

static void check_number(const definition *format, double number) {
    for (int saturate = 0; saturate < 2; saturate++) {
        double expected = slow_round(format, number, saturate);
        double found = qf_decode(format->dtype, qf_encode_f64(format->dtype, number, saturate));
        if (!same(expected, found))
            fail_msg("%s(%a, saturate %d) is %a, not %a", qf_dtype_name(format->dtype), number, saturate, found,
                     expected);
        float single = (float)number;
        expected = slow_round(format, (double)single, saturate);
        found = qf_decode(format->dtype, qf_encode_f32(format->dtype, single, saturate));
        if (!same(expected, found))
            fail_msg("%s(%af, saturate %d) is %a, not %a", qf_dtype_name(format->dtype), (double)single, saturate,
                     found, expected);
    }
}

static void check_around(const definition *format, double number) {
    for (int sign = 0; sign < 2; sign++, number = -number) {
        check_number(format, number);
        check_number(format, nextafter(number, INFINITY));
        check_number(format, nextafter(number, -INFINITY));
        check_number(format, (double)nextafterf((float)number, INFINITY));
        check_number(format, (double)nextafterf((float)number, -INFINITY));
    }
}

static void every_midpoint_and_its_neighbours_round_to_nearest_even(void **state) {
    (void)state;
    for (size_t f = 0; f < QF_COUNT_OF(definitions); f++) {
        const definition *format = &definitions[f];
        climb(format);
        for (uint32_t i = 0; i < ladder_count; i++) {
            double next = i + 1 < ladder_count ? ladder[i + 1] : 2 * ladder[i] - ladder[i - 1];
            check_around(format, ladder[i]);
            check_around(format, ladder[i] + (next - ladder[i]) / 2);
        }
        const double special[] = {0.0,      1e-300, 5e-324, 1e300, 1e38, 3.4028235677973366e38,
                                  INFINITY, NAN,    447.0,  464.0, 480.0};
        for (size_t i = 0; i < QF_COUNT_OF(special); i++) check_around(format, special[i]);
    }
}

static void fault_37_saturation_and_nan(void **state) {
    (void)state;
    assert_int_equal(qf_encode_f32(QF_F8E4M3FN, 1e30f, true), 0x7E);
    assert_int_equal(qf_encode_f32(QF_F8E4M3FN, -INFINITY, true), 0xFE);
    assert_int_equal(qf_encode_f32(QF_F8E4M3FN, 464.0f, false), 0x7E);
    assert_int_equal(qf_encode_f32(QF_F8E4M3FN, 464.1f, false), 0x7F);
    assert_int_equal(qf_encode_f32(QF_F8E4M3FN, 464.1f, true), 0x7E);
    assert_int_equal(qf_encode_f32(QF_F8E5M2, 61440.0f, false), 0x7C);
    assert_int_equal(qf_encode_f32(QF_F8E5M2, 61439.0f, false), 0x7B);
    assert_int_equal(qf_encode_f32(QF_F8E5M2, INFINITY, true), 0x7B);
    assert_int_equal(qf_encode_f32(QF_F8E5M2, -INFINITY, false), 0xFC);
    assert_int_equal(qf_encode_f32(QF_F8E4M3FNUZ, NAN, true), 0x80);
    assert_int_equal(qf_encode_f32(QF_F8E4M3FNUZ, -0.0f, true), 0);
    assert_int_equal(qf_encode_f32(QF_F8E5M2FNUZ, -INFINITY, false), 0x80);
    assert_int_equal(qf_encode_f32(QF_F8E5M2FNUZ, -INFINITY, true), 0xFF);
    assert_int_equal(qf_encode_f32(QF_F4E2M1FN, NAN, true), 7);
    assert_int_equal(qf_encode_f32(QF_F4E2M1FN, -INFINITY, false), 0xF);
    assert_true(isnan(qf_decode(QF_F8E4M3FN, qf_encode_f32(QF_F8E4M3FN, NAN, true))));
    assert_true(isnan(qf_decode(QF_F8E5M2, qf_encode_f32(QF_F8E5M2, NAN, true))));
}

static void fault_40_fnuz_is_half_of_fn(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 0x7F; code++)
        assert_true(qf_decode(QF_F8E4M3FN, code) == 2.0 * qf_decode(QF_F8E4M3FNUZ, code));
}

static void rounding_is_single(void **state) {
    (void)state;
    /* Through f32 these would round to a tie first and then the wrong way. */
    assert_int_equal(qf_encode_f64(QF_F8E4M3FN, 1.0625 + 0x1p-40, true), 0x39);
    assert_int_equal(qf_encode_f64(QF_F16, 1.0 + 0x1p-11 + 0x1p-40, true), 0x3C01);
    assert_int_equal(qf_encode_f64(QF_BF16, 1.0 + 0x1p-8 + 0x1p-50, true), 0x3F81);
    unsigned char bytes[8];
    qf_store_i64(QF_BF16, bytes, 0, ((int64_t)257 << 54) + 1); /* past 53 bits */
    assert_true(qf_load_f64(QF_BF16, bytes, 0) == ldexp(258.0, 54));
    qf_store_i64(QF_BF16, bytes, 0, (int64_t)257 << 54);
    assert_true(qf_load_f64(QF_BF16, bytes, 0) == ldexp(256.0, 54));
    qf_store_i64(QF_F32, bytes, 0, INT64_MIN);
    assert_true(qf_load_f64(QF_F32, bytes, 0) == -0x1p63);
}

static void e8m0_holds_powers_of_two(void **state) {
    (void)state;
    for (int code = 0; code < 255; code++) {
        double value = ldexp(1.0, code - 127);
        assert_true(qf_decode(QF_F8E8M0FNU, (uint32_t)code) == value);
        assert_int_equal(qf_encode_f64(QF_F8E8M0FNU, value, false), code);
        if (code == 254) break;
        assert_int_equal(qf_encode_f64(QF_F8E8M0FNU, value * 1.49, false), code);
        assert_int_equal(qf_encode_f64(QF_F8E8M0FNU, value * 1.5, false), code + (code & 1));
        assert_int_equal(qf_encode_f64(QF_F8E8M0FNU, value * 1.51, false), code + 1);
    }
    assert_true(isnan(qf_decode(QF_F8E8M0FNU, 255)));
    assert_int_equal(qf_encode_f64(QF_F8E8M0FNU, 0.0, false), 0);
    assert_int_equal(qf_encode_f64(QF_F8E8M0FNU, -1.0, true), 255);
    assert_int_equal(qf_encode_f64(QF_F8E8M0FNU, NAN, true), 255);
    assert_int_equal(qf_encode_f64(QF_F8E8M0FNU, 1e300, true), 254);
    assert_int_equal(qf_encode_f64(QF_F8E8M0FNU, INFINITY, false), 255);
}

static void integers_truncate_clamp_and_wrap(void **state) {
    (void)state;
    const float numbers[] = {1.9f, -1.9f, 300.0f, -300.0f, NAN, INFINITY, -INFINITY, 0.0f};
    int8_t bytes[8];
    uint8_t unsigned_bytes[8];
    int32_t words[8];
    int64_t wides[8];
    uint8_t truths[8];
    qf_convert_array(QF_I8, bytes, QF_F32, numbers, 8, true);
    qf_convert_array(QF_U8, unsigned_bytes, QF_F32, numbers, 8, true);
    qf_convert_array(QF_I32, words, QF_F32, numbers, 8, true);
    qf_convert_array(QF_I64, wides, QF_F32, numbers, 8, true);
    qf_convert_array(QF_I1, truths, QF_F32, numbers, 8, true);
    const int8_t expected_bytes[] = {1, -1, 127, -128, 0, 127, -128, 0};
    const uint8_t expected_unsigned[] = {1, 0, 255, 0, 0, 255, 0, 0}, expected_truths[] = {1, 1, 1, 1, 1, 1, 1, 0};
    const int32_t expected_words[] = {1, -1, 300, -300, 0, INT32_MAX, INT32_MIN, 0};
    const int64_t expected_wides[] = {1, -1, 300, -300, 0, INT64_MAX, INT64_MIN, 0};
    assert_memory_equal(bytes, expected_bytes, 8);
    assert_memory_equal(unsigned_bytes, expected_unsigned, 8);
    assert_memory_equal(words, expected_words, 32);
    assert_memory_equal(wides, expected_wides, 64);
    assert_memory_equal(truths, expected_truths, 8);
    const int64_t large[] = {0x1FF, -1, (int64_t)1 << 40, 5};
    qf_convert_array(QF_U8, unsigned_bytes, QF_I64, large, 4, true);
    qf_convert_array(QF_I32, words, QF_I64, large, 4, true);
    qf_convert_array(QF_I1, truths, QF_I64, large, 4, true);
    assert_int_equal(unsigned_bytes[0], 255);
    assert_int_equal(unsigned_bytes[1], 255);
    assert_int_equal(unsigned_bytes[2], 0);
    assert_int_equal(words[2], 0);
    assert_int_equal(words[1], -1);
    assert_int_equal(truths[2], 1);
}

static void packed_f4_arrays(void **state) {
    (void)state;
    const float numbers[] = {0.5f, -1.0f, 6.0f, 2.5f, 1e9f};
    unsigned char packed[3] = {0xAA, 0xAA, 0xAA};
    float back[5];
    qf_convert_array(QF_F4E2M1FN, packed, QF_F32, numbers, 5, true);
    assert_int_equal(packed[0], 0xA1);
    assert_int_equal(packed[1], 0x47);
    assert_int_equal(packed[2], 0xA7); /* the half past the end is kept */
    qf_load_array_f32(QF_F4E2M1FN, packed, 1, 4, back);
    assert_true(back[0] == -1.0f && back[1] == 6.0f && back[2] == 2.0f && back[3] == 6.0f);
}

static void arrays_agree_with_elements(void **state) {
    (void)state;
    unsigned char bytes[256];
    for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)(i * 37 + 11);
    for (qf_dtype dtype = QF_F32; dtype <= QF_F64; dtype++) {
        int64_t count = (int64_t)(250 * 8 / qf_dtype_bits(dtype)) - 1;
        float singles[512];
        double doubles[512];
        int64_t integers[512];
        qf_load_array_f32(dtype, bytes, 1, count, singles);
        qf_load_array_f64(dtype, bytes, 1, count, doubles);
        qf_load_array_i64(dtype, bytes, 1, count, integers);
        for (int64_t i = 0; i < count; i++) {
            assert_true(same((double)singles[i], (double)qf_load_f32(dtype, bytes, i + 1)));
            assert_true(same(doubles[i], qf_load_f64(dtype, bytes, i + 1)));
            assert_int_equal(integers[i], qf_load_i64(dtype, bytes, i + 1));
        }
        unsigned char whole[256] = {0}, single[256] = {0};
        qf_store_array_f32(dtype, whole, 1, count, singles, true);
        for (int64_t i = 0; i < count; i++) qf_store_f32(dtype, single, i + 1, singles[i], true);
        assert_memory_equal(whole, single, sizeof whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_decodes_to_its_definition_and_back),
        cmocka_unit_test(every_midpoint_and_its_neighbours_round_to_nearest_even),
        cmocka_unit_test(fault_37_saturation_and_nan),
        cmocka_unit_test(fault_40_fnuz_is_half_of_fn),
        cmocka_unit_test(rounding_is_single),
        cmocka_unit_test(e8m0_holds_powers_of_two),
        cmocka_unit_test(integers_truncate_clamp_and_wrap),
        cmocka_unit_test(packed_f4_arrays),
        cmocka_unit_test(arrays_agree_with_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
