/* Owns: fuzzing the torch.export frontend: arbitrary bytes give an error or a graph that verifies and prints.
 * Does not own: damaged files on purpose (tests/frontends/pt2_hostile_test.c).
 * Next: driver.c. */
#include "tests/fuzz/fuzz.h"

#include <qfuse/pt2.h>
#include <stdlib.h>
#include <zip.h>

#include "ir/graph.h"
#include "ir/text.h"
#include "ir/verify.h"

/* Operators and arguments, which mutations of bytes alone hardly find. Archives of the corpus are stored, not deflated,
 * so that their JSON can be changed; checksums of stored entries are not read. */
const char *const *qf_fuzz_dictionary(void) {
    static const char *const words[] = {"aten.view.default",
                                        "aten.slice.Tensor",
                                        "aten.select.int",
                                        "aten.permute.default",
                                        "aten.split_with_sizes.default",
                                        "aten.expand.default",
                                        "aten.copy_.default",
                                        "aten.add_.Tensor",
                                        "aten.index_put_.default",
                                        "aten.index_copy_.default",
                                        "aten.matmul.default",
                                        "aten.scaled_dot_product_attention.default",
                                        "aten._scaled_mm.default",
                                        "aten.cat.default",
                                        "aten.arange.start_step",
                                        "_C.rms_norm.default",
                                        "_C.rotary_embedding.default",
                                        "vllm.unified_attention.default",
                                        "higher_order.auto_functionalized_v2",
                                        "vllm.unified_kv_cache_update.default",
                                        "guards_code",
                                        "L['x'].size()[0] ",
                                        "nn_module_stack",
                                        "as_tensor",
                                        "as_tensors",
                                        "as_ints",
                                        "as_sym_ints",
                                        "as_none",
                                        "storage_offset",
                                        "buffer_mutation",
                                        "9223372036854775807",
                                        "-1",
                                        "Mul(Symbol('s0'), Integer(4))",
                                        NULL};
    return words;
}

/* Beyond the graph: weights that strides repeat are bounded by 2^28 bytes. */
#define MEMORY_FACTOR 400
#define MEMORY_FIXED  ((size_t)320 << 20)

/* A stored archive around a program, so that mutations of its JSON do not break the archive first. */
static void *wrap(const uint8_t *json, size_t json_size, size_t *out_size) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(NULL, 0, 0, &error);
    zip_t *zip = zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error);
    FUZZ_CHECK(zip != NULL);
    zip_int64_t index = zip_file_add(zip, "m/models/model.json", zip_source_buffer(zip, json, json_size, 0), 0);
    FUZZ_CHECK(index == 0 && zip_set_file_compression(zip, 0, ZIP_CM_STORE, 0) == 0);
    zip_source_keep(source);
    FUZZ_CHECK(zip_close(zip) == 0 && zip_source_open(source) == 0 && zip_source_seek(source, 0, SEEK_END) == 0);
    size_t size = (size_t)zip_source_tell(source);
    void *data = malloc(size);
    FUZZ_CHECK(data && zip_source_seek(source, 0, SEEK_SET) == 0 &&
               zip_source_read(source, data, size) == (zip_int64_t)size);
    (void)zip_source_close(source);
    zip_source_free(source);
    zip_error_fini(&error);
    *out_size = size;
    return data;
}

static void import(const uint8_t *data, size_t size) {
    fuzz_memory memory;
    qf_context *context = fuzz_context(&memory, MEMORY_FIXED + MEMORY_FACTOR * size);
    qf_graph *graph = NULL;
    qf_pt2_import_options options = {.struct_size = sizeof options, .max_nodes = 20000};
    if (size % 2) options.kv_cache = size % 4 == 1 ? "auto" : "fp8";
    qf_status status = qf_pt2_import_memory(context, data, size, &options, &graph);
    FUZZ_CHECK((status == QF_OK) == (graph != NULL));
    FUZZ_CHECK(status == qf_context_status(context));
    if (graph && qf_graph_verify(graph) == QF_OK) {
        qf_buffer text = {.context = context};
        qf_graph_print(&text, graph);
        FUZZ_CHECK(text.failed || text.size > 0);
        qf_buffer_destroy(&text);
    }
    qf_graph_destroy(graph);
    fuzz_destroy(context, &memory);
}

/* Bytes that begin with a brace are a program, others an archive. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || data[0] != '{') {
        import(data, size);
        return 0;
    }
    size_t archive_size;
    void *archive = wrap(data, size, &archive_size);
    import(archive, archive_size);
    free(archive);
    return 0;
}
