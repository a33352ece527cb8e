/* Owns: modules in memory: importing, rewriting in place, the pass, allocation failures.
 * Does not own: what each operation becomes (tests/golden/mlir), exporters' modules (tests/e2e).
 * Next: frontends/mlir/rewrite.c. */
#include "tests/mlir/modules.h"

#include <mlir-c/Pass.h>

#include "ir/graph.h"
#include "tests/oom.h"

/* softmax(q k^T / 8) v, divided by a scale, clamped and rounded to FP8. `%y` is the FP8 result, `%o` the attention's.
 */
#define ATTENTION                                                                                                      \
    "%e = \"stablehlo.constant\"() <{value = dense<0.125> : tensor<f32>}> : () -> tensor<f32>\n"                       \
    "%lo = \"stablehlo.constant\"() <{value = dense<-4.48e+02> : tensor<f32>}> : () -> tensor<f32>\n"                  \
    "%hi = \"stablehlo.constant\"() <{value = dense<4.48e+02> : tensor<f32>}> : () -> tensor<f32>\n"                   \
    "%inf = \"stablehlo.constant\"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>\n"                \
    "%z = \"stablehlo.constant\"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>\n"                         \
    "%d = \"stablehlo.dot_general\"(%q, %k) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, "   \
    "1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [3]>}> : "   \
    "(" Q ", " Q ") -> " S "\n"                                                                                        \
    "%eb = \"stablehlo.broadcast_in_dim\"(%e) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> " S "\n"        \
    "%s = \"stablehlo.multiply\"(%d, %eb) : (" S ", " S ") -> " S "\n"                                                 \
    "%m = \"stablehlo.reduce\"(%s, %inf) <{dimensions = array<i64: 3>}> ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n" \
    "%r = \"stablehlo.maximum\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"                                 \
    "\"stablehlo.return\"(%r) : (tensor<f32>) -> ()\n}) : (" S ", tensor<f32>) -> " R "\n"                             \
    "%mb = \"stablehlo.broadcast_in_dim\"(%m) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (" R ") -> " S "\n"     \
    "%c = \"stablehlo.subtract\"(%s, %mb) : (" S ", " S ") -> " S "\n"                                                 \
    "%x = \"stablehlo.exponential\"(%c) : (" S ") -> " S "\n"                                                          \
    "%t = \"stablehlo.reduce\"(%x, %z) <{dimensions = array<i64: 3>}> ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"   \
    "%r = \"stablehlo.add\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"                                     \
    "\"stablehlo.return\"(%r) : (tensor<f32>) -> ()\n}) : (" S ", tensor<f32>) -> " R "\n"                             \
    "%tb = \"stablehlo.broadcast_in_dim\"(%t) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (" R ") -> " S "\n"     \
    "%p = \"stablehlo.divide\"(%x, %tb) : (" S ", " S ") -> " S "\n"                                                   \
    "%o = \"stablehlo.dot_general\"(%p, %v) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, "   \
    "1], rhs_batching_dimensions = [0, 1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [2]>}> : "   \
    "(" S ", " Q ") -> " Q "\n"
#define QUANTISE                                                                                                       \
    "%gb = \"stablehlo.broadcast_in_dim\"(%g) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> " Q "\n"        \
    "%w = \"stablehlo.divide\"(%o, %gb) : (" Q ", " Q ") -> " Q "\n"                                                   \
    "%cl = \"stablehlo.clamp\"(%lo, %w, %hi) : (tensor<f32>, " Q ", tensor<f32>) -> " Q "\n"                           \
    "%y = \"stablehlo.convert\"(%cl) : (" Q ") -> " F "\n"
#define Q         "tensor<1x2x4x8xf32>"
#define F         "tensor<1x2x4x8xf8E4M3FN>"
#define S         "tensor<1x2x4x4xf32>"
#define R         "tensor<1x2x4xf32>"
#define ARGUMENTS "%q: " Q ", %k: " Q ", %v: " Q ", %g: tensor<f32>"
#define TYPES     "(" Q ", " Q ", " Q ", tensor<f32>)"
#define RETURN    "\"func.return\"(%y) : (" F ") -> ()"

