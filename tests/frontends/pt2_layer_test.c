/* Owns: tests of attentions that are only a layer's name: shapes, heads, caches as inputs, updates, numbers.
 * Does not own: the other families (pt2_ops_test.c), paged attention itself (tests/kernels).
 * Next: frontends/pt2/map_layer.c. */
#include "tests/frontends/pt2_reading.h"

#define ROWS "input q 7[3,2,4]\ninput k 7[3,1,4]\ninput v 7[3,1,4]\n"
#define CALL "vllm.unified_attention.default query=%q key=%k value=%v layer_name='L.0"

static reading with(const char *text, const char *kv_cache, uint32_t page_size) {
    qf_pt2_import_options options = {.struct_size = sizeof options, .kv_cache = kv_cache, .page_size = page_size};
    return r_program(p_program(text), &options);
}

static void attends_to_the_tokens_of_the_call(void **unused) {
    (void)unused;
    reading r = r_text(ROWS "y 7[3,2,4] = " CALL "\noutput y\n");
    r_has(&r, "attention ");
    r_has(&r, "scale=0.5, causal=true, layout=bshd}");
    r_has(&r, "%y = view ");
    assert_non_null(strstr(state.messages, "note y (torch.ops.vllm.unified_attention.default, model.py:7): the program "
                                           "does not hold this layer's KV cache"));
    r_end(&r);
}

/* --- [tokens, heads * head size] --- */

static void heads_are_found_where_they_were_merged(void **unused) {
    (void)unused;
    static const char *const merges[] = {
        "a 7[s0,8] = aten.view.default self=%q size=[-1,8]\n",
        "m 7[s0,8] = aten.view.default self=%q size=[-1,8]\na 7[s0,8] = aten.mul.Tensor self=%m other=2.0\n",
        "n 7[s0,2,4] = aten.neg.default self=%q\na 7[s0,8] = aten.reshape.default self=%n shape=[-1,8]\n",
        "o 7[1,s0,8] = aten.reshape.default self=%q shape=[1,-1,8]\na 7[s0,8] = aten.squeeze.dim self=%o dim=0\n",
    };
    for (size_t i = 0; i < QF_COUNT_OF(merges); i++) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "input q 7[s0,2,4]\ninput k 7[s0,4]\ninput v 7[s0,4]\n%s"
                       "y 7[s0,8] = vllm.unified_attention.default query=%%a key=%%k value=%%v layer_name='L.0\n"
                       "output y\n",
                       merges[i]);
        reading r = r_text(text);
        r_lacks(&r, "opaque");
        r_has(&r, "scale=0.5, causal=true");
        r_has(&r, ": f32[s0, 8] loc(\"y ");
        r_end(&r);
    }
}

static void a_rotation_tells_the_heads(void **unused) {
    (void)unused;
    reading r = r_text("input q 7[s0,8]\ninput k 7[s0,4]\ninput v 7[s0,4]\ninput p 5[s0]\ninput t 7[16,4]\n"
                       "- = _C.rotary_embedding.default positions=%p query=%q key=%k head_size=4 cos_sin_cache=%t "
                       "is_neox=true\n"
                       "y 7[s0,8] = vllm.unified_attention.default query=%q key=%k value=%v layer_name='L.0\n"
                       "output y\n");
    r_lacks(&r, "opaque");
    r_has(&r, "rope ");
    r_has(&r, "scale=0.5, causal=true");
    r_end(&r);
}

static void flat(reading *out, const char *customs) {
    qf_pt2_import_options options = {.struct_size = sizeof options, .customs = customs};
    *out = r_program(p_program("input q 7[s0,8]\ninput k 7[s0,4]\ninput v 7[s0,4]\n"
                               "y 7[s0,8] = vllm.unified_attention.default query=%q key=%k value=%v layer_name='L.0\n"
                               "output y\n"),
                     &options);
}

static void a_line_of_customs_tells_the_head_size(void **unused) {
    (void)unused;
    reading r;
    flat(&r, NULL);
    r_has(&r, "opaque");
    assert_non_null(strstr(state.messages, "nothing in the program tells its head size: give head_size=N"));
    r_end(&r);
    flat(&r, "attention vllm.unified_attention query=query key=key value=value _=layer_name head_size=2 "
             "softmax_scale=0.125\n");
    r_has(&r, "scale=0.125, causal=true");
    r_has(&r, "f32[s0, 4, 2]");
    r_end(&r);
    flat(&r, "attention vllm.unified_attention query=query key=key value=value _=layer_name head_size=3\n");
    assert_non_null(strstr(state.messages, "its operands are not whole heads of one size"));
    r_end(&r);
}

