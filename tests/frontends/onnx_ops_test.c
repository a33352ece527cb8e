/* Owns: tests of what single ONNX ops become: attributes, versions, types, and the faults that importers had.
 * Does not own: whole models (onnx_corpus_test.c), hostile ones (onnx_hostile_test.c).
 * Next: frontends/onnx/ops.def. */
#include "tests/frontends/model_builder.h"

enum { FLOAT = 1, UINT8 = 2, INT32 = 6, INT64 = 7, BOOL = 9, FLOAT16 = 10, UINT16 = 4, FP8 = 17 };

static check_state state;

static qf_graph *good(builder *b, qf_context *context, qf_onnx_revision revision) {
    qf_graph *graph = b_import_as(b, context, revision);
    if (!graph) fail_msg("%s", state.messages);
    if (qf_graph_verify(graph) != QF_OK) fail_msg("%s", state.messages);
    return graph;
}

static void end(builder *b, qf_graph *graph, qf_context *context) {
    qf_graph_destroy(graph);
    check_destroy(context, &state);
    b_end(b);
}

static const qf_attribute *attribute(const qf_graph *graph, qf_node node, uint32_t index) {
    return qf_node_attribute(graph, node, index);
}

/* --- shapes --- */
static void fault_8_reshape_targets_give_one_dim(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "B,T,32");
    b_vector(b, "infer", (int64_t[]){0, -1, 4, 8}, 4);
    b_vector(b, "heads", (int64_t[]){4, 8}, 2);
    (void)b_node(b, "", "Reshape", "x infer", "a");
    Onnx__NodeProto *lead = b_node(b, "", "Shape", "x", "lead");
    b_int(b, lead, "end", 2);
    Onnx__NodeProto *joined = b_node(b, "", "Concat", "lead heads", "target");
    b_int(b, joined, "axis", 0);
    (void)b_node(b, "", "Reshape", "x target", "c");
    b_output(b, "a");
    b_output(b, "c");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    b_check_type(graph, 0, "f32[B, T, 4, 8]");
    b_check_type(graph, 1, "f32[B, T, 4, 8]");
    assert_int_equal(graph->guard_count, 0);
    end(b, graph, context);
}

static void reshape_zero_is_a_size_where_allowed(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "0,5");
    b_vector(b, "s", (int64_t[]){5, 0}, 2);
    b_int(b, b_node(b, "", "Reshape", "x s", "y"), "allowzero", 1);
    b_output(b, "y");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    b_check_type(graph, 0, "f32[5, 0]");
    end(b, graph, context);
}

static void slices_clamp_their_bounds(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "10,T");
    b_vector(b, "first", (int64_t[]){-3, 1}, 2);
    b_vector(b, "last", (int64_t[]){INT64_MAX, -1}, 2);
    b_vector(b, "axes", (int64_t[]){0, -1}, 2);
    b_vector(b, "from", (int64_t[]){-1}, 1);
    b_vector(b, "to", (int64_t[]){INT64_MIN}, 1);
    b_vector(b, "zero", (int64_t[]){0}, 1);
    b_vector(b, "back", (int64_t[]){-1}, 1);
    (void)b_node(b, "", "Slice", "x first last axes", "a");
    (void)b_node(b, "", "Slice", "x from to zero back", "r");
    b_output(b, "a");
    b_output(b, "r");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    qf_node slice = b_find(graph, QF_OP_slice);
    const qf_attribute *starts = attribute(graph, slice, QF_ATTR(slice, starts));
    assert_true(qf_dim_is(context, starts->dims[0], 7));
    b_check_type(graph, 1, "f32[10, T]");
    end(b, graph, context);
}

