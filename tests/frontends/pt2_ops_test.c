/* Owns: tests of what programs of torch become: types, sizes, memory that is shared, writes, attention, custom
 * operators. Does not own: damaged archives (pt2_hostile_test.c), whole models (pt2_corpus_test.c). Next:
 * frontends/pt2/ops.def. */
#include "tests/frontends/pt2_reading.h"

/* --- types and sizes --- */
static void fault_64_dtypes_by_the_export_schema(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[4]\n"
                       "y 29[4] = aten.to.dtype self=%x dtype=dtype:29\n"
                       "output y\n");
    r_has(&r, "{dtype=f8E4M3FN, saturate=false}");
    r_end(&r);
    r = r_text("input x 7[4]\ny 24[4] = aten.to.dtype self=%x dtype=dtype:24\noutput y\n");
    r_has(&r, "opaque"); /* 24 is no code of this schema that QFuse has */
    r_lacks(&r, "f8E4M3FN");
    r_end(&r);
}

static void fault_8_targets_of_views_give_one_dim(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[s0,32]\n"
                       "n $ = aten.sym_size.int self=%x dim=0\n"
                       "m $ = _operator.mul a=$n b=4\n"
                       "a 7[s0,4,8] = aten.view.default self=%x size=[-1,4,8]\n"
                       "b 7[s0,4,8] = aten.view.default self=%x size=[$n,4,8]\n"
                       "c 7[s1,8] = aten.reshape.default self=%x shape=[$m,-1]\n"
                       "output a\noutput b\noutput c\n");
    r_has(&r, "%a = view %x {shape=[s0, 4, 8]}");
    r_has(&r, "%b = view %x {shape=[s0, 4, 8]}");
    r_has(&r, "%c = view %x {shape=[4*s0, 8]}");
    assert_int_equal(r.graph->guard_count, 0);
    assert_int_equal(r.graph->fact_count, 1);
    assert_int_equal(r.graph->facts[0].maximum, 128);
    r_end(&r);
}

/* No tensor of the program has a size below one. */
static void the_larger_size_is_known_from_facts(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[s0,8]\n"
                       "n $ = aten.sym_size.int self=%x dim=0\n"
                       "d $ = _operator.sub a=1 b=$n\n"
                       "m $ = torch.sym_max a=$d b=0\n"
                       "l $ = torch.sym_min a=$d b=0\n"
                       "k $ = _operator.add a=$l b=$n\n"
                       "y 7[s0,8] = aten.slice.Tensor self=%x dim=0 start=$m\n"
                       "z 7[1,8] = aten.slice.Tensor self=%y dim=0 start=0 end=$k\n"
                       "output y\noutput z\n");
    r_has(&r, "slice %x {starts=[0, 0], ends=[1, 8], steps=[1, 1]} : f32[1, 8]");
    r_lacks(&r, "max(");
    r_lacks(&r, "min(");
    r_end(&r);
}

/* x[:, -n:] and x[:, :-n] count from the end. */
static void slices_count_from_the_end(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[8,s0]\ninput z 7[8,s1]\n"
                       "n $ = aten.sym_size.int self=%x dim=1\n"
                       "m $ = _operator.neg a=$n\n"
                       "c 7[8,s0+s1] = aten.cat.default tensors=[%z,%x] dim=1\n"
                       "y 7[8,s0] = aten.slice.Tensor self=%c dim=1 start=$m end=9223372036854775807\n"
                       "w 7[8,s1] = aten.slice.Tensor self=%c dim=1 start=0 end=$m\n"
                       "output y\noutput w\n");
    r_has(&r, "%y = slice %c {starts=[0, s1], ends=[8, s0 + s1], steps=[1, 1]} : f32[8, s0]");
    r_has(&r, "%w = slice %c {starts=[0, 0], ends=[8, s1], steps=[1, 1]} : f32[8, s1]");
    r_end(&r);
}

