/* Owns: tests of patterns/attention.h: what becomes of the parts of an attention.
 * Does not own: masks (attention_mask_test.c), why others stay as they are (attention_reasons_test.c).
 * Next: patterns/analyse.c. */
#include <math.h>

#include "tests/patterns/raising.h"
#include "tests/patterns/spellings.h"

#define ATTR(name)             QF_ATTR(attention, name)
#define IN_(name)              QF_IN(attention, name)
#define INTEGER(b, node, name) bench_integer((b), (node), ATTR(name))

static const char *const plain = SCORES "  %p = softmax %s {axis=3}\n" VALUES;

static void expect_scale(const char *body, double scale) {
    bench b;
    raise_body(&b, QKV, body);
    double found = raised_number(&b, raised(&b), ATTR(scale));
    assert_true(found == scale && signbit(found) == signbit(scale));
    bench_close(&b);
}

/* --- the plain form --- */

static void plain_attention_is_raised(void **state) {
    (void)state;
    bench b;
    raise_open(&b, QKV, plain, "%y");
    uint64_t tag = 0;
    QF_FOR_EACH_NODE(b.graph, node)
    if (qf_node_op(b.graph, node) == QF_OP_contract) tag = qf_node_at(b.graph, node)->tag;
    raise_with(&b, QF_NUMERICS_ROUNDING);
    qf_node node = raised(&b);
    assert_string_equal(operand_type(&b, node, IN_(q)), "f32[B, 4, T, 8]");
    assert_string_equal(operand_type(&b, node, IN_(k)), "f32[B, 4, S, 8]");
    assert_string_equal(operand_type(&b, node, IN_(v)), "f32[B, 4, S, 6]");
    assert_int_equal(qf_node_at(b.graph, node)->tag, tag);
    assert_int_equal(b.graph->live_node_count, 2); /* the attention and the return */
    assert_int_equal(b.report.rewrite_count, 1);
    assert_int_equal(b.report.rewrites[0].numerics, QF_NUMERICS_ROUNDING);
    qf_buffer text = {.context = b.context};
    qf_location_print(&text, b.graph, qf_node_at(b.graph, node)->location);
    assert_non_null(strstr(text.data, "fused<raise_attention>["));
    qf_buffer_destroy(&text);
    b.changed = false;
    raise_with(&b, QF_NUMERICS_ROUNDING); /* and nothing twice */
    assert_false(b.changed);
    assert_int_equal(b.report.rewrite_count, 1);
    bench_close(&b);
}

static void exact_does_not_raise(void **state) {
    (void)state;
    bench b;
    raise_open(&b, QKV, plain, "%y");
    raise_with(&b, QF_NUMERICS_EXACT);
    assert_false(b.changed);
    assert_true(bench_missed(&b, QF_REASON_numerics_class));
    bench_close(&b);
}

static void the_rewrite_limit_holds(void **state) {
    (void)state;
    bench b;
    raise_open(&b, QKV, plain, "%y");
    b.report.rewrite_limit = 0;
    raise_with(&b, QF_NUMERICS_ROUNDING);
    assert_int_equal(bench_count(&b, QF_OP_attention), 0);
    assert_true(bench_missed(&b, QF_REASON_rewrite_limit));
    bench_close(&b);
}

static void grouped_heads_read_each_kv_head_once(void **state) {
    (void)state;
    static const char *const names[] = {"grouped_expand", "grouped_gather",   "grouped_tiled",
                                        "grouped_stack",  "five_dimensional", "fp8_repeated_before"};
    for (size_t n = 0; n < QF_COUNT_OF(names); n++)
        for (size_t i = 0; i < QF_COUNT_OF(spellings); i++) {
            if (strcmp(spellings[i].name, names[n]) != 0) continue;
            bench b;
            raise_body(&b, spellings[i].inputs, spellings[i].body);
            qf_node node = raised(&b);
            qf_value k = qf_node_operand(b.graph, node, IN_(k)), v = qf_node_operand(b.graph, node, IN_(v));
            assert_true(qf_dim_is(b.context, qf_value_dims(b.graph, k)[1], 2));
            assert_true(qf_dim_is(b.context, qf_value_dims(b.graph, v)[1], 2));
            assert_int_equal(
                bench_count(&b, QF_OP_expand) + bench_count(&b, QF_OP_gather) + bench_count(&b, QF_OP_concat), 0);
            bench_close(&b);
        }
}

/* --- faults of scores --- */

