/* Owns: tests of reads and writes at indices, of parts, and of norms with quantised results, by numbers.
 * Does not own: types, views and writes in place (pt2_ops_test.c).
 * Next: frontends/pt2/map_index.c. */
#include "tests/frontends/pt2_reading.h"

static float x[] = {0, 1, 2, 3, 4, 5};
static int64_t rows[] = {1, 0}, columns[] = {2, 1}, place[] = {2};

static void expect(const char *text, void *const *others, uint32_t other_count, const float *wanted, uint32_t count) {
    reading r = r_text(text);
    float *inputs[4] = {x};
    for (uint32_t i = 0; i < other_count; i++) inputs[i + 1] = others[i];
    r_lacks(&r, "opaque");
    r_gives(&r, inputs, 0, wanted, count);
    r_end(&r);
}

static void reads_at_indices(void **unused) {
    (void)unused;
    void *pair[] = {rows, columns};
    expect("input x 7[2,3]\ninput i 5[2]\ny 7[2,3] = aten.index.Tensor self=%x indices=[%i]\noutput y\n", pair, 1,
           (float[]){3, 4, 5, 0, 1, 2}, 6);
    expect("input x 7[2,3]\ninput i 5[2]\ninput j 5[2]\ny 7[2] = aten.index.Tensor self=%x indices=[%i,%j]\noutput y\n",
           pair, 2, (float[]){5, 1}, 2);
    expect("input x 7[2,3]\ninput i 5[2]\ny 7[2,2] = aten.index.Tensor self=%x indices=[None,%i]\noutput y\n",
           (void *[]){columns}, 1, (float[]){2, 1, 5, 4}, 4);
    expect("input x 7[1,2,3]\ninput i 5[2]\ninput j 5[2]\n"
           "y 7[1,2] = aten.index.Tensor self=%x indices=[None,%i,%j]\noutput y\n",
           pair, 2, (float[]){5, 1}, 2);
    expect("input x 7[2,3]\ninput i 5[2]\ny 7[2,2] = aten.index_select.default self=%x dim=-1 index=%i\noutput y\n",
           (void *[]){columns}, 1, (float[]){2, 1, 5, 4}, 4);
    expect("input x 7[3,2]\ninput i 5[2]\ny 7[2,2] = aten.embedding.default weight=%x indices=%i\noutput y\n", pair, 1,
           (float[]){2, 3, 0, 1}, 4);
}

static void writes_at_indices(void **unused) {
    (void)unused;
    float part[] = {10, 20}, whole[] = {10, 20, 30, 40};
    expect("input x 7[2,3]\ninput i 5[2]\ninput j 5[2]\ninput v 7[2]\n"
           "y 7[2,3] = aten.index_put.default self=%x indices=[%i,%j] values=%v\noutput y\n",
           (void *[]){rows, columns, part}, 3, (float[]){0, 20, 2, 3, 4, 10}, 6);
    expect("input x 7[2,3]\ninput i 5[1]\ninput v 7[2,1]\n"
           "y 7[2,3] = aten.index_put.default self=%x indices=[None,%i] values=%v\noutput y\n",
           (void *[]){place, part}, 2, (float[]){0, 1, 10, 3, 4, 20}, 6);
    expect("input x 7[2,3]\ninput i 5[1]\ninput v 7[2,1]\n"
           "y 7[2,3] = aten.index_copy.default self=%x dim=1 index=%i source=%v\noutput y\n",
           (void *[]){place, part}, 2, (float[]){0, 1, 10, 3, 4, 20}, 6);
    expect("input x 7[2,3]\ninput v 7[2,2]\n"
           "y 7[2,3] = aten.slice_scatter.default self=%x src=%v dim=1 start=1\noutput y\n",
           (void *[]){whole}, 1, (float[]){0, 10, 20, 3, 30, 40}, 6);
    expect("input x 7[2,3]\ninput v 7[2]\ny 7[2,3] = aten.select_scatter.default self=%x src=%v dim=1 index=-1\noutput "
           "y\n",
           (void *[]){part}, 1, (float[]){0, 1, 10, 3, 4, 20}, 6);
}

static void parts_and_repeats(void **unused) {
    (void)unused;
    expect("input x 7[2,3]\ne 7[0] = aten.empty.memory_format size=[0] dtype=dtype:7\n"
           "y 7[2,3] = aten.cat.default tensors=[%e,%x,%e] dim=-2\noutput y\n",
           NULL, 0, x, 6);
    expect("input x 7[2,3]\ne 7[0] = aten.empty.memory_format size=[0] dtype=dtype:7\n"
           "n 7[0] = aten.cat.default tensors=[%e,%e] dim=0\ny 7[2,3] = aten.cat.default tensors=[%n,%x] dim=1\noutput "
           "y\n",
           NULL, 0, x, 6);
    expect("input x 7[2,3]\ny 7[2,3] = aten.roll.default self=%x shifts=[1] dims=[1]\noutput y\n", NULL, 0,
           (float[]){2, 0, 1, 5, 3, 4}, 6);
    expect("input x 7[6]\ny 7[3] = aten.slice.Tensor self=%x dim=0 start=-5 end=9223372036854775807 step=2\noutput y\n",
           NULL, 0, (float[]){1, 3, 5}, 3);
    expect("input x 7[6]\na 7[4]; b 7[2] = aten.split.Tensor self=%x split_size=4\noutput b\n", NULL, 0,
           (float[]){4, 5}, 2);
    expect("input x 7[2,3]\ny 7[2] = aten.select.int self=%x dim=-1 index=-1\noutput y\n", NULL, 0, (float[]){2, 5}, 2);
    expect("input x 7[3,2]\ny 7[6,2] = aten.repeat_interleave.self_int self=%x repeats=2 dim=0\noutput y\n", NULL, 0,
           (float[]){0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5}, 12);
    expect("input x 7[3,2]\ny 7[3,4] = aten.repeat.default self=%x repeats=[1,2]\noutput y\n", NULL, 0,
           (float[]){0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5}, 12);
    expect("input x 7[2,3]\ny 7[2,5] = aten.constant_pad_nd.default self=%x pad=[1,1] value=9.0\noutput y\n", NULL, 0,
           (float[]){9, 0, 1, 2, 9, 9, 3, 4, 5, 9}, 10);
}

