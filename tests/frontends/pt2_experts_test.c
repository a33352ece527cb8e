/* Owns: tests of what mixtures of experts are exported as: histograms, groups of rows, orders, boundaries, by numbers.
 * Does not own: sums of their results (pt2_scatter_test.c).
 * Next: frontends/pt2/map_experts.c. */
#include <math.h>

#include "tests/frontends/pt2_reading.h"

static void expect(const char *text, void *const *inputs, uint32_t input_count, const float *wanted, uint32_t count) {
    reading r = r_text(text);
    float *floats[4] = {NULL};
    for (uint32_t i = 0; i < input_count; i++) floats[i] = inputs[i];
    r_lacks(&r, "opaque");
    r_gives(&r, floats, 0, wanted, count);
    r_end(&r);
}

static void histograms(void **unused) {
    (void)unused;
    float ids[] = {3, 0, 1, 3, 3, 4, -1, 0}; /* 4 and -1: of no expert */
    int64_t numbers[] = {3, 0, 1, 3, 3, 4, -1, 0};
    float floats[] = {-1, 2, 0.5F, NAN, INFINITY, -INFINITY, 1.99F, -0.01F};
    expect("input x 7[2,4]\ny 7[4] = aten.histc.default self=%x bins=4 min=0 max=3\noutput y\n", (void *[]){ids}, 1,
           (float[]){2, 1, 0, 3}, 4);
    expect("input x 5[8]\nh 5[4] = aten.histc.default self=%x bins=4 min=0 max=3\n"
           "y 7[4] = aten.to.dtype self=%h dtype=dtype:7\noutput y\n",
           (void *[]){numbers}, 1, (float[]){2, 1, 0, 3}, 4);
    expect("input x 7[8]\ny 7[3] = aten.histc.default self=%x bins=3 min=-1.0 max=2.0\noutput y\n", (void *[]){floats},
           1, (float[]){2, 1, 2}, 3);
}

/* x rows {1, 0}, {0, 1}, ...: each row takes a row of its group's matrix. */
static void groups_of_rows(void **unused) {
    (void)unused;
    static float x[] = {1, 0, 0, 1, 1, 1, 2, 0, 0, 3};
    static float w[] = {1, 2, 3, 4, 10, 20, 30, 40, NAN, NAN, NAN, NAN, 100, 200, 300, 400};
    static int32_t ends[] = {2, 3, 3, 4}; /* two, one, none, one; the last row has no group */
    static const float wanted[] = {1, 2, 3, 4, 40, 60, 200, 400, 0, 0};
    void *inputs[] = {x, w, ends};
    expect("input x 7[5,2]\ninput w 7[4,2,2]\ninput o 4[4]\n"
           "y 7[5,2] = aten._grouped_mm.default self=%x mat2=%w offs=%o\noutput y\n",
           inputs, 3, wanted, 10);
    expect("input x 7[5,2]\ninput w 7[4,2,2]\ninput o 4[4]\n"
           "y 7[5,2] = transformers.grouped_mm_fallback.default input=%x weight=%w offs=%o\noutput y\n",
           inputs, 3, wanted, 10);
    expect("input x 7[1,1,2]\ninput w 7[1,2,2]\ny 7[1,1,2] = aten._grouped_mm.default self=%x mat2=%w\noutput y\n",
           (void *[]){x, w}, 2, (float[]){1, 2}, 2);
    reading r = r_text("input x 13[s0,64]\ninput w 13[8,64,32]\ninput o 4[8]\n"
                       "y 13[s0,32] = aten._grouped_mm.default self=%x mat2=%w offs=%o\noutput y\n");
    r_lacks(&r, "opaque");
    r_has(&r, "bf16[s0, 32]");
    r_end(&r);
}

static void orders(void **unused) {
    (void)unused;
    float x[] = {3, 1, 2, 1};
    expect("input x 7[4]\ni 5[4] = aten.argsort.stable self=%x stable=true\n"
           "y 7[4] = aten.to.dtype self=%i dtype=dtype:7\noutput y\n",
           (void *[]){x}, 1, (float[]){1, 3, 2, 0}, 4);
    expect("input x 7[2,2]\ni 5[2,2] = aten.argsort.default self=%x dim=0 descending=true\n"
           "y 7[2,2] = aten.to.dtype self=%i dtype=dtype:7\noutput y\n",
           (void *[]){x}, 1, (float[]){0, 0, 1, 1}, 4);
    int64_t place[] = {1, 0};
    expect(
        "input x 7[2,2]\ninput i 5[1,2]\ny 7[2,2] = aten.take_along_dim.default self=%x indices=%i dim=1\noutput y\n",
        (void *[]){x, place}, 2, (float[]){1, 3, 1, 2}, 4);
    expect("input x 7[4]\nm 12[4] = aten.gt.Scalar self=%x other=1\nc 5[] = aten.count_nonzero.default self=%m\n"
           "y 7[] = aten.to.dtype self=%c dtype=dtype:7\noutput y\n",
           (void *[]){x}, 1, (float[]){2}, 1);
    expect("input x 7[4]\nf 7[4] = aten.flip.default self=%x dims=[]\noutput f\n", (void *[]){x}, 1, x, 4);
    expect("input x 7[1,4]\ns 7[1,4] = aten.squeeze.dims self=%x dim=[]\ny 7[4] = aten.sum.dim_IntList self=%s "
           "dim=[0]\noutput y\n",
           (void *[]){x}, 1, x, 4);
}