static uint32_t count_of(const char *text, const char *word) {
    uint32_t count = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) count++;
    return count;
}

static void keep_message(void *user, const qf_diagnostic *diagnostic) {
    char *text = user;
    size_t used = strlen(text);
    (void)snprintf(text + used, 4096 - used, "%s: %s\n", diagnostic->location, diagnostic->message);
}

static qf_mlir_report rewrite(m_module *m, char *messages) {
    qf_mlir_rewrite_options options = {
        .struct_size = sizeof options, .remarks = true, .handler = keep_message, .handler_user = messages};
    qf_mlir_report report = {.struct_size = sizeof report};
    *messages = '\0';
    qf_status status = qf_mlir_rewrite(m->module, &options, &report);
    if (status != QF_OK) print_message("%s%s", messages, m->said);
    assert_int_equal(status, QF_OK);
    return report;
}

static void fused_attention_replaces_what_computed_it(void **unused) {
    (void)unused;
    m_module m;
    char messages[4096];
    m_open(&m, M_FUNCTION(TYPES " -> " F, ARGUMENTS, ATTENTION QUANTISE RETURN));
    qf_mlir_report report = rewrite(&m, messages);
    assert_int_equal(report.attentions, 1);
    assert_int_equal(report.fused, 1);
    assert_int_equal(report.replaced, 1);
    assert_non_null(strstr(messages, "test.mlir:27:6 (stablehlo.dot_general): attention fused by"));
    char *text = m_print(&m);
    assert_int_equal(count_of(text, "stablehlo."), 0); /* nothing of it is left */
    assert_non_null(strstr(text, "\"qfuse.attention\"(%arg0, %arg1, %arg2, %arg3)"));
    assert_non_null(strstr(text, "operand_names = [\"q\", \"k\", \"v\", \"out_scale\"]"));
    assert_true(mlirOperationVerify(mlirModuleGetOperation(m.module)));
    /* The second time there is nothing to do. */
    report = rewrite(&m, messages);
    assert_int_equal(report.attentions, 1);
    assert_int_equal(report.replaced, 0);
    free(text);
    m_close(&m);
}

/* Operations that QFuse does not know stay as and where they are, read or not; so does what else they read. */
static void unknown_operations_stay(void **unused) {
    (void)unused;
    m_module m;
    char messages[4096];
    m_open(&m,
           M_FUNCTION(TYPES " -> " F, ARGUMENTS,
                      "\"vendor.begin\"(%g) {level = 3 : i32} : (tensor<f32>) -> ()\n" ATTENTION
                      "\"vendor.look\"(%s) : (" S ") -> ()\n"
                      "%u = \"vendor.unread\"(%q) ({\n^bb0(%i: tensor<f32>):\n\"vendor.yield\"(%g, %i) : (tensor<f32>, "
                      "tensor<f32>) -> ()\n}) : (" Q ") -> " Q "\n" QUANTISE "\"vendor.end\"(%y) : (" F
                      ") -> ()\n" RETURN));
    qf_mlir_report report = rewrite(&m, messages);
    assert_int_equal(report.replaced, 0); /* the scores are read by somebody else */
    char *text = m_print(&m);
    assert_int_equal(count_of(text, "vendor."), 5);
    free(text);
    m_close(&m);
    m_open(&m, M_FUNCTION(TYPES " -> " F, ARGUMENTS,
                          "\"vendor.begin\"(%g) {level = 3 : i32} : (tensor<f32>) -> ()\n" ATTENTION
                          "%u = \"vendor.unread\"(%q) : (" Q ") -> " Q "\n" QUANTISE "\"vendor.end\"(%y) : (" F
                          ") -> ()\n" RETURN));
    report = rewrite(&m, messages);
    assert_int_equal(report.replaced, 1);
    text = m_print(&m);
    const char *begin = strstr(text, "vendor.begin"), *unread = strstr(text, "vendor.unread");
    const char *fused = strstr(text, "qfuse.attention"), *end = strstr(text, "\"vendor.end\"(%");
    assert_true(begin && unread && fused && end && begin < unread && unread < fused && fused < end);
    assert_non_null(strstr(text, "level = 3 : i32"));
    assert_non_null(strstr(messages, "vendor.begin is carried through as it is"));
    free(text);
    m_close(&m);
}