static void data_dependent_shapes_stay_opaque(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "4,4");
    b_input(b, "s", INT64, "2");
    (void)b_node(b, "", "Reshape", "x s", "y");
    (void)b_node(b, "", "Relu", "y", "z");
    b->infos[b->graph.n_value_info++] = b_info(b, "y", FLOAT, "A,C");
    b_output(b, "z");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    assert_int_equal(b_count(graph, QF_OP_opaque), 1);
    assert_non_null(strstr(state.messages, "its shape is computed at run time"));
    b_check_type(graph, 0, "f32[A, C]");
    end(b, graph, context);
}

/* --- what is unknown --- */
static void fault_76_unknown_ops_are_said(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "2,3");
    Onnx__NodeProto *node = b_node(b, "vendor", "Mystery", "x - x", "y -");
    b_int(b, node, "k", 3);
    b_output(b, "y");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    assert_non_null(strstr(state.messages, "remark y: vendor::Mystery is carried through as an opaque node"));
    qf_node opaque = b_find(graph, QF_OP_opaque);
    assert_int_equal(qf_node_at(graph, opaque)->operand_count, 2);
    assert_string_equal(qf_string_c(context, attribute(graph, opaque, QF_ATTR(opaque, name))->string),
                        "vendor.Mystery");
    assert_int_equal(attribute(graph, opaque, QF_ATTR(opaque, pure))->integer, 1);
    end(b, graph, context);
}

static void fault_12_unknown_attributes_are_no_match(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "2,3");
    b_scalar(b, "s", 0.5f);
    Onnx__NodeProto *node = b_node(b, "trt", "TRT_FP8QuantizeLinear", "x s", "q");
    b_int(b, node, "power_of_two", 1);
    b_output(b, "q");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    assert_int_equal(b_count(graph, QF_OP_quantize), 0);
    assert_non_null(strstr(state.messages, "it has an attribute that the importer does not know"));
    end(b, graph, context);
}

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
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    qf_node opaque = b_find(graph, QF_OP_opaque);
    assert_int_equal(qf_node_at(graph, opaque)->operand_count, 3); /* c, n, x */
    /* Renamed outside, the branches read the new names. */
    qf_value negated = qf_node_result(graph, b_find(graph, QF_OP_neg), 0);
    qf_value_at(graph, negated)->name = qf_intern_c(context, "renamed");
    void *data;
    size_t size;
    assert_int_equal(qf_onnx_export_memory(graph, &data, &size), QF_OK);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, data);
    assert_non_null(model);
    const Onnx__NodeProto *written = model->graph->node[1];
    assert_string_equal(written->op_type, "If");
    assert_string_equal(written->attribute[0]->g->node[0]->input[0], "renamed");
    assert_string_equal(written->attribute[1]->g->node[0]->input[1], "x");
    onnx__model_proto__free_unpacked(model, NULL);
    qf_onnx_free(context, data, size);
    end(b, graph, context);
}

static void functions_are_inlined_with_their_attributes(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_opset(b, "local", 1);
    b_input(b, "x", FLOAT, "2,3");
    b_int(b, b_node(b, "local", "Soft", "x", "y"), "along", 0);
    (void)b_node(b, "local", "Soft", "y", "z");
    b_output(b, "z");
    Onnx__FunctionProto *function = b_new(b, sizeof *function);
    onnx__function_proto__init(function);
    function->domain = b_text(b, "local");
    function->name = b_text(b, "Soft");
    function->n_input = b_names(b, "a", &function->input);
    function->n_output = b_names(b, "r", &function->output);
    function->n_attribute = b_names(b, "along", &function->attribute);
    function->node = b_new(b, sizeof *function->node);
    Onnx__NodeProto *softmax = function->node[function->n_node++] = b_make(b, "", "Softmax", "a", "r");
    b_attribute(b, softmax, "axis", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT)->ref_attr_name = b_text(b, "along");
    b->functions[b->model.n_functions++] = function;
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    assert_int_equal(b_count(graph, QF_OP_softmax), 2);
    qf_node first = b_find(graph, QF_OP_softmax);
    assert_int_equal(attribute(graph, first, QF_ATTR(softmax, axis))->integer, 0);
    qf_node second = qf_value_producer(graph, qf_node_operand(graph, graph->last, 0));
    assert_int_equal(attribute(graph, second, QF_ATTR(softmax, axis))->integer, 1); /* the op's own default */
    qf_buffer place = {.context = context};
    qf_location_print(&place, graph, qf_node_at(graph, second)->location);
    assert_non_null(strstr(place.data, "z/r"));
    qf_buffer_destroy(&place);
    end(b, graph, context);
}

