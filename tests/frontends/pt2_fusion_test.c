/* Owns: tests of what pipelines make of programs of torch: causal masks in torch's spellings, and a reason for every
 * attention that stays as it is.
 * Does not own: the spellings of the graph language (tests/patterns), single operators (pt2_ops_test.c).
 * Next: docs/howto/why-did-it-not-fuse.md. */
#include "tests/frontends/pt2_reading.h"

typedef struct rewritten {
    reading r;
    qf_run *run;
} rewritten;

static rewritten rewrite(program *p) {
    rewritten w = {.r = r_program(p, NULL)};
    if (qf_run_pipeline(w.r.graph, NULL, &w.run) != QF_OK) fail_msg("%s", state.messages);
    w.r.text.size = 0;
    qf_graph_print(&w.r.text, w.r.graph);
    return w;
}

static void end(rewritten *w) {
    qf_run_destroy(w->run);
    r_end(&w->r);
}

/* Attention of 4 rows and keys whose scores `mask` turns from %s into %w; its result %o. */
static program *masked(const char *mask, const char *rest) {
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "input q 7[1,2,4,8]\ninput k 7[1,2,4,8]\ninput v 7[1,2,4,8]\ninput c 7[]\n"
                   "kt 7[1,2,8,4] = aten.transpose.int self=%%k dim0=2 dim1=3\n"
                   "s 7[1,2,4,4] = aten.matmul.default self=%%q other=%%kt\n"
                   "%s"
                   "p 7[1,2,4,4] = aten.softmax.int self=%%w dim=-1\n"
                   "o 7[1,2,4,8] = aten.matmul.default self=%%p other=%%v\n"
                   "%s",
                   mask, rest);
    return p_program(text);
}

#define LOW   "low 7[] = aten.full.default size=[] fill_value=-3.4028234663852886e+38\n"
#define WHERE LOW "w 7[1,2,4,4] = aten.where.self condition=%m self=%s other=%low\n"
#define INDICES                                                                                                        \
    "i 5[4] = aten.arange.default end=4\nr 5[4,1] = aten.unsqueeze.default self=%i dim=1\n"                            \
    "u 5[1,4] = aten.unsqueeze.default self=%i dim=0\n"
#define ONES "e 12[4,4] = aten.ones.default size=[4,4] dtype=dtype:12\n"
#define FULL "e 7[4,4] = aten.full.default size=[4,4] fill_value=-3.4028234663852886e+38\n"

#define QUANTISE(x)                                                                                                    \
    "d 7[1,2,4,8] = aten.div.Tensor self=%" x " other=%c\n"                                                            \
    "f 7[1,2,4,8] = aten.clamp.default self=%d min=-448.0 max=448.0\n"                                                 \
    "y 29[1,2,4,8] = aten.to.dtype self=%f dtype=dtype:29\noutput y\n"

static const char quantise[] = QUANTISE("o");

static void fault_20_causal_masks_of_torch(void **unused) {
    (void)unused;
    static const char *const masks[] = {
        ONES "m 12[4,4] = aten.tril.default self=%e\n" WHERE,
        INDICES "m 12[4,4] = aten.le.Tensor self=%u other=%r\n" WHERE,
        INDICES "m 12[4,4] = aten.ge.Tensor self=%r other=%u\n" WHERE,
        INDICES "n 12[4,4] = aten.gt.Tensor self=%u other=%r\n"
                "w 7[1,2,4,4] = aten.masked_fill.Scalar self=%s mask=%n value=-3.4028234663852886e+38\n",
        ONES "m 12[4,4] = aten.triu.default self=%e diagonal=1\nn 12[4,4] = aten.logical_not.default self=%m\n" LOW
             "w 7[1,2,4,4] = aten.where.self condition=%n self=%s other=%low\n",
        FULL "t 7[4,4] = aten.triu.default self=%e diagonal=1\nw 7[1,2,4,4] = aten.add.Tensor self=%s other=%t\n",
    };
    for (size_t i = 0; i < QF_COUNT_OF(masks); i++) {
        rewritten w = rewrite(masked(masks[i], quantise));
        if (!strstr(w.r.text.data, "causal=true")) fail_msg("mask %zu is not causal:\n%s", i, w.r.text.data);
        r_lacks(&w.r, "mask=");
        r_lacks(&w.r, "bias=");
        r_has(&w.r, "out=f8E4M3FN");
        end(&w);
    }
}

