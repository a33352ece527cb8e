/* Owns: tests of base/file.h.
 * Does not own: what is written (the formats' tests).
 * Next: base/file.c. */
#include "tests/folder.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

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
    char folder[FOLDER_PATH], path[FOLDER_PATH], link[FOLDER_PATH], text[8] = "";
    struct stat status;
    assert_true(folder_make(folder));
    (void)folder_path(path, folder, "plan");
    (void)folder_path(link, folder, "link");
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
    char folder[FOLDER_PATH], path[FOLDER_PATH];
    assert_true(folder_make(folder));
    (void)folder_path(path, folder, "pipe");
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
    (void)rmdir(folder);
    check_destroy(context, &state);
}

/* Writes one of two texts again and again, which differ in size and in every byte. */
static void *write_often(void *folder) {
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    static int writers;
    char path[FOLDER_PATH], text[5000];
    (void)pthread_mutex_lock(&turn);
    int number = writers++;
    (void)pthread_mutex_unlock(&turn);
    memset(text, 'a' + number, sizeof text);
    (void)folder_path(path, folder, "plan");
    qf_context *context = NULL;
    if (qf_context_create(NULL, &context) != QF_OK) return folder;
    qf_status status = QF_OK;
    for (int i = 0; i < 50 && status == QF_OK; i++)
        status = qf_write_file(context, path, text, sizeof text - (size_t)number * 1000);
    qf_context_destroy(context);
    return status == QF_OK ? NULL : folder;
}

static void threads_that_write_one_path_leave_a_whole_file(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    char folder[FOLDER_PATH], path[FOLDER_PATH];
    pthread_t threads[4];
    assert_true(folder_make(folder));
    (void)folder_path(path, folder, "plan");
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, write_often, folder), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    qf_mapping found;
    assert_int_equal(qf_map_file(context, path, 5000, "here", &found), QF_OK);
    assert_int_equal(found.size, 5000 - 1000 * (found.data[0] - 'a'));
    for (uint64_t i = 0; i < found.size; i++) assert_int_equal(found.data[i], found.data[0]);
    qf_unmap_file(&found);
    assert_int_equal(entries_of(folder), 1);
    (void)unlink(path);
    (void)rmdir(folder);
    check_destroy(context, &state);
}

/* What a killed writer of the same number left is neither used nor in the way; a link of that name is not followed. */
static void temporary_names_may_be_taken_and_permissions_stay(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    char folder[FOLDER_PATH], path[FOLDER_PATH], taken[FOLDER_PATH], other[FOLDER_PATH], name[64];
    struct stat status;
    assert_true(folder_make(folder));
    (void)folder_path(path, folder, "plan");
    (void)folder_path(other, folder, "other");
    (void)snprintf(name, sizeof name, "plan.%ld.0.tmp", (long)getpid());
    (void)folder_path(taken, folder, name);
    assert_int_equal(symlink("other", taken), 0);
    assert_int_equal(qf_write_file(context, path, "old", 3), QF_OK);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(qf_write_file(context, path, "new", 3), QF_OK);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(stat(other, &status), -1);
    assert_int_equal(entries_of(folder), 2);
    (void)unlink(taken);
    (void)unlink(path);
    (void)rmdir(folder);
    check_destroy(context, &state);
}

static void only_regular_files_within_the_limit_are_mapped(void **unused) {
    (void)unused;
    check_state state;
    qf_context *context = check_context(&state);
    char folder[FOLDER_PATH], path[FOLDER_PATH], fifo[FOLDER_PATH];
    qf_mapping found;
    assert_true(folder_make(folder));
    (void)folder_path(path, folder, "file");
    (void)folder_path(fifo, folder, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(qf_map_file(context, path, 10, "here", &found), QF_ERROR_NOT_FOUND);
    assert_int_equal(qf_map_file(context, folder, 10, "here", &found), QF_ERROR_IO);
    assert_int_equal(qf_map_file(context, fifo, 10, "here", &found), QF_ERROR_IO);
    assert_int_equal(qf_write_file(context, path, "", 0), QF_OK);
    assert_int_equal(qf_map_file(context, path, 0, "here", &found), QF_OK);
    assert_null(found.data);
    assert_int_equal(qf_write_file(context, path, "abc", 3), QF_OK);
    assert_int_equal(qf_map_file(context, path, 2, "here", &found), QF_ERROR_LIMIT);
    assert_non_null(strstr(state.messages, "file' has 3 bytes; the limit is 2"));
    assert_int_equal(qf_map_file(context, path, 3, "here", &found), QF_OK);
    assert_memory_equal(found.data, "abc", 3);
    qf_unmap_file(&found);
    (void)unlink(path);
    (void)unlink(fifo);
    (void)rmdir(folder);
    check_destroy(context, &state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_are_replaced_and_links_stay),
                                       cmocka_unit_test(devices_stay_devices),
                                       cmocka_unit_test(threads_that_write_one_path_leave_a_whole_file),
                                       cmocka_unit_test(temporary_names_may_be_taken_and_permissions_stay),
                                       cmocka_unit_test(only_regular_files_within_the_limit_are_mapped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
