/* Owns: tests of attentions whose result is sliced, split or concatenated before it is quantised.
 * Does not own: spellings of the quantise (spellings_test.c).
 * Next: patterns/parts.h. */
#include "patterns/parts.h"
#include "tests/patterns/evaluating.h"
#include "tests/patterns/raising.h"
#include "tests/perturb.h"

#define SCALES              ", %s: f32[], %r: f32[]"
#define JOINT               "%q: f32[B, 4, X + Y, 8], %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 6]" SCALES
#define SQUARE              "%q: f32[B, 4, X + Y, 8], %k: f32[B, 2, X + Y, 8], %v: f32[B, 2, X + Y, 6]" SCALES
#define CONCATENATED        "%c: f32[B, X, 4, 8], %d: f32[B, Y, 4, 8]"
#define QUERIES             "  %q0 = concat %c, %d {axis=1}\n  %q = permute %q0 {order=[0, 2, 1, 3]}\n"
#define ATTENTION           "  %a = attention %q, %k, %v {scale=0.35}\n"
#define TOKENS              "  %p = permute %a {order=[0, 2, 1, 3]}\n  %t = view %p {shape=[B, X + Y, 24]}\n"
#define NUMBER(name, value) "  %" name " = constant {value=f32[] " value "}\n"
#define SLICE(name, of, from, to)                                                                                      \
    "  %" name " = slice %" of " {starts=[0, " from ", 0], ends=[B, " to ", 24], steps=[1, 1, 1]}\n"
#define QUANTISE(name, of, scale) "  %" name " = quantize %" of ", %" scale " {dtype=f8E4M3FN}\n"
#define BOTH(s1, s2)              QUANTISE("y", "x", s1) QUANTISE("z", "w", s2)
#define HALVES                    SLICE("x", "t", "0", "X") SLICE("w", "t", "X", "X + Y")

typedef struct reading {
    const char *name, *inputs, *body;
    uint32_t attentions; /* that are there in the end, all with an FP8 result */
} reading;