/* --- types --- */
static void fault_70_fp8_transpose_before_its_opset(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FP8, "2,3");
    (void)b_node(b, "", "Transpose", "x", "y");
    b_output(b, "y");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    assert_non_null(
        strstr(state.messages, "warning y: Transpose reads FP8 input 'x' at opset 20; allowed from opset 21 on"));
    b_check_type(graph, 0, "f8E4M3FN[3, 2]");
    end(b, graph, context);

    context = check_context(&state);
    b = b_begin(21);
    b_input(b, "x", FP8, "2,3");
    (void)b_node(b, "", "Transpose", "x", "y");
    b_output(b, "y");
    graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    assert_string_equal(state.messages, "");
    end(b, graph, context);
}

static void mixed_floats_widen_with_a_warning(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "2");
    b_input(b, "h", FLOAT16, "2");
    (void)b_node(b, "", "Add", "x h", "y");
    b->infos[b->graph.n_value_info++] = b_info(b, "y", FLOAT16, "2");
    b_output(b, "y");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    assert_non_null(strstr(state.messages, "mixes floating-point types"));
    b_check_type(graph, 0, "f16[2]");
    assert_int_equal(qf_value_dtype(graph, qf_node_result(graph, b_find(graph, QF_OP_add), 0)), QF_F32);
    end(b, graph, context);
}

/* One rounding at the end, or one a step where the caller asks for the definition's own. */
static void sixteen_bits_round_once_or_stepwise(void **unused) {
    (void)unused;
    for (int stepwise = 0; stepwise < 2; stepwise++) {
        qf_context *context = check_context(&state);
        builder *b = b_begin(20);
        b_input(b, "x", FLOAT16, "2,3");
        (void)b_node(b, "", "Softmax", "x", "p");
        (void)b_node(b, "", "Sigmoid", "p", "y");
        b_output(b, "y");
        size_t size;
        const uint8_t *data = b_pack(b, &size);
        qf_onnx_import_options options = {.struct_size = sizeof options, .stepwise_16bit = stepwise};
        qf_graph *graph;
        if (qf_onnx_import_memory(context, data, size, &options, &graph) != QF_OK) fail_msg("%s", state.messages);
        assert_int_equal(b_count(graph, QF_OP_softmax), !stepwise);
        assert_int_equal(b_count(graph, QF_OP_sigmoid), !stepwise);
        assert_int_equal(b_count(graph, QF_OP_exp), stepwise ? 3 : 0);
        b_check_type(graph, 0, "f16[2, 3]");
        end(b, graph, context);
    }
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
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    assert_int_equal(b_count(graph, QF_OP_opaque), 2);
    void *data;
    size_t size;
    assert_int_equal(qf_onnx_export_memory(graph, &data, &size), QF_OK);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, data);
    assert_non_null(model);
    assert_int_equal(model->graph->initializer[0]->data_type, UINT16);
    assert_memory_equal(model->graph->initializer[0]->raw_data.data, numbers, sizeof numbers);
    onnx__model_proto__free_unpacked(model, NULL);
    qf_onnx_free(context, data, size);
    end(b, graph, context);
}

/* --- quantisation --- */
static const qf_attribute *quantised(builder *b, qf_context *context, qf_graph **out) {
    *out = good(b, context, QF_ONNX_REVISION_NEWEST);
    qf_node node = b_find(*out, QF_OP_quantize);
    assert_true(node.id);
    return qf_node_at(*out, node)->attributes;
}

