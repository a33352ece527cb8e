/* Owns: tests of ir/infer.h: what each shape rule gives, and what it refuses. */
#include "tests/check.h"

#include "ir/equation.h"
#include "ir/infer.h"

/* A graph that takes ops one by one. Types and dims are written as text. */
typedef struct bench {
    check_state check;
    qf_context *context;
    qf_graph *graph;
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    uint32_t result_count;
    bool numbers; /* symbols of attributes are read as numbers */
} bench;

static void bench_open(bench *b) {
    b->context = check_context(&b->check);
    assert_int_equal(qf_graph_create(b->context, "g", &b->graph), QF_OK);
    b->result_count = 0;
    b->numbers = false;
}

static void bench_close(bench *b) {
    qf_graph_destroy(b->graph);
    check_destroy(b->context, &b->check);
}

static bool number_of(void *user, qf_dim_symbol symbol, int64_t *out_value) {
    /* Distinct numbers by name: a letter's place in the alphabet, plus 7. */
    *out_value = qf_string_text(user, qf_dim_symbol_name(user, symbol)).data[0] % 32 + 7;
    return true;
}

static qf_dim read_dim(bench *b, const char *text) {
    qf_text rest = qf_text_of(text);
    qf_dim dim = qf_dim_parse(b->context, &rest);
    assert_int_not_equal(dim.id, 0);
    int64_t number;
    if (b->numbers) {
        assert_true(qf_dim_evaluate(b->context, dim, number_of, b->context, &number));
        dim = qf_dim_constant(b->context, number);
    }
    return dim;
}

static qf_value input(bench *b, const char *type_text) {
    if (!*type_text) return (qf_value){0};
    qf_text rest = qf_text_of(type_text);
    qf_type type = qf_type_parse(b->context, &rest);
    if (!type.id) fail_msg("no type: %s", type_text);
    return qf_graph_add_input_value(b->graph, (qf_string){0}, type);
}

/* Attributes as "name=value name=value": 1,2,3 for ints; [T|4] for dims; names for dtypes, enumerations and strings. */
static void set_attribute(bench *b, const qf_attribute_info *info, qf_attribute *out, char *value) {
    static qf_dim dims[64];
    static int64_t ints[64];
    static uint32_t used;
    used = used > 40 ? 0 : used;
    switch (info->kind) {
    case QF_ATTRIBUTE_BOOL: out->integer = strcmp(value, "true") == 0; break;
    case QF_ATTRIBUTE_INT: out->integer = strtoll(value, NULL, 10); break;
    case QF_ATTRIBUTE_FLOAT: out->number = strtod(value, NULL); break;
    case QF_ATTRIBUTE_DTYPE: out->integer = qf_dtype_from_name(value); break;
    case QF_ATTRIBUTE_ENUM: out->integer = qf_enum_number(info->enumeration, qf_text_of(value)); break;
    case QF_ATTRIBUTE_DIM: out->dim = read_dim(b, value); break;
    case QF_ATTRIBUTE_STRING: out->string = qf_intern_c(b->context, value); break;
    case QF_ATTRIBUTE_LITERAL: fail(); break;
    case QF_ATTRIBUTE_INTS:
        out->ints = &ints[used];
        for (char *item = strtok(value, ","); item; item = strtok(NULL, ","))
            ints[used + out->count++] = strtoll(item, NULL, 10);
        used += out->count;
        break;
    case QF_ATTRIBUTE_DIMS:
        out->dims = &dims[used];
        for (char *item = strtok(value, "|"); item; item = strtok(NULL, "|"))
            dims[used + out->count++] = read_dim(b, item);
        used += out->count;
        break;
    }
}

static void set_attributes(bench *b, qf_op op, const char *text) {
    char copy[512];
    qf_attributes_default(b->graph, op, b->attributes);
    assert_true(strlen(text) < sizeof copy);
    strcpy(copy, text);
    for (char *item = copy; *item;) {
        char *end = strchr(item, ';'), *equals = strchr(item, '=');
        if (end) *end = '\0';
        *equals = '\0';
        int32_t index = qf_op_attribute_index(op, qf_text_of(item));
        if (index < 0) fail_msg("no attribute %s", item);
        set_attribute(b, &qf_op_info_of(op)->attributes[index], &b->attributes[index], equals + 1);
        if (!end) break;
        item = end + 1;
    }
}

static qf_node insert(bench *b, qf_op op, const char *attributes, const qf_value *operands, uint32_t count) {
    set_attributes(b, op, attributes);
    qf_node_spec spec = {.op = op,
                         .operands = operands,
                         .operand_count = count,
                         .attributes = b->attributes,
                         .result_count = b->result_count,
                         .location = qf_location_make(b->graph, QF_TEXT("here"), 0, 0)};
    return qf_graph_insert(b->graph, (qf_node){0}, &spec);
}

typedef struct rule_case {
    const char *op, *attributes;
    const char *operands[8]; /* types; "" = absent */
    const char *expected;    /* result types joined by ", " after each other with ';'; or a part of the message */
    uint32_t result_count;   /* 0: the required ones */
} rule_case;

static qf_node run_case(bench *b, const rule_case *c) {
    qf_value operands[8];
    uint32_t count = 0;
    for (; count < 8 && c->operands[count]; count++) operands[count] = input(b, c->operands[count]);
    b->result_count = c->result_count;
    qf_op op = qf_op_from_name(qf_text_of(c->op));
    assert_int_not_equal(op, QF_OP_none);
    return insert(b, op, c->attributes, operands, count);
}

