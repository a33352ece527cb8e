/* Owns: tests of which masks become attributes, and which stay operands.
 * Does not own: the other parts of an attention (attention_test.c).
 * Next: patterns/mask.h. */
#include "tests/patterns/raising.h"
#include "tests/patterns/spellings.h"

#define ATTR(name)             QF_ATTR(attention, name)
#define IN_(name)              QF_IN(attention, name)
#define INTEGER(b, node, name) bench_integer((b), (node), ATTR(name))
#define CAUSAL_SELECT          "  %c = less_equal %j, %i\n" NUMBER("f", "-inf") "  %l = where %c, %s, %f\n"

static const char *const plain = SCORES "  %p = softmax %s {axis=3}\n" VALUES;

typedef struct limits {
    bool causal, top_left;
    int64_t left, right;
    bool mask, bias;
} limits;

static void expect_limits(const char *inputs, const char *body, limits want) {
    bench b;
    raise_body(&b, inputs, body);
    qf_node node = raised(&b);
    limits found = {INTEGER(&b, node, causal) != 0,   INTEGER(&b, node, align) == QF_VALUE_top_left,
                    INTEGER(&b, node, window_left),   INTEGER(&b, node, window_right),
                    has_operand(&b, node, IN_(mask)), has_operand(&b, node, IN_(bias))};
    bool same = found.causal == want.causal && found.top_left == want.top_left && found.left == want.left &&
                found.right == want.right && found.mask == want.mask && found.bias == want.bias;
    if (!same) {
        bench_print(&b);
        fail_msg("found causal=%d top_left=%d left=%d right=%d mask=%d bias=%d", found.causal, found.top_left,
                 (int)found.left, (int)found.right, found.mask, found.bias);
    }
    bench_close(&b);
}

static void fault_19_either_order(void **state) {
    (void)state;
    limits bias = {false, false, -1, -1, false, true};
    expect_limits(QKV ", %w: f32[4, T, S]", SCORES "  %l = add %w, %s\n" SOFTMAX VALUES, bias);
    expect_limits(QKV ", %w: f32[4, T, S]", SCORES "  %l = add %s, %w\n" SOFTMAX VALUES, bias);
}

static void fault_20_causal_spellings(void **state) {
    (void)state;
    limits causal = {true, false, -1, -1, false, false};
    const char *ends[] = {
        INDICES("T", "T") CAUSAL_SELECT,
        INDICES("T", "T") "  %c = less %i, %j\n" NUMBER("f", "-3.4028235e38") "  %l = where %c, %f, %s\n",
        INDICES("T", "T") "  %c = greater_equal %i, %j\n" NUMBER("f", "-1e4")
            NUMBER("z", "0.0") "  %a = where %c, %z, %f\n"
                               "  %l = add %a, %s\n",
        INDICES("T", "T") "  %c = greater_equal %i, %j\n  %x = cast %c {dtype=f32}\n" NUMBER("one", "1.0")
            NUMBER("f", "-3.4028235e38") "  %n = sub %one, %x\n  %a = mul %n, %f\n  %l = add %s, %a\n",
        NUMBER(
            "f",
            "-inf") "  %a = full %f {shape=[T, T]}\n  %u = triangle %a {upper=true, diagonal=1}\n  %l = add %s, %u\n",
        "  %true = constant {value=i1[] true}\n  %a = full %true {shape=[T, T]}\n  %u = triangle %a\n" NUMBER(
            "f", "-inf") "  %l = where %u, %s, %f\n",
        /* scores times 0 or 1 */
        INDICES("T", "T") "  %c = greater_equal %i, %j\n  %x = cast %c {dtype=f32}\n" NUMBER("one", "1.0")
            NUMBER("f", "-1e4") "  %n = sub %one, %x\n  %a = mul %n, %f\n  %m = mul %x, %s\n  %l = add %m, %a\n",
        NUMBER("one", "1.0") NUMBER("f", "1e4") "  %o = full %one {shape=[4096, 4096]}\n  %u = triangle %o\n"
                                                "  %x = slice %u {starts=[0, 0], ends=[T, T], steps=[1, 1]}\n  %n = "
                                                "sub %one, %x\n  %a = mul %f, %n\n"
                                                "  %m = mul %s, %x\n  %l = sub %m, %a\n",
        /* a buffer of the longest length, sliced */
        "  %b = constant {value=i1[4, 4] [true, false, false, false, true, true, false, false, true, true, true, "
        "false, "
        "true, true, true, true]}\n  %u = slice %b {starts=[0, 0], ends=[T, T], steps=[1, 1]}\n" NUMBER(
            "f", "-inf") "  %l = where %u, %s, %f\n",
    };
    char body[2048];
    for (size_t i = 0; i < QF_COUNT_OF(ends); i++) {
        (void)snprintf(body, sizeof body, "%s%s%s", SCORES, ends[i], SOFTMAX VALUES);
        expect_limits(SQUARE, body, causal);
    }
}

