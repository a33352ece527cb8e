/* Owns: tests of loading rules: the embedded ones are sound, and every fault is found where it stands. */
#include "tests/check.h"

#include "patterns/rules.h"

static void embedded_rules_load(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_rule_set *set = qf_rules_of(context);
    if (!set) print_message("%s", check.messages);
    assert_non_null(set);
    assert_true(set->rule_count > 30);
    check_destroy(context, &check);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(embedded_rules_load)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
