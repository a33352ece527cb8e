/* Owns: tests of ir/infer.h: what each shape rule gives, and what it refuses.
 * Does not own: attention's rules (infer_attention_test.c), whole graphs (infer_graph_test.c).
 * Next: inferring.h. */
#include "tests/ir/inferring.h"

static void structure(void **state) {
    (void)state;
    EXPECT_TYPES(
        {"symbolic", "values=T|4;shape=2", {NULL}, "i64[2]", 0}, {"symbolic", "values=2*T", {NULL}, "i64[]", 0},
        {"shape_of", "", {"f32[B, T]"}, "i64[2]", 0}, {"shape_of", "start=-1", {"f32[B, T, 4]"}, "i64[1]", 0},
        {"shape_of", "start=2;end=1", {"f32[B, T, 4]"}, "i64[0]", 0}, {"shape_of", "", {"f32[*]"}, "i64[*]", 0},
        {"iota", "shape=T|4;axis=1;dtype=i32", {NULL}, "i32[T, 4]", 0},
        {"full", "shape=B|T", {"bf16[]"}, "bf16[B, T]", 0});
    EXPECT_FAULTS({"symbolic", "values=T;shape=2", {NULL}, "attribute values has 1 entries, expected 2", 0},
                  {"symbolic", "values=T;shape=1,1", {NULL}, "attribute shape has 2 entries", 0},
                  {"parameter", "name=w", {NULL}, "the type of result 0 is missing", 0},
                  {"constant", "", {NULL}, "attribute value is missing", 0},
                  {"iota", "shape=4;axis=1", {NULL}, "attribute axis is 1, expected 0 to 0", 0},
                  {"full", "shape=4", {"f32[1]"}, "operand value has type f32[1], expected rank 0", 0},
                  {"neg", "", {""}, "operand x is missing", 0});
}

/* What operands of this type give, a condition apart; QF_DTYPE_NONE where the op refuses them. */
static qf_dtype result_dtype(const qf_op_info *op, const char *type) {
    bench b;
    bench_open(&b);
    qf_value operands[3];
    for (uint32_t i = 0; i < op->operand_count; i++)
        operands[i] = input(&b, strcmp(op->operands[i].name, "condition") == 0 ? "i1[3]" : type);
    qf_node node = insert(&b, op->op, "", operands, op->operand_count);
    qf_dtype dtype = node.id ? qf_value_dtype(b.graph, qf_node_result(b.graph, node, 0)) : QF_DTYPE_NONE;
    bench_close(&b);
    return dtype;
}

static void traits_say_what_elementwise_ops_give(void **state) {
    (void)state;
    uint32_t count, seen = 0;
    const qf_op_info *ops = qf_op_table(&count);
    for (uint32_t i = 0; i < count; i++) {
        const qf_op_info *op = &ops[i];
        if (!(op->traits & QF_TRAIT_ELEMENTWISE) || op->op == QF_OP_cast || op->op == QF_OP_bitcast) continue;
        qf_dtype dtype = result_dtype(op, "f32[3]");
        if (dtype == QF_DTYPE_NONE) dtype = result_dtype(op, "i1[3]");
        if (dtype != (op->traits & QF_TRAIT_TRUTH ? QF_I1 : QF_F32)) fail_msg("%s", op->name);
        seen++;
    }
    assert_int_equal(seen, 40);
}

