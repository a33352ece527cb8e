/* Owns: processes that run shares of the cases: starting, hearing, ending those that hang, starting anew.
 * Does not own: running cases (work.c).
 * Next: watch.h. */
#include "tests/gpu/conformance/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double now(void) {
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

void note(job *from, const char *line) {
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

void run_all(suite *of, tally *totals, job *jobs) {
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
