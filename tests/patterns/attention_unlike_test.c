/* Owns: tests of what looks like an attention, and means something else.
 * Does not own: the parts of attentions and why others are refused (attention_test.c).
 * Next: spellings.h. */
#include "tests/patterns/raising.h"
#include "tests/patterns/spellings.h"

#define ZERO         NUMBER("z", "0.0")
#define MASKED(fill) SCORES NUMBER("f", fill) "  %l = where %m, %s, %f\n"
#define EXPONENTIALS                                                                                                   \
    "  %x = reduce_max %l {axes=[3]}\n  %d = sub %l, %x\n  %e = exp %d\n  %ez = where %m, %e, %z\n"                    \
    "  %r = reduce_sum %ez {axes=[3]}\n"
#define MASK ", %m: i1[B, 1, T, S]"

/* The masked scores count in the denominator: exp(0), not nothing. */
static void probabilities_zeroed_over_a_fill_that_counts(void **state) {
    (void)state;
    expect_reason(QKV MASK, MASKED("0.0") ZERO "  %p0 = softmax %l {axis=3}\n  %p = where %m, %p0, %z\n" VALUES,
                  QF_REASON_fill_not_masking);
}

static void a_mask_of_the_denominator_only(void **state) {
    (void)state;
    expect_reason(QKV MASK, MASKED("0.0") ZERO EXPONENTIALS "  %p = div %e, %r\n" VALUES, QF_REASON_roles);
    expect_reason(QKV MASK,
                  MASKED("-inf") ZERO EXPONENTIALS
                  "  %o = contract %e, %v {equation=\"bhts,bhse->bhte\"}\n  %y = div %o, %r\n",
                  QF_REASON_roles);
}

/* Rows whose keys two masks hide together are not a number under softmax, of which one mask zeroes its share only. */
static void one_of_two_masks_zeroes_the_probabilities(void **state) {
    (void)state;
    expect_reason(QKV MASK ", %n: i1[B, 1, T, S]",
                  MASKED("-inf") ZERO
                  "  %l2 = where %n, %l, %f\n  %p0 = softmax %l2 {axis=3}\n  %p = where %m, %p0, %z\n" VALUES,
                  QF_REASON_roles);
}

/* What hides whole rows is no shift that a softmax does not see: they are not a number. */
static void a_mask_of_rows_is_no_shift(void **state) {
    (void)state;
    static const char *const bodies[] = {
        SCORES NUMBER("f", "-inf") ZERO "  %h = where %m, %z, %f\n  %l = add %s, %h\n" SOFTMAX VALUES,
        SCORES NUMBER("f", "inf") ZERO "  %h = where %m, %z, %f\n  %l = sub %s, %h\n" SOFTMAX VALUES,
        SCORES NUMBER("f", "inf") ZERO "  %h = where %m, %z, %f\n  %l = sub %s, %h\n  %e = exp %l\n"
                                       "  %r = reduce_sum %e {axes=[3]}\n  %p = div %e, %r\n" VALUES};
    for (size_t i = 0; i < QF_COUNT_OF(bodies); i++) {
        bench b;
        raise_body(&b, QKV ", %m: i1[B, 1, T, 1]", bodies[i]);
        qf_node node = raised(&b);
        assert_true(qf_node_operand(b.graph, node, QF_IN(attention, mask)).id != 0 ||
                    qf_node_operand(b.graph, node, QF_IN(attention, bias)).id != 0);
        bench_close(&b);
    }
}

/* In f16 the lowest number plus a score is not the lowest number: rows that are hidden are not equal scores. */
static void a_floor_that_swallows_no_scores(void **state) {
    (void)state;
    expect_reason(
        "%q: f16[B, 4, T, 8], %k: f16[B, 4, S, 8], %v: f16[B, 4, S, 6], %w: f16[B, 1, T, S]",
        SCORES "  %low = constant {value=f16[] -65504.0}\n  %b = add %s, %w\n  %l = maximum %b, %low\n" SOFTMAX VALUES,
        QF_REASON_score_op);
}

