/* Owns: tests of every spelling of static FP8 quantisation behind an attention, and of those that must not fuse.
 * Does not own: spellings of attention itself (spellings.h).
 * Next: patterns/rules/quantise.rules. */
#include "tests/patterns/rewriting.h"

#define F16           "(%q: f16[B, 4, T, 8], %k: f16[B, 2, S, 8], %v: f16[B, 2, S, 8]"
#define BF16          "(%q: bf16[B, 4, T, 8], %k: bf16[B, 2, S, 8], %v: bf16[B, 2, S, 8]"
#define F32           "(%q: f32[B, 4, T, 8], %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 8]"
#define ATTENTION     ") {\n  %a = attention %q, %k, %v {scale=0.5}\n"
#define LOW(dtype)    "  %low = constant {value=" dtype "[] -448.0}\n"
#define HIGH(dtype)   "  %high = constant {value=" dtype "[] 448.0}\n"
#define BOUNDS(dtype) LOW(dtype) HIGH(dtype)
#define RETURN        "  return %y\n}\n"
#define CAST          "  %y = cast %c {dtype=f8E4M3FN}\n" RETURN

static void run(bench *b, const char *text) {
    bench_open(b, text);
    bench_run(b, "canonicalize");
    bench_run(b, "raise");
    bench_run(b, "fuse_attention_quant");
    assert_int_equal(qf_explain_misses(b->graph, &b->report), QF_OK);
}

static void fuses(const char *text, int mode, qf_dtype compute) {
    bench b;
    run(&b, text);
    qf_node node = bench_find(&b, QF_OP_attention);
    if (bench_integer(&b, node, QF_ATTR(attention, out)) != QF_F8E4M3FN) bench_print(&b);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, out)), QF_F8E4M3FN);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, out_mode)), mode);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, out_compute)), compute);
    QF_FOR_EACH_NODE(b.graph, other)
    assert_true(qf_node_op(b.graph, other) != QF_OP_cast && qf_node_op(b.graph, other) != QF_OP_clamp);
    bench_close(&b);
}

static void misses(const char *text, qf_reason reason) {
    bench b;
    run(&b, text);
    assert_int_equal(bench_integer(&b, bench_find(&b, QF_OP_attention), QF_ATTR(attention, out)), QF_DTYPE_NONE);
    assert_int_equal(b.report.miss_count, 1);
    assert_string_equal(qf_reason_code(b.report.misses[0].reason), qf_reason_code(reason));
    bench_close(&b);
}

static void fault_9_quantise_as_divide_clamp_cast(void **state) {
    (void)state;
    fuses(F32 ", %s: f32[]" ATTENTION BOUNDS("f32") "  %d = div %a, %s\n  %c = clamp %d, low=%low, high=%high\n" CAST,
          QF_VALUE_div, QF_F32);
    fuses(F16 ", %s: f16[1]" ATTENTION BOUNDS("f16") "  %d = div %a, %s\n  %c = clamp %d, low=%low, high=%high\n" CAST,
          QF_VALUE_div, QF_F16);
    fuses(BF16
          ", %s: bf16[]" ATTENTION BOUNDS("bf16") "  %d = div %a, %s\n  %c = clamp %d, low=%low, high=%high\n" CAST,
          QF_VALUE_div, QF_BF16);
    /* Through f32. */
    fuses(BF16 ", %s: f32[]" ATTENTION BOUNDS("f32") "  %w = cast %a {dtype=f32}\n  %d = div %w, %s\n"
                                                     "  %c = clamp %d, low=%low, high=%high\n" CAST,
          QF_VALUE_div, QF_F32);
    /* Widened between scaling and clamp, and narrowed there. */
    fuses(F16 ", %s: f16[]" ATTENTION BOUNDS("f32") "  %d = div %a, %s\n  %w = cast %d {dtype=f32}\n"
                                                    "  %c = clamp %w, low=%low, high=%high\n" CAST,
          QF_VALUE_div, QF_F16);
    fuses(BF16 ", %s: f32[]" ATTENTION BOUNDS(
              "bf16") "  %w = cast %a {dtype=f32}\n  %d = div %w, %s\n"
                      "  %n = cast %d {dtype=bf16}\n  %c = clamp %n, low=%low, high=%high\n" CAST,
          QF_VALUE_div, QF_F32);
    fuses(BF16 ", %s: f32[]" ATTENTION BOUNDS(
              "f32") "  %w = cast %a {dtype=f32}\n  %d = div %w, %s\n"
                     "  %m = clamp %d, low=%low, high=%high\n  %c = cast %m {dtype=bf16}\n" CAST,
          QF_VALUE_div, QF_F32);
}

