/* Owns: allocation failures while ONNX models are read and written.
 * Label: oom
 * Next: tests/oom.h. */
#include "tests/oom.h"

#include <dirent.h>
#include <qfuse/onnx.h>

#include "frontends/onnx/tensor_file.h"
#include "ir/graph.h"

static bool read_and_write(qf_context *context, void *user) {
    const char *path = user;
    qf_graph *graph = NULL, *again = NULL;
    void *data = NULL;
    size_t size = 0;
    bool worked = qf_onnx_import_file(context, path, NULL, &graph) == QF_OK;
    worked = worked && qf_onnx_export_memory(graph, &data, &size) == QF_OK;
    worked = worked && qf_onnx_import_memory(context, data, size, NULL, &again) == QF_OK;
    qf_graph_destroy(again);
    qf_graph_destroy(graph);
    qf_onnx_free(context, data, size);
    return worked;
}

/* The fuzzer's seeds: attention of both kinds, control flow, functions, quantisation, layout. */
static void every_seed(void **unused) {
    (void)unused;
    const char *folder = QF_SOURCE_DIR "/tests/fuzz/corpus/onnx";
    DIR *directory = opendir(folder);
    uint32_t models = 0;
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)); models++) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        oom_sweep(read_and_write, path, 1);
    }
    (void)closedir(directory);
    assert_true(models > 4);
}

static bool read_tensor(qf_context *context, void *user) {
    qf_tensor tensor;
    if (qf_onnx_tensor_read(context, user, &tensor) != QF_OK) return false;
    qf_onnx_tensor_free(context, &tensor);
    return true;
}

static void a_tensor_file(void **unused) {
    (void)unused;
    char path[] = QF_SOURCE_DIR "/tests/corpus/onnx-node/test_attention_4d_fp16/test_data_set_0/input_0.pb";
    oom_sweep(read_tensor, path, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_seed), cmocka_unit_test(a_tensor_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
