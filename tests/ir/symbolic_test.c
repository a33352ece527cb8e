/* Owns: tests of the symbolic analysis (ir/infer.h): values of shape arithmetic as dims.
 * Does not own: types of results (infer_test.c).
 * Next: ir/symbolic.c. */
#include "tests/check.h"

#include "ir/infer.h"
#include "ir/text.h"

/* The elements of the last node's result as text: "[2*T, 4]", or "unknown". */
static void analyse(const char *inputs, const char *body, char *out, size_t size) {
    check_state check;
    qf_context *context = check_context(&check);
    qf_buffer source = {.context = context}, result = {.context = context};
    qf_buffer_print(&source, "graph @g(%s) {\n%s\n  return %%r\n}\n", inputs, body);
    qf_graph *graph = qf_graph_parse(context, (qf_text){source.data, source.size}, "test.qf");
    if (!graph) fail_msg("%s%s", source.data, check.messages);
    qf_symbolic *symbolic = qf_symbolic_create(graph);
    assert_non_null(symbolic);
    qf_value value = qf_node_operand(graph, graph->last, 0);
    const qf_dim *elements, *again;
    uint32_t count, same;
    if (qf_symbolic_elements(symbolic, value, &elements, &count)) {
        qf_buffer_text(&result, QF_TEXT("["));
        for (uint32_t i = 0; i < count; i++) {
            if (i) qf_buffer_text(&result, QF_TEXT(", "));
            qf_dim_print(&result, context, elements[i]);
        }
        qf_buffer_text(&result, QF_TEXT("]"));
        assert_true(qf_symbolic_elements(symbolic, value, &again, &same));
        assert_ptr_equal(again, elements);
    } else {
        qf_buffer_text(&result, QF_TEXT("unknown"));
    }
    (void)snprintf(out, size, "%s", result.data);
    assert_int_equal(qf_context_status(context), QF_OK);
    qf_buffer_destroy(&source);
    qf_buffer_destroy(&result);
    qf_symbolic_destroy(symbolic);
    qf_graph_destroy(graph);
    check_destroy(context, &check);
}

typedef struct value_case {
    const char *body, *expected;
} value_case;

static void expect_values(const char *inputs, const value_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char found[512];
        analyse(inputs, cases[i].body, found, sizeof found);
        if (strcmp(found, cases[i].expected) != 0)
            fail_msg("%s\n%s, expected %s", cases[i].body, found, cases[i].expected);
    }
}

#define EXPECT_VALUES(inputs, ...)                                                                                     \
    do {                                                                                                               \
        static const value_case cases_[] = {__VA_ARGS__};                                                              \
        expect_values(inputs, cases_, QF_COUNT_OF(cases_));                                                            \
    } while (0)

/* Lines that most cases start with. */
#define SHAPE                   "  %s = shape_of %x\n"
#define CONSTANT(name, literal) "  %" name " = constant {value=" literal "}\n"

static void sources(void **state) {
    (void)state;
    EXPECT_VALUES("%x: f32[B, T, 64]", {"  %r = shape_of %x", "[B, T, 64]"},
                  {"  %r = shape_of %x {start=-2, end=2}", "[T]"}, {CONSTANT("r", "i32[2] [3, -1]"), "[3, -1]"},
                  {CONSTANT("r", "i1[2] [true, false]"), "[1, 0]"}, {CONSTANT("r", "f32[2] [2.0, 0.5]"), "unknown"},
                  {CONSTANT("r", "f64[] 16.0"), "[16]"}, {CONSTANT("r", "f32[] inf"), "unknown"},
                  {"  %r = symbolic {values=[T, 2*B], shape=[2]}", "[T, 2*B]"},
                  {"  %r = iota {shape=[2, 3], axis=1}", "[0, 1, 2, 0, 1, 2]"},
                  {"  %r = iota {shape=[2], start=T, step=B}", "[T, B + T]"}, {"  %r = iota {shape=[T]}", "unknown"},
                  {CONSTANT("c", "i64[] 7") "  %r = full %c {shape=[2]}", "[7, 7]"}, {"  %r = neg %x", "unknown"},
                  {"  %r = copy %x", "unknown"});
}