static void two_floors(void **state) {
    (void)state;
    expect_reason(QKV MASK ", %n: i1[B, 1, T, S]",
                  MASKED("-inf") NUMBER("low", "-3.4028235e38")
                      NUMBER("h", "0.5") "  %l1 = maximum %l, %low\n  %l2 = mul %l1, %h\n  %l3 = where %n, %l2, %f\n"
                                         "  %l4 = maximum %l3, %low\n  %p = softmax %l4 {axis=3}\n" VALUES,
                  QF_REASON_score_op);
}

/* Scaled down, the floor is a score like others. */
static void a_floor_that_hides_nothing(void **state) {
    (void)state;
    expect_reason(
        QKV MASK,
        MASKED("-inf") NUMBER("low", "-3.4028235e38")
            NUMBER("h", "1e-38") "  %l1 = maximum %l, %low\n  %l2 = mul %l1, %h\n  %p = softmax %l2 {axis=3}\n" VALUES,
        QF_REASON_score_op);
}

#define SINKS                                                                                                          \
    "  %k1 = expand %k0 {shape=[B, 4, T, 1]}\n  %c = concat %l, %k1 {axis=3}\n  %p0 = softmax %c {axis=3}\n"           \
    "  %p = slice %p0 {starts=[0, 0, 0, 0], ends=[B, 4, T, S], steps=[1, 1, 1, 1]}\n"

/* A number that is added to the scores moves them against the sink. */
static void a_number_beside_a_sink_is_no_shift(void **state) {
    (void)state;
    expect_reason(QKV ", %k0: f32[1, 4, 1, 1]", SCORES NUMBER("f", "5.0") "  %l = add %s, %f\n" SINKS VALUES,
                  QF_REASON_score_op);
}

/* All of a row without a key goes to the sink. */
static void a_sink_leaves_nothing_to_hidden_rows(void **state) {
    (void)state;
    bench b;
    raise_body(&b, QKV MASK ", %k0: f32[1, 4, 1, 1]", MASKED("-inf") SINKS VALUES);
    assert_int_equal(qf_node_attribute(b.graph, raised(&b), QF_ATTR(attention, empty_row))->integer, QF_VALUE_zero);
    bench_close(&b);
}

/* One number a head is a sink; here it is another one in one row, or in one batch. */
static void a_column_that_differs_along_rows(void **state) {
    (void)state;
    static const char *const columns[] = {
        "[0.5, 0.5, 0.5, -1.0, -1.0, -1.0, 0.5, 0.5, 0.5, -1.0, -1.0, -0.5]",
        "[0.5, 0.5, 0.5, -1.0, -1.0, -1.0, 0.25, 0.25, 0.25, -1.0, -1.0, -1.0]",
    };
    for (size_t i = 0; i < QF_COUNT_OF(columns); i++) {
        char body[1024];
        (void)snprintf(body, sizeof body,
                       "  %%s = contract %%q, %%k {equation=\"bhtd,bhsd->bhts\"}\n  %%k2 = constant {value=f32[2, 2, "
                       "3, 1] %s}\n  %%c = concat %%s, %%k2 {axis=3}\n"
                       "  %%p0 = softmax %%c {axis=3}\n  %%p, %%p1 = split %%p0 {axis=3, sizes=[S, 1]}\n"
                       "  %%y = contract %%p, %%v {equation=\"bhts,bhse->bhte\"}\n",
                       columns[i]);
        expect_reason("%q: f32[2, 2, 3, 8], %k: f32[2, 2, S, 8], %v: f32[2, 2, S, 6]", body, QF_REASON_score_op);
    }
}

/* Padded on one side, cut on the other: a key is lost, and the sink is one. */
static void a_column_that_is_not_the_one_cut_off(void **state) {
    (void)state;
    expect_reason(QKV,
                  SCORES ZERO "  %c = pad %s, %z {before=[0, 0, 0, 1], after=[0, 0, 0, 0]}\n"
                              "  %p0 = softmax %c {axis=3}\n  %p, %p1 = split %p0 {axis=3, sizes=[S, 1]}\n" VALUES,
                  QF_REASON_score_op);
    expect_reason("%q: f32[B, 4, S, 8], %k: f32[B, 4, S, 8], %v: f32[B, 4, S, 6]",
                  SCORES ZERO "  %c = pad %s, %z {before=[0, 0, 0, 0], after=[0, 0, 1, 0]}\n"
                              "  %p0 = softmax %c {axis=3}\n  %p, %p1 = split %p0 {axis=2, sizes=[S, 1]}\n" VALUES,
                  QF_REASON_softmax_axis);
}

