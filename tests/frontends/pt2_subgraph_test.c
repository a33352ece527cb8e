/* Owns: tests of subgraphs that run once where they stand, and of autocast, which may change what they compute.
 * Does not own: functionalised calls of custom operators (pt2_ops_test.c).
 * Next: frontends/pt2/functional.c. */
#include "tests/frontends/pt2_reading.h"

static float x[] = {1, 2, 3, 4};

/* `call`: the operator and its arguments before the operands. */
static reading with(const char *body, const char *call) {
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "graph g\ninput a 7[2,2]\n%s\noutput z\nend\n"
                   "input x 7[2,2]\ny 7[2,2] = higher_order.%s =graph:g =%%x\n"
                   "w 7[2,2] = aten.neg.default self=%%y\noutput w\n",
                   body, call);
    return r_text(text);
}

#define DOUBLE "z 7[2,2] = aten.mul.Tensor self=%a other=2.0"

static void runs_inside(const char *call) {
    reading r = with(DOUBLE, call);
    r_lacks(&r, "opaque");
    assert_string_equal(state.messages, "");
    r_gives(&r, (float *[]){x}, 0, (float[]){-2, -4, -6, -8}, 4);
    r_end(&r);
}

static void stays_outside(const char *body, const char *call) {
    reading r = with(body, call);
    r_has(&r, "opaque");
    assert_non_null(strstr(state.messages, "which only run_decompositions({}) writes out"));
    r_end(&r);
}

static void gradients_do_not_matter(void **unused) {
    (void)unused;
    runs_inside("wrap_with_set_grad_enabled =false");
    runs_inside("wrap_with_set_grad_enabled =true");
}

static void autocast_that_is_disabled(void **unused) {
    (void)unused;
    runs_inside("wrap_with_autocast ='cpu =dtype:13 =false =None");
    runs_inside("wrap_with_autocast ='cuda =dtype:6 =false =true");
    runs_inside("wrap_with_autocast ='cuda =None =false =false");
}

static void autocast_that_casts_nothing(void **unused) {
    (void)unused;
    runs_inside("wrap_with_autocast ='cpu =dtype:7 =true =None");
    runs_inside("wrap_with_autocast ='cuda =dtype:7 =true =None");
    reading r = with("i 5[2,2] = aten.to.dtype self=%a dtype=dtype:5\nz 7[2,2] = aten.add.Tensor self=%a other=%i",
                     "wrap_with_autocast ='cuda =dtype:7 =true =None");
    r_lacks(&r, "opaque");
    r_end(&r);
}

static void autocast_that_may_cast(void **unused) {
    (void)unused;
    stays_outside(DOUBLE, "wrap_with_autocast ='cpu =dtype:13 =true =None");
    stays_outside(DOUBLE, "wrap_with_autocast ='cuda =dtype:6 =true =false");
    stays_outside(DOUBLE, "wrap_with_autocast ='cuda =None =true =false");
    stays_outside("h 13[2,2] = aten.to.dtype self=%a dtype=dtype:13\nz 7[2,2] = aten.matmul.default self=%h other=%h",
                  "wrap_with_autocast ='cuda =dtype:7 =true =None");
    stays_outside("d 8[2,2] = aten.to.dtype self=%a dtype=dtype:8\nz 7[2,2] = aten.to.dtype self=%d dtype=dtype:7",
                  "wrap_with_autocast ='cuda =dtype:7 =true =None");
    stays_outside("z 7[2,2] = higher_order.wrap_with_set_grad_enabled =false =%a",
                  "wrap_with_autocast ='cuda =dtype:7 =true =None");
}

/* One graph, twice: names inside are of each call's own. */
static void regions_that_are_alike(void **unused) {
    (void)unused;
    reading r =
        r_text("graph g\ninput a 7[2,2]\ninput b 7[2,2]\nz 7[2,2] = aten.sub.Tensor self=%a other=%b\noutput z\nend\n"
               "input x 7[2,2]\no 7[2,2] = aten.ones_like.default self=%x\n"
               "y 7[2,2] = higher_order.invoke_subgraph =graph:g ='region =%x =%o\n"
               "w 7[2,2] = higher_order.invoke_subgraph =graph:g ='region =%o =%y\noutput w\n");
    r_lacks(&r, "opaque");
    r_gives(&r, (float *[]){x}, 0, (float[]){1, 0, -1, -2}, 4);
    r_end(&r);
    static const char *const others[] = {"invoke_subgraph =graph:g ='region =[%x]", "invoke_subgraph =graph:g =%x",
                                         "wrap_with_set_grad_enabled =false =graph:g =%x",
                                         "cond =%x =graph:g =graph:g =[%x]"};
    for (size_t i = 0; i < QF_COUNT_OF(others); i++) {
        char text[512];
        (void)snprintf(
            text, sizeof text,
            "graph g\ninput a 7[2,2]\ninput b 7[2,2]\nz 7[2,2] = aten.sub.Tensor self=%%a other=%%b\noutput z\n"
            "end\ninput x 7[2,2]\ny 7[2,2] = higher_order.%s\noutput y\n",
            others[i]);
        r = r_text(text);
        r_has(&r, "opaque");
        r_end(&r);
    }
}

/* What the subgraph writes is the caller's tensor, and what it gives may be a view of it. */
static void memory_is_shared_with_the_caller(void **unused) {
    (void)unused;
    reading r = r_text("graph g\ninput a 7[2,2]\nz 7[4] = aten.view.default self=%a size=[4]\n"
                       "w 7[2,2] = aten.mul_.Tensor self=%a other=2.0\noutput z\nend\n"
                       "input x 7[2,2]\nb 7[2,2] = aten.clone.default self=%x\n"
                       "v 7[4] = higher_order.wrap_with_set_grad_enabled =false =graph:g =%b\n"
                       "n 7[4] = aten.add_.Tensor self=%v other=1.0\noutput b\noutput v\n");
    r_lacks(&r, "opaque");
    r_gives(&r, (float *[]){x}, 0, (float[]){3, 5, 7, 9}, 4);
    r_gives(&r, (float *[]){x}, 1, (float[]){3, 5, 7, 9}, 4);
    r_end(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_do_not_matter),          cmocka_unit_test(autocast_that_is_disabled),
        cmocka_unit_test(autocast_that_casts_nothing),      cmocka_unit_test(autocast_that_may_cast),
        cmocka_unit_test(memory_is_shared_with_the_caller), cmocka_unit_test(regions_that_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
