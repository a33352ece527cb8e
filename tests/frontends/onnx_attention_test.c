/* Owns: tests of the attention ops of ONNX and com.microsoft: forms, revisions, and the faults that importers had.
 * Does not own: recognising attention that is spelled out (tests/patterns).
 * Next: frontends/onnx/map_attention.c. */
#include "tests/frontends/importing.h"

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
        qf_graph *graph = good_as(b, context, cases[i].revision);
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
        qf_graph *graph = good_as(b, context, first ? QF_ONNX_REVISION_FIRST : QF_ONNX_REVISION_NEWEST);
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
            qf_graph *graph = good_as(b, context, first ? QF_ONNX_REVISION_FIRST : QF_ONNX_REVISION_NEWEST);
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
    qf_graph *graph = good_as(b, context, QF_ONNX_REVISION_FIRST);
    /* Query head h reads KV head h mod 2: heads are permuted before and after. */
    assert_int_equal(b_count(graph, QF_OP_permute), 2);
    end(b, graph, context);
    context = check_context(&state);
    b = attention_model("q k v", "y", &node);
    graph = good(b, context);
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
    qf_graph *graph = good(b, context);
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
        qf_graph *graph = good(b, context);
        assert_int_equal(b_count(graph, QF_OP_attention), 1);
        b_check_type(graph, 0, cases[i].type);
        end(b, graph, context);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_61_causal_alignment),         cmocka_unit_test(fault_61_cap_and_mask),
        cmocka_unit_test(fault_61_modes_of_the_scores),      cmocka_unit_test(fault_61_group_order),
        cmocka_unit_test(fault_65_heads_that_do_not_divide), cmocka_unit_test(group_query_attention_keeps_every_part),
        cmocka_unit_test(multi_head_attention_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