/* --- caches --- */

/* Two sequences of one page of 4 rows: rows 0 and 1 of the call belong to the first, row 2 to the second. */
static float q[24], k[12], v[12], k_cache[2 * 4 * 4], v_cache[2 * 4 * 4];
static int32_t table[] = {1, 0}, lens[] = {2, 1}, starts[] = {0, 2, 3};
static int64_t slots[] = {4, 5, 0};

static void fill(float *items, uint32_t count, uint32_t seed) {
    for (uint32_t i = 0; i < count; i++) items[i] = (float)((i * 37 + seed * 11) % 23) / 8.0F - 1.0F;
}

static qf_tensor tensor_of(const char *name) {
    static const struct {
        const char *name;
        qf_tensor tensor;
    } known[] = {{"q", {.dtype = QF_F32, .rank = 3, .dims = {3, 2, 4}, .data = q}},
                 {"k", {.dtype = QF_F32, .rank = 3, .dims = {3, 1, 4}, .data = k}},
                 {"v", {.dtype = QF_F32, .rank = 3, .dims = {3, 1, 4}, .data = v}},
                 {"block_table", {.dtype = QF_I32, .rank = 2, .dims = {2, 1}, .data = table}},
                 {"kv_lens", {.dtype = QF_I32, .rank = 1, .dims = {2}, .data = lens}},
                 {"q_start", {.dtype = QF_I32, .rank = 1, .dims = {3}, .data = starts}},
                 {"slots", {.dtype = QF_I64, .rank = 1, .dims = {3}, .data = slots}},
                 {"L.0.k_cache", {.dtype = QF_F32, .rank = 4, .dims = {2, 4, 1, 4}, .data = k_cache}},
                 {"L.0.v_cache", {.dtype = QF_F32, .rank = 4, .dims = {2, 4, 1, 4}, .data = v_cache}}};
    for (size_t i = 0; i < QF_COUNT_OF(known); i++)
        if (strcmp(known[i].name, name) == 0) return known[i].tensor;
    fail_msg("no tensor %s", name);
    return (qf_tensor){0};
}

/* Output `index` of a run, copied. */
static void run(const reading *r, uint32_t index, float *out, uint32_t count) {
    qf_interpreter *interpreter = qf_interpreter_create(r->graph, 1);
    for (uint32_t i = 0; i < r->graph->input_count; i++) {
        qf_tensor tensor = tensor_of(qf_string_c(r->context, qf_value_at(r->graph, r->graph->inputs[i])->name));
        assert_int_equal(qf_interpreter_bind_input(interpreter, i, &tensor), QF_OK);
    }
    if (qf_interpreter_run(interpreter, NULL) != QF_OK) fail_msg("%s", state.messages);
    qf_tensor found;
    assert_true(qf_interpreter_value(interpreter, qf_node_operand(r->graph, r->graph->last, index), &found));
    assert_int_equal(qf_tensor_bytes(&found), count * sizeof(float));
    memcpy(out, found.data, count * sizeof(float));
    qf_interpreter_destroy(interpreter);
}

static void caches_are_inputs_and_outputs(void **unused) {
    (void)unused;
    reading r = with(ROWS "y 7[3,2,4] = " CALL "\noutput y\n", "auto", 4);
    r_has(&r, "%block_table: i32[sequences, sequence_pages]");
    r_has(&r, "%L.0.k_cache: f32[pages, 4, 1, 4]");
    r_has(&r, "as \"L.0.k_cache\"");
    r_lacks(&r, "scale: f32");
    assert_string_equal(state.messages, "");
    r_end(&r);
    r = with(ROWS "y 7[3,2,4] = " CALL "\noutput y\n", "bfloat16", 0);
    r_has(&r, "%L.0.v_cache: bf16[pages, page_size, 1, 4]");
    r_end(&r);
}

