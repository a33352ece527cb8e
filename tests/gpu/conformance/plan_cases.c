/* Owns: checks of whole plans on the device: graphs replayed with other lengths and scales, threads, memory.
 * Does not own: single kernels (the other *_cases.c), tensors beyond 2^31 bytes (large_cases.c).
 * Next: live.h. */
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "tests/gpu/conformance/live.h"

/* A decode step: rows are quantised into pages, attention over them, FP8 out. */
static const char decode[] =
    "graph @decode(%q: bf16[3, 8, 64], %nk: bf16[3, 2, 64], %nv: bf16[3, 2, 64], %k: f8E4M3FN[40, 16, 2, 64],\n"
    "    %v: f8E4M3FN[40, 16, 2, 64], %slots: i64[3], %table: i32[3, 12], %lens: i32[3], %qs: f32[], %ks: f32[],\n"
    "    %vs: f32[], %os: f32[]) {\n"
    "  %k1 = kv_cache_write %k, %nk, %slots, scale=%ks {layout=nhd}\n"
    "  %v1 = kv_cache_write %v, %nv, %slots, scale=%vs {layout=nhd}\n"
    "  %q8 = quantize %q, %qs {dtype=f8E4M3FN}\n"
    "  %y = paged_attention %q8, %k1, %v1, %table, %lens, q_scale=%qs, k_scale=%ks, v_scale=%vs, out_scale=%os "
    "{scale=0.125, layout=nhd, out=f8E4M3FN, p=kernel}\n"
    "  return %y as \"y\", %k1 as \"k1\", %v1 as \"v1\"\n}\n";

/* Values of variant 0 or 1: other lengths, tables, slots, scales and rows. */
static void decode_inputs(live *at, int variant, bool in_place) {
    static const double lengths[2][3] = {{180, 17, 1}, {33, 160, 96}}, slots[2][3] = {{179, 16, 0}, {32, 159, 95}};
    double table[36];
    int32_t lens32[3], table32[36];
    int64_t slots64[3];
    random_state random = {7};
    for (int i = 0; i < 36; i++) table[i] = (double)(variant ? 39 - i : i);
    for (int b = 0; b < 3; b++) {
        int64_t token = (int64_t)slots[variant][b];
        lens32[b] = (int32_t)lengths[variant][b];
        slots64[b] = (int64_t)table[b * 12 + token / 16] * 16 + token % 16;
    }
    for (int i = 0; i < 36; i++) table32[i] = (int32_t)table[i];
    float scales[4] = {0.011f, 0.013f, 0.02f, 0.005f};
    for (int i = 0; variant && i < 4; i++) scales[i] *= 2.3f;
    if (!in_place) {
        live_input(at, "k", QF_F8E4M3FN, SHAPE(40, 16, 2, 64), NORMAL(60, 0), 1);
        live_input(at, "v", QF_F8E4M3FN, SHAPE(40, 16, 2, 64), NORMAL(60, 9), 2);
        live_room(at, "q", QF_BF16, SHAPE(3, 8, 64));
        live_room(at, "nk", QF_BF16, SHAPE(3, 2, 64));
        live_room(at, "nv", QF_BF16, SHAPE(3, 2, 64));
        live_room(at, "slots", QF_I64, SHAPE(3));
        live_room(at, "table", QF_I32, SHAPE(3, 12));
        live_room(at, "lens", QF_I32, SHAPE(3));
        live_room(at, "qs", QF_F32, SCALAR);
        live_room(at, "ks", QF_F32, SCALAR);
        live_room(at, "vs", QF_F32, SCALAR);
        live_room(at, "os", QF_F32, SCALAR);
    }
    uint16_t rows[3 * 8 * 64];
    for (int part = 0; part < 3; part++) {
        static const char *const names[] = {"q", "nk", "nv"};
        size_t count = part ? 3 * 2 * 64 : 3 * 8 * 64;
        for (size_t i = 0; i < count; i++) {
            float number = (float)random_normal(&random) * (variant ? 1.5f : 1.0f);
            uint32_t bits;
            memcpy(&bits, &number, sizeof bits);
            rows[i] = (uint16_t)(bits >> 16);
        }
        live_write(at, names[part], 0, rows, 2 * count);
    }
    live_write(at, "lens", 0, lens32, sizeof lens32);
    live_write(at, "table", 0, table32, sizeof table32);
    live_write(at, "slots", 0, slots64, sizeof slots64);
    live_write(at, "qs", 0, &scales[0], sizeof(float));
    live_write(at, "ks", 0, &scales[1], sizeof(float));
    live_write(at, "vs", 0, &scales[2], sizeof(float));
    live_write(at, "os", 0, &scales[3], sizeof(float));
}