/* The case with numbers in place of symbols: what the rule gives then is what its symbolic answer evaluates to. */
static void expect_same_with_numbers(const rule_case *c) {
    bench symbols, numbers;
    bench_open(&symbols);
    bench_open(&numbers);
    qf_node before = run_case(&symbols, c), after;
    qf_value operands[8];
    uint32_t count = 0;
    qf_context *context = symbols.context;
    for (; count < 8 && c->operands[count]; count++) {
        qf_value operand = qf_node_operand(symbols.graph, before, count);
        qf_buffer text = {.context = context};
        qf_type type = operand.id ? qf_value_type(symbols.graph, operand) : (qf_type){0};
        bool ranked = qf_type_is_ranked(context, type);
        if (operand.id) qf_buffer_text(&text, qf_text_of(qf_dtype_name(qf_type_dtype(context, type))));
        if (operand.id) qf_buffer_text(&text, ranked ? QF_TEXT("[") : QF_TEXT("[*"));
        for (uint32_t d = 0; ranked && d < qf_type_rank(context, type); d++) {
            int64_t number;
            assert_true(qf_dim_evaluate(context, qf_type_dims(context, type)[d], number_of, context, &number));
            qf_buffer_print(&text, d ? ", %lld" : "%lld", (long long)number);
        }
        qf_buffer_text(&text, operand.id ? QF_TEXT("]") : QF_TEXT(""));
        operands[count] = input(&numbers, text.data);
        qf_buffer_destroy(&text);
    }
    qf_op op = qf_op_from_name(qf_text_of(c->op));
    numbers.result_count = c->result_count;
    numbers.numbers = true;
    after = insert(&numbers, op, c->attributes, operands, count);
    if (!after.id) fail_msg("%s{%s} with numbers: %s", c->op, c->attributes, numbers.check.messages);
    for (uint32_t r = 0; r < qf_node_at(symbols.graph, before)->result_count; r++) {
        qf_type general = qf_value_type(symbols.graph, qf_node_result(symbols.graph, before, r));
        qf_type special = qf_value_type(numbers.graph, qf_node_result(numbers.graph, after, r));
        assert_int_equal(qf_type_dtype(context, general), qf_type_dtype(numbers.context, special));
        assert_int_equal(qf_type_rank(context, general), qf_type_rank(numbers.context, special));
        for (uint32_t d = 0; qf_type_is_ranked(context, general) && d < qf_type_rank(context, general); d++) {
            int64_t number;
            assert_true(qf_dim_evaluate(context, qf_type_dims(context, general)[d], number_of, context, &number));
            if (!qf_dim_is(numbers.context, qf_type_dims(numbers.context, special)[d], number))
                fail_msg("%s{%s}: result %u axis %u is not %lld with numbers", c->op, c->attributes, r, d,
                         (long long)number);
        }
    }
    assert_int_equal(numbers.graph->guard_count, 0);
    bench_close(&symbols);
    bench_close(&numbers);
}

static void expect_types(const rule_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        bench b;
        bench_open(&b);
        qf_node node = run_case(&b, &cases[i]);
        if (!node.id) fail_msg("%s{%s}: %s", cases[i].op, cases[i].attributes, b.check.messages);
        qf_buffer text = {.context = b.context};
        for (uint32_t r = 0; r < qf_node_at(b.graph, node)->result_count; r++) {
            if (r) qf_buffer_text(&text, QF_TEXT("; "));
            qf_type_print(&text, b.context, qf_value_type(b.graph, qf_node_result(b.graph, node, r)));
        }
        for (uint32_t g = 0; g < b.graph->guard_count; g++) {
            qf_buffer_text(&text, QF_TEXT(" | "));
            qf_dim_print(&text, b.context, b.graph->guards[g].left);
            qf_buffer_text(&text, QF_TEXT(" = "));
            qf_dim_print(&text, b.context, b.graph->guards[g].right);
        }
        if (strcmp(text.data, cases[i].expected) != 0)
            fail_msg("%s{%s}: %s, expected %s", cases[i].op, cases[i].attributes, text.data, cases[i].expected);
        bool assumed = b.graph->guard_count != 0;
        qf_buffer_destroy(&text);
        bench_close(&b);
        if (!assumed) expect_same_with_numbers(&cases[i]);
    }
}

/* Each case fails with one located message that holds the expected text. */
static void expect_faults(const rule_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        bench b;
        bench_open(&b);
        qf_node node = run_case(&b, &cases[i]);
        if (node.id || !strstr(b.check.messages, cases[i].expected) ||
            strncmp(b.check.messages, "error here: ", 12) != 0 ||
            strchr(b.check.messages, '\n') != b.check.messages + strlen(b.check.messages) - 1)
            fail_msg("%s{%s}: \"%s\", expected \"%s\"", cases[i].op, cases[i].attributes, b.check.messages,
                     cases[i].expected);
        assert_int_not_equal(qf_context_status(b.context), QF_OK);
        assert_int_equal(b.graph->live_node_count, 0);
        bench_close(&b);
    }
}

#define EXPECT_TYPES(...)                                                                                              \
    do {                                                                                                               \
        static const rule_case cases_[] = {__VA_ARGS__};                                                               \
        expect_types(cases_, QF_COUNT_OF(cases_));                                                                     \
    } while (0)
#define EXPECT_FAULTS(...)                                                                                             \
    do {                                                                                                               \
        static const rule_case cases_[] = {__VA_ARGS__};                                                               \
        expect_faults(cases_, QF_COUNT_OF(cases_));                                                                    \
    } while (0)

