/* Owns: running an emitted plan of copies over the driver without a GPU, whose memory is the host's.
 * Does not own: the emission (runtime/emit.c), launches, which need a GPU (examples/emitted/).
 * Next: CMakeLists.txt, which has copy.c emitted from copy.qf. */
#include "copy.c"

#include <stdio.h>

static int expect(int holds, const char *what) {
    if (!holds) (void)fprintf(stderr, "FAILED: %s\n", what);
    return !holds;
}

int main(void) {
    static float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, y[12], k[2];
    static long long cache[8] = {7, 6, 5, 4, 3, 2, 1, 0}, c[8];
    static _Alignas(256) unsigned char workspace[4096];
    void *inputs[] = {x, cache}, *outputs[] = {y, k, c};
    plan_state state;
    int failed = expect(plan_workspace_bytes <= sizeof workspace, "the workspace is small");
    failed += expect(plan_open(&state) == 0, "opening");
    memset(workspace, 0xFF, sizeof workspace);
    failed += expect(plan_prepare(&state, workspace, NULL) == 0, "preparing");
    failed += expect(plan_run(&state, NULL, inputs, outputs, NULL, workspace) == 0, "running");
    failed += expect(state.where[0] == '\0', "nothing failed");
    failed += expect(memcmp(x, y, sizeof x) == 0, "y is x");
    failed += expect(k[0] == 1 && k[1] == 2, "k is the constant");
    failed += expect(memcmp(cache, c, sizeof c) == 0, "c is the cache");
    failed += expect(plan_close(&state) == 0, "closing");
    return failed;
}
