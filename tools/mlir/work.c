/* Owns: reading a file of MLIR, importing or rewriting it, printing the result.
 * Does not own: surviving it (child.c).
 * Next: frontends/mlir/import.c, rewrite.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <mlir-c/Diagnostics.h>
#include <qfuse/mlir.h>

#include "tools/mlir/program.h"

#define MAX_FILE              ((size_t)4 << 30)
/* Constants are handed on as text. */
#define MAX_CONSTANT          ((uint64_t)64 << 20)
/* Of a processor: to read a file and to work on it. MLIR 22 reads for ever where attributes of bytecode hold
 * themselves; otherwise megabytes a second. */
#define SECONDS_TO_READ(size) (10 + (unsigned)((size) >> 18))
#define SECONDS_TO_WORK       600

typedef struct work {
    const program_options *options;
    FILE *messages;
    const char *data;
    size_t size;
    bool failed;  /* one error is enough */
    bool several; /* operations without a module around them */
} work;

/* --- the file --- */
/* With a NUL behind it, which MLIR's lexer reads. */
static char *read_all(FILE *file, size_t *out_size) {
    size_t size = 0, capacity = (size_t)1 << 20;
    char *data = malloc(capacity);
    while (data) {
        size_t got = fread(data + size, 1, capacity - size, file);
        size += got;
        if (got == 0) break;
        if (size < capacity) continue;
        char *grown = size < MAX_FILE ? realloc(data, capacity *= 2) : NULL;
        if (!grown) free(data);
        data = grown;
    }
    if (data) data[size] = '\0'; /* the last round left room */
    *out_size = size;
    return data;
}

