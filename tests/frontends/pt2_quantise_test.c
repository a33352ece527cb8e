/* Owns: tests of quantisation in torch's spellings: the names that torch has for one function, its quantising
 * operators, the operators of serving frameworks. Does not own: causal masks and reasons (pt2_fusion_test.c), the
 * spellings of the graph language (tests/patterns). Next: frontends/pt2/map_quantise.c, map_custom.c. */
#include "tests/frontends/pt2_reading.h"

/* The program after pipeline `default`. */
static reading rewritten(const char *text) {
    reading r = r_program(p_program(text), NULL);
    qf_run *run;
    if (qf_run_pipeline(r.graph, NULL, &run) != QF_OK) fail_msg("%s", state.messages);
    qf_run_destroy(run);
    r.text.size = 0;
    qf_graph_print(&r.text, r.graph);
    return r;
}

#define ATTENTION                                                                                                      \
    "input q 7[1,2,4,8]\ninput k 7[1,2,4,8]\ninput v 7[1,2,4,8]\ninput c 7[]\n"                                        \
    "o 7[1,2,4,8] = aten.scaled_dot_product_attention.default query=%q key=%k value=%v\n"
#define BOUNDS                                                                                                         \
    "low 7[] = aten.full.default size=[] fill_value=-448.0\nhigh 7[] = aten.full.default size=[] fill_value=448.0\n"
#define CAST "y 29[1,2,4,8] = aten.to.dtype self=%f dtype=dtype:29\noutput y\n"

static void one_function_has_several_names(void **unused) {
    (void)unused;
    static const char *const spellings[] = {
        "d 7[1,2,4,8] = aten.div.Tensor self=%o other=%c\n"
        "f 7[1,2,4,8] = aten.clip.default self=%d min=-448.0 max=448.0\n" CAST,
        "d 7[1,2,4,8] = aten.divide.Tensor self=%o other=%c\n" BOUNDS
        "f 7[1,2,4,8] = aten.clip.Tensor self=%d min=%low max=%high\n" CAST,
        "d 7[1,2,4,8] = aten.true_divide.Tensor self=%o other=%c\n" BOUNDS
        "e 7[1,2,4,8] = aten.clamp_max.Tensor self=%d max=%high\n"
        "f 7[1,2,4,8] = aten.clamp_min.Tensor self=%e min=%low\n" CAST,
        "r 7[] = aten.reciprocal.default self=%c\n"
        "d 7[1,2,4,8] = aten.multiply.Tensor self=%o other=%r\n"
        "f 7[1,2,4,8] = aten.clamp.default self=%d min=-448.0 max=448.0\n" CAST,
        "y 29[1,2,4,8] = torchao.quantize_affine_float8_non_decomposed.default tensor=%o scale=%c\noutput y\n",
    };
    for (size_t i = 0; i < QF_COUNT_OF(spellings); i++) {
        char text[2048];
        (void)snprintf(text, sizeof text, "%s%s", ATTENTION, spellings[i]);
        reading r = rewritten(text);
        if (!strstr(r.text.data, "out=f8E4M3FN") || strstr(r.text.data, "opaque"))
            fail_msg("spelling %zu does not fuse:\n%s", i, r.text.data);
        r_end(&r);
    }
}

/* torch's quantize_per_tensor rounds to whole numbers, also where it writes FP8: that is no FP8 quantisation of the
 * output. */