/* Equal nodes are merged before raising; then two softmaxes of one score matrix are one. */
static void fault_7_duplicates_match(void **state) {
    (void)state;
    bench b;
    raise_open(&b, QKV,
               SCORES "  %s2 = contract %q, %k {equation=\"bhtd,bhsd->bhts\"}\n  %m = reduce_max %s2 {axes=[3]}\n"
                      "  %x = sub %s, %m\n  %e = exp %x\n  %e2 = exp %x\n  %z = reduce_sum %e2 {axes=[3]}\n"
                      "  %p = div %e, %z\n" VALUES,
               "%y");
    run_passes(&b, "cse,dce");
    raise_with(&b, QF_NUMERICS_ROUNDING);
    (void)raised(&b);
    bench_close(&b);
}

static void fault_8_dims_of_one_meaning(void **state) {
    (void)state;
    bench b;
    raise_body(&b, "%q: f32[B, T, 32], %k: f32[B, T, 32], %v: f32[B, T, 32]",
               "  %q4 = view %q {shape=[B, T, 4, 8]}\n  %k3 = view %k {shape=[B*T, 4, 8]}\n"
               "  %k4 = view %k3 {shape=[B, T, 4, 8]}\n  %v2 = view %v {shape=[4*B*T, 8]}\n"
               "  %v4 = view %v2 {shape=[B, T, 4, 8]}\n  %s = contract %q4, %k4 {equation=\"bthd,bshd->bhts\"}\n"
               "  %p = softmax %s {axis=3}\n  %y = contract %p, %v4 {equation=\"bhts,bshd->bthd\"}\n");
    assert_string_equal(operand_type(&b, raised(&b), IN_(k)), "f32[B, 4, T, 8]");
    bench_close(&b);
}

static void fault_17_softmax_over_another_axis(void **state) {
    (void)state;
    char body[512];
    for (int axis = 0; axis < 4; axis++) {
        (void)snprintf(body, sizeof body, "%s  %%p = softmax %%s {axis=%d}\n%s", SCORES, axis, VALUES);
        if (axis != 3) expect_reason(QKV, body, QF_REASON_softmax_axis);
        (void)snprintf(body, sizeof body,
                       "%s  %%e = exp %%s\n  %%z = reduce_sum %%e {axes=[%d]}\n  %%p = div %%e, %%z\n%s", SCORES, axis,
                       VALUES);
        if (axis != 3) expect_reason(QKV, body, QF_REASON_softmax_axis);
    }
}

static void fault_18_scales_are_carried(void **state) {
    (void)state;
    expect_scale(SCORES NUMBER("c", "0.125") "  %l = mul %s, %c\n" SOFTMAX VALUES, 0.125);
    expect_scale(SCORES NUMBER("c", "8.0") "  %l = mul %s, %c\n" SOFTMAX VALUES, 8.0);
    expect_scale(SCORES NUMBER("c", "8.0") "  %l = div %s, %c\n" SOFTMAX VALUES, 0.125);
    expect_scale(SCORES NUMBER("c", "-3.0") "  %l = mul %s, %c\n" SOFTMAX VALUES, -3.0);
    expect_scale(SCORES NUMBER("c", "0.0") "  %l = mul %s, %c\n" SOFTMAX VALUES, 0.0);
    expect_scale(SCORES NUMBER("c", "0.35") "  %l = mul %s, %c\n" SOFTMAX VALUES, (double)0.35f);
    expect_scale(plain, 1.0);
}

static void a_factor_that_q_cannot_take_is_refused(void **state) {
    (void)state;
    expect_reason(QKV ", %c: f32[B, 1, 1, S]", SCORES "  %l = mul %s, %c\n" SOFTMAX VALUES, QF_REASON_score_op);
    expect_reason(QKV ", %c: f32[4, 1, 1], %w: f32[4, T, S]",
                  SCORES "  %s1 = add %s, %w\n  %l = mul %s1, %c\n" SOFTMAX VALUES, QF_REASON_score_op);
    expect_reason(QKV, SCORES NUMBER("c", "inf") "  %l = mul %s, %c\n" SOFTMAX VALUES, QF_REASON_score_op);
}

static void soft_caps_have_their_scale(void **state) {
    (void)state;
    bench b;
    raise_body(&b, QKV,
               SCORES NUMBER("c", "0.25")
                   NUMBER("h", "4.0") "  %s1 = mul %s, %c\n  %s2 = div %s1, %h\n  %s3 = tanh %s2\n"
                                      "  %l = mul %h, %s3\n" SOFTMAX VALUES);
    qf_node node = raised(&b);
    assert_true(raised_number(&b, node, ATTR(scale)) == 0.25);
    assert_true(raised_number(&b, node, ATTR(softcap)) == 4.0);
    bench_close(&b);
}

