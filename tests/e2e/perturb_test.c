/* Owns: the test that counts do not depend on names, order, duplicates or identity layouts, over the repository's
 * corpus, and over the whole one where it lies beside the repository. Label: e2e
 * Does not own: the changes (tests/perturb.h). Next: tests/perturb.h. */
#include <dirent.h>

#include <qfuse/onnx.h>

#include "ir/verify.h"
#include "tests/graphs.h"
#include "tests/perturb.h"

#define SEEDS 3

static qf_run_counts counts_of(const qf_graph *graph, const char *numerics) {
    qf_graph *copy = qf_graph_clone(graph);
    assert_non_null(copy);
    qf_pipeline_options options = {.struct_size = sizeof options, .passes = "default", .numerics = numerics};
    qf_run *run = NULL;
    assert_int_equal(qf_run_pipeline(copy, &options, &run), QF_OK);
    qf_run_counts counts = {.struct_size = sizeof counts};
    qf_run_get_counts(run, &counts);
    qf_run_destroy(run);
    qf_graph_destroy(copy);
    return counts;
}

static void check_model(const char *path, const char *name) {
    static const char *const classes[] = {"rounding", "relaxed"};
    qf_context *context = NULL;
    qf_graph *graph = NULL;
    assert_int_equal(qf_context_create(NULL, &context), QF_OK);
    assert_int_equal(qf_onnx_import_file(context, path, NULL, &graph), QF_OK);
    for (size_t c = 0; c < QF_COUNT_OF(classes); c++) {
        qf_run_counts expected = counts_of(graph, classes[c]);
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            qf_graph *changed = qf_graph_clone(graph);
            assert_non_null(changed);
            perturb_graph(changed, seed);
            assert_int_equal(qf_graph_verify(changed), QF_OK);
            qf_run_counts found = counts_of(changed, classes[c]);
            if (found.attentions != expected.attentions || found.fused_fp8_out != expected.fused_fp8_out)
                fail_msg("%s seed %llu class %s: %u attentions, %u fused; unperturbed %u, %u", name,
                         (unsigned long long)seed, classes[c], found.attentions, found.fused_fp8_out,
                         expected.attentions, expected.fused_fp8_out);
            qf_graph_destroy(changed);
        }
    }
    qf_graph_destroy(graph);
    qf_context_destroy(context);
}

static uint32_t check_folder(const char *folder) {
    uint32_t checked = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        (void)snprintf(path, sizeof path, "%s/%s/model.onnx", folder, entry->d_name);
        check_model(path, entry->d_name);
        checked++;
    }
    if (directory) (void)closedir(directory);
    return checked;
}

static void counts_survive_perturbation(void **unused) {
    (void)unused;
    assert_true(check_folder(QF_SOURCE_DIR "/tests/corpus/onnx") > 10);
    (void)check_folder(QF_SOURCE_DIR "/../shared/data/onnx");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_survive_perturbation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