#define ONE             NUMBER("one", "1.0")
#define C               NUMBER("c", "-10000.0")
#define CAUSAL_OF(name) INDICES("T", "T") "  %" name " = greater_equal %i, %j\n"
#define CAUSAL          CAUSAL_OF("seen")
#define BLEND           "  %l0 = mul %s, %m\n  %l = add %l0, %h\n" SOFTMAX VALUES
#define HIDING          "  %n = sub %one, %m\n  %h = mul %n, %c\n"

/* s * m + b replaces scores only where m is 0 or 1 and b hides what m sets to zero, and nothing else. */
static void blends_that_replace_no_scores(void **state) {
    (void)state;
    static const struct {
        const char *inputs, *body;
        qf_reason reason;
    } cases[] = {
        {SQUARE, SCORES ONE C CAUSAL NUMBER("half", "0.5") "  %m = where %seen, %one, %half\n" HIDING BLEND,
         QF_REASON_score_op},
        {"%q: f32[B, 4, 2, 8], %k: f32[B, 4, 4, 8], %v: f32[B, 4, 4, 6]",
         SCORES ONE C "  %m = constant {value=f32[2, 4] [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.5, 1.0]}\n" HIDING BLEND,
         QF_REASON_score_op},
        /* the addend hides other keys */
        {"%q: f32[B, 4, 2, 8], %k: f32[B, 4, 4, 8], %v: f32[B, 4, 4, 6]",
         SCORES "  %m = constant {value=f32[2, 4] [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]}\n"
                "  %h = constant {value=f32[2, 4] [0.0, -1e4, 0.0, -1e4, -1e4, 0.0, -1e4, 0.0]}\n" BLEND,
         QF_REASON_score_op},
        {"%q: f32[B, 4, 2, 8], %k: f32[B, 4, 4, 8], %v: f32[B, 4, 4, 6]",
         SCORES "  %m = constant {value=f32[2, 4] [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]}\n"
                "  %h = constant {value=f32[2, 4] [0.0, -1e4, 0.0, -1e4, -1e9, 0.0, 0.0, 0.0]}\n" BLEND,
         QF_REASON_score_op},
        {SQUARE,
         SCORES ONE C CAUSAL NUMBER("z", "0.0") "  %m = cast %seen {dtype=f32}\n  %before = greater %i, %j\n"
                                                "  %h = where %before, %z, %c\n" BLEND,
         QF_REASON_score_op},
        {QKV ", %b: i1[B, 1, 1, S], %d: i1[B, 1, 1, S]",
         SCORES NUMBER("z", "0.0") C "  %m = cast %b {dtype=f32}\n  %h = where %d, %z, %c\n" BLEND, QF_REASON_score_op},
        {QKV ", %b: i1[B, 1, 1, S]",
         SCORES NUMBER("z", "0.0") C "  %m = cast %b {dtype=f32}\n  %h = where %b, %c, %z\n" BLEND, QF_REASON_score_op},
        /* along the rows instead of the keys */
        {"%q: f32[B, 4, S, 8], %k: f32[B, 4, S, 8], %v: f32[B, 4, S, 6], %b: i1[B, 1, 1, S]",
         SCORES ONE C "  %m = cast %b {dtype=f32}\n  %n0 = sub %one, %m\n  %n = permute %n0 {order=[0, 1, 3, 2]}\n"
                      "  %h = mul %n, %c\n" BLEND,
         QF_REASON_score_op},
        /* nobody knows that it is 0 or 1 */
        {QKV ", %b: i64[B, 1, 1, S]", SCORES ONE C "  %m = cast %b {dtype=f32}\n" HIDING BLEND, QF_REASON_score_op},
        {QKV ", %m: f32[B, 1, 1, S]", SCORES ONE C HIDING BLEND, QF_REASON_score_op},
        /* it does not hide */
        {QKV ", %b: i1[B, 1, 1, S]",
         SCORES NUMBER("z", "0.0") NUMBER("c", "-100.0") "  %m = cast %b {dtype=f32}\n  %h = where %b, %z, %c\n" BLEND,
         QF_REASON_fill_not_masking},
        {QKV ", %b: i1[B, 1, 1, S]", SCORES ONE C "  %m = cast %b {dtype=f32}\n  %h = where %b, %one, %c\n" BLEND,
         QF_REASON_score_op},
        {SQUARE, SCORES CAUSAL "  %m = cast %seen {dtype=f32}\n  %l = mul %s, %m\n" SOFTMAX VALUES, QF_REASON_score_op},
        {SQUARE,
         SCORES ONE C CAUSAL "  %m = cast %seen {dtype=f32}\n" HIDING
                             "  %l0 = div %s, %m\n  %l = add %l0, %h\n" SOFTMAX VALUES,
         QF_REASON_score_op},
        /* minus infinity times zero is no number */
        {SQUARE ", %b: i1[B, 1, 1, T]",
         SCORES ONE C CAUSAL NUMBER("f", "-inf") "  %m = cast %seen {dtype=f32}\n" HIDING
                                                 "  %sb = where %b, %s, %f\n  %l0 = mul %sb, %m\n"
                                                 "  %l = add %l0, %h\n" SOFTMAX VALUES,
         QF_REASON_score_op},
    };
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) expect_reason(cases[i].inputs, cases[i].body, cases[i].reason);
}

