/* Owns: reading files of MLIR through the program qfuse-mlir, which holds MLIR so that qfuse need not.
 * Does not own: that program (tools/mlir).
 * Next: tools/mlir/main.c. */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/text.h"
#include "tools/tool.h"

extern char **environ;

bool tool_is_mlir(const char *path) {
    return tool_has_extension(path, "mlir") || tool_has_extension(path, "mlirbc");
}

/* QFUSE_MLIR, else beside this program, else in the search path. */
static const char *program_path(char *out, size_t size) {
    const char *given = getenv("QFUSE_MLIR");
    if (given && *given) return given;
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    if (length <= 0) return "qfuse-mlir";
    out[length] = '\0';
    char *slash = strrchr(out, '/');
    size_t used = slash ? (size_t)(slash - out) + 1 : 0;
    if (!slash || used + sizeof "qfuse-mlir" > size) return "qfuse-mlir";
    memcpy(out + used, "qfuse-mlir", sizeof "qfuse-mlir");
    return access(out, X_OK) == 0 ? out : "qfuse-mlir";
}

static int spawn(const char *path, FILE *out, FILE *messages, pid_t *child) {
    char own[4096], name[] = "qfuse-mlir", dashes[] = "./", *file = NULL;
    size_t size = strlen(path) + sizeof dashes;
    posix_spawn_file_actions_t actions;
    if (!(file = malloc(size))) return ENOMEM;
    (void)snprintf(file, size, "%s%s", path[0] == '-' ? dashes : "", path); /* no option */
    char *arguments[] = {name, file, NULL};
    int fault = posix_spawn_file_actions_init(&actions);
    if (!fault) {
        fault = posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
        if (!fault) fault = posix_spawn_file_actions_adddup2(&actions, fileno(messages), STDERR_FILENO);
        if (!fault) fault = posix_spawnp(child, program_path(own, sizeof own), &actions, NULL, arguments, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    free(file);
    return fault;
}

/* Lines "severity: place: text". */
static void pass_on(qf_tool *tool, char *text) {
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        bool error = strncmp(line, "error: ", 7) == 0, warning = strncmp(line, "warning: ", 9) == 0;
        char *place = line + (error ? 7 : warning ? 9 : 0), *end = strstr(place, ": ");
        if (!error && !warning) continue;
        if (end) *end = '\0';
        qf_position position = {.location = end ? place : NULL};
        const char *message = end ? end + 2 : place;
        if (error)
            (void)qf_fail(tool->context, QF_ERROR_PARSE, &position, "%s", message);
        else
            qf_message(tool->context, QF_SEVERITY_WARNING, &position, "%s", message);
    }
}

static qf_graph *finish(qf_tool *tool, const char *path, pid_t child, FILE *out, FILE *messages) {
    int status = 0;
    size_t size;
    qf_position position = {.location = path};
    qf_graph *graph = NULL;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) break;
    rewind(out);
    rewind(messages);
    char *said = tool_read_stream(tool, messages, path, (size_t)1 << 24, &size);
    if (said) pass_on(tool, said);
    free(said);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        char *text = tool_read_stream(tool, out, path, QF_TEXT_MAX_BYTES, &size);
        if (text) graph = qf_graph_parse(tool->context, (qf_text){text, size}, path);
        free(text);
    } else if (qf_context_status(tool->context) == QF_OK) {
        (void)qf_fail(tool->context, QF_ERROR_IO, &position,
                      WIFEXITED(status) && WEXITSTATUS(status) == 127
                          ? "cannot run the program qfuse-mlir, which reads MLIR: it lies beside qfuse, in the search "
                            "path, or where QFUSE_MLIR says"
                          : "qfuse-mlir ended without a message");
    }
    return graph;
}

qf_graph *tool_load_mlir(qf_tool *tool, const char *path) {
    qf_position position = {.location = path};
    FILE *out = tmpfile(), *messages = tmpfile();
    qf_graph *graph = NULL;
    pid_t child = 0;
    int fault = out && messages ? spawn(path, out, messages, &child) : errno;
    if (fault == ENOENT)
        (void)qf_fail(
            tool->context, QF_ERROR_NOT_FOUND, &position,
            "reading MLIR needs the program qfuse-mlir: beside qfuse, in the search path, or where QFUSE_MLIR "
            "says; it is built where libmlir-22-dev or libmlir-19-dev is installed");
    else if (fault)
        (void)qf_fail(tool->context, QF_ERROR_IO, &position, "cannot run qfuse-mlir: %s", strerror(fault));
    else
        graph = finish(tool, path, child, out, messages);
    if (out) (void)fclose(out);
    if (messages) (void)fclose(messages);
    return graph;
}
