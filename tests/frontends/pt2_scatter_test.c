/* Owns: tests of writes along one axis at indices: replacing, sums and other folds, by numbers; what stays opaque.
 * Does not own: writes at slices (pt2_index_test.c).
 * Next: frontends/pt2/map_scatter.c. */
#include <math.h>

#include "tests/frontends/pt2_reading.h"

static float x[] = {1, 2, 3, 4, 5, 6};                  /* [3, 2] */
static float rows[] = {10, 20, 30, 40, 50, 60, 70, 80}; /* [4, 2] */
static int64_t to_rows[] = {2, 0, 2, 2}, pairs[] = {0, 1, 0, 0};

static void expect(const char *text, void *const *others, uint32_t other_count, const float *wanted, uint32_t count) {
    reading r = r_text(text);
    float *inputs[4] = {x};
    for (uint32_t i = 0; i < other_count; i++) inputs[i + 1] = others[i];
    r_lacks(&r, "opaque");
    r_gives(&r, inputs, 0, wanted, count);
    r_end(&r);
}

#define ROWS "input x 7[3,2]\ninput i 5[4]\ninput s 7[4,2]\n"

static void adds_rows(void **unused) {
    (void)unused;
    void *operands[] = {to_rows, rows};
    expect(ROWS "y 7[3,2] = aten.index_add.default self=%x dim=0 index=%i source=%s\noutput y\n", operands, 2,
           (float[]){31, 42, 3, 4, 135, 166}, 6);
    expect(ROWS "y 7[3,2] = aten.index_add.default self=%x dim=-2 index=%i source=%s alpha=2\noutput y\n", operands, 2,
           (float[]){61, 82, 3, 4, 265, 326}, 6);
    expect(ROWS "w 7[3,2] = aten.index_add_.default self=%x dim=0 index=%i source=%s\n"
                "y 7[3,2] = aten.clone.default self=%x\noutput y\n",
           operands, 2, (float[]){31, 42, 3, 4, 135, 166}, 6);
    expect(ROWS "y 7[3,2] = aten.index_put.default self=%x indices=[%i] values=%s accumulate=true\noutput y\n",
           operands, 2, (float[]){31, 42, 3, 4, 135, 166}, 6);
    expect(ROWS "u 5[4,1] = aten.unsqueeze.default self=%i dim=1\ne 5[4,2] = aten.expand.default self=%u size=[-1,2]\n"
                "y 7[3,2] = aten.scatter_add.default self=%x dim=0 index=%e src=%s\noutput y\n",
           operands, 2, (float[]){31, 42, 3, 4, 135, 166}, 6);
    expect("input x 7[2,3]\ninput i 5[4]\ninput s 7[2,4]\n"
           "y 7[2,3] = aten.index_add.default self=%x dim=1 index=%i source=%s\noutput y\n",
           operands, 2, (float[]){21, 2, 83, 64, 5, 206}, 6);
}

/* An infinity or a NaN reaches its own place only. */
static void what_is_not_finite_stays_in_its_row(void **unused) {
    (void)unused;
    float odd[] = {INFINITY, 1, NAN, 2, -INFINITY, 3, 4, -INFINITY};
    reading r = r_text(ROWS "y 7[3,2] = aten.index_add.default self=%x dim=0 index=%i source=%s\n"
                            "z 7[3,2] = aten.nan_to_num.default self=%y nan=9.0 posinf=8.0 neginf=7.0\noutput z\n");
    r_gives(&r, (float *[]){x, (float *)(void *)to_rows, odd}, 0, (float[]){9, 4, 3, 4, 9, 7}, 6);
    r_end(&r);
    float up[] = {INFINITY, 1, 2, 2, 1, 3, 4, -INFINITY};
    r = r_text(ROWS "y 7[3,2] = aten.index_add.default self=%x dim=0 index=%i source=%s\n"
                    "z 7[3,2] = aten.nan_to_num.default self=%y nan=9.0 posinf=8.0 neginf=7.0\noutput z\n");
    r_gives(&r, (float *[]){x, (float *)(void *)to_rows, up}, 0, (float[]){3, 4, 3, 4, 8, 7}, 6);
    r_end(&r);
}