/* --- faults of the graph around --- */

static void fault_23_other_ranks(void **state) {
    (void)state;
    bench b;
    raise_body(&b, "%q: f32[A, B, C, 4, T, 8], %k: f32[A, B, C, 4, S, 8], %v: f32[A, B, C, 4, S, 6]",
               "  %kt = permute %k {order=[0, 1, 2, 3, 5, 4]}\n  %s = matmul %q, %kt\n  %p = softmax %s {axis=5}\n"
               "  %y = matmul %p, %v\n");
    (void)raised(&b);
    bench_close(&b);
    /* rank 1: no rows, no batch, one query */
    raise_body(&b, "%q: f32[8], %k: f32[S, 8], %v: f32[S, 6]",
               "  %s = matmul %k, %q\n  %p = softmax %s {axis=0}\n  %y = matmul %p, %v\n");
    assert_string_equal(operand_type(&b, raised(&b), IN_(q)), "f32[1, 1, 1, 8]");
    bench_close(&b);
}

static void expect_kept(const char *body, const char *outputs, qf_reason reason) {
    bench b;
    raise_open(&b, QKV, body, outputs);
    raise_with(&b, QF_NUMERICS_ROUNDING);
    assert_int_equal(bench_count(&b, QF_OP_attention), 0);
    assert_int_equal(b.report.miss_count, 1);
    assert_string_equal(qf_reason_code(b.report.misses[0].reason), qf_reason_code(reason));
    bench_close(&b);
}

static void fault_24_weights_that_are_returned_stay(void **state) {
    (void)state;
    expect_kept(plain, "%y, %p", QF_REASON_graph_output);
    expect_kept(plain, "%y, %s", QF_REASON_graph_output);
    expect_kept(SCORES "  %p = softmax %s {axis=3}\n" VALUES "  %z = reduce_max %p {axes=[3]}\n", "%y, %z",
                QF_REASON_scores_used_twice);
    /* the result itself may be an output and have other users */
    bench b;
    raise_open(&b, QKV, SCORES "  %p = softmax %s {axis=3}\n" VALUES "  %z = neg %y\n", "%y, %z");
    raise_with(&b, QF_NUMERICS_ROUNDING);
    (void)raised(&b);
    bench_close(&b);
}

static void dead_users_do_not_count(void **state) {
    (void)state;
    bench b;
    raise_body(&b, QKV, SCORES "  %p = softmax %s {axis=3}\n  %dead = neg %p\n" VALUES);
    assert_int_equal(bench_count(&b, QF_OP_attention), 1);
    bench_close(&b);
}

static void fault_67_repeats_before_the_pair(void **state) {
    (void)state;
    bench b;
    raise_body(&b, GROUPED ", %sk: f32[], %sv: f32[]",
               REPEAT("k", "8") REPEAT("v", "6") PAIR("k3", "k4", "sk")
                   PAIR("v3", "v4", "sv") "  %s = contract %q, %k4 {equation=\"bhtd,bhsd->bhts\"}\n  %p = softmax %s "
                                          "{axis=3}\n  %y = matmul %p, %v4\n");
    qf_node node = raised(&b);
    assert_string_equal(operand_type(&b, node, IN_(q)), "f32[B, 4, T, 8]");
    assert_string_equal(operand_type(&b, node, IN_(k)), "f8E4M3FN[B, 2, S, 8]");
    assert_string_equal(operand_type(&b, node, IN_(v)), "f8E4M3FN[B, 2, S, 6]");
    assert_int_equal(bench_count(&b, QF_OP_quantize), 2);
    assert_int_equal(bench_count(&b, QF_OP_expand), 0);
    bench_close(&b);
}

static void fault_73_constant_keys_are_no_attention(void **state) {
    (void)state;
    expect_reason("%x: f32[B, T, 8]",
                  "  %w1 = parameter {name=\"w1\"} : f32[8, 64]\n  %w2 = parameter {name=\"w2\"} : f32[64, 8]\n  %s = "
                  "matmul %x, %w1\n"
                  "  %p = softmax %s {axis=2}\n  %y = matmul %p, %w2\n",
                  QF_REASON_constant_operand);
    expect_reason("%q: f32[B, T, 8], %v: f32[B, S, 8]",
                  "  %k = parameter {name=\"k\"} : f32[S, 8]\n  %s = contract %q, %k {equation=\"btd,sd->bts\"}\n  %p "
                  "= softmax %s {axis=2}\n"
                  "  %y = matmul %p, %v\n",
                  QF_REASON_constant_operand);
}