static void fault_20_what_is_not_causal_stays_an_operand(void **state) {
    (void)state;
    limits mask = {false, false, -1, -1, true, false};
    /* anti-causal */
    expect_limits(SQUARE,
                  SCORES INDICES("T", "T") "  %c = greater_equal %j, %i\n" NUMBER(
                      "f", "-inf") "  %l = where %c, %s, %f\n" SOFTMAX VALUES,
                  (limits){false, false, 0, -1, false, false});
    /* one element of a triangle is wrong */
    expect_limits(
        "%q: f32[B, 4, 4, 8], %k: f32[B, 4, 4, 8], %v: f32[B, 4, 4, 6]",
        SCORES "  %b = constant {value=i1[4, 4] [true, false, false, false, true, true, false, false, false, true, "
               "true, false, true, true, true, true]}\n" NUMBER("f", "-inf") "  %l = where %b, %s, %f\n" SOFTMAX VALUES,
        mask);
    /* every second key */
    expect_limits(
        SQUARE,
        SCORES "  %i = iota {shape=[T, 1], step=2}\n  %j = iota {shape=[1, T], axis=1}\n" CAUSAL_SELECT SOFTMAX VALUES,
        mask);
    /* an unknown mask, also beside a causal one */
    expect_limits(SQUARE ", %m: i1[B, 1, 1, T]",
                  SCORES INDICES("T", "T") "  %c0 = less_equal %j, %i\n  %c = and %m, %c0\n" NUMBER(
                      "f", "-inf") "  %l = where %c, %s, %f\n" SOFTMAX VALUES,
                  (limits){true, false, -1, -1, true, false});
}

static void alignments_are_told_apart(void **state) {
    (void)state;
    expect_limits(QKV, SCORES INDICES("T", "S") CAUSAL_SELECT SOFTMAX VALUES,
                  (limits){true, true, -1, -1, false, false});
    expect_limits(
        CACHED,
        SCORES
        "  %i = iota {shape=[T, 1], start=past}\n  %j = iota {shape=[1, past + T], axis=1}\n" CAUSAL_SELECT SOFTMAX
            VALUES,
        (limits){true, false, -1, -1, false, false});
    /* past keys are all visible: rows at position t + past + 1 */
    expect_limits(
        CACHED,
        SCORES
        "  %i = iota {shape=[T, 1], start=past + 2}\n  %j = iota {shape=[1, past + T], axis=1}\n" CAUSAL_SELECT SOFTMAX
            VALUES,
        (limits){false, false, -1, 2, false, false});
}

static void a_decode_step_has_no_rows(void **state) {
    (void)state;
    const char *inputs = "%q: f32[B, 4, 1, 8], %k: f32[B, 4, past + 1, 8], %v: f32[B, 4, past + 1, 6]";
    expect_limits(
        inputs,
        SCORES
        "  %i = iota {shape=[1, 1], start=past}\n  %j = iota {shape=[1, past + 1], axis=1}\n" CAUSAL_SELECT SOFTMAX
            VALUES,
        (limits){false, false, -1, -1, false, false});
    expect_limits(inputs,
                  SCORES "  %i = iota {shape=[1, 1], start=past - 4}\n  %j = iota {shape=[1, past + 1], axis=1}\n"
                         "  %c = greater %j, %i\n" NUMBER("f", "-inf") "  %l = where %c, %s, %f\n" SOFTMAX VALUES,
                  (limits){false, false, 3, -1, false, false});
}

static void fault_72_a_window_stays_a_window(void **state) {
    (void)state;
    const char *inputs = "%q: f32[B, 4, 8, 8], %k: f32[B, 4, 8, 8], %v: f32[B, 4, 8, 6]";
    const char *end = "  %c = less %d, %w\n" NUMBER("f", "-inf") "  %l = where %c, %s, %f\n" SOFTMAX VALUES;
    char body[1024];
    for (int window = 6; window <= 9; window++) {
        (void)snprintf(body, sizeof body, "%s  %%w = symbolic {values=[%d], shape=[]}\n%s",
                       SCORES INDICES("T", "T") "  %d = sub %i, %j\n", window, end);
        expect_limits(SQUARE, body, (limits){false, false, window - 1, -1, false, false});
    }
    /* with eight keys a window of eight hides nothing, whatever is sampled; one of seven does */
    (void)snprintf(body, sizeof body, "%s  %%w = symbolic {values=[7], shape=[]}\n%s",
                   SCORES INDICES("8", "8") "  %d = sub %i, %j\n", end);
    expect_limits(inputs, body, (limits){false, false, 6, -1, false, false});
}

