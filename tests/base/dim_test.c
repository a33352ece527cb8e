/* Owns: tests of base/dim.h.
 * Does not own: what a graph knows of its symbols (tests/ir/infer_graph_test.c).
 * Next: base/dim.h. */
#include "tests/check.h"

#include "base/dim.h"

static qf_dim read_dim(qf_context *context, const char *text) {
    qf_text rest = qf_text_of(text);
    qf_dim dim = qf_dim_parse(context, &rest);
    assert_int_not_equal(dim.id, 0);
    assert_int_equal(rest.size, 0);
    return dim;
}

static void expect_text(qf_context *context, qf_dim dim, const char *text) {
    qf_buffer buffer = {.context = context};
    qf_dim_print(&buffer, context, dim);
    assert_string_equal(buffer.data, text);
    qf_buffer_destroy(&buffer);
}

/* Reads `text`, prints it, and reads that again to the same dim. */
static void expect_normal(qf_context *context, const char *text, const char *normal) {
    qf_dim dim = read_dim(context, text);
    expect_text(context, dim, normal);
    assert_int_equal(read_dim(context, normal).id, dim.id);
}

static void expect_same(qf_context *context, const char *a, const char *b) {
    if (read_dim(context, a).id != read_dim(context, b).id) fail_msg("%s is not %s", a, b);
}

static void text_has_one_normal_form(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    expect_normal(context, "0", "0");
    expect_normal(context, "1 + T*B*2", "2*B*T + 1");
    expect_normal(context, "T-T", "0");
    expect_normal(context, "-T", "-T");
    expect_normal(context, "3 - 2*T", "-2*T + 3");
    expect_normal(context, "T*T + S + T", "T*T + S + T");
    expect_normal(context, "(T+1)*(T-1)", "T*T - 1");
    expect_normal(context, "min(T, 128)", "min(T, 128)");
    expect_normal(context, "min(128, T)", "min(T, 128)");
    expect_normal(context, "max(min(S, 4), T)", "max(T, min(S, 4))");
    expect_normal(context, "floordiv(T, 2)*2", "2*floordiv(T, 2)");
    expect_normal(context, "mod(T, 8)", "mod(T, 8)");
    expect_normal(context, "\"a b\\x01\\\"\" + past.len_0", "\"a b\\x01\\\"\" + past.len_0");
    expect_normal(context, "-9223372036854775808", "-9223372036854775808");
    expect_normal(context, "9223372036854775807*T", "9223372036854775807*T");
    expect_normal(context, "min + max*2", "2*max + min");
    check_destroy(context, &check);
}

static void text_ends_where_the_dim_ends(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    static const struct {
        const char *text, *rest;
    } cases[] = {{"T, S", ", S"}, {"2*T ]", " ]"}, {"T x", " x"}, {"4]", "]"}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        qf_text text = qf_text_of(cases[i].text);
        assert_int_not_equal(qf_dim_parse(context, &text).id, 0);
        assert_true(qf_text_is(text, cases[i].rest));
    }
    static const char *const bad[] = {"",
                                      "*",
                                      "T +",
                                      "T * ]",
                                      "min(T)",
                                      "min(T, 1",
                                      "\"a",
                                      "\"\\q\"",
                                      "floordiv(T, 0)",
                                      "(T",
                                      "9223372036854775808",
                                      "4611686018427387904*T*4",
                                      "99999999999999999999"};
    for (size_t i = 0; i < QF_COUNT_OF(bad); i++) {
        qf_text text = qf_text_of(bad[i]);
        assert_int_equal(qf_dim_parse(context, &text).id, 0);
        assert_ptr_equal(text.data, bad[i]);
    }
    char deep[4000];
    for (size_t i = 0; i < 3999; i++) deep[i] = '(';
    deep[3999] = '\0';
    qf_text text = qf_text_of(deep);
    assert_int_equal(qf_dim_parse(context, &text).id, 0);
    assert_int_equal(qf_context_status(context), QF_OK);
    check_destroy(context, &check);
}

static void text_does_not_depend_on_history(void **state) {
    (void)state;
    static const char *const orders[2][3] = {{"zeta", "alpha", "min(zeta, alpha)"},
                                             {"min(alpha, zeta)", "alpha", "zeta"}};
    for (int order = 0; order < 2; order++) {
        check_state check;
        qf_context *context = check_context(&check);
        for (int i = 0; i < 3; i++) (void)read_dim(context, orders[order][i]);
        expect_normal(context, "zeta*alpha + zeta + alpha + min(zeta, alpha)",
                      "alpha*zeta + alpha + zeta + min(alpha, zeta)");
        check_destroy(context, &check);
    }
}