static const reading readings[] = {
    /* --- an own scale for each part --- */
    {"slices", JOINT, ATTENTION TOKENS HALVES BOTH("s", "r"), 2},
    {"split", JOINT, ATTENTION TOKENS "  %x, %w = split %t {axis=1, sizes=[X, Y]}\n" BOTH("s", "r"), 2},
    {"the_other_order", JOINT, ATTENTION TOKENS SLICE("w", "t", "X", "X + Y") SLICE("x", "t", "0", "X") BOTH("s", "r"),
     2},
    {"by_token", "%q: f32[B, X + Y, 4, 8], %k: f32[B, S, 4, 8], %v: f32[B, S, 4, 6]" SCALES,
     "  %a = attention %q, %k, %v {scale=0.35, layout=bshd}\n  %t = view %a {shape=[B, X + Y, 24]}\n" HALVES BOTH("s",
                                                                                                                  "r"),
     2},
    {"before_the_layout", JOINT,
     ATTENTION "  %x0 = slice %a {starts=[0, 0, 0, 0], ends=[B, 4, X, 6], steps=[1, 1, 1, 1]}\n"
               "  %w0 = slice %a {starts=[0, 0, X, 0], ends=[B, 4, X + Y, 6], steps=[1, 1, 1, 1]}\n"
               "  %x1 = permute %x0 {order=[0, 2, 1, 3]}\n  %x = view %x1 {shape=[B, X, 24]}\n"
               "  %w1 = permute %w0 {order=[0, 2, 1, 3]}\n  %w = view %w1 {shape=[B, Y, 24]}\n" BOTH("s", "r"),
     2},
    {"one_before_and_one_behind", JOINT,
     ATTENTION TOKENS SLICE("x", "t", "0", "X")
         SLICE("w0", "t", "X", "X + Y") "  %w = view %w0 {shape=[B*Y, 24]}\n" BOTH("s", "r"),
     2},
    {"three_parts", JOINT,
     ATTENTION
     "  %p = permute %a {order=[2, 0, 1, 3]}\n  %x, %m, %w = split %p {axis=0, sizes=[2, X - 2, Y]}\n" QUANTISE(
         "x8", "x", "s") QUANTISE("m8", "m", "r") QUANTISE("z", "w", "s") "  %y = concat %m8, %x8 {axis=0}\n",
     3},
    {"sizes_that_nobody_compared", JOINT,
     ATTENTION "  %x, %m, %w = split %a {axis=2, sizes=[3, X - 3, Y]}\n" QUANTISE("x8", "x", "s")
         QUANTISE("m8", "m", "r") QUANTISE("z", "w", "s") "  %y = concat %m8, %x8 {axis=2}\n",
     3},
    {"slices_that_follow_each_other", JOINT,
     ATTENTION TOKENS SLICE("x", "t", "0", "3") SLICE("m", "t", "3", "X") SLICE("w", "t", "X", "X + Y")
         QUANTISE("x8", "x", "s") QUANTISE("m8", "m", "r") QUANTISE("z", "w", "s") "  %y = concat %m8, %x8 {axis=1}\n",
     3},
    {"a_part_that_nobody_reads", JOINT,
     ATTENTION TOKENS "  %x, %m, %w = split %t {axis=1, sizes=[1, X - 1, Y]}\n" BOTH("s", "r"), 2},
    {"packed_batch_of_one", "%q: f32[1, 4, X + Y, 8], %k: f32[1, 2, S, 8], %v: f32[1, 2, S, 6]" SCALES,
     ATTENTION "  %p = permute %a {order=[0, 2, 1, 3]}\n  %t = view %p {shape=[X + Y, 24]}\n"
               "  %x, %w = split %t {axis=0, sizes=[X, Y]}\n" BOTH("s", "r"),
     2},
    {"mask_and_bias", JOINT ", %m: i1[B, 1, X + Y, S], %b: f32[1, 4, X + Y, S], %c: i32[B]",
     "  %a = attention %q, %k, %v, bias=%b, mask=%m, kv_lens=%c {scale=0.35, softcap=5.0}\n" TOKENS HALVES BOTH("s",
                                                                                                                "r"),
     2},
    {"masks_of_keys", JOINT ", %m: i1[B, 1, 1, S], %b: f32[S]",
     "  %a = attention %q, %k, %v, bias=%b, mask=%m {scale=0.35}\n" TOKENS HALVES BOTH("s", "r"), 2},
    {"sinks", JOINT ", %k0: f32[4]",
     "  %a = attention %q, %k, %v, sinks=%k0 {scale=0.35}\n" TOKENS HALVES BOTH("s", "r"), 2},
    {"causal", SQUARE, "  %a = attention %q, %k, %v {scale=0.35, causal=true}\n" TOKENS HALVES BOTH("s", "r"), 2},
    {"windows", SQUARE,
     "  %a = attention %q, %k, %v {scale=0.35, window_left=2, window_right=1, align=top_left}\n" TOKENS HALVES BOTH(
         "s", "r"),
     2},
    {"decomposed", "%q: f32[B, 4, X + Y, 8], %k: f32[B, 4, S, 8], %v: f32[B, 4, S, 6]" SCALES,
     "  %l = contract %q, %k {equation=\"bhtd,bhsd->bhts\"}\n  %o = softmax %l {axis=3}\n"
     "  %a = contract %o, %v {equation=\"bhts,bhse->bhte\"}\n" TOKENS HALVES BOTH("s", "r"),
     2},
    {"fp8_operands", JOINT ", %sk: f32[], %sq: f32[]",
     "  %q8 = quantize %q, %sq {dtype=f8E4M3FN}\n  %k8 = quantize %k, %sk {dtype=f8E4M3FN}\n"
     "  %v8 = quantize %v, %sk {dtype=f8E4M3FN}\n"
     "  %a = attention %q8, %k8, %v8, q_scale=%sq, k_scale=%sk, v_scale=%sk {scale=0.35}\n" TOKENS HALVES BOTH("s",
                                                                                                               "r"),
     2},
    {"concatenated_queries", CONCATENATED ", %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 6]" SCALES,
     QUERIES ATTENTION TOKENS HALVES BOTH("s", "r"), 2},
    {"concatenated_queries_in_fp8",
     CONCATENATED ", %k: f8E4M3FN[B, 2, S, 8], %v: f8E4M3FN[B, 2, S, 6], %sk: f32[], %sq: f32[]" SCALES,
     QUERIES
     "  %q8 = quantize %q, %sq {dtype=f8E4M3FN}\n"
     "  %a = attention %q8, %k, %v, q_scale=%sq, k_scale=%sk, v_scale=%sk {scale=0.35}\n" TOKENS HALVES BOTH("s", "r"),
     2},
    {"two_layers", JOINT ", %w1: f32[B, 4, X + Y, 8]",
     ATTENTION TOKENS HALVES QUANTISE("x8", "x", "s") QUANTISE(
         "w8", "w",
         "r") "  %a2 = attention %w1, %k, %v {scale=0.35}\n  %x2, %w2 = split %a2 {axis=2, sizes=[X, "
              "Y]}\n" QUANTISE("x28", "x2", "r") QUANTISE(
                  "w28", "w2",
                  "s") "  %x3 = view %x28 {shape=[B, X, 24]}\n  %w3 = view %w28 {shape=[B, Y, 24]}\n"
                       "  %y = concat %x8, %w8, %x3, %w3 {axis=1}\n  %a3 = attention %w1, %k, %v {scale=0.25}\n"
                       "  %x4, %w4 = split %a3 {axis=2, sizes=[1, X + Y - 1]}\n" QUANTISE("x48", "x4", "r")
                           QUANTISE("w48", "w4", "s") "  %z = concat %x48, %w48 {axis=2}\n",
     6},
    {"unlike_formats", JOINT, ATTENTION TOKENS HALVES QUANTISE("y", "x", "s") "  %z = quantize %w, %s {dtype=f8E5M2}\n",
     2},
    /* --- one scale --- */
    {"equal_scales", JOINT, ATTENTION TOKENS HALVES BOTH("s", "s"), 1},
    {"equal_numbers", JOINT,
     ATTENTION TOKENS
     "  %n1 = constant {value=f32[] 0.02}\n  %n2 = constant {value=f32[] 0.02}\n" HALVES BOTH("n1", "n2"),
     1},
    {"equal_scales_split", JOINT, ATTENTION TOKENS "  %x, %w = split %t {axis=1, sizes=[X, Y]}\n" BOTH("s", "s"), 1},
    {"heads_split", JOINT, ATTENTION "  %x, %w = split %a {axis=1, sizes=[1, 3]}\n" BOTH("s", "s"), 1},
    {"overlapping_with_one_scale", JOINT,
     ATTENTION TOKENS SLICE("x", "t", "0", "X + 1") SLICE("w", "t", "X", "X + Y") BOTH("s", "s"), 1},
    {"a_scale_that_stands_later", JOINT, ATTENTION TOKENS HALVES "  %s2 = mul %s, %r\n" BOTH("s2", "s2"), 1},
    {"beside_a_feed_forward", JOINT ", %f: f32[B, X + Y, 10]",
     ATTENTION TOKENS "  %g = gelu %f\n  %c = concat %t, %g {axis=2}\n" QUANTISE("y", "c", "s") "  %z = neg %g\n", 1},
    {"behind_a_concatenation", JOINT ", %f: f32[B, X + Y, 10]",
     ATTENTION TOKENS "  %c = concat %f, %t {axis=2}\n  %d = permute %c {order=[1, 0, 2]}\n"
                      "  %e = view %d {shape=[X + Y, 34*B]}\n" QUANTISE("y", "e", "s") "  %z = neg %f\n",
     1},
    {"cut_and_joined_again", JOINT ", %f: f32[B, X + Y, 10]",
     ATTENTION TOKENS HALVES
     "  %o = concat %w, %x {axis=1}\n  %c = concat %o, %f {axis=2}\n" QUANTISE("y", "c", "s") "  %z = neg %f\n",
     1},
    {"two_attentions_joined", JOINT ", %q2: f32[B, 4, 3, 8]",
     ATTENTION "  %b = attention %q2, %k, %v {scale=0.35}\n  %c = concat %a, %b {axis=2}\n"
               "  %d = permute %c {order=[0, 2, 1, 3]}\n" QUANTISE("y", "d", "s") "  %z = neg %r\n",
     2},
    /* --- rows set to zero --- */
    {"times_zero_or_one", JOINT ", %b: i1[B, X + Y]",
     ATTENTION TOKENS "  %b3 = view %b {shape=[B, X + Y, 1]}\n  %m = cast %b3 {dtype=f32}\n"
                      "  %g = mul %m, %t\n" QUANTISE("y", "g", "s") "  %z = neg %m\n",
     1},
    {"times_a_spread_mask", JOINT ", %b: i1[B, X + Y, 1]",
     ATTENTION TOKENS
     "  %m0 = cast %b {dtype=f32}\n  %m = expand %m0 {shape=[B, X + Y, 24]}\n"
     "  %g = mul %t, %m\n  %h = view %g {shape=[B*X + B*Y, 24]}\n" QUANTISE("y", "h", "s") "  %z = neg %m0\n",
     1},
    {"replaced_by_zero", JOINT ", %b: i1[B, X + Y, 1]",
     ATTENTION TOKENS NUMBER("zero", "0.0") "  %g = where %b, %zero, %t\n" QUANTISE("y", "g", "s") "  %z = neg %r\n",
     1},
    {"zeroed_and_cut", JOINT ", %b: i1[B, X + Y, 1]",
     ATTENTION TOKENS NUMBER("zero", "0.0") "  %t0 = where %b, %t, %zero\n" SLICE("x", "t0", "0", "X")
         SLICE("w", "t0", "X", "X + Y") BOTH("s", "s"),
     1},
    {"paged",
     "%q: f32[3, 4, 8], %k: f32[5, 4, 2, 8], %v: f32[5, 4, 2, 8], %n: i32[3, 1], %l: i32[3], %g: f32[3, 7]" SCALES,
     "  %a = paged_attention %q, %k, %v, %n, %l {scale=0.35}\n  %t = view %a {shape=[3, 32]}\n"
     "  %c = concat %t, %g {axis=1}\n" QUANTISE("y", "c", "s") "  %z = neg %g\n",
     1},
};

