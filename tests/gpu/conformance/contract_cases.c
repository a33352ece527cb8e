/* Owns: cases of contractions: matmul, contract, scaled_matmul, conv.
 * Does not own: attention (attention_cases.c).
 * Next: cases.h. */
#include <string.h>

#include "tests/gpu/conformance/cases.h"

static const qf_dtype dtypes[] = {QF_F32, QF_BF16, QF_F16, QF_F64, QF_F8E4M3FN, QF_F8E5M2, QF_I32};

static fill values_of(qf_dtype dtype) {
    return dtype == QF_I32 ? INTEGERS(-9, 9) : NORMAL(1, 0.1);
}

static void product(suite *to, qf_op op, qf_dtype dtype, shape a, shape b, const char *attributes, qf_dtype out) {
    test_case *test = &to->test;
    case_begin(to, test, op, "%s_%s_%s_%s", qf_dtype_name(dtype), shape_text(a), shape_text(b), attributes);
    (void)case_add_input(test, "a", dtype, a, values_of(dtype));
    (void)case_add_input(test, "b", dtype, b, values_of(dtype));
    case_node(test, "  %%y = %s %%a, %%b {%s}", qf_op_name(op), attributes);
    case_output(test, "y", bound_of(op, dtype, out));
    test->small = shape_count(a) * shape_count(b) < 4000000;
    case_end(test);
}

static void matmuls(suite *to) {
    static const struct {
        shape a, b;
    } all[] = {{{2, {5, 7}}, {2, {7, 3}}},
               {{2, {64, 64}}, {2, {64, 64}}},
               {{3, {3, 17, 33}}, {3, {3, 33, 9}}},
               {{3, {3, 8, 16}}, {2, {16, 24}}},
               {{1, {16}}, {2, {16, 5}}},
               {{2, {5, 16}}, {1, {16}}},
               {{1, {31}}, {1, {31}}},
               {{2, {0, 8}}, {2, {8, 4}}},
               {{2, {3, 0}}, {2, {0, 4}}},
               {{4, {2, 1, 6, 8}}, {4, {1, 3, 8, 10}}},
               {{2, {1, 1}}, {2, {1, 1}}},
               {{2, {256, 1024}}, {2, {1024, 512}}},
               {{2, {129, 257}}, {2, {257, 65}}},
               {{3, {4, 100, 128}}, {3, {4, 128, 96}}},
               {{2, {1, 4096}}, {2, {4096, 512}}}};
    for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
        for (uint32_t k = 0; k < QF_COUNT_OF(all); k++) {
            bool slow = dtypes[j] == QF_F64 || dtypes[j] == QF_I32; /* on the CPU */
            if (slow && shape_count(all[k].a) > 100000) continue;
            product(to, QF_OP_matmul, dtypes[j], all[k].a, all[k].b, "", dtypes[j]);
        }
    product(to, QF_OP_matmul, QF_BF16, SHAPE(64, 128), SHAPE(128, 64), "out=f32", QF_F32);
    product(to, QF_OP_matmul, QF_F16, SHAPE(64, 128), SHAPE(128, 64), "out=bf16", QF_BF16);
    product(to, QF_OP_matmul, QF_F8E4M3FN, SHAPE(64, 128), SHAPE(128, 64), "out=bf16", QF_BF16);
    product(to, QF_OP_matmul, QF_F8E4M3FN, SHAPE(64, 128), SHAPE(128, 64), "out=f32", QF_F32);
}

static void contracts(suite *to) {
    static const struct {
        const char *equation;
        shape a, b;
    } all[] = {{"bhtd,bhsd->bhts", {4, {2, 3, 17, 32}}, {4, {2, 3, 21, 32}}},
               {"bhts,bhsd->bhtd", {4, {2, 3, 17, 21}}, {4, {2, 3, 21, 32}}},
               {"bthd,bshd->bhts", {4, {2, 9, 3, 16}}, {4, {2, 11, 3, 16}}},
               {"ik,kj->ij", {2, {33, 65}}, {2, {65, 17}}},
               {"ki,kj->ij", {2, {65, 33}}, {2, {65, 17}}},
               {"ik,jk->ji", {2, {33, 65}}, {2, {17, 65}}},
               {"bkgtd,bksd->bkgts", {5, {1, 2, 4, 5, 8}}, {4, {1, 2, 7, 8}}},
               {"i,j->ij", {1, {9}}, {1, {13}}},
               {"ij,ij->", {2, {5, 6}}, {2, {5, 6}}},
               {"ij,ij->ij", {2, {5, 6}}, {2, {5, 6}}},
               {"ijk,kl->ijl", {3, {3, 4, 64}}, {2, {64, 40}}},
               {"ij,kl->ik", {2, {3, 4}}, {2, {5, 6}}},
               {"abc,cd->adb", {3, {3, 4, 5}}, {2, {5, 6}}},
               {"ik,kj->ij", {2, {3, 0}}, {2, {0, 4}}}};
    for (uint32_t j = 0; j < QF_COUNT_OF(dtypes); j++)
        for (uint32_t k = 0; k < QF_COUNT_OF(all); k++) {
            char attributes[80];
            (void)snprintf(attributes, sizeof attributes, "equation=\"%s\"", all[k].equation);
            product(to, QF_OP_contract, dtypes[j], all[k].a, all[k].b, attributes, dtypes[j]);
        }
    product(to, QF_OP_contract, QF_BF16, SHAPE(64, 128), SHAPE(64, 128), "equation=\"ik,jk->ij\", out=f32", QF_F32);
}