static void quantise_by_version(void **unused) {
    (void)unused;
    /* opset 13: u8 without zero point; 21: output_dtype and blocks; 23: precision, by default that of the scale. */
    for (int version = 13; version <= 23; version += 5) {
        int64_t opset = version == 18 ? 21 : version;
        qf_context *context = check_context(&state);
        builder *b = b_begin(opset);
        b_input(b, "x", opset == 23 ? FLOAT16 : FLOAT, "4,6");
        b_input(b, "s", opset == 23 ? FLOAT16 : FLOAT, opset == 21 ? "4,3" : opset == 13 ? "6" : "");
        Onnx__NodeProto *node = b_node(b, "", "QuantizeLinear", "x s", "y");
        if (opset == 21) {
            b_int(b, node, "block_size", 2);
            b_int(b, node, "output_dtype", FP8);
        }
        if (opset == 23) {
            b_int(b, node, "output_dtype", FP8);
            b_int(b, node, "saturate", 0);
        }
        b_output(b, "y");
        qf_graph *graph;
        const qf_attribute *a = quantised(b, context, &graph);
        assert_int_equal(a[QF_ATTR(quantize, dtype)].integer, opset == 13 ? QF_U8 : QF_F8E4M3FN);
        assert_int_equal(a[QF_ATTR(quantize, axis)].integer, opset == 23 ? -1 : 1);
        assert_int_equal(a[QF_ATTR(quantize, group)].integer, opset == 21 ? 2 : 0);
        assert_int_equal(a[QF_ATTR(quantize, compute)].integer, opset == 23 ? QF_F16 : QF_F32);
        assert_int_equal(a[QF_ATTR(quantize, saturate)].integer, opset != 23);
        assert_int_equal(a[QF_ATTR(quantize, mode)].integer, QF_VALUE_div);
        end(b, graph, context);
    }
}

static void trt_results_are_fp8_whatever_they_declare(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT16, "4,6");
    b_scalar(b, "s", 0.5f);
    (void)b_node(b, "trt", "TRT_FP8QuantizeLinear", "x s", "q");
    b->infos[b->graph.n_value_info++] = b_info(b, "q", UINT8, "4,6");
    (void)b_node(b, "trt", "TRT_FP8DequantizeLinear", "q s", "y");
    b_output(b, "q");
    b_output(b, "y");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    b_check_type(graph, 0, "f8E4M3FN[4, 6]");
    b_check_type(graph, 1, "f32[4, 6]");
    end(b, graph, context);
}

/* --- attention --- */
static builder *attention_model(const char *inputs, const char *outputs, Onnx__NodeProto **out_node) {
    builder *b = b_begin(24);
    b_input(b, "q", FLOAT, "B,4,T,8");
    b_input(b, "k", FLOAT, "B,2,T,8");
    b_input(b, "v", FLOAT, "B,2,T,8");
    b_input(b, "m", BOOL, "T,S");
    b_input(b, "pk", FLOAT, "B,2,P,8");
    b_input(b, "pv", FLOAT, "B,2,P,8");
    b_input(b, "n", INT64, "B");
    *out_node = b_node(b, "", "Attention", inputs, outputs);
    for (size_t i = 0; i < (*out_node)->n_output; i++)
        if (*(*out_node)->output[i]) b_output(b, (*out_node)->output[i]);
    return b;
}

