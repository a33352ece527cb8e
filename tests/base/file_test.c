/* Owns: tests of base/file.h.
 * Does not own: what is written (the formats' tests).
 * Next: base/file.c. */
#define _DEFAULT_SOURCE /* mkdtemp, symlink */
#include "tests/check.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static uint32_t entries_of(const char *folder) {
    uint32_t count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        count += entry->d_name[0] != '.';
    (void)closedir(directory);
    return count;
}

static void files_are_replaced_and_links_stay(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    char folder[] = "/tmp/qfuse-file-XXXXXX", path[64], link[64], text[8] = "";
    struct stat status;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/plan", folder);
    (void)snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(qf_write_file(context, path, "old", 3), QF_OK);
    assert_int_equal(symlink("plan", link), 0);
    assert_int_equal(qf_write_file(context, link, "new!", 4), QF_OK);
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), 4);
    (void)fclose(file);
    assert_memory_equal(text, "new!", 4);
    assert_int_equal(entries_of(folder), 2); /* no temporary file is left */
    assert_int_equal(qf_write_file(context, folder, "x", 1), QF_ERROR_IO);
    (void)unlink(link);
    (void)unlink(path);
    (void)rmdir(folder);
    check_destroy(context, &state);
}

/* A device is written, not replaced by a file; a full one is an error. */
static void devices_stay_devices(void **unused) {
    (void)unused;
    check_state state;
    struct stat status;
    char link[] = "/tmp/qfuse-device-XXXXXX", path[64];
    assert_non_null(mkdtemp(link));
    (void)snprintf(path, sizeof path, "%s/pipe", link);
    assert_int_equal(mkfifo(path, 0600), 0);
    FILE *reader = fopen(path, "r+b"); /* keeps both ends open, so that neither side waits */
    assert_non_null(reader);
    qf_context *context = check_context(&state);
    assert_int_equal(qf_write_file(context, path, "abc", 3), QF_OK);
    assert_int_equal(stat(path, &status), 0);
    assert_true(S_ISFIFO(status.st_mode));
    assert_int_equal(fgetc(reader), 'a');
    (void)fclose(reader);
    assert_int_equal(qf_write_file(context, "/nonexistent/x", "abc", 3), QF_ERROR_IO);
    assert_non_null(strstr(state.messages, "/nonexistent/x"));
    (void)unlink(path);
    (void)rmdir(link);
    check_destroy(context, &state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_are_replaced_and_links_stay),
                                       cmocka_unit_test(devices_stay_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
