/* Owns: a host compiler with MLIR of its own: its pass manager runs QFuse's pass on a file, printed before and after.
 * Does not own: the pass (libqfuse-mlir, which holds no MLIR; this program's serves).
 * Next: include/qfuse/mlir.h. Usage: mlir_host FILE.mlir (generic form); ends with 1 after a message of MLIR. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mlir-c/Diagnostics.h>
#include <mlir-c/Dialect/Func.h>
#include <mlir-c/Pass.h>
#include <mlir-c/Transforms.h>
#include <qfuse/mlir.h>

static void print_part(MlirStringRef part, void *file) {
    (void)fwrite(part.data, 1, part.length, file);
}

/* MLIR's diagnostics, QFuse's errors among them. */
static MlirLogicalResult on_diagnostic(MlirDiagnostic diagnostic, void *user) {
    (void)user;
    mlirLocationPrint(mlirDiagnosticGetLocation(diagnostic), print_part, stderr);
    (void)fputs(": ", stderr);
    mlirDiagnosticPrint(diagnostic, print_part, stderr);
    (void)fputc('\n', stderr);
    return mlirLogicalResultSuccess();
}

/* QFuse's remarks: which attention was fused, and why another was not. */
static void on_remark(void *user, const qf_diagnostic *diagnostic) {
    (void)user;
    (void)fprintf(stderr, "%s: %s\n", diagnostic->location, diagnostic->message);
}

static char *read_file(const char *path, size_t *out_size) {
    FILE *file = fopen(path, "rb");
    size_t capacity = (size_t)16 << 20;
    char *data = file ? malloc(capacity) : NULL;
    *out_size = data ? fread(data, 1, capacity, file) : 0;
    if (file) (void)fclose(file);
    return data;
}

static void print_module(const char *title, MlirOperation module) {
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
    (void)printf("// %s\n", title);
    mlirOperationPrintWithFlags(module, flags, print_part, stdout);
    (void)printf("\n");
    mlirOpPrintingFlagsDestroy(flags);
}

/* The host's own passes around QFuse's. */
static bool run_passes(MlirContext context, MlirOperation module) {
    qf_mlir_rewrite_options options = {.struct_size = sizeof options, .remarks = true, .handler = on_remark};
    MlirPassManager manager = mlirPassManagerCreate(context);
    MlirOpPassManager passes = mlirPassManagerGetAsOpPassManager(manager);
    mlirOpPassManagerAddOwnedPass(passes, mlirCreateTransformsCSE());
    bool good = qfuse_mlir_register_pass(passes, &options);
    mlirOpPassManagerAddOwnedPass(passes, mlirCreateTransformsSymbolDCE());
    good = good && mlirLogicalResultIsSuccess(mlirPassManagerRunOnOp(manager, module));
    mlirPassManagerDestroy(manager);
    return good;
}

int main(int count, char **arguments) {
    size_t size = 0;
    char *text = count == 2 ? read_file(arguments[1], &size) : NULL;
    if (!text) {
        (void)fprintf(stderr, "usage: mlir_host FILE.mlir\n");
        return 2;
    }
    MlirContext context = mlirContextCreate();
    MlirDialectHandle func = mlirGetDialectHandle__func__();
    (void)mlirDialectHandleLoadDialect(func, context);
    mlirContextSetAllowUnregisteredDialects(context, true); /* StableHLO where it is not linked, and qfuse */
    MlirDiagnosticHandlerID handler = mlirContextAttachDiagnosticHandler(context, on_diagnostic, NULL, NULL);
    MlirStringRef source = {text, size}, name = {arguments[1], strlen(arguments[1])};
    MlirOperation module = mlirOperationCreateParse(context, source, name);
    bool good = !mlirOperationIsNull(module);
    if (good) print_module("before", module);
    good = good && run_passes(context, module);
    if (good) print_module("after", module);
    if (!mlirOperationIsNull(module)) mlirOperationDestroy(module);
    mlirContextDetachDiagnosticHandler(context, handler);
    mlirContextDestroy(context);
    free(text);
    return good ? 0 : 1;
}
