/* Owns: tests of what is written: names, attributes, and what was carried through without being understood.
 * Does not own: models that go there and back (round_trip_test.c).
 * Next: frontends/onnx/export.c. */
#include "tests/folder.h"
#include "tests/frontends/importing.h"

#include "base/file.h"

static void branches_keep_what_they_read(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "2");
    b_input(b, "c", BOOL, "");
    (void)b_node(b, "", "Neg", "x", "n");
    Onnx__NodeProto *node = b_node(b, "", "If", "c", "y");
    const char *const names[] = {"then_branch", "else_branch"};
    for (int i = 0; i < 2; i++) {
        Onnx__GraphProto *branch = b_new(b, sizeof *branch);
        onnx__graph_proto__init(branch);
        branch->name = b_text(b, names[i]);
        branch->node = b_new(b, sizeof *branch->node);
        branch->node[branch->n_node++] = b_make(b, "", i ? "Sub" : "Add", "n x", i ? "e" : "t");
        branch->output = b_new(b, sizeof *branch->output);
        branch->output[branch->n_output++] = b_info(b, i ? "e" : "t", FLOAT, "2");
        b_attribute(b, node, names[i], ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = branch;
    }
    b_output(b, "y");
    qf_graph *graph = good(b, context);
    qf_node opaque = b_find(graph, QF_OP_opaque);
    assert_int_equal(qf_node_at(graph, opaque)->operand_count, 3); /* c, n, x */
    /* Renamed outside, the branches read the new names. */
    qf_value negated = qf_node_result(graph, b_find(graph, QF_OP_neg), 0);
    qf_value_at(graph, negated)->name = qf_intern_c(context, "renamed");
    written_model file = write_model(graph);
    const Onnx__NodeProto *written = file.model->graph->node[1];
    assert_string_equal(written->op_type, "If");
    assert_string_equal(written->attribute[0]->g->node[0]->input[0], "renamed");
    assert_string_equal(written->attribute[1]->g->node[0]->input[1], "x");
    written_free(context, &file);
    end(b, graph, context);
}

static void element_types_that_are_unknown_stay(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    uint16_t numbers[] = {1, 2};
    (void)b_initializer(b, "w", UINT16, (int64_t[]){2}, 1, numbers, sizeof numbers);
    b_int(b, b_node(b, "", "Cast", "w", "y"), "to", FLOAT);
    b->infos[b->graph.n_value_info++] = b_info(b, "y", FLOAT, "2");
    b_output(b, "y");
    qf_graph *graph = good(b, context);
    assert_int_equal(b_count(graph, QF_OP_opaque), 2);
    written_model file = write_model(graph);
    assert_int_equal(file.model->graph->initializer[0]->data_type, UINT16);
    assert_memory_equal(file.model->graph->initializer[0]->raw_data.data, numbers, sizeof numbers);
    written_free(context, &file);
    end(b, graph, context);
}

static void fused_attention_is_written_with_all_it_has(void **unused) {
    (void)unused;
    static const char text[] =
        "graph @fused(%q: f8E4M3FN[B, 4, T, 64], %k: f8E4M3FN[B, 2, S, 64], %s: f32[], %l: i32[B]) {\n"
        "  %a = attention %q, %k, %k, kv_lens=%l, q_scale=%s, k_scale=%s, v_scale=%s, out_scale=%s {scale=0.1, "
        "causal=true, "
        "window_left=7, softcap=20.5, out=f8E4M3FN, out_mode=mul_recip, via=bf16} : f8E4M3FN[B, 4, T, 64]\n"
        "  return %a as \"y\"\n"
        "}\n";
    qf_context *context = check_context(&state);
    qf_graph *graph = qf_graph_parse(context, (qf_text){text, sizeof text - 1}, "fused.qf");
    if (!graph) fail_msg("%s", state.messages);
    written_model file = write_model(graph);
    assert_int_equal(file.model->graph->n_node, 1);
    assert_string_equal(file.model->graph->node[0]->domain, "qfuse");
    assert_string_equal(file.model->graph->node[0]->output[0], "y");
    qf_graph *again;
    if (qf_onnx_import_memory(context, file.data, file.size, NULL, &again) != QF_OK) fail_msg("%s", state.messages);
    qf_node before = b_find(graph, QF_OP_attention), after = b_find(again, QF_OP_attention);
    const qf_op_info *info = qf_op_info_of(QF_OP_attention);
    for (uint32_t i = 0; i < info->attribute_count; i++) {
        qf_buffer a = {.context = context}, c = {.context = context};
        qf_attribute_print(&a, graph, &info->attributes[i], attribute(graph, before, i));
        qf_attribute_print(&c, again, &info->attributes[i], attribute(again, after, i));
        assert_string_equal(a.data, c.data);
        qf_buffer_destroy(&a);
        qf_buffer_destroy(&c);
    }
    written_free(context, &file);
    qf_graph_destroy(again);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void outputs_keep_their_names(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "2");
    (void)b_node(b, "", "Identity", "x", "same");
    (void)b_node(b, "", "Neg", "x", "n");
    (void)b_node(b, "", "Identity", "n", "twice");
    b_output(b, "same");
    b_output(b, "n");
    b_output(b, "twice");
    qf_graph *graph = good(b, context);
    written_model file = write_model(graph);
    assert_int_equal(file.model->graph->n_output, 3);
    assert_string_equal(file.model->graph->output[0]->name, "same");
    assert_string_equal(file.model->graph->output[1]->name, "n");
    assert_string_equal(file.model->graph->output[2]->name, "twice");
    written_free(context, &file);
    end(b, graph, context);
}

/* The bytes are those in memory; a path that cannot be written is a located failure. */
static void models_are_written_to_files(void **unused) {
    (void)unused;
    char folder[FOLDER_PATH], path[FOLDER_PATH];
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "2");
    (void)b_node(b, "", "Neg", "x", "y");
    b_output(b, "y");
    qf_graph *graph = good(b, context);
    written_model memory = write_model(graph);
    assert_true(folder_make(folder));
    assert_int_equal(qf_onnx_export_file(graph, folder_path(path, folder, "m.onnx")), QF_OK);
    qf_mapping file;
    assert_int_equal(qf_map_file(context, path, 1 << 20, path, &file), QF_OK);
    assert_int_equal(file.size, memory.size);
    assert_memory_equal(file.data, memory.data, memory.size);
    qf_unmap_file(&file);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(qf_onnx_export_file(graph, folder), QF_ERROR_IO);
    qf_context_clear_status(context);
    assert_int_equal(rmdir(folder), 0);
    written_free(context, &memory);
    end(b, graph, context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_keep_what_they_read),
        cmocka_unit_test(element_types_that_are_unknown_stay),
        cmocka_unit_test(fused_attention_is_written_with_all_it_has),
        cmocka_unit_test(outputs_keep_their_names),
        cmocka_unit_test(models_are_written_to_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
