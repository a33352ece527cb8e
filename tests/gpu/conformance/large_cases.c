/* Owns: checks with tensors of more than 2^31 bytes and elements, on a GPU only (fault 58).
 * Does not own: checks of plans (plan_cases.c).
 * Next: live.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/conformance/live.h"

#define PAGES      33000 /* of 64 KiB in each cache: 2.16 GB */
#define PAGE_BYTES 65536
#define USED       9

static const int64_t used_pages[USED] = {32999, 0, 32768, 32767, 1, 32990, 16384, 32769, 5};

static const char attend[] =
    "graph @attend(%%q: bf16[2, 32, 128], %%k: f8E4M3FN[%d, 64, 8, 128], %%v: f8E4M3FN[%d, 64, 8, 128],\n"
    "    %%table: i32[2, 9], %%lens: i32[2], %%ks: f32[], %%vs: f32[]) {\n"
    "  %%y = paged_attention %%q, %%k, %%v, %%table, %%lens, k_scale=%%ks, v_scale=%%vs {scale=0.09, layout=%s, "
    "p=kernel}\n"
    "  return %%y\n}\n";

static void random_page(unsigned char *page, uint64_t seed) {
    random_state random = {seed};
    for (int i = 0; i < PAGE_BYTES; i++) {
        page[i] = (unsigned char)random_bits(&random);
        if ((page[i] & 0x7F) > 0x70) page[i] &= 0xBF; /* no NaN, nothing that dominates */
    }
}

/* The same pages in a cache of `pages`, at used_pages[i] or at i. */
static void *attend_over(suite *of, int pages, bool hnd, size_t *out_size, char *message, size_t size) {
    char text[1200];
    live at;
    int32_t table[2 * USED];
    unsigned char *page = malloc(PAGE_BYTES);
    (void)snprintf(text, sizeof text, attend, pages, pages, hnd ? "hnd" : "nhd");
    if (hnd) { /* axes 1 and 2 change places */
        for (char *from = strstr(text, "64, 8, 128"); from; from = strstr(from, "64, 8, 128"))
            memcpy(from, "8, 64, 128", 10);
    }
    shape cache = hnd ? SHAPE(pages, 8, 64, 128) : SHAPE(pages, 64, 8, 128);
    if (live_open(&at, of, text) && page) {
        live_input(&at, "q", QF_BF16, SHAPE(2, 32, 128), NORMAL(1, 0), 3);
        live_room(&at, "k", QF_F8E4M3FN, cache);
        live_room(&at, "v", QF_F8E4M3FN, cache);
        live_room(&at, "table", QF_I32, SHAPE(2, USED));
        live_input(&at, "lens", QF_I32, SHAPE(2), (fill){FILL_LIST, 0, 0, (const double[]){570, 401}, 2}, 0);
        live_input(&at, "ks", QF_F32, SCALAR, CONSTANT(0.013), 0);
        live_input(&at, "vs", QF_F32, SCALAR, CONSTANT(0.021), 0);
    }
    for (int i = 0; i < USED; i++) {
        int64_t place = pages == USED ? i : used_pages[i];
        table[i] = table[USED + (i + 4) % USED] = (int32_t)place;
        for (int side = 0; page && side < 2; side++) {
            random_page(page, (uint64_t)(2 * i + side));
            live_write(&at, side ? "v" : "k", (size_t)place * PAGE_BYTES, page, PAGE_BYTES);
        }
    }
    live_write(&at, "table", 0, table, sizeof table);
    live_run(&at);
    void *found = live_outputs(&at, out_size);
    if (!found) (void)live_ok(&at, message, size);
    live_close(&at);
    free(page);
    return found;
}

static bool pages_beyond(suite *of, bool hnd, char *message, size_t size) {
    size_t bytes = 0;
    void *small = attend_over(of, USED, hnd, &bytes, message, size);
    void *large = small ? attend_over(of, PAGES, hnd, &bytes, message, size) : NULL;
    bool good = small && large && memcmp(small, large, bytes) == 0;
    if (small && large && !good) (void)snprintf(message, size, "pages beyond 2^31 bytes give another result");
    free(small);
    free(large);
    return good;
}

static bool pages_beyond_nhd(suite *of, char *message, size_t size) {
    return pages_beyond(of, false, message, size);
}

static bool pages_beyond_hnd(suite *of, char *message, size_t size) {
    return pages_beyond(of, true, message, size);
}