static void fault_74_one_packed_tensor_for_two(void **state) {
    (void)state;
    const char *half = "  %%q%d = slice %%x1 {starts=[0, 0, %d], ends=[B, T, %d], steps=[1, 1, 1]}\n"
                       "  %%k%d = slice %%x1 {starts=[0, 0, %d], ends=[B, T, %d], steps=[1, 1, 1]}\n"
                       "  %%v%d = slice %%x1 {starts=[0, 0, %d], ends=[B, T, %d], steps=[1, 1, 1]}\n"
                       "  %%s%d = contract %%q%d, %%k%d {equation=\"btd,bsd->bts\"}\n  %%p%d = softmax %%s%d "
                       "{axis=2}\n  %%y%d = matmul %%p%d, %%v%d\n";
    char first[1024], second[1024], body[4096];
    (void)snprintf(first, sizeof first, half, 1, 0, 8, 1, 8, 16, 1, 16, 24, 1, 1, 1, 1, 1, 1, 1, 1);
    (void)snprintf(second, sizeof second, half, 2, 24, 32, 2, 32, 40, 2, 40, 48, 2, 2, 2, 2, 2, 2, 2, 2);
    (void)snprintf(body, sizeof body, "%s%s%s", PAIR("x", "x1", "sx"), first, second);
    bench b;
    raise_open(&b, "%x: f32[B, T, 48], %sx: f32[]", body, "%y1, %y2");
    raise_with(&b, QF_NUMERICS_ROUNDING);
    assert_int_equal(bench_count(&b, QF_OP_attention), 2);
    QF_FOR_EACH_NODE(b.graph, node) {
        if (qf_node_op(b.graph, node) != QF_OP_attention) continue;
        for (uint32_t i = IN_(q); i <= IN_(v); i++)
            assert_string_equal(operand_type(&b, node, i), "f8E4M3FN[B, 1, T, 8]");
        assert_true(has_operand(&b, node, IN_(q_scale)) && has_operand(&b, node, IN_(k_scale)) &&
                    has_operand(&b, node, IN_(v_scale)));
    }
    assert_int_equal(bench_count(&b, QF_OP_quantize), 1);
    bench_close(&b);
}

static void fault_75_scales_on_both_sides_of_a_quantise(void **state) {
    (void)state;
    bench b;
    raise_body(&b, QKV ", %sq: f32[]",
               NUMBER("c", "0.5") NUMBER("d", "0.25") "  %qc = mul %q, %c\n" PAIR(
                   "qc", "q1",
                   "sq") "  %q2 = mul %q1, %d\n"
                         "  %s = contract %q2, %k {equation=\"bhtd,bhsd->bhts\"}\n  %p = softmax %s {axis=3}\n" VALUES);
    qf_node node = raised(&b);
    assert_true(raised_number(&b, node, ATTR(scale)) == 0.25);
    assert_string_equal(operand_type(&b, node, IN_(q)), "f8E4M3FN[B, 4, T, 8]");
    assert_int_equal(bench_count(&b, QF_OP_mul), 1); /* the producer's */
    bench_close(&b);
}

static void forty_doublings_take_no_time(void **state) {
    (void)state;
    char body[4096];
    size_t used = (size_t)snprintf(body, sizeof body, "%s  %%x0 = copy %%s\n", SCORES);
    for (int i = 0; i < 40; i++)
        used += (size_t)snprintf(body + used, sizeof body - used, "  %%x%d = add %%x%d, %%x%d\n", i + 1, i, i);
    (void)snprintf(body + used, sizeof body - used, "  %%p = softmax %%x40 {axis=3}\n%s", VALUES);
    expect_reason(QKV, body, QF_REASON_scores_used_twice);
}

/* --- FP8 --- */