static void whole_numbers_in_fp8_are_another_quantisation(void **unused) {
    (void)unused;
    static float x[] = {0.3F, -0.26F, 1.2F, 300, -300, 0.05F}, s[] = {0.1F}, wanted[] = {3, -3, 12, 100, -100, 0};
    reading r = r_text("input x 7[6]\ninput s 7[]\n"
                       "z 5[] = aten.full.default size=[] fill_value=0 dtype=dtype:5\n"
                       "q 29[6] = quantized_decomposed.quantize_per_tensor.tensor input=%x scale=%s zero_point=%z "
                       "quant_min=-100 quant_max=100 dtype=dtype:29\n"
                       "y 7[6] = aten.to.dtype self=%q dtype=dtype:7\noutput y\n");
    wanted[3] = 96, wanted[4] = -96; /* 100 lies between 96 and 104: to the even code */
    r_gives(&r, (float *[]){x, s}, 0, wanted, 6);
    r_end(&r);
    r = rewritten(ATTENTION "y 29[1,2,4,8] = quantized_decomposed.quantize_per_tensor.default input=%o scale=0.5 "
                            "zero_point=0 quant_min=-448 quant_max=448 dtype=dtype:29\noutput y\n");
    r_lacks(&r, "opaque");
    r_lacks(&r, "out=f8E4M3FN");
    r_end(&r);
}

static void dequantisation_of_torch(void **unused) {
    (void)unused;
    static float x[] = {1, 2, 3, 4, 5, 6}, s[] = {0.5F, 2}, z[] = {1, 3};
    reading r =
        r_text("input x 7[3,2]\ninput s 7[2]\ninput z 7[2]\n"
               "y 7[3,2] = quantized_decomposed.dequantize_per_channel.default input=%x scales=%s zero_points=%z "
               "axis=1 quant_min=-448 quant_max=448 dtype=dtype:7\noutput y\n");
    r_gives(&r, (float *[]){x, s, z}, 0, (float[]){0, -2, 1, 2, 2, 6}, 6);
    r_end(&r);
    r = r_text("input x 29[4,2]\ninput s 7[4,1]\ninput t 7[2,1]\n"
               "y 7[4,2] = torchao.dequantize_affine_float8_non_decomposed.default tensor=%x scale=%s\n"
               "b 7[4,2] = torchao.dequantize_affine_float8_non_decomposed.default tensor=%x scale=%t\n"
               "output y\noutput b\n");
    r_has(&r, "%y = mul ");
    assert_non_null(strstr(state.messages, "its scale is of blocks, or of an unknown shape"));
    r_end(&r);
}

/* --- serving frameworks --- */

/* Kernels round a norm to the operand's type before they quantise it. */
static void norms_are_rounded_before_they_are_quantised(void **unused) {
    (void)unused;
    static const char norm[] = "input x %u[4,8]\ninput w %u[8]\ninput s 7[1]\n"
                               "o 29[4,8] = aten.empty.memory_format size=[4,8] dtype=dtype:29\n"
                               "- = _C.rms_norm_static_fp8_quant.default result=%%o input=%%x weight=%%w scale=%%s "
                               "epsilon=0.001\noutput o\n";
    for (uint32_t wide = 0; wide < 2; wide++) {
        char text[512];
        (void)snprintf(text, sizeof text, norm, wide ? 7 : 13, wide ? 7 : 13);
        reading r = r_text(text);
        (wide ? r_lacks : r_has)(&r, "via=bf16");
        r_end(&r);
    }
}

/* Two inputs of one program have sizes of their own unless something in it ties them. */
static void positions_count_the_tokens_of_the_rotation(void **unused) {
    (void)unused;
    reading r = r_text("input q 7[s0,16]\ninput k 7[s0,8]\ninput p 5[s1]\ninput c 7[32,8]\n"
                       "- = _C.rotary_embedding.default positions=%p query=%q key=%k head_size=8 cos_sin_cache=%c "
                       "is_neox=true\noutput q\noutput k\n");
    r_has(&r, "rope ");
    r_lacks(&r, "opaque");
    assert_int_equal(r.graph->guard_count, 1);
    r_end(&r);
    r = r_text("input q 7[s0,16]\ninput p 5[s1]\ninput c 7[32,12]\n"
               "- = _C.rotary_embedding.default positions=%p query=%q key=None head_size=12 cos_sin_cache=%c "
               "is_neox=true\noutput q\n");
    r_has(&r, "opaque");
    assert_non_null(strstr(state.messages, "is not whole heads for each position"));
    r_end(&r);
}

