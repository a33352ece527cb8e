/* Owns: how long the import of a program of torch.export takes, beside jansson's time for the same JSON alone.
 * Does not own: large programs (repeat_pt2.py).
 * Next: RESULTS.md. Usage: build/release/bench/import_time MODEL.pt2 [runs] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>
#include <zip.h>

#include <qfuse/pt2.h>

#define MOST_RUNS 64

/* Of this process only: what other processes take does not count, unlike in wall time. */
static double cpu_now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *what, double *times, int count) {
    qsort(times, (size_t)count, sizeof *times, compare_numbers);
    (void)printf("%-20s CPU median %.0f ms (least %.0f, most %.0f)\n", what, times[count / 2], times[0],
                 times[count - 1]);
}

/* The bytes of the program's JSON, to be freed; NULL: the archive has none. */
static char *read_program(const char *path, size_t *out_size) {
    static const char name[] = "models/model.json";
    zip_t *archive = zip_open(path, ZIP_RDONLY, NULL);
    char *data = NULL;
    for (zip_int64_t i = 0; archive && !data && i < zip_get_num_entries(archive, 0); i++) {
        zip_stat_t entry;
        if (zip_stat_index(archive, (zip_uint64_t)i, 0, &entry) != 0) continue;
        size_t length = strlen(entry.name), size = (size_t)entry.size;
        if (length < sizeof name - 1 || strcmp(entry.name + length - (sizeof name - 1), name) != 0) continue;
        zip_file_t *file = zip_fopen_index(archive, (zip_uint64_t)i, 0);
        data = malloc(size + 1);
        if (!file || !data || zip_fread(file, data, size) != (zip_int64_t)size) {
            free(data);
            data = NULL;
        }
        if (file) (void)zip_fclose(file);
        *out_size = size;
    }
    if (archive) (void)zip_discard(archive);
    return data;
}

static double time_json(const char *data, size_t size) {
    double start = cpu_now();
    json_error_t error;
    json_t *program = json_loadb(data, size, 0, &error);
    json_decref(program);
    return cpu_now() - start;
}

/* Below 0: a failure. */
static double time_import(const char *path) {
    qf_context *context;
    qf_graph *graph = NULL;
    if (qf_context_create(NULL, &context) != QF_OK) return -1;
    double start = cpu_now();
    bool done = qf_pt2_import_file(context, path, NULL, &graph) == QF_OK;
    double elapsed = cpu_now() - start;
    qf_graph_destroy(graph);
    qf_context_destroy(context);
    return done ? elapsed : -1;
}

int main(int count, char **arguments) {
    double json[MOST_RUNS], import[MOST_RUNS];
    size_t size = 0;
    int runs = count > 2 ? atoi(arguments[2]) : 7;
    char *data = count > 1 ? read_program(arguments[1], &size) : NULL;
    if (!data || runs < 1 || runs > MOST_RUNS) {
        (void)fprintf(stderr, "usage: import_time MODEL.pt2 [runs, 1 to %d]\n", MOST_RUNS);
        free(data);
        return 2;
    }
    for (int i = 0; i < runs; i++) {
        json[i] = time_json(data, size);
        import[i] = time_import(arguments[1]);
        if (import[i] < 0) {
            (void)fprintf(stderr, "%s cannot be imported\n", arguments[1]);
            free(data);
            return 1;
        }
    }
    free(data);
    (void)printf("%s: %.1f MB of JSON, %d runs\n", arguments[1], (double)size * 1e-6, runs);
    print("jansson alone", json, runs);
    print("import", import, runs);
    return 0;
}