static bool same(const void *a, const void *b, size_t size, const char *what, char *message, size_t message_size) {
    if (a && b && memcmp(a, b, size) == 0) return true;
    if (!message[0]) (void)snprintf(message, message_size, "%s: other bits", what);
    return false;
}

/* Fault 31, 32: what was captured reads lengths, tables and scales anew at each replay. */
static bool replay_with_changes(suite *of, char *message, size_t size) {
    live captured, fresh;
    size_t bytes = 0;
    void *found[3] = {NULL}, *wanted[2] = {NULL};
    if (live_open(&captured, of, decode)) decode_inputs(&captured, 0, false);
    live_run(&captured);
    qf_status status = captured.failed ? QF_ERROR_INTERNAL : qf_executor_capture(captured.executor);
    bool has_graphs = status != QF_ERROR_UNSUPPORTED;
    if (has_graphs && status != QF_OK) captured.failed = true;
    for (int i = 0; i < 3; i++) { /* there, away and back */
        decode_inputs(&captured, i % 2, true);
        live_run(&captured);
        found[i] = live_outputs(&captured, &bytes);
    }
    bool good = live_ok(&captured, message, size);
    for (int i = 0; i < 2; i++) {
        if (live_open(&fresh, of, decode)) decode_inputs(&fresh, i, false);
        live_run(&fresh);
        wanted[i] = live_outputs(&fresh, &bytes);
        good = live_ok(&fresh, message, size) && good;
        live_close(&fresh);
    }
    /* The caches are outputs of their own: runs do not add up. */
    good = good && same(found[0], wanted[0], bytes, "first lengths", message, size) &&
           same(found[1], wanted[1], bytes, "other lengths, tables and scales", message, size) &&
           same(found[2], wanted[0], bytes, "first lengths again", message, size);
    if (good && memcmp(wanted[0], wanted[1], bytes) == 0) {
        (void)snprintf(message, size, "both variants give the same: the check shows nothing");
        good = false;
    }
    for (int i = 0; i < 3; i++) free(found[i]);
    for (int i = 0; i < 2; i++) free(wanted[i]);
    live_close(&captured);
    return good;
}

/* A captured plan holds its addresses and says so. */
static bool captured_is_frozen(suite *of, char *message, size_t size) {
    live at;
    if (live_open(&at, of, decode)) decode_inputs(&at, 0, false);
    live_run(&at);
    bool good = live_ok(&at, message, size);
    if (good && qf_executor_capture(at.executor) == QF_OK) {
        qf_tensor other = at.inputs[0];
        other.data = (char *)other.data + 256;
        at.messages[0] = '\0';
        if (qf_executor_bind_input(at.executor, 0, &other) == QF_OK || !strstr(at.messages, "captured")) {
            (void)snprintf(message, size, "another address was taken while captured: %s", at.messages);
            good = false;
        }
        qf_executor_drop_capture(at.executor);
        if (good && qf_executor_bind_input(at.executor, 0, &at.inputs[0]) != QF_OK) {
            (void)snprintf(message, size, "after the capture was dropped: %s", at.messages);
            good = false;
        }
    }
    live_close(&at);
    return good;
}

typedef struct runner {
    live at;
    void *outputs;
    size_t size;
    int variant;
} runner;

static int run_many(void *user) {
    runner *own = user;
    for (int i = 0; i < 100; i++) live_run(&own->at);
    return 0;
}

/* Two threads, each with an executor of the same plan, at the same time. */
static bool two_threads(suite *of, char *message, size_t size) {
    live first;
    runner runners[2];
    thrd_t threads[2];
    size_t bytes = 0;
    bool good = live_open(&first, of, decode);
    memset(runners, 0, sizeof runners);
    for (int i = 0; good && i < 2; i++) {
        decode_inputs(&first, i, i > 0);
        live_run(&first);
        runners[i].outputs = live_outputs(&first, &bytes);
        if (live_open_again(&runners[i].at, &first)) decode_inputs(&runners[i].at, i, false);
    }
    good = live_ok(&first, message, size) && live_ok(&runners[0].at, message, size) &&
           live_ok(&runners[1].at, message, size);
    int started = 0;
    for (; good && started < 2; started++)
        if (thrd_create(&threads[started], run_many, &runners[started]) != thrd_success) break;
    for (int i = 0; i < started; i++) (void)thrd_join(threads[i], NULL);
    for (int i = 0; good && i < 2; i++) {
        void *found = live_outputs(&runners[i].at, &bytes);
        good = live_ok(&runners[i].at, message, size) &&
               same(found, runners[i].outputs, bytes, "beside another thread", message, size);
        free(found);
    }
    for (int i = 0; i < 2; i++) {
        free(runners[i].outputs);
        if (runners[i].at.of) live_close(&runners[i].at);
    }
    live_close(&first);
    return good && started == 2;
}