static void structure(void **state) {
    (void)state;
    EXPECT_TYPES(
        {"symbolic", "values=T|4;shape=2", {NULL}, "i64[2]", 0}, {"symbolic", "values=2*T", {NULL}, "i64[]", 0},
        {"shape_of", "", {"f32[B, T]"}, "i64[2]", 0}, {"shape_of", "start=-1", {"f32[B, T, 4]"}, "i64[1]", 0},
        {"shape_of", "start=2;end=1", {"f32[B, T, 4]"}, "i64[0]", 0}, {"shape_of", "", {"f32[*]"}, "i64[*]", 0},
        {"iota", "shape=T|4;axis=1;dtype=i32", {NULL}, "i32[T, 4]", 0},
        {"full", "shape=B|T", {"bf16[]"}, "bf16[B, T]", 0});
    EXPECT_FAULTS({"symbolic", "values=T;shape=2", {NULL}, "attribute values has 1 entries, expected 2", 0},
                  {"symbolic", "values=T;shape=1,1", {NULL}, "attribute shape has 2 entries", 0},
                  {"parameter", "name=w", {NULL}, "the type of result 0 is missing", 0},
                  {"constant", "", {NULL}, "attribute value is missing", 0},
                  {"iota", "shape=4;axis=1", {NULL}, "attribute axis is 1, expected 0 to 0", 0},
                  {"full", "shape=4", {"f32[1]"}, "operand value has type f32[1], expected rank 0", 0},
                  {"neg", "", {""}, "operand x is missing", 0});
}

static void elementwise(void **state) {
    (void)state;
    EXPECT_TYPES(
        {"exp", "", {"f16[B, T]"}, "f16[B, T]", 0}, {"add", "", {"f32[B, T]", "f32[B, T]"}, "f32[B, T]", 0},
        {"add", "", {"f32[B, 1, T]", "f32[H, 1]"}, "f32[B, H, T]", 0}, {"mul", "", {"f32[]", "f32[4]"}, "f32[4]", 0},
        {"add", "", {"f32[T]", "f32[16]"}, "f32[16] | T = 16", 0},
        {"add", "", {"f32[T]", "f32[S]"}, "f32[T] | T = S", 0},
        {"add", "", {"f32[T + 1]", "f32[S]"}, "f32[S] | T + 1 = S", 0}, {"add", "", {"f32[*]", "f32[S]"}, "f32[*]", 0},
        {"add", "", {"none[S]", "f32[S]"}, "f32[S]", 0}, {"less", "", {"i64[T]", "i64[T, 1]"}, "i1[T, T]", 0},
        {"not", "", {"i1[3]"}, "i1[3]", 0}, {"is_nan", "", {"f32[3]"}, "i1[3]", 0},
        {"and", "", {"i1[3]", "i1[]"}, "i1[3]", 0},
        {"where", "", {"i1[T, T]", "f16[]", "f16[B, 1, 1]"}, "f16[B, T, T]", 0},
        {"clamp", "", {"f32[T]", "f32[]", "f32[]"}, "f32[T]", 0},
        {"clamp", "", {"f32[T]", "", "f32[2, 1]"}, "f32[2, T]", 0},
        {"cast", "dtype=f8E4M3FN", {"f32[T]"}, "f8E4M3FN[T]", 0},
        {"bitcast", "dtype=f8E5M2", {"u8[T]"}, "f8E5M2[T]", 0}, {"softmax", "axis=1", {"f32[B, T]"}, "f32[B, T]", 0});
    EXPECT_FAULTS(
        {"add",
         "",
         {"f32[4]", "f32[5]"},
         "add: operand b has 5 elements on axis 0 to broadcast, expected 4 (its type is f32[5])",
         0},
        {"add", "", {"f32[T]", "f32[T + 1]"}, "operand b has T + 1 elements", 0},
        {"add", "", {"f32[4]", "f16[4]"}, "operand b has type f16[4], expected element type f32 as operand a has", 0},
        {"and", "", {"i1[4]", "f16[4]"}, "operand b has type f16[4], expected element type i1", 0},
        {"not", "", {"f32[4]"}, "operand x has type f32[4], expected element type i1", 0},
        {"is_nan", "", {"i64[4]"}, "expected a floating-point element type", 0},
        {"where", "", {"f32[4]", "f32[4]", "f32[4]"}, "operand condition has type f32[4]", 0},
        {"where",
         "",
         {"i1[4]", "f32[4]", "f16[4]"},
         "operand b has type f16[4], expected element type f32 as operand a has",
         0},
        {"clamp", "", {"f32[4]", "f16[]"}, "operand low has type f16[]", 0},
        {"bitcast", "dtype=f16", {"u8[4]"}, "expected an element type as wide as f16", 0},
        {"cast", "dtype=token", {"u8[4]"}, "attribute dtype is token", 0});
}