static void elementwise(void **state) {
    (void)state;
    EXPECT_TYPES(
        {"exp", "", {"f16[B, T]"}, "f16[B, T]", 0}, {"add", "", {"f32[B, T]", "f32[B, T]"}, "f32[B, T]", 0},
        {"add", "", {"f32[B, 1, T]", "f32[H, 1]"}, "f32[B, H, T]", 0}, {"mul", "", {"f32[]", "f32[4]"}, "f32[4]", 0},
        {"add", "", {"f32[T]", "f32[16]"}, "f32[16] | T = 16", 0},
        {"add", "", {"f32[T]", "f32[S]"}, "f32[T] | T = S", 0},
        {"add", "", {"f32[T + 1]", "f32[S]"}, "f32[S] | T + 1 = S", 0}, {"add", "", {"f32[*]", "f32[S]"}, "f32[*]", 0},
        {"add", "", {"none[S]", "f32[S]"}, "f32[S]", 0}, {"less", "", {"i64[T]", "i64[T, 1]"}, "i1[T, T]", 0},
        {"not", "", {"i1[3]"}, "i1[3]", 0}, {"is_nan", "", {"f32[3]"}, "i1[3]", 0},
        {"and", "", {"i1[3]", "i1[]"}, "i1[3]", 0},
        {"where", "", {"i1[T, T]", "f16[]", "f16[B, 1, 1]"}, "f16[B, T, T]", 0},
        {"clamp", "", {"f32[T]", "f32[]", "f32[]"}, "f32[T]", 0},
        {"clamp", "", {"f32[T]", "", "f32[2, 1]"}, "f32[2, T]", 0},
        {"cast", "dtype=f8E4M3FN", {"f32[T]"}, "f8E4M3FN[T]", 0},
        {"bitcast", "dtype=f8E5M2", {"u8[T]"}, "f8E5M2[T]", 0}, {"softmax", "axis=1", {"f32[B, T]"}, "f32[B, T]", 0});
    EXPECT_FAULTS(
        {"add",
         "",
         {"f32[4]", "f32[5]"},
         "add: operand b has 5 elements on axis 0 to broadcast, expected 4 (its type is f32[5])",
         0},
        {"add", "", {"f32[T]", "f32[T + 1]"}, "operand b has T + 1 elements", 0},
        {"add", "", {"f32[4]", "f16[4]"}, "operand b has type f16[4], expected element type f32 as operand a has", 0},
        {"and", "", {"i1[4]", "f16[4]"}, "operand b has type f16[4], expected element type i1", 0},
        {"not", "", {"f32[4]"}, "operand x has type f32[4], expected element type i1", 0},
        {"is_nan", "", {"i64[4]"}, "expected a floating-point element type", 0},
        {"where", "", {"f32[4]", "f32[4]", "f32[4]"}, "operand condition has type f32[4]", 0},
        {"where",
         "",
         {"i1[4]", "f32[4]", "f16[4]"},
         "operand b has type f16[4], expected element type f32 as operand a has",
         0},
        {"clamp", "", {"f32[4]", "f16[]"}, "operand low has type f16[]", 0},
        {"bitcast", "dtype=f16", {"u8[4]"}, "expected an element type as wide as f16", 0},
        {"cast", "dtype=token", {"u8[4]"}, "attribute dtype is token", 0});
}

