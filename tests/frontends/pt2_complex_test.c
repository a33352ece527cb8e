/* Owns: tests of complex tensors: arithmetic by numbers, moved elements, weights, writes, rotations before attention,
 * and what must stay opaque. Does not own: real tensors (pt2_ops_test.c). Next: frontends/pt2/map_complex.c. */
#include "tests/frontends/pt2_reading.h"

static float x[] = {1, 2, 3, 4, 5, 6, 7, 8}; /* 1 + 2i, 3 + 4i, 5 + 6i, 7 + 8i */

static void check(const char *text, float **inputs, const float *wanted, uint32_t count) {
    reading r = r_text(text);
    r_lacks(&r, "opaque");
    r_gives(&r, inputs, 0, wanted, count);
    r_end(&r);
}

static void expect(const char *text, const float *wanted, uint32_t count) {
    check(text, (float *[]){x}, wanted, count);
}

/* Of x 10[2,2]: `text` makes y of it. */
static void becomes(const char *text, const float *wanted, uint32_t count) {
    char whole[1024];
    (void)snprintf(whole, sizeof whole, "input x 10[2,2]\n%s\noutput y\n", text);
    expect(whole, wanted, count);
}

static void inputs_and_outputs_have_a_last_axis(void **unused) {
    (void)unused;
    reading r = r_text("input x 10[s0,3]\ny 10[s0,3] = aten.neg.default self=%x\noutput y\n");
    r_has(&r, "%x: f32[s0, 3, 2]");
    r_has(&r, "%y = neg %x : f32[s0, 3, 2]");
    r_end(&r);
    r = r_text("input x 11[2]\ny 11[2] = aten.clone.default self=%x\noutput y\n");
    r_has(&r, "%x: f64[2, 2]");
    r_end(&r);
}

static void products(void **unused) {
    (void)unused;
    float a[] = {1, 2, 3, 4}, b[] = {3, -1, 2, 5}, real[] = {10, 100};
    float *pair[] = {a, b}, *with_real[] = {a, real};
    check("input a 10[2]\ninput b 10[2]\ny 10[2] = aten.mul.Tensor self=%a other=%b\noutput y\n", pair,
          (float[]){5, 5, -14, 23}, 4);
    check("input a 10[2]\ninput b 10[2,1]\ny 10[2,2] = aten.mul.Tensor self=%a other=%b\noutput y\n", pair,
          (float[]){5, 5, 13, 9, -8, 9, -14, 23}, 8);
    check("input a 10[2]\ninput b 7[2]\ny 10[2] = aten.mul.Tensor self=%a other=%b\noutput y\n", with_real,
          (float[]){10, 20, 300, 400}, 4);
    check("input a 10[2]\ninput b 7[2,1]\ny 10[2,2] = aten.mul.Tensor self=%b other=%a\noutput y\n", with_real,
          (float[]){10, 20, 30, 40, 100, 200, 300, 400}, 8);
    check("input a 10[2]\ninput b 7[2]\ny 10[2] = aten.div.Tensor self=%a other=%b\noutput y\n", with_real,
          (float[]){.1F, .2F, .03F, .04F}, 4);
    becomes("y 10[2,2] = aten.mul.Tensor self=%x other=2.0", (float[]){2, 4, 6, 8, 10, 12, 14, 16}, 8);
    becomes("y 10[2,2] = aten.mul.Tensor self=%x other=1.0j", (float[]){-2, 1, -4, 3, -6, 5, -8, 7}, 8);
    expect("input x 7[8]\ny 10[8] = aten.mul.Tensor self=%x other=2.0j\noutput y\n",
           (float[]){0, 2, 0, 4, 0, 6, 0, 8, 0, 10, 0, 12, 0, 14, 0, 16}, 16);
}

static void sums(void **unused) {
    (void)unused;
    becomes("y 10[2,2] = aten.add.Tensor self=%x other=%x", (float[]){2, 4, 6, 8, 10, 12, 14, 16}, 8);
    becomes("y 10[2,2] = aten.add.Tensor self=%x other=1.0", (float[]){2, 2, 4, 4, 6, 6, 8, 8}, 8);
    becomes("y 10[2,2] = aten.sub.Tensor self=%x other=1.0j", (float[]){1, 1, 3, 3, 5, 5, 7, 7}, 8);
    float real[] = {10, 20};
    check("input x 10[2,2]\ninput r 7[2,1]\ny 10[2,2] = aten.sub.Tensor self=%r other=%x\noutput y\n",
          (float *[]){x, real}, (float[]){9, -2, 7, -4, 15, -6, 13, -8}, 8);
}

