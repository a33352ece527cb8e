/* Owns: what tests of the MLIR frontend share: modules from text, graphs of them as text.
 * Does not own: checks (tests/check.h).
 * Next: rewriting.c. */
#ifndef QF_TESTS_MLIR_MODULES_H
#define QF_TESTS_MLIR_MODULES_H

#include "tests/check.h"

#include <mlir-c/Diagnostics.h>
#include <mlir-c/Dialect/Arith.h>
#include <mlir-c/Dialect/Func.h>
#include <mlir-c/Dialect/Linalg.h>
#include <mlir-c/Dialect/Math.h>
#include <mlir-c/Dialect/Tensor.h>
#include <qfuse/mlir.h>

/* A module, and what MLIR said. */
typedef struct m_module {
    MlirContext context;
    MlirModule module;
    char said[4096];
} m_module;

static inline void m_append(MlirStringRef part, void *user) {
    char *text = user;
    size_t used = strlen(text), room = 4095 - used;
    memcpy(text + used, part.data, part.length < room ? part.length : room);
}

static inline MlirLogicalResult m_said(MlirDiagnostic diagnostic, void *user) {
    m_module *m = user;
    mlirDiagnosticPrint(diagnostic, m_append, m->said);
    m_append(mlirStringRefCreateFromCString("\n"), m->said);
    return mlirLogicalResultSuccess();
}

static inline MlirContext m_context(bool registered) {
    MlirContext context = mlirContextCreateWithThreading(false);
    mlirContextSetAllowUnregisteredDialects(context, true);
    MlirDialectHandle handles[] = {mlirGetDialectHandle__func__(), mlirGetDialectHandle__arith__(),
                                   mlirGetDialectHandle__math__(), mlirGetDialectHandle__tensor__(),
                                   mlirGetDialectHandle__linalg__()};
    for (size_t i = 0; registered && i < QF_COUNT_OF(handles); i++)
        (void)mlirDialectHandleLoadDialect(handles[i], context);
    return context;
}

/* `m->module` is null where MLIR refuses the text. */
static inline void m_parse(m_module *m, const char *text, size_t size, bool registered) {
    memset(m, 0, sizeof *m);
    m->context = m_context(registered);
    (void)mlirContextAttachDiagnosticHandler(m->context, m_said, m, NULL);
    MlirStringRef source = {text, size};
    MlirOperation operation = mlirOperationCreateParse(m->context, source, mlirStringRefCreateFromCString("test.mlir"));
    if (!mlirOperationIsNull(operation)) m->module = mlirModuleFromOperation(operation);
    bool bare = strstr(m->said, "single top-level operation") ||
                (!mlirOperationIsNull(operation) && mlirModuleIsNull(m->module));
    if (!bare) return; /* else: without a module around it */
    if (!mlirOperationIsNull(operation)) mlirOperationDestroy(operation);
    memset(m->said, 0, sizeof m->said);
    m->module = mlirModuleCreateParse(m->context, source);
}

static inline void m_open(m_module *m, const char *text) {
    m_parse(m, text, strlen(text), true);
    if (mlirModuleIsNull(m->module)) print_message("%s", m->said);
    assert_false(mlirModuleIsNull(m->module));
}

static inline void m_close(m_module *m) {
    if (!mlirModuleIsNull(m->module)) mlirModuleDestroy(m->module);
    mlirContextDestroy(m->context);
}

typedef struct m_text {
    char *data;
    size_t size;
} m_text;

static inline void m_collect(MlirStringRef part, void *user) {
    m_text *text = user;
    text->data = realloc(text->data, text->size + part.length + 1);
    assert_non_null(text->data);
    memcpy(text->data + text->size, part.data, part.length);
    text->size += part.length;
    text->data[text->size] = '\0';
}

/* The module in generic form; freed by the caller. */
static inline char *m_print(const m_module *m) {
    m_text text = {NULL, 0};
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
    mlirOperationPrintWithFlags(mlirModuleGetOperation(m->module), flags, m_collect, &text);
    mlirOpPrintingFlagsDestroy(flags);
    return text.data;
}

/* A function `main` of generic operations. */
#define M_FUNCTION(type, arguments, body)                                                                              \
    "\"builtin.module\"() ({\n\"func.func\"() <{function_type = " type ", sym_name = \"main\"}> ({\n^bb0(" arguments   \
    "):\n" body "\n}) : () -> ()\n}) : () -> ()\n"

#endif
