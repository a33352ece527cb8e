/* Owns: the command table, help, and how diagnostics look on a terminal.
 * Does not own: the commands (opt.c, run.c, explain.c, rules.c, ops.c, case.c).
 * Next: tool.h. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/standard_streams.h"
#include "tools/tool.h"

static const tool_command commands[] = {
    {"opt", "run passes over a graph and write the result", "qfuse opt [FILE|-] [options]", tool_opt},
    {"explain", "say for every attention how it fused, or why it did not", "qfuse explain FILE [options]",
     tool_explain},
    {"run", "run a graph or plan and print, save or compare its outputs", "qfuse run FILE [options]", tool_run},
    {"compare", "show and run a graph before and after a pipeline: differences, launches and bytes saved",
     "qfuse compare FILE [options]", tool_compare},
    {"case", "judge one folder of model, inputs, outputs and expectations", "qfuse case FOLDER [options]", tool_case},
    {"bench", "time attention, or graphs and plans, against what the device can do", "qfuse bench [FILE...] [options]",
     tool_bench},
    {"rules", "list, check, show or test rules", "qfuse rules [list|check FILE|show NAME|test [NAME|FILE]]",
     tool_rules},
    {"ops", "list the ops of the graph language, or show one", "qfuse ops [NAME]", tool_ops},
};

static void print_help(FILE *out) {
    (void)fprintf(out, "qfuse %s: fuses attention with FP8 quantisation\n\nusage: qfuse COMMAND [arguments]\n\n",
                  qf_version());
    for (size_t i = 0; i < QF_COUNT_OF(commands); i++)
        (void)fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    (void)fprintf(out,
                  "\n`qfuse COMMAND --help` lists the options of a command; `qfuse --version` prints the version.\n"
                  "Exit codes: 0 success; 1 a located error was printed; 2 wrong usage; 3 outputs differ.\n"
                  "Files are QFuse text (docs/ir.md), ONNX models, torch.export archives (.pt2) or saved plans, told "
                  "apart by their first bytes.\n");
}

static void print_command_help(FILE *out, const tool_command *command) {
    (void)fprintf(out, "%s\n\nusage: %s\n\noptions:\n", command->summary, command->usage);
    tool_print_options(out, command->name);
    if (strcmp(command->name, "opt") == 0)
        (void)fprintf(out, "\npasses:\n%s\npipelines:\n%s", qf_pass_list(), qf_pipeline_list());
}

static void print_excerpt(const qf_diagnostic *diagnostic) {
    if (!diagnostic->source_line[0]) return;
    (void)fprintf(stderr, "  %s\n", diagnostic->source_line);
    if (!diagnostic->column) return;
    (void)fprintf(stderr, "  ");
    for (uint32_t i = 1; i < diagnostic->column && diagnostic->source_line[i - 1]; i++)
        (void)fputc(diagnostic->source_line[i - 1] == '\t' ? '\t' : ' ', stderr);
    (void)fprintf(stderr, "^\n");
}

static void print_diagnostic(void *user, const qf_diagnostic *diagnostic) {
    static const char *const names[] = {"error", "warning", "remark", "note"};
    qf_tool *state = user;
    if (diagnostic->severity == QF_SEVERITY_WARNING) {
        tool_keep_warning(state, diagnostic->location, diagnostic->message);
        return;
    }
    if (diagnostic->severity > QF_SEVERITY_WARNING && state->options.quiet) return;
    if (diagnostic->severity == QF_SEVERITY_ERROR) {
        state->error_count++;
        tool_print_warnings(state);
    }
    (void)fflush(stdout);
    if (diagnostic->location[0]) (void)fprintf(stderr, "%s: ", diagnostic->location);
    (void)fprintf(stderr, "%s: %s\n", names[diagnostic->severity], diagnostic->message);
    print_excerpt(diagnostic);
}

double tool_now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void tool_progress(qf_tool *tool, const char *what, uint64_t done, uint64_t total) {
    double now = tool_now();
    if (tool->options.quiet || now - tool->started < 2.0 || now - tool->last_progress < 0.5) return;
    tool->last_progress = now;
    (void)fprintf(stderr, "qfuse: %s %llu", what, (unsigned long long)done);
    if (total) (void)fprintf(stderr, "/%llu", (unsigned long long)total);
    (void)fprintf(stderr, " (%.0f s)\n", now - tool->started);
}

static const char unwritten[] = "standard output could not be written";

static int run_command(const tool_command *command, int count, char **arguments) {
    qf_tool state = {.started = tool_now(), .options = {.threads = 2, .tolerance = -1.0}};
    qf_context_options options = {.struct_size = sizeof options, .handler = print_diagnostic, .handler_user = &state};
    if (!tool_read_options(&state, command, count, arguments)) return TOOL_USAGE;
    if (state.options.help) {
        print_command_help(stdout, command);
        return TOOL_OK;
    }
    if (qf_context_create(&options, &state.context) != QF_OK) {
        (void)fprintf(stderr, "error: out of memory\n");
        return TOOL_FAILED;
    }
    qf_status checked = tool_check_options(&state);
    int code = checked == QF_OK                       ? command->run(&state)
               : checked == QF_ERROR_INVALID_ARGUMENT ? TOOL_USAGE
                                                      : TOOL_FAILED;
    tool_print_warnings(&state);
    if (code == TOOL_FAILED && !state.error_count)
        (void)fprintf(stderr, "error: %s\n",
                      ferror(stdout) ? unwritten : qf_status_name(qf_context_status(state.context)));
    free(state.rules_text);
    qf_context_destroy(state.context);
    return code;
}

/* What was not written was not done. */
static int finish(int code) {
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != TOOL_OK) return code;
    (void)fprintf(stderr, "error: %s\n", unwritten);
    return TOOL_FAILED;
}

int main(int count, char **arguments) {
    tool_reserve_standard_streams();
    if (count < 2 || strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "-h") == 0 ||
        strcmp(arguments[1], "help") == 0) {
        print_help(count < 2 ? stderr : stdout);
        return finish(count < 2 ? TOOL_USAGE : TOOL_OK);
    }
    if (strcmp(arguments[1], "--version") == 0) {
        (void)printf("qfuse %s\n", qf_version());
        return finish(TOOL_OK);
    }
    for (size_t i = 0; i < QF_COUNT_OF(commands); i++)
        if (strcmp(arguments[1], commands[i].name) == 0)
            return finish(run_command(&commands[i], count - 2, arguments + 2));
    (void)fprintf(stderr, "error: unknown command '%s'\n\n", arguments[1]);
    print_help(stderr);
    return TOOL_USAGE;
}
