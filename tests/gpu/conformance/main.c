/* Owns: the conformance program: options, the process that runs cases, the watchdog over it, the verdict.
 * Does not own: cases (*_cases.c), running one (run.c).
 * Next: cases.h; docs/gpu.md. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spec/kernels.h"
#include "tests/gpu/conformance/cases.h"

#define EXIT_SKIPPED 77
#define MOST_ROWS    16
#define LINE_SIZE    2600
#define MOST_JOBS    32

static const char usage[] =
    "usage: conformance [--device=cuda|cpu] [--list] [--row=NAME] [--only=PART] [--subset] [--seed=N] [--seconds=N]\n"
    "                   [--threads=N] [--no-fork] [--verbose]\n"
    "Compares every kernel of the device with the CPU's, over cases made from what the ops declare.\n"
    "  --device=D    cuda (default); cpu compares the CPU with itself, which tests the cases\n"
    "  --list        names the cases and ends\n"
    "  --row=NAME    only kernels whose name holds NAME (spec/kernels.def)\n"
    "  --only=PART   only cases whose name holds PART\n"
    "  --subset      only small cases, for compute-sanitizer\n"
    "  --sample=N    only every N-th case\n"
    "  --seed=N      other random numbers\n"
    "  --seconds=N   a case that takes longer has failed (default 30)\n"
    "  --jobs=N      processes that share the cases (default: one for two processors, 8 at most)\n"
    "  --no-fork     run in this process: for debuggers and compute-sanitizer\n"
    "Ends with \"N passed, N failed, N skipped\"; exit code 0, 1, or 77 where everything was skipped.\n";

/* --- what the running process tells the watching one: lines "B case", "P case", "F case: why", "S case: why" ... ---
 */

typedef struct worker {
    int out; /* the pipe, or -1: this process watches itself */
    struct job *job;
} worker;

/* What is skipped, by op and reason. */
typedef struct skip {
    char what[64];
    char reason[300];
    uint64_t count;
} skip;

typedef struct tally {
    uint64_t passed, failed, skipped, rows_seen_count;
    uint32_t rows_seen[256];
    skip skips[256];
    uint32_t skip_count;
    uint64_t reached;
    char target[16];
    double slowest;
    char slowest_name[320];
    const suite_options *options;
} tally;

/* A process with its share of the cases, and what it was last heard to do. */
typedef struct job {
    tally *totals;
    pid_t child;
    int in;
    char room[2 * LINE_SIZE];
    size_t used;
    double began;
    uint64_t reached; /* cases of this share begun, over all its processes */
    bool running, done, unusable;
    char current[320], reason[LINE_SIZE];
    uint32_t share;
} job;

static double now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void note_skipped(tally *at, const char *text) {
    const char *why = strstr(text, ": ");
    skip found = {.count = 1};
    (void)snprintf(found.what, sizeof found.what, "%.*s", (int)strcspn(text, "/"), text);
    (void)snprintf(found.reason, sizeof found.reason, "%s", why ? why + 2 : "");
    at->skipped++;
    for (uint32_t i = 0; i < at->skip_count; i++)
        if (strcmp(at->skips[i].what, found.what) == 0 && strcmp(at->skips[i].reason, found.reason) == 0) {
            at->skips[i].count++;
            return;
        }
    if (at->skip_count < QF_COUNT_OF(at->skips)) at->skips[at->skip_count++] = found;
}

static void note_row(tally *at, uint32_t row) {
    for (uint64_t i = 0; i < at->rows_seen_count; i++)
        if (at->rows_seen[i] == row) return;
    if (at->rows_seen_count < QF_COUNT_OF(at->rows_seen)) at->rows_seen[at->rows_seen_count++] = row;
}

static void note_passed(job *from, const char *text) {
    tally *at = from->totals;
    at->passed++;
    if (now() - from->began <= at->slowest) return;
    at->slowest = now() - from->began;
    (void)snprintf(at->slowest_name, sizeof at->slowest_name, "%s", text);
}

static void note(job *from, const char *line) {
    tally *at = from->totals;
    const char *text = line + 2;
    switch (line[0]) {
    case 'B':
        at->reached++;
        from->reached++;
        from->began = now();
        (void)snprintf(from->current, sizeof from->current, "%s", text);
        if (at->options->verbose) (void)printf("%s\n", text);
        break;
    case 'P': note_passed(from, text); break;
    case 'R': note_row(at, (uint32_t)strtoul(text, NULL, 10)); break;
    case 'F':
        at->failed++;
        (void)printf("FAILED %s\n", text);
        break;
    case 'S': note_skipped(at, text); break;
    case 'N':
        from->unusable = true;
        (void)snprintf(from->reason, sizeof from->reason, "%s", text);
        break;
    case 'T': (void)snprintf(at->target, sizeof at->target, "%s", text); break;
    case 'D': from->done = true; break;
    default: break;
    }
    (void)fflush(stdout);
}

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