static const evaluation_size sizes[][5] = {
    {{"B", 2}, {"X", 3}, {"Y", 4}, {"S", 6}, {NULL, 0}},
    {{"B", 1}, {"X", 5}, {"Y", 1}, {"S", 9}, {NULL, 0}},
};

static void open_reading(bench *b, const char *inputs, const char *body) {
    char text[8192];
    int size = snprintf(text, sizeof text, "(%s) symbols(X min 2, Y min 1) {\n%s  return %%y, %%z\n}\n", inputs, body);
    assert_true(size > 0 && (size_t)size < sizeof text);
    bench_open(b, text);
}

static uint32_t fused_count(const bench *b) {
    uint32_t count = 0;
    QF_FOR_EACH_NODE(b->graph, node) {
        qf_op op = qf_node_op(b->graph, node);
        if (op != QF_OP_attention && op != QF_OP_paged_attention) continue;
        count += qf_dtype_is_float8(qf_value_dtype(b->graph, qf_node_result(b->graph, node, 0)));
    }
    return count;
}

static void expect_fused(bench *b, const reading *which) {
    uint32_t all = bench_count(b, QF_OP_attention) + bench_count(b, QF_OP_paged_attention);
    if (fused_count(b) == which->attentions && all == which->attentions && !b->report.miss_count) return;
    bench_print(b);
    fail_msg("%s: %u of %u attentions fused, expected %u", which->name, fused_count(b), all, which->attentions);
}