static char *read_file(work *state) {
    const char *path = state->options->path;
    bool standard = strcmp(path, "-") == 0;
    struct stat status;
    const char *fault = NULL;
    FILE *file = standard ? stdin : NULL;
    if (!standard && stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        fault = "not a regular file";
    else if (!standard)
        file = fopen(path, "rb");
    char *data = file ? read_all(file, &state->size) : NULL;
    if (!fault && !data) fault = file ? "too large, or out of memory" : strerror(errno);
    if (!fault && file && ferror(file)) fault = "cannot be read";
    if (file && !standard) (void)fclose(file);
    if (!fault) return data;
    (void)fprintf(state->messages, "error: %s: %s\n", path, fault);
    free(data);
    return NULL;
}

/* --- messages --- */
typedef struct text {
    char data[2048];
    size_t size;
} text;

static void append(MlirStringRef part, void *user) {
    text *to = user;
    size_t room = sizeof to->data - 1 - to->size, size = part.length < room ? part.length : room;
    memcpy(to->data + to->size, part.data, size);
    to->size += size;
    to->data[to->size] = '\0';
}

/* loc("file":3:4) as file:3:4. */
static void print_place(work *state, MlirLocation location) {
    text printed = {{0}, 0};
    mlirLocationPrint(location, append, &printed);
    const char *open = strchr(printed.data, '"'), *close = open ? strchr(open + 1, '"') : NULL;
    if (close && strncmp(open, "\"-\"", 3) == 0)
        (void)fprintf(state->messages, "%s%.*s: ", state->options->path, (int)strspn(close + 1, ":0123456789"),
                      close + 1);
    else if (close)
        (void)fprintf(state->messages, "%.*s%.*s: ", (int)(close - open - 1), open + 1,
                      (int)strspn(close + 1, ":0123456789"), close + 1);
    else
        (void)fprintf(state->messages, "%s: ", state->options->path);
}

static bool contains(const work *state, const char *needle) {
    size_t size = strlen(needle);
    for (size_t i = 0; i + size <= state->size && i < 4096; i++)
        if (memcmp(state->data + i, needle, size) == 0) return true;
    return false;
}

static const char *hint(const work *state, const char *message) {
    if (contains(state, "StableHLO_v") || contains(state, "vhlo"))
        return "; this is a portable artifact of StableHLO (VHLO): make generic text of it with "
               "`stablehlo-translate --deserialize FILE | stablehlo-opt --mlir-print-op-generic`";
    if (strstr(message, "not found for custom op") || strstr(message, "custom op '"))
        return "; only the generic form of this dialect can be read: print it with `--mlir-print-op-generic`, or in "
               "Python "
               "with `module.operation.get_asm(print_generic_op_form=True)`";
    return "";
}

static MlirLogicalResult on_diagnostic(MlirDiagnostic diagnostic, void *user) {
    work *state = user;
    static const char *const names[] = {"error", "warning", "note", "remark"};
    text message = {{0}, 0};
    MlirDiagnosticSeverity severity = mlirDiagnosticGetSeverity(diagnostic);
    bool error = severity == MlirDiagnosticError;
    if ((error && state->failed) || severity == MlirDiagnosticNote) return mlirLogicalResultSuccess();
    mlirDiagnosticPrint(diagnostic, append, &message);
    if (strstr(message.data, "must contain a single top-level operation")) {
        state->several = true;
        return mlirLogicalResultSuccess();
    }
    state->failed |= error;
    for (size_t i = 0; i < message.size; i++)
        if (message.data[i] == '\n') message.data[i] = ' ';
    (void)fprintf(state->messages, "%s: ", names[severity]);
    print_place(state, mlirDiagnosticGetLocation(diagnostic));
    (void)fprintf(state->messages, "%s%s\n", message.data, error ? hint(state, message.data) : "");
    return mlirLogicalResultSuccess();
}

static void on_message(void *user, const qf_diagnostic *diagnostic) {
    work *state = user;
    static const char *const names[] = {"error", "warning", "remark", "note"};
    bool error = diagnostic->severity == QF_SEVERITY_ERROR;
    if (error && state->failed) return;
    state->failed |= error;
    (void)fprintf(state->messages, "%s: %s%s%s\n", names[diagnostic->severity], diagnostic->location,
                  *diagnostic->location ? ": " : "", diagnostic->message);
}

/* --- the two results --- */
static bool import(work *state, MlirModule module, FILE *out) {
    qf_context_options context_options = {
        .struct_size = sizeof context_options, .handler = on_message, .handler_user = state};
    qf_mlir_import_options options = {.struct_size = sizeof options,
                                      .function = state->options->function,
                                      .name = state->options->path,
                                      .max_nodes = state->options->max_nodes,
                                      .max_constant_bytes = MAX_CONSTANT};
    qf_context *context = NULL;
    qf_graph *graph = NULL;
    char *printed = NULL;
    size_t size = 0;
    bool good = qf_context_create(&context_options, &context) == QF_OK &&
                qf_mlir_import(context, module, &options, &graph) == QF_OK &&
                qf_graph_to_text(graph, &printed, &size) == QF_OK && fwrite(printed, 1, size, out) == size;
    if (context) qf_text_destroy(context, printed);
    qf_graph_destroy(graph);
    qf_context_destroy(context);
    if (!good && !state->failed) (void)fprintf(state->messages, "error: %s: out of memory\n", state->options->path);
    return good;
}

static void write_part(MlirStringRef part, void *user) {
    (void)fwrite(part.data, 1, part.length, user);
}

static bool fuse(work *state, MlirModule module) {
    qf_mlir_rewrite_options options = {.struct_size = sizeof options,
                                       .passes = state->options->passes,
                                       .numerics = state->options->numerics,
                                       .target = state->options->target,
                                       .remarks = state->options->remarks,
                                       .handler = on_message,
                                       .handler_user = state};
    qf_status status = qf_mlir_rewrite(module, &options, NULL);
    if (status != QF_OK) {
        if (!state->failed)
            (void)fprintf(state->messages, "error: %s: %s\n", state->options->path, qf_status_name(status));
        return false;
    }
    return true;
}

/* The module in generic form, or as bytecode. */
static bool print(const work *state, MlirOperation module, FILE *out) {
    if (state->options->bytecode) {
        mlirOperationWriteBytecode(module, write_part, out);
        return !ferror(out);
    }
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
    if (state->options->locations) mlirOpPrintingFlagsEnableDebugInfo(flags, true, false);
    mlirOperationPrintWithFlags(module, flags, write_part, out);
    mlirOpPrintingFlagsDestroy(flags);
    return fputc('\n', out) == '\n' && !ferror(out);
}

static bool work_on(work *state, MlirModule module, FILE *out) {
    if (!state->options->fuse && !state->options->bytecode) return import(state, module, out);
    if (state->options->fuse && !fuse(state, module)) return false;
    return print(state, mlirModuleGetOperation(module), out);
}

int program_work(const program_options *options, FILE *out, FILE *messages) {
    work state = {.options = options, .messages = messages};
    char *data = read_file(&state);
    if (!data) return 1;
    state.data = data;
    program_limit_seconds(SECONDS_TO_READ(state.size));
    MlirContext context = program_context();
    MlirDiagnosticHandlerID handler = mlirContextAttachDiagnosticHandler(context, on_diagnostic, &state, NULL);
    MlirStringRef source = {data, state.size}, name = {options->path, strlen(options->path)};
    MlirOperation operation = mlirOperationCreateParse(context, source, name);
    MlirModule module = mlirOperationIsNull(operation) ? (MlirModule){NULL} : mlirModuleFromOperation(operation);
    if (!mlirOperationIsNull(operation) && mlirModuleIsNull(module)) {
        mlirOperationDestroy(operation);
        state.several = true;
    }
    if (state.several) { /* without a module around them: MLIR puts them into one */
        module = mlirModuleCreateParse(context, source);
        operation = mlirModuleGetOperation(module);
    }
    program_limit_seconds(SECONDS_TO_WORK);
    bool good = false;
    if (!mlirModuleIsNull(module))
        good = work_on(&state, module, out);
    else if (!state.failed)
        (void)fprintf(messages, "error: %s: expected a module (builtin.module)\n", options->path);
    if (!mlirOperationIsNull(operation)) mlirOperationDestroy(operation);
    mlirContextDetachDiagnosticHandler(context, handler);
    mlirContextDestroy(context);
    free(data);
    return good ? 0 : 1;
}