static void layout(void **state) {
    (void)state;
    EXPECT_TYPES({"view", "shape=B|T|12|64", {"f32[B, T, 768]"}, "f32[B, T, 12, 64]", 0},
                 {"view", "shape=B*T|D", {"f32[B, T, D]"}, "f32[B*T, D]", 0},
                 {"view", "shape=1|16", {"f32[T]"}, "f32[1, 16] | 16 = T", 0},
                 {"permute", "order=0,2,3,1", {"f32[B, T, 4, D]"}, "f32[B, 4, D, T]", 0},
                 {"slice", "starts=0|1;ends=B|T;steps=1,1", {"f32[B, T]"}, "f32[B, T - 1]", 0},
                 {"slice", "starts=1;ends=T;steps=2", {"f32[T]"}, "f32[floordiv(T, 2)]", 0},
                 {"slice", "starts=T - 1;ends=-1;steps=-1", {"f32[T]"}, "f32[T]", 0},
                 {"slice", "starts=3;ends=2;steps=1", {"f32[8]"}, "f32[0]", 0},
                 {"concat", "axis=1", {"f32[B, past, 4]", "f32[B, T, 4]"}, "f32[B, T + past, 4]", 0},
                 {"concat", "axis=0", {"f32[2, T]", "f32[1, 8]"}, "f32[3, 8] | T = 8", 0},
                 {"split", "axis=1;sizes=2|3", {"f32[T, 5]"}, "f32[T, 2]; f32[T, 3]", 2},
                 {"expand", "shape=B|8|T", {"f32[1, T]"}, "f32[B, 8, T]", 0},
                 {"expand", "shape=B|16", {"f32[1, T]"}, "f32[B, 16] | 16 = T", 0},
                 {"pad", "before=0|1;after=0|-2", {"f32[B, T]", "f32[]"}, "f32[B, T - 1]", 0});
    EXPECT_FAULTS(
        {"view", "shape=B|T|12|65", {"f32[B, T, 768]"}, "operand x has 768*B*T elements, expected 780*B*T", 0},
        {"permute", "order=0,0", {"f32[B, T]"}, "attribute order names axis 0 twice", 0},
        {"permute", "order=0,2", {"f32[B, T]"}, "attribute order is 2, expected 0 to 1", 0},
        {"permute", "order=0", {"f32[B, T]"}, "operand x has type f32[B, T], expected rank 1", 0},
        {"slice", "starts=0;ends=9;steps=1", {"f32[8]"}, "expected axis 0 to hold starts and ends", 0},
        {"slice", "starts=0;ends=T + 1;steps=1", {"f32[T]"}, "expected axis 0 to hold starts and ends", 0},
        {"slice", "starts=0;ends=8;steps=0", {"f32[8]"}, "attribute steps is 0", 0},
        {"slice", "starts=0;ends=8;steps=1,1", {"f32[8]"}, "attribute steps has 2 entries, expected 1", 0},
        {"concat", "axis=1", {"f32[2, 3]", "f32[3, 3]"}, "operand parts[1] has 3 elements", 0},
        {"concat", "axis=2", {"f32[2, 3]"}, "attribute axis is 2", 0},
        {"concat", "axis=0", {NULL}, "operand parts is missing", 0},
        {"concat", "axis=0", {"f32[2]", "f16[2]"}, "operand parts[1] has type f16[2]", 0},
        {"split", "axis=1;sizes=2|2", {"f32[T, 5]"}, "operand x has 5 elements on the axis to split, expected 4", 2},
        {"split", "axis=1;sizes=2|3", {"f32[T, 5]"}, "there are 3 results, expected 2", 3},
        {"expand", "shape=4", {"f32[1, 4]"}, "expected rank 1 or less to broadcast", 0},
        {"expand", "shape=4", {"f32[3]"}, "operand x has 3 elements on axis 0, expected 4", 0},
        {"pad", "before=-3;after=0", {"f32[2]", "f32[]"}, "expected axis 0 to hold what is cropped", 0},
        {"pad", "before=0;after=0", {"f32[2]", "f32[1]"}, "operand value has type f32[1], expected rank 0", 0});
}