static void evaluate(evaluation *e, const bench *b, const qf_graph *graph, const evaluation_size *size) {
    evaluation_open(e, graph, size);
    for (uint32_t i = 0; i < graph->input_count; i++) evaluation_fill(e, i);
    evaluation_run(e, &b->check);
}

static void compare(const bench *b, const qf_graph *before, const char *name, const evaluation_size *size) {
    evaluation expected, found;
    evaluate(&expected, b, before, size);
    evaluate(&found, b, b->graph, size);
    for (uint32_t i = 0; i < 2; i++) {
        qf_tensor x = evaluation_output(&found, i), y = evaluation_output(&expected, i);
        assert_int_equal(x.dtype, y.dtype);
        double difference = relative_difference(&x, &y);
        if (difference > 0.0) fail_msg("%s: output %u differs by %g", name, i, difference);
    }
    evaluation_close(&expected);
    evaluation_close(&found);
}

/* In f32 nothing is rounded otherwise: every code is the same. */
static void parts_are_quantised_by_attention(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(readings); i++)
        for (size_t s = 0; s < QF_COUNT_OF(sizes); s++) {
            bench b;
            open_reading(&b, readings[i].inputs, readings[i].body);
            run_passes(&b, "canonicalize,fold,cse,dce,raise");
            qf_graph *before = qf_graph_clone(b.graph);
            assert_non_null(before);
            run_passes(&b, "fuse-attention-quant,canonicalize,fold,cse,dce,legalize");
            expect_fused(&b, &readings[i]);
            compare(&b, before, readings[i].name, sizes[s]);
            qf_graph_destroy(before);
            bench_close(&b);
        }
}

