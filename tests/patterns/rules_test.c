/* Owns: the automatic test of every rule: its left side on random shapes and layouts, run before and after on the CPU.
 * Label: rules
 * Does not own: evaluation (evaluating.h), instances (patterns/instance.h), samples (`test` clauses of
 * patterns/rules/). */
#include "patterns/instance.h"
#include "tests/patterns/evaluating.h"
#include "tests/patterns/rewriting.h"

#define TRIALS 12

/* Whether both graphs give the same from random inputs, as far as the rule's class promises; else `message` says why.
 */
static bool results_agree(qf_rule_instance *instance, const qf_graph *after, const check_state *check, char *message,
                          size_t message_size) {
    const qf_graph *before = instance->graph;
    evaluation first, second;
    evaluation_open(&first, before, NULL);
    evaluation_open(&second, after, NULL);
    for (uint32_t i = 0; i < before->input_count; i++) {
        qf_rule_instance_fill(instance, i, first.inputs[i].data, tensor_count(&first.inputs[i]));
        memcpy(second.inputs[i].data, first.inputs[i].data, (size_t)qf_tensor_bytes(&first.inputs[i]));
    }
    evaluation_run(&first, check);
    evaluation_run(&second, check);
    bool agree = true;
    for (uint32_t i = 0; i < qf_node_at(before, before->last)->operand_count && agree; i++) {
        qf_tensor a = evaluation_output(&first, i), b = evaluation_output(&second, i);
        assert_int_equal(tensor_count(&a), tensor_count(&b));
        agree = qf_rule_results_agree(instance, a.dtype, a.data, b.data, tensor_count(&a), message, message_size);
    }
    evaluation_close(&first);
    evaluation_close(&second);
    return agree;
}

static void test_rule(qf_context *context, check_state *check, qf_rule *rule, uint32_t test, uint64_t seed) {
    qf_rule_instance instance;
    if (qf_rule_instance_make(context, rule, test, seed, &instance) != QF_OK) fail_msg("%s", check->messages);
    qf_graph *after = qf_graph_clone(instance.graph);
    assert_non_null(after);
    qf_report report;
    qf_report_init(&report, context);
    qf_rules_options options = {.numerics = QF_NUMERICS_RELAXED, .only = &rule->name};
    bool changed = false;
    qf_status status = qf_rules_run(after, qf_string_c(context, rule->phase), &options, &report, &changed);
    if (status == QF_OK) status = qf_graph_verify(after);
    if (status != QF_OK) fail_msg("%s: %s", qf_string_c(context, rule->name), check->messages);
    if (!report.rewrite_count) {
        qf_buffer text = {.context = context};
        qf_graph_print(&text, instance.graph);
        fail_msg("%s: test clause %u does not match its own left side:\n%s", qf_string_c(context, rule->name), test + 1,
                 text.data);
    }
    char message[256];
    if (!results_agree(&instance, after, check, message, sizeof message))
        fail_msg("%s: %s", qf_string_c(context, rule->name), message);
    qf_report_destroy(&report);
    qf_graph_destroy(after);
    qf_rule_instance_destroy(&instance);
}

static void every_rule_keeps_its_numerics(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_rule_set *set = qf_rules_of(context);
    if (!set) fail_msg("%s", check.messages);
    for (uint32_t i = 0; i < set->rule_count; i++) {
        qf_rule *rule = set->rules[i];
        if (!rule->test_count) fail_msg("%s has no test clause", qf_string_c(context, rule->name));
        for (uint32_t test = 0; test < rule->test_count; test++)
            for (uint32_t trial = 0; trial < TRIALS; trial++)
                test_rule(context, &check, rule, test, 1 + trial + 1000 * (uint64_t)test);
    }
    check_destroy(context, &check);
}

static void load(qf_context *context, check_state *check, const char *text) {
    if (qf_rules_load(context, qf_text_of(text), "mine.rules") != QF_OK) fail_msg("%s", check->messages);
}

/* What a rule does to numbers is seen: a wrong right side, and a class that promises too much. */
static void wrong_rules_are_found(void **state) {
    (void)state;
    static const char *const rules[] = {
        "rule wrong canonicalize numerics exact benefit 90\n\"-x is x.\"\nbefore\n  %y = neg %x\nafter\n  %y = %x\n"
        "test %x = f32[4]\nend\n",
        "rule wrong canonicalize numerics exact benefit 90\n\"x / s is x * s.\"\nbefore\n  %r = reciprocal %s\n"
        "  %y = mul %x, %r\nafter\n  %y = div %x, %s\ntest %x = f32[64] %s = f32[]\nend\n",
        "rule wrong canonicalize numerics rounding benefit 90\n\"x / s is x * s.\"\nbefore\n  %r = neg %s\n"
        "  %y = div %x, %r\nafter\n  %y = div %x, %s\ntest %x = f32[64] %s = f32[]\nend\n"};
    for (size_t i = 0; i < QF_COUNT_OF(rules); i++) {
        check_state check;
        qf_context *context = check_context(&check);
        load(context, &check, rules[i]);
        qf_rule *rule = qf_rules_find(qf_rules_of(context), QF_TEXT("wrong"));
        bool found = false;
        for (uint64_t seed = 1; seed < 20 && !found; seed++) {
            qf_rule_instance instance;
            assert_int_equal(qf_rule_instance_make(context, rule, 0, seed, &instance), QF_OK);
            qf_graph *after = qf_graph_clone(instance.graph);
            qf_report report;
            qf_report_init(&report, context);
            qf_rules_options options = {.numerics = QF_NUMERICS_RELAXED, .only = &rule->name};
            bool changed = false;
            assert_int_equal(qf_rules_run(after, "canonicalize", &options, &report, &changed), QF_OK);
            assert_true(changed);
            char message[256] = "";
            found = !results_agree(&instance, after, &check, message, sizeof message);
            assert_int_equal(found, message[0] != 0);
            qf_report_destroy(&report);
            qf_graph_destroy(after);
            qf_rule_instance_destroy(&instance);
        }
        assert_true(found);
        check_destroy(context, &check);
    }
}

static void clauses_that_say_too_little_are_faults(void **state) {
    (void)state;
    static const struct {
        const char *clause, *message;
    } cases[] = {{"test", "nothing says what %x is"},
                 {"test %x = 7", "expected a type such as f32[A, 8]"},
                 {"test %x = f32[*]", "expected a type such as f32[A, 8]"}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        check_state check;
        qf_context *context = check_context(&check);
        char text[256];
        (void)snprintf(text, sizeof text,
                       "rule mine canonicalize numerics exact benefit 90\n\"Why.\"\nbefore\n  %%n = abs %%x\n"
                       "  %%y = abs %%n\nafter\n  %%y = abs %%x\n%s\nend\n",
                       cases[i].clause);
        load(context, &check, text);
        qf_rule_instance instance;
        assert_int_equal(
            qf_rule_instance_make(context, qf_rules_find(qf_rules_of(context), QF_TEXT("mine")), 0, 1, &instance),
            QF_ERROR_VERIFY);
        if (!strstr(check.messages, cases[i].message)) fail_msg("%s", check.messages);
        assert_non_null(strstr(check.messages, "mine.rules:1"));
        qf_rule_instance_destroy(&instance);
        check_destroy(context, &check);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule_keeps_its_numerics),
                                       cmocka_unit_test(wrong_rules_are_found),
                                       cmocka_unit_test(clauses_that_say_too_little_are_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