static void fault_21_default_arguments(void **unused) {
    (void)unused;
    reading r = r_text("input q 7[1,2,3,4]\n"
                       "a 7[1,2,3,4] = aten.scaled_dot_product_attention.default query=%q key=%q value=%q\n"
                       "b 7[1,2,3,4] = aten.scaled_dot_product_attention.default query=%q key=%q value=%q "
                       "attn_mask=None dropout_p=0.0 is_causal=false scale=None enable_gqa=false\n"
                       "c 7[1,2,3,4] = aten.add.Tensor self=%a other=%b alpha=1\n"
                       "d 7[1,2,3,4] = aten.add.Tensor self=%a other=%b\n"
                       "output c\noutput d\n");
    r_has(&r, "%a = attention %q, %q, %q {scale=0.5, align=top_left}");
    r_has(&r, "%b = attention %q, %q, %q {scale=0.5, align=top_left}");
    r_has(&r, "%c = add %a, %b");
    r_has(&r, "%d = add %a, %b");
    r_end(&r);
}

static void unread_arguments_make_a_node_opaque(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[4]\ny 7[4] = aten.gelu.default self=%x strange=3\noutput y\n");
    r_has(&r, "opaque");
    r_has(&r, "torch.aten.gelu.default");
    assert_non_null(strstr(state.messages, "warning y (torch.ops.aten.gelu.default, model.py:7)"));
    r_end(&r);
}

static void numbers_take_part_in_promotion(void **unused) {
    (void)unused;
    reading r = r_text("input x 13[4]\ninput i 5[4]\n"
                       "a 13[4] = aten.mul.Tensor self=%x other=0.5\n"
                       "b 13[4] = aten.mul.Tensor self=%x other=0.1\n"
                       "c 7[4] = aten.div.Tensor self=%i other=2\n"
                       "d 5[4] = aten.floor_divide.default self=%i other=2\n"
                       "output a\noutput b\noutput c\noutput d\n");
    r_has(&r, "%a = mul %x, ");
    r_has(&r, "f32[] 0.1"); /* not exact in bf16: torch keeps it in f32 */
    r_has(&r, "%b = cast ");
    r_has(&r, "%c = div ");
    r_has(&r, "mod %i, ");
    r_end(&r);
}

/* What torch's CPU kernels do with a scale in f32 beside 16-bit tensors. */
static void scalar_tensors_of_a_wider_float(void **unused) {
    (void)unused;
    static const struct {
        const char *line, *wanted;
        bool kept;
    } cases[] = {{"y 13[4] = aten.mul.Tensor self=%x other=%s", "mul ", true},
                 {"y 13[4] = aten.div.Tensor self=%x other=%s", "div ", true},
                 {"y 13[4] = aten.mul.Tensor self=%s other=%x", "mul ", false},
                 {"y 13[4] = aten.div.Tensor self=%s other=%x", "div ", false},
                 {"y 13[4] = aten.add.Tensor self=%x other=%s", "add ", false},
                 {"y 7[4] = aten.mul.Tensor self=%x other=%v", "mul ", true}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "input x 13[4]\ninput s 7[]\ninput v 7[4]\n%s\noutput y\n", cases[i].line);
        reading r = r_text(text);
        r_has(&r, cases[i].wanted);
        if (cases[i].kept)
            r_lacks(&r, "cast %s");
        else
            r_has(&r, "cast %s {dtype=bf16");
        r_end(&r);
    }
}

static void attention_masks_and_alignment(void **unused) {
    (void)unused;
    reading r =
        r_text("input q 7[1,4,3,8]\ninput k 7[1,2,5,8]\ninput m 12[3,5]\ninput b 7[1,1,3,5]\n"
               "x 7[1,4,3,8] = aten.scaled_dot_product_attention.default query=%q key=%k value=%k is_causal=true "
               "scale=0.25 enable_gqa=true\n"
               "y 7[1,4,3,8] = aten.scaled_dot_product_attention.default query=%q key=%k value=%k attn_mask=%m "
               "enable_gqa=true\n"
               "z 7[1,4,3,8] = aten.scaled_dot_product_attention.default query=%q key=%k value=%k attn_mask=%b "
               "enable_gqa=true\n"
               "output x\noutput y\noutput z\n");
    r_has(&r, "%x = attention %q, %k, %k {scale=0.25, causal=true, align=top_left}");
    r_has(&r, "mask=");
    r_has(&r, "bias=%b");
    r_end(&r);
}

