/* Owns: tests of what is left out of a program's JSON before it is read, and of what is not.
 * Does not own: damaged archives (pt2_hostile_test.c).
 * Next: frontends/pt2/json.c. */
#include "tests/check.h"

#include "frontends/pt2/json.h"

static check_state state;

/* `wanted` NULL: a fault. */
static void expect(const char *text, const char *wanted) {
    qf_context *context = check_context(&state);
    json_t *document = qf_pt2_json_parse(context, "test", (const uint8_t *)text, strlen(text));
    char *found = document ? json_dumps(document, JSON_COMPACT) : strdup("a fault");
    assert_non_null(found);
    if (strcmp(found, wanted ? wanted : "a fault") != 0)
        fail_msg("%s\nbecame   %s\nexpected %s", text, found, wanted ? wanted : "a fault");
    free(found);
    json_decref(document);
    check_destroy(context, &state);
}

static void pairs_that_nothing_reads(void **unused) {
    (void)unused;
    expect("{\"torch_fn\":\"a;b\",\"x\":1}", "{\"x\":1}");
    expect("{\"x\":1,\"torch_fn\":\"a;b\"}", "{\"x\":1}");
    expect("{\"x\":1 , \"torch_fn\" : \"a\\\"b\\\\\" }", "{\"x\":1}");
    expect("{\"torch_fn\":\"\"}", "{}");
    expect("{ \"torch_fn\" : \"\" , \"from_node\":\"[{}]\"\n}", "{}");
    expect("{\"x\":1,\"layout\":7,\"requires_grad\":false}", "{\"x\":1}");
    expect("{\"x\":[{\"layout\":7},2]}", "{\"x\":[{},2]}");
    expect("{\"device\":{\"type\":\"cpu\",\"index\":null},\"x\":1}", "{\"x\":1}");
    expect("{\"x\":1,\"device\": {\"type\": \"cuda\", \"index\": 0}}", "{\"x\":1}");
    expect("{\"as_expr\":{\"expr_str\":\"s0\",\"hint\":{\"as_int\":2}}}", "{\"as_expr\":{\"expr_str\":\"s0\"}}");
    expect("{\"expr_str\": \"s0\" , \"hint\": null, \"y\":2}", "{\"expr_str\":\"s0\",\"y\":2}");
    expect("{\"a\":2,\"is_hop_single_tensor_return\":null}", "{\"a\":2}");
}

/* Of the modules that a node lies in the innermost one's path is read. */
static void modules_become_a_path(void **unused) {
    (void)unused;
    expect("{\"nn_module_stack\":\"L__self__,,m.Model;L__self__l.0,l.0,m.Layer\",\"x\":1}",
           "{\"nn_module_stack\":\"l.0\",\"x\":1}");
    expect("{\"nn_module_stack\": \"L__self__,,m.Model\"}", "{\"nn_module_stack\":\"\"}");
    expect("{\"x\":1,\"nn_module_stack\":\"a,b,c\",\"torch_fn\":\"f\"}", "{\"x\":1,\"nn_module_stack\":\"b\"}");
    static const char *const kept[] = {"{\"nn_module_stack\":\"\"}", "{\"nn_module_stack\":\"a,b\"}",
                                       "{\"nn_module_stack\":\"a,b,c,d\"}", "{\"nn_module_stack\":\"a,\\\"b,c\"}",
                                       "{\"nn_module_stack\":\"a,b,c;\"}"};
    for (size_t i = 0; i < QF_COUNT_OF(kept); i++) expect(kept[i], kept[i]);
    expect("{\"nn_module_stack\":\"a,b,c", NULL);
    expect("{\"nn_module_stack\":\"a,b,c\"", NULL);
}

/* Tensors, numbers and weights may have these names. */
static void names_that_look_like_keys(void **unused) {
    (void)unused;
    static const char *const kept[] = {
        "{\"layout\":{\"dtype\":7}}",
        "{\"device\":{\"dtype\":7,\"type\":1}}",
        "{\"torch_fn\":{\"dtype\":7},\"nn_module_stack\":[1],\"from_node\":2}",
        "{\"requires_grad\":{\"as_int\":1},\"is_hop_single_tensor_return\":\"x\"}",
        "{\"hint\":{\"as_int\":5}}",
        "{\"y\":\"expr_str\",\"hint\":{\"as_int\":5}}",
        "{\"expr_str\":\"a\",\"z\":1,\"hint\":{\"as_int\":5}}",
        "{\"expr_str\":{\"as_int\":4},\"hint\":7}",
        "[\"layout\",7,\"torch_fn\",\"x\"]",
        "{\"x\":\"layout\",\"y\":\"torch_fn\"}",
        "{\"xlayout\":7,\"layou\":7,\"\":3}",
    };
    for (size_t i = 0; i < QF_COUNT_OF(kept); i++) expect(kept[i], kept[i]);
}

static void what_is_broken_stays_broken(void **unused) {
    (void)unused;
    static const char *const broken[] = {
        "{\"torch_fn\":\"x",
        "{\"torch_fn\":",
        "{\"torch_fn\"",
        "{\"torch_fn",
        "{\"layout\":7",
        "{\"layout\":7,",
        "{\"layout\":7]",
        "{\"x\":1 \"layout\":7}",
        "{\"device\":{\"type\":\"c\"",
        "{\"device\":{\"type\"",
        "{\"device\":{",
        "{\"layout\":7 8}",
        "{\"expr_str\":\"a\",\"hint\":{",
        "{\"x\":1,,\"layout\":7}",
        "{\"x\":1,\"layout\":7,}",
        "\"",
        "{\"x\":1,\"layout\":7}}",
        "{\"torch_fn\":\"a\" \"b\"}",
        "{\"a\":\"\\\"}",
        "",
    };
    for (size_t i = 0; i < QF_COUNT_OF(broken); i++) expect(broken[i], NULL);
}

/* Each prefix of a program, and each with a byte changed: nothing that JSON refuses is read, and nothing is read
 * wildly. */
static void damage_is_not_repaired(void **unused) {
    (void)unused;
    static const char whole[] =
        "{\"n\":[{\"m\":{\"torch_fn\":\"a;b\",\"s\":\"t\"},\"layout\":7},{\"device\":{\"type\":\"c\"},"
        "\"e\":{\"expr_str\":\"s0\",\"hint\":{\"as_int\":2}}}],\"requires_grad\":true}";
    expect(whole, "{\"n\":[{\"m\":{\"s\":\"t\"}},{\"e\":{\"expr_str\":\"s0\"}}]}");
    char text[sizeof whole];
    for (size_t cut = 0; cut + 1 < sizeof whole; cut++) {
        (void)snprintf(text, sizeof text, "%.*s", (int)cut, whole);
        expect(text, NULL);
    }
    static const char bytes[] = "\"{}[]:,x\\ ";
    for (size_t at = 0; at + 1 < sizeof whole; at++) {
        for (size_t b = 0; bytes[b]; b++) {
            memcpy(text, whole, sizeof whole);
            text[at] = bytes[b];
            qf_context *context = check_context(&state);
            json_t *document = qf_pt2_json_parse(context, "test", (const uint8_t *)text, strlen(text));
            assert_int_equal(document != NULL, qf_context_status(context) == QF_OK);
            json_decref(document);
            qf_context_clear_status(context);
            check_destroy(context, &state);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_that_nothing_reads), cmocka_unit_test(modules_become_a_path),
        cmocka_unit_test(names_that_look_like_keys), cmocka_unit_test(what_is_broken_stays_broken),
        cmocka_unit_test(damage_is_not_repaired)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