static void parts(void **unused) {
    (void)unused;
    becomes("y 7[2,2] = aten.real.default self=%x", (float[]){1, 3, 5, 7}, 4);
    becomes("y 7[2,2] = aten.imag.default self=%x", (float[]){2, 4, 6, 8}, 4);
    becomes("y 10[2,2] = aten._conj.default self=%x", (float[]){1, -2, 3, -4, 5, -6, 7, -8}, 8);
    becomes("y 7[2,2] = aten._to_copy.default self=%x dtype=dtype:7", (float[]){1, 3, 5, 7}, 4);
    becomes("w 11[2,2] = aten.to.dtype self=%x dtype=dtype:11\ny 10[2,2] = aten.to.dtype self=%w dtype=dtype:10", x, 8);
    expect("input x 7[4]\ny 10[4] = aten.to.dtype self=%x dtype=dtype:10\noutput y\n",
           (float[]){1, 0, 2, 0, 3, 0, 4, 0}, 8);
    float size[] = {2, 3}, angle[] = {0, 0, 0, 0};
    check("input s 7[2]\ninput a 7[2,2]\ny 10[2,2] = aten.polar.default abs=%s angle=%a\noutput y\n",
          (float *[]){size, angle}, (float[]){2, 0, 3, 0, 2, 0, 3, 0}, 8);
    check("input s 7[2]\ninput a 7[2,1]\ny 10[2,2] = aten.complex.default real=%s imag=%a\noutput y\n",
          (float *[]){size, size}, (float[]){2, 2, 3, 2, 2, 3, 3, 3}, 8);
    float zero[] = {0, 0};
    check("input z 10[1]\ny 10[1] = aten.exp.default self=%z\noutput y\n", (float *[]){zero}, (float[]){1, 0}, 2);
}

static void elements_move_in_pairs(void **unused) {
    (void)unused;
    static const float turned[] = {1, 2, 5, 6, 3, 4, 7, 8}, lower[] = {5, 6, 7, 8}, right[] = {3, 4, 7, 8};
    static const float twice[] = {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8};
    static const struct moved {
        const char *text;
        const float *wanted;
        uint32_t count;
    } all[] = {
        {"y 10[4] = aten.view.default self=%x size=[-1]", x, 8},
        {"y 10[2,2] = aten.reshape.default self=%x shape=[2,2]", x, 8},
        {"y 10[4] = aten.flatten.using_ints self=%x", x, 8},
        {"f 10[4] = aten.flatten.using_ints self=%x end_dim=1\ny 10[2,2] = aten.unflatten.int self=%f dim=-1 "
         "sizes=[2,-1]",
         x, 8},
        {"y 10[2,2] = aten.permute.default self=%x dims=[-1,0]", turned, 8},
        {"y 10[2,2] = aten.transpose.int self=%x dim0=-1 dim1=-2", turned, 8},
        {"y 10[2,2] = aten.t.default self=%x", turned, 8},
        {"c 10[2,2] = aten.mH.default self=%x\ny 10[2,2] = aten.conj_physical.default self=%c", turned, 8},
        {"y 10[2,2] = aten.movedim.int self=%x source=-1 destination=0", turned, 8},
        {"u 10[2,2,1] = aten.unsqueeze.default self=%x dim=-1\ny 10[2,2] = aten.squeeze.dim self=%u dim=-1", x, 8},
        {"u 10[1,2,1,2] = aten.view.default self=%x size=[1,2,1,2]\ny 10[2,2] = aten.squeeze.default self=%u", x, 8},
        {"y 10[2] = aten.select.int self=%x dim=-1 index=-1", right, 4},
        {"y 10[1,2] = aten.slice.Tensor self=%x dim=-2 start=1", lower, 4},
        {"y 10[2,1] = aten.narrow.default self=%x dim=-1 start=1 length=1", right, 4},
        {"a 10[1,2]; y 10[1,2] = aten.split.Tensor self=%x split_size=1", lower, 4},
        {"a 10[2,1]; y 10[2,1] = aten.split_with_sizes.default self=%x split_sizes=[1,1] dim=-1", right, 4},
        {"a 10[2]; y 10[2] = aten.unbind.int self=%x dim=-1", right, 4},
        {"a 10[2,1]; b 10[2,1] = aten.chunk.default self=%x chunks=2 dim=-1\n"
         "y 10[2,2] = aten.cat.default tensors=[%a,%b] dim=-1",
         x, 8},
        {"a 10[2]; b 10[2] = aten.unbind.int self=%x\ny 10[2,2] = aten.stack.default tensors=[%a,%b] dim=-1", turned,
         8},
        {"u 10[2,1,2] = aten.unsqueeze.default self=%x dim=1\ny 10[2,2,2] = aten.expand.default self=%u size=[-1,2,-1]",
         twice, 16},
        {"y 10[2,4] = aten.repeat.default self=%x repeats=[1,2]", twice, 16},
        {"i 5[1] = aten.full.default size=[1] fill_value=1 dtype=dtype:5\n"
         "y 10[1,2] = aten.index.Tensor self=%x indices=[%i]",
         lower, 4},
        {"i 5[1] = aten.full.default size=[1] fill_value=1 dtype=dtype:5\n"
         "y 10[2,1] = aten.index.Tensor self=%x indices=[None,%i]",
         right, 4},
        {"i 5[1] = aten.full.default size=[1] fill_value=1 dtype=dtype:5\n"
         "y 10[2,1] = aten.index_select.default self=%x dim=-1 index=%i",
         right, 4},
        {"f 10[2,2] = aten.flip.default self=%x dims=[-1]\ny 10[2,1] = aten.slice.Tensor self=%f dim=1 end=1", right,
         4},
        {"n $ = aten.sym_numel.default self=%x\ny 10[4] = aten.view.default self=%x size=[$n]", x, 8},
        {"n $ = aten.sym_size.int self=%x dim=-1\ny 10[2,2] = aten.view.default self=%x size=[-1,$n]", x, 8},
    };
    for (size_t i = 0; i < QF_COUNT_OF(all); i++) becomes(all[i].text, all[i].wanted, all[i].count);
}

