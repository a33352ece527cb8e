/* Owns: an example of the run-time half: a saved plan, bound and run.
 * Does not own: making it (compile_plan.c).
 * Next: compile_plan.c. Usage: run_plan FILE */
#include <stdio.h>

#include <qfuse/runtime.h>

static void print_message(void *user, const qf_diagnostic *diagnostic) {
    (void)user;
    (void)fprintf(stderr, "%s: %s\n", diagnostic->location, diagnostic->message);
}

static qf_status run(qf_executor *executor) {
    float q[16], k[12], v[12], scale = 0.25f;
    for (int i = 0; i < 16; i++) q[i] = (float)(i % 5) - 2;
    for (int i = 0; i < 12; i++) k[i] = (float)(i % 3) - 1, v[i] = 1;
    const qf_tensor inputs[] = {{.dtype = QF_F32, .rank = 4, .dims = {1, 2, 2, 4}, .data = q},
                                {.dtype = QF_F32, .rank = 4, .dims = {1, 1, 3, 4}, .data = k},
                                {.dtype = QF_F32, .rank = 4, .dims = {1, 1, 3, 4}, .data = v},
                                {.dtype = QF_F32, .data = &scale}};
    for (uint32_t i = 0; i < 4; i++) {
        qf_status status = qf_executor_bind_input(executor, i, &inputs[i]);
        if (status != QF_OK) return status;
    }
    qf_status status = qf_executor_run(executor);
    qf_tensor out;
    if (status == QF_OK) status = qf_executor_output(executor, 0, &out);
    if (status != QF_OK) return status;
    /* v is 1 everywhere, so every output is 1 / 0.25 = 4: code 0x48. */
    for (int i = 0; i < 16; i++)
        if (((const unsigned char *)out.data)[i] != 0x48) return QF_ERROR_INTERNAL;
    return qf_tensor_bytes(&out) == 16 ? QF_OK : QF_ERROR_INTERNAL;
}

int main(int argument_count, char **arguments) {
    qf_context_options options = {.struct_size = sizeof options, .handler = print_message};
    qf_context *context = NULL;
    qf_plan *plan = NULL;
    qf_executor *executor = NULL;
    qf_status status = argument_count == 2 ? qf_context_create(&options, &context) : QF_ERROR_INVALID_ARGUMENT;
    if (status == QF_OK) status = qf_plan_load(context, arguments[1], &plan);
    if (status == QF_OK) status = qf_executor_create(context, plan, NULL, &executor);
    if (status == QF_OK) status = run(executor);
    (void)printf("run_plan: %s\n", qf_status_name(status));
    qf_executor_destroy(executor);
    qf_plan_destroy(plan);
    qf_context_destroy(context);
    return status == QF_OK ? 0 : 1;
}
