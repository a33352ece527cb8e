/* Owns: the option table, reading arguments by it, and its help text.
 * Does not own: what an option does (the commands).
 * Next: tool.h. */
#include <errno.h>
#include <float.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "passes/manager.h"
#include "tools/tool.h"

typedef enum option_kind {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_NUMBER,
    OPTION_SIZE,
    OPTION_THREADS,
    OPTION_TOLERANCE,
    OPTION_DIMS,
    OPTION_REVISION,
    OPTION_PASS,
    OPTION_LIMIT,
    OPTION_INPUTS
} option_kind;

static const struct option {
    const char *name, *value, *commands, *help;
    option_kind kind;
    size_t offset;
} options[] = {
#define AT(field) offsetof(tool_options, field)
    {"passes", "TEXT", "opt explain run case compare bench",
     "pipeline; default: \"default\" (run: none; compare: \"serving\")", OPTION_TEXT, AT(passes)},
    {"numerics", "CLASS", "opt explain run case compare bench",
     "loosest class of rewrites: exact, rounding, quantising, relaxed", OPTION_TEXT, AT(numerics)},
    {"target", "NAME", "opt explain run compare", "cpu, sm_80, sm_89, sm_90a, sm_100a", OPTION_TEXT, AT(target)},
    {"query-scale", "HOW", "opt explain run compare", "scale of insert-query-quant: graph, unit, dynamic", OPTION_TEXT,
     AT(query_scale)},
    {"rules", "FILE", "opt explain run compare", "further rules", OPTION_TEXT, AT(rules)},
    {"rewrite-limit", "N", "opt explain run compare", "leave out every rewrite after the N-th (bisecting)",
     OPTION_LIMIT, AT(rewrite_limit)},
    {"emit", "FORM", "opt",
     "text, onnx, dot, plan (readable), plan-binary, c (with --target=sm_... and --dims), none; default text",
     OPTION_TEXT, AT(emit)},
    {"o", "FILE", "opt", "write there in place of standard output", OPTION_TEXT, AT(output)},
    {"print-before", "PASS", "opt", "print the graph before this pass, or all", OPTION_PASS, AT(print_before)},
    {"print-after", "PASS", "opt", "print the graph after this pass, or all", OPTION_PASS, AT(print_after)},
    {"print-changed", NULL, "opt", "print the graph after each pass that changed it", OPTION_FLAG, AT(print_changed)},
    {"timing", NULL, "opt run", "milliseconds of every pass or step", OPTION_FLAG, AT(timing)},
    {"statistics", NULL, "opt", "counts of nodes, every rewrite with its number, every rule that matched", OPTION_FLAG,
     AT(statistics)},
    {"no-verify-each", NULL, "opt", "verify only at the end", OPTION_FLAG, AT(no_verify)},
    {"verify-rewrites", NULL, "opt", "run the graph before and after on random inputs and compare", OPTION_FLAG,
     AT(verify_rewrites)},
    {"remarks", NULL, "opt", "print what explain prints, on standard error", OPTION_FLAG, AT(remarks)},
    {"pt2-customs", "FILE", "opt explain run case compare", "lines for custom operators (docs/pt2.md)", OPTION_TEXT,
     AT(pt2_customs)},
    {"pt2-kv-cache", "TYPE", "opt explain run case compare",
     "caches of layers that are only names become inputs: auto, bfloat16, fp8, ...", OPTION_TEXT, AT(pt2_kv_cache)},
    {"pt2-page-size", "N", "opt explain run case compare", "rows of a page of them; default: a symbol", OPTION_NUMBER,
     AT(pt2_page_size)},
    {"onnx-revision", "WHICH", "opt explain run case compare", "reading of Attention-23/24: newest, first",
     OPTION_REVISION, AT(revision)},
    {"onnx-stepwise", NULL, "opt explain run case compare",
     "16-bit Softmax and Sigmoid round after every step, as onnx.reference does", OPTION_FLAG, AT(onnx_stepwise)},
    {"json", NULL, "explain", "one JSON object", OPTION_FLAG, AT(json)},
    {"input", "FILE", "run", "the next input, .npy or .pb (ONNX tensor); without: random numbers", OPTION_INPUTS, 0},
    {"dims", "LIST", "run opt compare bench",
     "sizes of symbols, for random inputs and --emit=c: \"T=16,B=2\"; others: what the graph assumed, or 4",
     OPTION_DIMS, AT(dims)},
    {"seed", "N", "run opt compare rules bench", "of random inputs", OPTION_NUMBER, AT(seed)},
    {"expect", "FOLDER", "run compare", "inputs from input_<i>.pb or .npy in it; run also compares with output_<i>",
     OPTION_TEXT, AT(expect)},
    {"compare", "FILE", "run", "run this graph on the same inputs and compare outputs", OPTION_TEXT, AT(compare)},
    {"tolerance", "X", "run case", "largest relative RMS difference; default 1e-5", OPTION_TOLERANCE, AT(tolerance)},
    {"unlike-reference", NULL, "case",
     "the reference is known to be another graph's: an output must be unlike it, and a device like the CPU",
     OPTION_FLAG, AT(unlike_reference)},
    {"output-directory", "FOLDER", "run", "write outputs there as .npy", OPTION_TEXT, AT(output_directory)},
    {"device", "NAME", "run case bench", "cpu or cuda; without --target the graph is compiled for that device",
     OPTION_TEXT, AT(device)},
    {"threads", "N", "run case compare bench", "threads for a kernel, 1 to 1024; default 2", OPTION_THREADS,
     AT(threads)},
    {"batch", "N", "bench", "sequences of the attention to time; without sizes and files: a table of shapes",
     OPTION_SIZE, AT(batch)},
    {"heads", "N", "bench", "query heads; default 32", OPTION_SIZE, AT(heads)},
    {"kv-heads", "N", "bench", "KV heads; default a quarter of the query heads", OPTION_SIZE, AT(kv_heads)},
    {"head-dim", "N", "bench", "default 128", OPTION_SIZE, AT(head_dim)},
    {"queries", "N", "bench", "query rows of a sequence; default 1", OPTION_SIZE, AT(queries)},
    {"keys", "N", "bench", "keys of a sequence; default 4096, or as many as rows", OPTION_SIZE, AT(keys)},
    {"page", "N", "bench", "tokens of a page of the cache; default: not paged", OPTION_SIZE, AT(page)},
    {"type", "NAME", "bench", "element type of q, k, v; default f8E4M3FN", OPTION_TEXT, AT(type)},
    {"out-type", "NAME", "bench", "element type of the result; default that of q", OPTION_TEXT, AT(out_type)},
    {"causal", NULL, "bench", "rows see keys up to their own position", OPTION_FLAG, AT(causal)},
    {"milliseconds", "N", "bench", "time spent on each line; default 100", OPTION_NUMBER, AT(milliseconds)},
    {"quiet", NULL, "opt explain run case rules ops compare bench", "no remarks, notes or progress", OPTION_FLAG,
     AT(quiet)},
    {"help", NULL, "opt explain run case rules ops compare bench", "this text", OPTION_FLAG, AT(help)},
#undef AT
};

