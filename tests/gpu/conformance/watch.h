/* Owns: what the process that runs cases and the one that watches it share.
 * Does not own: running (work.c), watching (watch.c), options and the verdict (main.c).
 * Next: watch.c. */
#ifndef QF_TESTS_GPU_CONFORMANCE_WATCH_H
#define QF_TESTS_GPU_CONFORMANCE_WATCH_H

#include <sys/types.h>

#include "tests/gpu/conformance/cases.h"

#define LINE_SIZE 2600
#define MOST_JOBS 32

/* The running process tells the watching one in lines: "B case", "P case", "F case: why", "S case: why", "R row",
 * "T target", "N why not at all", "D" at its end. */
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

/* watch.c */
void note(job *from, const char *line);
double now(void);
/* Cases in parallel, then the checks of whole plans, which measure memory, one after another. */
void run_all(suite *of, tally *totals, job *jobs);

/* work.c */
/* The process that uses the device; cases of its share before `from` were dealt with. */
void work(suite *of, worker *to, uint64_t from);
/* Every family of cases, to of->visit and of->visit_check. */
void all_cases(suite *of);
/* What --subset, --only and --sample leave. */
bool wanted(suite *of, const char *name, bool small);

#endif
