/* Owns: spellings of attention, as bodies of graphs over the symbols B, T, S and past.
 * Does not own: what is checked of them (attention_numbers_test.c, attention_perturb_test.c).
 * Next: evaluating.h. */
#ifndef QF_TESTS_PATTERNS_SPELLINGS_H
#define QF_TESTS_PATTERNS_SPELLINGS_H

#define QKV                 "%q: f32[B, 4, T, 8], %k: f32[B, 4, S, 8], %v: f32[B, 4, S, 6]"
#define SQUARE              "%q: f32[B, 4, T, 8], %k: f32[B, 4, T, 8], %v: f32[B, 4, T, 6]"
#define CACHED              "%q: f32[B, 4, T, 8], %k: f32[B, 4, past + T, 8], %v: f32[B, 4, past + T, 6]"
#define GROUPED             "%q: f32[B, 4, T, 8], %k: f32[B, 2, S, 8], %v: f32[B, 2, S, 6]"
#define NUMBER(name, value) "  %" name " = constant {value=f32[] " value "}\n"
#define SCORES              "  %s = contract %q, %k {equation=\"bhtd,bhsd->bhts\"}\n"
#define SOFTMAX             "  %p = softmax %l {axis=3}\n"
#define VALUES              "  %y = contract %p, %v {equation=\"bhts,bhse->bhte\"}\n"
#define INDICES(t, s)       "  %i = iota {shape=[" t ", 1]}\n  %j = iota {shape=[1, " s "], axis=1}\n"
#define TRIANGLE                                                                                                       \
    "  %m = constant {value=f32[1, 1, 4, 4] [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, "   \
    "1.0, 1.0]}\n"
#define REPEAT(name, dim)                                                                                              \
    "  %" name "1 = view %" name " {shape=[B, 2, 1, S, " dim "]}\n"                                                    \
    "  %" name "2 = expand %" name "1 {shape=[B, 2, 2, S, " dim "]}\n"                                                 \
    "  %" name "3 = view %" name "2 {shape=[B, 4, S, " dim "]}\n"
#define PAIR(x, y, scale)                                                                                              \
    "  %" y "q = quantize %" x ", %" scale " {dtype=f8E4M3FN}\n"                                                       \
    "  %" y " = dequantize %" y "q, %" scale " {dtype=f32}\n"

typedef struct spelling {
    const char *name, *inputs, *body;
    double tolerance; /* of the raised against the decomposed graph, relative root mean square */
} spelling;

