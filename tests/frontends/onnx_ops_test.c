/* Owns: tests of what single ONNX ops become: shapes, unknown ops, functions, types, quantisation.
 * Does not own: attention (onnx_attention_test.c), whole models (onnx_corpus_test.c), hostile ones
 * (onnx_hostile_test.c). Next: frontends/onnx/ops.def. */
#include "tests/frontends/importing.h"

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
    qf_graph *graph = good(b, context);
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
    qf_graph *graph = good(b, context);
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
    qf_graph *graph = good(b, context);
    qf_node slice = b_find(graph, QF_OP_slice);
    const qf_attribute *starts = attribute(graph, slice, QF_ATTR(slice, starts));
    assert_true(qf_dim_is(context, starts->dims[0], 7));
    b_check_type(graph, 1, "f32[10, T]");
    end(b, graph, context);
}

/* table[:, 16 - T:]: the bound counts from the front only up to T = 16, which the graph then assumes. */
static void slice_bounds_of_unknown_sign_are_guarded(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "table", FLOAT, "4,16");
    b_input(b, "x", FLOAT, "T");
    b_vector(b, "size", (int64_t[]){16}, 1);
    b_vector(b, "axis", (int64_t[]){1}, 1);
    (void)b_node(b, "", "Shape", "x", "t");
    (void)b_node(b, "", "Sub", "size t", "first");
    (void)b_node(b, "", "Slice", "table first size axis", "y");
    b_output(b, "y");
    qf_graph *graph = good(b, context);
    assert_int_equal(b_count(graph, QF_OP_opaque), 0);
    b_check_type(graph, 0, "f32[4, T]");
    assert_int_equal(graph->guard_count, 1);
    end(b, graph, context);
}

/* x[:, -T:] and x[:, :-T], as HunyuanVideo cuts text from image tokens. */
static void slice_bounds_may_be_negative_sizes(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "a", FLOAT, "4,I");
    b_input(b, "x", FLOAT, "4,T");
    b_vector(b, "zero", (int64_t[]){0}, 1);
    b_vector(b, "last", (int64_t[]){INT64_MAX}, 1);
    b_vector(b, "axis", (int64_t[]){1}, 1);
    Onnx__NodeProto *shape = b_node(b, "", "Shape", "x", "t");
    b_int(b, shape, "start", 1);
    (void)b_node(b, "", "Neg", "t", "n");
    b_int(b, b_node(b, "", "Concat", "a x", "c"), "axis", 1);
    (void)b_node(b, "", "Slice", "c n last axis", "y");
    (void)b_node(b, "", "Slice", "c zero n axis", "z");
    b_output(b, "y");
    b_output(b, "z");
    qf_graph *graph = good(b, context);
    b_check_type(graph, 0, "f32[4, T]");
    b_check_type(graph, 1, "f32[4, I]");
    assert_int_equal(graph->guard_count, 1); /* T is not 0 */
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
    qf_graph *graph = good(b, context);
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
    qf_graph *graph = good(b, context);
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
    qf_graph *graph = good(b, context);
    assert_int_equal(b_count(graph, QF_OP_quantize), 0);
    assert_non_null(strstr(state.messages, "it has an attribute that the importer does not know"));
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
    Onnx__FunctionProto *function = b_function(b, "local", "Soft", "a", "r");
    function->n_attribute = b_names(b, "along", &function->attribute);
    Onnx__NodeProto *softmax = function->node[function->n_node++] = b_make(b, "", "Softmax", "a", "r");
    b_attribute(b, softmax, "axis", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT)->ref_attr_name = b_text(b, "along");
    qf_graph *graph = good(b, context);
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
    qf_graph *graph = good(b, context);
    assert_non_null(
        strstr(state.messages, "warning y: Transpose reads FP8 input 'x' at opset 20; allowed from opset 21 on"));
    b_check_type(graph, 0, "f8E4M3FN[3, 2]");
    end(b, graph, context);

    context = check_context(&state);
    b = b_begin(21);
    b_input(b, "x", FP8, "2,3");
    (void)b_node(b, "", "Transpose", "x", "y");
    b_output(b, "y");
    graph = good(b, context);
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
    qf_graph *graph = good(b, context);
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

/* --- quantisation --- */
static const qf_attribute *quantised(builder *b, qf_context *context, qf_graph **out) {
    *out = good(b, context);
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
    qf_graph *graph = good(b, context);
    b_check_type(graph, 0, "f8E4M3FN[4, 6]");
    b_check_type(graph, 1, "f32[4, 6]");
    end(b, graph, context);
}

/* ONNX Runtime's static quantiser turns a Gemm into this; a floating-point bias is as it is, a whole one in units of
 * both scales. */