static void fault_9_quantise_as_minimum_and_maximum(void **state) {
    (void)state;
    static const char *const clamps[] = {
        F32 ", %s: f32[]" ATTENTION BOUNDS(
            "f32") "  %d = div %a, %s\n  %m = maximum %d, %low\n  %c = minimum %m, %high\n" CAST,
        F32 ", %s: f32[]" ATTENTION BOUNDS(
            "f32") "  %d = div %a, %s\n  %m = minimum %d, %high\n  %c = maximum %m, %low\n" CAST,
        F32 ", %s: f32[]" ATTENTION BOUNDS(
            "f32") "  %d = div %a, %s\n  %m = maximum %low, %d\n  %c = minimum %high, %m\n" CAST,
        F32 ", %s: f32[]" ATTENTION BOUNDS(
            "f32") "  %d = div %a, %s\n  %m = minimum %high, %d\n  %c = maximum %low, %m\n" CAST,
        F32 ", %s: f32[]" ATTENTION BOUNDS(
            "f32") "  %d = div %a, %s\n  %m = clamp %d, low=%low\n  %c = clamp %m, high=%high\n" CAST,
        F32 ", %s: f32[]" ATTENTION BOUNDS(
            "f32") "  %d = div %a, %s\n  %m = clamp %d, high=%high\n  %c = maximum %m, %low\n" CAST,
        F32 ", %s: f32[]" ATTENTION "  %b0 = constant {value=f32[1, 1, 1, 1] [-448.0]}\n"
            "  %f = constant {value=f16[] 448.0}\n  %g = cast %f {dtype=f32}\n  %b1 = full %g {shape=[B, 4, T, 8]}\n"
            "  %d = div %a, %s\n  %m = maximum %d, %b0\n  %c = minimum %m, %b1\n" CAST,
    };
    for (size_t i = 0; i < QF_COUNT_OF(clamps); i++) fuses(clamps[i], QF_VALUE_div, QF_F32);
}

static void fault_9_reciprocals_stay_distinguishable(void **state) {
    (void)state;
    /* A reciprocal that the graph holds or computes elsewhere, from either side. */
    fuses(F32 ", %r: f32[]" ATTENTION BOUNDS("f32") "  %d = mul %a, %r\n  %c = clamp %d, low=%low, high=%high\n" CAST,
          QF_VALUE_mul, QF_F32);
    fuses(F16 ", %r: f16[]" ATTENTION BOUNDS("f16") "  %d = mul %r, %a\n  %c = clamp %d, low=%low, high=%high\n" CAST,
          QF_VALUE_mul, QF_F16);
    /* The f32 reciprocal of a scale. */
    fuses(F32 ", %s: f32[]" ATTENTION BOUNDS("f32") "  %r = reciprocal %s\n  %d = mul %a, %r\n"
                                                    "  %c = clamp %d, low=%low, high=%high\n" CAST,
          QF_VALUE_mul_recip, QF_F32);
    fuses(F32 ", %s: f32[]" ATTENTION BOUNDS("f32") "  %one = constant {value=f32[] 1.0}\n  %r = div %one, %s\n"
                                                    "  %d = mul %r, %a\n  %c = clamp %d, low=%low, high=%high\n" CAST,
          QF_VALUE_mul_recip, QF_F32);
    /* A bf16 reciprocal is another number than the f32 one. */
    fuses(BF16 ", %s: bf16[]" ATTENTION BOUNDS("bf16") "  %r = reciprocal %s\n  %d = mul %a, %r\n"
                                                       "  %c = clamp %d, low=%low, high=%high\n" CAST,
          QF_VALUE_mul, QF_BF16);
}