static void integer_arithmetic(void **state) {
    (void)state;
    EXPECT_VALUES(
        "%x: f32[B, T, 64]", {SHAPE CONSTANT("c", "i64[] 2") "  %r = mul %s, %c", "[2*B, 2*T, 128]"},
        {SHAPE CONSTANT("c", "i64[3] [1, 2, 16]") "  %r = div %s, %c", "[B, floordiv(T, 2), 4]"},
        {SHAPE CONSTANT("c", "i64[] -2") "  %r = div %s, %c", "[-floordiv(B, 2), -floordiv(T, 2), -32]"},
        {CONSTANT("a", "i64[3] [-7, 7, 7]") CONSTANT("c", "i64[3] [2, -2, 0]") "  %r = div %a, %c", "[-3, -3, 0]"},
        {SHAPE CONSTANT("c", "i64[] 128") "  %r = minimum %s, %c", "[min(B, 128), min(T, 128), 64]"},
        {SHAPE CONSTANT("c", "i64[] 0") "  %r = maximum %s, %c", "[B, T, 64]"},
        {SHAPE CONSTANT("c", "i64[] 8") "  %r = mod %s, %c", "[mod(B, 8), mod(T, 8), 0]"},
        {CONSTANT("a", "i64[] -7") CONSTANT("c", "i64[] 4") "  %r = mod %a, %c", "[1]"},
        {SHAPE CONSTANT("c", "i64[] 2") "  %r = pow %s, %c", "[B*B, T*T, 4096]"},
        {CONSTANT("a", "f32[2] [16.0, 2.25]")
             CONSTANT("c", "f32[] 0.5") "  %p = pow %a, %c\n  %r = cast %p {dtype=i64}",
         "[4, 1]"},
        {CONSTANT("a", "f32[] 2.0") "  %p = sqrt %a\n  %r = cast %p {dtype=i64}", "unknown"},
        {CONSTANT("a", "f32[] 144.0") "  %p = sqrt %a\n  %r = cast %p {dtype=i64}", "[12]"},
        {SHAPE "  %n = neg %s\n  %r = abs %n", "[B, T, 64]"}, {SHAPE "  %r = sub %s, %s", "[0, 0, 0]"},
        {SHAPE CONSTANT("c", "i64[] 1") "  %m = add %s, %c\n  %r = sign %m", "[1, 1, 1]"},
        {SHAPE CONSTANT("l", "i64[] 1") CONSTANT("h", "i64[] 8") "  %r = clamp %s, low=%l, high=%h",
         "[min(max(B, 1), 8), min(max(T, 1), 8), 8]"});
}

static void choices_follow_from_bounds(void **state) {
    (void)state;
    EXPECT_VALUES("%x: f32[B, T, 64]", {SHAPE CONSTANT("m", "i64[] -1") "  %r = equal %s, %m", "[0, 0, 0]"},
                  {SHAPE CONSTANT("m", "i64[] 0") "  %r = greater_equal %s, %m", "[1, 1, 1]"},
                  {SHAPE CONSTANT("m", "i64[] 0") "  %r = less %s, %m", "[0, 0, 0]"},
                  {SHAPE CONSTANT("m", "i64[] 1") "  %r = equal %s, %m", "unknown"},
                  {SHAPE CONSTANT("m", "i64[3] [-1, -1, 64]")
                       CONSTANT("o", "i64[] 1") "  %c = equal %s, %m\n  %r = where %c, %o, %s",
                   "[B, T, 1]"},
                  {SHAPE CONSTANT("m", "i64[] 1") "  %c = equal %s, %m\n  %r = where %c, %s, %s", "[B, T, 64]"},
                  {SHAPE CONSTANT("m", "i64[] 1") CONSTANT("f", "i1[] false") "  %c = equal %s, %m\n  %r = and %f, %c",
                   "[0, 0, 0]"},
                  {SHAPE CONSTANT("m", "i64[] 1") CONSTANT("t", "i1[] true") "  %c = equal %s, %m\n  %r = or %c, %t",
                   "[1, 1, 1]"},
                  {SHAPE CONSTANT("m", "i64[] -1") "  %c = equal %s, %m\n  %r = not %c", "[1, 1, 1]"},
                  {SHAPE "  %r = less_equal %s, %s", "[1, 1, 1]"}, {SHAPE "  %r = cast %s {dtype=i1}", "unknown"});
    EXPECT_VALUES("%x: f32[B, T]) symbols (B min 1, T min 2 max 9", {SHAPE "  %r = cast %s {dtype=i1}", "[1, 1]"},
                  {SHAPE CONSTANT("c", "i64[] 9") "  %r = greater %s, %c", "unknown"},
                  {SHAPE CONSTANT("c", "i64[2] [0, 10]") "  %r = equal %s, %c", "[0, 0]"});
}