static void names_and_order_do_not_matter(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(readings); i++)
        for (uint64_t seed = 1; seed <= 8; seed++) {
            bench b;
            open_reading(&b, readings[i].inputs, readings[i].body);
            perturb_graph(b.graph, seed);
            run_passes(&b, "default");
            expect_fused(&b, &readings[i]);
            bench_close(&b);
        }
}

/* What was concatenated for one attention is read by two without being cut again. */
static void concatenated_queries_are_not_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(readings); i++) {
        bench b;
        if (strncmp(readings[i].name, "concatenated_queries", 20) != 0) continue;
        open_reading(&b, readings[i].inputs, readings[i].body);
        run_passes(&b, "default");
        expect_fused(&b, &readings[i]);
        assert_int_equal(bench_count(&b, QF_OP_slice) + bench_count(&b, QF_OP_concat), 0);
        bench_close(&b);
    }
}

typedef struct refusal {
    const char *name, *inputs, *body;
    qf_reason reason;
} refusal;

static const refusal refusals[] = {
    {"overlapping", JOINT, ATTENTION TOKENS SLICE("x", "t", "0", "X + 1") SLICE("w", "t", "X", "X + Y") BOTH("s", "r"),
     QF_REASON_other_users},
    {"perhaps_overlapping", JOINT ", %n: f32[Z]",
     ATTENTION TOKENS SLICE("x", "t", "0", "Z") SLICE("w", "t", "X", "X + Y") BOTH("s", "r"), QF_REASON_other_users},
    {"a_third_reader", JOINT,
     ATTENTION TOKENS HALVES QUANTISE("y", "x", "s")
         QUANTISE("z0", "w", "r") "  %g = gelu %t\n"
                                  "  %g1 = quantize %g, %s {dtype=f8E4M3FN}\n  %z = concat %g1, %z0 {axis=1}\n",
     QF_REASON_op_between},
    {"a_part_is_read_as_it_is", JOINT, ATTENTION TOKENS HALVES QUANTISE("y", "x", "s") "  %z = neg %w\n",
     QF_REASON_other_users},
    {"a_part_is_an_output", JOINT, ATTENTION TOKENS HALVES QUANTISE("y", "x", "s") "  %z = copy %w\n",
     QF_REASON_other_users},
    {"columns", JOINT, ATTENTION TOKENS "  %x, %w = split %t {axis=2, sizes=[8, 16]}\n" BOTH("s", "r"),
     QF_REASON_layout_between},
    {"heads", JOINT, ATTENTION "  %x, %w = split %a {axis=1, sizes=[2, 2]}\n" BOTH("s", "r"), QF_REASON_layout_between},
    {"rows_of_all_batches", JOINT,
     ATTENTION TOKENS "  %f = view %t {shape=[B*X + B*Y, 24]}\n"
                      "  %x, %w = split %f {axis=0, sizes=[B*X, B*Y]}\n" BOTH("s", "r"),
     QF_REASON_layout_between},
    {"every_other_row", "%q: f32[B, 4, 6, 8], %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 6]" SCALES,
     ATTENTION "  %x = slice %a {starts=[0, 0, 0, 0], ends=[B, 4, 6, 6], steps=[1, 1, 2, 1]}\n"
               "  %w = slice %a {starts=[0, 0, 1, 0], ends=[B, 4, 6, 6], steps=[1, 1, 2, 1]}\n" BOTH("s", "r"),
     QF_REASON_other_users},
    {"causal_of_unlike_lengths", JOINT,
     "  %a = attention %q, %k, %v {scale=0.35, causal=true}\n" TOKENS HALVES BOTH("s", "r"), QF_REASON_other_users},
    {"causal_with_lengths", SQUARE ", %c: i32[B]",
     "  %a = attention %q, %k, %v, kv_lens=%c {scale=0.35, causal=true}\n" TOKENS HALVES BOTH("s", "r"),
     QF_REASON_other_users},
    {"causal_in_the_middle", SQUARE,
     "  %a = attention %q, %k, %v {scale=0.35, causal=true}\n" TOKENS SLICE("x", "t", "1", "X")
         SLICE("w", "t", "X", "X + Y") BOTH("s", "r"),
     QF_REASON_other_users},
    {"a_dynamic_scale", JOINT,
     ATTENTION TOKENS HALVES QUANTISE("y", "x",
                                      "s") "  %n = abs %w\n  %o = reduce_max %n {axes=[0, 1, 2], keep=false}\n"
                                           "  %z = quantize %w, %o {dtype=f8E4M3FN}\n",
     QF_REASON_dynamic_scale},
    {"an_integer_part", JOINT, ATTENTION TOKENS HALVES QUANTISE("y", "x", "s") "  %z = quantize %w, %r {dtype=i8}\n",
     QF_REASON_other_users},
    {"channels_of_a_concatenation", JOINT ", %f: f32[B, X + Y, 8], %n: f32[32]",
     ATTENTION TOKENS "  %c = concat %t, %f {axis=2}\n  %y = quantize %c, %n {dtype=f8E4M3FN, axis=2}\n  %z = neg %f\n",
     QF_REASON_layout_between},
    {"times_a_number_between", JOINT ", %m: f32[B, X + Y, 1]",
     ATTENTION TOKENS "  %g = mul %t, %m\n" QUANTISE("y", "g", "s") "  %z = neg %m\n", QF_REASON_op_between},
    {"times_integers", JOINT ", %b: i32[B, X + Y, 1]",
     ATTENTION TOKENS "  %m = cast %b {dtype=f32}\n  %g = mul %t, %m\n" QUANTISE("y", "g", "s") "  %z = neg %m\n",
     QF_REASON_op_between},
    {"replaced_by_one", JOINT ", %b: i1[B, X + Y, 1]",
     ATTENTION TOKENS NUMBER("one", "1.0") "  %g = where %b, %t, %one\n" QUANTISE("y", "g", "s") "  %z = neg %r\n",
     QF_REASON_op_between},
    {"replaced_by_minus_zero", JOINT ", %b: i1[B, X + Y, 1]",
     ATTENTION TOKENS NUMBER("zero", "-0.0") "  %g = where %b, %t, %zero\n" QUANTISE("y", "g", "s") "  %z = neg %r\n",
     QF_REASON_op_between},
    {"a_concatenation_that_others_read", JOINT ", %f: f32[B, X + Y, 8]",
     ATTENTION TOKENS "  %c = concat %t, %f {axis=2}\n" QUANTISE("y", "c", "s") "  %z = neg %c\n",
     QF_REASON_layout_between},
};