/* --- shared memory --- */
static void writes_through_views_reach_the_whole(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[2,3]\n"
                       "c 7[2,3] = aten.clone.default self=%x\n"
                       "t 7[3,2] = aten.t.default self=%c\n"
                       "s 7[2] = aten.select.int self=%t dim=0 index=1\n"
                       "f 7[6] = aten.view.default self=%c size=[6]\n"
                       "a 7[2] = aten.add_.Tensor self=%s other=10.0\n"
                       "m 7[3,2] = aten.mul_.Tensor self=%t other=2.0\n"
                       "output c\noutput f\noutput s\noutput a\noutput x\n");
    float x[] = {1, 2, 3, 4, 5, 6}, whole[] = {2, 24, 6, 8, 30, 12}, column[] = {24, 30};
    float *inputs[] = {x};
    r_gives(&r, inputs, 0, whole, 6);
    r_gives(&r, inputs, 1, whole, 6);
    r_gives(&r, inputs, 2, column, 2);
    r_gives(&r, inputs, 3, column, 2);
    r_gives(&r, inputs, 4, x, 6); /* the clone was written, not x */
    assert_int_equal(qf_graph_output_count(r.graph), 5);
    r_end(&r);
}

static void writes_to_parts_of_a_split(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[4]\n"
                       "c 7[4] = aten.clone.default self=%x\n"
                       "a 7[1]; b 7[3] = aten.split_with_sizes.default self=%c split_sizes=[1,3] dim=0\n"
                       "n 7[3] = aten.neg_.default self=%b\n"
                       "output c\noutput a\n");
    float x[] = {1, 2, 3, 4}, whole[] = {1, -2, -3, -4};
    float *inputs[] = {x};
    r_gives(&r, inputs, 0, whole, 4);
    r_gives(&r, inputs, 1, x, 1);
    r_end(&r);
}

static void copies_do_not_share(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[2,2]\n"
                       "c 7[2,2] = aten.clone.default self=%x\n"
                       "k 7[2,2] = aten._to_copy.default self=%c dtype=dtype:7\n"
                       "s 7[2,2] = aten.contiguous.default self=%c\n"
                       "z 7[2,2] = aten.zero_.default self=%c\n"
                       "output k\noutput s\n");
    float x[] = {1, 2, 3, 4}, zeros[4] = {0};
    float *inputs[] = {x};
    r_gives(&r, inputs, 0, x, 4);
    r_gives(&r, inputs, 1, zeros, 4); /* c was contiguous: s is c */
    r_end(&r);
}

static void buffers_that_are_written_are_inputs_and_outputs(void **unused) {
    (void)unused;
    float cache[] = {1, 2, 3, 4};
    program *p = p_program("buffer b 7[4]\ninput x 7[2]\n"
                           "before 7[4] = aten.neg.default self=%b\n"
                           "s 7[2] = aten.slice.Tensor self=%b dim=0 start=1 end=3\n"
                           "w 7[2] = aten.copy_.default self=%s src=%x\n"
                           "after 7[4] = aten.neg.default self=%b\n"
                           "output before\noutput after\n");
    p_weight(p, "b", cache, sizeof cache);
    reading r = r_program(p, NULL);
    assert_int_equal(r.graph->input_count, 2);
    assert_string_equal(qf_value_name(r.graph, r.graph->inputs[0]), "x");
    assert_string_equal(qf_value_name(r.graph, r.graph->inputs[1]), "b");
    assert_int_equal(qf_graph_output_count(r.graph), 3);
    assert_string_equal(qf_graph_output_name(r.graph, 2), "b");
    size_t size = 0;
    assert_memory_equal(qf_graph_weight(r.graph, "b", &size), cache, sizeof cache);
    assert_int_equal(size, sizeof cache);
    float x[] = {8, 9}, before[] = {-1, -2, -3, -4}, after[] = {-1, -8, -9, -4}, now[] = {1, 8, 9, 4};
    float *inputs[] = {x, cache};
    r_gives(&r, inputs, 0, before, 4);
    r_gives(&r, inputs, 1, after, 4);
    r_gives(&r, inputs, 2, now, 4);
    r_end(&r);
}

