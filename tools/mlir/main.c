/* Owns: the program qfuse-mlir: a file of MLIR as QFuse text, or rewritten as MLIR.
 * Does not own: reading modules in memory (frontends/mlir), the child process (child.c).
 * Next: child.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mlir-c/Dialect/Arith.h>
#include <mlir-c/Dialect/Func.h>
#include <mlir-c/Dialect/Linalg.h>
#include <mlir-c/Dialect/Math.h>
#include <mlir-c/Dialect/Tensor.h>

#include "tools/mlir/program.h"
#include "tools/standard_streams.h"

static const char usage[] =
    "usage: qfuse-mlir [options] FILE\n"
    "Reads MLIR (generic text or bytecode; the pretty form only of builtin, func, arith, math, tensor and linalg) and "
    "prints\n"
    "a function of it as QFuse text, which `qfuse` reads. FILE \"-\" is standard input.\n"
    "  --function=NAME    the function to read; without it main, else the first public one\n"
    "  --max-nodes=N      refuse functions of more operations, those of calls counted each time (default 4 million)\n"
    "  --fuse             run passes and print the rewritten module as generic MLIR instead\n"
    "  --passes=TEXT      with --fuse: as for `qfuse opt`\n"
    "  --numerics=CLASS   with --fuse: exact, rounding, quantising, relaxed\n"
    "  --target=NAME      with --fuse\n"
    "  --remarks          with --fuse: say for each attention by which rule it was fused, or why not\n"
    "  --locations        with --fuse: print locations\n"
    "  --bytecode         print MLIR bytecode: with --fuse the rewritten module, else the module as it was read\n";

static bool take(const char *argument, const char *name, const char **out) {
    size_t size = strlen(name);
    if (strncmp(argument, name, size) != 0 || argument[size] != '=') return false;
    *out = argument + size + 1;
    return true;
}

static bool read_number(const char *text, unsigned long long *out) {
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && *out > 0;
}

static bool complain(const char *before, const char *argument) {
    (void)fprintf(stderr, "error: %s'%s'; see qfuse-mlir --help\n", before, argument);
    return false;
}

/* What is asked of the rewriting means nothing without it. */
static bool check_options(const program_options *options) {
    if (!options->path) {
        (void)fprintf(stderr, "error: expected a file; see qfuse-mlir --help\n");
        return false;
    }
    if (options->fuse) return true;
    if (options->passes) return complain("--passes needs --fuse; found --passes=", options->passes);
    if (options->numerics) return complain("--numerics needs --fuse; found --numerics=", options->numerics);
    if (options->target) return complain("--target needs --fuse; found --target=", options->target);
    return true;
}

static bool read_options(program_options *options, int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i], *number = NULL;
        if (take(argument, "--function", &options->function) || take(argument, "--passes", &options->passes) ||
            take(argument, "--numerics", &options->numerics) || take(argument, "--target", &options->target))
            continue;
        if (take(argument, "--max-nodes", &number)) {
            if (!read_number(number, &options->max_nodes))
                return complain("--max-nodes: expected a whole number above 0, found ", number);
            continue;
        }
        if (strcmp(argument, "--fuse") == 0)
            options->fuse = true;
        else if (strcmp(argument, "--remarks") == 0)
            options->remarks = true;
        else if (strcmp(argument, "--locations") == 0)
            options->locations = true;
        else if (strcmp(argument, "--bytecode") == 0)
            options->bytecode = true;
        else if ((argument[0] != '-' || !argument[1]) && !options->path)
            options->path = argument;
        else
            return complain("unexpected argument ", argument);
    }
    return check_options(options);
}

MlirContext program_context(void) {
    MlirContext context = mlirContextCreateWithThreading(false);
    MlirDialectHandle handles[] = {mlirGetDialectHandle__func__(), mlirGetDialectHandle__arith__(),
                                   mlirGetDialectHandle__math__(), mlirGetDialectHandle__tensor__(),
                                   mlirGetDialectHandle__linalg__()};
    mlirContextSetAllowUnregisteredDialects(context, true);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        (void)mlirDialectHandleLoadDialect(handles[i], context);
    return context;
}

int main(int count, char **arguments) {
    program_options options = {0};
    tool_reserve_standard_streams();
    if (count == 2 && strcmp(arguments[1], "--help") == 0) return fputs(usage, stdout) < 0;
    if (!read_options(&options, count, arguments)) return 2;
    return program_in_child(&options);
}
