/* Owns: what a case of the conformance suite is, and how families of cases describe theirs.
 * Does not own: the families (*_cases.c), running (run.c), bounds (bounds.c), the watchdog (main.c).
 * Next: cases.c. */
#ifndef QF_TESTS_GPU_CONFORMANCE_CASES_H
#define QF_TESTS_GPU_CONFORMANCE_CASES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <qfuse/device.h>
#include <qfuse/runtime.h>

#include "spec/spec.h"

#define MOST_INPUTS  24
#define MOST_OUTPUTS 8

typedef struct shape {
    uint32_t rank;
    int64_t dims[QF_MAX_RANK];
} shape;

#define SHAPE(...) ((shape){(uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define SCALAR     ((shape){0, {0}})

typedef enum fill_kind {
    FILL_NORMAL,   /* deviation a, mean b */
    FILL_UNIFORM,  /* from a to b */
    FILL_INTEGERS, /* whole numbers a .. b */
    FILL_ODD,      /* every code of narrow types; zeros, infinities, NaNs, subnormals, ties and ordinary numbers */
    FILL_TRUE,     /* 1 with probability a, else 0 */
    FILL_LIST,     /* numbers[0 .. count), again from the start when they end */
    FILL_OUTLIERS  /* normal, one in a thousand ten times larger, a few at the largest value */
} fill_kind;

typedef struct fill {
    fill_kind kind;
    double a, b;
    const double *numbers;
    size_t count;
} fill;

#define NORMAL(deviation, mean) ((fill){FILL_NORMAL, deviation, mean, NULL, 0})
#define UNIFORM(low, high)      ((fill){FILL_UNIFORM, low, high, NULL, 0})
#define INTEGERS(low, high)     ((fill){FILL_INTEGERS, (double)(low), (double)(high), NULL, 0})
#define ODD                     ((fill){FILL_ODD, 0, 0, NULL, 0})
#define MOSTLY(probability)     ((fill){FILL_TRUE, probability, 0, NULL, 0})
#define OUTLIERS                ((fill){FILL_OUTLIERS, 0, 0, NULL, 0})
#define CONSTANT(number)        ((fill){FILL_UNIFORM, number, number, NULL, 0})

typedef enum bound_kind {
    BOUND_BYTES,  /* the same bytes */
    BOUND_VALUES, /* the same values; any NaN equals any NaN */
    BOUND_NEAR, /* within `ulps` units of the result's type plus `relative` times the largest reference magnitude, plus
                   `absolute` */
    BOUND_CODES /* at least `share` of the codes equal, none off by more than `most_off` and by more than `relative` */
} bound_kind;

typedef struct bound {
    bound_kind kind;
    double ulps, relative, absolute;
    double share;
    uint32_t most_off;
    double outliers; /* share of elements that may lie up to five times further off */
    bool in_f32;     /* an f64 result of f32 arithmetic: units are those of f32 */
    double bias;     /* > 0: |sum / sum of the reference - 1| stays below it */
} bound;

typedef struct case_input {
    char name[24];
    qf_dtype dtype;
    shape dims;
    fill fill;
} case_input;

typedef struct test_case test_case;
typedef struct suite suite;

/* One graph with the values of its inputs. Made anew for each visit; a few kilobytes of text, numbers aside. */
struct test_case {
    suite *of;
    qf_op op;         /* the step whose kernel is tested; QF_OP_return: the whole plan as it is compiled */
    char name[300];   /* "attention/causal_d64_..." */
    char body[4096];  /* nodes of the graph */
    char other[4096]; /* nodes of the reference graph, over the same inputs; "": the same */
    case_input inputs[MOST_INPUTS];
    uint32_t input_count;
    char outputs[MOST_OUTPUTS][24];
    bound bounds[MOST_OUTPUTS];
    int32_t in_place[MOST_OUTPUTS]; /* the input whose memory the output shares; -1: none */
    uint32_t output_count;
    bool small;       /* for compute-sanitizer */
    bool replays;     /* also captured, and replayed twenty times */
    bool rounds_p;    /* attention with p=none over FP8 values: kernels written for FP8 round P all the same */
    bool kernel_p;    /* attention with p=kernel: a kernel may keep P more exactly than the CPU, which rounds it */
    int64_t keys;     /* attention: of a row, at most */
    bool aligned;     /* no second run with memory that is aligned to one element only */
    uint32_t seconds; /* until the watchdog ends it; 0: the suite's */
    /* Changes the inputs after they were filled (host memory, in order of inputs); NULL: does not. */
    void (*adjust)(const test_case *test, qf_tensor *inputs);
    int64_t numbers[8]; /* for adjust */
    bool failed_to_build;
};

/* Room for lists of numbers that one case's fills refer to; handed out anew for each case. */
double *case_numbers(test_case *test, size_t count);