static void fault_71_finite_fills_mask_only_safe_rows(void **state) {
    (void)state;
    limits bias = {false, false, -1, -1, false, true};
    /* without T <= S a row may lose every key; then all weigh the same, and none is masked */
    expect_limits(QKV,
                  SCORES "  %i = iota {shape=[T, 1], start=S - T}\n  %j = iota {shape=[1, S], axis=1}\n  %c = "
                         "less_equal %j, %i\n" NUMBER("f", "-3.4028235e38") "  %l = where %c, %s, %f\n" SOFTMAX VALUES,
                  bias);
    /* an unknown mask beside the causal one */
    expect_limits(SQUARE ", %m: i1[B, 1, 1, T]",
                  SCORES INDICES("T", "T") "  %c0 = less_equal %j, %i\n  %c = and %m, %c0\n" NUMBER(
                      "f", "-3.4028235e38") "  %l = where %c, %s, %f\n" SOFTMAX VALUES,
                  bias);
    expect_limits(SQUARE ", %m: i1[B, 1, 1, T]",
                  SCORES INDICES("T", "T") "  %c0 = less_equal %j, %i\n  %c = and %m, %c0\n" NUMBER(
                      "f", "-inf") "  %l = where %c, %s, %f\n" SOFTMAX VALUES,
                  (limits){true, false, -1, -1, true, false});
}

static void empty_rows_are_nan_unless_guarded(void **state) {
    (void)state;
    const char *masked =
        SCORES NUMBER("f", "-inf") NUMBER("z", "0.0") "  %l = where %m, %s, %f\n  %p0 = softmax %l {axis=3}\n";
    char body[1024];
    bench b;
    (void)snprintf(body, sizeof body, "%s  %%p = copy %%p0\n%s", masked, VALUES);
    raise_body(&b, QKV ", %m: i1[B, 1, T, S]", body);
    assert_int_equal(INTEGER(&b, raised(&b), empty_row), QF_VALUE_nan);
    bench_close(&b);
    (void)snprintf(body, sizeof body, "%s  %%g = is_nan %%p0\n  %%n = not %%g\n  %%p = where %%n, %%p0, %%z\n%s",
                   masked, VALUES);
    raise_body(&b, QKV ", %m: i1[B, 1, T, S]", body);
    assert_int_equal(INTEGER(&b, raised(&b), empty_row), QF_VALUE_zero);
    bench_close(&b);
    raise_body(&b, QKV, plain);
    assert_int_equal(INTEGER(&b, raised(&b), empty_row), QF_VALUE_zero);
    bench_close(&b);
}

/* Core ATen's safe softmax: zeros where every logit of the row is -inf. */
static void empty_rows_by_a_test_of_the_logits(void **state) {
    (void)state;
    const char *masked = SCORES NUMBER("f", "-inf") NUMBER("low", "-1e30")
        NUMBER("z", "0.0") "  %l = where %m, %s, %f\n  %p0 = softmax %l {axis=3}\n  %e = equal %l, %f\n";
    static const char *const good[] = {
        "  %n = not %e\n  %i = cast %n {dtype=i32}\n  %r = reduce_max %i {axes=[3]}\n  %a = cast %r {dtype=i1}\n"
        "  %t = not %a\n  %p = where %t, %z, %p0\n",
        "  %n = not %e\n  %i = cast %n {dtype=i32}\n  %r = reduce_max %i {axes=[3]}\n  %a = cast %r {dtype=i1}\n"
        "  %p = where %a, %p0, %z\n",
        "  %i = cast %e {dtype=i32}\n  %r = reduce_min %i {axes=[3]}\n  %a = cast %r {dtype=i1}\n"
        "  %p = where %a, %z, %p0\n",
    };
    /* any key masked; every key masked keeps p; another axis; another number */
    static const char *const bad[] = {
        "  %i = cast %e {dtype=i32}\n  %r = reduce_max %i {axes=[3]}\n  %a = cast %r {dtype=i1}\n"
        "  %p = where %a, %z, %p0\n",
        "  %i = cast %e {dtype=i32}\n  %r = reduce_min %i {axes=[3]}\n  %a = cast %r {dtype=i1}\n"
        "  %p = where %a, %p0, %z\n",
        "  %i = cast %e {dtype=i32}\n  %r = reduce_min %i {axes=[2]}\n  %a = cast %r {dtype=i1}\n"
        "  %p = where %a, %z, %p0\n",
        "  %e1 = equal %l, %low\n  %i = cast %e1 {dtype=i32}\n  %r = reduce_min %i {axes=[3]}\n"
        "  %a = cast %r {dtype=i1}\n  %p = where %a, %z, %p0\n",
    };
    char body[2048];
    for (size_t i = 0; i < QF_COUNT_OF(good); i++) {
        bench b;
        (void)snprintf(body, sizeof body, "%s%s%s", masked, good[i], VALUES);
        raise_body(&b, QKV ", %m: i1[B, 1, T, S]", body);
        assert_int_equal(INTEGER(&b, raised(&b), empty_row), QF_VALUE_zero);
        bench_close(&b);
    }
    for (size_t i = 0; i < QF_COUNT_OF(bad); i++) {
        (void)snprintf(body, sizeof body, "%s%s%s", masked, bad[i], VALUES);
        expect_reason(QKV ", %m: i1[B, 1, T, S]", body, QF_REASON_roles);
    }
}