/* Zero over a scale that may be zero or NaN need not be zero. */
static void zeroed_rows_are_exact_under_known_scales(void **state) {
    (void)state;
    static const struct {
        const char *scale;
        qf_numerics numerics;
    } cases[] = {{NUMBER("n", "0.5"), QF_NUMERICS_EXACT},     {"  %n = copy %s\n", QF_NUMERICS_ROUNDING},
                 {NUMBER("n", "0.0"), QF_NUMERICS_ROUNDING},  {NUMBER("n", "nan"), QF_NUMERICS_ROUNDING},
                 {NUMBER("n", "-0.5"), QF_NUMERICS_ROUNDING}, {NUMBER("n", "1e-40"), QF_NUMERICS_ROUNDING},
                 {NUMBER("n", "inf"), QF_NUMERICS_ROUNDING}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        bench b;
        char body[1024];
        (void)snprintf(body, sizeof body, "%s%s", cases[i].scale,
                       ATTENTION TOKENS NUMBER("zero", "0.0") "  %g = where %b, %t, %zero\n" QUANTISE(
                           "y", "g", "n") "  %z = neg %r\n");
        open_reading(&b, JOINT ", %b: i1[B, X + Y, 1]", body);
        run_passes(&b, "default");
        uint32_t found = 0;
        for (uint32_t k = 0; k < b.report.rewrite_count; k++) {
            if (b.report.rewrites[k].rule.id != qf_intern_c(b.context, "quantise_before_parts").id) continue;
            assert_int_equal(b.report.rewrites[k].numerics, cases[i].numerics);
            found++;
        }
        assert_int_equal(found, 1);
        bench_close(&b);
    }
}

