/* Owns: a program that runs an emitted plan: memory, launches, a check of the result against the definition.
 * Does not own: the plan, which `qfuse opt --emit=c --dims=N=64 --target=sm_90a graph.qf -o emitted.c` wrote.
 * Next: include/qfuse/emit.h. Build by hand: cc -std=c11 main.c -lcuda -lm (emitted.c beside it). */
#include "emitted.c"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64, COLUMNS = 512, COUNT = ROWS * COLUMNS };

extern int cuInit(unsigned flags);
extern int cuDeviceGet(int *device, int ordinal);
extern int cuDevicePrimaryCtxRetain(void **context, int device);
extern int cuCtxPushCurrent_v2(void *context);
extern int cuMemAlloc_v2(uintptr_t *address, size_t size);
extern int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t size, void *stream);
extern int cuStreamSynchronize(void *stream);

static uint16_t x[COUNT];
static unsigned char y[COUNT];

static float from_bf16(uint16_t code) {
    uint32_t bits = (uint32_t)code << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static float to_bf16(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    bits += 0x7FFF + (bits >> 16 & 1);
    return from_bf16((uint16_t)(bits >> 16));
}

static float from_e4m3(unsigned char code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    float number = exponent ? ldexpf(1 + (float)mantissa / 8, exponent - 7) : ldexpf((float)mantissa, -9);
    return code & 0x80 ? -number : number;
}

/* Elements further than one code from the definition. */
static int count_wrong(float scale) {
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        float number = from_bf16(x[i]), silu = to_bf16(number / (1 + expf(-number)));
        float expected = to_bf16(to_bf16(silu * number) * 0.5f) / scale, found = from_e4m3(y[i]);
        if (expected > 448) expected = 448;
        if (!(fabsf(found - expected) <= fabsf(expected) / 8 + 0.004f)) wrong++;
    }
    return wrong;
}

static int failed(const char *what, int result) {
    (void)fprintf(stderr, "emitted: %s: CUDA error %d\n", what, result);
    return 1;
}

int main(void) {
    plan_state state;
    void *context;
    int device, result = cuInit(0);
    uintptr_t memory[4];
    const size_t sizes[4] = {sizeof x, sizeof(float), sizeof y, plan_workspace_bytes};
    float scale = 0.02f;
    if (!result) result = cuDeviceGet(&device, 0);
    if (result) {
        (void)fprintf(stderr, "skipped: no GPU (CUDA error %d)\n", result);
        return 77;
    }
    result = cuDevicePrimaryCtxRetain(&context, device);
    if (!result) result = cuCtxPushCurrent_v2(context);
    for (int i = 0; !result && i < 4; i++) result = cuMemAlloc_v2(&memory[i], sizes[i]);
    if (result) return failed("memory", result);
    for (int i = 0; i < COUNT; i++) x[i] = (uint16_t)(0x3E00 + i % 0x280 + (i % 3 == 0 ? 0x8000 : 0));
    result = cuMemcpyHtoDAsync_v2(memory[0], x, sizeof x, NULL);
    if (!result) result = cuMemcpyHtoDAsync_v2(memory[1], &scale, sizeof scale, NULL);
    if (result) return failed("copying", result);

    void *inputs[] = {(void *)memory[0], (void *)memory[1]}, *outputs[] = {(void *)memory[2]},
         *workspace = (void *)memory[3];
    result = plan_open(&state);
    if (!result) result = plan_prepare(&state, workspace, NULL);
    if (!result) result = plan_run(&state, NULL, inputs, outputs, NULL, workspace);
    if (result) return failed(state.where, result);
    result = cuMemcpyDtoHAsync_v2(y, memory[2], sizeof y, NULL);
    if (!result) result = cuStreamSynchronize(NULL);
    if (!result) result = plan_close(&state);
    if (result) return failed("finishing", result);
    int wrong = count_wrong(scale);
    (void)printf("emitted: %d of %d elements are wrong\n", wrong, COUNT);
    return wrong != 0;
}