static void indexing(void **state) {
    (void)state;
    EXPECT_TYPES({"gather", "axis=0", {"f32[V, D]", "i64[B, T]"}, "f32[B, T, D]", 0},
                 {"gather", "axis=1", {"f32[V, D]", "i64[]"}, "f32[V]", 0},
                 {"gather_elements", "axis=1", {"f32[V, D]", "i64[V, 3]"}, "f32[V, 3]", 0},
                 {"gather_nd", "", {"f32[A, B, C]", "i64[N, 2]"}, "f32[N, C]", 0},
                 {"gather_nd", "batch_dims=1", {"f32[A, B, C]", "i64[A, N, 1]"}, "f32[A, N, C]", 0},
                 {"scatter_nd", "", {"f32[A, B]", "i64[N, 1]", "f32[N, B]"}, "f32[A, B]", 0},
                 {"scatter_elements", "axis=0", {"f32[A, B]", "i64[2, B]", "f32[2, B]"}, "f32[A, B]", 0},
                 {"one_hot", "depth=V", {"i64[B, T]", "f32[2]"}, "f32[B, T, V]", 0},
                 {"one_hot", "depth=V;axis=0", {"i64[B, T]", "f32[2]"}, "f32[V, B, T]", 0},
                 {"arg_max", "axis=1", {"f32[B, T]"}, "i64[B, 1]", 0},
                 {"arg_max", "axis=1;keep=false", {"f32[B, T]"}, "i64[B]", 0},
                 {"top_k", "axis=1;k=4", {"f32[B, T]"}, "f32[B, 4]; i64[B, 4]", 0});
    EXPECT_FAULTS(
        {"gather", "axis=2", {"f32[V, D]", "i64[]"}, "attribute axis is 2", 0},
        {"gather",
         "axis=0",
         {"f32[V, D]", "f32[2]"},
         "operand indices has type f32[2], expected an integer element type",
         0},
        {"gather", "axis=0", {"f32[1,1,1,1,1,1,1,1]", "i64[1,1]"}, "the result has rank 9", 0},
        {"gather_nd",
         "",
         {"f32[A, B]", "i64[N, 3]"},
         "operand indices has type i64[N, 3], expected a last axis of 2 or less",
         0},
        {"scatter_nd",
         "",
         {"f32[A, 4]", "i64[N, 1]", "f32[N, 5]"},
         "operand updates has 5 elements on axis 1, expected 4",
         0},
        {"scatter_elements",
         "axis=0",
         {"f32[A]", "i64[2]", "f32[3]"},
         "operand updates has 3 elements on axis 0, expected 2",
         0},
        {"one_hot", "depth=4", {"i64[B]", "f32[3]"}, "operand values has 3 elements on axis 0, expected 2", 0},
        {"top_k", "axis=0;k=9", {"f32[8]"}, "operand x has type f32[8], expected at least k elements", 0});
}

static void reductions(void **state) {
    (void)state;
    EXPECT_TYPES({"reduce_sum", "axes=1", {"f32[B, T]"}, "f32[B, 1]", 0},
                 {"reduce_max", "axes=0,1;keep=false", {"f32[B, T]"}, "f32[]", 0},
                 {"layer_norm", "axis=1", {"f16[B, T]", "f16[T]"}, "f16[B, T]", 0},
                 {"rms_norm", "axis=1", {"f16[B, T]", "f16[T]"}, "f16[B, T]", 0},
                 {"rms_norm", "axis=1;out=f8E4M3FN", {"f16[B, T]", "f16[T]", "f32[]"}, "f8E4M3FN[B, T]", 0},
                 {"add_rms_norm",
                  "axis=1;out=f8E4M3FN",
                  {"f16[B, T]", "f16[B, T]", "f16[T]", "f32[]"},
                  "f8E4M3FN[B, T]; f16[B, T]",
                  0},
                 {"silu_mul", "", {"f16[B, 2*F]"}, "f16[B, F]", 0},
                 {"conv",
                  "strides=2,2;pads_before=1,1;pads_after=1,1;dilations=1,1",
                  {"f32[N, 3, 224, W]", "f32[64, 3, 3, 3]", "f32[64]"},
                  "f32[N, 64, 112, floordiv(W + 1, 2)]",
                  0});
    EXPECT_FAULTS(
        {"reduce_sum", "axes=2", {"f32[B, T]"}, "attribute axes is 2", 0},
        {"reduce_sum", "axes=1,1", {"f32[B, T]"}, "axis 1 twice", 0},
        {"rms_norm", "axis=1", {"f16[B, 8]", "f16[9]"}, "operand weight has 9 elements on axis 0, expected 8", 0},
        {"rms_norm", "axis=1;out=f8E4M3FN", {"f16[B, T]", "f16[T]"}, "operand out_scale is missing", 0},
        {"add_rms_norm",
         "axis=1",
         {"f16[B, 8]", "f16[B, 9]"},
         "operand residual has 9 elements on axis 1, expected 8",
         0},
        {"silu_mul", "", {"f16[B, 7]"}, "operand x has 7 elements on the last axis, expected 6", 0},
        {"conv",
         "strides=1;pads_before=0;pads_after=0;dilations=1",
         {"f32[1, 4, 9]", "f32[8, 3, 3]"},
         "operand x has 4 channels, expected 3",
         0},
        {"conv",
         "strides=1,1;pads_before=0;pads_after=0;dilations=1",
         {"f32[1, 3, 9]", "f32[8, 3, 3]"},
         "attribute strides has 2 entries",
         0},
        {"conv",
         "strides=0;pads_before=0;pads_after=0;dilations=1",
         {"f32[1, 3, 9]", "f32[8, 3, 3]"},
         "attribute strides holds 0, expected 1 or more",
         0});
}