static void layout(void **state) {
    (void)state;
    EXPECT_TYPES({"view", "shape=B|T|12|64", {"f32[B, T, 768]"}, "f32[B, T, 12, 64]", 0},
                 {"view", "shape=B*T|D", {"f32[B, T, D]"}, "f32[B*T, D]", 0},
                 {"view", "shape=1|16", {"f32[T]"}, "f32[1, 16] | 16 = T", 0},
                 {"permute", "order=0,2,3,1", {"f32[B, T, 4, D]"}, "f32[B, 4, D, T]", 0},
                 {"slice", "starts=0|1;ends=B|T;steps=1,1", {"f32[B, T]"}, "f32[B, T - 1]", 0},
                 {"slice", "starts=1;ends=T;steps=2", {"f32[T]"}, "f32[floordiv(T, 2)]", 0},
                 {"slice", "starts=T - 1;ends=-1;steps=-1", {"f32[T]"}, "f32[T]", 0},
                 {"slice", "starts=3;ends=2;steps=1", {"f32[8]"}, "f32[0]", 0},
                 {"concat", "axis=1", {"f32[B, past, 4]", "f32[B, T, 4]"}, "f32[B, T + past, 4]", 0},
                 {"concat", "axis=0", {"f32[2, T]", "f32[1, 8]"}, "f32[3, 8] | T = 8", 0},
                 {"split", "axis=1;sizes=2|3", {"f32[T, 5]"}, "f32[T, 2]; f32[T, 3]", 2},
                 {"expand", "shape=B|8|T", {"f32[1, T]"}, "f32[B, 8, T]", 0},
                 {"expand", "shape=B|16", {"f32[1, T]"}, "f32[B, 16] | 16 = T", 0},
                 {"pad", "before=0|1;after=0|-2", {"f32[B, T]", "f32[]"}, "f32[B, T - 1]", 0});
    EXPECT_FAULTS(
        {"view", "shape=B|T|12|65", {"f32[B, T, 768]"}, "operand x has 768*B*T elements, expected 780*B*T", 0},
        {"permute", "order=0,0", {"f32[B, T]"}, "attribute order names axis 0 twice", 0},
        {"permute", "order=0,2", {"f32[B, T]"}, "attribute order is 2, expected 0 to 1", 0},
        {"permute", "order=0", {"f32[B, T]"}, "operand x has type f32[B, T], expected rank 1", 0},
        {"slice", "starts=0;ends=9;steps=1", {"f32[8]"}, "expected axis 0 to hold starts and ends", 0},
        {"slice", "starts=0;ends=T + 1;steps=1", {"f32[T]"}, "expected axis 0 to hold starts and ends", 0},
        {"slice", "starts=0;ends=8;steps=0", {"f32[8]"}, "attribute steps is 0", 0},
        {"slice", "starts=0;ends=8;steps=1,1", {"f32[8]"}, "attribute steps has 2 entries, expected 1", 0},
        {"concat", "axis=1", {"f32[2, 3]", "f32[3, 3]"}, "operand parts[1] has 3 elements", 0},
        {"concat", "axis=2", {"f32[2, 3]"}, "attribute axis is 2", 0},
        {"concat", "axis=0", {NULL}, "operand parts is missing", 0},
        {"concat", "axis=0", {"f32[2]", "f16[2]"}, "operand parts[1] has type f16[2]", 0},
        {"split", "axis=1;sizes=2|2", {"f32[T, 5]"}, "operand x has 5 elements on the axis to split, expected 4", 2},
        {"split", "axis=1;sizes=2|3", {"f32[T, 5]"}, "there are 3 results, expected 2", 3},
        {"expand", "shape=4", {"f32[1, 4]"}, "expected rank 1 or less to broadcast", 0},
        {"expand", "shape=4", {"f32[3]"}, "operand x has 3 elements on axis 0, expected 4", 0},
        {"pad", "before=-3;after=0", {"f32[2]", "f32[]"}, "expected axis 0 to hold what is cropped", 0},
        {"pad", "before=0;after=0", {"f32[2]", "f32[1]"}, "operand value has type f32[1], expected rank 0", 0});
}

static void indexing(void **state) {
    (void)state;
    EXPECT_TYPES({"gather", "axis=0", {"f32[V, D]", "i64[B, T]"}, "f32[B, T, D]", 0},
                 {"gather", "axis=1", {"f32[V, D]", "i64[]"}, "f32[V]", 0},
                 {"gather_elements", "axis=1", {"f32[V, D]", "i64[V, 3]"}, "f32[V, 3]", 0},
                 {"gather_nd", "", {"f32[A, B, C]", "i64[N, 2]"}, "f32[N, C]", 0},
                 {"gather_nd", "batch_dims=1", {"f32[A, B, C]", "i64[A, N, 1]"}, "f32[A, N, C]", 0},
                 {"scatter_nd", "", {"f32[A, B]", "i64[N, 1]", "f32[N, B]"}, "f32[A, B]", 0},
                 {"scatter_elements", "axis=0", {"f32[A, B]", "i64[2, B]", "f32[2, B]"}, "f32[A, B]", 0},
                 {"one_hot", "depth=V", {"i64[B, T]", "f32[2]"}, "f32[B, T, V]", 0},
                 {"one_hot", "depth=V;axis=0", {"i64[B, T]", "f32[2]"}, "f32[V, B, T]", 0},
                 {"arg_max", "axis=1", {"f32[B, T]"}, "i64[B, 1]", 0},
                 {"arg_max", "axis=1;keep=false", {"f32[B, T]"}, "i64[B]", 0},
                 {"top_k", "axis=1;k=4", {"f32[B, T]"}, "f32[B, 4]; i64[B, 4]", 0});
    EXPECT_FAULTS(
        {"gather", "axis=2", {"f32[V, D]", "i64[]"}, "attribute axis is 2", 0},
        {"gather",
         "axis=0",
         {"f32[V, D]", "f32[2]"},
         "operand indices has type f32[2], expected an integer element type",
         0},
        {"gather", "axis=0", {"f32[1,1,1,1,1,1,1,1]", "i64[1,1]"}, "the result has rank 9", 0},
        {"gather_nd",
         "",
         {"f32[A, B]", "i64[N, 3]"},
         "operand indices has type i64[N, 3], expected a last axis of 2 or less",
         0},
        {"scatter_nd",
         "",
         {"f32[A, 4]", "i64[N, 1]", "f32[N, 5]"},
         "operand updates has 5 elements on axis 1, expected 4",
         0},
        {"scatter_elements",
         "axis=0",
         {"f32[A]", "i64[2]", "f32[3]"},
         "operand updates has 3 elements on axis 0, expected 2",
         0},
        {"one_hot", "depth=4", {"i64[B]", "f32[3]"}, "operand values has 3 elements on axis 0, expected 2", 0},
        {"top_k", "axis=0;k=9", {"f32[8]"}, "operand x has type f32[8], expected at least k elements", 0});
}

