/* Owns: how long the default pipeline takes on deep decoders, and how long the library takes to start.
 * Does not own: the graphs (decoder.c).
 * Next: RESULTS.md. Usage: build/release/bench/compile_time [layers...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <qfuse/pass.h>

#include "decoder.h"
#include "ir/text.h"

#define RUNS       7
#define MAX_PASSES 32

static double milliseconds(clockid_t clock) {
    struct timespec time;
    (void)clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

/* Of this process only: what other processes take does not count, unlike in wall time. */
static double cpu_now(void) {
    return milliseconds(CLOCK_PROCESS_CPUTIME_ID);
}

static double wall_now(void) {
    return milliseconds(CLOCK_MONOTONIC);
}

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct pass_times {
    const char *names[MAX_PASSES];
    double cpu[MAX_PASSES];
    int count;
    double started;
} pass_times;

static void observe(void *user, qf_pass_event event, const char *pass, const qf_graph *graph, bool changed,
                    double seconds) {
    pass_times *times = user;
    (void)graph;
    (void)changed;
    (void)seconds;
    if (event == QF_PASS_BEFORE) times->started = cpu_now();
    if (event != QF_PASS_AFTER || times->count == MAX_PASSES) return;
    times->names[times->count] = pass;
    times->cpu[times->count++] = cpu_now() - times->started;
}

static void print_error(void *user, const qf_diagnostic *diagnostic) {
    (void)user;
    if (diagnostic->severity == QF_SEVERITY_ERROR)
        (void)fprintf(stderr, "%s: %s\n", diagnostic->location, diagnostic->message);
}

static qf_context *make_context(void) {
    qf_context_options options = {.struct_size = sizeof options, .handler = print_error};
    qf_context *context = NULL;
    if (qf_context_create(&options, &context) != QF_OK) exit(1);
    return context;
}

/* Median milliseconds of CPU time of the pipeline; negative on failure. */
static double measure(uint32_t layers) {
    qf_context *context = make_context();
    qf_buffer text = {.context = context};
    decoder_text(&text, layers);
    qf_graph *graph = qf_graph_parse(context, (qf_text){text.data, text.size}, "decoder");
    if (!graph) return -1;
    double cpu[RUNS], wall[RUNS];
    pass_times passes = {0};
    qf_run_counts counts = {.struct_size = sizeof counts};
    uint32_t nodes_after = 0;
    for (int run = 0; run < RUNS; run++) {
        qf_graph *copy = qf_graph_clone(graph);
        qf_run *report = NULL;
        passes.count = 0;
        qf_pipeline_options options = {.struct_size = sizeof options, .observer = observe, .observer_user = &passes};
        double cpu_start = cpu_now(), wall_start = wall_now();
        if (!copy || qf_run_pipeline(copy, &options, &report) != QF_OK) return -1;
        cpu[run] = cpu_now() - cpu_start;
        wall[run] = wall_now() - wall_start;
        qf_run_get_counts(report, &counts);
        nodes_after = copy->live_node_count;
        qf_run_destroy(report);
        qf_graph_destroy(copy);
    }
    double first = cpu[0];
    qsort(cpu, RUNS, sizeof *cpu, compare_numbers);
    qsort(wall, RUNS, sizeof *wall, compare_numbers);
    (void)printf("%u layers, %u nodes -> %u, %u attentions, %u fused\n", layers, graph->live_node_count, nodes_after,
                 counts.attentions, counts.fused_fp8_out);
    (void)printf("  CPU  median %.2f ms (least %.2f, most %.2f, first %.2f)\n", cpu[RUNS / 2], cpu[0], cpu[RUNS - 1],
                 first);
    (void)printf("  wall median %.2f ms (least %.2f, most %.2f)\n", wall[RUNS / 2], wall[0], wall[RUNS - 1]);
    for (int i = 0; i < passes.count; i++) (void)printf("  %8.3f ms  %s\n", passes.cpu[i], passes.names[i]);
    qf_buffer_destroy(&text);
    qf_graph_destroy(graph);
    qf_context_destroy(context);
    return cpu[RUNS / 2];
}

static void print_machine(void) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "model name", 10) == 0) {
            (void)printf("machine:%s", strchr(line, ':') + 1);
            break;
        }
    if (file) (void)fclose(file);
}

int main(int count, char **arguments) {
    print_machine();
    double start = wall_now();
    qf_context *context = make_context();
    double started = wall_now() - start;
    qf_context_destroy(context);
    (void)printf("library start: %.3f ms\n", started);
    uint32_t few = count > 1 ? (uint32_t)strtoul(arguments[1], NULL, 10) : 126;
    uint32_t many = count > 2 ? (uint32_t)strtoul(arguments[2], NULL, 10) : 1260;
    double a = measure(few), b = measure(many);
    if (a < 0 || b < 0) return 1;
    (void)printf("CPU time ratio: %.2f for %.1f times the layers\n", b / a, (double)many / few);
    return 0;
}
