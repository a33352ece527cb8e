/* Owns: tests of plans for one node: interface, what comes along, symbols and guards, refusals, equal bytes.
 * Does not own: lowering whole graphs (compile_test.c).
 * Next: codegen/site.c. */
#include "tests/runtime/running.h"

static qf_node node_of(const running *r, qf_op op) {
    for (qf_node node = qf_graph_first_node(r->graph); node.id; node = qf_graph_next_node(r->graph, node))
        if (qf_node_get_op(r->graph, node) == op) return node;
    fail_msg("no %s", qf_op_name(op));
    return (qf_node){0};
}

static void compile(running *r, qf_op op) {
    if (qf_compile_site(r->graph, node_of(r, op), NULL, &r->plan) != QF_OK) fail_msg("%s", r->check.messages);
}

static void open_site(running *r, const char *text, qf_op op) {
    running_parse(r, text);
    compile(r, op);
    if (qf_executor_create(r->context, r->plan, NULL, &r->executor) != QF_OK) fail_msg("%s", r->check.messages);
}

static void input_is(const running *r, uint32_t index, const char *name, qf_dtype dtype) {
    qf_plan_tensor_info info;
    assert_true(qf_plan_input(r->plan, index, &info));
    assert_string_equal(info.name, name);
    assert_int_equal(info.dtype, dtype);
}

#define ATTENTION                                                                                                      \
    "(%x: f32[B, 2, T, 8], %y: f32[B, 2, S, 8], %s: f32[]) symbols(T min 1 max 64 div 2, U min 3) {\n"                 \
    "  %q = neg %x\n"                                                                                                  \
    "  %k = exp %y\n"                                                                                                  \
    "  %bias = parameter {name=\"bias\"} : f32[1, 2, 1, 1]\n"                                                          \
    "  %one = constant {value=f32[] 0.5}\n"                                                                            \
    "  %o = attention %q, %k, %k, bias=%bias, out_scale=%one {scale=0.5, out=f8E4M3FN} : f8E4M3FN[B, 2, T, 8]\n"       \
    "  %z = cast %o {dtype=f32}\n"                                                                                     \
    "  %w = mul %z, %s\n"                                                                                              \
    "  return %w\n}\n"

/* Operands are inputs under their declared names, one each; constants and weights come along; results are outputs. */
static void operands_are_inputs(void **state) {
    (void)state;
    running r;
    running_parse(&r, ATTENTION);
    compile(&r, QF_OP_attention);
    assert_int_equal(qf_plan_input_count(r.plan), 3);
    input_is(&r, 0, "q", QF_F32);
    input_is(&r, 1, "k", QF_F32);
    input_is(&r, 2, "v", QF_F32);
    assert_int_equal(qf_plan_find_input(r.plan, "out_scale"), -1);
    assert_int_equal(qf_plan_parameter_count(r.plan), 1);
    assert_int_equal(qf_plan_output_count(r.plan), 1);
    assert_int_equal(qf_plan_find_output(r.plan, "out"), 0);
    assert_int_equal(qf_plan_step_count(r.plan), 1);
    qf_plan_step_info step;
    assert_true(qf_plan_step(r.plan, 0, &step));
    assert_int_equal(step.tag, qf_node_tag(r.graph, node_of(&r, QF_OP_attention)));
    assert_non_null(strstr(step.location, "test.qf:6"));
    running_dump_has(&r, "symbol T from input \"q\" axis 2 min 1 max 64 div 2");
    running_dump_lacks(&r, "symbol U");
    running_close(&r);
}

static void lists_number_their_items(void **state) {
    (void)state;
    running r;
    running_parse(&r, "(%x: f32[2], %y: f32[3]) {\n  %z = concat %x, %y {axis=0}\n"
                      "  %a, %b = split %z {axis=0, sizes=[1, 4]}\n  return %a, %b\n}\n");
    compile(&r, QF_OP_concat);
    input_is(&r, 0, "parts.0", QF_F32);
    input_is(&r, 1, "parts.1", QF_F32);
    qf_plan_destroy(r.plan);
    compile(&r, QF_OP_split);
    assert_int_equal(qf_plan_find_output(r.plan, "parts.1"), 1);
    running_close(&r);
}

static void weights_stay_bound(void **state) {
    (void)state;
    running r;
    static const float weight[] = {2, 3};
    running_parse(&r, "(%x: f32[2]) {\n  %w = parameter {name=\"w\"} : f32[2]\n  %e = neg %x\n"
                      "  %y = mul %e, %w\n  return %y\n}\n");
    assert_int_equal(qf_graph_bind_weight(r.graph, "w", weight, sizeof weight), QF_OK);
    compile(&r, QF_OP_mul);
    assert_int_equal(qf_executor_create(r.context, r.plan, NULL, &r.executor), QF_OK);
    float a[] = {5, 7};
    running_bind(&r, "a", TENSOR(QF_F32, a, 2));
    running_run(&r);
    running_expect(&r, 0, (const float[]){10, 21}, 2);
    running_close(&r);
}

