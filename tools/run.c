/* Owns: `qfuse run`: a graph or plan on a device, from files or random inputs, compared with files or another graph.
 * Does not own: running itself (qfuse/runtime.h).
 * Next: on_device.h. */
#include <stdlib.h>
#include <string.h>

#include <qfuse/codegen.h>

#include "plan/plan.h"
#include "tools/inputs.h"
#include "tools/on_device.h"

typedef struct run_job {
    qf_tool *tool;
    tool_device *device;
    qf_plan *plan;
    qf_graph *graph;
    qf_tensor inputs[TOOL_MOST_INPUTS]; /* in host memory */
    uint32_t input_count;
    placed_run placed;
    bool random; /* an input was made up */
} run_job;

static void destroy_job(run_job *job) {
    placed_run_close(&job->placed);
    for (uint32_t i = 0; i < job->input_count; i++) tensor_free(&job->inputs[i]);
    qf_plan_destroy(job->plan);
    qf_graph_destroy(job->graph);
}

static bool load(run_job *job, const char *path) {
    qf_tool *tool = job->tool;
    if (!tool_load_graph_or_plan(tool, path, &job->graph, &job->plan)) return false;
    if (job->plan) return true;
    const char *passes = tool->options.passes ? tool->options.passes : "";
    if (tool_run_pipeline(tool, job->graph, passes, tool->options.numerics, NULL) != QF_OK) return false;
    qf_compile_options options = {.struct_size = sizeof options,
                                  .target = tool->options.target,
                                  .pipeline = passes,
                                  .numerics = tool->options.numerics};
    return qf_compile(job->graph, &options, &job->plan) == QF_OK;
}

/* A plan without its graph says less of its inputs. */
static bool random_plan_input(run_job *job, uint32_t index, qf_tensor *out) {
    qf_plan_tensor_info info;
    if (!qf_plan_input(job->plan, index, &info)) return false;
    *out = (qf_tensor){.dtype = info.dtype, .rank = info.rank};
    for (uint32_t i = 0; i < info.rank && info.rank <= QF_TENSOR_MAX_RANK; i++) {
        out->dims[i] = info.dims[i];
        if (info.dims[i] >= 0) continue;
        (void)qf_fail(job->tool->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                      "input %u of the plan has a symbolic size: give its tensor with --input", index);
        return false;
    }
    if (info.rank > QF_TENSOR_MAX_RANK) {
        (void)qf_fail(job->tool->context, QF_ERROR_UNSUPPORTED, NULL,
                      "input %u \"%s\" has no known shape: a plan with it cannot run", index, info.name);
        return false;
    }
    if (!tensor_allocate(job->tool, out)) return false;
    tensor_randomise(out, job->tool->options.seed * 1000003u + index);
    return true;
}

static bool load_input(run_job *job, uint32_t index, qf_tensor *out) {
    const tool_options *options = &job->tool->options;
    char path[4096];
    qf_plan_tensor_info info;
    if (!qf_plan_input(job->plan, index, &info)) return false;
    if (index < options->input_count) {
        (void)snprintf(path, sizeof path, "%s", options->inputs[index]);
    } else if (!options->expect || !tensor_path(options->expect, "input", index, path, sizeof path)) {
        job->random = true;
        return job->graph ? random_input(job->tool, job->graph, index, out) : random_plan_input(job, index, out);
    }
    return tensor_read(job->tool, path, out) && tensor_convert(job->tool, out, info.dtype);
}

static qf_status show_progress(void *user, uint32_t step, const qf_tensor *operands, uint32_t operand_count,
                               const qf_tensor *results, uint32_t result_count) {
    run_job *job = user;
    (void)operands, (void)operand_count, (void)results, (void)result_count;
    tool_progress(job->tool, "running step", step + 1, qf_plan_step_count(job->plan));
    return QF_OK;
}

