/* Owns: the conformance program: options, lists, the verdict.
 * Does not own: cases (*_cases.c), running (work.c, run.c), the watchdog (watch.c).
 * Next: cases.h; docs/gpu.md. */
#include "tests/gpu/conformance/watch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spec/kernels.h"

#define EXIT_SKIPPED 77

static const char usage[] =
    "usage: conformance [--device=cuda|cpu] [--list] [--row=NAME] [--only=PART] [--subset] [--seed=N] [--seconds=N]\n"
    "                   [--threads=N] [--no-fork] [--verbose]\n"
    "Compares every kernel of the device with the CPU's, over cases made from what the ops declare.\n"
    "  --device=D    cuda (default); cpu compares the CPU with itself, which tests the cases\n"
    "  --list        names the cases and ends\n"
    "  --row=NAME    only kernels whose name holds NAME (spec/kernels.def)\n"
    "  --only=PART   only cases whose name holds PART\n"
    "  --stall=PART, --die=PART  cases that hang or end their process: the watchdog's own test\n"
    "  --subset      only small cases, for compute-sanitizer\n"
    "  --sample=N    only every N-th case\n"
    "  --seed=N      other random numbers\n"
    "  --seconds=N   a case that takes longer has failed (default 30)\n"
    "  --jobs=N      processes that share the cases (default: one for two processors, 8 at most)\n"
    "  --no-fork     run in this process: for debuggers and compute-sanitizer\n"
    "Ends with \"N passed, N failed, N skipped\"; exit code 0, 1, or 77 where everything was skipped.\n";

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
        else if (IS("--stall") && value)
            out->stall = value;
        else if (IS("--die") && value)
            out->die = value;
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