/* A tensor that scales the scores in f32 scales 16-bit q in f32, or the scale of FP8 keys: f16 may not hold it. */
static void an_f32_factor_of_16_bit_scores(void **state) {
    (void)state;
    static const char body[] = "  %s0 = contract %q, %kf {equation=\"bhtd,bhsd->bhts\"}\n  %s = cast %s0 {dtype=f32}\n"
                               "  %l = mul %s, %t\n" SOFTMAX "  %ph = cast %p {dtype=f16}\n"
                               "  %y = contract %ph, %v {equation=\"bhts,bhse->bhte\"}\n";
    char text[1024];
    bench b;
    (void)snprintf(text, sizeof text, "  %%kf = copy %%k\n%s", body);
    raise_body(&b, "%q: f16[B, 4, T, 8], %k: f16[B, 4, S, 8], %v: f16[B, 4, S, 6], %t: f32[]", text);
    assert_string_equal(operand_type(&b, raised(&b), IN_(q)), "f32[B, 4, T, 8]");
    bench_close(&b);
    (void)snprintf(text, sizeof text, "  %%kf = dequantize %%k, %%s0k {dtype=f16}\n%s", body);
    raise_body(&b, "%q: f16[B, 4, T, 8], %k: f8E4M3FN[B, 4, S, 8], %v: f16[B, 4, S, 6], %t: f32[], %s0k: f32[]", text);
    qf_node node = raised(&b);
    assert_string_equal(operand_type(&b, node, IN_(q)), "f16[B, 4, T, 8]");
    assert_int_equal(qf_node_op(b.graph, qf_value_producer(b.graph, qf_node_operand(b.graph, node, IN_(k_scale)))),
                     QF_OP_mul);
    bench_close(&b);
}

static void pairs_become_operands(void **state) {
    (void)state;
    bench b;
    raise_body(&b, QKV ", %sq: f32[], %sk: f32[1], %sv: f32[], %sp: f32[]",
               PAIR("q", "q1", "sq") PAIR("k", "k1", "sk")
                   PAIR("v", "v1", "sv") "  %s = contract %q1, %k1 {equation=\"bhtd,bhsd->bhts\"}\n  %p0 = softmax %s "
                                         "{axis=3}\n" PAIR("p0", "p", "sp") "  %y = matmul %p, %v1\n");
    qf_node node = raised(&b);
    for (uint32_t i = IN_(q); i <= IN_(v); i++)
        assert_true(qf_dtype_is_float8(qf_value_dtype(b.graph, qf_node_operand(b.graph, node, i))));
    assert_int_equal(INTEGER(&b, node, p), QF_VALUE_graph);
    assert_string_equal(operand_type(&b, node, IN_(p_scale)), "f32[]");
    assert_string_equal(operand_type(&b, node, IN_(k_scale)), "f32[]");
    assert_int_equal(bench_count(&b, QF_OP_dequantize), 0);
    assert_int_equal(bench_count(&b, QF_OP_quantize), 3);
    bench_close(&b);
}

/* Quantised by multiplying with the reciprocal, dequantised by the scale: one scale, or none where they do not belong
 * together. */
static void a_pair_may_multiply_by_the_reciprocal(void **state) {
    (void)state;
    static const struct {
        const char *factor;
        bool pair;
    } cases[] = {{"448.0", true}, {"447.0", false}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        bench b;
        char body[1024];
        (void)snprintf(body, sizeof body,
                       "%s  %%f = constant {value=f32[] %s}\n  %%g = constant {value=f32[] 0.002232142857}\n"
                       "  %%p0 = softmax %%s {axis=3}\n  %%p1 = quantize %%p0, %%f {dtype=f8E4M3FN, mode=mul}\n"
                       "  %%p = dequantize %%p1, %%g {dtype=f32}\n%s",
                       SCORES, cases[i].factor, VALUES);
        raise_open(&b, QKV, body, "%y");
        raise_with(&b, QF_NUMERICS_ROUNDING);
        if (cases[i].pair)
            assert_int_equal(INTEGER(&b, raised(&b), p), QF_VALUE_graph);
        else
            assert_true(bench_missed(&b, QF_REASON_roles));
        bench_close(&b);
    }
}

static void quantised_scores_block_unless_relaxed(void **state) {
    (void)state;
    const char *body = SCORES PAIR("s", "l", "ss") SOFTMAX VALUES;
    expect_reason(QKV ", %ss: f32[]", body, QF_REASON_scores_quantised);
    bench b;
    raise_open(&b, QKV ", %ss: f32[]", body, "%y");
    raise_with(&b, QF_NUMERICS_RELAXED);
    (void)raised(&b);
    assert_int_equal(b.report.rewrites[0].numerics, QF_NUMERICS_RELAXED);
    assert_non_null(strstr(qf_string_c(b.context, b.report.rewrites[0].note), "dropped"));
    bench_close(&b);
}

