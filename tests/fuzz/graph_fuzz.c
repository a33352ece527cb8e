/* Owns: fuzzing whole graphs: bytes decode to a valid graph, which verifies, clones, prints, and reads back as the
 * same. Does not own: how bytes become a graph (tests/random.h). Next: driver.c. */
#include "tests/fuzz/fuzz.h"

#include "tests/random.h"

const char *const *qf_fuzz_dictionary(void) {
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_memory memory;
    qf_context *context = fuzz_context(&memory, (size_t)32 << 20);
    qf_graph *graph = random_graph(context, data, size);
    FUZZ_CHECK(graph);
    FUZZ_CHECK(qf_graph_verify(graph) == QF_OK);
    qf_buffer first = {.context = context}, second = {.context = context}, third = {.context = context};
    qf_graph_print(&first, graph);
    qf_graph *clone = qf_graph_clone(graph);
    FUZZ_CHECK(clone && qf_graph_verify(clone) == QF_OK);
    qf_graph_destroy(graph);
    qf_graph_print(&second, clone);
    FUZZ_CHECK(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    qf_graph *again = qf_graph_parse(context, (qf_text){first.data, first.size}, "graph");
    if (!again) (void)fprintf(stderr, "%s", first.data);
    FUZZ_CHECK(again);
    qf_graph_print(&third, again);
    if (first.size != third.size || memcmp(first.data, third.data, first.size) != 0)
        (void)fprintf(stderr, "%s\n%s", first.data, third.data);
    FUZZ_CHECK(first.size == third.size && memcmp(first.data, third.data, first.size) == 0);
    FUZZ_CHECK(qf_context_status(context) == QF_OK);
    third.size = 0;
    qf_graph_print_dot(&third, again);
    qf_buffer_destroy(&first);
    qf_buffer_destroy(&second);
    qf_buffer_destroy(&third);
    qf_graph_destroy(clone);
    qf_graph_destroy(again);
    fuzz_destroy(context, &memory);
    return 0;
}