/* Sizes that no input's shape determines. */
static bool bind_symbols(run_job *job) {
    const qf_plan *plan = job->plan;
    for (uint32_t i = 0; i < plan->symbol_count; i++) {
        if (plan->symbols[i].kind != QF_PLAN_HOST) continue;
        const char *name = qf_plan_symbol(plan, i);
        qf_dim dim = qf_dim_named(job->tool->context, qf_text_of(name));
        int64_t size;
        if (!dim.id || !tool_symbol_extent(job->tool, qf_dim_as_symbol(job->tool->context, dim), &size) ||
            qf_executor_bind_symbol(job->placed.executor, name, size) != QF_OK)
            return false;
    }
    return true;
}

/* `from` NULL: inputs of its own; else the other job's inputs, by position. */
static bool execute(run_job *job, const struct run_job *from) {
    const tool_options *options = &job->tool->options;
    if (!placed_run_open(job->device, job->plan, options->timing, &job->placed)) return false;
    uint32_t count = qf_plan_input_count(job->plan);
    if (from && count != from->input_count) {
        (void)qf_fail(job->tool->context, QF_ERROR_INVALID_ARGUMENT, NULL, "the graphs have different inputs");
        return false;
    }
    if (!from && options->input_count > count) {
        (void)qf_fail(job->tool->context, QF_ERROR_INVALID_ARGUMENT, NULL,
                      "--input was given %u times, but the graph has %u inputs", options->input_count, count);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const qf_tensor *tensor = from ? &from->inputs[i] : &job->inputs[i];
        if (!from) {
            if (!load_input(job, i, &job->inputs[i])) return false;
            job->input_count++;
        }
        if (!placed_run_bind(&job->placed, tensor)) return false;
    }
    if (!bind_symbols(job)) return false;
    /* An observed plan keeps every intermediate; on a GPU steps run as they would in service. */
    if (job->device->host) qf_executor_observe(job->placed.executor, show_progress, job);
    qf_status status = qf_executor_run(job->placed.executor);
    if (status == QF_OK) status = qf_executor_wait(job->placed.executor);
    bool unfit = status == QF_ERROR_INVALID_ARGUMENT || status == QF_ERROR_GUARD;
    if (unfit && job->random && job->graph) random_inputs_note(job->tool, job->graph);
    return status == QF_OK;
}

static void print_output(const run_job *job, uint32_t index, const qf_tensor *tensor) {
    qf_plan_tensor_info info;
    (void)qf_plan_output(job->plan, index, &info);
    (void)printf("%s: %s[", *info.name ? info.name : "output", qf_dtype_name(tensor->dtype));
    for (uint32_t i = 0; i < tensor->rank; i++) (void)printf("%s%lld", i ? ", " : "", (long long)tensor->dims[i]);
    (void)printf("]");
    qf_tensor zero = *tensor;
    if (tensor_allocate(job->tool, &zero)) {
        tensor_difference size = tensor_compare(tensor, &zero, 0, 0);
        (void)printf(" largest magnitude %.6g", size.largest);
        tensor_free(&zero);
    }
    (void)printf("\n");
}

static bool save_output(const run_job *job, uint32_t index, const qf_tensor *tensor) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/output_%u.npy", job->tool->options.output_directory, index);
    return tensor_write_npy(job->tool, path, tensor);
}

/* TOOL_OK, or TOOL_DIFFERENT after saying where. */
static int compare(const run_job *job, uint32_t index, const qf_tensor *found, const qf_tensor *wanted) {
    double tolerance = job->tool->options.tolerance < 0 ? 1e-5 : job->tool->options.tolerance;
    tensor_difference difference = tensor_compare(found, wanted, 0, 0);
    if (!difference.comparable) {
        (void)printf("output %u: shapes differ\n", index);
        return TOOL_DIFFERENT;
    }
    bool ok = difference.relative_rms <= tolerance;
    (void)printf("output %u: relative RMS %.3e, largest difference %.3e, %s\n", index, difference.relative_rms,
                 difference.largest, ok ? "ok" : "DIFFERENT");
    return ok ? TOOL_OK : TOOL_DIFFERENT;
}