static bool wanted(suite *of, const char *name, bool small) {
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

static void visit(suite *of, const test_case *test) {
    worker *to = of->user;
    char message[LINE_SIZE - 300] = "";
    if (!wanted(of, test->name, test->small) || !is_mine(of, false)) return;
    tell(to, "B %s", test->name);
    if (to->out < 0) watch_alone(of, test);
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

static void all_cases(suite *of) {
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

/* The process that uses the device. */
static void work(suite *of, worker *to, uint64_t from) {
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

/* --- watching --- */

/* A process for the share, from where the one before it ended. */
static void start(suite *of, job *at) {
    int ends[2];
    if (pipe(ends) != 0) exit(2);
    (void)fflush(stdout);
    at->child = fork();
    if (at->child < 0) exit(2);
    if (at->child == 0) {
        (void)close(ends[0]);
        worker to = {.out = ends[1]};
        of->share = at->share;
        work(of, &to, at->reached);
        _exit(0);
    }
    (void)close(ends[1]);
    at->in = ends[0];
    at->used = 0;
    at->began = now();
    at->running = true;
}

static void take_lines(job *at) {
    char *line = at->room, *end;
    at->room[at->used] = '\0';
    for (; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        note(at, line);
    }
    at->used -= (size_t)(line - at->room);
    memmove(at->room, line, at->used + 1);
}

/* The process ended, or took too long. */
static void settle(suite *of, job *at, bool late) {
    char line[LINE_SIZE];
    int state = 0;
    uint64_t failed = at->totals->failed;
    if (late) (void)kill(at->child, SIGKILL);
    (void)close(at->in);
    (void)waitpid(at->child, &state, 0);
    at->running = false;
    if (at->done || at->unusable) return;
    if (late)
        (void)snprintf(line, sizeof line, "F %s: no end after %u seconds; the process was ended", at->current,
                       of->options.seconds);
    else if (WIFSIGNALED(state))
        (void)snprintf(line, sizeof line, "F %s: the process died of signal %d", at->current, WTERMSIG(state));
    else
        (void)snprintf(line, sizeof line, "F %s: the process ended with code %d", at->current, WEXITSTATUS(state));
    /* Code 3: the failure was told, and the device needs another process. */
    if (late || WIFSIGNALED(state) || WEXITSTATUS(state) != 3) note(at, line);
    if (at->reached == 0 && at->totals->failed > failed) at->unusable = true;
}

static void hear(suite *of, job *at, short events) {
    if (events & (POLLIN | POLLHUP | POLLERR)) {
        ssize_t count = read(at->in, at->room + at->used, sizeof at->room - at->used - 1);
        if (count > 0) {
            at->used += (size_t)count;
            take_lines(at);
            return;
        }
        settle(of, at, false);
    } else if (now() > at->began + of->options.seconds)
        settle(of, at, true);
    if (!at->running && !at->done && !at->unusable) start(of, at);
}

/* Runs all shares until each is done. */
static void watch(suite *of, job *jobs, uint32_t count) {
    struct pollfd waiting[MOST_JOBS];
    for (uint32_t i = 0; i < count; i++) start(of, &jobs[i]);
    for (;;) {
        job *of_entry[MOST_JOBS];
        nfds_t running = 0;
        for (uint32_t i = 0; i < count; i++)
            if (jobs[i].running) {
                waiting[running] = (struct pollfd){.fd = jobs[i].in, .events = POLLIN};
                of_entry[running++] = &jobs[i];
            }
        if (!running) return;
        if (poll(waiting, running, 250) < 0 && errno != EINTR) exit(2);
        for (nfds_t i = 0; i < running; i++) hear(of, of_entry[i], waiting[i].revents);
    }
}

/* Cases in parallel, then the checks of whole plans, which measure memory, one after another. */
static void run_all(suite *of, tally *totals, job *jobs) {
    uint32_t processors = of->options.threads, count = of->options.jobs;
    of->shares = count;
    of->options.threads = processors / count ? processors / count : 1;
    for (uint32_t i = 0; i < count; i++) jobs[i] = (job){.totals = totals, .share = i};
    watch(of, jobs, count);
    if (jobs[0].unusable) return;
    job checks = {.totals = totals};
    of->checks = true;
    of->shares = 1;
    of->options.threads = processors;
    watch(of, &checks, 1);
}

/* Kernels that no case reached. */
static void note_unreached(const suite *of, job *from) {
    tally *at = from->totals;
    uint32_t count;
    const qf_kernel_row *rows = qf_kernel_table(&count);
    const qf_target_info *info = qf_target_from_name(qf_text_of(at->target));
    if (!info || of->options.row || of->options.only || of->options.subset || of->options.sample > 1) return;
    for (uint32_t i = 0; i < count; i++) {
        bool seen = !(rows[i].targets >> info->target & 1);
        for (uint64_t j = 0; !seen && j < at->rows_seen_count; j++) seen = at->rows_seen[j] == rows[i].number;
        if (seen || rows[i].op == QF_OP_parameter) continue; /* parameters are no steps */
        char line[LINE_SIZE];
        (void)snprintf(line, sizeof line, "F kernel %s: no case passed with it", rows[i].name);
        note(from, line);
    }
}

/* --- listing and counting --- */

static void list_case(suite *of, const test_case *test) {
    if (!wanted(of, test->name, test->small)) return;
    of->next++;
    if (of->options.list) (void)printf("%s\n", test->name);
}

static void list_check(suite *of, const char *name, bool small, bool (*check)(suite *, char *, size_t)) {
    (void)check;
    if (!wanted(of, name, small)) return;
    of->next++;
    if (of->options.list) (void)printf("%s\n", name);
}

static uint64_t count_cases(suite *of) {
    of->visit = list_case;
    of->visit_check = list_check;
    of->next = of->seen = 0;
    all_cases(of);
    return of->next;
}

/* --- the program --- */

static tally totals;
static job jobs[MOST_JOBS];

static void on_alarm(int number) {
    (void)number;
    static const char text[] = "FAILED (no end in time): ";
    if (write(1, text, sizeof text - 1) > 0 && write(1, jobs[0].current, strlen(jobs[0].current)) > 0)
        (void)!write(1, "\n", 1);
    _exit(1);
}

static bool read_number(const char *text, uint64_t *out) {
    char *end;
    *out = strtoull(text, &end, 10);
    return *text && !*end;
}

static bool read_options(int count, char **arguments, suite_options *out, bool *out_alone) {
    uint64_t number = 0;
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i], *value = strchr(argument, '=');
        size_t length = value ? (size_t)(value++ - argument) : strlen(argument);
#define IS(name) (length == sizeof(name) - 1 && strncmp(argument, name, length) == 0)
        if (!value && IS("--row") && i + 1 < count) value = arguments[++i];
        if (IS("--device") && value && (strcmp(value, "cuda") == 0 || strcmp(value, "cpu") == 0))
            out->device = value;
        else if (IS("--row") && value)
            out->row = value;
        else if (IS("--only") && value)
            out->only = value;
        else if (IS("--seed") && value && read_number(value, &out->seed))
            continue;
        else if (IS("--sample") && value && read_number(value, &out->sample))
            continue;
        else if (IS("--jobs") && value && read_number(value, &number) && number && number <= MOST_JOBS)
            out->jobs = (uint32_t)number;
        else if (IS("--seconds") && value && read_number(value, &number) && number)
            out->seconds = (uint32_t)number;
        else if (IS("--threads") && value && read_number(value, &number) && number)
            out->threads = (uint32_t)number;
        else if (IS("--list"))
            out->list = true;
        else if (IS("--subset"))
            out->subset = true;
        else if (IS("--verbose"))
            out->verbose = true;
        else if (IS("--no-fork"))
            *out_alone = true;
        else {
            bool help = IS("--help");
            if (!help) (void)fprintf(stderr, "error: unknown or incomplete option '%s'\n", argument);
            (void)fputs(usage, help ? stdout : stderr);
            exit(help ? 0 : 2);
        }
#undef IS
    }
    return true;
}

/* Everything in this process. */
static void run_alone(suite *of) {
    worker to = {.out = -1, .job = &jobs[0]};
    jobs[0] = (job){.totals = &totals};
    of->shares = 1;
    (void)signal(SIGALRM, on_alarm);
    for (int checks = 0; checks < 2 && !jobs[0].unusable; checks++) {
        of->checks = checks;
        work(of, &to, 0);
    }
    (void)alarm(0);
}

static int finish(suite *of) {
    if (jobs[0].unusable && !totals.reached) {
        totals.skipped = count_cases(of);
        (void)printf("skipped: %s\n", jobs[0].reason);
    } else {
        note_unreached(of, &jobs[0]);
        for (uint32_t i = 0; i < totals.skip_count; i++)
            (void)printf("skipped %s: %llu cases: %s\n", totals.skips[i].what,
                         (unsigned long long)totals.skips[i].count, totals.skips[i].reason);
        if (totals.slowest_name[0]) (void)printf("slowest: %s, %.1f s\n", totals.slowest_name, totals.slowest);
    }
    (void)printf("%llu passed, %llu failed, %llu skipped\n", (unsigned long long)totals.passed,
                 (unsigned long long)totals.failed, (unsigned long long)totals.skipped);
    return totals.failed ? 1 : totals.passed ? 0 : EXIT_SKIPPED;
}

int main(int count, char **arguments) {
    static suite of;
    bool alone = false;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    of.options = (suite_options){
        .device = "cuda", .seed = 1, .seconds = 30, .threads = processors > 0 ? (uint32_t)processors : 1};
    (void)read_options(count, arguments, &of.options, &alone);
    totals.options = &of.options;
    if (!of.options.jobs)
        of.options.jobs = of.options.threads > 15 ? 8 : of.options.threads / 2 + (of.options.threads < 2);
    if (of.options.list) {
        (void)printf("%llu cases\n", (unsigned long long)count_cases(&of));
        return 0;
    }
    if (alone)
        run_alone(&of);
    else
        run_all(&of, &totals, jobs);
    return finish(&of);
}