static void a_qgemm_is_a_product_between_pairs(void **unused) {
    (void)unused;
    for (uint32_t whole = 0; whole < 2; whole++) {
        qf_context *context = check_context(&state);
        builder *b = b_begin(20);
        b_opset(b, "com.microsoft", 1);
        b_input(b, "a", FP8, "T,8");
        b_input(b, "w", FP8, "5,8");
        b_input(b, "ws", FLOAT, "5");
        b_input(b, "bias", whole ? INT32 : FLOAT16, "5");
        b_scalar(b, "s", 0.5f);
        (void)b_initializer(b, "z", FP8, NULL, 0, "", 1);
        b_int(b, b_node(b, "com.microsoft", "QGemm", "a s z w ws z bias s z", "y"), "transB", 1);
        b_int(b, b_node(b, "com.microsoft", "QGemm", "a s z w ws z bias", "raw"), "transB", 1);
        b_output(b, "y");
        b_output(b, "raw");
        qf_graph *graph = good(b, context);
        b_check_type(graph, 0, "f8E4M3FN[T, 5]");
        b_check_type(graph, 1, "f32[T, 5]");
        assert_int_equal(b_count(graph, QF_OP_contract), 2);
        assert_int_equal(b_count(graph, QF_OP_dequantize), 4);
        assert_int_equal(b_count(graph, QF_OP_quantize), 1);
        assert_int_equal(b_count(graph, QF_OP_mul), whole ? 4 : 0);
        qf_node scaled = b_find(graph, QF_OP_quantize);
        qf_node sum = qf_value_producer(graph, qf_node_operand(graph, scaled, 0));
        assert_int_equal(qf_node_op(graph, sum), QF_OP_add);
        end(b, graph, context);
    }
}

/* A branch of "If": one node over names from outside. */
static void add_branch(builder *b, Onnx__NodeProto *node, const char *name, const char *op, const char *inputs) {
    Onnx__GraphProto *branch = b_new(b, sizeof *branch);
    onnx__graph_proto__init(branch);
    branch->node = b_new(b, sizeof *branch->node);
    branch->node[branch->n_node++] = b_make(b, "", op, inputs, "inner");
    branch->output = b_new(b, sizeof *branch->output);
    branch->output[branch->n_output++] = b_info(b, "inner", FLOAT, NULL);
    b_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = branch;
}

static void a_branch_that_is_known_to_be_taken_stands_there(void **unused) {
    (void)unused;
    for (int64_t axis = 0; axis < 2; axis++) { /* 0: a symbol, which may be 1; 1: 4, which is not */
        qf_context *context = check_context(&state);
        builder *b = b_begin(20);
        b_input(b, "x", FLOAT, "B,4");
        b_vector(b, "one", (int64_t[]){1}, 1);
        Onnx__NodeProto *shape = b_node(b, "", "Shape", "x", "size");
        b_int(b, shape, "start", axis);
        b_int(b, shape, "end", axis + 1);
        (void)b_node(b, "", "Equal", "size one", "single");
        (void)b_node(b, "", "Neg", "x", "outer");
        Onnx__NodeProto *node = b_node(b, "", "If", "single", "y");
        add_branch(b, node, "then_branch", "Exp", "outer");
        add_branch(b, node, "else_branch", "Tanh", "outer");
        b_output(b, "y");
        qf_graph *graph = good(b, context);
        assert_int_equal(b_count(graph, QF_OP_opaque), axis == 0);
        assert_int_equal(b_count(graph, QF_OP_tanh), axis == 1);
        assert_int_equal(b_count(graph, QF_OP_exp), 0);
        if (axis == 1) b_check_type(graph, 0, "f32[B, 4]");
        end(b, graph, context);
    }
}

static void ranges_of_fractions(void **unused) {
    (void)unused;
    qf_context *context = check_context(&state);
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, "T,4");
    b_scalar(b, "half", 0.5f);
    b_scalar(b, "one", 1);
    b_scalar(b, "two", 2.25f);
    Onnx__NodeProto *shape = b_node(b, "", "Shape", "x", "size");
    b_int(b, shape, "end", 1);
    b_int(b, b_node(b, "", "Cast", "size", "real"), "to", FLOAT);
    b_vector(b, "axis", (int64_t[]){0}, 1);
    (void)b_node(b, "", "Squeeze", "real axis", "limit");
    (void)b_node(b, "", "Range", "half limit one", "centres");
    (void)b_node(b, "", "Range", "one two half", "steps");
    b_output(b, "centres");
    b_output(b, "steps");
    qf_graph *graph = good(b, context);
    b_check_type(graph, 0, "f32[T]"); /* 0.5, 1.5, ... below T */
    b_check_type(graph, 1, "f32[3]"); /* 1, 1.5, 2 */
    assert_int_equal(b_count(graph, QF_OP_opaque), 0);
    end(b, graph, context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_8_reshape_targets_give_one_dim),
        cmocka_unit_test(reshape_zero_is_a_size_where_allowed),
        cmocka_unit_test(slices_clamp_their_bounds),
        cmocka_unit_test(a_qgemm_is_a_product_between_pairs),
        cmocka_unit_test(slice_bounds_of_unknown_sign_are_guarded),
        cmocka_unit_test(slice_bounds_may_be_negative_sizes),
        cmocka_unit_test(data_dependent_shapes_stay_opaque),
        cmocka_unit_test(fault_76_unknown_ops_are_said),
        cmocka_unit_test(fault_12_unknown_attributes_are_no_match),
        cmocka_unit_test(a_branch_that_is_known_to_be_taken_stands_there),
        cmocka_unit_test(ranges_of_fractions),
        cmocka_unit_test(functions_are_inlined_with_their_attributes),
        cmocka_unit_test(fault_70_fp8_transpose_before_its_opset),
        cmocka_unit_test(mixed_floats_widen_with_a_warning),
        cmocka_unit_test(sixteen_bits_round_once_or_stepwise),
        cmocka_unit_test(quantise_by_version),
        cmocka_unit_test(trt_results_are_fp8_whatever_they_declare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