/* --- calls --- */
#define CALLEE(name, result, body)                                                                                     \
    "\"func.func\"() <{function_type = " TYPES " -> " result ", sym_name = \"" name                                    \
    "\", sym_visibility = \"private\"}> ({\n^bb0(" ARGUMENTS "):\n" body "}) : () -> ()\n"
#define MODULE_OF(main, others)                                                                                        \
    "\"builtin.module\"() ({\n\"func.func\"() <{function_type = " TYPES " -> " F                                       \
    ", sym_name = \"main\"}> ({\n^bb0(" ARGUMENTS "):\n" main "}) : () -> ()\n" others "}) : () -> ()\n"

/* The attention is in a callee of a callee, its quantisation in the function: one call after the other is inlined. */
static void calls_are_inlined_where_an_attention_is_in_them(void **unused) {
    (void)unused;
    m_module m;
    char messages[4096];
    m_open(&m,
           MODULE_OF("%lo = \"stablehlo.constant\"() <{value = dense<-4.48e+02> : tensor<f32>}> : () -> tensor<f32>\n"
                     "%hi = \"stablehlo.constant\"() <{value = dense<4.48e+02> : tensor<f32>}> : () -> tensor<f32>\n"
                     "%o = \"func.call\"(%q, %k, %v, %g) <{callee = @outer}> : " TYPES " -> " Q "\n" QUANTISE RETURN,
                     CALLEE("outer", Q,
                            "%n = \"stablehlo.tanh\"(%q) : (" Q ") -> " Q "\n"
                            "%o = \"func.call\"(%n, %k, %v, %g) <{callee = @inner}> : " TYPES " -> " Q "\n"
                            "\"func.return\"(%o) : (" Q ") -> ()\n")
                         CALLEE("inner", Q, ATTENTION "\"func.return\"(%o) : (" Q ") -> ()\n")));
    qf_mlir_report report = rewrite(&m, messages);
    assert_int_equal(report.functions, 1);
    assert_int_equal(report.attentions, 1);
    assert_int_equal(report.replaced, 1);
    char *text = m_print(&m);
    const char *fused = strstr(text, "qfuse.attention"), *inner = strstr(text, "sym_name = \"inner\"");
    assert_true(fused && inner && fused < inner); /* in main */
    const char *before = strstr(text, "stablehlo.tanh");
    assert_true(before && before < fused);
    assert_int_equal(count_of(text, "\"func.call\""), 1); /* outer's own */
    assert_true(mlirOperationVerify(mlirModuleGetOperation(m.module)));
    free(text);
    m_close(&m);
}

/* A call whose result nobody reads any more stays where the callee has an effect. */
static void calls_with_effects_stay(void **unused) {
    (void)unused;
    for (int effect = 0; effect < 2; effect++) {
        m_module m;
        char messages[4096];
#define MAIN                                                                                                           \
    ATTENTION "%lw = \"func.call\"(%q, %k, %v, %g) <{callee = @low}> : " TYPES " -> tensor<f32>\n"                     \
              "%gb = \"stablehlo.broadcast_in_dim\"(%g) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> " Q   \
              "\n%w = \"stablehlo.divide\"(%o, %gb) : (" Q ", " Q ") -> " Q "\n"                                       \
              "%cl = \"stablehlo.clamp\"(%lw, %w, %hi) : (tensor<f32>, " Q ", tensor<f32>) -> " Q                      \
              "\n%y = \"stablehlo.convert\"(%cl) : (" Q ") -> " F "\n" RETURN
#define LOW                                                                                                            \
    "%n = \"stablehlo.constant\"() <{value = dense<-4.48e+02> : tensor<f32>}> : () -> tensor<f32>\n"                   \
    "\"func.return\"(%n) : (tensor<f32>) -> ()\n"
        const char *module =
            effect ? MODULE_OF(MAIN, CALLEE("low", "tensor<f32>", "\"vendor.log\"(%q) : (" Q ") -> ()\n" LOW))
                   : MODULE_OF(MAIN, CALLEE("low", "tensor<f32>", LOW));
        m_open(&m, module);
        assert_int_equal(rewrite(&m, messages).replaced, 1);
        char *text = m_print(&m);
        assert_int_equal(count_of(text, "\"func.call\""), effect);
        free(text);
        m_close(&m);
    }
}