static void what_is_not_quantised_in_parts(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(refusals); i++) {
        bench b;
        open_reading(&b, refusals[i].inputs, refusals[i].body);
        run_passes(&b, "default");
        if (fused_count(&b) || bench_count(&b, QF_OP_attention) != 1 || b.report.miss_count != 1) {
            bench_print(&b);
            fail_msg("%s: %u attentions, %u fused, %u misses", refusals[i].name, bench_count(&b, QF_OP_attention),
                     fused_count(&b), b.report.miss_count);
        }
        if (b.report.misses[0].reason != refusals[i].reason)
            fail_msg("%s: %s", refusals[i].name, qf_reason_code(b.report.misses[0].reason));
        bench_close(&b);
    }
}

/* A cut counts as one rewrite, which the limit leaves out as a whole. */
static void the_limit_of_rewrites_holds(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(readings); i++) {
        bench b;
        open_reading(&b, readings[i].inputs, readings[i].body);
        run_passes(&b, "canonicalize,fold,cse,dce,raise");
        b.report.rewrite_limit = b.report.next_number - 1;
        uint32_t before = bench_count(&b, QF_OP_attention) + bench_count(&b, QF_OP_quantize);
        run_passes(&b, "fuse-attention-quant");
        assert_int_equal(bench_count(&b, QF_OP_attention) + bench_count(&b, QF_OP_quantize), before);
        assert_int_equal(fused_count(&b), 0);
        bench_close(&b);
    }
}

/* True when the run got through without meeting the failure. */
static bool survives(const reading *which, uint64_t fail_after) {
    bench b;
    open_reading(&b, which->inputs, which->body);
    run_passes(&b, "canonicalize,fold,cse,dce,raise");
    uint64_t at = b.check.allocations + fail_after;
    b.check.fail_at = at;
    bool changed = false;
    qf_status status = qf_attention_quantise_parts(b.graph, &b.options, &b.report, &changed);
    bool met = b.check.allocations >= at;
    assert_int_equal(status, met ? QF_ERROR_OUT_OF_MEMORY : QF_OK);
    bench_close(&b);
    return !met;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < QF_COUNT_OF(readings); i++)
        for (uint64_t n = 1; !survives(&readings[i], n); n++) assert_true(n < 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_quantised_by_attention),
        cmocka_unit_test(names_and_order_do_not_matter),
        cmocka_unit_test(concatenated_queries_are_not_cut),
        cmocka_unit_test(what_is_not_quantised_in_parts),
        cmocka_unit_test(zeroed_rows_are_exact_under_known_scales),
        cmocka_unit_test(the_limit_of_rewrites_holds),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