static void sizes_stored_as_floats(void **state) {
    (void)state;
    EXPECT_VALUES(
        "%x: f32[B, T, 64]",
        {SHAPE CONSTANT("c", "f32[] 2.0") "  %f = cast %s {dtype=f32}\n  %d = div %f, %c\n  %r = floor %d",
         "[floordiv(B, 2), floordiv(T, 2), 32]"},
        {SHAPE CONSTANT("c", "f32[] 0.5") "  %f = cast %s {dtype=f32}\n  %d = mul %f, %c\n  %r = ceil %d",
         "[floordiv(B + 1, 2), floordiv(T + 1, 2), 32]"},
        {SHAPE CONSTANT("c", "f32[] 4.0") "  %f = cast %s {dtype=f32}\n  %d = div %f, %c\n  %r = cast %d {dtype=i64}",
         "[floordiv(B, 4), floordiv(T, 4), 16]"},
        {SHAPE CONSTANT("c", "f32[] 4.0") "  %f = cast %s {dtype=f32}\n  %d = div %f, %c\n  %r = mul %d, %c",
         "[B, T, 64]"},
        {SHAPE CONSTANT("c", "f32[] 4.0") "  %f = cast %s {dtype=f32}\n  %d = div %f, %c\n  %r = copy %d", "unknown"},
        {SHAPE "  %f = cast %s {dtype=f32}\n  %n = neg %f\n  %r = cast %n {dtype=i32}", "[-B, -T, -64]"},
        {SHAPE "  %r = cast %s {dtype=f16}", "unknown"},
        {CONSTANT("c", "i64[2] [2048, 3]") "  %r = cast %c {dtype=f16}", "[2048, 3]"},
        {CONSTANT("c", "f32[3] [-1.5, 1.5, 2.75]") "  %r = cast %c {dtype=i64}", "[-1, 1, 2]"},
        {CONSTANT("c", "f32[3] [-1.75, 1.25, 2.75]") "  %r = round %c", "[-2, 1, 3]"},
        {CONSTANT("c", "f32[] 0.1") "  %r = floor %c", "unknown"},
        {CONSTANT("c", "f32[2] [0.25, 2.0]") CONSTANT("m", "f32[] 8.0") "  %i = reciprocal %c\n  %r = mul %i, %m",
         "[32, 4]"});
}

static void layout_and_indexing(void **state) {
    (void)state;
    EXPECT_VALUES(
        "%x: f32[B, T, 64]", {SHAPE CONSTANT("i", "i64[] 1") "  %r = gather %s, %i", "[T]"},
        {SHAPE CONSTANT("i", "i64[2] [-1, 0]") "  %r = gather %s, %i", "[64, B]"},
        {SHAPE CONSTANT("i", "i64[1] [5]") "  %r = gather %s, %i", "unknown"},
        {SHAPE "  %r = slice %s {starts=[1], ends=[3], steps=[1]}", "[T, 64]"},
        {SHAPE "  %r = slice %s {starts=[2], ends=[-1], steps=[-1]}", "[64, T, B]"},
        {SHAPE CONSTANT("c", "i64[1] [8]") "  %r = concat %c, %s, %c {axis=0}", "[8, B, T, 64, 8]"},
        {SHAPE "  %a, %r = split %s {axis=0, sizes=[1, 2]}", "[T, 64]"},
        {SHAPE "  %v = view %s {shape=[3, 1]}\n  %r = permute %v {order=[1, 0]}", "[B, T, 64]"},
        {SHAPE "  %v = view %s {shape=[3, 1]}\n  %r = expand %v {shape=[3, 2]}", "[B, B, T, T, 64, 64]"},
        {SHAPE CONSTANT("z", "i64[] 1") "  %r = pad %s, %z {before=[1], after=[-1]}", "[1, B, T]"},
        {SHAPE CONSTANT("i", "i64[2] [2, 1]") "  %r = gather_elements %s, %i", "[64, T]"},
        {SHAPE CONSTANT("i", "i64[1, 1] [-1]") CONSTANT("u", "i64[1] [9]") "  %r = scatter_nd %s, %i, %u", "[B, T, 9]"},
        {SHAPE "  %r = reduce_prod %s {axes=[0], keep=false}", "[64*B*T]"},
        {SHAPE "  %r = reduce_sum %s {axes=[0]}", "[B + T + 64]"},
        {CONSTANT("c", "i64[2, 2] [1, 4, 3, 2]") "  %r = reduce_max %c {axes=[0], keep=false}", "[3, 4]"},
        {CONSTANT("c", "i64[2, 2] [1, 4, 3, 2]") "  %r = reduce_min %c {axes=[1]}", "[1, 2]"},
        {CONSTANT("c", "i64[0] []") "  %r = reduce_prod %c {axes=[0], keep=false}", "[1]"},
        {SHAPE "  %r = cumulative_sum %s {axis=0}", "[B, B + T, B + T + 64]"},
        {SHAPE "  %r = cumulative_sum %s {axis=0, exclusive=true, reverse=true}", "[T + 64, 64, 0]"},
        {SHAPE CONSTANT("i", "i64[] 1") "  %t = gather %s, %i\n  %v = view %t {shape=[1]}\n  %o = constant "
                                        "{value=i64[1] [-1]}\n  %q = concat %v, %o {axis=0}\n  %r = gather %q, %i",
         "[-1]"});
}

