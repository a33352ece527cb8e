/* Owns: modules in memory that are wrong: attributes exchanged and replaced, operands exchanged.
 * Does not own: files that MLIR cannot parse (hostile.sh; MLIR 19 frees twice on some, so they are no matter for one
 * process). Next: frontends/mlir/import.c. */
#include "tests/mlir/modules.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "ir/graph.h"

#if defined(__SANITIZE_ADDRESS__)
#define MUTATIONS 200
#else
#define MUTATIONS 500
#endif
#define MOST 4096

static uint32_t state_of_random = 12345;

static uint32_t random_below(uint32_t limit) {
    state_of_random = state_of_random * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)state_of_random * limit >> 32);
}

static char *read_case(const char *name, size_t *out_size) {
    char path[512];
    (void)snprintf(path, sizeof path, QF_SOURCE_DIR "/tests/corpus/stablehlo/%s/model.generic.mlir", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *data = calloc(1, 1 << 16);
    assert_non_null(data);
    *out_size = fread(data, 1, (1 << 16) - 1, file);
    (void)fclose(file);
    return data;
}

/* --- mutating --- */
typedef struct operation_list {
    MlirOperation items[MOST];
    uint32_t count;
} operation_list;

static void collect(operation_list *list, MlirOperation operation) {
    if (list->count < MOST) list->items[list->count++] = operation;
    for (intptr_t r = 0; r < mlirOperationGetNumRegions(operation); r++) {
        MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, r));
        for (; !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block)) {
            MlirOperation inner = mlirBlockGetFirstOperation(block);
            for (; !mlirOperationIsNull(inner); inner = mlirOperationGetNextInBlock(inner)) collect(list, inner);
        }
    }
}

static MlirAttribute odd_attribute(MlirContext context) {
    static const int64_t numbers[] = {3, -1, INT64_MIN, INT64_MAX, 0, 0, 1};
    static const char *const texts[] = {"array<i64: 1, 0>",
                                        "dense<[1, 0]> : tensor<2xi64>",
                                        "dense<2.0> : tensor<3xf16>",
                                        "dense_resource<none> : tensor<2x16x2x2x64xbf16>",
                                        "#stablehlo.dot<lhs_contracting_dimensions = [99999999999999999999], rhs_",
                                        "[]",
                                        "@tril",
                                        "\"{\\\"fmha_scale\\\": 1e999, \\\"mask_type\\\": \"",
                                        "3 : i128"};
    uint32_t kind = random_below(3);
    if (kind == 0) return mlirDenseI64ArrayGet(context, random_below(7) + 1, numbers);
    if (kind == 1) return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), numbers[random_below(7)]);
    MlirAttribute attribute =
        mlirAttributeParseGet(context, mlirStringRefCreateFromCString(texts[random_below(QF_COUNT_OF(texts))]));
    return mlirAttributeIsNull(attribute) ? mlirUnitAttrGet(context) : attribute;
}

static void change_attribute(MlirContext context, const operation_list *list, MlirOperation operation) {
    static const char *const names[] = {"dot_dimension_numbers",
                                        "broadcast_dimensions",
                                        "permutation",
                                        "dimensions",
                                        "value",
                                        "callee",
                                        "compare_type",
                                        "iota_dimension",
                                        "comparison_direction",
                                        "start_indices",
                                        "limit_indices",
                                        "strides",
                                        "dimension",
                                        "backend_config",
                                        "call_target_name"};
    for (uint32_t i = 0; i < QF_COUNT_OF(names); i++) {
        MlirStringRef name = mlirStringRefCreateFromCString(names[i]);
        if (mlirAttributeIsNull(mlirOperationGetAttributeByName(operation, name))) continue;
        MlirAttribute other = mlirOperationGetAttributeByName(list->items[random_below(list->count)], name);
        uint32_t kind = random_below(4);
        if (kind == 0)
            mlirOperationSetAttributeByName(operation, name, mlirUnitAttrGet(context)); /* as good as absent */
        else if (kind == 1 && !mlirAttributeIsNull(other))
            mlirOperationSetAttributeByName(operation, name, other);
        else
            mlirOperationSetAttributeByName(operation, name, odd_attribute(context));
        return;
    }
}

/* By an argument of the block, or what an operation before gives. */
static void change_operand(const operation_list *list, MlirOperation operation) {
    intptr_t operands = mlirOperationGetNumOperands(operation);
    if (!operands) return;
    MlirBlock block = mlirOperationGetBlock(operation);
    intptr_t arguments = mlirBlockGetNumArguments(block), place = (intptr_t)random_below((uint32_t)operands);
    if (arguments && random_below(2)) {
        mlirOperationSetOperand(operation, place,
                                mlirBlockGetArgument(block, (intptr_t)random_below((uint32_t)arguments)));
        return;
    }
    for (uint32_t i = 0; i < list->count && list->items[i].ptr != operation.ptr; i++) {
        bool near =
            mlirOperationGetNumResults(list->items[i]) && mlirOperationGetBlock(list->items[i]).ptr == block.ptr;
        if (near && !random_below(4))
            mlirOperationSetOperand(operation, place, mlirOperationGetResult(list->items[i], 0));
    }
}

static void mutate(m_module *m) {
    operation_list list = {.count = 0};
    collect(&list, mlirModuleGetOperation(m->module));
    for (uint32_t changes = random_below(3) + 1; changes; changes--) {
        MlirOperation operation = list.items[random_below(list.count)];
        if (random_below(3))
            change_attribute(m->context, &list, operation);
        else
            change_operand(&list, operation);
    }
}

/* --- judging --- */
static void count_message(void *user, const qf_diagnostic *diagnostic) {
    ++*(uint32_t *)user;
    assert_non_null(diagnostic->message);
}

static uint32_t imported, rewritten, warned;

static void check_module(m_module *m) {
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = NULL;
    qf_status status = qf_mlir_import(context, m->module, NULL, &graph);
    assert_int_equal(status == QF_OK, graph != NULL);
    if (status != QF_OK) assert_non_null(strstr(state.messages, "error "));
    imported += graph != NULL;
    qf_graph_destroy(graph);
    check_destroy(context, &state);
    qf_mlir_rewrite_options options = {
        .struct_size = sizeof options, .remarks = true, .handler = count_message, .handler_user = &warned};
    qf_mlir_report report = {.struct_size = sizeof report};
    bool valid = mlirOperationVerify(mlirModuleGetOperation(m->module));
    assert_int_equal(qf_mlir_rewrite(m->module, &options, &report), QF_OK);
    rewritten += report.replaced;
    if (valid) assert_true(mlirOperationVerify(mlirModuleGetOperation(m->module)));
}

static void wrong_modules_end_in_a_status(void **unused) {
    (void)unused;
    static const char *const cases[] = {"jax_nn_causal_div", "jax_nn_kvq", "jax_manual_sinks", "jax_cudnn_f8_BTNH"};
    for (uint32_t i = 0; i < MUTATIONS; i++) {
        size_t size;
        m_module m;
        char *text = read_case(cases[i % QF_COUNT_OF(cases)], &size);
        m_parse(&m, text, size, true);
        assert_false(mlirModuleIsNull(m.module));
        mutate(&m);
        check_module(&m);
        m_close(&m);
        free(text);
    }
    print_message("%u of %u modules can be imported, %u attentions replaced, %u messages\n", imported, MUTATIONS,
                  rewritten, warned);
    assert_true(imported > MUTATIONS / 10 && imported < MUTATIONS * 9 / 10 && rewritten > MUTATIONS / 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_modules_end_in_a_status)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