static void weights_keep_their_pairs(void **unused) {
    (void)unused;
    program *p = p_program("buffer w 10[2]\ninput x 10[2,2]\ny 10[2,2] = aten.mul.Tensor self=%x other=%w\noutput y\n");
    static const float rotation[] = {0, 1, 2, 0};
    p_weight(p, "w", rotation, sizeof rotation);
    reading r = r_program(p, NULL);
    r_lacks(&r, "opaque");
    r_gives(&r, (float *[]){x}, 0, (float[]){-2, 1, 6, 8, -6, 5, 14, 16}, 8);
    r_end(&r);
    p = p_program("buffer w 10[2]\ninput x 10[2]\ny 10[2] = aten.mul.Tensor self=%x other=%w\noutput y\n");
    p_weight(p, "w", rotation, 2 * sizeof(float)); /* real ones */
    r = r_try(p, NULL);
    assert_null(r.graph);
    assert_non_null(strstr(state.messages, "reach past the bytes"));
    r_end(&r);
}

/* view_as_complex and view_as_real share memory with what they view; a cast to real does not. */
static void writes_go_through_views(void **unused) {
    (void)unused;
    expect("input x 7[4,2]\nz 10[4] = aten.view_as_complex.default self=%x\n"
           "w 10[4] = aten.mul_.Tensor self=%z other=1.0j\ny 7[4,2] = aten.clone.default self=%x\noutput y\n",
           (float[]){-2, 1, -4, 3, -6, 5, -8, 7}, 8);
    expect("input x 10[4]\nr 7[4,2] = aten.view_as_real.default self=%x\n"
           "w 7[4,2] = aten.mul_.Tensor self=%r other=2.0\ny 10[4] = aten.clone.default self=%x\noutput y\n",
           (float[]){2, 4, 6, 8, 10, 12, 14, 16}, 8);
    expect("input x 10[4]\nr 7[4] = aten.to.dtype self=%x dtype=dtype:7\n"
           "w 7[4] = aten.mul_.Tensor self=%r other=2.0\ny 10[4] = aten.clone.default self=%x\noutput y\n",
           x, 8);
}