/* A part that is not known leaves the rest known. */
static void unknown_parts_stay_apart(void **state) {
    (void)state;
    EXPECT_VALUES("%x: f32[B, T], %n: i64[1]",
                  {SHAPE "  %c = concat %n, %s {axis=0}\n  %r = slice %c {starts=[1], ends=[3], steps=[1]}", "[B, T]"},
                  {SHAPE "  %r = concat %n, %s {axis=0}", "unknown"},
                  {SHAPE CONSTANT("i", "i64[] 0") "  %c = concat %n, %s {axis=0}\n  %r = gather %c, %i", "unknown"});
}

/* What wraps or rounds in the dtype is not the number that exact arithmetic gives. */
static void constants_beyond_their_dtype(void **state) {
    (void)state;
    EXPECT_VALUES("%x: f32[B, T]", {CONSTANT("c", "i32[] 2147483647") "  %r = add %c, %c", "unknown"},
                  {CONSTANT("c", "i32[] 1073741823") "  %r = add %c, %c", "[2147483646]"},
                  {CONSTANT("c", "f32[] 4097.0") "  %r = mul %c, %c", "unknown"},
                  {CONSTANT("c", "f32[] 4096.0") "  %r = mul %c, %c", "[16777216]"},
                  {CONSTANT("c", "u8[] 200") "  %r = add %c, %c", "unknown"},
                  {SHAPE CONSTANT("c", "f32[] 49.0") "  %f = cast %s {dtype=f32}\n  %d = div %f, %c\n  %r = floor %d",
                   "[floordiv(B, 49), floordiv(T, 49)]"},
                  {SHAPE CONSTANT("c", "f32[] 49.0") "  %f = cast %s {dtype=f32}\n  %d = div %f, %c\n  %r = mul %d, %c",
                   "unknown"});
}

static void limits_are_no_failure(void **state) {
    (void)state;
    EXPECT_VALUES(
        "%x: f32[B, T]", {CONSTANT("c", "i64[] 9223372036854775807") "  %r = add %c, %c", "unknown"},
        {SHAPE CONSTANT("c", "i64[] 40") "  %r = pow %s, %c", "unknown"}, {"  %r = iota {shape=[257]}", "unknown"},
        {CONSTANT("c", "i64[] -9223372036854775808") "  %r = abs %c", "unknown"},
        {CONSTANT("c", "f64[2] [-3.0, 3.0]") CONSTANT("d", "f64[] -9223372036854775808.0") "  %r = div %c, %d",
         "unknown"});
}

/* FAULTS 8: -1 computed as a quotient, a symbol and a literal in one target. */
static void fault_8_reshape_target_of_an_exporter(void **state) {
    (void)state;
    EXPECT_VALUES(
        "%x: f32[B, T, 768]",
        {SHAPE CONSTANT("i0", "i64[1] [0]") CONSTANT("i1", "i64[1] [1]") CONSTANT(
             "hd",
             "i64[2] [12, 64]") "  %b = gather %s, %i0\n  %t = gather %s, %i1\n  %r = concat %b, %t, %hd {axis=0}",
         "[B, T, 12, 64]"},
        {SHAPE CONSTANT("i2", "i64[] 2") CONSTANT("h", "i64[] 12") "  %n = gather %s, %i2\n  %r = div %n, %h", "[64]"},
        {SHAPE CONSTANT("i2",
                        "i64[1] [2]") "  %p = reduce_prod %s {axes=[0]}\n  %n = gather %s, %i2\n  %r = div %p, %n",
         "[B*T]"});
}

