/* Owns: the test that attentions of exported models are found and fused, or say which node blocks them.
 * Does not own: single ops (onnx_ops_test.c), running the models (scripts/corpus.sh).
 * Next: tests/corpus. */
#include "tests/check.h"

#include <dirent.h>
#include <qfuse/onnx.h>
#include <qfuse/pass.h>

#define CORPUS QF_SOURCE_DIR "/tests/corpus/onnx"

/* The whole number behind `key` in a folder's expect.json. */
static uint32_t expected(const char *folder, const char *key) {
    char path[4096], text[8192];
    (void)snprintf(path, sizeof path, CORPUS "/%s/expect.json", folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    const char *at = strstr(text, key);
    if (!at) fail_msg("%s has no %s", path, key);
    return (uint32_t)strtoul(strchr(at, ':') + 1, NULL, 10);
}

/* Every attention that stays as it was has a reason that names a node and its place in the source; where only a looser
 * class fuses it, the reason is the quantised scores. */
static void check_misses(const qf_run *run, bool scores_block) {
    for (uint32_t i = 0; i < qf_run_site_count(run); i++) {
        qf_site site = {.struct_size = sizeof site};
        assert_int_equal(qf_run_get_site(run, i, &site), QF_OK);
        if (site.fused) continue;
        assert_true(*site.miss_code && *site.miss_text && *site.location);
        if (!scores_block) continue;
        assert_string_equal(site.miss_code, "scores_quantised");
        assert_true(*site.miss_node && *site.miss_location);
    }
}

static void check_model(const char *folder) {
    char path[4096];
    check_state state;
    qf_context *context = check_context(&state);
    (void)snprintf(path, sizeof path, CORPUS "/%s/model.onnx", folder);
    static const char *const classes[] = {"rounding", "relaxed"}, *const keys[] = {"fused_default", "fused_relaxed"};
    for (size_t i = 0; i < QF_COUNT_OF(classes); i++) {
        qf_graph *graph = NULL;
        qf_run *run = NULL;
        if (qf_onnx_import_file(context, path, NULL, &graph) != QF_OK) fail_msg("%s: %s", path, state.messages);
        qf_pipeline_options options = {.struct_size = sizeof options, .numerics = classes[i]};
        if (qf_run_pipeline(graph, &options, &run) != QF_OK) fail_msg("%s: %s", path, state.messages);
        qf_run_counts counts = {.struct_size = sizeof counts};
        qf_run_get_counts(run, &counts);
        if (counts.attentions != expected(folder, "\"attentions\"") ||
            counts.fused_fp8_out != expected(folder, keys[i]))
            fail_msg("%s under %s: %u attentions, %u fused", folder, classes[i], counts.attentions,
                     counts.fused_fp8_out);
        check_misses(run, i == 0 && expected(folder, keys[1]) > counts.fused_fp8_out);
        qf_run_destroy(run);
        qf_graph_destroy(graph);
    }
    check_destroy(context, &state);
}

static void fault_62_counts_and_the_first_blocking_node(void **unused) {
    (void)unused;
    uint32_t models = 0;
    DIR *directory = opendir(CORPUS);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        check_model(entry->d_name);
        models++;
    }
    (void)closedir(directory);
    assert_true(models >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fault_62_counts_and_the_first_blocking_node)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
