/* Owns: a device of the program: its target, tensors on it and back, a run from host tensors to host tensors.
 * Does not own: devices (qfuse/device.h), running (qfuse/runtime.h).
 * Next: on_device.c. */
#ifndef QF_TOOLS_ON_DEVICE_H
#define QF_TOOLS_ON_DEVICE_H

#include <qfuse/device.h>
#include <qfuse/graph.h>
#include <qfuse/runtime.h>

#include "tools/tensors.h"

typedef struct tool_device {
    qf_tool *tool;
    qf_device *device;
    qf_device_info info;
    const char *name;
    bool host; /* host tensors are used where they lie */
} tool_device;

/* `name` NULL: "cpu". False after a message. */
bool tool_device_open(qf_tool *tool, const char *name, tool_device *out);
void tool_device_close(tool_device *device);

/* Compiles the graph for the device, runs it on host tensors (one an input, in order), and gives one host tensor an
 * output, each freed by tensor_free. False after a message; *out_count says how many were made. */
bool tool_device_run(tool_device *device, const qf_graph *graph, const qf_tensor *inputs, qf_tensor *outputs,
                     uint32_t most_outputs, uint32_t *out_count);

/* An executor of the plan with the program's options; NULL after a message. */
qf_executor *tool_executor_open(const tool_device *device, const qf_plan *plan, bool time_steps);

#define TOOL_MOST_INPUTS 256

/* A plan that is run with inputs on the device. Closed also after a failure. */
typedef struct placed_run {
    tool_device *device;
    qf_executor *executor;
    qf_tensor inputs[TOOL_MOST_INPUTS];
    uint32_t input_count;
} placed_run;

bool placed_run_open(tool_device *device, const qf_plan *plan, bool time_steps, placed_run *out);
/* The next input; `host` stays the caller's, and is used as it is where the device has the host's memory. */
bool placed_run_bind(placed_run *run, const qf_tensor *host);
/* Output `index`, in host memory of its own. */
bool placed_run_get(const placed_run *run, uint32_t index, qf_tensor *out_host);
void placed_run_close(placed_run *run);

#endif
