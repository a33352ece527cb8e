/* Owns: what a bench row is, timing one and printing it.
 * Does not own: which rows there are (bench.c, bench_stream.c).
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

/* A whole bench: what was measured of the device so far. */
typedef struct bench {
    qf_tool *tool;
    tool_device device;
    double seconds;                           /* for each line */
    double copy_rate, wide_rate, narrow_rate; /* GB/s, TFLOPS of bf16 and FP8; 0: not measured */
    const void *row;                          /* being timed, for bench_fill */
    const qf_graph *graph;
} bench;

/* What a row is set against: nothing (it is a ceiling itself), the copy, or the copy and products of this rate. */
typedef enum bench_ceiling { BENCH_NONE, BENCH_COPY, BENCH_PRODUCTS } bench_ceiling;

/* A line; `flops` 0: none are counted; `products`: TFLOPS of products of the row's width. */
void bench_print(const bench *at, const char *name, const bench_times *times, double bytes, double flops,
                 bench_ceiling ceiling, double products);
/* Compiles a graph for the device and times it on `sets` sets of inputs (0: as many as exceed the cache); `user` of
 * the fill is the bench. False after a message. */
bool bench_text(bench *at, const char *text, uint32_t sets, bench_fill fill, bench_times *out, double *out_bytes);
/* Random numbers for any input. */
bool bench_fill_random(void *user, uint32_t index, uint32_t set, const qf_plan_tensor_info *info, qf_tensor *tensor);
/* Lines of kernels that are limited by memory. */
bool bench_streams(bench *at);

/* Device memory with numbers that look random, from a block that repeats. False after a message. */
bool bench_random(tool_device *device, qf_tensor *tensor, uint64_t seed);
bool bench_upload(tool_device *device, qf_tensor *tensor, const void *data);

#endif