static void boundaries(void **unused) {
    (void)unused;
    float x[] = {-1, 0, 0.5F, 2, 3, NAN}, ends[] = {0, 0, 2};
    void *inputs[] = {x, ends};
    expect("input x 7[6]\ninput b 7[3]\ni 5[6] = aten.bucketize.Tensor self=%x boundaries=%b\n"
           "y 7[6] = aten.to.dtype self=%i dtype=dtype:7\noutput y\n",
           inputs, 2, (float[]){0, 0, 2, 2, 3, 3}, 6);
    expect("input x 7[6]\ninput b 7[3]\ni 5[6] = aten.bucketize.Tensor self=%x boundaries=%b right=true\n"
           "y 7[6] = aten.to.dtype self=%i dtype=dtype:7\noutput y\n",
           inputs, 2, (float[]){0, 2, 2, 3, 3, 3}, 6);
    expect("input x 7[6]\ninput b 7[3]\ni 4[6] = aten.searchsorted.Tensor sorted_sequence=%b self=%x out_int32=true "
           "side='right\ny 7[6] = aten.to.dtype self=%i dtype=dtype:7\noutput y\n",
           inputs, 2, (float[]){0, 2, 2, 3, 3, 3}, 6);
}

static void members(void **unused) {
    (void)unused;
    int64_t x[] = {3, 1, 2, 1}, others[] = {1, 3};
    expect("input x 5[2,2]\ninput o 5[2]\nm 12[2,2] = aten.isin.Tensor_Tensor elements=%x test_elements=%o\n"
           "y 7[2,2] = aten.to.dtype self=%m dtype=dtype:7\noutput y\n",
           (void *[]){x, others}, 2, (float[]){1, 1, 0, 1}, 4);
    expect(
        "input x 5[2,2]\ninput o 5[2]\nm 12[2,2] = aten.isin.Tensor_Tensor elements=%x test_elements=%o invert=true\n"
        "y 7[2,2] = aten.to.dtype self=%m dtype=dtype:7\noutput y\n",
        (void *[]){x, others}, 2, (float[]){0, 0, 1, 0}, 4);
}

static void others_stay_opaque(void **unused) {
    (void)unused;
    static const struct left {
        const char *text, *reason;
    } all[] = {
        {"y 7[100] = aten.histc.default self=%x", "its bounds are read from its data"},
        {"h 13[4,4] = aten.to.dtype self=%x dtype=dtype:13\ny 13[4] = aten.histc.default self=%h bins=4 max=3",
         "of a type that torch counts otherwise"},
        {"y 7[4,4] = aten._grouped_mm.default self=%x mat2=%x offs=%i", "not groups of rows"},
        {"y 7[4,4] = aten._grouped_mm.default self=%x mat2=%w offs=%i out_dtype=dtype:13", "a plain product"},
        {"y 7[4,4] = aten._grouped_mm.default self=%x mat2=%w offs=%i bias=%x", "does not read"},
        {"y 7[4,4] = aten._grouped_mm.default self=%w mat2=%w offs=%i", "not groups of rows"},
        {"y 5[u0,2] = aten.nonzero.default self=%x", "only its data tells the size"},
        {"m 12[4,4] = aten.gt.Scalar self=%x other=0\ny 7[u0] = aten.masked_select.default self=%x mask=%m",
         "only its data tells the size"},
        {"m 12[4,4] = aten.gt.Scalar self=%x other=0\ny 7[u0] = aten.index.Tensor self=%x indices=[%m]",
         "selects by a boolean mask"},
        {"y 5[4,4] = aten.bucketize.Tensor self=%x boundaries=%x", "not one vector"},
        {"y 5[4] = aten.searchsorted.Tensor sorted_sequence=%v self=%v sorter=%i", "does not read"},
    };
    for (size_t i = 0; i < QF_COUNT_OF(all); i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "input x 7[4,4]\ninput w 7[4,4,4]\ninput i 4[4]\ninput v 7[4]\n%s\noutput y\n", all[i].text);
        reading r = r_text(text);
        if (!strstr(r.text.data, "opaque") || !strstr(state.messages, all[i].reason))
            fail_msg("%s became\n%s%s", all[i].text, r.text.data, state.messages);
        r_end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histograms), cmocka_unit_test(groups_of_rows), cmocka_unit_test(orders),
        cmocka_unit_test(boundaries), cmocka_unit_test(members),        cmocka_unit_test(others_stay_opaque),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
