/* Owns: putting the body of a callee in place of a call.
 * Does not own: which call (export.c).
 * Next: export.c. */
#include "frontends/mlir/build.h"
#include "frontends/mlir/export.h"

static void append_part(MlirStringRef part, void *user) {
    qf_buffer_append(user, part.data, part.length);
}

static void print_attribute(qf_buffer *text, MlirOperation operation, const char *name) {
    MlirAttribute attribute = qf_mlir_attribute(operation, name);
    if (!mlirAttributeIsNull(attribute)) mlirAttributePrint(attribute, append_part, text);
}

/* Functions that the callee may call, without their bodies. */
static void declare_others(qf_buffer *text, const qf_mlir_import_state *import, MlirOperation callee) {
    for (uint32_t i = 1; i < import->symbol_count; i++) {
        MlirOperation other = import->symbols[i];
        if (other.ptr == callee.ptr || !qf_mlir_is(other, "func.func")) continue;
        qf_buffer_text(text, QF_TEXT("\n\"func.func\"() <{function_type = "));
        print_attribute(text, other, "function_type");
        qf_buffer_text(text, QF_TEXT(", sym_name = "));
        print_attribute(text, other, "sym_name");
        qf_buffer_text(text, QF_TEXT(", sym_visibility = \"private\"}> ({\n}) : () -> ()"));
    }
}

/* A module whose first operation is the function. Through text, locations included: MLIR 19 loses the properties of
 * unregistered operations when it clones them. Null after a failure. */
static MlirModule copy_function(const qf_mlir_import_state *import, MlirOperation function) {
    qf_buffer text = {.context = import->context};
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    mlirOpPrintingFlagsPrintGenericOpForm(flags);
    mlirOpPrintingFlagsEnableDebugInfo(flags, true, false);
    mlirOperationPrintWithFlags(function, flags, append_part, &text);
    mlirOpPrintingFlagsDestroy(flags);
    declare_others(&text, import, function);
    MlirModule copy = {NULL};
    MlirStringRef source = {text.data, text.size};
    if (!text.failed) copy = mlirModuleCreateParse(mlirOperationGetContext(function), source);
    qf_buffer_destroy(&text);
    return copy;
}

/* The import has checked the callee: one block, as many arguments and results as the call. */
static void move_body(MlirBlock body, MlirOperation call) {
    MlirBlock into = mlirOperationGetBlock(call);
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
        mlirValueReplaceAllUsesOfWith(mlirBlockGetArgument(body, i), mlirOperationGetOperand(call, i));
    MlirOperation operation = mlirBlockGetFirstOperation(body), next = mlirOperationGetNextInBlock(operation);
    for (; !mlirOperationIsNull(next); operation = next, next = mlirOperationGetNextInBlock(operation)) {
        mlirOperationRemoveFromParent(operation);
        mlirBlockInsertOwnedOperationBefore(into, call, operation);
    }
    for (intptr_t i = 0; i < mlirOperationGetNumResults(call); i++) /* `operation` is the terminator */
        mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(call, i), mlirOperationGetOperand(operation, i));
    mlirOperationDestroy(call);
}

qf_status qf_mlir_inline_call(const qf_mlir_import_state *import, MlirOperation callee, MlirOperation call) {
    MlirModule copy = copy_function(import, callee);
    if (mlirModuleIsNull(copy)) {
        qf_status recorded = qf_context_status(import->context);
        return recorded != QF_OK ? recorded : qf_record(import->context, QF_ERROR_INTERNAL);
    }
    move_body(qf_mlir_only_block(mlirBlockGetFirstOperation(mlirModuleGetBody(copy)), 0), call);
    mlirModuleDestroy(copy);
    return QF_OK;
}