static void contractions(void **state) {
    (void)state;
    EXPECT_TYPES(
        {"contract", "equation=bhtd,bhsd->bhts", {"f16[B, 8, T, 64]", "f16[B, 8, S, 64]"}, "f16[B, 8, T, S]", 0},
        {"contract",
         "equation=bhtd,bhsd->bhts;out=f32",
         {"f8E4M3FN[B, 8, T, 64]", "f8E5M2[B, 8, S, 64]"},
         "f32[B, 8, T, S]",
         0},
        {"contract", "equation=ab,b->a", {"f32[T, D]", "f32[64]"}, "f32[T] | D = 64", 0},
        {"contract", "equation=,b->b", {"f32[]", "f32[T]"}, "f32[T]", 0},
        {"matmul", "", {"f32[B, 1, T, D]", "f32[H, D, S]"}, "f32[B, H, T, S]", 0},
        {"matmul", "", {"f32[D]", "f32[D, S]"}, "f32[S]", 0}, {"matmul", "", {"f32[T, D]", "f32[D]"}, "f32[T]", 0},
        {"scaled_matmul",
         "out=bf16",
         {"f8E4M3FN[B, T, K]", "f8E4M3FN[K, N]", "f32[B, T, 1]", "f32[1, N]", "bf16[N]"},
         "bf16[B, T, N]",
         0},
        {"scaled_matmul",
         "out=f8E4M3FN",
         {"f8E4M3FN[T, K]", "f8E4M3FN[K, N]", "f32[]", "f32[1]", "", "f32[]"},
         "f8E4M3FN[T, N]",
         0});
    EXPECT_FAULTS(
        {"contract",
         "equation=ab,bc->ac",
         {"f32[T, 64]", "f32[65, N]"},
         "operand b has 65 elements for label b, expected 64",
         0},
        {"contract",
         "equation=ab,bc->ac",
         {"f32[T]", "f32[65, N]"},
         "operand a has type f32[T], expected rank 2, found rank 1",
         0},
        {"contract",
         "equation=ab,bc->ad",
         {"f32[T, 4]", "f32[4, N]"},
         "a label of the result stands in neither operand",
         0},
        {"contract", "equation=aa,bc->ac", {"f32[4, 4]", "f32[4, N]"}, "a label stands twice on one side", 0},
        {"contract", "equation=ab bc", {"f32[4, 4]", "f32[4, N]"}, "the form is", 0},
        {"contract",
         "equation=ab,bc->ac",
         {"f32[4, 4]", "f16[4, N]"},
         "operand b has type f16[4, N], expected element type f32",
         0},
        {"matmul", "", {"f32[2, 4, 5]", "f32[3, 5, 6]"}, "operand b has 3 elements on a batch axis, expected 2", 0},
        {"matmul", "", {"f32[4, 5]", "f32[6, 5]"}, "operand b has 6 elements on axis 0, expected 5", 0},
        {"scaled_matmul",
         "out=f8E4M3FN",
         {"f8E4M3FN[T, K]", "f8E4M3FN[K, N]", "f32[]", "f32[]"},
         "operand out_scale is missing",
         0},
        {"scaled_matmul",
         "out=f32",
         {"f8E4M3FN[T, K]", "f8E4M3FN[K, 8]", "f32[]", "f32[9]"},
         "operand b_scale has 9 elements on axis 0, expected 8",
         0});
}