/* Spread over the tensor by expand, full or view, as compilers that have no implicit broadcasting write it. */
static void fault_9_scales_that_were_broadcast(void **state) {
    (void)state;
    fuses(F32 ", %s: f32[]" ATTENTION BOUNDS(
              "f32") "  %e = expand %s {shape=[B, 4, T, 8]}\n  %d = div %a, %e\n"
                     "  %low2 = expand %low {shape=[B, 4, T, 8]}\n  %c = clamp %d, low=%low2, high=%high\n" CAST,
          QF_VALUE_div, QF_F32);
    fuses(F32 ", %s: f32[1]" ATTENTION "  %e = view %s {shape=[1, 1, 1, 1]}\n  %c = mul %e, %a\n" CAST, QF_VALUE_mul,
          QF_F32);
    fuses(F32 ", %s: f32[]" ATTENTION
              "  %r = reciprocal %s\n  %e = full %r {shape=[B, 4, T, 8]}\n  %c = mul %a, %e\n" CAST,
          QF_VALUE_mul_recip, QF_F32);
}

/* The cast saturates by itself: the clamp may be missing. */
static void fault_37_a_saturating_cast_needs_no_clamp(void **state) {
    (void)state;
    fuses(F32 ", %s: f32[]" ATTENTION "  %c = div %a, %s\n" CAST, QF_VALUE_div, QF_F32);
    fuses(F32 ", %s: f32[]" ATTENTION "  %c = mul %a, %s\n" CAST, QF_VALUE_mul, QF_F32);
    misses(F32 ", %s: f32[]" ATTENTION "  %c = div %a, %s\n  %y = cast %c {dtype=f8E4M3FN, saturate=false}\n" RETURN,
           QF_REASON_unsaturated);
    /* With exact bounds an unsaturated cast is right as well. */
    fuses(F32 ", %s: f32[]" ATTENTION BOUNDS("f32") "  %d = div %a, %s\n  %c = clamp %d, low=%low, high=%high\n"
                                                    "  %y = cast %c {dtype=f8E4M3FN, saturate=false}\n" RETURN,
          QF_VALUE_div, QF_F32);
}

static void fault_25_other_clamp_bounds_are_refused(void **state) {
    (void)state;
#define CLAMPED(low, high)                                                                                             \
    F32 ", %s: f32[]" ATTENTION "  %low = constant {value=f32[] " low "}\n  %high = constant {value=f32[] " high "}\n" \
        "  %d = div %a, %s\n  %c = clamp %d, low=%low, high=%high\n" CAST
    misses(CLAMPED("-447.0", "447.0"), QF_REASON_clamp_bounds);
    misses(CLAMPED("-240.0", "240.0"), QF_REASON_clamp_bounds);
    misses(CLAMPED("-448.0", "447.0"), QF_REASON_clamp_bounds);
    misses(CLAMPED("-57344.0", "57344.0"), QF_REASON_clamp_bounds);
    misses(CLAMPED("0.0", "448.0"), QF_REASON_clamp_bounds);
    /* One-sided, and bounds that are not known. */
    misses(F32 ", %s: f32[]" ATTENTION HIGH("f32") "  %d = div %a, %s\n  %c = minimum %d, %high\n" CAST,
           QF_REASON_clamp_bounds);
    misses(F32 ", %s: f32[], %low: f32[], %high: f32[]" ATTENTION
               "  %d = div %a, %s\n  %c = clamp %d, low=%low, high=%high\n" CAST,
           QF_REASON_clamp_bounds);
}

static void fault_33_a_bare_cast_is_no_quantise(void **state) {
    (void)state;
    misses(F32 ATTENTION "  %y = cast %a {dtype=f8E4M3FN}\n" RETURN, QF_REASON_no_scale);
    misses(F32 ATTENTION LOW("f32") "  %high = constant {value=f32[] 440.0}\n"
                                    "  %c = clamp %a, low=%low, high=%high\n" CAST,
           QF_REASON_no_scale);
}

