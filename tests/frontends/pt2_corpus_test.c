/* Owns: whole exported programs: writes to caches survive every pass, text round trips, locations.
 * Does not own: counts and numbers of each case (tests/e2e).
 * Next: tests/corpus/pt2. */
#include "tests/frontends/pt2_reading.h"

#define CORPUS QF_SOURCE_DIR "/tests/corpus/pt2/"

static qf_graph *import(qf_context *context, const char *path) {
    qf_graph *graph = NULL;
    if (qf_pt2_import_file(context, path, NULL, &graph) != QF_OK) fail_msg("%s", state.messages);
    if (qf_graph_verify(graph) != QF_OK) fail_msg("%s", state.messages);
    return graph;
}

/* Inputs: token 5 at position 3; buffers as the archive holds them. */
static qf_interpreter *run(qf_graph *graph, int64_t *numbers) {
    qf_interpreter *interpreter = qf_interpreter_create(graph, 1);
    assert_non_null(interpreter);
    for (uint32_t i = 0; i < graph->input_count; i++) {
        qf_type type = qf_input_type(graph, i);
        const char *name = qf_value_name(graph, graph->inputs[i]);
        const qf_weight *weight = qf_graph_find_weight(graph, qf_intern_c(graph->context, name));
        union {
            const void *read_only;
            void *data;
        } bytes = {.read_only = weight ? weight->data : &numbers[i]};
        qf_tensor tensor = {.dtype = qf_type_dtype(graph->context, type),
                            .rank = qf_type_rank(graph->context, type),
                            .data = bytes.data};
        for (uint32_t axis = 0; axis < tensor.rank; axis++)
            assert_true(qf_dim_is_constant(graph->context, qf_type_dim(graph->context, type, (int32_t)axis),
                                           &tensor.dims[axis]));
        assert_int_equal(qf_interpreter_bind_input(interpreter, i, &tensor), QF_OK);
    }
    if (qf_interpreter_run(interpreter, NULL) != QF_OK) fail_msg("%s", state.messages);
    return interpreter;
}

static bool is_cache(const char *name) {
    return strstr(name, "_cache_") != NULL;
}

/* One pass after another; after each, the caches that the graph gives are those of the program, byte for byte. The
 * second layer's are computed from the first one's output, which may be rounded otherwise once it is fused: there the
 * untouched rows are compared. */
static void fault_1_cache_writes_survive_every_pass(void **unused) {
    (void)unused;
    static const char *const pipelines[] = {"canonicalize",
                                            "fold",
                                            "cse",
                                            "dce",
                                            "raise",
                                            "fold-scales",
                                            "canonicalize,fold,cse,dce,raise,fuse-attention-quant,dce",
                                            "default",
                                            "serving"};
    qf_context *context = check_context(&state);
    int64_t numbers[16] = {5, 3};
    qf_graph *before = import(context, CORPUS "hf_llama_static_cache_bfloat16/model.pt2");
    qf_interpreter *was = run(before, numbers);
    for (size_t i = 0; i < QF_COUNT_OF(pipelines); i++) {
        qf_graph *after = import(context, CORPUS "hf_llama_static_cache_bfloat16/model.pt2");
        qf_pipeline_options options = {.struct_size = sizeof options, .passes = pipelines[i]};
        assert_int_equal(qf_run_pipeline(after, &options, NULL), QF_OK);
        qf_interpreter *is = run(after, numbers);
        uint32_t caches = 0, written = 0;
        assert_int_equal(qf_graph_output_count(after), qf_graph_output_count(before));
        for (uint32_t o = 0; o < qf_graph_output_count(after); o++) {
            const char *name = qf_graph_output_name(after, o);
            qf_tensor a, b;
            if (!is_cache(name)) continue;
            assert_string_equal(name, qf_graph_output_name(before, o));
            assert_true(qf_interpreter_value(was, qf_graph_output(before, o), &a));
            assert_true(qf_interpreter_value(is, qf_graph_output(after, o), &b));
            assert_int_equal(qf_tensor_bytes(&a), qf_tensor_bytes(&b));
            const uint8_t *x = a.data, *y = b.data;
            bool first_layer = strstr(name, "_0") != NULL;
            uint64_t row = 64 * 2, rows = qf_tensor_bytes(&a) / row;
            for (uint64_t r = 0; r < rows; r++) {
                bool now = r % 32 == 3, zero = true;
                for (uint64_t c = 0; c < row; c++) zero &= y[r * row + c] == 0;
                written += !zero;
                assert_int_equal(zero, !now);
                if (first_layer || !now) assert_memory_equal(x + r * row, y + r * row, row);
            }
            caches++;
        }
        assert_int_equal(caches, 4);
        assert_int_equal(written, 4 * 2);
        qf_interpreter_destroy(is);
        qf_graph_destroy(after);
    }
    qf_interpreter_destroy(was);
    qf_graph_destroy(before);
    check_destroy(context, &state);
}

static void text_round_trips(void **unused) {
    (void)unused;
    static const char *const cases[] = {"hf_gptoss_eager_div_bfloat16", "hf_llama_sdpa_div_bfloat16_decomp",
                                        "vllm_static_empty_functional", "torchao_wo_llama"};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        char path[512];
        (void)snprintf(path, sizeof path, CORPUS "%s/model.pt2", cases[i]);
        qf_context *context = check_context(&state);
        qf_graph *graph = import(context, path);
        qf_buffer first = {.context = context}, second = {.context = context};
        qf_graph_print(&first, graph);
        qf_graph *again = qf_graph_parse(context, (qf_text){first.data, first.size}, "again.qf");
        if (!again) fail_msg("%s", state.messages);
        qf_graph_print(&second, again);
        assert_int_equal(first.size, second.size);
        assert_memory_equal(first.data, second.data, first.size);
        qf_buffer_destroy(&first);
        qf_buffer_destroy(&second);
        qf_graph_destroy(again);
        qf_graph_destroy(graph);
        check_destroy(context, &state);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_1_cache_writes_survive_every_pass),
        cmocka_unit_test(text_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