static void reductions(void **state) {
    (void)state;
    EXPECT_TYPES({"reduce_sum", "axes=1", {"f32[B, T]"}, "f32[B, 1]", 0},
                 {"reduce_max", "axes=0,1;keep=false", {"f32[B, T]"}, "f32[]", 0},
                 {"layer_norm", "axis=1", {"f16[B, T]", "f16[T]"}, "f16[B, T]", 0},
                 {"rms_norm", "axis=1", {"f16[B, T]", "f16[T]"}, "f16[B, T]", 0},
                 {"rms_norm", "axis=1;out=f8E4M3FN", {"f16[B, T]", "f16[T]", "f32[]"}, "f8E4M3FN[B, T]", 0},
                 {"add_rms_norm",
                  "axis=1;out=f8E4M3FN",
                  {"f16[B, T]", "f16[B, T]", "f16[T]", "f32[]"},
                  "f8E4M3FN[B, T]; f16[B, T]",
                  0},
                 {"silu_mul", "", {"f16[B, 2*F]"}, "f16[B, F]", 0},
                 {"conv",
                  "strides=2,2;pads_before=1,1;pads_after=1,1;dilations=1,1",
                  {"f32[N, 3, 224, W]", "f32[64, 3, 3, 3]", "f32[64]"},
                  "f32[N, 64, 112, floordiv(W + 1, 2)]",
                  0});
    EXPECT_FAULTS(
        {"reduce_sum", "axes=2", {"f32[B, T]"}, "attribute axes is 2", 0},
        {"reduce_sum", "axes=1,1", {"f32[B, T]"}, "axis 1 twice", 0},
        {"rms_norm", "axis=1", {"f16[B, 8]", "f16[9]"}, "operand weight has 9 elements on axis 0, expected 8", 0},
        {"rms_norm", "axis=1;out=f8E4M3FN", {"f16[B, T]", "f16[T]"}, "operand out_scale is missing", 0},
        {"add_rms_norm",
         "axis=1",
         {"f16[B, 8]", "f16[B, 9]"},
         "operand residual has 9 elements on axis 1, expected 8",
         0},
        {"silu_mul", "", {"f16[B, 7]"}, "operand x has 7 elements on the last axis, expected 6", 0},
        {"conv",
         "strides=1;pads_before=0;pads_after=0;dilations=1",
         {"f32[1, 4, 9]", "f32[8, 3, 3]"},
         "operand x has 4 channels, expected 3",
         0},
        {"conv",
         "strides=1,1;pads_before=0;pads_after=0;dilations=1",
         {"f32[1, 3, 9]", "f32[8, 3, 3]"},
         "attribute strides has 2 entries",
         0},
        {"conv",
         "strides=0;pads_before=0;pads_after=0;dilations=1",
         {"f32[1, 3, 9]", "f32[8, 3, 3]"},
         "attribute strides holds 0, expected 1 or more",
         0});
}