static void fault_61_causal_alignment(void **unused) {
    (void)unused;
    static const struct {
        const char *inputs;
        qf_onnx_revision revision;
        int64_t align;
        bool lens;
    } cases[] = {
        {"q k v", QF_ONNX_REVISION_NEWEST, QF_VALUE_top_left, false},
        {"q k v - pk pv", QF_ONNX_REVISION_NEWEST, QF_VALUE_bottom_right, false},
        {"q k v - - - n", QF_ONNX_REVISION_NEWEST, QF_VALUE_bottom_right, true},
        {"q k v - pk pv", QF_ONNX_REVISION_FIRST, QF_VALUE_top_left, false},
    };
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        qf_context *context = check_context(&state);
        Onnx__NodeProto *node;
        builder *b = attention_model(cases[i].inputs, "y", &node);
        b_int(b, node, "is_causal", 1);
        qf_graph *graph = good(b, context, cases[i].revision);
        qf_node attention = b_find(graph, QF_OP_attention);
        assert_true(attention.id);
        assert_int_equal(attribute(graph, attention, QF_ATTR(attention, align))->integer, cases[i].align);
        assert_int_equal(attribute(graph, attention, QF_ATTR(attention, causal))->integer, 1);
        assert_int_equal(qf_node_operand(graph, attention, QF_IN(attention, kv_lens)).id != 0, cases[i].lens);
        bool first = cases[i].revision == QF_ONNX_REVISION_FIRST;
        assert_int_equal(attribute(graph, attention, QF_ATTR(attention, empty_row))->integer,
                         first ? QF_VALUE_nan : QF_VALUE_zero);
        end(b, graph, context);
    }
}

/* The op that feeds `value`, looked at through views. */
static qf_op feeds(const qf_graph *graph, qf_value value) {
    qf_node node = qf_value_producer(graph, value);
    while (qf_node_op(graph, node) == QF_OP_view) node = qf_value_producer(graph, qf_node_operand(graph, node, 0));
    return qf_node_op(graph, node);
}

static void fault_61_cap_and_mask(void **unused) {
    (void)unused;
    for (int first = 0; first < 2; first++) {
        qf_context *context = check_context(&state);
        Onnx__NodeProto *node;
        builder *b = attention_model("q k v m", "y", &node);
        b_float(b, node, "softcap", 2);
        qf_graph *graph = good(b, context, first ? QF_ONNX_REVISION_FIRST : QF_ONNX_REVISION_NEWEST);
        assert_int_equal(b_count(graph, QF_OP_attention), first ? 0 : 1);
        if (first) { /* the cap's result goes straight into the softmax: the mask came before it */
            qf_node softmax = b_find(graph, QF_OP_softmax), tanh = b_find(graph, QF_OP_tanh);
            assert_int_equal(feeds(graph, qf_node_operand(graph, softmax, 0)), QF_OP_mul);
            qf_node scaled = qf_value_producer(graph, qf_node_operand(graph, tanh, 0));
            assert_int_equal(feeds(graph, qf_node_operand(graph, scaled, 0)), QF_OP_add);
        }
        end(b, graph, context);
    }
}

static void fault_61_modes_of_the_scores(void **unused) {
    (void)unused;
    static const qf_op expected[2][4] = {{QF_OP_mul, QF_OP_mul, QF_OP_add, QF_OP_where},
                                         {QF_OP_mul, QF_OP_add, QF_OP_mul, QF_OP_softmax}};
    for (int first = 0; first < 2; first++)
        for (int mode = 0; mode < 4; mode++) {
            qf_context *context = check_context(&state);
            Onnx__NodeProto *node;
            builder *b = attention_model("q k v m", "y - - s", &node);
            b_float(b, node, "softcap", 2);
            b_int(b, node, "qk_matmul_output_mode", mode);
            qf_graph *graph = good(b, context, first ? QF_ONNX_REVISION_FIRST : QF_ONNX_REVISION_NEWEST);
            assert_int_equal(b_count(graph, QF_OP_attention), 0); /* fault 24: the scores stay */
            assert_int_equal(feeds(graph, qf_node_operand(graph, graph->last, 1)), expected[first][mode]);
            end(b, graph, context);
        }
}

