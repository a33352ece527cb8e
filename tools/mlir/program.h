/* Owns: what the parts of the program qfuse-mlir share.
 * Does not own: the parts.
 * Next: main.c. */
#ifndef QF_TOOLS_MLIR_PROGRAM_H
#define QF_TOOLS_MLIR_PROGRAM_H

#include <stdbool.h>
#include <stdio.h>

#include <mlir-c/IR.h>

typedef struct program_options {
    const char *path, *function, *passes, *numerics, *target;
    unsigned long long max_nodes; /* 0: the default */
    bool fuse, remarks, locations, bytecode;
} program_options;

/* A context that allows unregistered dialects, with those that come with LLVM. */
MlirContext program_context(void);

/* child.c: does the work in another process, so that whatever becomes of it ends as one message. Gives the exit code:
 * 0, or 1 after a message on standard error. */
int program_in_child(const program_options *options);

/* child.c: ends this process (SIGPROF) once it has used a processor for so many seconds more. */
void program_limit_seconds(unsigned seconds);

/* work.c: the work itself. Messages as "error: place: text" lines. */
int program_work(const program_options *options, FILE *out, FILE *messages);

#endif