static bool writes_beyond(suite *of, char *message, size_t size) {
    static const char text[] =
        "graph @write(%cache: f8E4M3FN[33000, 64, 8, 128], %new: f8E4M3FN[3, 8, 128], %slots: i64[3]) {\n"
        "  %y = kv_cache_write %cache, %new, %slots {layout=nhd}\n  return %y\n}\n";
    static const int64_t slots[3] = {32999 * 64 + 63, 7, 32768 * 64};
    static unsigned char rows[3][1024], found[1024];
    random_state random = {58};
    live at;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 1024; j++) rows[i][j] = (unsigned char)random_bits(&random);
    if (live_open(&at, of, text)) {
        live_room(&at, "cache", QF_F8E4M3FN, SHAPE(PAGES, 64, 8, 128));
        live_room(&at, "new", QF_F8E4M3FN, SHAPE(3, 8, 128));
        live_room(&at, "slots", QF_I64, SHAPE(3));
    }
    live_write(&at, "new", 0, rows, sizeof rows);
    live_write(&at, "slots", 0, slots, sizeof slots);
    live_run(&at);
    bool good = live_ok(&at, message, size);
    for (int i = 0; good && i < 3; i++) {
        live_read(&at, 0, (size_t)slots[i] * 1024, found, 1024);
        good = live_ok(&at, message, size);
        if (!good || memcmp(found, rows[i], 1024) == 0) continue;
        (void)snprintf(message, size, "row %d is not at slot %lld", i, (long long)slots[i]);
        good = false;
    }
    live_close(&at);
    return good;
}

/* More than 2^31 elements of one byte: the ends are right. */
static bool elements_beyond(suite *of, char *message, size_t size) {
    static const char text[] = "graph @large(%x: i8[2147487744]) {\n  %y = neg %x\n  return %y\n}\n";
    const size_t count = 2147487744u, part = 4096;
    static unsigned char head[4096], tail[4096], found[4096];
    random_state random = {31};
    live at;
    for (size_t i = 0; i < part; i++)
        head[i] = (unsigned char)random_bits(&random), tail[i] = (unsigned char)random_bits(&random);
    if (live_open(&at, of, text)) live_room(&at, "x", QF_I8, SHAPE((int64_t)count));
    live_write(&at, "x", 0, head, part);
    live_write(&at, "x", count - part, tail, part);
    live_run(&at);
    bool good = live_ok(&at, message, size);
    for (int end = 0; good && end < 2; end++) {
        live_read(&at, 0, end ? count - part : 0, found, part);
        good = live_ok(&at, message, size);
        for (size_t i = 0; good && i < part; i++)
            if ((unsigned char)(found[i] + (end ? tail : head)[i])) {
                (void)snprintf(message, size, "element %zu from the %s is wrong", i, end ? "end" : "start");
                good = false;
            }
    }
    live_close(&at);
    return good;
}

static bool transpose_beyond(suite *of, char *message, size_t size) {
    static const char text[] =
        "graph @large(%x: u8[65536, 32769]) {\n  %y = permute %x {order=[1, 0]}\n  return %y\n}\n";
    static unsigned char row[32769];
    unsigned char found[4];
    live at;
    for (int i = 0; i < 32769; i++) row[i] = (unsigned char)(i * 7 + 3);
    if (live_open(&at, of, text)) live_room(&at, "x", QF_U8, SHAPE(65536, 32769));
    for (size_t i = 65532; i < 65536; i++) {
        row[32768] = (unsigned char)(i - 65500);
        live_write(&at, "x", i * 32769, row, sizeof row);
    }
    live_run(&at);
    live_read(&at, 0, (size_t)32768 * 65536 + 65532, found, 4);
    bool good = live_ok(&at, message, size);
    for (int i = 0; good && i < 4; i++)
        if (found[i] != 32 + i) {
            (void)snprintf(message, size, "element [32768, %d] is %d, expected %d", 65532 + i, found[i], 32 + i);
            good = false;
        }
    live_close(&at);
    return good;
}

void large_cases(suite *to) {
    if (strcmp(to->options.device, "cpu") == 0) return;
    to->visit_check(to, "large/fault_58_pages_beyond_2_31_bytes_nhd", false, pages_beyond_nhd);
    to->visit_check(to, "large/fault_58_pages_beyond_2_31_bytes_hnd", false, pages_beyond_hnd);
    to->visit_check(to, "large/fault_58_writes_beyond_2_31_bytes", false, writes_beyond);
    to->visit_check(to, "large/elements_beyond_2_31", false, elements_beyond);
    to->visit_check(to, "large/transpose_beyond_2_31", false, transpose_beyond);
}