static void contractions(void **state) {
    (void)state;
    EXPECT_TYPES(
        {"contract", "equation=bhtd,bhsd->bhts", {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]"}, "f16[B, 8, T, S]", 0},
        {"contract",
         "equation=bhtd,bhsd->bhts;out=f32",
         {"f8E4M3FN[B, 8, T, 64]", "f8E5M2[B, 8, S, 64]"},
         "f32[B, 8, T, S]",
         0},
        {"contract", "equation=ab,b->a", {"f32[T, D]", "f32[64]"}, "f32[T] | D = 64", 0},
        {"contract", "equation=,b->b", {"f32[]", "f32[T]"}, "f32[T]", 0},
        {"matmul", "", {"f32[B, 1, T, D]", "f32[H, D, S]"}, "f32[B, H, T, S]", 0},
        {"matmul", "", {"f32[D]", "f32[D, S]"}, "f32[S]", 0}, {"matmul", "", {"f32[T, D]", "f32[D]"}, "f32[T]", 0},
        {"scaled_matmul",
         "out=bf16",
         {"f8E4M3FN[B, T, K]", "f8E4M3FN[K, N]", "f32[B, T, 1]", "f32[1, N]", "bf16[N]"},
         "bf16[B, T, N]",
         0},
        {"scaled_matmul",
         "out=f8E4M3FN",
         {"f8E4M3FN[T, K]", "f8E4M3FN[K, N]", "f32[]", "f32[1]", "", "f32[]"},
         "f8E4M3FN[T, N]",
         0});
    EXPECT_FAULTS(
        {"contract",
         "equation=ab,bc->ac",
         {"f32[T, 64]", "f32[65, N]"},
         "operand b has 65 elements for label b, expected 64",
         0},
        {"contract",
         "equation=ab,bc->ac",
         {"f32[T]", "f32[65, N]"},
         "operand a has type f32[T], expected rank 2, found rank 1",
         0},
        {"contract",
         "equation=ab,bc->ad",
         {"f32[T, 4]", "f32[4, N]"},
         "a label of the result stands in neither operand",
         0},
        {"contract", "equation=aa,bc->ac", {"f32[4, 4]", "f32[4, N]"}, "a label stands twice on one side", 0},
        {"contract", "equation=ab bc", {"f32[4, 4]", "f32[4, N]"}, "the form is", 0},
        {"contract",
         "equation=ab,bc->ac",
         {"f32[4, 4]", "f16[4, N]"},
         "operand b has type f16[4, N], expected element type f32",
         0},
        {"matmul", "", {"f32[2, 4, 5]", "f32[3, 5, 6]"}, "operand b has 3 elements on a batch axis, expected 2", 0},
        {"matmul", "", {"f32[4, 5]", "f32[6, 5]"}, "operand b has 6 elements on axis 0, expected 5", 0},
        {"scaled_matmul",
         "out=f8E4M3FN",
         {"f8E4M3FN[T, K]", "f8E4M3FN[K, N]", "f32[]", "f32[]"},
         "operand out_scale is missing",
         0},
        {"scaled_matmul",
         "out=f32",
         {"f8E4M3FN[T, K]", "f8E4M3FN[K, 8]", "f32[]", "f32[9]"},
         "operand b_scale has 9 elements on axis 0, expected 8",
         0});
}

static void quantisation(void **state) {
    (void)state;
    EXPECT_TYPES(
        {"quantize", "dtype=f8E4M3FN", {"bf16[B, T]", "f32[]"}, "f8E4M3FN[B, T]", 0},
        {"quantize", "dtype=i8;axis=1", {"f32[B, T]", "f32[T]", "i8[T]"}, "i8[B, T]", 0},
        {"quantize", "dtype=f8E4M3FN;axis=1;group=128", {"f32[B, 512]", "f32[B, 4]"}, "f8E4M3FN[B, 512]", 0},
        {"dequantize", "dtype=f16", {"f8E4M3FN[B, T]", "f32[1]"}, "f16[B, T]", 0},
        {"dynamic_quantize", "dtype=f8E4M3FN", {"f16[B, T]"}, "f8E4M3FN[B, T]; f32[]", 0},
        {"dynamic_quantize", "dtype=f8E4M3FN;granularity=token", {"f16[B, T]"}, "f8E4M3FN[B, T]; f32[B, 1]", 0},
        {"dynamic_quantize",
         "dtype=f8E4M3FN;granularity=group;group=128",
         {"f16[B, 512]"},
         "f8E4M3FN[B, 512]; f32[B, 4]",
         0});
    EXPECT_FAULTS(
        {"quantize",
         "dtype=f16",
         {"f32[4]", "f32[]"},
         "attribute dtype is f16, expected an 8-bit or 4-bit element type",
         0},
        {"quantize", "dtype=f8E4M3FN", {"f8E5M2[4]", "f32[]"}, "it is quantised already", 0},
        {"quantize", "dtype=f8E4M3FN", {"f32[4]", "f32[4]"}, "operand scale has 4 elements on axis 0, expected 1", 0},
        {"quantize",
         "dtype=f8E4M3FN;axis=1",
         {"f32[4, 5]", "f32[4]"},
         "operand scale has 4 elements on axis 0, expected 5",
         0},
        {"dequantize", "dtype=i32", {"f8E4M3FN[4]", "f32[]"}, "attribute dtype is i32", 0},
        {"dynamic_quantize",
         "dtype=f8E4M3FN;granularity=group;group=128",
         {"f16[B, 500]"},
         "operand x has 500 elements",
         0});
}

/* FAULTS 35. */
static void fault_35_dynamic_scale_of_quantised_data(void **state) {
    (void)state;
    EXPECT_FAULTS({"dynamic_quantize",
                   "dtype=f8E4M3FN",
                   {"f8E4M3FN[4]"},
                   "operand x has type f8E4M3FN[4], expected f32, f16, bf16 or f64: it is quantised already",
                   0});
}

static void attention(void **state) {
    (void)state;
    EXPECT_TYPES({"attention",
                  "scale=0.125",
                  {"f16[B, 8, T, 64]", "f16[B, 2, S, 64]", "f16[B, 2, S, 32]"},
                  "f16[B, 8, T, 32]",
                  0},
                 {"attention",
                  "scale=0.125;layout=bshd",
                  {"f16[B, T, 8, 64]", "f16[B, S, 2, 64]", "f16[B, S, 2, 32]"},
                  "f16[B, T, 8, 32]; f32[B, 8, T]",
                  2},
                 {"attention",
                  "scale=1;out=f8E4M3FN",
                  {"f8E4M3FN[B, 8, T, 64]", "f8E4M3FN[B, 8, S, 64]", "f8E4M3FN[B, 8, S, 64]", "f32[1, T, S]",
                   "i1[T, S]", "i32[B]"},
                  "f8E4M3FN[B, 8, T, 64]",
                  0},
                 {"attention",
                  "scale=1",
                  {"f8E4M3FN[B, 8, T, 64]", "f8E4M3FN[B, 8, S, 64]", "f8E4M3FN[B, 8, S, 64]"},
                  "f32[B, 8, T, 64]",
                  0},
                 {"attention",
                  "scale=1",
                  {"f16[N, 8, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]", "", "", "i32[B]", "i32[B + 1]", "f32[8]"},
                  "f16[N, 8, 64]; f32[N, 8]",
                  2},
                 {"paged_attention",
                  "scale=1",
                  {"bf16[B, 8, 64]", "bf16[P, 16, 2, 64]", "bf16[P, 16, 2, 64]", "i32[B, M]", "i32[B]"},
                  "bf16[B, 8, 64]",
                  0},
                 {"paged_attention",
                  "scale=1;layout=hnd",
                  {"bf16[N, 8, 64]", "bf16[P, 2, 16, 64]", "bf16[P, 2, 16, 48]", "i32[B, M]", "i32[B]", "i32[B + 1]"},
                  "bf16[N, 8, 48]; f32[N, 8]",
                  2},
                 {"kv_cache_write",
                  "",
                  {"f8E4M3FN[P, 16, 2, 64]", "bf16[N, 2, 64]", "i64[N]", "f32[]"},
                  "f8E4M3FN[P, 16, 2, 64]",
                  0},
                 {"rope", "", {"f16[B, T, 8, 64]", "f32[4096, 64]", "i64[B, T]"}, "f16[B, T, 8, 64]", 0},
                 {"rope", "rotary_dim=32", {"f16[B, T, 8, 64]", "f32[T, 32]"}, "f16[B, T, 8, 64]", 0},
                 {"rope_quantize_cache_write",
                  "",
                  {"f16[N, 8, 64]", "f16[N, 2, 64]", "f16[N, 2, 64]", "f32[4096, 64]", "i64[N]", "i64[N]",
                   "f8E4M3FN[P, 16, 2, 64]", "f8E4M3FN[P, 16, 2, 64]"},
                  "f8E4M3FN[N, 8, 64]; f8E4M3FN[P, 16, 2, 64]; f8E4M3FN[P, 16, 2, 64]",
                  0});
    EXPECT_FAULTS(
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 3, S, 64]", "f16[B, 3, S, 64]"},
         "operand q has type f16[B, 8, T, 64], expected a head count that is a multiple of 3 KV heads, found 8",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 32]", "f16[B, 8, S, 64]"},
         "operand k has 32 elements a head, expected 64",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, 9, 64]", "f16[B, 8, 8, 64]"},
         "operand v has 8 keys, expected 9",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 4, S, 64]"},
         "operand v has 4 KV heads, expected 8",
         0},
        {"attention",
         "scale=1",
         {"f16[8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]"},
         "operand q has type f16[8, T, 64], expected rank 4, found rank 3",
         0},
        {"attention",
         "scale=1;layout=nhd",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]"},
         "attribute layout is nhd, expected bhsd or bshd",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]", "f16[7, T, S]"},
         "operand bias has 7 elements on axis 0, expected 8",
         0},
        {"attention",
         "scale=1",
         {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]", "f16[B, 8, S, 64]", "", "f16[T, S]"},
         "operand mask has type f16[T, S], expected element type i1",
         0},
        {"paged_attention",
         "scale=1",
         {"bf16[B, 8, 64]", "bf16[P, 16, 2, 64]", "bf16[P, 32, 2, 64]", "i32[B, M]", "i32[B]"},
         "operand v_cache has 32 slots a page, expected 16",
         0},
        {"paged_attention",
         "scale=1",
         {"bf16[B, 8, 64]", "bf16[P, 16, 2, 64]", "bf16[P, 16, 2, 64]", "i64[B, M]", "i32[B]"},
         "operand block_table has type i64[B, M], expected element type i32",
         0},
        {"kv_cache_write",
         "layout=bhsd",
         {"f16[P, 16, 2, 64]", "bf16[N, 2, 64]", "i64[N]"},
         "attribute layout is bhsd, expected nhd or hnd",
         0},
        {"kv_cache_write",
         "layout=hnd",
         {"f16[P, 16, 2, 64]", "bf16[N, 2, 64]", "i64[N]"},
         "operand new has 2 KV heads, expected 16",
         0},
        {"rope",
         "",
         {"f16[B, T, 8, 63]", "f32[4096, 63]", "i64[B, T]"},
         "expected an even count of rotated elements",
         0},
        {"rope",
         "",
         {"f16[B, T, 8, 64]", "f32[4096, 32]", "i64[B, T]"},
         "operand cos_sin has 32 elements on the last axis, expected 64",
         0});
}

