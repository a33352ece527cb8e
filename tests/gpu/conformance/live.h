/* Owns: a plan on the device with its tensors, for checks that do more than run a case.
 * Does not own: the checks (plan_cases.c, large_cases.c).
 * Next: live.c. */
#ifndef QF_TESTS_GPU_CONFORMANCE_LIVE_H
#define QF_TESTS_GPU_CONFORMANCE_LIVE_H

#include "plan/plan.h"
#include "tests/gpu/conformance/cases.h"

typedef struct live {
    suite *of;
    char messages[MESSAGE_SIZE];
    qf_context *context;
    qf_plan *plan;
    bool shared_plan;
    qf_executor *executor;
    qf_tensor inputs[MOST_INPUTS]; /* device */
    size_t sizes[MOST_INPUTS];
    bool failed;
} live;

/* `text`: a whole graph. False after writing into `message`; close it all the same. */
bool live_open(live *at, suite *of, const char *text);
/* Another executor of the same plan, with a context of its own. */
bool live_open_again(live *at, const live *like);
void live_close(live *at);

/* Memory on the device for an input and its values: from `values`, or as they come (huge tensors). */
void live_input(live *at, const char *name, qf_dtype dtype, shape dims, fill values, uint64_t seed);
void live_room(live *at, const char *name, qf_dtype dtype, shape dims);
/* Writes `size` bytes at `offset` into the input's memory. */
void live_write(live *at, const char *name, size_t offset, const void *data, size_t size);
/* Runs and waits. */
void live_run(live *at);
/* The bytes of output `index` from `offset` on. */
void live_read(live *at, uint32_t index, size_t offset, void *out, size_t size);
size_t live_output_size(live *at, uint32_t index);
/* All outputs one after another, malloc'ed; NULL after a failure. */
void *live_outputs(live *at, size_t *out_size);
/* False where anything failed; then `message` says what. */
bool live_ok(const live *at, char *message, size_t size);

#endif