/* The rows of the call in pages, and causal attention over each sequence's rows, are the same thing. */
static void a_cache_of_this_call_gives_the_same_numbers(void **unused) {
    (void)unused;
    float paged[24], plain[24];
    fill(q, 24, 1);
    fill(k, 12, 2);
    fill(v, 12, 3);
    fill(k_cache, 32, 4);
    fill(v_cache, 32, 5);
    reading r = with(ROWS "y 7[3,2,4] = " CALL "\noutput y\n", "auto", 4);
    run(&r, 0, paged, 24);
    float written[32];
    run(&r, 1, written, 32);
    assert_memory_equal(written + 16, k, 8 * sizeof *k);
    assert_memory_equal(written, k + 8, 4 * sizeof *k);
    assert_memory_equal(written + 4, k_cache + 4, 12 * sizeof *k);
    r_end(&r);
    r = r_text(ROWS "y 7[3,2,4] = " CALL "\noutput y\n");
    run(&r, 0, plain, 24);
    r_end(&r);
    for (uint32_t i = 0; i < 16; i++) /* the first sequence is the first two rows of the call */
        assert_true(paged[i] - plain[i] < 1e-6F && plain[i] - paged[i] < 1e-6F);
    for (uint32_t i = 16; i < 24; i++) assert_true(paged[i] == v[8 + i % 4]); /* one key: its value */
}

static void an_update_writes_once(void **unused) {
    (void)unused;
    float once[24], apart[24];
    reading r = with(ROWS "y 7[3,2,4] = " CALL "\noutput y\n", "auto", 4);
    run(&r, 0, once, 24);
    r_end(&r);
    const char *text = ROWS "d 7[0] = vllm.unified_kv_cache_update.default key=%k value=%v layer_name='L.0\n"
                            "y 7[3,2,4] = " CALL " kv_cache_dummy_dep=%d\noutput y\n";
    r = with(text, "auto", 4);
    const char *first = strstr(strstr(r.text.data, "kv_cache_write") + 1, "kv_cache_write");
    assert_null(strstr(first + 1, "kv_cache_write"));
    run(&r, 0, apart, 24);
    assert_memory_equal(once, apart, sizeof once);
    r_end(&r);
    r = with(text, NULL, 0);
    r_lacks(&r, "opaque");
    r_lacks(&r, "kv_cache_write");
    r_end(&r);
}

static void layers_keep_their_own_caches(void **unused) {
    (void)unused;
    reading r = with(ROWS "buffer b 7[3,2,4]\n"
                          "y 7[3,2,4] = " CALL "\n"
                          "z 7[3,2,4] = vllm.unified_attention.default query=%y key=%k value=%v layer_name='L.1\n"
                          "w 7[3,2,4] = vllm.unified_attention.default query=%z key=%k value=%v layer_name='L.0\n"
                          "u 7[3,2,4] = aten.add_.Tensor self=%b other=%w\n" /* the import begins anew */
                          "output u\n",
                     "auto", 4);
    r_has(&r, "as \"b\"");
    r_has(&r, "as \"L.0.k_cache\"");
    r_has(&r, "as \"L.1.v_cache\"");
    assert_int_equal(r.graph->input_count, 3 + 1 + 4 + 4);
    r_end(&r);
}

static void fp8_caches_fuse_like_others(void **unused) {
    (void)unused;
    qf_pt2_import_options options = {.struct_size = sizeof options, .kv_cache = "fp8", .page_size = 16};
    program *p = p_program("input q 6[s0,2,64]\ninput k 6[s0,1,64]\ninput v 6[s0,1,64]\ninput s 7[1]\n"
                           "o 6[s0,128] = aten.empty.memory_format size=[$n,128] dtype=dtype:6\n"
                           "h 6[s0,2,64] = aten.view.default self=%o size=[-1,2,64]\n"
                           "- = vllm.unified_attention_with_output.default query=%q key=%k value=%v output=%h "
                           "layer_name='L.0\n"
                           "e 29[s0,128] = aten.empty.memory_format size=[$n,128] dtype=dtype:29\n"
                           "- = _C.static_scaled_fp8_quant.default result=%e input=%o scale=%s\n"
                           "number n s0\noutput e\n");
    reading r = r_program(p, &options);
    r_has(&r, "%L.0.k_scale: f32[]");
    r_has(&r, "%L.0.k_cache: f8E4M3FN[pages, 16, 1, 64]");
    qf_pipeline_options serving = {.struct_size = sizeof serving, .passes = "serving"};
    qf_run *report;
    if (qf_run_pipeline(r.graph, &serving, &report) != QF_OK) fail_msg("%s", state.messages);
    qf_run_counts counts = {.struct_size = sizeof counts};
    qf_run_get_counts(report, &counts);
    assert_int_equal(counts.fused_fp8_out, 1);
    assert_int_equal(counts.fp8_query, 1);
    qf_run_destroy(report);
    r_end(&r);
}

