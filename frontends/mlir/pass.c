/* Owns: the pass for a host's pass manager.
 * Does not own: what it does (rewrite.c).
 * Next: rewrite.c, examples/mlir_host.c. */
#include <string.h>

#include <mlir-c/Diagnostics.h>
#include <mlir-c/Pass.h>

#include "frontends/mlir/build.h"

#define PASS_NAME "qfuse-fuse-attention-quant"

/* Its own context holds it: the strings of the options are copied there. */
typedef struct pass_state {
    qf_context *context;
    qf_mlir_rewrite_options options;
} pass_state;

/* MLIR tells passes apart by the address of something; nothing is ever written here. */
static const uint64_t pass_identity[2];

static bool copy_text(qf_context *context, const char **text) {
    if (!*text) return true;
    qf_string copy = qf_intern_c(context, *text);
    *text = qf_string_c(context, copy);
    return copy.id != 0;
}

static pass_state *create_state(const qf_mlir_rewrite_options *options) {
    qf_context *context = NULL;
    if (qf_context_create(NULL, &context) != QF_OK) return NULL;
    pass_state *state = qf_arena_allocate(&context->arena, sizeof *state);
    if (state) {
        size_t size = options ? options->struct_size : 0;
        state->context = context;
        if (size) memcpy(&state->options, options, size < sizeof state->options ? size : sizeof state->options);
        state->options.struct_size = sizeof state->options;
        qf_mlir_rewrite_options *own = &state->options;
        if (copy_text(context, &own->passes) && copy_text(context, &own->numerics) &&
            copy_text(context, &own->target) && copy_text(context, &own->query_scale))
            return state;
    }
    qf_context_destroy(context);
    return NULL;
}

static void construct(void *user) {
    (void)user;
}

static void destruct(void *user) {
    pass_state *state = user;
    if (state) qf_context_destroy(state->context);
}

/* NULL, which run meets, where memory ran out. */
static void *clone(void *user) {
    const pass_state *state = user;
    return state ? create_state(&state->options) : NULL;
}

static void run(MlirOperation operation, MlirExternalPass pass, void *user) {
    const pass_state *state = user;
    MlirModule module = mlirModuleFromOperation(operation);
    if (!state || mlirModuleIsNull(module)) {
        mlirEmitError(mlirOperationGetLocation(operation),
                      state ? PASS_NAME " expects a module" : PASS_NAME " ran out of memory");
        mlirExternalPassSignalFailure(pass);
    } else if (qf_mlir_rewrite(module, &state->options, NULL) != QF_OK) {
        mlirExternalPassSignalFailure(pass);
    }
}

bool qfuse_mlir_register_pass(MlirOpPassManager manager, const qf_mlir_rewrite_options *options) {
    pass_state *state = create_state(options);
    if (!state) return false;
    MlirExternalPassCallbacks callbacks = {
        .construct = construct, .destruct = destruct, .initialize = NULL, .clone = clone, .run = run};
    MlirPass pass =
        mlirCreateExternalPass(mlirTypeIDCreate(pass_identity), qf_mlir_string(PASS_NAME), qf_mlir_string(PASS_NAME),
                               qf_mlir_string("Writes attention followed by FP8 quantisation as qfuse.attention"),
                               qf_mlir_string("builtin.module"), 0, NULL, callbacks, state);
    mlirOpPassManagerAddOwnedPass(manager, pass);
    return true;
}
