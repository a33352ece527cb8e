/* Owns: the text form of imported models: every model of tests/corpus prints, reads back and prints the same, as it is
 * and after the default pipeline. Does not own: importing (onnx_*_test.c), texts written by hand (tests/golden/text).
 */
#include <dirent.h>

#include <qfuse/onnx.h>

#include "tests/graphs.h"

static void assert_round_trip(qf_context *context, const check_state *state, const qf_graph *graph, const char *path) {
    char *first = text_of(graph);
    qf_graph *again = qf_graph_parse(context, qf_text_of(first), "again");
    if (!again) fail_msg("%s: %s", path, state->messages);
    char *second = text_of(again);
    if (strcmp(first, second) != 0) fail_msg("%s: the text changed:\n%s\n%s", path, first, second);
    free(first);
    free(second);
    qf_graph_destroy(again);
}

static void round_trip(const char *path) {
    check_state state;
    qf_context *context = check_context(&state);
    qf_graph *graph = NULL;
    qf_status status = qf_onnx_import_file(context, path, NULL, &graph);
    if (status == QF_ERROR_UNSUPPORTED && !graph && strstr(state.messages, "has no ONNX frontend")) {
        check_destroy(context, &state);
        skip();
    }
    if (!graph) fail_msg("%s: %s", path, state.messages);
    state.messages[0] = '\0';
    assert_round_trip(context, &state, graph, path);
    qf_run *run = NULL;
    assert_int_equal(qf_run_pipeline(graph, NULL, &run), QF_OK);
    state.messages[0] = '\0';
    assert_round_trip(context, &state, graph, path);
    qf_run_destroy(run);
    qf_graph_destroy(graph);
    check_destroy(context, &state);
}

static void imported_models(void **unused) {
    (void)unused;
    static const char *const folders[] = {QF_SOURCE_DIR "/tests/corpus/onnx", QF_SOURCE_DIR "/tests/corpus/onnx-node"};
    uint32_t models = 0;
    for (size_t i = 0; i < QF_COUNT_OF(folders); i++) {
        DIR *directory = opendir(folders[i]);
        assert_non_null(directory);
        for (struct dirent *entry; (entry = readdir(directory));) {
            char path[4096];
            if (entry->d_name[0] == '.') continue;
            (void)snprintf(path, sizeof path, "%s/%s/model.onnx", folders[i], entry->d_name);
            FILE *file = fopen(path, "rb");
            if (!file) continue;
            (void)fclose(file);
            round_trip(path);
            models++;
        }
        (void)closedir(directory);
    }
    assert_true(models > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(imported_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
