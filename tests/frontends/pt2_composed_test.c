/* Owns: tests of operators that are several of QFuse's, by the numbers that torch gives.
 * Does not own: operators that are one (pt2_ops_test.c, pt2_index_test.c).
 * Next: frontends/pt2/map_composed.c. */
#include "tests/frontends/pt2_reading.h"

#include <math.h>

static float x[] = {-2, -0.5F, 0, 0.25F, 1.5F, 3}, y[] = {1, -2, 0.5F, 4, -1, 2}, p[] = {0.5F, 1, 2, 3, 0.1F, 7},
             i[] = {-INFINITY, -INFINITY, -INFINITY, 1, -INFINITY, 2}, g[] = {0, 1, 4, 9, 16, 25, 36, 49},
             w[] = {1, 2, -1, 0.5F}, v[] = {1, 4, 2, 0.5F}, k[] = {0.5F, 2, -1}, t[] = {1, -2}, h[] = {-1, 1.5F, 1.5F},
             f[] = {1, -2};

static const char inputs[] =
    "input x 7[6]\ninput y 7[6]\ninput p 7[6]\ninput m 7[2,3]\ninput i 7[2,3]\ninput g 7[1,4,2]\n"
    "input w 7[4]\ninput v 7[4]\ninput k 7[3]\ninput t 7[2]\ninput h 7[1,1,3]\ninput f 7[1,1,2]\n";
static float *const values[] = {x, y, p, x, i, g, w, v, k, t, h, f};

static void close_to(const reading *r, const char *line, const float *wanted, uint32_t count) {
    qf_interpreter *interpreter = qf_interpreter_create(r->graph, 1);
    for (uint32_t n = 0; n < r->graph->input_count; n++) {
        qf_type type = qf_value_type(r->graph, r->graph->inputs[n]);
        qf_tensor tensor = {.dtype = QF_F32, .rank = qf_type_rank(r->context, type), .data = values[n]};
        for (uint32_t axis = 0; axis < tensor.rank; axis++)
            assert_true(
                qf_dim_is_constant(r->context, qf_type_dim(r->context, type, (int32_t)axis), &tensor.dims[axis]));
        assert_int_equal(qf_interpreter_bind_input(interpreter, n, &tensor), QF_OK);
    }
    if (qf_interpreter_run(interpreter, NULL) != QF_OK) fail_msg("%s: %s", line, state.messages);
    qf_tensor found;
    assert_true(qf_interpreter_value(interpreter, qf_node_operand(r->graph, r->graph->last, 0), &found));
    if (qf_tensor_bytes(&found) != count * sizeof(float)) fail_msg("%s: another size", line);
    for (uint32_t n = 0; n < count; n++) {
        float one = ((const float *)found.data)[n], difference = fabsf(one - wanted[n]);
        if (one != wanted[n] && !(difference <= 2e-6F + 2e-6F * fabsf(wanted[n])))
            fail_msg("%s: element %u is %.9g, torch gives %.9g", line, n, (double)one, (double)wanted[n]);
    }
    qf_interpreter_destroy(interpreter);
}