static void division_is_exact_or_refused(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    static const struct {
        const char *a, *b, *quotient; /* NULL: none */
    } cases[] = {{"T*D", "D", "T"},
                 {"6*T", "4", NULL},
                 {"6*T", "3", "2*T"},
                 {"T*T - 1", "T + 1", "T - 1"},
                 {"T*T + 1", "T + 1", NULL},
                 {"0", "T", "0"},
                 {"T", "0", NULL},
                 {"T + 1", "T", NULL},
                 {"B*T*H + B*S*H", "B*H", "S + T"},
                 {"T", "-1", "-T"},
                 {"T", "T", "1"},
                 {"T", "S", NULL},
                 {"A*B - C*D", "A", NULL}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        qf_dim quotient = qf_dim_divide_exactly(context, read_dim(context, cases[i].a), read_dim(context, cases[i].b));
        if (cases[i].quotient)
            expect_text(context, quotient, cases[i].quotient);
        else
            assert_int_equal(quotient.id, 0);
    }
    assert_int_equal(qf_context_status(context), QF_OK);
    check_destroy(context, &check);
}

static void derived_symbols_fold(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    expect_same(context, "floordiv(4*T + 7, 4)", "T + 1");
    expect_same(context, "floordiv(4*T + S, 4)", "T + floordiv(S, 4)");
    expect_same(context, "floordiv(-T, 2)", "floordiv(T, 2) - T");
    expect_same(context, "floordiv(6*T + 3, 4)", "T + floordiv(2*T + 3, 4)");
    expect_same(context, "floordiv(2*T + 3, 4)", "floordiv(T + 1, 2)");
    expect_same(context, "floordiv(floordiv(T, 2) + 1, 3)", "floordiv(T + 2, 6)");
    expect_same(context, "floordiv(T*D + 5*D, D)", "T + 5");
    expect_same(context, "floordiv(T*D + S, D)", "T + floordiv(S, D)");
    expect_same(context, "floordiv(mod(T, 4), 4)", "0");
    expect_same(context, "floordiv(-7, 2)", "-4");
    expect_same(context, "floordiv(7, -2)", "-4");
    expect_same(context, "mod(8*T, 4)", "0");
    expect_same(context, "mod(8*T + 5, 4)", "1");
    expect_same(context, "mod(-5, 4)", "3");
    expect_same(context, "mod(T*D + S, D)", "mod(S, D)");
    expect_same(context, "mod(mod(T, 4), 8)", "mod(T, 4)");
    expect_same(context, "min(3, 5)", "3");
    expect_same(context, "max(3, 5)", "5");
    expect_same(context, "min(T, T + 1)", "T");
    expect_same(context, "max(T, T + 1)", "T + 1");
    expect_same(context, "max(T, 0)", "T");
    expect_same(context, "max(T, -3)", "T");
    expect_same(context, "min(min(T, 128), 64)", "min(T, 64)");
    expect_same(context, "min(T, min(S, T))", "min(S, T)");
    expect_same(context, "min(min(T, S), min(S, 4))", "min(min(4, T), S)");
    expect_same(context, "min(max(T, 4), T)", "T");
    expect_same(context, "max(min(T, 128), T)", "T");
    check_destroy(context, &check);
}

static void bounds_use_facts(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    (void)read_dim(context, "T + S");
    qf_symbol_fact items[] = {{qf_dim_symbol_find(context, QF_TEXT("T")), 1, 100, 1},
                              {qf_dim_symbol_find(context, QF_TEXT("S")), 8, INT64_MAX, 1}};
    qf_symbol_facts facts = {items, 2};
    static const struct {
        const char *dim;
        bool has_low, has_high;
        int64_t low, high;
    } cases[] = {{"T", true, true, 1, 100},
                 {"S", true, false, 8, 0},
                 {"U", true, false, 0, 0},
                 {"-S + 3", false, true, 0, -5},
                 {"T*S", true, false, 8, 0},
                 {"T - min(T, 5)", true, true, 0, 95},
                 {"S - mod(S, 8)", true, false, 1, 0},
                 {"U - floordiv(U, 2)", true, false, 0, 0},
                 {"floordiv(T, 10)", true, true, 0, 10},
                 {"mod(S, 16)", true, true, 0, 15},
                 {"max(S, U) - U", true, false, 0, 0},
                 {"min(T, S)", true, true, 1, 100},
                 {"U - min(U, 3) - 1", true, false, -1, 0}};
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        int64_t bound = 0;
        qf_dim dim = read_dim(context, cases[i].dim);
        assert_int_equal(qf_dim_lower_bound(context, &facts, dim, &bound), cases[i].has_low);
        if (cases[i].has_low && bound != cases[i].low) fail_msg("%s >= %lld", cases[i].dim, (long long)bound);
        assert_int_equal(qf_dim_upper_bound(context, &facts, dim, &bound), cases[i].has_high);
        if (cases[i].has_high && bound != cases[i].high) fail_msg("%s <= %lld", cases[i].dim, (long long)bound);
    }
    check_destroy(context, &check);
}