static void what_cannot_have_a_cache_says_why(void **unused) {
    (void)unused;
    qf_pt2_import_options options = {.struct_size = sizeof options,
                                     .kv_cache = "auto",
                                     .customs = "attention vllm.unified_attention query=query key=key value=value "
                                                "_=layer_name\n"};
    reading r = r_program(p_program(ROWS "y 7[3,2,4] = " CALL "\noutput y\n"), &options);
    assert_non_null(strstr(state.messages, "does not say which argument is the layer's name"));
    r_end(&r);
    r = with(ROWS "input e 7[5,1,4]\ny 7[3,2,4] = " CALL "\n"
                  "z 7[3,2,4] = vllm.unified_attention.default query=%y key=%e value=%e layer_name='L.1\noutput z\n",
             "auto", 4);
    assert_non_null(strstr(state.messages, "its keys are of other tokens"));
    r_end(&r);
    options = (qf_pt2_import_options){.struct_size = sizeof options, .kv_cache = "fp4"};
    r = r_try(p_program(ROWS "output q\n"), &options);
    assert_null(r.graph);
    assert_non_null(strstr(state.messages, "kv_cache: expected \"auto\""));
    r_end(&r);
    options.kv_cache = "int8";
    r = r_try(p_program(ROWS "output q\n"), &options);
    assert_null(r.graph);
    assert_non_null(strstr(state.messages, "caches of i8 are not supported"));
    r_end(&r);
}

/* Caches that the program holds: as FP8, as bytes that are FP8 by name, and in the type of the rows. */
static void caches_of_the_program_are_written(void **unused) {
    (void)unused;
    static const struct {
        int code;
        const char *type, *has, *lacks;
    } cases[] = {{29, "auto", "kv_cache_write %c, %k, %s, scale=", "bitcast"},
                 {1, "fp8", "bitcast %c {dtype=f8E4M3FN}", "opaque"},
                 {1, "fp8_e5m2", "bitcast %c {dtype=f8E5M2}", "opaque"},
                 {1, "strange", "opaque", "kv_cache_write"},
                 {13, "auto", "cast %k {dtype=bf16", "scale="}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "input k 7[s0,2,8]\ninput v 7[s0,2,8]\ninput c %d[9,4,2,8]\ninput d %d[9,4,2,8]\ninput s 5[s0]\n"
                       "input a 7[1]\ninput b 7[]\n"
                       "- = _C_cache_ops.reshape_and_cache_flash.default key=%%k value=%%v key_cache=%%c "
                       "value_cache=%%d slot_mapping=%%s kv_cache_dtype='%s k_scale=%%a v_scale=%%b\n"
                       "output c\noutput d\n",
                       cases[i].code, cases[i].code, cases[i].type);
        reading r = r_text(text);
        r_has(&r, cases[i].has);
        r_lacks(&r, cases[i].lacks);
        r_end(&r);
    }
}

static void a_number_names_a_layer(void **unused) {
    (void)unused;
    qf_pt2_import_options options = {.struct_size = sizeof options, .kv_cache = "auto"};
    for (uint32_t saves = 0; saves < 2; saves++) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "input q 13[s0,4,8]\ninput k 13[s0,2,8]\ninput v 13[s0,2,8]\ninput o 13[s0,4,8]\n"
                       "- = sglang.unified_attention_with_output.default query=%%q key=%%k value=%%v output=%%o "
                       "save_kv_cache=%s layer_id=3\noutput o\n",
                       saves ? "true" : "false");
        reading r = r_program(p_program(text), &options);
        r_has(&r, "paged_attention ");
        r_has(&r, "layers.3.k_cache");
        (saves ? r_has : r_lacks)(&r, "kv_cache_write");
        r_end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attends_to_the_tokens_of_the_call),
                                       cmocka_unit_test(heads_are_found_where_they_were_merged),
                                       cmocka_unit_test(a_rotation_tells_the_heads),
                                       cmocka_unit_test(a_line_of_customs_tells_the_head_size),
                                       cmocka_unit_test(caches_of_the_program_are_written),
                                       cmocka_unit_test(a_number_names_a_layer),
                                       cmocka_unit_test(caches_are_inputs_and_outputs),
                                       cmocka_unit_test(a_cache_of_this_call_gives_the_same_numbers),
                                       cmocka_unit_test(an_update_writes_once),
                                       cmocka_unit_test(layers_keep_their_own_caches),
                                       cmocka_unit_test(fp8_caches_fuse_like_others),
                                       cmocka_unit_test(what_cannot_have_a_cache_says_why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