static void numbers_are_those_of_torch(void **unused) {
    (void)unused;
    static const struct {
        const char *line, *type;
        uint32_t count;
        float wanted[9];
    } cases[] = {
        {"aten.trunc.default self=%x", "7[6]", 6, {-2.0F, -0.0F, 0.0F, 0.0F, 1.0F, 3.0F}},
        {"aten.log1p.default self=%p",
         "7[6]",
         6,
         {0.405465096F, 0.693147182F, 1.09861231F, 1.38629436F, 0.0953101814F, 2.07944155F}},
        {"aten.expm1.default self=%x",
         "7[6]",
         6,
         {-0.864664733F, -0.393469334F, 0.0F, 0.284025431F, 3.48168898F, 19.085537F}},
        {"aten.log2.default self=%p", "7[6]", 6, {-1.0F, 0.0F, 1.0F, 1.58496249F, -3.32192802F, 2.80735493F}},
        {"aten.log10.default self=%p", "7[6]", 6, {-0.30103001F, 0.0F, 0.30103001F, 0.477121264F, -1.0F, 0.845098019F}},
        {"aten.exp2.default self=%x", "7[6]", 6, {0.25F, 0.707106769F, 1.0F, 1.18920708F, 2.82842708F, 8.0F}},
        {"aten.tan.default self=%x",
         "7[6]",
         6,
         {2.18503976F, -0.546302497F, 0.0F, 0.255341917F, 14.1014194F, -0.142546549F}},
        {"aten.softplus.default self=%x",
         "7[6]",
         6,
         {0.126928002F, 0.474076986F, 0.693147182F, 0.825939417F, 1.70141327F, 3.04858732F}},
        {"aten.softplus.default self=%x beta=2.0 threshold=3.0",
         "7[6]",
         6,
         {0.00907496456F, 0.156630844F, 0.346573591F, 0.487038493F, 1.52429366F, 3.0F}},
        {"aten.mish.default self=%x",
         "7[6]",
         6,
         {-0.252501458F, -0.22074376F, 0.0F, 0.169572398F, 1.40337825F, 2.98653507F}},
        {"aten.elu.default self=%x", "7[6]", 6, {-0.864664733F, -0.393469334F, 0.0F, 0.25F, 1.5F, 3.0F}},
        {"aten.elu.default self=%x alpha=1.6732632423543772 scale=1.0507009873554805",
         "7[6]",
         6,
         {-1.52016652F, -0.691758156F, 0.0F, 0.262675256F, 1.57605147F, 3.15210295F}},
        {"aten.leaky_relu.default self=%x", "7[6]", 6, {-0.0199999996F, -0.00499999989F, 0.0F, 0.25F, 1.5F, 3.0F}},
        {"aten.leaky_relu.default self=%x negative_slope=0.2",
         "7[6]",
         6,
         {-0.400000006F, -0.100000001F, 0.0F, 0.25F, 1.5F, 3.0F}},
        {"aten.hardtanh.default self=%x", "7[6]", 6, {-1.0F, -0.5F, 0.0F, 0.25F, 1.0F, 1.0F}},
        {"aten.hardtanh.default self=%x min_val=-0.25 max_val=2.0",
         "7[6]",
         6,
         {-0.25F, -0.25F, 0.0F, 0.25F, 1.5F, 2.0F}},
        {"aten.relu6.default self=%x", "7[6]", 6, {0.0F, 0.0F, 0.0F, 0.25F, 1.5F, 3.0F}},
        {"aten.hardsigmoid.default self=%x", "7[6]", 6, {0.166666672F, 0.416666657F, 0.5F, 0.541666687F, 0.75F, 1.0F}},
        {"aten.hardswish.default self=%x", "7[6]", 6, {-0.333333343F, -0.208333328F, 0.0F, 0.135416672F, 1.125F, 3.0F}},
        {"aten.fmod.Tensor self=%x other=%y", "7[6]", 6, {-0.0F, -0.5F, 0.0F, 0.25F, 0.5F, 1.0F}},
        {"aten.fmod.Scalar self=%x other=0.75", "7[6]", 6, {-0.5F, -0.5F, 0.0F, 0.25F, 0.0F, 0.0F}},
        {"aten.addcmul.default self=%x tensor1=%y tensor2=%p",
         "7[6]",
         6,
         {-1.5F, -2.5F, 1.0F, 12.25F, 1.39999998F, 17.0F}},
        {"aten.addcdiv.default self=%x tensor1=%y tensor2=%p value=-0.5",
         "7[6]",
         6,
         {-3.0F, 0.5F, -0.125F, -0.416666687F, 6.5F, 2.85714293F}},
        {"aten.lerp.Scalar self=%x end=%y weight=0.25", "7[6]", 6, {-1.25F, -0.875F, 0.125F, 1.1875F, 0.875F, 2.75F}},
        {"aten.lerp.Scalar self=%x end=%y weight=0.75", "7[6]", 6, {0.25F, -1.625F, 0.375F, 3.0625F, -0.375F, 2.25F}},
        {"aten.glu.default self=%x", "7[3]", 3, {-1.12435305F, -0.408787221F, 0.0F}},
        {"aten.glu.default self=%m dim=0", "7[1,3]", 3, {-1.12435305F, -0.408787221F, 0.0F}},
        {"aten.logsumexp.default self=%m dim=[1]", "7[2]", 2, {0.554956913F, 3.25235891F}},
        {"aten.logsumexp.default self=%m dim=[0,1] keepdim=true", "7[1,1]", 1, {3.31756639F}},
        {"aten.logsumexp.default self=%i dim=[1]", "7[2]", 2, {-INFINITY, 2.31326175F}},
        {"aten.linalg_vector_norm.default self=%m dim=[1]", "7[2]", 2, {2.06155276F, 3.36340594F}},
        {"aten.linalg_vector_norm.default self=%m ord=1", "7[]", 1, {7.25F}},
        {"aten.norm.ScalarOpt_dim self=%m p=2 dim=[0] keepdim=true", "7[1,3]", 3, {2.01556444F, 1.58113885F, 3.0F}},
        {"aten.var.default self=%m", "7[]", 1, {2.9437499F}},
        {"aten.var.dim self=%m dim=[1] unbiased=false", "7[2]", 2, {0.722222209F, 1.26388884F}},
        {"aten.var.correction self=%m dim=[0] correction=0 keepdim=true", "7[1,3]", 3, {1.265625F, 1.0F, 2.25F}},
        {"aten.std.dim self=%m dim=[1]", "7[2]", 2, {1.040833F, 1.37689269F}},
        {"aten.std.correction self=%m dim=[1] correction=2", "7[2]", 2, {1.47196019F, 1.94722021F}},
        {"aten.group_norm.default input=%g num_groups=2 weight=%w bias=%w",
         "7[1,4,2]",
         8,
         {4.76837158e-07F, 0.285714626F, 2.28571415F, 5.14285564F, 0.256183267F, -0.473213494F, 0.682349205F,
          1.20913577F}},
        {"aten.batch_norm.default input=%g weight=%w bias=None running_mean=%w running_var=%v training=false "
         "momentum=0.1 eps=0.001 cudnn_enabled=true",
         "7[1,4,2]",
         8,
         {-0.999500394F, 0.0F, 1.99975014F, 6.99912548F, -12.0178118F, -18.3801823F, 25.0772266F, 34.260437F}},
        {"aten.prelu.default self=%m weight=%k", "7[2,3]", 6, {-1.0F, -1.0F, -0.0F, 0.25F, 1.5F, 3.0F}},
        {"aten.flip.default self=%m dims=[0,1]", "7[2,3]", 6, {3.0F, 1.5F, 0.25F, 0.0F, -0.5F, -2.0F}},
        {"aten.diff.default self=%m", "7[2,2]", 4, {1.5F, 0.5F, 1.25F, 1.5F}},
        {"aten.diff.default self=%m n=2", "7[2,1]", 2, {-1.0F, 0.25F}},
        {"aten.diff.default self=%k dim=0 prepend=%t append=%t", "7[6]", 6, {-3.0F, 2.5F, 1.5F, -3.0F, 2.0F, -3.0F}},
        {"aten.numpy_T.default self=%m", "7[3,2]", 6, {-2.0F, 0.25F, -0.5F, 1.5F, 0.0F, 3.0F}},
        {"aten.prod.default self=%t", "7[]", 1, {-2.0F}},
        {"aten._weight_norm.default v=%m g=%k dim=1",
         "7[2,3]",
         6,
         {-0.496138938F, -0.632455532F, -0.0F, 0.0620173673F, 1.8973666F, -1.0F}},
        {"aten.conv1d.padding input=%h weight=%f padding='same dilation=[1]", "7[1,1,3]", 3, {-4.0F, -1.5F, 1.5F}},
        {"aten.conv1d.padding input=%h weight=%f padding='valid", "7[1,1,2]", 2, {-4.0F, -1.5F}},
        {"aten.view_as.default self=%x other=%m", "7[2,3]", 6, {-2.0F, -0.5F, 0.0F, 0.25F, 1.5F, 3.0F}},
        {"aten.broadcast_to.default self=%t size=[2,2]", "7[2,2]", 4, {1.0F, -2.0F, 1.0F, -2.0F}},
        {"aten.movedim.int self=%m source=0 destination=-1", "7[3,2]", 6, {-2.0F, 0.25F, -0.5F, 1.5F, 0.0F, 3.0F}},
        {"aten.outer.default self=%k vec2=%k",
         "7[3,3]",
         9,
         {0.25F, 1.0F, -0.5F, 1.0F, 4.0F, -2.0F, -0.5F, -2.0F, 1.0F}},
        {"aten.addmv.default self=%t mat=%m vec=%k beta=0.5 alpha=2.0", "7[2]", 2, {-3.5F, -0.75F}},
        {"aten.arange.start_step start=0.5 end=2.0 step=0.25", "7[6]", 6, {0.5F, 0.75F, 1.0F, 1.25F, 1.5F, 1.75F}},
        {"aten.arange.default end=3.0", "7[3]", 3, {0.0F, 1.0F, 2.0F}},
        {"aten.nan_to_num.default self=%i nan=1.0 neginf=-5.0", "7[2,3]", 6, {-5.0F, -5.0F, -5.0F, 1.0F, -5.0F, 2.0F}},
    };
    for (size_t n = 0; n < QF_COUNT_OF(cases); n++) {
        char text[2048];
        (void)snprintf(text, sizeof text, "%sr %s = %s\noutput r\n", inputs, cases[n].type, cases[n].line);
        reading r = r_text(text);
        if (strstr(r.text.data, "opaque")) fail_msg("%s", state.messages);
        close_to(&r, cases[n].line, cases[n].wanted, cases[n].count);
        r_end(&r);
    }
}

