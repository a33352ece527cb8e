/* Owns: tests of weights: files below the allowed folder, host memory by name, what is refused.
 * Does not own: plans' references to them (tests/plan).
 * Next: runtime/weights.c. */
#define _DEFAULT_SOURCE /* truncate */

#include "tests/folder.h"
#include "tests/runtime/running.h"

#include <sys/stat.h>

static void write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static const char weight_graph[] = "(%x: f32[2]) {\n"
                                   "  %w = parameter {name=\"layer.weight\", file=\"w.bin\", offset=4} : f32[2]\n"
                                   "  %u = parameter {name=\"layer.odd\", file=\"w.bin\", offset=13} : f32[1]\n"
                                   "  %a = mul %x, %w\n  %y = add %a, %u\n  return %y\n}\n";

static void weights_come_from_files_below_the_root(void **state) {
    (void)state;
    char root[FOLDER_PATH], path[FOLDER_PATH], link[64];
    assert_true(folder_make(root));
    unsigned char bytes[20] = {0};
    memcpy(bytes + 4, (float[]){2, 3}, 8);
    memcpy(bytes + 13, &(float){0.5f}, 4);
    (void)folder_path(path, root, "w.bin");
    write_file(path, bytes, sizeof bytes);
    running r;
    qf_executor_options options = {.struct_size = sizeof options, .weights_root = root};
    running_open(&r, weight_graph, &options);
    float x[2] = {10, 20};
    running_bind(&r, "x", TENSOR(QF_F32, x, 2));
    running_run(&r);
    running_expect(&r, 0, (float[]){20.5f, 60.5f}, 2);
    float own[2] = {1, 1};
    qf_tensor tensor = TENSOR(QF_F32, own, 2);
    assert_int_equal(qf_executor_bind_parameter(r.executor, "layer.weight", &tensor), QF_OK);
    running_run(&r);
    running_expect(&r, 0, (float[]){10.5f, 20.5f}, 2);
    assert_int_equal(qf_executor_bind_parameter(r.executor, "layer.other", &tensor), QF_ERROR_NOT_FOUND);
    running_close(&r);
    /* Cut files, links that lead out, and no root at all. */
    assert_int_equal(truncate(path, 10), 0);
    running_open(&r, weight_graph, &options);
    running_bind(&r, "x", TENSOR(QF_F32, x, 2));
    running_refused(&r, QF_ERROR_IO, "takes 8 bytes at 4 of \"w.bin\", which has 10");
    running_close(&r);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(link, sizeof link, "%s", "/etc/passwd");
    assert_int_equal(symlink(link, path), 0);
    running_open(&r, weight_graph, &options);
    running_bind(&r, "x", TENSOR(QF_F32, x, 2));
    running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "lead out of");
    running_close(&r);
    running_open(&r, weight_graph, NULL);
    running_bind(&r, "x", TENSOR(QF_F32, x, 2));
    running_refused(&r, QF_ERROR_NOT_FOUND, "set weights_root");
    running_close(&r);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(root), 0);
}

static void names_that_climb_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"../w.bin", "a/../../w.bin", "/etc/passwd", ".."};
    for (uint32_t i = 0; i < QF_COUNT_OF(names); i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "(%%x: f32[2]) {\n  %%w = parameter {name=\"w\", file=\"%s\"} : f32[2]\n  %%y = add %%x, %%w\n  "
                       "return %%y\n}\n",
                       names[i]);
        running r;
        qf_executor_options options = {.struct_size = sizeof options, .weights_root = "/"};
        running_open(&r, text, &options);
        float x[2] = {0};
        running_bind(&r, "x", TENSOR(QF_F32, x, 2));
        running_refused(&r, QF_ERROR_INVALID_ARGUMENT, "expected a relative name below the folder of weights");
        running_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_come_from_files_below_the_root),
                                       cmocka_unit_test(names_that_climb_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