#define MASK_OF(text) SCORES C text "  %l = where %seen, %s, %c\n" SOFTMAX VALUES
#define BYTES(dtype)                                                                                                   \
    "  %i0 = iota {shape=[T, 1]}\n  %j0 = iota {shape=[1, T], axis=1}\n"                                               \
    "  %i = cast %i0 {dtype=" dtype "}\n  %j = cast %j0 {dtype=" dtype "}\n"

/* Integers of 8 bits wrap: what is made of them is a mask that only a run tells. */
static void masks_of_numbers_that_wrap(void **state) {
    (void)state;
    static const char *const bodies[] = {
        MASK_OF(BYTES("i8") "  %seen = greater_equal %i, %j\n"),
        MASK_OF("  %i = iota {shape=[T, 1], dtype=u8}\n  %j = iota {shape=[1, T], axis=1, dtype=u8}\n"
                "  %seen = greater_equal %i, %j\n"),
        MASK_OF(BYTES("u8") "  %d = sub %i, %j\n  %n = constant {value=u8[] 0}\n  %seen = greater_equal %d, %n\n"),
        MASK_OF(CAUSAL_OF("before") "  %b = cast %before {dtype=i8}\n  %n = constant {value=i8[] 64}\n"
                                    "  %b1 = mul %b, %n\n  %b2 = mul %b1, %n\n  %seen = cast %b2 {dtype=i1}\n"),
        MASK_OF(CAUSAL_OF("before") "  %b = cast %before {dtype=u8}\n  %n = constant {value=u8[] 1}\n"
                                    "  %b1 = sub %b, %n\n  %b2 = cast %b1 {dtype=i32}\n"
                                    "  %n2 = constant {value=i32[] 0}\n  %seen = greater_equal %b2, %n2\n"),
    };
    for (size_t i = 0; i < QF_COUNT_OF(bodies); i++) {
        bench b;
        raise_body(&b, SQUARE, bodies[i]);
        qf_node node = raised(&b);
        assert_true(qf_node_operand(b.graph, node, QF_IN(attention, mask)).id != 0 ||
                    qf_node_operand(b.graph, node, QF_IN(attention, bias)).id != 0);
        assert_false(qf_node_attribute(b.graph, node, QF_ATTR(attention, causal))->integer);
        bench_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_zeroed_over_a_fill_that_counts),
        cmocka_unit_test(a_mask_of_the_denominator_only),
        cmocka_unit_test(one_of_two_masks_zeroes_the_probabilities),
        cmocka_unit_test(a_mask_of_rows_is_no_shift),
        cmocka_unit_test(a_floor_that_swallows_no_scores),
        cmocka_unit_test(two_floors),
        cmocka_unit_test(a_number_beside_a_sink_is_no_shift),
        cmocka_unit_test(a_sink_leaves_nothing_to_hidden_rows),
        cmocka_unit_test(a_floor_that_hides_nothing),
        cmocka_unit_test(a_column_that_differs_along_rows),
        cmocka_unit_test(blends_that_replace_no_scores),
        cmocka_unit_test(masks_of_numbers_that_wrap),
        cmocka_unit_test(a_column_that_is_not_the_one_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