/* Saturated by the clamp, so the codes are those of a scale of one. */
static void a_clamp_and_a_cast_quantise_by_one(void **state) {
    (void)state;
    fuses(F32 ATTENTION BOUNDS("f32") "  %c = clamp %a, low=%low, high=%high\n" CAST, QF_VALUE_div, QF_F32);
    fuses(BF16 ATTENTION BOUNDS("bf16") "  %c = clamp %a, low=%low, high=%high\n" CAST, QF_VALUE_div, QF_F32);
}

static void what_changes_the_numbers_between_has_its_reason(void **state) {
    (void)state;
    misses(F32 ", %s: f32[], %g: f32[B, 4, T, 8]" ATTENTION
               "  %m = mul %a, %g\n  %y = quantize %m, %s {dtype=f8E4M3FN}\n" RETURN,
           QF_REASON_op_between);
}

static void scales_by_channel_have_their_reason(void **state) {
    (void)state;
    misses(F32 ", %s: f32[8]" ATTENTION BOUNDS("f32") "  %d = div %a, %s\n  %c = clamp %d, low=%low, high=%high\n" CAST,
           QF_REASON_scale_granularity);
}

/* x / x-dependent scale, spelled out. */
static void fault_35_a_computed_scale_is_dynamic(void **state) {
    (void)state;
    misses(F32 ATTENTION BOUNDS(
               "f32") "  %m = abs %a\n  %r = reduce_max %m {axes=[0, 1, 2, 3], keep=false}\n"
                      "  %s = div %r, %high\n  %d = div %a, %s\n  %c = clamp %d, low=%low, high=%high\n" CAST,
           QF_REASON_dynamic_scale);
}

static void fault_68_quantise_twice_is_once(void **state) {
    (void)state;
    bench b;
    run(&b, F16 ", %s: f32[], %t: f32[]" ATTENTION
                "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  %d = dequantize %y, %s {dtype=f16}\n"
                "  %p = permute %d {order=[0, 2, 1, 3]}\n  %z = quantize %p, %s {dtype=f8E4M3FN}\n"
                "  %e = dequantize %z, %t {dtype=f16}\n  return %z, %d, %e\n}\n");
    assert_int_equal(bench_count(&b, QF_OP_quantize), 0);
    assert_int_equal(bench_count(&b, QF_OP_dequantize), 2);
    assert_int_equal(bench_integer(&b, bench_find(&b, QF_OP_attention), QF_ATTR(attention, out)), QF_F8E4M3FN);
    bench_close(&b);
    /* Different scales: the first fuses, the second stays. */
    run(&b, F16 ", %s: f32[], %t: f32[]" ATTENTION
                "  %y = quantize %a, %s {dtype=f8E4M3FN}\n  %d = dequantize %y, %s {dtype=f16}\n"
                "  %z = quantize %d, %t {dtype=f8E4M3FN}\n  return %z\n}\n");
    assert_int_equal(bench_count(&b, QF_OP_quantize), 1);
    assert_int_equal(bench_integer(&b, bench_find(&b, QF_OP_attention), QF_ATTR(attention, out)), QF_F8E4M3FN);
    bench_close(&b);
    /* Equal constants are equal scales; in class exact only where no code can get lost. */
    run(&b, "(%x: f8E4M3FN[B, 8]) {\n  %s = constant {value=f32[] 0.125}\n  %t = constant {value=f32[] 0.125}\n"
            "  %d = dequantize %x, %s {dtype=f32}\n  %z = quantize %d, %t {dtype=f8E4M3FN}\n  return %z\n}\n");
    assert_int_equal(bench_count(&b, QF_OP_quantize), 1); /* nothing says how %x was quantised */
    bench_close(&b);
    static const char *const scales[] = {"0.125", "1e-40"};
    for (int i = 0; i < 2; i++) {
        char text[512];
        (void)snprintf(
            text, sizeof text,
            "(%%x: f32[B, 8]) {\n  %%s = constant {value=f32[] %s}\n  %%q = quantize %%x, %%s {dtype=f8E4M3FN}\n"
            "  %%d = dequantize %%q, %%s {dtype=f32}\n  %%z = quantize %%d, %%s {dtype=f8E4M3FN}\n"
            "  return %%z\n}\n",
            scales[i]);
        bench_open(&b, text);
        b.options.numerics = QF_NUMERICS_EXACT;
        bench_run(&b, "raise");
        assert_int_equal(bench_count(&b, QF_OP_quantize), i == 0 ? 1 : 2);
        bench_close(&b);
    }
}

