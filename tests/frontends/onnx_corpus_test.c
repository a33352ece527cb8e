/* Owns: tests of the ONNX frontend on every exported model that is at hand: import, verify, write, read again.
 * Does not own: running them (tools' `case`), single ops (onnx_ops_test.c).
 * Next: onnx_ops_test.c. */
#include "tests/frontends/same_graph.h"

#include <dirent.h>
#include <qfuse/onnx.h>

#include "ir/verify.h"

typedef struct tally {
    uint32_t models, attentions, opaque;
} tally;

static void round_trip(const char *path, tally *sum) {
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *first = NULL, *second = NULL;
    if (qf_onnx_import_file(context, path, NULL, &first) != QF_OK) fail_msg("%s: %s", path, state.messages);
    if (qf_graph_verify(first) != QF_OK) fail_msg("%s: %s", path, state.messages);
    QF_FOR_EACH_NODE(first, node) {
        sum->opaque += qf_node_op(first, node) == QF_OP_opaque;
        sum->attentions += qf_node_op(first, node) == QF_OP_attention;
    }
    sum->models++;
    void *data;
    size_t size;
    if (qf_onnx_export_memory(first, &data, &size) != QF_OK) fail_msg("%s: export: %s", path, state.messages);
    qf_onnx_import_options options = {.struct_size = sizeof options, .name = "again"};
    if (qf_onnx_import_memory(context, data, size, &options, &second) != QF_OK)
        fail_msg("%s: again: %s", path, state.messages);
    if (qf_graph_verify(second) != QF_OK) fail_msg("%s: again: %s", path, state.messages);
    if (same_signature(first) != same_signature(second)) {
        qf_buffer text = {.context = context};
        qf_graph_print(&text, first);
        qf_buffer_append(&text, "\n-----\n", 7);
        qf_graph_print(&text, second);
        const char *dump = getenv("QF_DUMP");
        FILE *file = dump ? fopen(dump, "w") : NULL;
        if (file) {
            (void)fwrite(text.data, 1, text.size, file);
            (void)fclose(file);
        }
        fail_msg("%s: reading back what was written gives another graph", path);
    }
    qf_graph_destroy(first);
    qf_graph_destroy(second);
    qf_onnx_free(context, data, size);
    check_destroy(context, &state);
}

/* Every folder below `root` that holds a model.onnx. */
static void each_model(const char *root, tally *sum) {
    DIR *folder = opendir(root);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(path, sizeof path, "%s/%s/model.onnx", root, entry->d_name);
        FILE *file = fopen(path, "rb");
        if (!file) continue;
        (void)fclose(file);
        round_trip(path, sum);
    }
    (void)closedir(folder);
}

/* QF_ONNX_MODELS may name one more folder of the same layout. */
static void models_read_and_write(void **state) {
    (void)state;
    tally sum = {0};
    if (getenv("QF_ONNX_MODELS")) each_model(getenv("QF_ONNX_MODELS"), &sum);
    each_model(QF_SOURCE_DIR "/tests/corpus", &sum);
    each_model(QF_SOURCE_DIR "/tests/corpus/onnx", &sum);
    each_model(QF_SOURCE_DIR "/tests/corpus/onnx-node", &sum);
    static const char *const places[] = {QF_SOURCE_DIR "/../shared/data", QF_SOURCE_DIR "/../../shared/data"};
    for (size_t i = 0; i < QF_COUNT_OF(places); i++) {
        char path[4096];
        uint32_t before = sum.models;
        (void)snprintf(path, sizeof path, "%s/onnx", places[i]);
        each_model(path, &sum);
        (void)snprintf(path, sizeof path, "%s/onnx-node", places[i]);
        each_model(path, &sum);
        if (sum.models != before) break;
    }
    print_message("%u models, %u attention ops, %u opaque nodes\n", sum.models, sum.attentions, sum.opaque);
    if (!sum.models) skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_read_and_write)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