static void adds_at_tuples(void **unused) {
    (void)unused;
    int64_t first[] = {0, -1, 0, 0}, second[] = {1, 0, 1, -2};
    float some[] = {10, 20, 30, 40};
    expect("input x 7[3,2]\ninput i 5[4]\ninput j 5[4]\ninput s 7[4]\n"
           "y 7[3,2] = aten.index_put.default self=%x indices=[%i,%j] values=%s accumulate=true\noutput y\n",
           (void *[]){first, second, some}, 3, (float[]){41, 42, 3, 4, 25, 6}, 6);
    expect("input x 7[1,3,2]\ninput i 5[4]\ninput s 7[4,2]\n"
           "y 7[1,3,2] = aten.index_put.default self=%x indices=[None,%i] values=%s accumulate=true\noutput y\n",
           (void *[]){to_rows, rows}, 2, (float[]){31, 42, 3, 4, 135, 166}, 6);
}

#define PAIRS "input x 7[2,3]\ninput i 5[2,2]\ninput s 7[2,4]\n"

/* x {{1, 2, 3}, {4, 5, 6}}; at {{0, 1}, {0, 0}}: {{10, 20}, {50, 60}}, a part of the source. */
static void folds(void **unused) {
    (void)unused;
    static const struct folded {
        const char *call;
        float wanted[6];
    } all[] = {
        {"scatter_add.default self=%x dim=1 index=%i src=%s", {11, 22, 3, 114, 5, 6}},
        {"scatter.reduce self=%x dim=1 index=%i src=%s reduce='add", {11, 22, 3, 114, 5, 6}},
        {"scatter.reduce self=%x dim=1 index=%i src=%s reduce='multiply", {10, 40, 3, 12000, 5, 6}},
        {"scatter.value_reduce self=%x dim=1 index=%i value=3.0 reduce='add", {4, 5, 3, 10, 5, 6}},
        {"scatter.value_reduce self=%x dim=1 index=%i value=3 reduce='multiply", {3, 6, 3, 36, 5, 6}},
        {"scatter_reduce.two self=%x dim=1 index=%i src=%s reduce='sum include_self=false", {10, 20, 3, 110, 5, 6}},
        {"scatter_reduce.two self=%x dim=1 index=%i src=%s reduce='prod include_self=false", {10, 20, 3, 3000, 5, 6}},
        {"scatter_reduce.two self=%x dim=1 index=%i src=%s reduce='mean", {5.5F, 11, 3, 38, 5, 6}},
        {"scatter_reduce.two self=%x dim=1 index=%i src=%s reduce='mean include_self=false", {10, 20, 3, 55, 5, 6}},
        {"scatter_reduce.two self=%x dim=1 index=%i src=%s reduce='amax", {10, 20, 3, 60, 5, 6}},
        {"scatter_reduce.two self=%x dim=1 index=%i src=%s reduce='amin", {1, 2, 3, 4, 5, 6}},
        {"scatter_reduce.two self=%x dim=1 index=%i src=%s reduce='amin include_self=false", {10, 20, 3, 50, 5, 6}},
    };
    for (size_t i = 0; i < QF_COUNT_OF(all); i++) {
        char text[512];
        (void)snprintf(text, sizeof text, PAIRS "y 7[2,3] = aten.%s\noutput y\n", all[i].call);
        expect(text, (void *[]){pairs, rows}, 2, all[i].wanted, 6);
    }
    expect("input x 7[6]\ninput i 5[4]\nc 5[6] = aten.to.dtype self=%x dtype=dtype:5\n"
           "a 5[6] = aten.scatter_add.default self=%c dim=0 index=%i src=%i\n"
           "y 7[6] = aten.to.dtype self=%a dtype=dtype:7\noutput y\n",
           (void *[]){to_rows}, 1, (float[]){1, 2, 9, 4, 5, 6}, 6);
}

