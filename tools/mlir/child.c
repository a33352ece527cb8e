/* Owns: running the work in a child process: MLIR's parsers abort, or overflow the stack, on some damaged input.
 * Does not own: the work (work.c).
 * Next: work.c. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/child_process.h"
#include "tools/mlir/program.h"

#define MEMORY_BYTES ((rlim_t)16 << 30)
#define CANNOT_KEEP  3 /* exit code of the child: what it printed is incomplete */

static void limit(int resource, rlim_t most) {
    struct rlimit bounds;
    if (getrlimit(resource, &bounds) != 0) return;
    if (bounds.rlim_cur == RLIM_INFINITY || bounds.rlim_cur > most) bounds.rlim_cur = most;
    (void)setrlimit(resource, &bounds);
}

void program_limit_seconds(unsigned seconds) {
    struct itimerval timer = {.it_value = {.tv_sec = (time_t)seconds}};
    (void)setitimer(ITIMER_PROF, &timer, NULL);
}

/* What LLVM prints when it dies is not for users. */
static void silence(void) {
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) (void)dup2(nowhere, STDERR_FILENO);
}

/* Signals as they are by default, whatever the caller ignores or holds back: one ends what takes too long. */
static void take_signals(void) {
    sigset_t none;
    (void)signal(SIGPROF, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int run_child(const program_options *options, FILE *out, FILE *messages) {
    take_signals();
    limit(RLIMIT_CORE, 0);
#if !defined(__SANITIZE_ADDRESS__)
    limit(RLIMIT_AS, MEMORY_BYTES);
#endif
    silence();
    int code = program_work(options, out, messages);
    bool written = fflush(out) == 0 && !ferror(out) && fflush(messages) == 0 && !ferror(messages);
    return written ? code : CANNOT_KEEP;
}

static bool copy(FILE *from, FILE *to) {
    char buffer[1 << 16];
    size_t size;
    rewind(from);
    while ((size = fread(buffer, 1, sizeof buffer, from)) > 0)
        if (fwrite(buffer, 1, size, to) != size) return false;
    return !ferror(from) && fflush(to) == 0;
}

static int failed(const program_options *options, const char *what) {
    (void)fprintf(stderr, "error: %s: %s: %s\n", options->path, what, strerror(errno));
    return 1;
}

static int died(const program_options *options, int number) {
    bool long_time = number == SIGPROF || number == SIGXCPU;
    const char *why = long_time ? "took too long" : "crashed, or ran out of memory";
    (void)fprintf(stderr, "error: %s: MLIR %s while it read the file (%s); the file is damaged, or nested too deeply\n",
                  options->path, why, strsignal(number));
    return 1;
}

static int finish(const program_options *options, pid_t child, FILE *out, FILE *messages) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return failed(options, "its work cannot be waited for");
    if (WIFSIGNALED(status)) return died(options, WTERMSIG(status));
    int code = WEXITSTATUS(status);
    if (code == CANNOT_KEEP) {
        errno = ENOSPC;
        return failed(options, "the result cannot be kept in a temporary file");
    }
    bool silent = fseek(messages, 0, SEEK_END) != 0 || ftell(messages) == 0;
    if (code && silent) return died(options, SIGABRT); /* a sanitizer, or the C++ run time */
    if (!copy(messages, stderr)) return 1;
    if (code) return 1;
    return copy(out, stdout) ? 0 : failed(options, "the result cannot be written");
}

int program_in_child(const program_options *options) {
    FILE *out = tmpfile(), *messages = tmpfile();
    pid_t child = out && messages ? tool_fork() : -1;
    if (child == 0) _exit(run_child(options, out, messages));
    int code = 1;
    if (child < 0)
        (void)failed(options, "cannot start");
    else
        code = finish(options, child, out, messages);
    if (out) (void)fclose(out);
    if (messages) (void)fclose(messages);
    return code;
}
