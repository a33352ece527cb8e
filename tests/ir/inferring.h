/* Owns: cases of shape inference as text: ops with attributes and operand types, the result types or the fault.
 * Does not own: the cases.
 * Next: infer_test.c. */
#ifndef QF_TESTS_IR_INFERRING_H
#define QF_TESTS_IR_INFERRING_H

#include "tests/check.h"

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

static inline void bench_open(bench *b) {
    b->context = check_context(&b->check);
    assert_int_equal(qf_graph_create(b->context, "g", &b->graph), QF_OK);
    b->result_count = 0;
    b->numbers = false;
}

static inline void bench_close(bench *b) {
    qf_graph_destroy(b->graph);
    check_destroy(b->context, &b->check);
}

static inline bool number_of(void *user, qf_dim_symbol symbol, int64_t *out_value) {
    /* Distinct numbers by name: a letter's place in the alphabet, plus 7. */
    *out_value = qf_string_text(user, qf_dim_symbol_name(user, symbol)).data[0] % 32 + 7;
    return true;
}

static inline qf_dim read_dim(bench *b, const char *text) {
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

static inline qf_value input(bench *b, const char *type_text) {
    if (!*type_text) return (qf_value){0};
    qf_text rest = qf_text_of(type_text);
    qf_type type = qf_type_parse(b->context, &rest);
    if (!type.id) fail_msg("no type: %s", type_text);
    return qf_graph_add_input_value(b->graph, (qf_string){0}, type);
}

/* Attributes as "name=value name=value": 1,2,3 for ints; [T|4] for dims; names for dtypes, enumerations and strings. */
static inline void set_attribute(bench *b, const qf_attribute_info *info, qf_attribute *out, char *value) {
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

static inline void set_attributes(bench *b, qf_op op, const char *text) {
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

static inline qf_node insert(bench *b, qf_op op, const char *attributes, const qf_value *operands, uint32_t count) {
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

static inline qf_node run_case(bench *b, const rule_case *c) {
    qf_value operands[8];
    uint32_t count = 0;
    for (; count < 8 && c->operands[count]; count++) operands[count] = input(b, c->operands[count]);
    b->result_count = c->result_count;
    qf_op op = qf_op_from_name(qf_text_of(c->op));
    assert_int_not_equal(op, QF_OP_none);
    return insert(b, op, c->attributes, operands, count);
}

/* The case with numbers in place of symbols: what the rule gives then is what its symbolic answer evaluates to. */
static inline void expect_same_with_numbers(const rule_case *c) {
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

static inline void expect_types(const rule_case *cases, size_t count) {
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
static inline void expect_faults(const rule_case *cases, size_t count) {
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

#endif