static uint64_t free_memory(suite *of) {
    qf_device_info info = {.struct_size = sizeof info};
    qf_device_describe(of->device, &info);
    return info.free_bytes;
}

static bool flat(uint64_t before, uint64_t after, const char *what, char *message, size_t size) {
    if (after >= before) return true;
    (void)snprintf(message, size, "%llu bytes of device memory are gone after %s", (unsigned long long)(before - after),
                   what);
    return false;
}

static bool memory_is_flat(suite *of, char *message, size_t size) {
    live at;
    if (live_open(&at, of, decode)) decode_inputs(&at, 0, false);
    live_run(&at);
    uint64_t before = free_memory(of);
    for (int i = 0; i < 1000; i++) live_run(&at);
    uint64_t after = free_memory(of);
    bool good = live_ok(&at, message, size) && flat(before, after, "1000 runs", message, size);
    bool captured = good && qf_executor_capture(at.executor) == QF_OK;
    live_run(&at);
    before = free_memory(of);
    for (int i = 0; captured && i < 1000; i++) live_run(&at);
    after = free_memory(of);
    good = good && live_ok(&at, message, size) && flat(before, after, "1000 replays", message, size);
    live_close(&at);
    return good;
}

static bool executors_leave_nothing(suite *of, char *message, size_t size) {
    bool good = true;
    uint64_t before = 0;
    for (int i = 0; good && i < 30; i++) {
        live at;
        if (i == 10) before = free_memory(of); /* the driver keeps what it needs itself */
        if (live_open(&at, of, decode)) decode_inputs(&at, 0, false);
        live_run(&at);
        if (i % 2 && !at.failed) (void)!qf_executor_capture(at.executor);
        live_run(&at);
        good = live_ok(&at, message, size);
        live_close(&at);
    }
    return good && flat(before, free_memory(of), "20 executors", message, size);
}

/* Memory that executors get next holds `poison` everywhere, as far as the driver hands out what was released. */
static void leave_poison(suite *of, int poison) {
    enum { BLOCKS = 8, SIZE = 4 << 20 };
    void *blocks[BLOCKS];
    char *image = malloc(SIZE);
    if (!image) return;
    memset(image, poison, SIZE);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = qf_device_allocate(of->device, SIZE);
        if (blocks[i]) (void)!qf_device_upload(of->device, blocks[i], image, SIZE);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i]) qf_device_release(of->device, blocks[i], SIZE);
    free(image);
}

/* Workspace, scratch and outputs of the executor start as 0x00, 0x7F or 0xFF; the results are the same. */
static bool workspace_is_poisoned(suite *of, char *message, size_t size) {
    static const int poisons[] = {0x00, 0x7F, 0xFF};
    void *outputs[3] = {NULL};
    size_t bytes = 0;
    bool good = true;
    for (int i = 0; good && i < 3; i++) {
        live at;
        leave_poison(of, poisons[i]);
        if (live_open(&at, of, decode)) decode_inputs(&at, 1, false);
        live_run(&at);
        outputs[i] = live_outputs(&at, &bytes);
        good =
            live_ok(&at, message, size) && same(outputs[0], outputs[i], bytes, "over poisoned memory", message, size);
        live_close(&at);
    }
    for (int i = 0; i < 3; i++) free(outputs[i]);
    return good;
}

void plan_cases(suite *to) {
    to->visit_check(to, "plan/replay_with_other_lengths_and_scales", true, replay_with_changes);
    to->visit_check(to, "plan/captured_addresses_are_frozen", true, captured_is_frozen);
    to->visit_check(to, "plan/two_threads_two_executors", false, two_threads);
    to->visit_check(to, "plan/memory_is_flat_over_1000_runs", false, memory_is_flat);
    to->visit_check(to, "plan/executors_leave_no_memory", false, executors_leave_nothing);
    to->visit_check(to, "plan/workspace_is_poisoned", true, workspace_is_poisoned);
}