static void a_cache_is_updated_where_it_lies(void **state) {
    (void)state;
    running r;
    open_site(&r,
              "(%cache: f32[2, 2, 1, 2], %x: f32[R, 1, 2], %slots: i64[R]) {\n  %n = neg %x\n"
              "  %c = kv_cache_write %cache, %n, %slots\n  return %c\n}\n",
              QF_OP_kv_cache_write);
    qf_plan_tensor_info info;
    assert_true(qf_plan_output(r.plan, 0, &info));
    assert_int_equal(info.in_place, qf_plan_find_input(r.plan, "cache"));
    float cache[8] = {0}, row[] = {1, 2};
    int64_t slot[] = {3};
    running_bind(&r, "cache", TENSOR(QF_F32, cache, 2, 2, 1, 2));
    running_bind(&r, "new", TENSOR(QF_F32, row, 1, 1, 2));
    running_bind(&r, "slots", TENSOR(QF_I64, slot, 1));
    qf_tensor in_place = TENSOR(QF_F32, cache, 2, 2, 1, 2);
    assert_int_equal(qf_executor_bind_output(r.executor, 0, &in_place), QF_OK);
    running_run(&r);
    assert_true(cache[6] == 1 && cache[7] == 2 && cache[0] == 0);
    running_close(&r);
}

/* Of the assumptions of the graph, those that a call's shapes can break are checked. */
static void assumptions_about_its_shapes_are_checked(void **state) {
    (void)state;
    running r;
    open_site(&r,
              "(%x: f32[A, B], %far: f32[C]) assume(2*A == floordiv(B, 3), C == A, D == B) {\n"
              "  %e = neg %x\n  %y = exp %e\n  %z = neg %far\n  return %y, %z\n}\n",
              QF_OP_exp);
    assert_int_equal(r.plan->guard_count, 1);
    float x[12] = {0};
    running_bind(&r, "x", TENSOR(QF_F32, x, 2, 6));
    running_refused(&r, QF_ERROR_GUARD, "2*A");
    running_bind(&r, "x", TENSOR(QF_F32, x, 1, 6));
    running_run(&r);
    running_close(&r);
}

static void refused(running *r, qf_node node, qf_status status, const char *part) {
    r->check.messages[0] = '\0';
    assert_int_equal(qf_compile_site(r->graph, node, NULL, &r->plan), status);
    assert_null(r->plan);
    if (!strstr(r->check.messages, part)) fail_msg("\"%s\" lacks \"%s\"", r->check.messages, part);
    qf_context_clear_status(r->context);
}

static void what_is_no_call_is_refused(void **state) {
    (void)state;
    running r;
    running_parse(&r, "(%x: f32[2]) {\n  %c = constant {value=f32[] 1.0}\n  %w = parameter {name=\"w\"} : f32[2]\n"
                      "  %o = opaque %x {name=\"vendor.op\", pure=true} : f32[2]\n  %y = add %o, %c\n"
                      "  return %y, %w\n}\n");
    refused(&r, node_of(&r, QF_OP_opaque), QF_ERROR_UNSUPPORTED, "test.qf:4:");
    refused(&r, node_of(&r, QF_OP_constant), QF_ERROR_INVALID_ARGUMENT, "constant computes nothing");
    refused(&r, node_of(&r, QF_OP_parameter), QF_ERROR_INVALID_ARGUMENT, "parameter computes nothing");
    refused(&r, node_of(&r, QF_OP_return), QF_ERROR_INVALID_ARGUMENT, "return computes nothing");
    refused(&r, (qf_node){0}, QF_ERROR_INVALID_ARGUMENT, "no node of the graph");
    refused(&r, (qf_node){9999}, QF_ERROR_INVALID_ARGUMENT, "no node of the graph");
    qf_compile_options options = {.struct_size = sizeof options, .target = "sm_12"};
    assert_int_equal(qf_compile_site(r.graph, node_of(&r, QF_OP_add), &options, &r.plan), QF_ERROR_NOT_FOUND);
    assert_null(r.plan);
    running_close(&r);
}

static qf_status compile_again(running *r, void *user, qf_plan **out_plan) {
    (void)user;
    return qf_compile_site(r->graph, node_of(r, QF_OP_attention), NULL, out_plan);
}

static void fails_at_every_allocation(void **state) {
    (void)state;
    running r;
    running_parse(&r, ATTENTION);
    static const float bias[2] = {1, 2};
    assert_int_equal(qf_graph_bind_weight(r.graph, "bias", bias, sizeof bias), QF_OK);
    compile(&r, QF_OP_attention);
    running_sweep(&r, compile_again, NULL);
    running_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(operands_are_inputs),
                                       cmocka_unit_test(lists_number_their_items),
                                       cmocka_unit_test(weights_stay_bound),
                                       cmocka_unit_test(a_cache_is_updated_where_it_lies),
                                       cmocka_unit_test(assumptions_about_its_shapes_are_checked),
                                       cmocka_unit_test(what_is_no_call_is_refused),
                                       cmocka_unit_test(fails_at_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
