/* Owns: fuzzing the text form: arbitrary bytes give an error or a graph; a graph prints, reads back and prints the
 * same. Does not own: valid graphs from bytes (graph_fuzz.c). Next: driver.c. */
#include "tests/fuzz/fuzz.h"

#include "ir/text.h"
#include "ir/verify.h"

const char *const *qf_fuzz_dictionary(void) {
    static const char *const words[] = {"graph @",
                                        " symbols(",
                                        " assume(",
                                        " == ",
                                        "min(",
                                        "floordiv(",
                                        "f8E4M3FN[",
                                        "f32[]",
                                        "%x",
                                        "%0",
                                        "%\"",
                                        " = ",
                                        "attention",
                                        "constant {value=",
                                        "hex \"",
                                        "quantize",
                                        "opaque",
                                        "split",
                                        "permute",
                                        "{axis=",
                                        "loc(",
                                        "fused \"",
                                        " tag(",
                                        "return ",
                                        " as \"",
                                        "nan",
                                        "inf",
                                        "0x",
                                        "-1",
                                        "[*]",
                                        "9223372036854775807",
                                        "reduce_sum",
                                        "view {shape=[",
                                        "\\x00",
                                        "//",
                                        "}\n",
                                        NULL};
    return words;
}

/* Memory stays within this factor of the input, beyond a fixed amount. */
#define MEMORY_FACTOR 400
#define MEMORY_FIXED  ((size_t)8 << 20)

static void print(qf_buffer *buffer, const qf_graph *graph) {
    qf_graph_print(buffer, graph);
    FUZZ_CHECK(!buffer->failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_memory memory;
    qf_context *context = fuzz_context(&memory, MEMORY_FIXED + MEMORY_FACTOR * size);
    qf_graph *graph = qf_graph_parse(context, (qf_text){(const char *)data, size}, "fuzz");
    if (graph) {
        FUZZ_CHECK(qf_context_status(context) == QF_OK);
        qf_buffer first = {.context = context}, second = {.context = context}, dot = {.context = context};
        print(&first, graph);
        qf_graph *again = qf_graph_parse(context, (qf_text){first.data, first.size}, "again");
        FUZZ_CHECK(again);
        print(&second, again);
        FUZZ_CHECK(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
        qf_graph_print_dot(&dot, again);
        (void)qf_graph_warn_scales(again);
        qf_buffer_destroy(&first);
        qf_buffer_destroy(&second);
        qf_buffer_destroy(&dot);
        qf_graph_destroy(again);
        qf_graph_destroy(graph);
    } else {
        FUZZ_CHECK(qf_context_status(context) != QF_OK && qf_context_status(context) != QF_ERROR_OUT_OF_MEMORY);
    }
    fuzz_destroy(context, &memory);
    return 0;
}