/* One scale a column, as a column: what vLLM stores. A group of the whole tensor is no group. */
static void scales_of_columns_and_whole_groups(void **unused) {
    (void)unused;
    reading r =
        r_text("input x 13[4,16]\ninput s 7[1]\ninput b 29[16,8]\ninput t 7[8,1]\n"
               "a 29[4,16] = aten.empty.memory_format size=[4,16] dtype=dtype:29\n"
               "- = _C.static_scaled_fp8_quant.default result=%a input=%x scale=%s group_shape=[-1,-1]\n"
               "y 13[4,8] = aten.empty.memory_format size=[4,8] dtype=dtype:13\n"
               "- = _C.cutlass_scaled_mm.default out=%y a=%a b=%b a_scales=%s b_scales=%t bias=None\noutput y\n");
    r_has(&r, "quantize %x");
    r_has(&r, "scaled_matmul ");
    r_has(&r, ": f32[1, 8]");
    r_lacks(&r, "opaque");
    r_end(&r);
}

/* Its kernel multiplies every token by the f32 reciprocal of its scale. */
static void tokens_of_sglang(void **unused) {
    (void)unused;
    reading r = r_text("input x 13[4,16]\na 29[4,16] = aten.empty.memory_format size=[4,16] dtype=dtype:29\n"
                       "c 7[4,1] = aten.empty.memory_format size=[4,1] dtype=dtype:7\n"
                       "- = sgl_kernel.sgl_per_token_quant_fp8.default input=%x output_q=%a output_s=%c\n"
                       "output a\noutput c\n");
    r_lacks(&r, "opaque");
    r_has(&r, "granularity=token");
    r_has(&r, "mode=mul_recip, axis=0");
    r_end(&r);
}

/* SGLang's: the same families under other names and with flags. */
static void operators_of_sglang(void **unused) {
    (void)unused;
    static const char text[] = "input x 13[4,16]\ninput w 13[16]\ninput s 7[1]\ninput b 29[16,8]\ninput t 7[8]\n"
                               "n 13[4,16] = aten.empty.memory_format size=[4,16] dtype=dtype:13\n"
                               "- = sgl_kernel.rmsnorm.default output=%%n input=%%x weight=%%w eps=0.001 "
                               "enable_pdl=false\n"
                               "a 29[4,16] = aten.empty.memory_format size=[4,16] dtype=dtype:29\n"
                               "c 7[1] = aten.clone.default self=%%s\n"
                               "- = sgl_kernel.sgl_per_tensor_quant_fp8.default input=%%n output_q=%%a output_s=%%c "
                               "is_static=%s\n"
                               "y 7[4,8] = sgl_kernel.fp8_scaled_mm.default mat_a=%%a mat_b=%%b scales_a=%%c "
                               "scales_b=%%t out_dtype=dtype:7 bias=None\noutput y\n";
    for (uint32_t given = 0; given < 2; given++) {
        char program_text[1024];
        (void)snprintf(program_text, sizeof program_text, text, given ? "true" : "false");
        reading r = r_text(program_text);
        r_lacks(&r, "opaque");
        (given ? r_lacks : r_has)(&r, "dynamic_quantize ");
        r_has(&r, "mode=mul_recip");
        r_has(&r, "{out=f32}");
        r_end(&r);
    }
}

static void joins_promote(void **unused) {
    (void)unused;
    reading r = r_text("input a 13[2,3]\ninput b 7[2,1]\n"
                       "y 7[2,4] = aten.concat.default tensors=[%a,%b] dim=-1\noutput y\n");
    r_has(&r, "cast %a {dtype=f32");
    r_has(&r, ": f32[2, 4]");
    r_end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_function_has_several_names),
        cmocka_unit_test(whole_numbers_in_fp8_are_another_quantisation),
        cmocka_unit_test(dequantisation_of_torch),
        cmocka_unit_test(norms_are_rounded_before_they_are_quantised),
        cmocka_unit_test(positions_count_the_tokens_of_the_rotation),
        cmocka_unit_test(scales_of_columns_and_whole_groups),
        cmocka_unit_test(tokens_of_sglang),
        cmocka_unit_test(operators_of_sglang),
        cmocka_unit_test(joins_promote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
