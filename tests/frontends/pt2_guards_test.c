/* Owns: tests of what guards of programs become: facts, assumptions, nothing, one warning.
 * Does not own: ranges (pt2_ops_test.c), who checks assumptions (tests/runtime).
 * Next: frontends/pt2/guards.c. */
#include "tests/frontends/pt2_reading.h"

/* x f32[s1, 8], y f32[s2, 8], p_a f32[s3], n = s4. */
static reading with(const char *guards) {
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "input x 7[s1,8]\ninput y 7[s2,8]\ninput p_a 7[s3]\ninput xs_1 7[s0]\nnumber n s4\n%s\n"
                   "a 7[s1,8] = aten.neg.default self=%%x\nb 7[s2,8] = aten.neg.default self=%%y\n"
                   "c 7[s3] = aten.neg.default self=%%p_a\nd 7[s0] = aten.neg.default self=%%xs_1\n"
                   "output a\noutput b\noutput c\noutput d\n",
                   guards);
    return r_text(text);
}

static void assumes(const char *guard, const char *wanted) {
    char line[512];
    (void)snprintf(line, sizeof line, "guard %s", guard);
    reading r = with(line);
    if (r.graph->guard_count != 1) fail_msg("%s: %u assumptions", guard, r.graph->guard_count);
    r_has(&r, wanted);
    r_has(&r, guard); /* the place of a broken one */
    assert_string_equal(state.messages, "");
    r_end(&r);
}

static void equalities_are_assumed(void **unused) {
    (void)unused;
    assumes("L['x'].size()[0] == L['y'].size()[0]", "assume(s1 == s2 ");
    assumes("(2*L['x'].size()[0]) == L['y'].size()[0]", "assume(2*s1 == s2 ");
    assumes("L['p']['a'].size()[0] == 3 + L['x'].size()[0]", "assume(s3 == s1 + 3 ");
    assumes("L['P'].a.size()[0] == L['xs'][1].size()[0]", "assume(s3 == s0 ");
    assumes("L['x'].size()[0] // 2 == L['n']", "assume(floordiv(s1, 2) == s4 ");
    assumes("torch.sym_max(1, L['x'].size()[0]) == L['y'].size()[0]", "assume(max(s1, 1) == s2 ");
    assumes("torch.sym_min(L['n'], L['x'].size()[0]) == -(-1)*L['y'].size()[0]", "assume(min(s1, s4) == s2 ");
    assumes("((2*L['x'].size()[0]) % 4) == 0", "assume(mod(2*s1, 4) == 0 ");
}

/* What is no equality of sizes is written as one. */
static void orders_are_assumed(void **unused) {
    (void)unused;
    assumes("L['x'].size()[0] <= L['y'].size()[0]", "assume(min(s1, s2) == s1 ");
    assumes("L['x'].size()[0] > L['y'].size()[0]", "assume(min(s1, s2 + 1) == s2 + 1 ");
    assumes("0 <= L['x'].size()[0] + ((-1)*L['n'])", "assume(min(s1 - s4, 0) == 0 ");
    assumes("L['x'].size()[0] != L['y'].size()[0]", "assume(min(s1*s1 - 2*s1*s2 + s2*s2, 1) == 1 ");
}

static void bounds_are_facts(void **unused) {
    (void)unused;
    reading r = with("guard L['x'].size()[0] <= 16\nguard 3 <= L['x'].size()[0]\nguard L['y'].size()[0] < 10 and "
                     "L['y'].size()[0] >= 2\nguard L['p']['a'].size()[0] % 8 == 0\nguard L[\"n\"] > 4");
    r_has(&r, "s1 min 3 max 16");
    r_has(&r, "s2 min 2 max 9");
    r_has(&r, "s3 div 8");
    r_has(&r, "s4 min 5");
    assert_int_equal(r.graph->guard_count, 0);
    r_end(&r);
}

/* s0 is 1 to 128 by its range. */
static void what_is_known_is_not_checked(void **unused) {
    (void)unused;
    reading r = with("guard L['xs'][1].size()[0] <= 128\nguard L['xs'][1].size()[0] != 0\nguard L['x'].size()[1] == 8\n"
                     "guard L['x'].size()[0] == L['x'].size()[0]\nguard 2*L['x'].size()[0] >= L['x'].size()[0]\n"
                     "guard L['xs'][1].size()[0] != 129");
    assert_int_equal(r.graph->guard_count, 0);
    assert_int_equal(r.graph->fact_count, 1);
    assert_string_equal(state.messages, "");
    r_end(&r);
}

static void what_is_not_understood_is_one_warning(void **unused) {
    (void)unused;
    static const char *const guards[] = {"L['x'].size()[2] == 4",
                                         "L['z'].size()[0] == 4",
                                         "L['x'].stride()[0] == 8",
                                         "L['x'] == 8",
                                         "L['n'].size()[0] == 8",
                                         "L['x'].size()[0] ** 2 == 4",
                                         "L['x'].size()[0] / 2 == 4",
                                         "(L['x'].size()[0] == 4",
                                         "L['x'].size()[0] == 4 or L['x'].size()[0] == 5",
                                         "L['x'].size()[0]",
                                         "not L['x'].size()[0] == 4",
                                         "L['x'].size()[0] == 99999999999999999999",
                                         "L['x'.size()[0] == 4",
                                         "L['x].size()[0] == 4",
                                         "L[].size()[0] == 4",
                                         "L['x'].size()[1] == 9",
                                         "4611686018427387904*L['x'].size()[0]*4 == 8",
                                         "L['x'].size()[0] // 0 == 4",
                                         "L['x'].size()[0] % 0 == 4",
                                         "math.inf > L['x'].size()[0]",
                                         ""};
    for (size_t i = 0; i < QF_COUNT_OF(guards); i++) {
        char line[512];
        (void)snprintf(line, sizeof line, "guard %s", guards[i]);
        reading r = with(line);
        if (r.graph->guard_count) fail_msg("%s: was assumed", guards[i]);
        if (!strstr(state.messages, "1 of the program's guards are not checked") || !strstr(state.messages, guards[i]))
            fail_msg("%s: %s", guards[i], state.messages);
        r_end(&r);
    }
    reading r = with("guard L['z'] == 1\nguard L['x'].size()[0] == 4\nguard L['z'] == 2");
    assert_int_equal(r.graph->guard_count, 1);
    assert_non_null(strstr(state.messages, "2 of the program's guards"));
    r_end(&r);
}

static void nesting_ends(void **unused) {
    (void)unused;
    char deep[512] = "guard ";
    for (int i = 0; i < 200; i++) strcat(deep, i % 2 ? "-" : "(");
    reading r = with(deep);
    assert_int_equal(r.graph->guard_count, 0);
    r_end(&r);
}

/* A program that writes a buffer is imported twice: its guards are said once. */
static void warnings_are_not_repeated(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[4]\nbuffer b 7[4]\nguard L['z'] == 1\n"
                       "y 7[4] = aten.add_.Tensor self=%b other=%x\noutput y\n");
    const char *first = strstr(state.messages, "guards are not checked");
    assert_non_null(first);
    assert_null(strstr(first + 1, "guards are not checked"));
    r_end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equalities_are_assumed),
                                       cmocka_unit_test(orders_are_assumed),
                                       cmocka_unit_test(bounds_are_facts),
                                       cmocka_unit_test(what_is_known_is_not_checked),
                                       cmocka_unit_test(what_is_not_understood_is_one_warning),
                                       cmocka_unit_test(nesting_ends),
                                       cmocka_unit_test(warnings_are_not_repeated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