/* A divisor that can only be 0 has no quotient to bound. */
static void bounds_of_impossible_divisions(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_dim quotient = read_dim(context, "floordiv(S, T)"), rest = read_dim(context, "mod(S, T)");
    qf_symbol_fact fact = {qf_dim_symbol_find(context, QF_TEXT("T")), 0, 0, 1};
    qf_symbol_facts facts = {&fact, 1};
    int64_t bound;
    assert_false(qf_dim_lower_bound(context, &facts, quotient, &bound));
    assert_false(qf_dim_upper_bound(context, &facts, rest, &bound));
    check_destroy(context, &check);
}

/* The text of a dim reads back as the same dim, also where operands rule each other out only together. */
static void folded_extremes_are_stable(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_dim dim = read_dim(context, "max(max(max(e + 5, c + a), max(c, e) - 53), 96)");
    expect_text(context, dim, "max(max(a + c, e + 5), 96)");
    expect_normal(context, "max(max(a + c, e + 5), 96)", "max(max(a + c, e + 5), 96)");
    check_destroy(context, &check);
}

static void substitution_reaches_derived_symbols(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_dim dim = read_dim(context, "B*T + min(T, 128) + floordiv(T + S, 2)");
    qf_dim_symbol symbol = qf_dim_symbol_find(context, QF_TEXT("T"));
    assert_true(qf_dim_mentions(context, dim, symbol));
    qf_dim replaced = qf_dim_substitute(context, dim, symbol, qf_dim_constant(context, 16));
    assert_false(qf_dim_mentions(context, replaced, symbol));
    assert_int_equal(replaced.id, read_dim(context, "16*B + 24 + floordiv(S, 2)").id);
    check_destroy(context, &check);
}

static void limits_are_statuses(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    qf_dim big = qf_dim_constant(context, INT64_MAX);
    assert_int_equal(qf_dim_add(context, big, qf_dim_constant(context, 1)).id, 0);
    assert_int_equal(qf_context_status(context), QF_ERROR_LIMIT);
    assert_int_equal(qf_dim_multiply(context, big, big).id, 0);
    qf_dim power = qf_dim_named(context, QF_TEXT("T"));
    for (int i = 0; i < 7; i++) power = qf_dim_multiply(context, power, power);
    assert_int_equal(power.id, 0);
    /* Every level names the one below twice; written out, it would double each time. */
    qf_dim tower = qf_dim_named(context, QF_TEXT("T"));
    for (int i = 0; i < 100; i++) tower = qf_dim_floor_divide(context, tower, qf_dim_add_constant(context, tower, 2));
    assert_int_equal(tower.id, 0);
    assert_int_equal(qf_dim_add(context, tower, big).id, 0);
    qf_context_clear_status(context);
    qf_dim first = qf_dim_fresh(context, "u"), second = qf_dim_fresh(context, "u");
    assert_int_not_equal(first.id, second.id);
    assert_int_equal(qf_context_status(context), QF_OK);
    check_destroy(context, &check);
}

/* --- random dims against plain integers --- */

enum { SYMBOLS = 3 };
static const char *const symbol_names[SYMBOLS] = {"A", "B", "C"};

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static bool lookup(void *user, qf_dim_symbol symbol, int64_t *out_value) {
    const struct {
        const qf_context *context;
        const int64_t *values;
    } *table = user;
    for (int i = 0; i < SYMBOLS; i++)
        if (qf_text_is(qf_string_text(table->context, qf_dim_symbol_name(table->context, symbol)), symbol_names[i])) {
            *out_value = table->values[i];
            return true;
        }
    return false;
}