static void quantisation(void **state) {
    (void)state;
    EXPECT_TYPES(
        {"quantize", "dtype=f8E4M3FN", {"bf16[B, T]", "f32[]"}, "f8E4M3FN[B, T]", 0},
        {"quantize", "dtype=i8;axis=1", {"f32[B, T]", "f32[T]", "i8[T]"}, "i8[B, T]", 0},
        {"quantize", "dtype=f8E4M3FN;axis=1;group=128", {"f32[B, 512]", "f32[B, 4]"}, "f8E4M3FN[B, 512]", 0},
        {"dequantize", "dtype=f16", {"f8E4M3FN[B, T]", "f32[1]"}, "f16[B, T]", 0},
        {"dynamic_quantize", "dtype=f8E4M3FN", {"f16[B, T]"}, "f8E4M3FN[B, T]; f32[]", 0},
        {"dynamic_quantize", "dtype=f8E4M3FN;granularity=token", {"f16[B, T]"}, "f8E4M3FN[B, T]; f32[B, 1]", 0},
        {"dynamic_quantize",
         "dtype=f8E4M3FN;granularity=group;group=128",
         {"f16[B, 512]"},
         "f8E4M3FN[B, 512]; f32[B, 4]",
         0});
    EXPECT_FAULTS(
        {"quantize",
         "dtype=f16",
         {"f32[4]", "f32[]"},
         "attribute dtype is f16, expected an 8-bit or 4-bit element type",
         0},
        {"quantize", "dtype=f8E4M3FN", {"f8E5M2[4]", "f32[]"}, "it is quantised already", 0},
        {"quantize", "dtype=f8E4M3FN", {"f32[4]", "f32[4]"}, "operand scale has 4 elements on axis 0, expected 1", 0},
        {"quantize",
         "dtype=f8E4M3FN;axis=1",
         {"f32[4, 5]", "f32[4]"},
         "operand scale has 4 elements on axis 0, expected 5",
         0},
        {"dequantize", "dtype=i32", {"f8E4M3FN[4]", "f32[]"}, "attribute dtype is i32", 0},
        {"dynamic_quantize",
         "dtype=f8E4M3FN;granularity=group;group=128",
         {"f16[B, 500]"},
         "operand x has 500 elements",
         0});
}

/* FAULTS 35. */
static void fault_35_dynamic_scale_of_quantised_data(void **state) {
    (void)state;
    EXPECT_FAULTS({"dynamic_quantize",
                   "dtype=f8E4M3FN",
                   {"f8E4M3FN[4]"},
                   "operand x has type f8E4M3FN[4], expected f32, f16, bf16 or f64: it is quantised already",
                   0});
}

/* FAULTS 65: hidden sizes that heads do not divide are refused. */
static void fault_65_sizes_that_do_not_divide(void **state) {
    (void)state;
    EXPECT_FAULTS({"view",
                   "shape=B|T|12|floordiv(770, 12)",
                   {"f32[B, T, 770]"},
                   "operand x has 770*B*T elements, expected 768*B*T",
                   0},
                  {"attention",
                   "scale=1",
                   {"f16[B, 10, T, 64]", "f16[B, 4, S, 64]", "f16[B, 4, S, 64]"},
                   "a multiple of 4 KV heads, found 10",
                   0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure),
        cmocka_unit_test(traits_say_what_elementwise_ops_give),
        cmocka_unit_test(elementwise),
        cmocka_unit_test(layout),
        cmocka_unit_test(indexing),
        cmocka_unit_test(reductions),
        cmocka_unit_test(contractions),
        cmocka_unit_test(quantisation),
        cmocka_unit_test(fault_35_dynamic_scale_of_quantised_data),
        cmocka_unit_test(fault_65_sizes_that_do_not_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