/* `format`: the variant, behind "op/". */
void case_begin(suite *of, test_case *test, qf_op op, const char *format, ...) QF_PRINTF(4, 5);
uint32_t case_add_input(test_case *test, const char *name, qf_dtype dtype, shape dims, fill values);
/* Appends a line to the graph, or to the reference graph. */
void case_node(test_case *test, const char *format, ...) QF_PRINTF(2, 3);
void case_other_node(test_case *test, const char *format, ...) QF_PRINTF(2, 3);
void case_output(test_case *test, const char *name, bound within);
/* Hands the case to the suite. */
void case_end(test_case *test);

/* "[2, 3]" in one of a few buffers that take turns. */
const char *shape_text(shape dims);
const char *list_text(const int64_t *items, uint32_t count);
int64_t shape_count(shape dims);

/* A small generator: the same numbers everywhere. */
typedef struct random_state {
    uint64_t state;
} random_state;
uint64_t random_bits(random_state *random);
int64_t random_between(random_state *random, int64_t low, int64_t high);
double random_uniform(random_state *random);
double random_normal(random_state *random);

/* bounds.c: what a result of the op may differ by from the CPU's. docs/numerics.md has the same table in words. */
bound bound_of(qf_op op, qf_dtype operand, qf_dtype result);
/* How far the lse of attention may lie from the reference's where a special kernel (from row 2000 on) sums a rounded P;
 * the reference rounds it to e4m3 under p=kernel, and else not at all. */
double lse_room(uint32_t row, bool kernel_p, int64_t keys);
/* The share of the result's codes that must be equal where such a kernel multiplies a P in bf16; 1 for other P. */
double share_of_codes(uint32_t row, const qf_tensor *result);
/* Compares `found` with `wanted`, both in host memory; false after writing into `message`. */
bool bound_holds(const bound *within, const qf_tensor *found, const qf_tensor *wanted, char *message, size_t size);

/* fill.c */
void fill_tensor(const case_input *input, qf_tensor *tensor, random_state *random);

/* Families. */
void elementwise_cases(suite *to);
void layout_cases(suite *to);
void index_cases(suite *to);
void reduce_cases(suite *to);
void normalise_cases(suite *to);
void contract_cases(suite *to);
void quantise_cases(suite *to);
void cache_cases(suite *to);
void attention_cases(suite *to);
void paged_cases(suite *to);
void plan_cases(suite *to);
void large_cases(suite *to);

/* --- the suite --- */

typedef struct suite_options {
    const char *device;      /* "cuda", "cpu" */
    const char *row;         /* only kernels whose name or op contains it; NULL: all */
    const char *only;        /* only cases whose name contains it */
    const char *stall, *die; /* cases that hang or end their process, to test the watchdog; NULL: none does */
    uint64_t seed, sample;
    bool list, subset, verbose;
    uint32_t seconds, threads, jobs;
} suite_options;

struct suite {
    suite_options options;
    char target[16];
    uint64_t seen; /* cases that --sample chose from */
    uint64_t next; /* number of the next case, over all shares */
    uint64_t own;  /* number of the next case of this process' share */
    uint64_t from; /* cases of the share before it were dealt with by an earlier process */
    uint32_t share, shares;
    bool checks; /* whole-plan checks, not cases */
    double number_room[1 << 17];
    size_t numbers_used;
    test_case test; /* the one under construction */
    /* Deals with one case; set by main.c. */
    void (*visit)(suite *of, const test_case *test);
    /* Whole-plan checks (plan_cases.c): the same for a function. */
    void (*visit_check)(suite *of, const char *name, bool small, bool (*check)(suite *of, char *message, size_t size));
    qf_context *context; /* of the device */
    qf_device *device;
    void *user;
};

typedef enum verdict { VERDICT_PASSED, VERDICT_FAILED, VERDICT_SKIPPED, VERDICT_BROKEN } verdict;

/* A case, to be run with one kernel after another once it has its reference. NULL after writing into `message`. */
typedef struct prepared prepared;
prepared *run_prepare(suite *of, const test_case *test, char *message, size_t size);
/* Fills the inputs and runs the reference; false after writing into `message`. */
bool run_reference(prepared *at, char *message, size_t size);
void run_finish(prepared *at);
/* Kernels of the target that take the case (numbers of kernels.def) into `rows`; returns how many. */
uint32_t run_rows(const prepared *at, uint32_t *rows, uint32_t room);
/* Runs the case with one kernel and compares. */
verdict run_row(prepared *at, uint32_t row, char *message, size_t size);

/* A context that keeps its last messages in `messages`, of size MESSAGE_SIZE. */
#define MESSAGE_SIZE 2048
qf_context *open_context(char *messages);

#endif