static void fault_66_frozen_masks_follow_their_guard(void **state) {
    (void)state;
    const char *inputs = "%q: f32[B, 4, 16, 8], %k: f32[B, 4, 16, 8], %v: f32[B, 4, 16, 6]";
    expect_limits(inputs, SCORES INDICES("16", "16") CAUSAL_SELECT SOFTMAX VALUES,
                  (limits){true, false, -1, -1, false, false});
}

/* Constants are compared at every element, whatever their rank and type. */
static void constant_masks_are_fitted(void **state) {
    (void)state;
    const char *inputs = "%q: f32[B, 4, 4, 8], %k: f32[B, 4, 4, 8], %v: f32[B, 4, 4, 6]";
    expect_limits(inputs,
                  SCORES "  %w = constant {value=f32[4, 4] [0.0, -inf, -inf, -inf, 0.0, 0.0, -inf, -inf, -inf, 0.0, "
                         "0.0, -inf, -inf, -inf, 0.0, 0.0]}\n  %l = add %s, %w\n" SOFTMAX VALUES,
                  (limits){true, false, 1, -1, false, false});
    expect_limits(
        inputs,
        SCORES "  %w0 = constant {value=i1[4, 4, 2] [true, true, false, false, false, false, false, false, true, true, "
               "true, true, false, false, false, false, false, false, true, true, true, true, false, false, false, "
               "false, false, false, true, true, true, true]}\n  %w1 = slice %w0 {starts=[0, 0, 1], ends=[4, 4, 2], "
               "steps=[1, 1, 1]}\n  %w = view %w1 {shape=[4, 4]}\n" NUMBER(
                   "f", "-inf") "  %l = where %w, %s, %f\n" SOFTMAX VALUES,
        (limits){true, false, 1, -1, false, false});
    expect_limits(inputs,
                  SCORES "  %w = constant {value=f32[4, 4] [0.0, -inf, -inf, -inf, 0.0, 0.0, -inf, -inf, -inf, 0.0, "
                         "0.0, -inf, -1.0, -inf, 0.0, 0.0]}\n  %l = add %s, %w\n" SOFTMAX VALUES,
                  (limits){false, false, -1, -1, false, true});
    /* keys only: the first three */
    expect_limits(inputs,
                  SCORES "  %w = constant {value=i1[4] [true, true, true, false]}\n" NUMBER(
                      "f", "-inf") "  %l = where %w, %s, %f\n" SOFTMAX VALUES,
                  (limits){false, false, -1, -1, true, false});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_19_either_order),
        cmocka_unit_test(fault_20_causal_spellings),
        cmocka_unit_test(fault_20_what_is_not_causal_stays_an_operand),
        cmocka_unit_test(alignments_are_told_apart),
        cmocka_unit_test(a_decode_step_has_no_rows),
        cmocka_unit_test(fault_72_a_window_stays_a_window),
        cmocka_unit_test(fault_71_finite_fills_mask_only_safe_rows),
        cmocka_unit_test(empty_rows_are_nan_unless_guarded),
        cmocka_unit_test(empty_rows_by_a_test_of_the_logits),
        cmocka_unit_test(constant_masks_are_fitted),
        cmocka_unit_test(fault_66_frozen_masks_follow_their_guard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