/* --- what cannot be --- */
static void functions_that_cannot_be_read_are_left_alone(void **unused) {
    (void)unused;
    m_module m;
    char messages[4096];
    m_open(&m,
           "\"builtin.module\"() ({\n\"func.func\"() <{function_type = (i1) -> (), sym_name = \"branches\"}> "
           "({\n^bb0(%c: i1):\n\"vendor.jump\"()[^bb1] : () -> ()\n^bb1:\n\"func.return\"() : () -> ()\n}) : () -> ()\n"
           "\"func.func\"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = \"forever\"}> ({\n"
           "^bb0(%x: tensor<4xf32>):\n%y = \"func.call\"(%x) <{callee = @forever}> : (tensor<4xf32>) -> "
           "tensor<4xf32>\n\"func.return\"(%y) : (tensor<4xf32>) -> ()\n}) : () -> ()\n}) : () -> ()\n");
    char *before = m_print(&m);
    qf_mlir_report report = rewrite(&m, messages);
    assert_int_equal(report.functions, 0);
    assert_int_equal(report.skipped, 2);
    assert_non_null(strstr(messages, "branches"));
    assert_non_null(strstr(messages, "calls are nested more than 64 deep (recursion?)"));
    char *after = m_print(&m);
    assert_string_equal(before, after);
    free(before);
    free(after);
    m_close(&m);
}

/* Every fault in one place with one message; the importer does not trust unregistered operations. */
static void faults_are_located(void **unused) {
    (void)unused;
    static const struct fault {
        const char *module, *message;
    } faults[] = {
        {"\"builtin.module\"() ({\n^bb0:\n}) : () -> ()", "the module has no function"},
        {M_FUNCTION("(tensor<4xf32>) -> tensor<4xf32>", "%x: tensor<4xf32>",
                    "%y = \"stablehlo.add\"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf16>\n"
                    "\"vendor.use\"(%y) : (tensor<4xf16>) -> ()\n\"func.return\"(%x) : (tensor<4xf32>) -> ()"),
         "test.mlir:4:6 (stablehlo.add): stablehlo.add: its result is declared as f16[4], and its operands give "
         "f32[4]"},
        {M_FUNCTION("(tensor<4xf32>) -> tensor<4xf32>", "%x: tensor<4xf32>",
                    "%y = \"stablehlo.reshape\"(%x) : (tensor<4xf32>) -> tensor<5xf32>\n"
                    "\"func.return\"(%x) : (tensor<4xf32>) -> ()"),
         "test.mlir:4:6 (stablehlo.reshape)"},
        {M_FUNCTION("(tensor<4xf32>) -> tensor<4xf32>", "%x: tensor<4xf32>",
                    "%y = \"stablehlo.composite\"(%x) <{name = \"a.b\", decomposition = @none}> : (tensor<4xf32>) -> "
                    "tensor<4xf32>\n\"func.return\"(%y) : (tensor<4xf32>) -> ()"),
         "stablehlo.composite calls @none, which the module does not have"},
    };
    for (size_t i = 0; i < QF_COUNT_OF(faults); i++) {
        m_module m;
        check_state state;
        qf_context *context = check_context(&state);
        qf_graph *graph = NULL;
        m_open(&m, faults[i].module);
        assert_int_not_equal(qf_mlir_import(context, m.module, NULL, &graph), QF_OK);
        assert_null(graph);
        assert_non_null(strstr(state.messages, faults[i].message));
        assert_int_equal(count_of(state.messages, "error "), 1);
        check_destroy(context, &state);
        m_close(&m);
    }
}

