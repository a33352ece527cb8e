/* Owns: allocation failures while graphs are read, verified, printed, cloned and built.
 * Label: oom
 * Next: tests/oom.h. */
#include "tests/oom.h"

#include <qfuse/graph.h>

#include "ir/text.h"
#include "tests/random.h"

static const char text[] =
    "graph @layer(%x: f16[B, 8, T, 64], %k: f8E4M3FN[B, 8, S, 64], %m: i1[B, 1, T, S], %ks: f32[], %vs: f32[8])\n"
    "    symbols(B min 1, T min 1 max 4096 div 16) assume(S == T + 1) {\n"
    "  %s = constant {value=f32[3] [0.125, 2.0, 4.0]}\n"
    "  %b = constant {value=u8[70] hex \""
    "0001020304050607080910111213141516171819202122232425262728293031323334"
    "0001020304050607080910111213141516171819202122232425262728293031323334"
    "\"}\n"
    "  %w = parameter {name=\"layer.0\\x41\", file=\"model.bin\", size=8192} : f16[64, 64]\n"
    "  %a, %l = attention %x, %k, %k, mask=%m, k_scale=%ks, v_scale=%vs, out_scale=%ks {scale=0.125, out=f8E4M3FN} "
    "loc(fused \"rule\" [\"a\", \"b\":1:2])\n"
    "  %p, %q = split %a {axis=1, sizes=[4, 4]} tag(7)\n"
    "  %o, %t = opaque %p, %q {name=\"vendor.op\"} : f32[2*T + 1, min(B, 7)], token\n"
    "  %v = view %o {shape=[(2*T + 1)*min(B, 7)]}\n"
    "  return %p as \"out\", %v, %l\n"
    "}\n";

static bool read_and_print(qf_context *context, void *user) {
    (void)user;
    qf_graph *graph = qf_graph_parse(context, (qf_text){text, sizeof text - 1}, "oom.qf");
    if (!graph) return false;
    qf_buffer printed = {.context = context}, dot = {.context = context};
    bool worked = qf_graph_verify(graph) == QF_OK;
    qf_graph_print(&printed, graph);
    qf_graph_print_dot(&dot, graph);
    qf_graph *again = printed.failed ? NULL : qf_graph_parse(context, (qf_text){printed.data, printed.size}, "again");
    qf_graph *clone = qf_graph_clone(graph);
    worked = worked && !printed.failed && !dot.failed && again && clone;
    qf_graph_destroy(clone);
    qf_graph_destroy(again);
    qf_graph_destroy(graph);
    qf_buffer_destroy(&printed);
    qf_buffer_destroy(&dot);
    return worked;
}

static void reading_verifying_printing(void **unused) {
    (void)unused;
    oom_sweep(read_and_print, NULL, 1);
}

static bool build(qf_context *context, void *user) {
    (void)user;
    qf_graph *graph = NULL;
    if (qf_graph_create(context, "built", &graph) != QF_OK) return false;
    qf_value x = qf_graph_add_input(graph, "x", qf_type_from_text(context, "f32[T, 2*B + 1]"));
    qf_value scale = qf_graph_add_scalar(graph, QF_F32, 0.5);
    qf_value y = qf_graph_add_quantize(graph, qf_graph_add_softmax(graph, x, -1), scale, QF_F8E4M3FN);
    const char *const names[] = {"y"};
    bool worked = y.id && qf_graph_finish(graph, &y, names, 1) == QF_OK &&
                  qf_graph_bind_weight(graph, "w", names, sizeof names) == QF_OK;
    char *printed = NULL;
    worked = worked && qf_graph_to_text(graph, &printed, NULL) == QF_OK;
    if (worked) assert_non_null(strstr(printed, "%2 = quantize %1, %0 {dtype=f8E4M3FN} : f8E4M3FN[T, 2*B + 1]"));
    qf_text_destroy(context, printed);
    qf_graph_destroy(graph);
    return worked;
}

static void building_through_the_api(void **unused) {
    (void)unused;
    oom_sweep(build, NULL, 1);
}

static bool random_round_trip(qf_context *context, void *user) {
    uint8_t bytes[200];
    uint32_t seed = *(const uint32_t *)user;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    qf_graph *graph = random_graph(context, bytes, sizeof bytes);
    if (!graph) return false;
    qf_buffer printed = {.context = context};
    qf_graph_print(&printed, graph);
    bool worked = !printed.failed && qf_graph_verify(graph) == QF_OK;
    qf_buffer_destroy(&printed);
    qf_graph_destroy(graph);
    return worked;
}

static void random_graphs(void **unused) {
    (void)unused;
    for (uint32_t seed = 1; seed < 8; seed++) oom_sweep(random_round_trip, &seed, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reading_verifying_printing),
                                       cmocka_unit_test(building_through_the_api), cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