/* Whatever is not known of complex tensors is carried, and gives complex tensors that are known again. */
static void others_stay_opaque(void **unused) {
    (void)unused;
    static const char *const nodes[] = {
        "y 10[2,2] = aten.matmul.default self=%x other=%x",
        "y 10[2,2] = aten.div.Tensor self=%x other=%x",
        "y 10[2,2] = aten.add.Tensor self=%x other=%x alpha=2",
        "y 7[2,2] = aten.abs.default self=%x",
        "y 7[2,2] = aten.angle.default self=%x",
        "y 10[2,2] = aten.sqrt.default self=%x",
        "y 10[2,2] = aten.square.default self=%x",
        "y 10[2] = aten.sum.dim_IntList self=%x dim=[1]",
        "y 10[2] = aten.prod.dim_int self=%x dim=1",
        "y 7[2,4] = aten.view.dtype self=%x dtype=dtype:7",
        "y 10[2,3] = aten.constant_pad_nd.default self=%x pad=[0,1]",
        "y 10[2,2] = aten.zeros_like.default self=%x",
        "y 12[2,2] = aten.eq.Tensor self=%x other=%x",
        "y 10[2,2] = aten.tril.default self=%x",
        "y 10[2,2] = aten.cumsum.default self=%x dim=1",
        "y 9[2,2] = aten._to_copy.default self=%x dtype=dtype:9",
        "r 7[3] = aten.ones.default size=[3]\ny 10[3] = aten.view_as_complex.default self=%r",
        "r 6[2,2] = aten.ones.default size=[2,2] dtype=dtype:6\ny 9[2] = aten.view_as_complex.default self=%r",
        "r 7[2,2] = aten.real.default self=%x\ny 10[4,2] = aten.cat.default tensors=[%x,%r]",
        "r 7[2,2] = aten.real.default self=%x\ny 7[2,2] = aten.imag.default self=%r",
        "y 10[2,2] = aten.where.ScalarOther condition=%x self=%x other=0.0",
        "y 10[2,2] = vendor.rotate.default x=%x",
        "- = _C.static_scaled_fp8_quant.default result=%x input=%x scale=%x\ny 10[2,2] = aten.neg.default self=%x",
    };
    for (size_t i = 0; i < QF_COUNT_OF(nodes); i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "input x 10[2,2]\n%s\noutput y\n", nodes[i]);
        reading r = r_text(text);
        if (!strstr(r.text.data, "opaque")) fail_msg("%s became\n%s", nodes[i], r.text.data);
        assert_non_null(strstr(state.messages, "is carried through as it is: "));
        r_end(&r);
    }
    reading r = r_text("input x 10[2,2]\nt 10[2,2] = aten.tril.default self=%x\n"
                       "y 10[2,2] = aten.mul.Tensor self=%t other=%x\noutput y\n");
    r_has(&r, "opaque %x {name=\"torch.aten.tril.default\"");
    r_has(&r, "f32[2, 2, 2]");
    r_has(&r, "%y = concat ");
    r_end(&r);
}

#define ROTATE(name)                                                                                                   \
    "p" name " 7[1,4,2,4,2] = aten.view.default self=%" name " size=[1,4,2,-1,2]\n"                                    \
    "c" name " 10[1,4,2,4] = aten.view_as_complex.default self=%p" name "\n"                                           \
    "m" name " 10[1,4,2,4] = aten.mul.Tensor self=%c" name " other=%u\n"                                               \
    "r" name " 7[1,4,2,4,2] = aten.view_as_real.default self=%m" name "\n"                                             \
    "f" name " 7[1,4,2,8] = aten.flatten.using_ints self=%r" name " start_dim=3\n"                                     \
    "t" name " 7[1,2,4,8] = aten.transpose.int self=%f" name " dim0=1 dim1=2\n"

static void rotations_do_not_hide_attention(void **unused) {
    (void)unused;
    reading r =
        r_text("input q 7[1,4,2,8]\ninput k 7[1,4,2,8]\ninput v 7[1,2,4,8]\ninput w 10[8,4]\ninput s 7[]\n"
               "o 10[4,4] = aten.slice.Tensor self=%w dim=0 end=4\n"
               "u 10[1,4,1,4] = aten.view.default self=%o size=[1,4,1,4]\n" ROTATE("q")
                   ROTATE("k") "a 7[1,2,4,8] = aten.scaled_dot_product_attention.default query=%tq key=%tk value=%v "
                               "is_causal=true\n"
                               "d 7[1,2,4,8] = aten.div.Tensor self=%a other=%s\n"
                               "e 7[1,2,4,8] = aten.clamp.default self=%d min=-448.0 max=448.0\n"
                               "y 29[1,2,4,8] = aten.to.dtype self=%e dtype=dtype:29\noutput y\n");
    r_lacks(&r, "opaque");
    assert_int_equal(qf_run_pipeline(r.graph, NULL, NULL), QF_OK);
    r.text.size = 0;
    qf_graph_print(&r.text, r.graph);
    r_has(&r, "causal=true");
    r_has(&r, "out=f8E4M3FN");
    r_end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_and_outputs_have_a_last_axis),
        cmocka_unit_test(products),
        cmocka_unit_test(sums),
        cmocka_unit_test(parts),
        cmocka_unit_test(elements_move_in_pairs),
        cmocka_unit_test(weights_keep_their_pairs),
        cmocka_unit_test(writes_go_through_views),
        cmocka_unit_test(others_stay_opaque),
        cmocka_unit_test(rotations_do_not_hide_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