static void integer_pairs_are_not_dropped(void **state) {
    (void)state;
    const char *body =
        SCORES "  %sq = quantize %s, %ss {dtype=i8}\n  %l = dequantize %sq, %ss {dtype=f32}\n" SOFTMAX VALUES;
    bench b;
    raise_open(&b, QKV ", %ss: f32[]", body, "%y");
    raise_with(&b, QF_NUMERICS_RELAXED);
    assert_false(b.changed);
    assert_true(bench_missed(&b, QF_REASON_score_op));
    bench_close(&b);
    expect_reason(QKV ", %ss: f32[]",
                  SCORES "  %p0 = softmax %s {axis=3}\n  %pq = quantize %p0, %ss {dtype=i8}\n  %p = dequantize %pq, "
                         "%ss {dtype=f32}\n" VALUES,
                  QF_REASON_probabilities_quantised);
}

static void sixteen_bit_results_keep_their_type(void **state) {
    (void)state;
    bench b;
    raise_body(&b, "%q: f16[B, 4, T, 8], %k: f16[B, 4, S, 8], %v: f16[B, 4, S, 6], %sq: f16[]",
               "  %q0 = quantize %q, %sq {dtype=f8E4M3FN}\n  %q1 = dequantize %q0, %sq {dtype=f16}\n"
               "  %s = contract %q1, %k {equation=\"bhtd,bhsd->bhts\"}\n  %s1 = cast %s {dtype=f32}\n  %p0 = softmax "
               "%s1 {axis=3}\n"
               "  %p = cast %p0 {dtype=f16}\n" VALUES);
    qf_node node = raised(&b);
    assert_int_equal(qf_value_dtype(b.graph, qf_node_result(b.graph, node, 0)), QF_F16);
    assert_int_equal(INTEGER(&b, node, out), QF_F16); /* the default beside an FP8 q is f32 */
    bench_close(&b);
}

static void sinks_become_an_operand(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(spellings); i++) {
        if (strncmp(spellings[i].name, "sinks", 5) != 0) continue;
        bench b;
        raise_body(&b, spellings[i].inputs, spellings[i].body);
        assert_string_equal(operand_type(&b, raised(&b), IN_(sinks)), "f32[4]");
        bench_close(&b);
    }
    expect_reason(QKV ", %k0: f32[T]",
                  SCORES "  %k1 = view %k0 {shape=[1, 1, T, 1]}\n  %k2 = expand %k1 {shape=[B, 4, T, 1]}\n  %c = "
                         "concat %s, %k2 {axis=3}\n"
                         "  %p0 = softmax %c {axis=3}\n  %p = slice %p0 {starts=[0, 0, 0, 0], ends=[B, 4, T, S], "
                         "steps=[1, 1, 1, 1]}\n" VALUES,
                  QF_REASON_score_op);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_attention_is_raised),
        cmocka_unit_test(exact_does_not_raise),
        cmocka_unit_test(the_rewrite_limit_holds),
        cmocka_unit_test(grouped_heads_read_each_kv_head_once),
        cmocka_unit_test(fault_7_duplicates_match),
        cmocka_unit_test(fault_8_dims_of_one_meaning),
        cmocka_unit_test(fault_17_softmax_over_another_axis),
        cmocka_unit_test(fault_18_scales_are_carried),
        cmocka_unit_test(a_factor_that_q_cannot_take_is_refused),
        cmocka_unit_test(soft_caps_have_their_scale),
        cmocka_unit_test(fault_23_other_ranks),
        cmocka_unit_test(fault_24_weights_that_are_returned_stay),
        cmocka_unit_test(dead_users_do_not_count),
        cmocka_unit_test(fault_67_repeats_before_the_pair),
        cmocka_unit_test(fault_73_constant_keys_are_no_attention),
        cmocka_unit_test(fault_74_one_packed_tensor_for_two),
        cmocka_unit_test(fault_75_scales_on_both_sides_of_a_quantise),
        cmocka_unit_test(forty_doublings_take_no_time),
        cmocka_unit_test(an_f32_factor_of_16_bit_scores),
        cmocka_unit_test(pairs_become_operands),
        cmocka_unit_test(a_pair_may_multiply_by_the_reciprocal),
        cmocka_unit_test(quantised_scores_block_unless_relaxed),
        cmocka_unit_test(integer_pairs_are_not_dropped),
        cmocka_unit_test(sixteen_bit_results_keep_their_type),
        cmocka_unit_test(sinks_become_an_operand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