static bool takes(const struct option *option, const char *command) {
    size_t size = strlen(command);
    for (const char *at = strstr(option->commands, command); at; at = strstr(at + 1, command)) {
        bool begins = at == option->commands || at[-1] == ' ', ends = at[size] == ' ' || at[size] == '\0';
        if (begins && ends) return true;
    }
    return false;
}

void tool_print_options(FILE *out, const char *command) {
    for (size_t i = 0; i < QF_COUNT_OF(options); i++) {
        if (!takes(&options[i], command)) continue;
        char left[64];
        (void)snprintf(left, sizeof left, "%s%s%s%s", options[i].name[1] ? "--" : "-", options[i].name,
                       options[i].value ? (options[i].name[1] ? "=" : " ") : "",
                       options[i].value ? options[i].value : "");
        (void)fprintf(out, "  %-26s %s\n", left, options[i].help);
    }
}

/* "error: <before>'<argument>'<after>; see ..." */
static bool fault(const char *before, const char *argument, const char *after, const char *command) {
    (void)fprintf(stderr, "error: %s'%s'%s; see `qfuse %s --help`\n", before, argument, after, command);
    return false;
}

static bool read_number(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

/* "T=16,B=2": names, each once, and whole numbers that a dim can hold. */
static bool well_formed_dims(const char *list) {
    for (const char *at = list;;) {
        size_t name = strcspn(at, "=,"), value = strspn(at + name + (at[name] == '='), "0123456789");
        if (!name || at[name] != '=' || !value || value > 18) return false;
        for (const char *other = list; other < at; other += strcspn(other, ",") + 1)
            if (strncmp(other, at, name + 1) == 0) return false;
        at += name + 1 + value;
        if (!*at) return true;
        if (*at++ != ',') return false;
    }
}

static bool is_pass(const char *name) {
    size_t size = strlen(name);
    for (const char *line = qf_pass_list(); *line; line += strcspn(line, "\n") + 1)
        if (size && strncmp(line, name, size) == 0 && line[size] == ':') return true;
    return strcmp(name, "all") == 0;
}

static bool set_option(tool_options *into, const struct option *option, const char *value, const char *command) {
    char *field = (char *)into + option->offset, *end;
    switch (option->kind) {
    case OPTION_FLAG: *(bool *)(void *)field = true; return true;
    case OPTION_TEXT: *(const char **)(void *)field = value; return true;
    case OPTION_NUMBER:
        return read_number(value, (uint64_t *)(void *)field) ||
               fault("expected a whole number, found ", value, "", command);
    case OPTION_SIZE: {
        uint64_t *size = (uint64_t *)(void *)field;
        return (read_number(value, size) && *size >= 1 && *size <= INT32_MAX) ||
               fault("expected a size from 1 to 2147483647, found ", value, "", command);
    }
    case OPTION_LIMIT:
        into->rewrite_limited = true;
        return read_number(value, (uint64_t *)(void *)field) ||
               fault("expected a whole number, found ", value, "", command);
    case OPTION_THREADS: {
        uint64_t *threads = (uint64_t *)(void *)field;
        return (read_number(value, threads) && *threads >= 1 && *threads <= 1024) ||
               fault("expected a number of threads from 1 to 1024, found ", value, "", command);
    }
    case OPTION_TOLERANCE: {
        double tolerance = strtod(value, &end);
        *(double *)(void *)field = tolerance;
        return (*value && !*end && tolerance >= 0 && tolerance <= DBL_MAX) ||
               fault("expected a tolerance of 0 or more, found ", value, "", command);
    }
    case OPTION_DIMS:
        *(const char **)(void *)field = value;
        return well_formed_dims(value) || fault("expected sizes such as T=16,B=2, found ", value, "", command);
    case OPTION_REVISION:
        *(const char **)(void *)field = value;
        return strcmp(value, "newest") == 0 || strcmp(value, "first") == 0 ||
               fault("--onnx-revision: expected newest or first, found ", value, "", command);
    case OPTION_PASS:
        *(const char **)(void *)field = value;
        return is_pass(value) || fault("expected the name of a pass or all, found ", value, "", command);
    case OPTION_INPUTS:
        if (into->input_count == QF_COUNT_OF(into->inputs)) return fault("more than 64 inputs at ", value, "", command);
        into->inputs[into->input_count++] = value;
        return true;
    }
    return false;
}

static const struct option *find(const char *name, size_t size, const char *command) {
    for (size_t i = 0; i < QF_COUNT_OF(options); i++)
        if (strlen(options[i].name) == size && memcmp(options[i].name, name, size) == 0 && takes(&options[i], command))
            return &options[i];
    return NULL;
}

static bool read_option(qf_tool *tool, const tool_command *command, int count, char **arguments, int *at) {
    const char *name = arguments[*at] + (arguments[*at][1] == '-' ? 2 : 1);
    const char *equals = strchr(name, '=');
    const struct option *option = find(name, equals ? (size_t)(equals - name) : strlen(name), command->name);
    if (!option) return fault("unknown option ", arguments[*at], "", command->name);
    const char *value = equals ? equals + 1 : NULL;
    if (option->kind == OPTION_FLAG && value) return fault("", arguments[*at], " takes no value", command->name);
    if (option->kind != OPTION_FLAG && !value) {
        if (*at + 1 >= count) return fault("", arguments[*at], " needs a value", command->name);
        value = arguments[++*at];
    }
    return set_option(&tool->options, option, value, command->name);
}

bool tool_read_options(qf_tool *tool, const tool_command *command, int count, char **arguments) {
    for (int i = 0; i < count; i++) {
        if (arguments[i][0] == '-' && arguments[i][1]) {
            if (!read_option(tool, command, count, arguments, &i)) return false;
            continue;
        }
        if (tool->options.file_count == QF_COUNT_OF(tool->options.files))
            return fault("too many arguments at ", arguments[i], "", command->name);
        tool->options.files[tool->options.file_count++] = arguments[i];
    }
    return true;
}

qf_status tool_check_options(qf_tool *tool) {
    const tool_options *given = &tool->options;
    qf_pass_options pass = {0};
    qf_pipeline pipeline = {.context = tool->context};
    qf_status status = qf_target_parse(tool->context, qf_text_of(given->target ? given->target : "cpu"), &pass.target);
    if (status == QF_OK && given->numerics)
        status = qf_numerics_parse(tool->context, qf_text_of(given->numerics), &pass.numerics);
    if (status == QF_OK && given->query_scale)
        status = qf_query_scale_parse(tool->context, qf_text_of(given->query_scale), &pass.query_scale);
    if (status == QF_OK && given->passes) status = qf_pipeline_parse(tool->context, given->passes, &pass, &pipeline);
    qf_pipeline_destroy(&pipeline);
    return status;
}