static void unknown_operators_may_write(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[4]\n"
                       "c 7[4] = aten.clone.default self=%x\n"
                       "- = vendor.scribble.default a=%c\n"
                       "y 7[4] = aten.neg.default self=%c\n"
                       "output y\n");
    r_has(&r, "= opaque %x {name=\"torch.vendor.scribble.default\"");
    r_lacks(&r, "%y = neg %x");
    r_end(&r);
}

/* --- custom operators --- */
#define QKV "input q 13[s0,4,64]\ninput k 13[s0,2,64]\ninput s 7[1]\nn $ = aten.sym_size.int self=%q dim=0\n"
#define REST                                                                                                           \
    "o 13[s0,4,64] = aten.view.default self=%b size=[-1,4,64]\n"                                                       \
    "- = vllm.unified_attention_with_output.default query=%q key=%k value=%k output=%o layer_name='l0\n"               \
    "f 13[s0,256] = aten.view.default self=%b size=[-1,256]\n"                                                         \
    "r 29[s0,256] = aten.empty.memory_format size=[$n,256] dtype=dtype:29\n"                                           \
    "- = _C.static_scaled_fp8_quant.default result=%r input=%f scale=%s\n"                                             \
    "output r\n"

static void check_fuses(const char *text) {
    reading r = r_text(text);
    r_has(&r, "mode=mul_recip");
    qf_run *run = NULL;
    qf_pipeline_options options = {.struct_size = sizeof options};
    assert_int_equal(qf_run_pipeline(r.graph, &options, &run), QF_OK);
    qf_run_counts counts = {.struct_size = sizeof counts};
    qf_run_get_counts(run, &counts);
    assert_int_equal(counts.attentions, 1);
    assert_int_equal(counts.fused_fp8_out, 1);
    qf_run_destroy(run);
    r_end(&r);
}

static void fault_2_output_buffers_by_empty_zeros_or_full(void **unused) {
    (void)unused;
    check_fuses(QKV "b 13[s0,256] = aten.empty.memory_format size=[$n,256] dtype=dtype:13\n" REST);
    check_fuses(QKV "b 13[s0,256] = aten.zeros.default size=[$n,256] dtype=dtype:13\n" REST);
    check_fuses(QKV "b 13[s0,256] = aten.full.default size=[$n,256] fill_value=1.5 dtype=dtype:13\n" REST);
}

static void functionalised_calls_give_new_values(void **unused) {
    (void)unused;
    reading r = r_text(
        "input x 7[2,4]\ninput y 7[2,4]\ninput w 7[4]\n"
        "-; a 7[2,4]; b 7[2,4] = higher_order.auto_functionalized_v2 =op:torch.ops._C.fused_add_rms_norm.default "
        "weight=%w epsilon=0.000001 _input_base_index=0 _residual_base_index=1 _all_bases=[%x,%y]\n"
        "z 7[2,4] = aten.neg.default self=%x\n"
        "output a\noutput b\noutput z\n");
    r_has(&r, "= add_rms_norm %x, %y, weight=%w {axis=1");
    r_has(&r, "a (torch.ops._C.fused_add_rms_norm.default, model.py:7)");
    r_has(&r, "%z = neg %x"); /* x itself is not written */
    r_end(&r);
}