static int64_t floor_divide(int64_t a, int64_t b) {
    return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

enum { POINTS = 6 };
typedef struct sample {
    qf_dim dim;
    int64_t at[POINTS];
    bool defined[POINTS];
} sample;

static sample combine(qf_context *context, uint64_t kind, const sample *a, const sample *b) {
    sample out = {{0}, {0}, {false}};
    switch (kind) {
    case 0: out.dim = qf_dim_add(context, a->dim, b->dim); break;
    case 1: out.dim = qf_dim_subtract(context, a->dim, b->dim); break;
    case 2: out.dim = qf_dim_multiply(context, a->dim, b->dim); break;
    case 3: out.dim = qf_dim_floor_divide(context, a->dim, b->dim); break;
    case 4: out.dim = qf_dim_modulo(context, a->dim, b->dim); break;
    case 5: out.dim = qf_dim_minimum(context, a->dim, b->dim); break;
    default: out.dim = qf_dim_maximum(context, a->dim, b->dim); break;
    }
    for (int p = 0; p < POINTS; p++) {
        int64_t x = a->at[p], y = b->at[p];
        bool divides = kind == 3 || kind == 4;
        out.defined[p] =
            a->defined[p] && b->defined[p] && !(divides && y == 0) && llabs(x) < 1 << 20 && llabs(y) < 1 << 20;
        if (!out.defined[p]) continue;
        out.at[p] = kind == 0   ? x + y
                    : kind == 1 ? x - y
                    : kind == 2 ? x * y
                    : kind == 3 ? floor_divide(x, y)
                    : kind == 4 ? x - y * floor_divide(x, y)
                    : kind == 5 ? (x < y ? x : y)
                                : (x > y ? x : y);
    }
    return out;
}

/* Reads the printed dim again, and puts numbers in symbol by symbol. */
static void check_text_and_substitution(qf_context *context, qf_dim dim, const int64_t *values, int64_t expected) {
    qf_buffer text = {.context = context};
    qf_dim_print(&text, context, dim);
    qf_text rest = {text.data, text.size};
    qf_dim again = qf_dim_parse(context, &rest);
    if (again.id != dim.id || rest.size) fail_msg("%s reads as another dim", text.data);
    for (int s = 0; s < SYMBOLS && dim.id; s++)
        dim = qf_dim_substitute(context, dim, qf_dim_symbol_find(context, qf_text_of(symbol_names[s])),
                                qf_dim_constant(context, values[s]));
    if (dim.id && !qf_dim_is(context, dim, expected)) fail_msg("%s becomes another number", text.data);
    qf_buffer_destroy(&text);
}

static void random_dims_evaluate_as_integers(void **state) {
    (void)state;
    check_state check;
    qf_context *context = check_context(&check);
    uint64_t seed = 7;
    int64_t values[POINTS][SYMBOLS];
    for (int p = 0; p < POINTS; p++)
        for (int s = 0; s < SYMBOLS; s++) values[p][s] = p == 0 ? 0 : (int64_t)(next_random(&seed) % 40);
    uint32_t compared = 0;
    for (int round = 0; round < 2000; round++) {
        sample pool[12];
        int count = 0;
        for (int s = 0; s < SYMBOLS; s++, count++) {
            pool[count].dim = qf_dim_named(context, qf_text_of(symbol_names[s]));
            for (int p = 0; p < POINTS; p++) pool[count].at[p] = values[p][s], pool[count].defined[p] = true;
        }
        for (; count < 5; count++) {
            int64_t constant = (int64_t)(next_random(&seed) % 17) - 8;
            pool[count].dim = qf_dim_constant(context, constant);
            for (int p = 0; p < POINTS; p++) pool[count].at[p] = constant, pool[count].defined[p] = true;
        }
        for (; count < 12; count++) {
            pool[count] = combine(context, next_random(&seed) % 7, &pool[next_random(&seed) % (unsigned)count],
                                  &pool[next_random(&seed) % (unsigned)count]);
            if (!pool[count].dim.id) break;
            int64_t low = 0, high = 0;
            bool has_low = qf_dim_lower_bound(context, NULL, pool[count].dim, &low);
            bool has_high = qf_dim_upper_bound(context, NULL, pool[count].dim, &high);
            for (int p = 0; p < POINTS; p++) {
                struct {
                    const qf_context *context;
                    const int64_t *values;
                } table = {context, values[p]};
                int64_t value;
                if (!pool[count].defined[p] || !qf_dim_evaluate(context, pool[count].dim, lookup, &table, &value))
                    continue;
                if (value != pool[count].at[p] || (has_low && value < low) || (has_high && value > high)) {
                    qf_buffer text = {.context = context};
                    qf_dim_print(&text, context, pool[count].dim);
                    fail_msg("%s: %lld, expected %lld, bounds %lld %lld", text.data, (long long)value,
                             (long long)pool[count].at[p], (long long)low, (long long)high);
                }
                if (p == 1) check_text_and_substitution(context, pool[count].dim, values[p], value);
                compared++;
            }
        }
        qf_context_clear_status(context);
    }
    assert_true(compared > 20000);
    check_destroy(context, &check);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_has_one_normal_form),
        cmocka_unit_test(text_ends_where_the_dim_ends),
        cmocka_unit_test(text_does_not_depend_on_history),
        cmocka_unit_test(division_is_exact_or_refused),
        cmocka_unit_test(derived_symbols_fold),
        cmocka_unit_test(bounds_use_facts),
        cmocka_unit_test(bounds_of_impossible_divisions),
        cmocka_unit_test(folded_extremes_are_stable),
        cmocka_unit_test(substitution_reaches_derived_symbols),
        cmocka_unit_test(limits_are_statuses),
        cmocka_unit_test(random_dims_evaluate_as_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
