/* Owns: what a bench row is and timing one.
 * Does not own: which rows there are (bench.c).
 * Next: bench_run.c. */
#ifndef QF_TOOLS_BENCH_H
#define QF_TOOLS_BENCH_H

#include "tools/on_device.h"

/* Times in microseconds of one run: of `count` samples, each a mean over many runs. */
typedef struct bench_times {
    double median, least, most;
    uint32_t samples, runs; /* runs: in a sample */
    bool replayed;          /* from a captured graph */
} bench_times;

/* A plan with the memory that it is timed on: several sets of inputs, so that no run finds its inputs in the cache. */
typedef struct bench_plan bench_plan;

/* Gives input `index` of set `set` its values in device memory; false after a message. */
typedef bool (*bench_fill)(void *user, uint32_t index, uint32_t set, const qf_plan_tensor_info *info,
                           qf_tensor *tensor);

/* Takes the plan. NULL after a message. `sets` 0: as many as exceed the cache four times, 16 at most. */
bench_plan *bench_plan_open(tool_device *device, qf_plan *plan, uint32_t sets, bench_fill fill, void *user);
void bench_plan_close(bench_plan *plan);
/* Bytes of inputs, parameters and outputs: what a run must move at least. */
double bench_plan_bytes(const bench_plan *plan);
/* Warm-up, then samples over about `seconds`. False after a message. */
bool bench_plan_time(bench_plan *plan, double seconds, bench_times *out);

/* Device memory with numbers that look random, from a block that repeats. False after a message. */
bool bench_random(tool_device *device, qf_tensor *tensor, uint64_t seed);
bool bench_upload(tool_device *device, qf_tensor *tensor, const void *data);

#endif