static void users_add_operators_by_text(void **unused) {
    (void)unused;
    static const char text[] = "input x 7[4]\ninput s 7[]\nr 29[4] = mine.quant.default value=%x by=%s\noutput r\n";
    reading r = r_text(text);
    r_has(&r, "opaque");
    r_end(&r);
    qf_pt2_import_options options = {.struct_size = sizeof options,
                                     .customs = "# ours\nquantize mine.quant x=value scale=by mode=mul\n"};
    r = r_program(p_program(text), &options);
    r_has(&r, "%r = quantize %x, %s {dtype=f8E4M3FN, mode=mul}");
    r_end(&r);
    options.customs = "nonsense mine.quant x=value\n";
    r = r_try(p_program(text), &options);
    assert_null(r.graph);
    assert_non_null(strstr(state.messages, "expected the name of a family first"));
    r_end(&r);
}

/* Where a mapping needs a number itself, a symbolic one makes the node opaque; never is it taken as the default. */
static void numbers_that_only_a_run_tells(void **unused) {
    (void)unused;
    static const char *const opaque[] = {
        "y 7[1,2,4,8] = aten.scaled_dot_product_attention.default query=%x key=%x value=%x scale=$n",
        "y 7[1,2,4,8] = aten.add.Tensor self=%x other=%x alpha=$n",
        "y 7[1,2,4,8] = aten.leaky_relu.default self=%x negative_slope=$n",
        "y 7[1,2,4,8] = aten.softmax.int self=%x dim=$n",
    };
    static const char *const known[] = {
        "y 7[1,2,4,9] = aten.constant_pad_nd.default self=%x pad=[0,1] value=$n",
        "y 7[1,2,4,8] = aten.clamp.default self=%x min=$n",
        "y 7[1,2,4,8] = aten.mul.Tensor self=%x other=$n",
    };
    for (size_t i = 0; i < QF_COUNT_OF(opaque) + QF_COUNT_OF(known); i++) {
        char text[512];
        bool is_opaque = i < QF_COUNT_OF(opaque);
        (void)snprintf(text, sizeof text,
                       "input x 7[1,2,4,8]\ninput z 7[s0]\nn $ = aten.sym_size.int self=%%z dim=0\n%s\noutput y\n",
                       is_opaque ? opaque[i] : known[i - QF_COUNT_OF(opaque)]);
        reading r = r_text(text);
        if (is_opaque) {
            r_has(&r, "opaque");
            assert_non_null(strstr(state.messages, "a number that it takes is known only in a run"));
        } else {
            r_lacks(&r, "opaque");
            r_has(&r, "symbolic {values=[s0]");
        }
        r_end(&r);
    }
    reading r = r_text("input x 13[4]\ninput z 7[s0]\nn $ = aten.sym_size.int self=%z dim=0\n"
                       "y 13[4] = aten.mul.Tensor self=%x other=$n\noutput y\n");
    r_has(&r, "cast %x {dtype=f32");
    r_end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_64_dtypes_by_the_export_schema),
        cmocka_unit_test(fault_8_targets_of_views_give_one_dim),
        cmocka_unit_test(the_larger_size_is_known_from_facts),
        cmocka_unit_test(slices_count_from_the_end),
        cmocka_unit_test(fault_21_default_arguments),
        cmocka_unit_test(unread_arguments_make_a_node_opaque),
        cmocka_unit_test(numbers_take_part_in_promotion),
        cmocka_unit_test(scalar_tensors_of_a_wider_float),
        cmocka_unit_test(attention_masks_and_alignment),
        cmocka_unit_test(writes_through_views_reach_the_whole),
        cmocka_unit_test(writes_to_parts_of_a_split),
        cmocka_unit_test(copies_do_not_share),
        cmocka_unit_test(buffers_that_are_written_are_inputs_and_outputs),
        cmocka_unit_test(unknown_operators_may_write),
        cmocka_unit_test(fault_2_output_buffers_by_empty_zeros_or_full),
        cmocka_unit_test(functionalised_calls_give_new_values),
        cmocka_unit_test(users_add_operators_by_text),
        cmocka_unit_test(numbers_that_only_a_run_tells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