static const spelling spellings[] = {
    /* --- contractions and layouts --- */
    {"einsum", QKV, SCORES "  %p = softmax %s {axis=3}\n" VALUES, 1e-6},
    {"matmul", QKV,
     "  %kt = permute %k {order=[0, 1, 3, 2]}\n  %s = matmul %q, %kt\n" NUMBER("c", "8.0") "  %l = div %s, %c\n" SOFTMAX
                                                                                           "  %y = matmul %p, %v\n",
     1e-6},
    {"swapped", QKV,
     "  %qt = permute %q {order=[0, 1, 3, 2]}\n  %s = matmul %k, %qt\n  %p = softmax %s {axis=2}\n"
     "  %vt = permute %v {order=[0, 1, 3, 2]}\n  %y = matmul %vt, %p\n",
     1e-6},
    {"merged_batch", QKV,
     "  %q3 = view %q {shape=[4*B, T, 8]}\n  %k3 = view %k {shape=[4*B, S, 8]}\n  %v3 = view %v {shape=[4*B, S, 6]}\n"
     "  %kt = permute %k3 {order=[0, 2, 1]}\n  %s = matmul %q3, %kt\n  %p = softmax %s {axis=2}\n"
     "  %o = matmul %p, %v3\n  %y = view %o {shape=[B, 4, T, 6]}\n",
     1e-6},
    {"merged_only", "%q: f32[N, T, 8], %k: f32[N, S, 8], %v: f32[N, S, 6]",
     "  %s = contract %q, %k {equation=\"ntd,nsd->nts\"}\n  %p = softmax %s {axis=2}\n"
     "  %y = contract %p, %v {equation=\"nts,nse->nte\"}\n",
     1e-6},
    {"two_dimensional", "%q: f32[T, 8], %k: f32[S, 8], %v: f32[S, 6]",
     "  %s = contract %q, %k {equation=\"td,sd->ts\"}\n  %p = softmax %s {axis=1}\n  %y = matmul %p, %v\n", 1e-6},
    {"projected", "%q: f32[B, T, 32], %k: f32[B, S, 32], %v: f32[B, S, 24]",
     "  %q4 = view %q {shape=[B, T, 4, 8]}\n  %k4 = view %k {shape=[B, S, 4, 8]}\n  %v4 = view %v {shape=[B, S, 4, "
     "6]}\n"
     "  %s = contract %q4, %k4 {equation=\"bthd,bshd->bhts\"}\n  %p = softmax %s {axis=3}\n"
     "  %o = contract %p, %v4 {equation=\"bhts,bshe->bthe\"}\n  %y = view %o {shape=[B, T, 24]}\n",
     1e-6},
    {"five_dimensional", "%q: f32[B, T, 2, 3, 8], %k: f32[B, S, 2, 8], %v: f32[B, S, 2, 6]",
     "  %s = contract %q, %k {equation=\"btkgh,bskh->bkgts\"}\n  %p = softmax %s {axis=4}\n"
     "  %y = contract %v, %p {equation=\"bskh,bkgts->bkght\"}\n",
     1e-6},
    {"one_query", "%q: f32[B, 4, 1, 8], %k: f32[B, 4, S, 8], %v: f32[B, 4, S, 6]",
     SCORES "  %l = neg %s\n" SOFTMAX VALUES, 1e-6},
    {"shared_query", "%q: f32[T, 8], %k: f32[B, S, 8], %v: f32[B, S, 6]",
     "  %s = contract %q, %k {equation=\"td,bsd->bts\"}\n  %p = softmax %s {axis=2}\n  %y = matmul %p, %v\n", 1e-6},
    {"shared_value", "%q: f32[B, 4, T, 8], %k: f32[B, 4, S, 8], %v: f32[B, S, 6]",
     SCORES "  %p = softmax %s {axis=3}\n  %y = contract %p, %v {equation=\"bhts,bse->bhte\"}\n", 1e-6},
    /* --- grouped heads --- */
    {"grouped_expand", GROUPED,
     REPEAT("k", "8") REPEAT("v", "6") "  %s = contract %q, %k3 {equation=\"bhtd,bhsd->bhts\"}\n"
                                       "  %p = softmax %s {axis=3}\n  %y = matmul %p, %v3\n",
     1e-6},
    {"grouped_gather", GROUPED,
     "  %n = constant {value=i64[4] [0, 0, 1, 1]}\n  %k3 = gather %k, %n {axis=1}\n  %v3 = gather %v, %n {axis=1}\n"
     "  %s = contract %q, %k3 {equation=\"bhtd,bhsd->bhts\"}\n  %p = softmax %s {axis=3}\n  %y = matmul %p, %v3\n",
     1e-6},
    {"grouped_tiled", GROUPED,
     "  %k3 = concat %k, %k {axis=1}\n  %v3 = concat %v, %v {axis=1}\n"
     "  %s = contract %q, %k3 {equation=\"bhtd,bhsd->bhts\"}\n  %p = softmax %s {axis=3}\n  %y = matmul %p, %v3\n",
     1e-6},
    {"grouped_stack", GROUPED,
     "  %k1 = view %k {shape=[B, 2, 1, S, 8]}\n  %k2 = concat %k1, %k1 {axis=2}\n  %k3 = view %k2 {shape=[B, 4, S, "
     "8]}\n"
     "  %v1 = view %v {shape=[B, 2, 1, S, 6]}\n  %v2 = concat %v1, %v1 {axis=2}\n  %v3 = view %v2 {shape=[B, 4, S, "
     "6]}\n"
     "  %s = contract %q, %k3 {equation=\"bhtd,bhsd->bhts\"}\n  %p = softmax %s {axis=3}\n  %y = matmul %p, %v3\n",
     1e-6},
    {"one_kv_head", "%q: f32[B, 4, T, 8], %k: f32[B, 1, S, 8], %v: f32[B, 1, S, 6]",
     "  %kt = permute %k {order=[0, 1, 3, 2]}\n  %s = matmul %q, %kt\n  %p = softmax %s {axis=3}\n  %y = matmul %p, "
     "%v\n",
     1e-6},
    {"grouped_values_only", "%q: f32[B, 4, T, 8], %k: f32[B, 4, S, 8], %v: f32[B, 2, S, 6]",
     REPEAT("v", "6") SCORES "  %p = softmax %s {axis=3}\n  %y = matmul %p, %v3\n", 1e-6},
    /* --- scores --- */
    {"scaled_operands", QKV,
     NUMBER("c",
            "0.5") "  %qs = mul %c, %q\n  %ks = mul %k, %c\n  %s = contract %qs, %ks {equation=\"bhtd,bhsd->bhts\"}\n"
                   "  %p = softmax %s {axis=3}\n" VALUES,
     1e-6},
    {"zero_scale", QKV, SCORES NUMBER("c", "0.0") "  %l = mul %s, %c\n" SOFTMAX VALUES, 1e-6},
    {"tensor_scale", QKV ", %w: f32[4, 1, 1], %x: f32[]",
     SCORES "  %s1 = mul %w, %s\n  %l = div %s1, %x\n" SOFTMAX VALUES, 1e-5},
    {"negative_scale", QKV, SCORES NUMBER("c", "-0.125") "  %l = mul %s, %c\n" SOFTMAX VALUES, 1e-6},
    /* Rows that both masks hide entirely read the keys whose fill is the largest. */
    {"two_finite_selects", QKV ", %m: i1[B, 1, 1, S], %n: i1[B, 1, T, S]",
     SCORES NUMBER("low", "-3.4e38") "  %a = where %m, %s, %low\n  %l = where %n, %a, %low\n" SOFTMAX VALUES, 1e-6},
    {"two_fills", QKV ", %m: i1[B, 1, 1, S], %n: i1[B, 1, T, S]",
     SCORES NUMBER("low", "-3.4e38")
         NUMBER("less", "-1e4") "  %a = where %m, %s, %low\n  %l = where %n, %a, %less\n" SOFTMAX VALUES,
     1e-6},
    {"finite_select_over_infinite", QKV ", %m: i1[B, 1, 1, S], %n: i1[B, 1, T, S]",
     SCORES NUMBER("low", "-3.4e38")
         NUMBER("none", "-inf") "  %a = where %m, %s, %none\n  %l = where %n, %a, %low\n" SOFTMAX VALUES,
     1e-6},
    {"finite_select_over_addend", QKV ", %m: i1[B, 1, 1, S], %n: i1[B, 1, T, S]",
     SCORES NUMBER("low", "-3.4e38") NUMBER("zero", "0.0") "  %f = where %m, %zero, %low\n  %a = add %s, %f\n"
                                                           "  %l = where %n, %a, %low\n" SOFTMAX VALUES,
     1e-6},
    {"softcap", QKV,
     SCORES NUMBER("c", "0.25") NUMBER("h", "3.0") "  %s1 = mul %s, %c\n  %s2 = div %s1, %h\n  %s3 = tanh %s2\n"
                                                   "  %l = mul %h, %s3\n" SOFTMAX VALUES,
     1e-5},
    {"negative_softcap", QKV,
     SCORES NUMBER("c", "0.1") NUMBER("h", "-3.0") "  %s1 = mul %s, %c\n  %s2 = tanh %s1\n"
                                                   "  %l = mul %s2, %h\n" SOFTMAX VALUES,
     1e-5},
    {"layout_inside", QKV,
     SCORES "  %s1 = permute %s {order=[2, 0, 3, 1]}\n" NUMBER(
         "c", "0.25") "  %s2 = mul %s1, %c\n"
                      "  %s3 = permute %s2 {order=[1, 3, 0, 2]}\n  %s4 = view %s3 {shape=[4*B*T, S]}\n  %p1 = softmax "
                      "%s4 {axis=1}\n"
                      "  %p = view %p1 {shape=[B, 4, T, S]}\n" VALUES,
     1e-6},
    /* --- addends and selects --- */
    {"bias", QKV ", %w: f32[4, T, S]", SCORES "  %l = add %w, %s\n" SOFTMAX VALUES, 1e-6},
    {"bias_scaled_after", QKV ", %w: f32[B, 1, 1, S]",
     SCORES "  %s1 = add %s, %w\n" NUMBER("c", "0.25") "  %l = mul %s1, %c\n" SOFTMAX VALUES, 1e-6},
    {"two_biases", QKV ", %w: f32[4, T, S], %x: f32[B, 1, 1, S]",
     SCORES "  %s1 = add %w, %s\n  %l = sub %s1, %x\n" SOFTMAX VALUES, 1e-6},
    {"subtracted_from", QKV ", %w: f32[B, 4, T, S]", SCORES "  %l = sub %w, %s\n" SOFTMAX VALUES, 1e-6},
    {"merged_bias", QKV ", %w: f32[4*B, T, S], %m: i1[B, 1, 1, S]",
     "  %q3 = view %q {shape=[4*B, T, 8]}\n  %k3 = view %k {shape=[4*B, S, 8]}\n"
     "  %s = contract %q3, %k3 {equation=\"ntd,nsd->nts\"}\n  %s1 = add %w, %s\n  %s2 = view %s1 {shape=[B, 4, T, "
     "S]}\n" NUMBER("f", "-3.4028235e38") "  %l = where %m, %s2, %f\n" SOFTMAX VALUES,
     1e-6},
    /* Products of q with positions are addends: a table of them has rows, or neither batch nor heads. */
    {"bias_of_one_batch", "%q: f32[4, T, 8], %k: f32[4, S, 8], %v: f32[4, S, 6], %w: f32[1, 1, T, S]",
     "  %s = contract %q, %k {equation=\"htd,hsd->hts\"}\n  %l = add %s, %w\n" SOFTMAX
     "  %p3 = view %p {shape=[4, T, S]}\n  %y = contract %p3, %v {equation=\"hts,hse->hte\"}\n",
     1e-6},
    {"mask_of_one_batch", "%q: f32[4, T, 8], %k: f32[4, S, 8], %v: f32[4, S, 6], %m: i1[1, 1, T, S]",
     "  %s = contract %q, %k {equation=\"htd,hsd->hts\"}\n" NUMBER(
         "f", "-1e9") "  %l = where %m, %s, %f\n" SOFTMAX
                      "  %p3 = view %p {shape=[4, T, S]}\n  %y = contract %p3, %v {equation=\"hts,hse->hte\"}\n",
     1e-6},
    {"relative_rows", QKV ", %r: f32[T, S, 8]",
     SCORES "  %u = contract %q, %r {equation=\"bhtd,tsd->bhts\"}\n" NUMBER(
         "c", "0.5") "  %w = mul %u, %c\n  %l = add %s, %w\n" SOFTMAX VALUES,
     1e-6},
    {"shared_positions", QKV ", %e: f32[B, 4, T, 5], %r: f32[B, S, 5]",
     SCORES "  %w = contract %e, %r {equation=\"bhtr,bsr->bhts\"}\n  %l = add %w, %s\n" SOFTMAX VALUES, 1e-6},
    {"boolean_mask", QKV ", %m: i1[B, 1, T, S]", SCORES NUMBER("f", "-inf") "  %l = where %m, %s, %f\n" SOFTMAX VALUES,
     1e-6},
    {"inverted_mask", QKV ", %m: i1[B, 1, 1, S]",
     SCORES NUMBER("f", "-inf") "  %n = not %m\n  %l = where %m, %f, %s\n" SOFTMAX VALUES, 1e-6},
    {"finite_mask", QKV ", %m: i1[B, 1, T, S]", SCORES NUMBER("f", "-1e9") "  %l = where %m, %s, %f\n" SOFTMAX VALUES,
     1e-6},
    {"floored_mask", QKV ", %m: i1[B, 1, T, S]",
     SCORES NUMBER("f", "-inf")
         NUMBER("low", "-3.4028235e38") "  %s1 = where %m, %s, %f\n  %l = maximum %s1, %low\n" SOFTMAX VALUES,
     1e-6},
    {"floored_bias", QKV ", %w: f32[B, 1, T, S], %m: i1[B, 1, 1, S]",
     SCORES NUMBER("f", "-inf") NUMBER(
         "low",
         "-3.4028235e38") "  %g = where %m, %w, %f\n  %s1 = add %s, %g\n  %l = maximum %low, %s1\n" SOFTMAX VALUES,
     1e-6},
    {"added_mask", QKV ", %m: i1[B, 1, T, S]",
     SCORES "  %n = not %m\n  %x = cast %n {dtype=f32}\n" NUMBER(
         "f", "-10000.0") "  %a = mul %x, %f\n  %l = add %s, %a\n" SOFTMAX VALUES,
     1e-6},
    {"causal_and_padding", SQUARE ", %m: i1[B, 1, 1, T]",
     SCORES INDICES("T", "T") "  %c = greater_equal %i, %j\n  %b = and %c, %m\n" NUMBER(
         "f", "-inf") "  %l = where %b, %s, %f\n" SOFTMAX VALUES,
     1e-6},
    {"causal_cached", CACHED,
     SCORES INDICES("T", "past + T") "  %o = symbolic {values=[past], shape=[]}\n  %io = add %o, %i\n  %c = less_equal "
                                     "%j, %io\n" NUMBER("f", "-3.4028235e38") NUMBER(
                                         "z", "0.0") "  %a = where %c, %z, %f\n  %l = add %a, %s\n" SOFTMAX VALUES,
     1e-6},
    {"causal_top_left", QKV,
     SCORES INDICES("T", "S") "  %c = less %i, %j\n" NUMBER("f", "-inf") "  %l = where %c, %f, %s\n" SOFTMAX VALUES,
     1e-6},
    {"window", SQUARE,
     SCORES INDICES("T",
                    "T") "  %c = less_equal %j, %i\n  %d = sub %i, %j\n  %three = symbolic {values=[3], shape=[]}\n"
                         "  %w = less %d, %three\n  %b = and %c, %w\n" NUMBER(
                             "f", "-inf") "  %l = where %b, %s, %f\n" SOFTMAX VALUES,
     1e-6},
    {"triangle", SQUARE,
     SCORES NUMBER("f", "-inf") "  %a = full %f {shape=[T, T]}\n  %u = triangle %a {upper=true, diagonal=1}\n  %l = "
                                "add %s, %u\n" SOFTMAX VALUES,
     1e-6},
    {"not_or", SQUARE ", %m: i1[B, 1, 1, T]",
     SCORES INDICES("T", "T") "  %c = greater %j, %i\n  %n = not %m\n  %b = or %c, %n\n" NUMBER(
         "f", "-inf") "  %l = where %b, %f, %s\n" SOFTMAX VALUES,
     1e-6},
    /* --- softmax --- */
    {"decomposed_softmax", QKV,
     SCORES "  %m = reduce_max %s {axes=[3]}\n  %x = sub %s, %m\n  %e = exp %x\n  %z = reduce_sum %e {axes=[3]}\n"
            "  %p = div %e, %z\n" VALUES,
     1e-6},
    {"reciprocal_sum", QKV,
     SCORES "  %e = exp %s\n  %z = reduce_sum %e {axes=[3]}\n  %r = reciprocal %z\n  %p = mul %r, %e\n" VALUES, 1e-5},
    {"one_over_sum", QKV,
     SCORES "  %e = exp %s\n  %z = reduce_sum %e {axes=[3], keep=false}\n" NUMBER(
         "one", "1.0") "  %r = div %one, %z\n"
                       "  %r4 = view %r {shape=[B, 4, T, 1]}\n  %p = mul %e, %r4\n" VALUES,
     1e-5},
    {"exponential_of_log", QKV, SCORES "  %g = log_softmax %s {axis=3}\n  %p = exp %g\n" VALUES, 1e-5},
    {"minus_logarithm", QKV,
     SCORES "  %m = reduce_max %s {axes=[3]}\n  %x = sub %s, %m\n  %e = exp %x\n  %z = reduce_sum %e {axes=[3]}\n"
            "  %g = log %z\n  %w = sub %x, %g\n  %p = exp %w\n" VALUES,
     1e-5},
    {"minus_logarithm_and_shift", QKV,
     SCORES "  %m = reduce_max %s {axes=[3], keep=false}\n  %m4 = view %m {shape=[B, 4, T, 1]}\n  %x = sub %s, %m4\n"
            "  %e = exp %x\n  %z = reduce_sum %e {axes=[3], keep=false}\n  %za = abs %z\n  %g = log %za\n"
            "  %gm = add %g, %m\n  %g4 = view %gm {shape=[B, 4, T, 1]}\n  %w = sub %s, %g4\n  %p = exp %w\n" VALUES,
     1e-5},
    {"shifted_by_finite_maximum", QKV,
     SCORES NUMBER("z", "0.0") "  %m = reduce_max %s {axes=[3]}\n  %i = is_inf %m\n  %n = where %i, %z, %m\n"
                               "  %x = sub %s, %n\n  %e = exp %x\n  %d = reduce_sum %e {axes=[3]}\n"
                               "  %p = div %e, %d\n" VALUES,
     1e-6},
    {"power_of_two", QKV,
     SCORES NUMBER("c", "1.4426950408889634")
         NUMBER("k2", "0.6931471805599453") "  %s2 = mul %s, %c\n  %m = reduce_max %s2 {axes=[3]}\n"
                                            "  %x = sub %s2, %m\n  %x2 = mul %x, %k2\n  %e = exp %x2\n"
                                            "  %d = reduce_sum %e {axes=[3]}\n  %p = div %e, %d\n" VALUES,
     1e-5},
    {"shift_of_a_row", QKV ", %r: f32[B, 1, T, 1]", SCORES "  %l = add %r, %s\n" SOFTMAX VALUES, 1e-6},
    {"zeroed_probabilities", QKV ", %m: i1[B, 1, T, S]",
     SCORES NUMBER("f", "-inf")
         NUMBER("z", "0.0") "  %l = where %m, %s, %f\n  %p0 = softmax %l {axis=3}\n  %p = where %m, %p0, %z\n" VALUES,
     1e-6},
    {"zeroed_over_a_finite_fill", QKV ", %m: i1[B, 1, T, S]",
     SCORES NUMBER("f", "-1e30") NUMBER("z", "0.0") "  %h = not %m\n  %l = where %h, %f, %s\n"
                                                    "  %p0 = softmax %l {axis=3}\n  %p = where %m, %p0, %z\n" VALUES,
     1e-6},
    {"zeroed_exponentials", QKV ", %m: i1[B, 1, T, S]",
     SCORES NUMBER("f", "-inf") NUMBER("z", "0.0") "  %l = where %m, %s, %f\n  %x0 = reduce_max %l {axes=[3]}\n"
                                                   "  %x = sub %l, %x0\n  %e = exp %x\n  %k1 = where %m, %e, %z\n"
                                                   "  %d = reduce_sum %k1 {axes=[3]}\n  %p0 = div %e, %d\n"
                                                   "  %p = where %m, %p0, %z\n" VALUES,
     1e-6},
    {"late_division", QKV,
     SCORES "  %m = reduce_max %s {axes=[3]}\n  %x = sub %s, %m\n  %e = exp %x\n  %z = reduce_sum %e {axes=[3]}\n"
            "  %n = contract %e, %v {equation=\"bhts,bhse->bhte\"}\n  %y = div %n, %z\n",
     1e-6},
    {"late_reciprocal", QKV,
     SCORES "  %e = exp %s\n  %z = reduce_sum %e {axes=[3], keep=false}\n  %r = reciprocal %z\n"
            "  %n = contract %e, %v {equation=\"bhts,bhse->bthe\"}\n  %rt = permute %r {order=[0, 2, 1]}\n"
            "  %r4 = view %rt {shape=[B, T, 4, 1]}\n  %y = mul %r4, %n\n",
     1e-5},
    {"guarded", QKV ", %m: i1[B, 1, T, S]",
     SCORES NUMBER("f", "-inf")
         NUMBER("z", "0.0") "  %l = where %m, %s, %f\n  %p0 = softmax %l {axis=3}\n  %g = is_nan %p0\n"
                            "  %p = where %g, %z, %p0\n" VALUES,
     1e-6},
    {"no_numbers_to_numbers", QKV ", %m: i1[B, 1, T, S]",
     SCORES NUMBER("f", "-inf") NUMBER("z", "0.0") NUMBER("top", "3.4028235e38") NUMBER(
         "bottom", "-3.4028235e38") "  %l = where %m, %s, %f\n  %p0 = softmax %l {axis=3}\n"
                                    "  %g = is_nan %p0\n  %p1 = where %g, %z, %p0\n  %i1 = is_inf %p1\n"
                                    "  %g1 = greater %p1, %z\n  %a1 = and %i1, %g1\n  %p2 = where %a1, %top, %p1\n"
                                    "  %i2 = equal %p2, %f\n  %p = where %i2, %bottom, %p2\n" VALUES,
     1e-6},
    {"sixteen_bit", "%q: f16[B, 4, T, 8], %k: f16[B, 4, S, 8], %v: f16[B, 4, S, 6]",
     SCORES "  %s1 = cast %s {dtype=f32}\n  %p0 = softmax %s1 {axis=3}\n  %p = cast %p0 {dtype=f16}\n" VALUES, 2e-3},
    {"scaled_probabilities", QKV,
     SCORES "  %p0 = softmax %s {axis=3}\n" NUMBER("c", "0.5") "  %p = mul %p0, %c\n" VALUES, 1e-6},
    /* --- scores times 0 or 1, and what hides the rest --- */
    {"blend_of_a_constant", "%q: f32[B, 4, 4, 8], %k: f32[B, 4, 4, 8], %v: f32[B, 4, 4, 6]",
     SCORES TRIANGLE NUMBER("one", "1.0")
         NUMBER("c", "10000.0") "  %l0 = mul %s, %m\n  %n = sub %one, %m\n"
                                "  %h = mul %c, %n\n  %l = sub %l0, %h\n" SOFTMAX VALUES,
     1e-6},
    {"blend_of_a_folded_constant", "%q: f32[B, 4, 4, 8], %k: f32[B, 4, 4, 8], %v: f32[B, 4, 4, 6]",
     SCORES TRIANGLE NUMBER("c", "0.5") "  %h = constant {value=f32[1, 1, 4, 4] [0.0, -1e10, -1e10, -1e10, 0.0, 0.0, "
                                        "-1e10, -1e10, 0.0, 0.0, 0.0, -1e10, 0.0, 0.0, 0.0, 0.0]}\n"
                                        "  %l0 = mul %m, %s\n  %l1 = mul %c, %l0\n  %l = add %h, %l1\n" SOFTMAX VALUES,
     1e-6},
    {"blend_of_positions", CACHED,
     SCORES INDICES("T", "past + T") NUMBER("one", "1.0")
         NUMBER("c", "-10000.0") "  %o = symbolic {values=[past], shape=[]}\n  %ip = add %o, %i\n  %seen = less_equal "
                                 "%j, %ip\n  %m = cast %seen {dtype=f32}\n  %n = sub %one, %m\n  %h = mul %n, %c\n"
                                 "  %l0 = mul %s, %m\n  %l = add %l0, %h\n" SOFTMAX VALUES,
     1e-6},
    {"blend_minus_one", SQUARE,
     SCORES INDICES("T", "T") NUMBER("one", "1.0") NUMBER("c", "1e10") NUMBER(
         "d", "0.35") "  %seen = greater_equal %i, %j\n  %m = cast %seen {dtype=f32}\n  %n = sub %m, %one\n"
                      "  %h = mul %c, %n\n  %l0 = mul %m, %s\n  %l1 = add %h, %l0\n  %l = mul %l1, %d\n" SOFTMAX VALUES,
     1e-6},
    {"blend_of_padding", QKV ", %b: i1[B, 1, 1, S]",
     SCORES NUMBER("one", "1.0")
         NUMBER("c", "-10000.0") "  %m = cast %b {dtype=f32}\n  %n = sub %one, %m\n  %h = mul %n, %c\n"
                                 "  %l0 = mul %s, %m\n  %l = add %l0, %h\n" SOFTMAX VALUES,
     1e-6},
    {"blend_of_hidden", QKV ", %b: i1[B, 1, T, S]",
     SCORES NUMBER("one", "1.0")
         NUMBER("c", "-1e9") "  %hidden = cast %b {dtype=f32}\n  %m = sub %one, %hidden\n  %h = mul %hidden, %c\n"
                             "  %l0 = mul %s, %m\n  %l = add %l0, %h\n" SOFTMAX VALUES,
     1e-6},
    {"blend_of_two_masks", SQUARE ", %b: i1[B, 1, 1, T]",
     SCORES INDICES("T", "T") NUMBER("one", "1.0") NUMBER(
         "c",
         "-10000.0") "  %seen = greater_equal %i, %j\n  %m1 = cast %seen {dtype=f32}\n  %m2 = cast %b {dtype=f32}\n"
                     "  %m = mul %m1, %m2\n  %n = sub %one, %m\n  %h = mul %n, %c\n"
                     "  %l0 = mul %s, %m\n  %l = add %l0, %h\n" SOFTMAX VALUES,
     1e-6},
    {"blend_over_a_bias", SQUARE ", %w: f32[1, 4, T, T]",
     SCORES INDICES("T", "T") NUMBER("one", "1.0")
         NUMBER("c", "-10000.0") "  %seen = greater_equal %i, %j\n  %m = cast %seen {dtype=f32}\n"
                                 "  %n = sub %one, %m\n  %h = mul %n, %c\n  %sw = add %s, %w\n"
                                 "  %l0 = mul %sw, %m\n  %l = add %l0, %h\n" SOFTMAX VALUES,
     1e-6},
    {"blend_in_no_band", "%q: f32[B, 4, 2, 8], %k: f32[B, 4, 4, 8], %v: f32[B, 4, 4, 6]",
     SCORES "  %m = constant {value=f32[2, 4] [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0]}\n"
            "  %h = constant {value=f32[2, 4] [0.0, -10000.0, 0.0, -10000.0, -10000.0, 0.0, 0.0, 0.0]}\n"
            "  %l0 = mul %s, %m\n  %l = add %l0, %h\n" SOFTMAX VALUES,
     1e-6},
    {"blend_in_16_bit", "%q: bf16[B, 4, T, 8], %k: bf16[B, 4, T, 8], %v: bf16[B, 4, T, 6]",
     SCORES INDICES("T", "T") "  %one = constant {value=bf16[] 1.0}\n  %c = constant {value=bf16[] -10000.0}\n"
                              "  %seen = greater_equal %i, %j\n  %m = cast %seen {dtype=bf16}\n"
                              "  %n = sub %one, %m\n  %h = mul %n, %c\n"
                              "  %l0 = mul %s, %m\n  %l = add %l0, %h\n" SOFTMAX VALUES,
     2e-2},
    /* --- sinks --- */
    {"sinks", QKV ", %k0: f32[4]",
     SCORES
     "  %k1 = view %k0 {shape=[1, 4, 1, 1]}\n  %k2 = expand %k1 {shape=[B, 4, T, 1]}\n  %c = concat %s, %k2 {axis=3}\n"
     "  %m = reduce_max %c {axes=[3]}\n  %x = sub %c, %m\n  %p0 = softmax %x {axis=3}\n"
     "  %p = slice %p0 {starts=[0, 0, 0, 0], ends=[B, 4, T, S], steps=[1, 1, 1, 1]}\n" VALUES,
     1e-6},
    {"sinks_first", QKV ", %k0: f32[4]",
     SCORES
     "  %k1 = view %k0 {shape=[1, 4, 1, 1]}\n  %k2 = expand %k1 {shape=[B, 4, T, 1]}\n  %c = concat %k2, %s {axis=3}\n"
     "  %p0 = softmax %c {axis=3}\n  %p1, %p = split %p0 {axis=3, sizes=[1, S]}\n" VALUES,
     1e-6},
    {"sinks_of_one_batch", "%q: f32[1, 4, T, 8], %k: f32[2, S, 8], %v: f32[2, S, 6], %k0: f32[4]",
     "  %k4 = view %k {shape=[1, 2, 1, S, 8]}\n  %ke = expand %k4 {shape=[1, 2, 2, S, 8]}\n"
     "  %v4 = view %v {shape=[1, 2, 1, S, 6]}\n  %ve = expand %v4 {shape=[1, 2, 2, S, 6]}\n"
     "  %q3 = view %q {shape=[4, T, 8]}\n  %k3 = view %ke {shape=[4, S, 8]}\n  %v3 = view %ve {shape=[4, S, 6]}\n"
     "  %s = contract %q3, %k3 {equation=\"htd,hsd->hts\"}\n  %s4 = view %s {shape=[1, 4, T, S]}\n"
     "  %k1 = view %k0 {shape=[1, 4, 1, 1]}\n  %k2 = expand %k1 {shape=[1, 4, T, 1]}\n"
     "  %c = concat %s4, %k2 {axis=3}\n  %p0 = softmax %c {axis=3}\n"
     "  %p4 = slice %p0 {starts=[0, 0, 0, 0], ends=[1, 4, T, S], steps=[1, 1, 1, 1]}\n"
     "  %p = view %p4 {shape=[4, T, S]}\n  %o = contract %p, %v3 {equation=\"hts,hse->hte\"}\n"
     "  %y = view %o {shape=[1, 4, T, 6]}\n",
     1e-5},
    {"folded_sinks", "%q: f32[2, 2, 3, 8], %k: f32[2, 2, S, 8], %v: f32[2, 2, S, 6]",
     SCORES "  %k2 = constant {value=f32[2, 2, 3, 1] [0.5, 0.5, 0.5, -1.0, -1.0, -1.0, 0.5, 0.5, 0.5, -1.0, -1.0, "
            "-1.0]}\n  %c = concat %s, %k2 {axis=3}\n  %p0 = softmax %c {axis=3}\n"
            "  %p = slice %p0 {starts=[0, 0, 0, 0], ends=[2, 2, 3, S], steps=[1, 1, 1, 1]}\n" VALUES,
     1e-6},
    {"folded_sinks_in_16_bit", "%q: f16[1, 4, 2, 8], %k: f16[1, 4, S, 8], %v: f16[1, 4, S, 6]",
     SCORES "  %k2 = constant {value=f16[1, 4, 2, 1] [0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]}\n"
            "  %c = concat %k2, %s {axis=3}\n  %p0 = softmax %c {axis=3}\n"
            "  %p = slice %p0 {starts=[0, 0, 0, 1], ends=[1, 4, 2, S + 1], steps=[1, 1, 1, 1]}\n" VALUES,
     2e-3},
    {"folded_sink_of_all_heads", "%q: f32[2, 2, 2, 8], %k: f32[2, 2, S, 8], %v: f32[2, 2, S, 6]",
     SCORES "  %k2 = constant {value=f32[2, 2, 2, 1] [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]}\n"
            "  %c = concat %s, %k2 {axis=3}\n  %p0 = softmax %c {axis=3}\n"
            "  %p = slice %p0 {starts=[0, 0, 0, 0], ends=[2, 2, 2, S], steps=[1, 1, 1, 1]}\n" VALUES,
     1e-6},
    {"sinks_times_ones", QKV ", %k0: f32[4]",
     SCORES NUMBER("one", "1.0") "  %k1 = view %k0 {shape=[1, 4, 1, 1]}\n  %o = full %one {shape=[B, 4, T, 1]}\n"
                                 "  %k2 = mul %k1, %o\n  %c = concat %s, %k2 {axis=3}\n"
                                 "  %p0 = softmax %c {axis=3}\n  %p, %p1 = split %p0 {axis=3, sizes=[S, 1]}\n" VALUES,
     1e-6},
    {"sinks_plus_zeros", QKV ", %k0: f32[4]",
     SCORES NUMBER("z", "0.0") "  %k1 = view %k0 {shape=[4, 1, 1]}\n  %o = full %z {shape=[B, 1, T, 1]}\n"
                               "  %k2 = add %o, %k1\n  %c = concat %s, %k2 {axis=3}\n"
                               "  %p0 = softmax %c {axis=3}\n  %p, %p1 = split %p0 {axis=3, sizes=[S, 1]}\n" VALUES,
     1e-6},
    {"sink_padded", QKV,
     SCORES NUMBER("z",
                   "0.25") "  %c = pad %s, %z {before=[0, 0, 0, 0], after=[0, 0, 0, 1]}\n"
                           "  %p0 = softmax %c {axis=3}\n"
                           "  %p = slice %p0 {starts=[0, 0, 0, 0], ends=[B, 4, T, S], steps=[1, 1, 1, 1]}\n" VALUES,
     1e-6},
    {"sink_padded_first", QKV ", %m: i1[B, 1, T, S]",
     SCORES NUMBER("f", "-inf")
         NUMBER("z", "0.0") "  %l = where %m, %s, %f\n  %c = pad %l, %z {before=[0, 0, 0, 1], after=[0, 0, 0, 0]}\n"
                            "  %p0 = softmax %c {axis=3}\n  %p1, %p = split %p0 {axis=3, sizes=[1, S]}\n" VALUES,
     1e-6},
    {"sink_in_the_denominator", QKV ", %k0: f32[4]",
     SCORES "  %k1 = view %k0 {shape=[1, 4, 1, 1]}\n  %m0 = reduce_max %s {axes=[3]}\n  %m = maximum %m0, %k1\n"
            "  %x = sub %s, %m\n  %e = exp %x\n  %z0 = reduce_sum %e {axes=[3]}\n  %kx = sub %k1, %m\n"
            "  %ke = exp %kx\n  %z = add %ke, %z0\n  %p = div %e, %z\n" VALUES,
     1e-6},
    {"sink_of_zero_in_a_late_denominator", QKV,
     SCORES "  %m = reduce_max %s {axes=[3]}\n  %x = sub %s, %m\n  %e = exp %x\n  %z0 = reduce_sum %e {axes=[3]}\n"
            "  %n = neg %m\n  %ne = exp %n\n  %z = add %z0, %ne\n"
            "  %o = contract %e, %v {equation=\"bhts,bhse->bhte\"}\n  %y = div %o, %z\n",
     1e-6},
    /* --- FP8 --- */
    {"fp8_operands", QKV ", %sq: f32[], %sk: f32[], %sv: f32[]",
     PAIR("q", "q1", "sq") PAIR("k", "k1", "sk")
         PAIR("v", "v1", "sv") "  %s = contract %q1, %k1 {equation=\"bhtd,bhsd->bhts\"}\n" NUMBER(
             "c", "0.5") "  %l = mul %s, %c\n" SOFTMAX "  %y = matmul %p, %v1\n",
     1e-6},
    {"fp8_codes_scaled_later", QKV ", %sq: f32[], %sk: f32[], %sv: f32[]",
     "  %q1 = quantize %q, %sq {dtype=f8E4M3FN}\n  %k1 = quantize %k, %sk {dtype=f8E4M3FN}\n"
     "  %v1 = quantize %v, %sv {dtype=f8E4M3FN}\n  %vd = cast %v1 {dtype=f32}\n"
     "  %s = contract %q1, %k1 {equation=\"bhtd,bhsd->bhts\", out=f32}\n  %qk = mul %sq, %sk\n  %l = mul %s, "
     "%qk\n" SOFTMAX "  %y = contract %p, %vd {equation=\"bhts,bhse->bhte\"}\n",
     1e-6},
    {"fp8_codes_of_probabilities", QKV ", %sv: f32[], %sp: f32[]",
     "  %v1 = quantize %v, %sv {dtype=f8E4M3FN}\n" SCORES "  %p0 = softmax %s {axis=3}\n"
     "  %p = quantize %p0, %sp {dtype=f8E4M3FN}\n"
     "  %y = contract %p, %v1 {equation=\"bhts,bhse->bhte\", out=f32}\n",
     1e-6},
    {"fp8_cast_of_probabilities", QKV,
     SCORES "  %p0 = softmax %s {axis=3}\n  %p1 = cast %p0 {dtype=f8E4M3FN, saturate=false}\n"
            "  %p = cast %p1 {dtype=f32}\n" VALUES,
     1e-6},
    {"fp8_multiplied_probabilities", QKV,
     SCORES NUMBER("c",
                   "448.0") "  %p0 = softmax %s {axis=3}\n"
                            "  %p1 = quantize %p0, %c {dtype=f8E4M3FN, mode=mul}\n  %p = cast %p1 {dtype=f32}\n" VALUES,
     1e-6},
    {"fp8_query_scaled_by_head", QKV ", %sq: f32[], %sk: f32[], %w: f32[4, 1, 1]",
     "  %fq = quantize %q, %sq {dtype=f8E4M3FN}\n  %dq = dequantize %fq, %sq {dtype=f32}\n"
     "  %fk = quantize %k, %sk {dtype=f8E4M3FN}\n  %dk = dequantize %fk, %sk {dtype=f32}\n"
     "  %s = contract %dq, %dk {equation=\"bhtd,bhsd->bhts\"}\n  %l = mul %s, %w\n" SOFTMAX VALUES,
     1e-5},
    {"fp8_repeated_before", GROUPED ", %sk: f32[], %sv: f32[]",
     REPEAT("k", "8") REPEAT("v", "6") PAIR("k3", "k4", "sk")
         PAIR("v3", "v4", "sv") "  %s = contract %q, %k4 {equation=\"bhtd,bhsd->bhts\"}\n  %p = softmax %s {axis=3}\n  "
                                "%y = matmul %p, %v4\n",
     1e-6},
    {"fp8_scales_both_sides", GROUPED ", %sk: f32[], %sv: f32[]",
     REPEAT("k", "8") NUMBER("c", "0.5")
         NUMBER("d", "0.25") "  %kc = mul %k3, %c\n" PAIR("kc", "k4", "sk") "  %k5 = mul %d, %k4\n" PAIR(
             "v", "v4", "sv") "  %v5 = mul %v4, %d\n  %v6 = concat %v5, %v5 {axis=1}\n"
                              "  %s = contract %q, %k5 {equation=\"bhtd,bhsd->bhts\"}\n  %p = softmax %s {axis=3}\n  "
                              "%y = matmul %p, %v6\n",
     1e-6},
    {"fp8_packed", "%x: f32[B, T, 96], %sx: f32[]",
     PAIR("x", "x1",
          "sx") "  %x4 = view %x1 {shape=[B, T, 3, 4, 8]}\n  %q5, %k5, %v5 = split %x4 {axis=2, sizes=[1, 1, 1]}\n"
                "  %q4 = view %q5 {shape=[B, T, 4, 8]}\n  %k4 = view %k5 {shape=[B, T, 4, 8]}\n  %v4 = view %v5 "
                "{shape=[B, T, 4, 8]}\n"
                "  %s = contract %q4, %k4 {equation=\"bthd,bshd->bhts\"}\n  %p = softmax %s {axis=3}\n"
                "  %y = contract %v4, %p {equation=\"bshd,bhts->bthd\"}\n",
     1e-6},
    {"fp8_probabilities", QKV ", %sv: f32[]",
     SCORES "  %p0 = softmax %s {axis=3}\n" NUMBER("sp", "0.0022321429") PAIR("p0", "p", "sp") VALUES, 1e-6},
    {"fp8_heads", QKV ", %sk: f32[4]",
     "  %kq = quantize %k, %sk {dtype=f8E4M3FN, axis=1}\n  %k1 = dequantize %kq, %sk {dtype=f32, axis=1}\n"
     "  %s = contract %q, %k1 {equation=\"bhtd,bhsd->bhts\"}\n  %p = softmax %s {axis=3}\n" VALUES,
     1e-6},
};

#endif