/* Of integers of every width, below and above 0. */
static void folds_extremes_of_integers(void **unused) {
    (void)unused;
    static const int types[] = {2, 4, 5}; /* i8, i32, i64 */
    static const struct {
        const char *call;
        float sign, wanted[6];
    } all[] = {
        {"amax", -1, {-1, -2, -3, -4, -5, -6}},
        {"amin", 1, {1, 2, 3, 4, 5, 6}},
        {"amax include_self=false", -1, {-10, -20, -3, -50, -5, -6}},
        {"amin include_self=false", 1, {10, 20, 3, 50, 5, 6}},
    };
    for (size_t i = 0; i < QF_COUNT_OF(all); i++)
        for (size_t k = 0; k < QF_COUNT_OF(types); k++) {
            char text[768];
            (void)snprintf(text, sizeof text,
                           PAIRS "xn 7[2,3] = aten.mul.Scalar self=%%x other=%.1f\n"
                                 "sn 7[2,2] = aten.mul.Scalar self=%%s other=%.1f\n"
                                 "c %d[2,3] = aten.to.dtype self=%%xn dtype=dtype:%d\n"
                                 "d %d[2,2] = aten.to.dtype self=%%sn dtype=dtype:%d\n"
                                 "a %d[2,3] = aten.scatter_reduce.two self=%%c dim=1 index=%%i src=%%d reduce='%s\n"
                                 "y 7[2,3] = aten.to.dtype self=%%a dtype=dtype:7\noutput y\n",
                           (double)all[i].sign, (double)all[i].sign, types[k], types[k], types[k], types[k], types[k],
                           all[i].call);
            expect(text, (void *[]){pairs, rows}, 2, all[i].wanted, 6);
        }
}

static void replaces(void **unused) {
    (void)unused;
    int64_t other[] = {2, 1, 0, 1}, zero[] = {0};
    float number[] = {5};
    expect(PAIRS "y 7[2,3] = aten.scatter.src self=%x dim=1 index=%i src=%s\noutput y\n", (void *[]){other, rows}, 2,
           (float[]){1, 20, 10, 50, 60, 6}, 6);
    expect("input x 7[2,3]\ninput i 5[1,1]\ninput s 7[1,1]\n"
           "y 7[2,3] = aten.scatter.src self=%x dim=1 index=%i src=%s\noutput y\n",
           (void *[]){other, number}, 2, (float[]){1, 2, 5, 4, 5, 6}, 6);
    expect("input x 7[2,3]\ninput i 5[]\ninput s 7[]\nz 7[] = aten.scatter.src self=%s dim=0 index=%i src=%s\n"
           "y 7[2,3] = aten.mul.Tensor self=%x other=%z\noutput y\n",
           (void *[]){zero, number}, 2, (float[]){5, 10, 15, 20, 25, 30}, 6);
    expect("input x 7[2,3]\ninput i 5[1]\ny 7[2,3] = aten.index_fill.int_Scalar self=%x dim=-1 index=%i value=7\n"
           "output y\n",
           (void *[]){zero}, 1, (float[]){7, 2, 3, 7, 5, 6}, 6);
}

/* A symbolic number is written, not zero. */
static void writes_symbolic_numbers(void **unused) {
    (void)unused;
    reading r = r_text("input x 7[2,3]\ninput i 5[2,2]\ninput z 7[s0]\nn $ = aten.sym_size.int self=%z dim=0\n"
                       "y 7[2,3] = aten.scatter.value self=%x dim=1 index=%i value=$n\n"
                       "w 7[2,3] = aten.fill.Scalar self=%x value=$n\n"
                       "v 7[2,3] = aten.full_like.default self=%x fill_value=$n\noutput y\noutput w\noutput v\n");
    r_lacks(&r, "opaque");
    const char *at = r.text.data;
    for (uint32_t i = 0; i < 3; i++) {
        at = strstr(at, "symbolic {values=[s0]");
        if (!at) fail_msg("%u of 3 numbers in\n%s", i, r.text.data);
        at++;
    }
    r_end(&r);
}