/* 16-bit operands are computed in f32 and rounded once. */
static void sixteen_bits_are_rounded_once(void **unused) {
    (void)unused;
    reading r = r_text("input x 13[4]\ny 13[4] = aten.mish.default self=%x\noutput y\n");
    r_has(&r, "cast %x {dtype=f32");
    const char *first = strstr(r.text.data, "dtype=bf16");
    assert_non_null(first);
    assert_null(strstr(first + 1, "dtype=bf16"));
    r_end(&r);
}

static void what_they_cannot_say_why(void **unused) {
    (void)unused;
    static const struct {
        const char *line, *why;
    } cases[] = {
        {"r 5[6] = aten.trunc.default self=%n", "other numbers than floats"},
        {"r 7[2] = aten.linalg_vector_norm.default self=%m ord=3 dim=[1]", "its order is none of 1, 2 and infinity"},
        {"r 7[1] = aten.glu.default self=%m", "its axis has no halves"},
        {"r 5[6,7] = aten.one_hot.default self=%n", "number of its classes is read from its data"},
        {"r 7[1,4,2] = aten.batch_norm.default input=%g weight=%w bias=%w running_mean=%w running_var=%v training=true "
         "momentum=0.1 eps=0.1 cudnn_enabled=true",
         "statistics of the batch"},
        {"r 7[1,4,2] = aten.group_norm.default input=%g num_groups=3", "not whole groups"},
        {"r 5[2] = aten.argmin.default self=%z dim=1", "least of integers"},
        {"r 7[2] = aten.movedim.int self=%m source=5 destination=0", ""},
    };
    for (size_t n = 0; n < QF_COUNT_OF(cases); n++) {
        char text[2048];
        (void)snprintf(text, sizeof text, "%sinput n 5[6]\ninput z 5[2,3]\n%s\noutput r\n", inputs, cases[n].line);
        reading r = r_try(p_program(text), NULL);
        if (*cases[n].why ? !r.graph || !strstr(state.messages, cases[n].why) : r.graph != NULL)
            fail_msg("%s: %s", cases[n].line, state.messages);
        r_end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_those_of_torch),
                                       cmocka_unit_test(sixteen_bits_are_rounded_once),
                                       cmocka_unit_test(what_they_cannot_say_why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