static void fault_61_group_order(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    Onnx__NodeProto *node;
    builder *b = attention_model("q k v", "y", &node);
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_FIRST);
    /* Query head h reads KV head h mod 2: heads are permuted before and after. */
    assert_int_equal(b_count(graph, QF_OP_permute), 2);
    end(b, graph, context);
    context = check_context(&state);
    b = attention_model("q k v", "y", &node);
    graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    assert_int_equal(b_count(graph, QF_OP_permute), 0);
    end(b, graph, context);
}

static void fault_65_heads_that_do_not_divide(void **unused) {
    (void)unused;
    static const char *const ops[] = {"Attention", "GroupQueryAttention", "MultiHeadAttention"};
    for (size_t i = 0; i < QF_COUNT_OF(ops); i++) {
        qf_context *context = check_context(&state);
        builder *b = b_begin(23);
        b_opset(b, "com.microsoft", 1);
        b_input(b, "x", FLOAT, "B,T,100");
        b_input(b, "l", INT32, "B");
        b_input(b, "t", INT32, "");
        Onnx__NodeProto *node = b_node(b, i ? "com.microsoft" : "", ops[i], i == 1 ? "x x x - - l t" : "x x x", "y");
        b_int(b, node, i ? "num_heads" : "q_num_heads", 3);
        if (i < 2) b_int(b, node, "kv_num_heads", 3);
        b_output(b, "y");
        assert_null(b_import(b, context));
        assert_int_equal(qf_context_status(context), QF_ERROR_VERIFY);
        assert_non_null(strstr(state.messages, "error y: "));
        check_destroy(context, &state);
        b_end(b);
    }
}

static void group_query_attention_keeps_every_part(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(22);
    b_opset(b, "com.microsoft", 1);
    float table[16 * 4] = {0};
    b_input(b, "qkv", FLOAT, "B,T,64"); /* (4 + 2 * 2) heads of 8 */
    b_input(b, "pk", FLOAT, "B,2,P,8");
    b_input(b, "pv", FLOAT, "B,2,P,8");
    b_input(b, "l", INT32, "B");
    b_input(b, "t", INT32, "");
    b_input(b, "sink", FLOAT16, "4");
    (void)b_initializer(b, "c", FLOAT, (int64_t[]){16, 4}, 2, table, sizeof table);
    Onnx__NodeProto *node =
        b_node(b, "com.microsoft", "GroupQueryAttention", "qkv - - pk pv l t c c - - sink", "y nk nv");
    b_int(b, node, "num_heads", 4);
    b_int(b, node, "kv_num_heads", 2);
    b_int(b, node, "do_rotary", 1);
    b_int(b, node, "local_window_size", 5);
    b_float(b, node, "softcap", 30);
    b_output(b, "y");
    b_output(b, "nk");
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    qf_node attention = b_find(graph, QF_OP_attention);
    assert_true(attention.id);
    assert_int_equal(b_count(graph, QF_OP_rope), 2);
    assert_int_equal(attribute(graph, attention, QF_ATTR(attention, window_left))->integer,
                     4); /* itself and 4 before */
    assert_int_equal(attribute(graph, attention, QF_ATTR(attention, causal))->integer, 1);
    assert_true(attribute(graph, attention, QF_ATTR(attention, softcap))->number == 30);
    assert_true(attribute(graph, attention, QF_ATTR(attention, scale))->number == (double)(1.0f / sqrtf(8)));
    assert_true(qf_node_operand(graph, attention, QF_IN(attention, sinks)).id);
    assert_true(qf_node_operand(graph, attention, QF_IN(attention, kv_lens)).id);
    b_check_type(graph, 0, "f32[B, T, 32]");
    b_check_type(graph, 1, "f32[B, 2, P + T, 8]");
    end(b, graph, context);
}