/* FAULTS 8: -1, a symbol and a literal that mean the same are the same dim. */
static void fault_8_targets_mean_the_same_shape(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    qf_value x = input(&b, "f32[B, T, 768]");
    static const char *const shapes[] = {"shape=B|T|12|64", "shape=B|T|floordiv(768, 64)|64",
                                         "shape=floordiv(768*B*T, 768*T)|T|12|64"};
    qf_type first = {0};
    for (size_t i = 0; i < QF_COUNT_OF(shapes); i++) {
        qf_node node = insert(&b, QF_OP_view, shapes[i], &x, 1);
        assert_int_not_equal(node.id, 0);
        qf_type type = qf_value_type(b.graph, qf_node_result(b.graph, node, 0));
        if (i == 0) first = type;
        assert_int_equal(type.id, first.id);
    }
    assert_int_equal(b.graph->guard_count, 0);
    bench_close(&b);
}

/* FAULTS 23: ranks 2 to 6 give a type or a message. */
static void fault_23_every_rank_is_answered(void **state) {
    (void)state;
    static const char *const types[] = {"f16[8, 64]", "f16[B, 8, 64]", "f16[B, 8, 8, 64]", "f16[B, 1, 8, 8, 64]",
                                        "f16[B, 1, 1, 8, 8, 64]"};
    for (int q = 0; q < 5; q++)
        for (int k = 0; k < 5; k++) {
            bench b;
            bench_open(&b);
            rule_case c = {"attention", "scale=1", {types[q], types[k], types[k]}, "", 0};
            qf_node node = run_case(&b, &c);
            assert_true(node.id ? q == 2 && k == 2 : strstr(b.check.messages, "expected rank") != NULL);
            bench_close(&b);
        }
}

/* FAULTS 65: hidden sizes that heads do not divide are refused. */
static void fault_65_sizes_that_do_not_divide(void **state) {
    (void)state;
    EXPECT_FAULTS({"view",
                   "shape=B|T|12|floordiv(770, 12)",
                   {"f32[B, T, 770]"},
                   "operand x has 770*B*T elements, expected 768*B*T",
                   0},
                  {"attention",
                   "scale=1",
                   {"f16[B, 10, T, 64]", "f16[B, 4, S, 64]", "f16[B, 4, S, 64]"},
                   "a multiple of 4 KV heads, found 10",
                   0});
}

static void expect_value_type(bench *b, qf_value value, const char *expected) {
    qf_buffer text = {.context = b->context};
    qf_type_print(&text, b->context, qf_value_type(b->graph, value));
    assert_string_equal(text.data, expected);
    qf_buffer_destroy(&text);
}