static void a_function_is_chosen_by_name(void **unused) {
    (void)unused;
    m_module m;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = NULL;
    m_open(&m, "func.func private @helper(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }\n"
               "func.func @second(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }\n");
    assert_int_equal(qf_mlir_import(context, m.module, NULL, &graph), QF_OK);
    assert_string_equal(qf_graph_name(graph), "second");
    qf_graph_destroy(graph);
    qf_mlir_import_options options = {.struct_size = sizeof options, .function = "helper"};
    assert_int_equal(qf_mlir_import(context, m.module, &options, &graph), QF_OK);
    assert_string_equal(qf_graph_name(graph), "helper");
    qf_graph_destroy(graph);
    options.function = "third";
    assert_int_equal(qf_mlir_import(context, m.module, &options, &graph), QF_ERROR_NOT_FOUND);
    assert_non_null(strstr(state.messages, "the module has no function @third"));
    check_destroy(context, &state);
    m_close(&m);
}

/* Large constants are MLIR's memory; small ones are in the graph. */
static void large_constants_are_referred_to(void **unused) {
    (void)unused;
    m_module m;
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = NULL;
    char text[65536] = "func.func @main() -> tensor<512xf32> {\n  %w = arith.constant dense<[";
    for (int i = 0; i < 512; i++) (void)snprintf(text + strlen(text), 32, "%s%d.5", i ? ", " : "", i);
    (void)strcat(text, "]> : tensor<512xf32>\n  return %w : tensor<512xf32>\n}\n");
    m_open(&m, text);
    assert_int_equal(qf_mlir_import(context, m.module, NULL, &graph), QF_OK);
    size_t size = 0;
    const float *data = qf_graph_weight(graph, "constant0", &size);
    assert_non_null(data);
    assert_int_equal(size, 2048);
    assert_true(data[0] == 0.5f && data[511] == 511.5f);
    qf_graph_destroy(graph);
    qf_mlir_import_options options = {.struct_size = sizeof options, .max_constant_bytes = 4096};
    assert_int_equal(qf_mlir_import(context, m.module, &options, &graph), QF_OK);
    assert_null(qf_graph_weight(graph, "constant0", NULL));
    qf_graph_destroy(graph);
    check_destroy(context, &state);
    m_close(&m);
}

/* --- the pass --- */
static bool run_pass(m_module *m, const qf_mlir_rewrite_options *options) {
    MlirPassManager manager = mlirPassManagerCreate(m->context);
    assert_true(qfuse_mlir_register_pass(mlirPassManagerGetAsOpPassManager(manager), options));
    bool good = mlirLogicalResultIsSuccess(mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(m->module)));
    mlirPassManagerDestroy(manager);
    return good;
}

static void the_pass_fails_as_passes_do(void **unused) {
    (void)unused;
    m_module m;
    m_open(&m, M_FUNCTION(TYPES " -> " F, ARGUMENTS, ATTENTION QUANTISE RETURN));
    qf_mlir_rewrite_options options = {.struct_size = sizeof options, .passes = "canonicalize,nonsense"};
    assert_false(run_pass(&m, &options));
    assert_non_null(strstr(m.said, "nonsense"));
    assert_true(run_pass(&m, NULL));
    char *text = m_print(&m);
    assert_int_equal(count_of(text, "qfuse.attention"), 1);
    free(text);
    m_close(&m);
}