static void writes_where_a_mask_is_true(void **unused) {
    (void)unused;
    expect(
        "input x 7[2,3]\nm 12[2,3] = aten.gt.Scalar self=%x other=4\nv 7[] = aten.full.default size=[] fill_value=9.0\n"
        "y 7[2,3] = aten.index_put.default self=%x indices=[%m] values=%v\noutput y\n",
        NULL, 0, (float[]){1, 2, 3, 4, 9, 9}, 6);
    expect("input x 7[2,3]\nc 7[2] = aten.select.int self=%x dim=1 index=0\nm 12[2] = aten.gt.Scalar self=%c other=3\n"
           "v 7[1] = aten.full.default size=[1] fill_value=9.0\n"
           "w 7[2,3] = aten.index_put_.default self=%x indices=[%m] values=%v\n"
           "y 7[2,3] = aten.clone.default self=%x\noutput y\n",
           NULL, 0, (float[]){1, 2, 3, 9, 9, 9}, 6);
    expect("input x 7[2,3]\ninput s 7[4,2]\nm 12[2,3] = aten.gt.Scalar self=%x other=3\n"
           "y 7[2,3] = aten.masked_scatter.default self=%x mask=%m source=%s\noutput y\n",
           (void *[]){rows}, 1, (float[]){1, 2, 3, 10, 20, 30}, 6);
    expect("input x 7[2,3]\ninput s 7[1]\nm 12[2,3] = aten.gt.Scalar self=%x other=9\n"
           "y 7[2,3] = aten.masked_scatter.default self=%x mask=%m source=%s\noutput y\n",
           (void *[]){rows}, 1, x, 6);
}

static void others_stay_opaque(void **unused) {
    (void)unused;
    static const char *const programs[] = {
        /* of values, a table of which would be too large; an index that differs from element to element */
        "input x 5[65536,64]\ninput i 5[4096]\ninput s 5[4096,64]\n"
        "y 5[65536,64] = aten.index_add.default self=%x dim=0 index=%i source=%s\noutput y\n",
        "input x 7[65536,64]\ninput i 5[4096,64]\ninput s 7[4096,64]\n"
        "y 7[65536,64] = aten.scatter_add.default self=%x dim=0 index=%i src=%s\noutput y\n",
        "input x 12[4]\ninput i 5[4]\ninput s 12[4]\n"
        "y 12[4] = aten.index_add.default self=%x dim=0 index=%i source=%s\noutput y\n",
        "input x 7[2,3]\ninput i 5[1,2]\ninput s 7[2,3]\n"
        "y 7[2,3] = aten.scatter_add.default self=%x dim=1 index=%i src=%s\noutput y\n",
        "input x 5[4]\ninput i 5[4]\ninput s 5[4]\n"
        "y 5[4] = aten.scatter_reduce.two self=%x dim=0 index=%i src=%s reduce='mean\noutput y\n",
        "input x 7[4]\ninput i 5[4]\ninput s 7[4]\n"
        "y 7[4] = aten.scatter_reduce.two self=%x dim=0 index=%i src=%s reduce='median\noutput y\n",
        "input x 7[4]\ninput m 12[4]\ninput s 7[3]\n"
        "y 7[4] = aten.index_put.default self=%x indices=[%m] values=%s\noutput y\n",
        "input x 7[4]\ninput m 12[4]\ninput s 7[1]\n"
        "y 7[4] = aten.index_put.default self=%x indices=[%m] values=%s accumulate=true\noutput y\n",
        "input x 7[4]\ninput m 12[4]\ninput s 13[4]\n"
        "y 7[4] = aten.masked_scatter.default self=%x mask=%m source=%s\noutput y\n",
    };
    for (size_t i = 0; i < QF_COUNT_OF(programs); i++) {
        reading r = r_text(programs[i]);
        if (!strstr(r.text.data, "opaque")) fail_msg("%s became\n%s", programs[i], r.text.data);
        r_end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_rows),
        cmocka_unit_test(what_is_not_finite_stays_in_its_row),
        cmocka_unit_test(adds_at_tuples),
        cmocka_unit_test(folds),
        cmocka_unit_test(folds_extremes_of_integers),
        cmocka_unit_test(replaces),
        cmocka_unit_test(writes_symbolic_numbers),
        cmocka_unit_test(writes_where_a_mask_is_true),
        cmocka_unit_test(others_stay_opaque),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
