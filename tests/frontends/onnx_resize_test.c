/* Owns: tests of Resize: the weights and indices of an axis, against numbers of ONNX's own tests.
 * Does not own: other ops (onnx_ops_test.c).
 * Next: frontends/onnx/map_resize.c. */
#include <math.h>

#include "base/convert.h"
#include "tests/frontends/importing.h"

typedef struct resize_case {
    const char *mode, *place, *round;
    int64_t to;  /* of 4 elements */
    float scale; /* 0: `to` is given to the node, else this is */
    bool antialias, exclude_outside;
    const char *expected; /* what the node becomes: "product", "gather", "view" (repeated) or "" (nothing) */
    double numbers[64];   /* row by row */
} resize_case;

static const qf_literal *second_literal(const qf_graph *graph, qf_node node) {
    qf_value value = qf_node_operand(graph, node, 1);
    while (qf_node_op(graph, qf_value_producer(graph, value)) == QF_OP_cast)
        value = qf_node_operand(graph, qf_value_producer(graph, value), 0);
    const qf_literal *literal = qf_value_literal(graph, value);
    assert_non_null(literal);
    return literal;
}

static void check_numbers(const qf_graph *graph, qf_op op, const resize_case *c, size_t count) {
    qf_node node = b_find(graph, op);
    assert_true(node.id != 0);
    const qf_literal *literal = second_literal(graph, node);
    qf_dtype dtype = qf_type_dtype(graph->context, literal->type);
    assert_int_equal(literal->size, qf_dtype_bytes(dtype, count));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(qf_load_f64(dtype, literal->data, (int64_t)i) - c->numbers[i]) < 1e-6))
            fail_msg("%s %s: number %zu is %g, expected %g", c->mode, c->place, i,
                     qf_load_f64(dtype, literal->data, (int64_t)i), c->numbers[i]);
}

static builder *begin_resize(const resize_case *c, const char *shape) {
    builder *b = b_begin(20);
    b_input(b, "x", FLOAT, shape);
    int64_t one = 1;
    if (c->scale > 0)
        (void)b_initializer(b, "factors", FLOAT, &one, 1, &c->scale, sizeof c->scale);
    else
        b_vector(b, "sizes", &c->to, 1);
    Onnx__NodeProto *node = b_node(b, "", "Resize", c->scale > 0 ? "x - factors" : "x - - sizes", "y");
    b_ints(b, node, "axes", (int64_t[]){-1}, 1);
    b_string(b, node, "mode", c->mode);
    b_string(b, node, "coordinate_transformation_mode", c->place);
    if (c->round) b_string(b, node, "nearest_mode", c->round);
    b_int(b, node, "antialias", c->antialias);
    b_int(b, node, "exclude_outside", c->exclude_outside);
    b_output(b, "y");
    return b;
}

static void axes_are_weighed_or_selected(void **unused) {
    (void)unused;
    static const resize_case cases[] = {
        {"linear", "half_pixel", NULL, 8, 0, false, false, "product", {1,   0,   0,   0,   .75, .25, 0,   0,
                                                                       .25, .75, 0,   0,   0,   .75, .25, 0,
                                                                       0,   .25, .75, 0,   0,   0,   .75, .25,
                                                                       0,   0,   .25, .75, 0,   0,   0,   1}},
        {"linear", "align_corners", NULL, 3, 0, false, false, "product", {1, 0, 0, 0, 0, .5, .5, 0, 0, 0, 0, 1}},
        {"linear", "half_pixel", NULL, 2, 0, true, false, "product", {.5, .375, .125, 0, 0, .125, .375, .5}},
        {"cubic", "asymmetric", NULL, 2, 0, false, false, "product", {1, 0, 0, 0, 0, 0, 1, 0}},
        {"cubic",
         "half_pixel",
         NULL,
         2,
         0,
         false,
         true,
         "product",
         {.59375 / 1.09375, .59375 / 1.09375, -.09375 / 1.09375, 0, 0, -.09375 / 1.09375, .59375 / 1.09375,
          .59375 / 1.09375}},
        {"nearest", "half_pixel", "floor", 3, 0, false, false, "gather", {0, 1, 2}},
        {"nearest", "align_corners", "ceil", 3, 0, false, false, "gather", {0, 2, 3}},
        {"nearest", "asymmetric", "round_prefer_ceil", 8, 0, false, false, "gather", {0, 1, 1, 2, 2, 3, 3, 3}},
        {"nearest", "asymmetric", "floor", 0, 2, false, false, "view", {0}},
        {"cubic", "pytorch_half_pixel", NULL, 4, 0, false, false, "", {0}},
        {"linear", "half_pixel", NULL, 0, 1, false, false, "", {0}},
    };
    for (size_t i = 0; i < QF_COUNT_OF(cases); i++) {
        const resize_case *c = &cases[i];
        qf_context *context = check_context(&state);
        builder *b = begin_resize(c, "B,4");
        qf_graph *graph = good(b, context);
        bool product = strcmp(c->expected, "product") == 0, gathered = strcmp(c->expected, "gather") == 0;
        assert_int_equal(b_count(graph, QF_OP_contract), product);
        assert_int_equal(b_count(graph, QF_OP_gather), gathered);
        assert_int_equal(b_count(graph, QF_OP_expand), strcmp(c->expected, "view") == 0);
        assert_int_equal(b_count(graph, QF_OP_opaque), 0);
        if (product) check_numbers(graph, QF_OP_contract, c, (size_t)c->to * 4);
        if (gathered) check_numbers(graph, QF_OP_gather, c, (size_t)c->to);
        end(b, graph, context);
    }
}

static void sizes_that_are_not_known_repeat_or_stay(void **unused) {
    (void)unused;
    static const resize_case doubled = {.mode = "nearest", .place = "half_pixel", .scale = 2},
                             stretched = {.mode = "linear", .place = "half_pixel", .scale = 2};
    qf_context *context = check_context(&state);
    builder *b = begin_resize(&doubled, "B,T");
    qf_graph *graph = good(b, context);
    b_check_type(graph, 0, "f32[B, 2*T]");
    end(b, graph, context);
    context = check_context(&state);
    b = begin_resize(&stretched, "B,T");
    graph = good(b, context);
    assert_int_equal(b_count(graph, QF_OP_opaque), 1);
    assert_non_null(strstr(state.messages, "a size is not known"));
    end(b, graph, context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_are_weighed_or_selected),
        cmocka_unit_test(sizes_that_are_not_known_repeat_or_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
