/* Owns: the program qfuse-mlir: a file of MLIR as QFuse text, or rewritten as MLIR.
 * Does not own: reading modules in memory (frontends/mlir), the child process (child.c).
 * Next: child.c. */
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

static bool take_number(const char *argument, const char *name, unsigned long long *out) {
    const char *text;
    char *end = NULL;
    if (!take(argument, name, &text)) return false;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

static bool read_options(program_options *options, int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        if (take(argument, "--function", &options->function) || take(argument, "--passes", &options->passes) ||
            take(argument, "--numerics", &options->numerics) || take(argument, "--target", &options->target) ||
            take_number(argument, "--max-nodes", &options->max_nodes))
            continue;
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
        else {
            (void)fprintf(stderr, "error: unexpected argument '%s'; see qfuse-mlir --help\n", argument);
            return false;
        }
    }
    if (!options->path) (void)fprintf(stderr, "error: expected a file; see qfuse-mlir --help\n");
    return options->path != NULL;
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
    if (count == 2 && strcmp(arguments[1], "--help") == 0) return fputs(usage, stdout) < 0;
    if (!read_options(&options, count, arguments)) return 2;
    return program_in_child(&options);
}