static void multi_head_attention_forms(void **unused) {
    (void)unused;
    static const struct {
        const char *inputs, *type;
    } cases[] = {{"q k v", "f32[B, T, 32]"},
                 {"q k4 k4", "f32[B, T, 32]"},
                 {"q kv5", "f32[B, T, 32]"},
                 {"qkv5", "f32[B, T, 32]"},
                 {"q k v - mask", "f32[B, T, 32]"}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        qf_context *context = check_context(&state);
        builder *b = b_begin(20);
        b_opset(b, "com.microsoft", 1);
        b_input(b, "q", FLOAT, "B,T,32");
        b_input(b, "k", FLOAT, "B,S,32");
        b_input(b, "v", FLOAT, "B,S,32");
        b_input(b, "k4", FLOAT, "B,4,S,8");
        b_input(b, "kv5", FLOAT, "B,S,4,2,8");
        b_input(b, "qkv5", FLOAT, "B,T,4,3,8");
        b_input(b, "mask", INT32, "B,S");
        Onnx__NodeProto *node = b_node(b, "com.microsoft", "MultiHeadAttention", cases[i].inputs, "y");
        b_int(b, node, "num_heads", 4);
        b_output(b, "y");
        qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
        assert_int_equal(b_count(graph, QF_OP_attention), 1);
        b_check_type(graph, 0, cases[i].type);
        end(b, graph, context);
    }
}

/* --- writing --- */
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
    void *data;
    size_t size;
    assert_int_equal(qf_onnx_export_memory(graph, &data, &size), QF_OK);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, data);
    assert_non_null(model);
    assert_int_equal(model->graph->n_node, 1);
    assert_string_equal(model->graph->node[0]->domain, "qfuse");
    assert_string_equal(model->graph->node[0]->output[0], "y");
    onnx__model_proto__free_unpacked(model, NULL);
    qf_graph *again;
    if (qf_onnx_import_memory(context, data, size, NULL, &again) != QF_OK) fail_msg("%s", state.messages);
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
    qf_onnx_free(context, data, size);
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
    qf_graph *graph = good(b, context, QF_ONNX_REVISION_NEWEST);
    void *data;
    size_t size;
    assert_int_equal(qf_onnx_export_memory(graph, &data, &size), QF_OK);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, data);
    assert_non_null(model);
    assert_int_equal(model->graph->n_output, 3);
    assert_string_equal(model->graph->output[0]->name, "same");
    assert_string_equal(model->graph->output[1]->name, "n");
    assert_string_equal(model->graph->output[2]->name, "twice");
    onnx__model_proto__free_unpacked(model, NULL);
    qf_onnx_free(context, data, size);
    end(b, graph, context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_8_reshape_targets_give_one_dim),
        cmocka_unit_test(reshape_zero_is_a_size_where_allowed),
        cmocka_unit_test(slices_clamp_their_bounds),
        cmocka_unit_test(data_dependent_shapes_stay_opaque),
        cmocka_unit_test(fault_76_unknown_ops_are_said),
        cmocka_unit_test(fault_12_unknown_attributes_are_no_match),
        cmocka_unit_test(branches_keep_what_they_read),
        cmocka_unit_test(functions_are_inlined_with_their_attributes),
        cmocka_unit_test(fault_70_fp8_transpose_before_its_opset),
        cmocka_unit_test(mixed_floats_widen_with_a_warning),
        cmocka_unit_test(sixteen_bits_round_once_or_stepwise),
        cmocka_unit_test(element_types_that_are_unknown_stay),
        cmocka_unit_test(quantise_by_version),
        cmocka_unit_test(trt_results_are_fp8_whatever_they_declare),
        cmocka_unit_test(fault_61_causal_alignment),
        cmocka_unit_test(fault_61_cap_and_mask),
        cmocka_unit_test(fault_61_modes_of_the_scores),
        cmocka_unit_test(fault_61_group_order),
        cmocka_unit_test(fault_65_heads_that_do_not_divide),
        cmocka_unit_test(group_query_attention_keeps_every_part),
        cmocka_unit_test(multi_head_attention_forms),
        cmocka_unit_test(fused_attention_is_written_with_all_it_has),
        cmocka_unit_test(outputs_keep_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