/* Dialects that LLVM has, in a context that refuses others: the fused operation has nowhere to go, and says so. */
static void the_pass_says_that_it_needs_its_dialect(void **unused) {
    (void)unused;
    static const char linalg[] =
        "func.func @main(%q: tensor<2x4x8xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x4x8xf32>, %s: tensor<2x4x8xf32>)"
        " -> tensor<2x4x8xf8E4M3FN> {\n"
        "  %z = arith.constant 0.0 : f32\n"
        "  %e = arith.constant dense<0.25> : tensor<2x4x4xf32>\n"
        "  %g = arith.constant dense<0.5> : tensor<2x4x8xf32>\n"
        "  %lo = arith.constant dense<-448.0> : tensor<2x4x8xf32>\n"
        "  %hi = arith.constant dense<448.0> : tensor<2x4x8xf32>\n"
        "  %p0 = tensor.empty() : tensor<2x8x4xf32>\n"
        "  %kt = linalg.transpose ins(%k : tensor<2x4x8xf32>) outs(%p0 : tensor<2x8x4xf32>) permutation = [0, 2, 1]\n"
        "  %p1 = tensor.empty() : tensor<2x4x4xf32>\n"
        "  %p2 = linalg.fill ins(%z : f32) outs(%p1 : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>\n"
        "  %d = linalg.batch_matmul ins(%q, %kt : tensor<2x4x8xf32>, tensor<2x8x4xf32>) outs(%p2 : tensor<2x4x4xf32>)"
        " -> tensor<2x4x4xf32>\n"
        "  %c = arith.mulf %d, %e : tensor<2x4x4xf32>\n"
        "  %p = linalg.softmax dimension(2) ins(%c : tensor<2x4x4xf32>) outs(%p1 : tensor<2x4x4xf32>) ->"
        " tensor<2x4x4xf32>\n"
        "  %p3 = tensor.empty() : tensor<2x4x8xf32>\n"
        "  %p4 = linalg.fill ins(%z : f32) outs(%p3 : tensor<2x4x8xf32>) -> tensor<2x4x8xf32>\n"
        "  %o = linalg.batch_matmul ins(%p, %v : tensor<2x4x4xf32>, tensor<2x4x8xf32>) outs(%p4 : tensor<2x4x8xf32>)"
        " -> tensor<2x4x8xf32>\n"
        "  %w = arith.divf %o, %g : tensor<2x4x8xf32>\n"
        "  %a = arith.maximumf %w, %lo : tensor<2x4x8xf32>\n"
        "  %b = arith.minimumf %a, %hi : tensor<2x4x8xf32>\n"
        "  %y = arith.truncf %b : tensor<2x4x8xf32> to tensor<2x4x8xf8E4M3FN>\n"
        "  return %y : tensor<2x4x8xf8E4M3FN>\n}\n";
    m_module m;
    m_open(&m, linalg);
    mlirContextSetAllowUnregisteredDialects(m.context, false);
    assert_false(run_pass(&m, NULL));
    assert_non_null(strstr(m.said, "mlirContextSetAllowUnregisteredDialects"));
    mlirContextSetAllowUnregisteredDialects(m.context, true);
    assert_true(run_pass(&m, NULL));
    char *text = m_print(&m);
    assert_int_equal(count_of(text, "qfuse.attention"), 1);
    assert_int_equal(count_of(text, "linalg.batch_matmul"), 0);
    free(text);
    m_close(&m);
}

/* --- memory --- */
static bool import_module(qf_context *context, void *user) {
    const m_module *m = user;
    qf_graph *graph = NULL;
    bool worked = qf_mlir_import(context, m->module, NULL, &graph) == QF_OK;
    assert_int_equal(worked, graph != NULL);
    qf_graph_destroy(graph);
    return worked;
}

static void allocation_failures_are_statuses(void **unused) {
    (void)unused;
    m_module m;
    m_open(&m, MODULE_OF("%o = \"func.call\"(%q, %k, %v, %g) <{callee = @inner}> : " TYPES " -> " F "\n"
                         "%u = \"vendor.strange\"(%o) ({\n\"vendor.yield\"(%g) : (tensor<f32>) -> ()\n}) : (" F
                         ") -> " F "\n\"func.return\"(%u) : (" F ") -> ()\n",
                         CALLEE("inner", F, ATTENTION QUANTISE RETURN)));
    oom_sweep(import_module, &m, 1);
    m_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fused_attention_replaces_what_computed_it),
                                       cmocka_unit_test(unknown_operations_stay),
                                       cmocka_unit_test(calls_are_inlined_where_an_attention_is_in_them),
                                       cmocka_unit_test(calls_with_effects_stay),
                                       cmocka_unit_test(functions_that_cannot_be_read_are_left_alone),
                                       cmocka_unit_test(faults_are_located),
                                       cmocka_unit_test(a_function_is_chosen_by_name),
                                       cmocka_unit_test(large_constants_are_referred_to),
                                       cmocka_unit_test(the_pass_fails_as_passes_do),
                                       cmocka_unit_test(the_pass_says_that_it_needs_its_dialect),
                                       cmocka_unit_test(allocation_failures_are_statuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
