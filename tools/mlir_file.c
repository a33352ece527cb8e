/* Owns: reading files of MLIR through the program qfuse-mlir, which holds MLIR so that qfuse need not.
 * Does not own: that program (tools/mlir).
 * Next: tools/mlir/main.c. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/text.h"
#include "tools/child_process.h"
#include "tools/tool.h"

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

/* In the child. `report` says why the program could not be run. */
static void become(char *file, FILE *out, FILE *messages, int report) {
    char own[4096], name[] = "qfuse-mlir";
    char *arguments[] = {name, file, NULL};
    if (dup2(fileno(out), STDOUT_FILENO) >= 0 && dup2(fileno(messages), STDERR_FILENO) >= 0)
        (void)execvp(program_path(own, sizeof own), arguments);
    int fault = errno;
    if (write(report, &fault, sizeof fault) != (ssize_t)sizeof fault) _exit(1);
    _exit(127);
}

/* 0, or why the program does not run. */
static int spawn(char *file, FILE *out, FILE *messages, pid_t *child) {
    int report[2], fault = 0;
    if (pipe(report) != 0) return errno;
    (void)fcntl(report[1], F_SETFD, FD_CLOEXEC); /* running the program closes it */
    *child = tool_fork();
    if (*child < 0) fault = errno;
    if (*child == 0) become(file, out, messages, report[1]);
    (void)close(report[1]);
    ssize_t got = 0;
    while (*child > 0 && (got = read(report[0], &fault, sizeof fault)) < 0 && errno == EINTR) {
    }
    (void)close(report[0]);
    if (got > 0) (void)waitpid(*child, NULL, 0);
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
    while (waitpid(child, &status, 0) < 0) {
        if (errno == EINTR) continue;
        (void)qf_fail(tool->context, QF_ERROR_IO, &position, "qfuse-mlir cannot be waited for: %s", strerror(errno));
        return NULL;
    }
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
        (void)qf_fail(tool->context, QF_ERROR_IO, &position, "qfuse-mlir ended without a message (%s)",
                      WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "no signal");
    }
    return graph;
}

qf_graph *tool_load_mlir(qf_tool *tool, const char *path) {
    qf_position position = {.location = path};
    FILE *out = tmpfile(), *messages = tmpfile();
    char file[PATH_MAX + 3];
    qf_graph *graph = NULL;
    pid_t child = 0;
    int fault = out && messages ? 0 : errno;
    int length = snprintf(file, sizeof file, "%s%s", path[0] == '-' ? "./" : "", path); /* no option */
    if (!fault) fault = length < (int)sizeof file ? spawn(file, out, messages, &child) : ENAMETOOLONG;
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