/* TOOL_OK, TOOL_DIFFERENT, or TOOL_FAILED after a message. */
static int compare_with_file(const run_job *job, uint32_t index, const qf_tensor *found) {
    const char *folder = job->tool->options.expect;
    char path[4096];
    qf_tensor wanted;
    if (!tensor_path(folder, "output", index, path, sizeof path)) {
        (void)qf_fail(job->tool->context, QF_ERROR_NOT_FOUND, &(qf_position){.location = folder},
                      "expected output_%u.pb or output_%u.npy", index, index);
        return TOOL_FAILED;
    }
    if (!tensor_read(job->tool, path, &wanted)) return TOOL_FAILED;
    int code = compare(job, index, found, &wanted);
    tensor_free(&wanted);
    return code;
}

static int compare_with_job(const run_job *job, const run_job *other, uint32_t index, const qf_tensor *found) {
    qf_tensor wanted;
    if (!placed_run_get(&other->placed, index, &wanted)) return TOOL_FAILED;
    int code = compare(job, index, found, &wanted);
    tensor_free(&wanted);
    return code;
}

static int handle_output(const run_job *job, const run_job *other, uint32_t index) {
    const tool_options *options = &job->tool->options;
    qf_tensor found;
    if (!placed_run_get(&job->placed, index, &found)) return TOOL_FAILED;
    if (!options->quiet) print_output(job, index, &found);
    int code = options->output_directory && !save_output(job, index, &found) ? TOOL_FAILED : TOOL_OK;
    if (code == TOOL_OK && options->expect) code = compare_with_file(job, index, &found);
    if (code != TOOL_FAILED && other) {
        int second = compare_with_job(job, other, index, &found);
        if (code == TOOL_OK || second == TOOL_FAILED) code = second;
    }
    tensor_free(&found);
    return code;
}

static void print_timing(const run_job *job) {
    qf_executor_memory memory = {.struct_size = sizeof memory};
    qf_executor_memory_use(job->placed.executor, &memory);
    for (uint32_t i = 0; i < qf_plan_step_count(job->plan); i++) {
        qf_plan_step_info step;
        if (qf_plan_step(job->plan, i, &step))
            (void)printf("%10.3f us  %-20s %s\n", (double)qf_executor_step_time(job->placed.executor, i) * 1e-3,
                         qf_op_name(step.op), step.result);
    }
    (void)printf("workspace %llu bytes (%llu without reuse), scratch %llu bytes\n",
                 (unsigned long long)memory.workspace_bytes, (unsigned long long)memory.unshared_bytes,
                 (unsigned long long)memory.scratch_bytes);
}

int tool_run(qf_tool *tool) {
    if (tool->options.file_count != 1) {
        (void)fprintf(stderr, "error: expected one file; see `qfuse run --help`\n");
        return TOOL_USAGE;
    }
    run_job *main_job = calloc(1, sizeof *main_job), *other = tool->options.compare ? calloc(1, sizeof *other) : NULL;
    tool_device device = {0};
    int code = TOOL_FAILED;
    if (main_job && (other || !tool->options.compare) && tool_device_open(tool, tool->options.device, &device)) {
        if (!tool->options.target) tool->options.target = device.info.target;
        main_job->tool = tool;
        main_job->device = &device;
        if (other) *other = (run_job){.tool = tool, .device = &device};
        bool ran = load(main_job, tool->options.files[0]) && execute(main_job, NULL);
        if (ran && other) ran = load(other, tool->options.compare) && execute(other, main_job);
        if (ran) code = TOOL_OK;
        for (uint32_t i = 0; ran && i < qf_plan_output_count(main_job->plan); i++) {
            int one = handle_output(main_job, other, i);
            if (one == TOOL_FAILED || code == TOOL_OK) code = one;
            if (one == TOOL_FAILED) break;
        }
        if (ran && tool->options.timing) print_timing(main_job);
    }
    if (other) destroy_job(other);
    if (main_job) destroy_job(main_job);
    tool_device_close(&device);
    free(other);
    free(main_job);
    return code;
}