/* The fused attention is the same, whichever op or ops of whichever producer asked for the quantisation. */
static void fault_10_the_spelling_leaves_no_trace(void **state) {
    (void)state;
    static const char *const spellings[] = {
        F32 ", %s: f32[]" ATTENTION "  %y = quantize %a, %s {dtype=f8E4M3FN}\n" RETURN,
        F32 ", %s: f32[]" ATTENTION "  %c = div %a, %s\n" CAST,
        F32 ", %s: f32[]" ATTENTION BOUNDS("f32") "  %d = div %a, %s\n  %c = clamp %d, low=%low, high=%high\n" CAST,
        F32 ", %s: f32[]" ATTENTION BOUNDS("f32") "  %d = div %a, %s\n  %m = minimum %high, %d\n"
                                                  "  %c = maximum %m, %low\n" CAST,
    };
    char first[512] = "";
    for (size_t i = 0; i < QF_COUNT_OF(spellings); i++) {
        bench b;
        run(&b, spellings[i]);
        qf_node node = bench_find(&b, QF_OP_attention);
        qf_node_at(b.graph, node)->location = (qf_location){0};
        qf_node_at(b.graph, node)->tag = 1;
        qf_buffer text = {.context = b.context};
        qf_node_print(&text, b.graph, node);
        if (i == 0) (void)snprintf(first, sizeof first, "%s", text.data);
        assert_string_equal(text.data, first);
        qf_buffer_destroy(&text);
        bench_close(&b);
    }
}

/* Every pure node twice, and each reader takes the other copy. */
static void fault_7_duplicates_match(void **state) {
    (void)state;
    bench b;
    bench_open(&b,
               "(%x: f32[A, 8]) {\n  %g, %u = split %x {axis=1, sizes=[4, 4]}\n"
               "  %g2, %u2 = split %x {axis=1, sizes=[4, 4]}\n  %s = silu %g\n  %y = mul %s, %u2\n  return %y\n}\n");
    bench_run(&b, "raise");
    assert_int_equal(bench_count(&b, QF_OP_silu_mul), 1);
    bench_close(&b);
    bench_open(&b, "(%x: f32[A, 8], %s: f32[]) {\n  %i = constant {value=f32[] 0.001}\n"
                   "  %a = mul %x, %x\n  %m = reduce_mean %a {axes=[1]}\n  %e = add %i, %m\n  %r = rsqrt %e\n"
                   "  %n = neg %x\n  %n2 = neg %n\n  %y = mul %r, %n2\n  return %y\n}\n");
    bench_run(&b, "canonicalize");
    bench_run(&b, "raise");
    assert_int_equal(bench_count(&b, QF_OP_rms_norm), 1);
    bench_close(&b);
}

static void norms_are_raised(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "(%x: f16[A, 3, 8], %r: f16[A, 3, 8], %w: f16[8]) {\n  %i = constant {value=f32[] 0.001}\n"
                   "  %two = constant {value=f32[] 2.0}\n  %one = constant {value=f32[] 1.0}\n"
                   "  %h = add %x, %r\n  %f = cast %h {dtype=f32}\n  %p = pow %f, %two\n"
                   "  %m = reduce_mean %p {axes=[2]}\n  %e = add %m, %i\n  %q = sqrt %e\n  %v = div %one, %q\n"
                   "  %n = mul %f, %v\n  %c = cast %n {dtype=f16}\n  %y = mul %w, %c\n  return %y, %h\n}\n");
    bench_run(&b, "raise");
    qf_node node = bench_find(&b, QF_OP_add_rms_norm);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(add_rms_norm, axis)), 2);
    assert_int_equal(bench_count(&b, QF_OP_add), 0);
    assert_int_equal(bench_count(&b, QF_OP_mul), 0);
    bench_close(&b);
    /* Another axis, and another tensor under the root, are no norm of x. */
    bench_open(&b, "(%x: f32[A, 3, 8], %z: f32[A, 3, 8]) {\n  %i = constant {value=f32[] 0.001}\n  %p = mul %x, %x\n"
                   "  %m = reduce_mean %p {axes=[1]}\n  %e = add %m, %i\n  %q = rsqrt %e\n  %n = mul %x, %q\n"
                   "  %m2 = reduce_mean %p {axes=[2]}\n  %e2 = add %m2, %i\n  %q2 = rsqrt %e2\n  %n2 = mul %z, %q2\n"
                   "  return %n, %n2\n}\n");
    bench_run(&b, "raise");
    assert_int_equal(bench_count(&b, QF_OP_rms_norm), 0);
    bench_close(&b);
}

