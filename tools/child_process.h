/* Owns: a child process that ends with its parent.
 * Does not own: what it does (mlir_file.c, mlir/child.c).
 * Next: mlir_file.c, mlir/child.c. */
#ifndef QF_TOOLS_CHILD_PROCESS_H
#define QF_TOOLS_CHILD_PROCESS_H

#include <signal.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <unistd.h>

/* As fork. Whoever kills the parent means the child as well; it can be waited for, whatever the caller ignores. */
static inline pid_t tool_fork(void) {
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, there were no child to wait for */
    pid_t parent = getpid(), child = fork();
    if (child != 0) return child;
#if defined(__linux__)
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(1); /* it ended before */
    return 0;
}

#endif