static void deep_chains_need_no_stack(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_graph *graph = NULL;
    assert_int_equal(qf_graph_create(context, "deep", &graph), QF_OK);
    qf_dim one = qf_dim_constant(context, 1), sizes[] = {one};
    int64_t shape[] = {1};
    qf_attribute attributes[2] = {{.dims = sizes, .count = 1}, {.ints = shape, .count = 1}};
    qf_node_spec spec = {.op = QF_OP_symbolic, .attributes = attributes};
    qf_value first = qf_node_result(graph, qf_graph_insert(graph, (qf_node){0}, &spec), 0), value = first;
    assert_int_not_equal(first.id, 0);
    for (int i = 0; i < 100000; i++) {
        qf_value operands[] = {value, first};
        qf_node_spec add = {.op = QF_OP_add, .operands = operands, .operand_count = 2};
        value = qf_node_result(graph, qf_graph_insert(graph, (qf_node){0}, &add), 0);
    }
    qf_symbolic *symbolic = qf_symbolic_create(graph);
    const qf_dim *elements;
    uint32_t count;
    assert_true(qf_symbolic_elements(symbolic, value, &elements, &count));
    assert_int_equal(count, 1);
    assert_true(qf_dim_is(context, elements[0], 100001));
    /* Values that were made later are found too. */
    qf_node_spec copy = {.op = QF_OP_copy, .operands = &value, .operand_count = 1};
    qf_value later = qf_node_result(graph, qf_graph_insert(graph, (qf_node){0}, &copy), 0);
    assert_true(qf_symbolic_elements(symbolic, later, &elements, &count));
    assert_true(qf_dim_is(context, elements[0], 100001));
    qf_symbolic_destroy(symbolic);
    qf_graph_destroy(graph);
    check_destroy(context, &check);
}

static const char sweep_source[] = "graph @g(%x: f32[B, T, 64]) {\n"
                                   "  %s = shape_of %x\n"
                                   "  %c = constant {value=i64[1] [-1]}\n"
                                   "  %d = concat %s, %c {axis=0}\n"
                                   "  %e = equal %d, %c\n"
                                   "  %r = where %e, %c, %d\n"
                                   "  return %r\n}\n";

/* The n-th allocation fails, for every n: no crash, no leak, a status. */
static void memory_may_run_out(void **state) {
    (void)state;
    bool finished = false;
    for (uint64_t extra = 1; !finished && extra < 200; extra++) {
        check_state check;
        qf_context *context = check_context(&check);
        qf_graph *graph = qf_graph_parse(context, QF_TEXT(sweep_source), "t");
        assert_non_null(graph);
        check.fail_at = check.allocations + extra;
        qf_symbolic *symbolic = qf_symbolic_create(graph);
        const qf_dim *elements;
        uint32_t count;
        bool known = symbolic &&
                     qf_symbolic_elements(symbolic, qf_node_operand(graph, graph->last, 0), &elements, &count) &&
                     qf_graph_infer_all(graph) == QF_OK;
        finished = check.allocations < check.fail_at;
        assert_true(known == finished);
        assert_int_equal(qf_context_status(context), finished ? QF_OK : QF_ERROR_OUT_OF_MEMORY);
        qf_symbolic_destroy(symbolic);
        qf_graph_destroy(graph);
        check_destroy(context, &check);
    }
    assert_true(finished);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources),
        cmocka_unit_test(integer_arithmetic),
        cmocka_unit_test(choices_follow_from_bounds),
        cmocka_unit_test(sizes_stored_as_floats),
        cmocka_unit_test(layout_and_indexing),
        cmocka_unit_test(unknown_parts_stay_apart),
        cmocka_unit_test(constants_beyond_their_dtype),
        cmocka_unit_test(limits_are_no_failure),
        cmocka_unit_test(fault_8_reshape_target_of_an_exporter),
        cmocka_unit_test(deep_chains_need_no_stack),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