/* FAULTS 66: a mask frozen at export fixes the symbol everywhere, and the guard says so. */
static void fault_66_frozen_mask_becomes_a_guard(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    qf_value x = input(&b, "f32[B, T, T]"), y = input(&b, "f32[B, T, 64]"), mask = input(&b, "f32[16, 16]");
    qf_value both[] = {x, mask};
    qf_value before = qf_node_result(b.graph, insert(&b, QF_OP_exp, "", &y, 1), 0);
    qf_value masked = qf_node_result(b.graph, insert(&b, QF_OP_add, "", both, 2), 0);
    qf_value operands[] = {masked, before};
    qf_value product = qf_node_result(b.graph, insert(&b, QF_OP_contract, "equation=bts,bsd->btd", operands, 2), 0);
    assert_true(qf_graph_set_outputs(b.graph, &product, NULL, 1));
    assert_int_equal(b.graph->guard_count, 1);
    assert_int_equal(qf_graph_infer_all(b.graph), QF_OK);
    expect_value_type(&b, before, "f32[B, 16, 64]");
    expect_value_type(&b, product, "f32[B, 16, 64]");
    assert_int_equal(b.graph->guard_count, 1);
    assert_int_equal(b.graph->guards[0].left.id, read_dim(&b, "T").id);
    assert_int_equal(b.graph->guards[0].right.id, read_dim(&b, "16").id);
    assert_int_equal(qf_graph_infer_all(b.graph), QF_OK);
    assert_int_equal(b.graph->guard_count, 1);
    /* Callers still bind T, so that the guard can be checked; the text says it in T too. */
    expect_value_type(&b, x, "f32[B, 16, 16]");
    qf_type declared = qf_input_type(b.graph, 0);
    assert_int_equal(qf_type_dim(b.context, declared, 1).id, read_dim(&b, "T").id);
    bool changed;
    assert_int_equal(qf_graph_apply_guards(b.graph, &changed), QF_OK);
    assert_false(changed);
    bench_close(&b);
}

static void derived_symbols_give_way_to_input_symbols(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    qf_value x = input(&b, "f32[T]"), total = input(&b, "f32[total]"), past = input(&b, "f32[past]");
    b.result_count = 1;
    qf_value cut = qf_node_result(b.graph, insert(&b, QF_OP_slice, "starts=0;ends=min(T, 128);steps=1", &x, 1), 0);
    qf_value pair[] = {cut, x};
    qf_value sum = qf_node_result(b.graph, insert(&b, QF_OP_add, "", pair, 2), 0);
    qf_value parts[] = {past, x};
    qf_value joined = qf_node_result(b.graph, insert(&b, QF_OP_concat, "axis=0", parts, 2), 0);
    qf_value more[] = {total, joined};
    qf_value all = qf_node_result(b.graph, insert(&b, QF_OP_add, "", more, 2), 0);
    assert_int_equal(b.graph->guard_count, 2);
    assert_int_equal(qf_graph_infer_all(b.graph), QF_OK);
    expect_value_type(&b, cut, "f32[T]");
    expect_value_type(&b, sum, "f32[T]");
    expect_value_type(&b, total, "f32[T + past]");
    expect_value_type(&b, all, "f32[T + past]");
    bench_close(&b);
}

static void contradicting_equalities_are_refused(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    qf_value x = input(&b, "f32[T]"), first = input(&b, "f32[16]"), second = input(&b, "f32[32]");
    qf_value left[] = {x, first}, right[] = {x, second};
    (void)insert(&b, QF_OP_add, "", left, 2);
    (void)insert(&b, QF_OP_add, "", right, 2);
    assert_int_equal(qf_graph_infer_all(b.graph), QF_ERROR_VERIFY);
    assert_non_null(strstr(b.check.messages, "error here: sizes 16 and 32 must be equal here"));
    bench_close(&b);
}

static void equations_read_and_write(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_equation equation;
    assert_null(qf_equation_parse(QF_TEXT("bhtd,bgsd->bhts"), &equation));
    assert_int_equal(equation.a.count, 4);
    assert_int_equal(qf_labels_axis(&equation.b, 'd'), 3);
    assert_int_equal(qf_labels_axis(&equation.result, 'd'), -1);
    assert_string_equal(qf_string_c(context, qf_equation_intern(context, &equation)), "bhtd,bgsd->bhts");
    static const char *const bad[] = {
        "", "ab", "ab,bc", "ab,bc->", "ab,bc->acd", "a1,b->a", "abcdefghi,b->a", "ab,bc->ac ", "...a,b->a"};
    for (size_t i = 0; i < QF_COUNT_OF(bad); i++)
        assert_int_equal(qf_equation_parse(qf_text_of(bad[i]), &equation) == NULL, i == 3);
    check_destroy(context, &check);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure),
        cmocka_unit_test(elementwise),
        cmocka_unit_test(layout),
        cmocka_unit_test(indexing),
        cmocka_unit_test(reductions),
        cmocka_unit_test(contractions),
        cmocka_unit_test(quantisation),
        cmocka_unit_test(attention),
        cmocka_unit_test(fault_8_targets_mean_the_same_shape),
        cmocka_unit_test(fault_23_every_rank_is_answered),
        cmocka_unit_test(fault_35_dynamic_scale_of_quantised_data),
        cmocka_unit_test(fault_65_sizes_that_do_not_divide),
        cmocka_unit_test(fault_66_frozen_mask_becomes_a_guard),
        cmocka_unit_test(derived_symbols_give_way_to_input_symbols),
        cmocka_unit_test(contradicting_equalities_are_refused),
        cmocka_unit_test(equations_read_and_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