static void fault_75_a_scale_belongs_to_its_side_of_the_quantise(void **state) {
    (void)state;
    bench b;
    bench_open(&b,
               "(%q8: f8E4M3FN[B, 4, T, 8], %k8: f8E4M3FN[B, S, 2, 8], %v: f32[B, 2, S, 8], %s: f32[], %t: f32[]) {\n"
               "  %c = constant {value=f32[] 0.3}\n  %d = dequantize %q8, %s {dtype=f32}\n  %q = mul %c, %d\n"
               "  %e = dequantize %k8, %t {dtype=f32}\n  %k = permute %e {order=[0, 2, 1, 3]}\n"
               "  %a = attention %q, %k, %v {scale=0.5}\n  return %a\n}\n");
    bench_run(&b, "raise");
    bench_run(&b, "fold_scales");
    bench_run(&b, "attention_operands");
    qf_node node = bench_find(&b, QF_OP_attention);
    assert_true(qf_node_attribute(b.graph, node, QF_ATTR(attention, scale))->number == 0.5 * (double)0.3F);
    assert_int_equal(qf_value_dtype(b.graph, qf_node_operand(b.graph, node, QF_IN(attention, q))), QF_F8E4M3FN);
    assert_int_equal(qf_value_dtype(b.graph, qf_node_operand(b.graph, node, QF_IN(attention, k))), QF_F8E4M3FN);
    assert_true(qf_node_operand(b.graph, node, QF_IN(attention, q_scale)).id);
    assert_true(qf_node_operand(b.graph, node, QF_IN(attention, k_scale)).id);
    assert_int_equal(bench_integer(&b, node, QF_ATTR(attention, out)), QF_F32);
    assert_int_equal(bench_count(&b, QF_OP_dequantize), 0);
    bench_close(&b);
    /* In front of the quantise it is the producer's. */
    bench_open(&b, "(%x: f32[B, 4, T, 8], %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 8], %s: f32[]) {\n"
                   "  %c = constant {value=f32[] 0.3}\n  %m = mul %x, %c\n  %q = quantize %m, %s {dtype=f8E4M3FN}\n"
                   "  %a = attention %q, %k, %v, q_scale=%s {scale=0.5, out=f32}\n  return %a\n}\n");
    bench_run(&b, "fold_scales");
    assert_false(b.changed);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_7_duplicates_match),
        cmocka_unit_test(fault_9_quantise_as_divide_clamp_cast),
        cmocka_unit_test(fault_9_quantise_as_minimum_and_maximum),
        cmocka_unit_test(fault_9_reciprocals_stay_distinguishable),
        cmocka_unit_test(fault_9_scales_that_were_broadcast),
        cmocka_unit_test(fault_10_the_spelling_leaves_no_trace),
        cmocka_unit_test(fault_25_other_clamp_bounds_are_refused),
        cmocka_unit_test(fault_33_a_bare_cast_is_no_quantise),
        cmocka_unit_test(a_clamp_and_a_cast_quantise_by_one),
        cmocka_unit_test(what_changes_the_numbers_between_has_its_reason),
        cmocka_unit_test(fault_35_a_computed_scale_is_dynamic),
        cmocka_unit_test(fault_37_a_saturating_cast_needs_no_clamp),
        cmocka_unit_test(fault_68_quantise_twice_is_once),
        cmocka_unit_test(fault_75_a_scale_belongs_to_its_side_of_the_quantise),
        cmocka_unit_test(scales_by_channel_have_their_reason),
        cmocka_unit_test(norms_are_raised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