static void scaled(suite *to) {
    static const struct {
        shape a, b;
        bool by_token, by_channel, bias;
        const char *attributes;
        qf_dtype out;
    } all[] = {{{2, {32, 64}}, {2, {64, 48}}, false, false, false, "out=bf16", QF_BF16},
               {{2, {33, 72}}, {2, {72, 40}}, true, true, true, "out=f16", QF_F16},
               {{3, {2, 16, 128}}, {2, {128, 64}}, true, false, false, "out=f32", QF_F32},
               {{2, {16, 128}}, {2, {128, 64}}, false, true, true, "out=bf16", QF_BF16},
               {{2, {16, 128}}, {2, {128, 64}}, false, false, true, "out=f8E4M3FN", QF_F8E4M3FN},
               {{2, {16, 128}}, {2, {128, 64}}, false, false, false, "out=f8E4M3FN, out_mode=mul_recip", QF_F8E4M3FN},
               {{2, {5, 19}}, {2, {19, 7}}, false, false, false, "out=f32", QF_F32},
               {{2, {0, 16}}, {2, {16, 16}}, false, false, false, "out=bf16", QF_BF16},
               {{2, {512, 1024}}, {2, {1024, 768}}, false, false, false, "out=bf16", QF_BF16}};
    static const qf_dtype narrow[][2] = {
        {QF_F8E4M3FN, QF_F8E4M3FN}, {QF_F8E5M2, QF_F8E4M3FN}, {QF_F8E4M3FN, QF_F8E5M2}};
    for (uint32_t j = 0; j < QF_COUNT_OF(narrow); j++)
        for (uint32_t k = 0; k < QF_COUNT_OF(all); k++) {
            test_case *test = &to->test;
            shape rows = all[k].a, columns = SHAPE(1, all[k].b.dims[1]);
            bool quantised = all[k].out == QF_F8E4M3FN;
            rows.dims[rows.rank - 1] = 1;
            case_begin(to, test, QF_OP_scaled_matmul, "%s_%s_%s_%s%s%s%s_%s", qf_dtype_name(narrow[j][0]),
                       qf_dtype_name(narrow[j][1]), shape_text(all[k].a), shape_text(all[k].b),
                       all[k].by_token ? "_token" : "", all[k].by_channel ? "_channel" : "", all[k].bias ? "_bias" : "",
                       all[k].attributes);
            (void)case_add_input(test, "a", narrow[j][0], all[k].a, NORMAL(4, 0));
            (void)case_add_input(test, "b", narrow[j][1], all[k].b, NORMAL(4, 0.5));
            (void)case_add_input(test, "as", QF_F32, all[k].by_token ? rows : SCALAR, UNIFORM(0.1, 0.4));
            (void)case_add_input(test, "bs", QF_F32, all[k].by_channel ? columns : SCALAR, UNIFORM(0.1, 0.4));
            (void)case_add_input(test, "bias", quantised ? QF_F32 : all[k].out, SHAPE(all[k].b.dims[1]), NORMAL(1, 0));
            (void)case_add_input(test, "s", QF_F32, SCALAR, CONSTANT(0.11));
            case_node(test, "  %%y = scaled_matmul %%a, %%b, %%as, %%bs%s%s {%s}", all[k].bias ? ", bias=%bias" : "",
                      quantised ? ", out_scale=%s" : "", all[k].attributes);
            case_output(test, "y", bound_of(QF_OP_scaled_matmul, narrow[j][0], all[k].out));
            test->small = k < 8;
            case_end(test);
        }
}

static void convs(suite *to) {
    static const struct {
        shape x, weight;
        const char *attributes;
        bool bias;
    } all[] = {{{3, {2, 3, 17}}, {3, {4, 3, 3}}, "strides=[1], pads_before=[1], pads_after=[1], dilations=[1]", true},
               {{4, {1, 4, 9, 11}},
                {4, {6, 2, 3, 2}},
                "strides=[2, 1], pads_before=[1, 0], pads_after=[0, 1], dilations=[1, 2], groups=2",
                false},
               {{4, {2, 3, 16, 16}},
                {4, {8, 3, 4, 4}},
                "strides=[4, 4], pads_before=[0, 0], pads_after=[0, 0], dilations=[1, 1]",
                true},
               {{5, {1, 2, 5, 4, 6}},
                {5, {3, 2, 2, 2, 2}},
                "strides=[1, 1, 1], pads_before=[0, 0, 0], pads_after=[0, 0, 0], dilations=[1, 1, 1]",
                false}};
    static const qf_dtype floats[] = {QF_F32, QF_F16, QF_BF16};
    for (uint32_t j = 0; j < QF_COUNT_OF(floats); j++)
        for (uint32_t k = 0; k < QF_COUNT_OF(all); k++) {
            test_case *test = &to->test;
            case_begin(to, test, QF_OP_conv, "%s_%s_%u", qf_dtype_name(floats[j]), shape_text(all[k].x), k);
            (void)case_add_input(test, "x", floats[j], all[k].x, NORMAL(1, 0.1));
            (void)case_add_input(test, "w", floats[j], all[k].weight, NORMAL(1, 0.1));
            (void)case_add_input(test, "b", floats[j], SHAPE(all[k].weight.dims[0]), NORMAL(1, 0));
            case_node(test, "  %%y = conv %%x, %%w%s {%s}", all[k].bias ? ", bias=%b" : "", all[k].attributes);
            case_output(test, "y", bound_of(QF_OP_conv, floats[j], floats[j]));
            test->small = true;
            case_end(test);
        }
}

void contract_cases(suite *to) {
    matmuls(to);
    contracts(to);
    scaled(to);
    convs(to);
}