/* A buffer of 8 positions, of which the program takes 4: GPT-2's way. */
static void fault_20_a_sliced_buffer_is_causal(void **unused) {
    (void)unused;
    static uint8_t lower[64], upper[64];
    for (uint32_t i = 0; i < 64; i++) {
        lower[i] = i % 8 <= i / 8;
        upper[i] = i % 8 >= i / 8;
    }
    for (uint32_t which = 0; which < 2; which++) {
        program *p = masked("a 12[1,1,4,8] = aten.slice.Tensor self=%b dim=2 start=0 end=4\n"
                            "m 12[1,1,4,4] = aten.slice.Tensor self=%a dim=3 start=0 end=4\n" WHERE,
                            quantise);
        p_lines(p, "buffer b 12[1,1,8,8]\n");
        p_weight(p, "b", which ? upper : lower, 64);
        rewritten w = rewrite(p);
        if (which) {
            r_lacks(&w.r, "causal=true");
        } else {
            r_has(&w.r, "causal=true");
            r_lacks(&w.r, "mask=");
        }
        r_has(&w.r, "out=f8E4M3FN");
        end(&w);
    }
}

static void fault_20_other_triangles_stay_masks(void **unused) {
    (void)unused;
    static const char *const masks[] = {
        ONES "m 12[4,4] = aten.triu.default self=%e\n" WHERE,             /* keys from the row on */
        INDICES "m 12[4,4] = aten.lt.Tensor self=%u other=%r\n" WHERE,    /* a first row without keys */
        ONES "m 12[4,4] = aten.tril.default self=%e diagonal=-2\n" WHERE, /* the same, two rows */
        INDICES "m 12[4,4] = aten.ne.Tensor self=%u other=%r\n" WHERE,
    };
    for (size_t i = 0; i < QF_COUNT_OF(masks); i++) {
        rewritten w = rewrite(masked(masks[i], quantise));
        r_lacks(&w.r, "causal=true");
        r_has(&w.r, "attention ");
        r_has(&w.r, "out=f8E4M3FN");
        end(&w);
    }
}

/* --- reasons --- */

static void stays(program *p, const char *code, const char *place) {
    rewritten w = rewrite(p);
    qf_site site = {.struct_size = sizeof site};
    assert_int_equal(qf_run_site_count(w.run), 1);
    assert_int_equal(qf_run_get_site(w.run, 0, &site), QF_OK);
    assert_false(site.fused);
    if (strcmp(site.miss_code, code) != 0 || !strstr(site.miss_location, place))
        fail_msg("found %s at %s, expected %s at %s", site.miss_code, site.miss_location, code, place);
    assert_true(strlen(site.miss_text) > 10);
    if (!strstr(site.location, "torch.ops.aten.") || !strstr(site.location, "model.py:7"))
        fail_msg("'%s' is no place of the program", site.location);
    end(&w);
}

#define SDPA                                                                                                           \
    "input q 7[1,2,4,8]\ninput k 7[1,2,4,8]\ninput v 7[1,2,4,8]\ninput c 7[]\n"                                        \
    "o 7[1,2,4,8] = aten.scaled_dot_product_attention.default query=%q key=%k value=%v\n"

/* A compiler that splits the program at attention leaves nothing to fuse: said, not silent. */
static void fault_3_an_attention_at_the_end_of_its_program(void **unused) {
    (void)unused;
    stays(p_program(SDPA "output o\n"), "no_quantise", "o (torch.ops.aten.scaled_dot_product_attention.default");
    stays(masked("w 7[1,2,4,4] = aten.mul.Tensor self=%s other=0.5\n", "output o\n"), "no_quantise",
          "o (torch.ops.aten.matmul.default");
    /* The other half: the quantise alone has no attention to report. */
    rewritten w = rewrite(p_program("input o 7[1,2,4,8]\ninput c 7[]\n" QUANTISE("o")));
    assert_int_equal(qf_run_site_count(w.run), 0);
    end(&w);
}

static void fault_3_what_stands_between_is_named(void **unused) {
    (void)unused;
    rewritten w = rewrite(p_program(SDPA "z 7[1,2,4,8] = vendor.gate.default x=%o\n" QUANTISE("z")));
    qf_site site = {.struct_size = sizeof site};
    assert_int_equal(qf_run_get_site(w.run, 0, &site), QF_OK);
    assert_false(site.fused);
    if (!strstr(site.miss_location, "torch.ops.vendor.gate.default")) fail_msg("'%s'", site.miss_location);
    end(&w);
    stays(p_program(SDPA QUANTISE("o") "output o\n"), "graph_output", "torch.ops.aten.");
    stays(p_program(SDPA "n 7[1,2,4,8] = aten.neg.default self=%o\noutput n\n" QUANTISE("o")), "other_users",
          "n (torch.ops.aten.neg.default");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fault_20_causal_masks_of_torch),
                                       cmocka_unit_test(fault_20_a_sliced_buffer_is_causal),
                                       cmocka_unit_test(fault_20_other_triangles_stay_masks),
                                       cmocka_unit_test(fault_3_an_attention_at_the_end_of_its_program),
                                       cmocka_unit_test(fault_3_what_stands_between_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
