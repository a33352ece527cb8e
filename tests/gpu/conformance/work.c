/* Owns: the process that uses the device: going through its share of the cases and telling what came of each.
 * Does not own: running one (run.c), watching (watch.c).
 * Next: watch.h. */
#include "tests/gpu/conformance/watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spec/kernels.h"

#define MOST_ROWS 16

static void tell(worker *to, const char *format, ...) QF_PRINTF(2, 3);
static void tell(worker *to, const char *format, ...) {
    char line[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    for (char *at = line; *at; at++)
        if (*at == '\n') *at = ' ';
    if (to->out < 0) {
        note(to->job, line);
        return;
    }
    (void)strcat(line, "\n");
    size_t size = strlen(line);
    if (write(to->out, line, size) != (ssize_t)size) _exit(2);
}

/* --- running cases --- */

static const char *row_name(const test_case *test, uint32_t row) {
    const qf_kernel_row *found = qf_kernel_row_of(row);
    return found ? found->name : test->op == QF_OP_return ? "plan" : "none";
}

static void run_rows_of(suite *of, const test_case *test, prepared *at) {
    worker *to = of->user;
    uint32_t rows[MOST_ROWS], count = run_rows(at, rows, MOST_ROWS), ran = 0;
    for (uint32_t i = 0; i < count; i++) {
        char message[LINE_SIZE - 300] = "";
        if (of->options.row && !strstr(row_name(test, rows[i]), of->options.row)) continue;
        if (!ran && !run_reference(at, message, sizeof message)) {
            tell(to, "F %s: %s", test->name, message);
            return;
        }
        verdict found = run_row(at, rows[i], message, sizeof message);
        ran++;
        if (found == VERDICT_PASSED) {
            tell(to, "P %s (%s)", test->name, row_name(test, rows[i]));
            tell(to, "R %u", rows[i]);
        } else if (found == VERDICT_SKIPPED)
            tell(to, "S %s: %s", test->name, message);
        else
            tell(to, "F %s (%s): %s", test->name, row_name(test, rows[i]), message);
        if (found == VERDICT_BROKEN && to->out >= 0) _exit(3); /* another process goes on */
    }
    if (!ran && !of->options.row) tell(to, "S %s: no kernel of %s takes it", test->name, of->target);
}

bool wanted(suite *of, const char *name, bool small) {
    if (of->options.subset && !small) return false;
    if (of->options.only && !strstr(name, of->options.only)) return false;
    return of->options.sample < 2 || of->seen++ % of->options.sample == 0;
}

static void watch_alone(const suite *of, const test_case *test) {
    (void)alarm(test && test->seconds ? test->seconds : of->options.seconds);
}

/* Whether the case falls to this process. */
static bool is_mine(suite *of, bool check) {
    if (check != of->checks) return false;
    if (of->next++ % of->shares != of->share) return false;
    return of->own++ >= of->from;
}

/* What a faulty kernel or driver may do, on request. */
static void misbehave(const suite *of, const char *name) {
    if (of->options.die && strstr(name, of->options.die)) abort();
    while (of->options.stall && strstr(name, of->options.stall)) (void)pause();
}

static void visit(suite *of, const test_case *test) {
    worker *to = of->user;
    char message[LINE_SIZE - 300] = "";
    if (!wanted(of, test->name, test->small) || !is_mine(of, false)) return;
    tell(to, "B %s", test->name);
    if (to->out < 0) watch_alone(of, test);
    misbehave(of, test->name);
    prepared *at = run_prepare(of, test, message, sizeof message);
    if (!at) {
        tell(to, "F %s: %s", test->name, message);
        return;
    }
    run_rows_of(of, test, at);
    run_finish(at);
}

static void visit_check(suite *of, const char *name, bool small, bool (*check)(suite *, char *, size_t)) {
    worker *to = of->user;
    char message[LINE_SIZE - 300] = "";
    if (of->options.row || !wanted(of, name, small) || !is_mine(of, true)) return;
    tell(to, "B %s", name);
    if (to->out < 0) watch_alone(of, NULL);
    if (check(of, message, sizeof message))
        tell(to, "P %s", name);
    else
        tell(to, "F %s: %s", name, message);
}

void all_cases(suite *of) {
    elementwise_cases(of);
    layout_cases(of);
    index_cases(of);
    reduce_cases(of);
    normalise_cases(of);
    contract_cases(of);
    quantise_cases(of);
    cache_cases(of);
    attention_cases(of);
    paged_cases(of);
    plan_cases(of);
    large_cases(of);
}

static bool open_device(suite *of, char *messages) {
    of->context = open_context(messages);
    if (!of->context || qf_device_open(of->context, of->options.device, NULL, &of->device) != QF_OK) return false;
    qf_device_info info = {.struct_size = sizeof info};
    qf_device_describe(of->device, &info);
    (void)snprintf(of->target, sizeof of->target, "%s", info.target);
    if (strcmp(of->options.device, "cuda") == 0 && !info.kernel_images) {
        (void)snprintf(messages, MESSAGE_SIZE, "this build has no GPU kernels: it was built without nvcc");
        return false;
    }
    if (!of->share && !of->from && !of->checks)
        (void)fprintf(stderr, "device %s, target %s, %u multiprocessors, driver for CUDA %u.%u, %s\n", info.name,
                      info.target, info.processor_count, info.driver_version / 1000, info.driver_version % 1000 / 10,
                      info.has_cublaslt ? "with cuBLASLt" : "without cuBLASLt");
    return info.target[0] != '\0';
}

void work(suite *of, worker *to, uint64_t from) {
    static char messages[MESSAGE_SIZE];
    of->user = to;
    of->from = from;
    of->next = of->seen = of->own = 0;
    of->visit = visit;
    of->visit_check = visit_check;
    if (!open_device(of, messages)) {
        tell(to, "N %s", messages);
        return;
    }
    tell(to, "T %s", of->target);
    all_cases(of);
    qf_device_close(of->device);
    qf_context_destroy(of->context);
    tell(to, "D");
}