static void coordinates(void **unused) {
    (void)unused;
    float y[] = {7, 8};
    expect("input x 7[3]\ninput y 7[2]\na 7[3,2]; b 7[3,2] = aten.meshgrid.indexing tensors=[%x,%y] indexing='ij\n"
           "c 7[3,4] = aten.cat.default tensors=[%a,%b] dim=1\noutput c\n",
           (void *[]){y}, 1, (float[]){0, 0, 7, 8, 1, 1, 7, 8, 2, 2, 7, 8}, 12);
    expect("input x 7[3]\ninput y 7[2]\na 7[2,3]; b 7[2,3] = aten.meshgrid.indexing tensors=[%x,%y] indexing='xy\n"
           "c 7[2,6] = aten.cat.default tensors=[%a,%b] dim=1\noutput c\n",
           (void *[]){y}, 1, (float[]){0, 1, 2, 7, 7, 7, 0, 1, 2, 8, 8, 8}, 12);
    expect("input x 7[5]\nl 7[5] = aten.linspace.default start=-1 end=1 steps=5\n"
           "y 7[5] = aten.add.Tensor self=%x other=%l\noutput y\n",
           NULL, 0, (float[]){-1, 0.5F, 2, 3.5F, 5}, 5);
    expect("input x 7[2,3]\ne 7[2,3] = aten.eye.m n=2 m=3\ny 7[2,3] = aten.mul.Tensor self=%x other=%e\noutput y\n",
           NULL, 0, (float[]){0, 0, 0, 0, 4, 0}, 6);
}

static void reductions(void **unused) {
    (void)unused;
    expect("input x 7[2,3]\ny 7[3] = aten.sum.dim_IntList self=%x dim=[0]\noutput y\n", NULL, 0, (float[]){3, 5, 7}, 3);
    expect("input x 7[2,3]\ny 7[2,1] = aten.mean.dim self=%x dim=[-1] keepdim=true\noutput y\n", NULL, 0,
           (float[]){1, 4}, 2);
    expect("input x 7[2,3]\ny 7[2]; i 5[2] = aten.max.dim self=%x dim=1\noutput y\n", NULL, 0, (float[]){2, 5}, 2);
    expect("input x 7[2,3]\nm 12[2,3] = aten.gt.Scalar self=%x other=3\na 12[2] = aten.any.dim self=%m dim=1\n"
           "y 7[2] = aten._to_copy.default self=%a dtype=dtype:7\noutput y\n",
           NULL, 0, (float[]){0, 1}, 2);
    expect("input x 7[6]\nt 7[2]; i 5[2] = aten.topk.default self=%x k=2\noutput t\n", NULL, 0, (float[]){5, 4}, 2);
    expect("input x 7[6]\nf 7[6] = aten.div.Tensor_mode self=%x other=4.0 rounding_mode='floor\noutput f\n", NULL, 0,
           (float[]){0, 0, 0, 0, 1, 1}, 6);
}

static void custom_norms_and_activations(void **unused) {
    (void)unused;
    reading r =
        r_text("input x 13[4,8]\ninput d 13[4,8]\ninput w 13[8]\ninput s 7[4,1]\ninput o 29[4,8]\n"
               "- = _C.rms_norm_dynamic_per_token_quant.default result=%o input=%x weight=%w scale=%s epsilon=0.001 "
               "scale_ub=None residual=%d\n"
               "output o\noutput s\noutput d\n");
    r_has(&r, "add_rms_norm %x, %d, weight=%w");
    r_has(&r, "granularity=token");
    assert_int_equal(qf_graph_output_count(r.graph), 6); /* and the inputs that are written */
    r_end(&r);
    r = r_text("input x 13[4,8]\ninput w 13[8]\ninput s 7[1]\n"
               "o 29[4,8] = aten.empty.memory_format size=[4,8] dtype=dtype:29\n"
               "- = _C.rms_norm_static_fp8_quant.default result=%o input=%x weight=%w scale=%s epsilon=0.001\n"
               "h 29[4,4] = aten.empty.memory_format size=[4,4] dtype=dtype:29\n"
               "- = _C.silu_and_mul_quant.default result=%h input=%x scale=%s\n"
               "g 13[4,4] = aten.empty.memory_format size=[4,4] dtype=dtype:13\n"
               "- = _C.gelu_tanh_and_mul.default out=%g input=%x\n"
               "output o\noutput h\noutput g\n");
    r_has(&r, "rms_norm %x, weight=%w, out_scale=");
    r_has(&r, "out=f8E4M3FN, out_mode=mul_recip");
    r_has(&r, "silu_mul %x, ");
    r_has(&r, "gelu ");
    r_end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_at_indices),  cmocka_unit_test(writes_at_indices),
        cmocka_unit_test(parts_and_repeats), cmocka_unit_test(coordinates),
        cmocka_unit_test(reductions),        cmocka_unit_test(custom_norms_and_activations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
