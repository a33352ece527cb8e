/* Owns: what the commands of the qfuse program share: options, loading, diagnostics, exit codes.
 * Does not own: the commands (one file each).
 * Next: main.c. */
#ifndef QF_TOOLS_TOOL_H
#define QF_TOOLS_TOOL_H

#include <stdio.h>

#include <qfuse/onnx.h>
#include <qfuse/pass.h>
#include <qfuse/plan.h>
#include <qfuse/pt2.h>
#include <qfuse/runtime.h>

#include "ir/graph.h"

/* Exit codes of the program; documented by --help. */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2, TOOL_DIFFERENT = 3 };

/* Every option of every command. The table in options.c says which command takes which. */
typedef struct tool_options {
    const char *passes, *numerics, *target, *query_scale, *emit, *output, *rules, *revision;
    bool onnx_stepwise;
    const char *pt2_customs, *pt2_kv_cache;
    uint64_t pt2_page_size;
    const char *print_before, *print_after;
    const char *expect, *compare, *output_directory, *device, *dims;
    const char *inputs[64];
    uint32_t input_count;
    const char *files[8]; /* positional arguments */
    uint32_t file_count;
    uint64_t rewrite_limit, seed, threads;
    uint64_t batch, heads, kv_heads, head_dim, queries, keys, page, milliseconds; /* of bench; 0: not given */
    const char *type, *out_type;
    bool causal;
    double tolerance;
    bool rewrite_limited; /* --rewrite-limit was given, also as 0 */
    bool print_changed, timing, statistics, no_verify, verify_rewrites, remarks, json, quiet, help;
    bool unlike_reference;
} tool_options;

/* Kinds of warnings that are kept until they are printed with their counts. */
#define TOOL_MAX_WARNINGS 64

typedef struct qf_tool {
    qf_context *context;
    tool_options options;
    uint32_t error_count;
    char *rules_text; /* contents of --rules */
    size_t rules_size;
    const qf_graph *sized; /* whose facts and assumptions give sizes to symbols; 0: none */
    struct tool_warning *warnings;
    uint32_t warning_count;
    uint64_t passes_begun;
    double started; /* for progress: said on stderr once two seconds have passed */
    double last_progress;
} qf_tool;

typedef struct tool_command {
    const char *name, *summary, *usage;
    int (*run)(qf_tool *tool);
} tool_command;

/* options.c: reads the arguments after the command's name. Prints the fault and returns false. */
bool tool_read_options(qf_tool *tool, const tool_command *command, int count, char **arguments);
void tool_print_options(FILE *out, const char *command);

/* options.c: values that only a context can judge: pipelines, classes, targets. QF_OK, or a status after a message that
 * lists the known ones. */
qf_status tool_check_options(qf_tool *tool);

/* warnings.c: equal texts are printed once, with the first place and a count. */
void tool_keep_warning(qf_tool *tool, const char *location, const char *message);
void tool_print_warnings(qf_tool *tool);

/* load.c */
/* The graph of a file by its name or first bytes ("-": standard input): QFuse text, ONNX, a torch.export archive, MLIR.
 * NULL after a message. */
qf_graph *tool_load_graph(qf_tool *tool, const char *path);
/* The same, or a plan: one of the two is not NULL. False after a message. */
bool tool_load_graph_or_plan(qf_tool *tool, const char *path, qf_graph **out_graph, qf_plan **out_plan);
/* The whole file, at most `limit` bytes, NUL-terminated; NULL after a message. Freed with free(). */
char *tool_read_file(qf_tool *tool, const char *path, size_t limit, size_t *out_size);
/* The same of a stream, from where it stands; `path` is for messages. */
char *tool_read_stream(qf_tool *tool, FILE *file, const char *path, size_t limit, size_t *out_size);
/* Writes to a temporary file and renames it; "-" is standard output. False after a message. */
bool tool_write_file(qf_tool *tool, const char *path, const void *data, size_t size);
/* True for a path that ends in `.extension`. */
bool tool_has_extension(const char *path, const char *extension);

/* mlir_file.c: a file of MLIR by its name, read through qfuse-mlir. NULL after a message. */
bool tool_is_mlir(const char *path);
qf_graph *tool_load_mlir(qf_tool *tool, const char *path);

/* pipeline.c: runs the pipeline of the options with all debug switches; *out_run may be NULL when not wanted. */
qf_status tool_run_pipeline(qf_tool *tool, qf_graph *graph, const char *passes, const char *numerics, qf_run **out_run);

/* inputs.c: a qf_symbol_lookup with the tool as user: --dims, else what the graph assumed it to equal, else 4 within
 * its facts. */
bool tool_symbol_extent(void *user, qf_dim_symbol symbol, int64_t *out_value);

/* Says on stderr what goes on, when the command has run for two seconds or more, at most twice a second. `total` 0:
 * unknown. */
void tool_progress(qf_tool *tool, const char *what, uint64_t done, uint64_t total);
double tool_now(void);

int tool_opt(qf_tool *tool);
int tool_run(qf_tool *tool);
int tool_explain(qf_tool *tool);
int tool_rules(qf_tool *tool);
int tool_ops(qf_tool *tool);
int tool_case(qf_tool *tool);
int tool_compare(qf_tool *tool);
int tool_bench(qf_tool *tool);

#endif
