/* Owns: the C text of an emitted plan: how to call it, images, launches, the code that makes them.
 * Does not own: what is launched (kernels/cuda), where memory stands (emit.c).
 * Next: emit.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/images.h"
#include "runtime/cuda/driver.h"
#include "runtime/emit.h"

/* Kernels of the file, each once. */
typedef struct kernel_entry {
    uint32_t image; /* index into qf_cuda_images */
    const char *name;
    uint32_t shared_bytes, cluster;
} kernel_entry;

typedef struct printer {
    qf_emission *at;
    qf_buffer *out;
    kernel_entry *kernels;
    uint32_t kernel_count, kernel_capacity;
} printer;

#define LINE(...) qf_buffer_print(print->out, __VA_ARGS__)

static void fail(printer *print, qf_status status) {
    if (print->at->status == QF_OK) print->at->status = status;
}

static const qf_cuda_ready *ready_at(const printer *print, uint32_t index) {
    return &print->at->device->actions.ready[index];
}

static uint32_t ready_count(const printer *print) {
    return print->at->device->actions.ready_count;
}

/* --- which kernels --- */

static uint32_t find_image(printer *print, const char *name) {
    for (uint32_t i = 0; i < qf_cuda_image_count; i++)
        if (strcmp(qf_cuda_images[i].name, name) == 0) return i;
    fail(print, qf_fail(print->at->context, QF_ERROR_DEVICE, NULL, "this build has no GPU kernel file \"%s\"%s", name,
                        qf_cuda_image_count ? "" : ": it was built without nvcc (QF_CUDA=OFF)"));
    return 0;
}

static uint32_t find_kernel(const printer *print, const qf_cuda_launch *launch) {
    uint32_t i = 0;
    while (i < print->kernel_count && (strcmp(print->kernels[i].name, launch->kernel) != 0 ||
                                       strcmp(qf_cuda_images[print->kernels[i].image].name, launch->image) != 0))
        i++;
    return i;
}

static void collect_kernels(printer *print) {
    for (uint32_t i = 0; i < ready_count(print) && print->at->status == QF_OK; i++) {
        const qf_cuda_action *action = ready_at(print, i)->action;
        if (action->kind == QF_CUDA_MATMUL) fail(print, QF_ERROR_INTERNAL); /* none was to be recorded */
        if (action->kind != QF_CUDA_LAUNCH) continue;
        const qf_cuda_launch *launch = &action->launch;
        uint32_t index = find_kernel(print, launch);
        if (index == print->kernel_count) {
            uint32_t image = find_image(print, launch->image);
            if (!QF_GROW(print->at->context, print->kernels, print->kernel_capacity, print->kernel_count + 1u)) {
                fail(print, QF_ERROR_OUT_OF_MEMORY);
                return;
            }
            print->kernels[print->kernel_count++] = (kernel_entry){.image = image, .name = launch->kernel};
        }
        kernel_entry *entry = print->kernels ? &print->kernels[index] : NULL;
        if (!entry) return;
        if (launch->shared_bytes > entry->shared_bytes) entry->shared_bytes = launch->shared_bytes;
        if (launch->cluster > entry->cluster) entry->cluster = launch->cluster;
    }
}

static bool uses_image(const printer *print, uint32_t image) {
    for (uint32_t i = 0; i < print->kernel_count; i++)
        if (print->kernels[i].image == image) return true;
    return false;
}

/* --- the head: what a caller needs to know --- */

static void print_bytes_of(printer *print, const char *what, uint32_t index, uint32_t name, uint32_t tensor,
                           const char *note) {
    const qf_plan *plan = print->at->plan;
    const qf_plan_tensor_record *record = qf_plan_tensor_at(plan, tensor);
    LINE(" *   %s[%" PRIu32 "]  ", what, index);
    for (const char *at = qf_plan_string(plan, name); *at; at++) /* what ends a comment does not end this one */
        LINE("%c", *at == '*' || *at == '/' || (unsigned char)*at < ' ' ? '_' : *at);
    LINE(": %s[", qf_dtype_name((qf_dtype)record->dtype));
    for (uint32_t i = 0; i < record->rank; i++)
        LINE("%s%" PRId64, i ? ", " : "",
             print->at->executor->values[plan->dims[record->first_dim + i].expression - 1]);
    LINE("], %" PRIu64 " bytes%s\n", print->at->executor->tensor_bytes[tensor - 1], note);
}

static void print_head(printer *print) {
    const qf_emission *at = print->at;
    const qf_plan *plan = at->plan;
    LINE("/* %s: a launch plan for %s, emitted by QFuse %s. Generated; edit the graph instead.\n *\n", at->name,
         qf_plan_target(plan), qf_version());
    LINE(" * Use, in the CUDA context that is current, linked with -lcuda:\n"
         " *   %s_open(&state)                                        loads the kernels\n"
         " *   %s_prepare(&state, workspace, stream)                  once for each workspace\n"
         " *   %s_run(&state, stream, inputs, outputs, weights, workspace)  as often as wanted; may be captured\n"
         " *   %s_close(&state)\n"
         " * Each returns a CUresult, 0 on success; state.where then names what failed. All pointers are the "
         "device's.\n",
         at->name, at->name, at->name, at->name);
    for (uint32_t i = 0; i < plan->input_count; i++)
        print_bytes_of(print, "inputs", i, plan->inputs[i].name, plan->inputs[i].tensor, "");
    for (uint32_t i = 0; i < plan->output_count; i++) {
        char note[80] = "";
        if (plan->outputs[i].in_place)
            (void)snprintf(note, sizeof note, "; lies in inputs[%" PRIu32 "], the pointer is not looked at",
                           plan->outputs[i].in_place - 1);
        print_bytes_of(print, "outputs", i, plan->outputs[i].name, plan->outputs[i].tensor, note);
    }
    for (uint32_t i = 0; i < plan->parameter_count; i++)
        print_bytes_of(print, "weights", i, plan->parameters[i].name, plan->parameters[i].tensor, "");
    LINE(" *   workspace: %" PRIu64 " bytes, aligned to 256 */\n", at->workspace_bytes);
    LINE("#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n");
}

/* --- arrays --- */

static void print_array(printer *print, const char *type, const char *name, uint32_t number, const unsigned char *data,
                        uint64_t size) {
    LINE("static const _Alignas(64) %s %s%" PRIu32 "[%" PRIu64 "] = {", type, name, number, size ? size : 1);
    for (uint64_t i = 0; i < size; i++) {
        if (i % 32 == 0) qf_buffer_append(print->out, "\n    ", 5);
        qf_buffer_unsigned(print->out, data[i]);
        qf_buffer_append(print->out, ",", 1);
    }
    LINE("%s};\n", size ? "" : "0");
}

/* The names of the driver's functions are those of its published ABI; types are given as far as they are used. */
static void print_driver(printer *print) {
    LINE("typedef struct qf_launch_attribute {\n    int id;\n    char padding[4];\n    union {\n        char "
         "bytes[64];\n"
         "        unsigned cluster[3];\n        int value;\n    } u;\n} qf_launch_attribute;\n"
         "typedef struct qf_launch_config {\n    unsigned grid[3], block[3], shared_bytes;\n    void *stream;\n"
         "    qf_launch_attribute *attributes;\n    unsigned attribute_count;\n} qf_launch_config;\n"
         "extern int cuCtxGetDevice(int *device);\n"
         "extern int cuDeviceGetAttribute(int *value, int attribute, int device);\n"
         "extern int cuModuleLoadData(void **module, const void *image);\n"
         "extern int cuModuleUnload(void *module);\n"
         "extern int cuModuleGetFunction(void **function, void *module, const char *name);\n"
         "extern int cuFuncSetAttribute(void *function, int attribute, int value);\n"
         "extern int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t size, void *stream);\n"
         "extern int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t size, void *stream);\n"
         "extern int cuMemsetD8Async(uintptr_t to, unsigned char value, size_t size, void *stream);\n"
         "extern int cuLaunchKernelEx(const qf_launch_config *config, void *function, void **parameters, void "
         "**extra);\n"
         "extern int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t "
         "*extents,\n"
         "                                  const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int "
         "interleave,\n"
         "                                  int swizzle, int promotion, int fill);\n\n");
}

static void print_types(printer *print) {
    LINE("/* An address of the caller's: a base pointer (inputs, outputs, weights, workspace, in this order) and an "
         "offset. */\n"
         "typedef struct address {\n    uint32_t base;\n    uint64_t offset;\n} address;\n"
         "typedef struct relocation {\n    uint32_t at; /* in the parameters */\n    address to;\n} relocation;\n"
         "typedef struct tensor_map {\n    uint32_t at, type, rank;\n    address to;\n    uint64_t extents[5], "
         "strides[4];\n"
         "    uint32_t box[5];\n    int swizzle, promotion;\n} tensor_map;\n"
         "typedef struct action {\n    int kernel; /* -1: a copy on the device */\n    unsigned grid[3], block[3], "
         "shared_bytes, cluster;\n"
         "    int dependent;\n    const unsigned char *parameters;\n    uint32_t parameters_size, relocation_count, "
         "map_count;\n"
         "    const relocation *relocations;\n    const tensor_map *maps;\n    address to, from;\n    size_t size;\n} "
         "action;\n\n");
}

/* --- one action --- */

static void print_address(printer *print, const void *address) {
    uint32_t base = 0;
    uint64_t offset = 0;
    if (!qf_emission_find(print->at, (uintptr_t)address, &base, &offset))
        fail(print, qf_fail(print->at->context, QF_ERROR_INTERNAL, NULL, "a launch refers to memory of no buffer"));
    LINE("{%" PRIu32 ", %" PRIu64 "u}", base, offset);
}

static bool in_map(const qf_cuda_launch *launch, size_t at) {
    for (const qf_cuda_tensor_map *map = launch->maps; map; map = map->next)
        if (at >= map->params_offset && at < map->params_offset + 128u) return true;
    return false;
}

static uint64_t word_at(const qf_cuda_launch *launch, size_t at) {
    uint64_t word;
    memcpy(&word, (const char *)launch->params + at, sizeof word);
    return word;
}

/* Pointers stand aligned in a C struct; whatever looks like one of our stand-ins is one. Returns how many. */
static uint32_t print_relocations(printer *print, const qf_cuda_launch *launch, uint32_t number) {
    uint32_t count = 0, base;
    uint64_t offset;
    for (size_t at = 0; at + 8 <= launch->params_size; at += 8)
        if (!in_map(launch, at) && qf_emission_find(print->at, (uintptr_t)word_at(launch, at), &base, &offset)) {
            if (!count++) LINE("static const relocation relocations%" PRIu32 "[] = {\n", number);
            LINE("    {%zu, {%" PRIu32 ", %" PRIu64 "u}},\n", at, base, offset);
        }
    if (count) LINE("};\n");
    return count;
}

static void print_parameters(printer *print, const qf_cuda_launch *launch, uint32_t number) {
    uint32_t base;
    uint64_t offset;
    unsigned char bytes[4096];
    size_t size = launch->params_size;
    if (size > sizeof bytes) {
        fail(print, QF_ERROR_INTERNAL);
        return;
    }
    memcpy(bytes, launch->params, size);
    for (size_t at = 0; at + 8 <= size; at += 8)
        if (!in_map(launch, at) && qf_emission_find(print->at, (uintptr_t)word_at(launch, at), &base, &offset))
            memset(bytes + at, 0, 8);
    while (size && !bytes[size - 1]) size--; /* the rest is zero in the program as well */
    print_array(print, "unsigned char", "parameters", number, bytes, size);
}

static uint32_t print_maps(printer *print, const qf_cuda_launch *launch, uint32_t number) {
    uint32_t count = 0;
    if (launch->maps) LINE("static const tensor_map maps%" PRIu32 "[] = {\n", number);
    for (const qf_cuda_tensor_map *map = launch->maps; map; map = map->next, count++) {
        LINE("    {%" PRIu32 ", %d, %" PRIu32 ", ", map->params_offset, map->element_bytes == 2 ? 1 : 0, map->rank);
        print_address(print, map->address);
        LINE(", {");
        for (int i = 0; i < 5; i++) LINE("%s%" PRIu64 "u", i ? ", " : "", map->extents[i]);
        LINE("}, {");
        for (int i = 0; i < 4; i++) LINE("%s%" PRIu64 "u", i ? ", " : "", map->strides[i]);
        LINE("}, {");
        for (int i = 0; i < 5; i++) LINE("%s%" PRIu32, i ? ", " : "", map->box[i]);
        LINE("}, %d, %d},\n", qf_cuda_swizzle_code(map), qf_cuda_promotion_code(map));
    }
    if (launch->maps) LINE("};\n");
    return count;
}

typedef struct counts {
    uint32_t relocations, maps;
} counts;

static void print_launch(printer *print, const qf_cuda_launch *launch, uint32_t number, counts has) {
    LINE("    {%" PRIu32 ", {%" PRIu32 ", %" PRIu32 ", %" PRIu32 "}, {%" PRIu32 ", %" PRIu32 ", %" PRIu32 "}, %" PRIu32
         ", %" PRIu32 ", %d, parameters%" PRIu32 ", sizeof parameters%" PRIu32 ", %" PRIu32 ", %" PRIu32 ", ",
         find_kernel(print, launch), launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
         launch->block[1], launch->block[2], launch->shared_bytes, launch->cluster, launch->dependent, number, number,
         has.relocations, has.maps);
    if (has.relocations)
        LINE("relocations%" PRIu32 ", ", number);
    else
        LINE("NULL, ");
    if (has.maps)
        LINE("maps%" PRIu32, number);
    else
        LINE("NULL");
    LINE(", {0, 0}, {0, 0}, 0},\n");
}

static void print_actions(printer *print) {
    uint32_t total = ready_count(print);
    counts *has = qf_allocate(print->at->context, (total + 1u) * sizeof *has);
    if (!has) {
        fail(print, QF_ERROR_OUT_OF_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < total; i++) {
        const qf_cuda_action *action = ready_at(print, i)->action;
        if (action->kind != QF_CUDA_LAUNCH) continue;
        print_parameters(print, &action->launch, i);
        has[i].relocations = print_relocations(print, &action->launch, i);
        has[i].maps = print_maps(print, &action->launch, i);
    }
    LINE("static const action actions[] = {\n");
    for (uint32_t i = 0; i < total; i++) {
        const qf_cuda_action *action = ready_at(print, i)->action;
        if (action->kind == QF_CUDA_LAUNCH) {
            print_launch(print, &action->launch, i, has[i]);
            continue;
        }
        LINE("    {-1, {0, 0, 0}, {0, 0, 0}, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL, ");
        print_address(print, action->copy.to);
        LINE(", ");
        print_address(print, action->copy.from);
        LINE(", %zu},\n", action->copy.size);
    }
    LINE("    {-2, {0, 0, 0}, {0, 0, 0}, 0, 0, 0, NULL, 0, 0, 0, NULL, NULL, {0, 0}, {0, 0}, 0}};\n");
    LINE("static const unsigned action_count = %" PRIu32 ";\n\n", total);
    qf_release(print->at->context, has, (total + 1u) * sizeof *has);
}

/* --- images and kernels --- */

static void print_kernels(printer *print) {
    for (uint32_t i = 0; i < qf_cuda_image_count; i++)
        if (uses_image(print, i)) {
            LINE("/* %s */\n", qf_cuda_images[i].name);
            print_array(print, "unsigned char", "image", i, qf_cuda_images[i].start,
                        (uint64_t)(qf_cuda_images[i].end - qf_cuda_images[i].start));
        }
    print_array(print, "unsigned char", "constants", 0, print->at->plan->bytes, print->at->plan->byte_size);
    LINE("static const unsigned char *const images[] = {");
    for (uint32_t i = 0; i < qf_cuda_image_count; i++)
        if (uses_image(print, i)) LINE("image%" PRIu32 ", ", i);
    LINE("NULL};\n");
    LINE("static const struct {\n    unsigned image;\n    const char *name;\n    int shared_bytes, cluster;\n} "
         "kernels[] = {\n");
    for (uint32_t i = 0; i < print->kernel_count; i++) {
        const kernel_entry *entry = &print->kernels[i];
        uint32_t place = 0;
        for (uint32_t j = 0; j < entry->image; j++) place += uses_image(print, j);
        LINE("    {%" PRIu32 ", \"%s\", %" PRIu32 ", %" PRIu32 "},\n", place, entry->name, entry->shared_bytes,
             entry->cluster);
    }
    LINE("    {0, NULL, 0, 0}};\n\n");
}

/* --- the code --- */

static void print_state(printer *print) {
    const qf_emission *at = print->at;
    uint32_t images = 0;
    for (uint32_t i = 0; i < qf_cuda_image_count; i++) images += uses_image(print, i);
    LINE("enum {\n    %s_input_count = %" PRIu32 ",\n    %s_output_count = %" PRIu32 ",\n    %s_weight_count = %" PRIu32
         "\n};\n",
         at->name, at->plan->input_count, at->name, at->plan->output_count, at->name, at->plan->parameter_count);
    LINE("const size_t %s_workspace_bytes = %" PRIu64 ";\n\n", at->name, at->workspace_bytes);
    LINE("typedef struct %s_state {\n    void *modules[%" PRIu32 "], *functions[%" PRIu32
         "];\n    const char *where;\n} %s_state;\n\n",
         at->name, images + 1, print->kernel_count + 1, at->name);
    LINE("int %s_open(%s_state *state);\nint %s_prepare(%s_state *state, void *workspace, void *stream);\n"
         "int %s_run(%s_state *state, void *stream, void *const *inputs, void *const *outputs, void *const *weights,\n"
         "        void *workspace);\nint %s_close(%s_state *state);\n\n",
         at->name, at->name, at->name, at->name, at->name, at->name, at->name, at->name);
}

static void print_open(printer *print) {
    const qf_emission *at = print->at;
    LINE("int %s_close(%s_state *state) {\n    int result = 0;\n"
         "    for (unsigned i = 0; images[i]; i++)\n        if (state->modules[i]) {\n"
         "            int ended = cuModuleUnload(state->modules[i]);\n            if (ended) result = ended;\n"
         "            state->modules[i] = NULL;\n        }\n    return result;\n}\n\n",
         at->name, at->name);
    LINE("int %s_open(%s_state *state) {\n    int device = 0, processors = 0, result;\n    memset(state, 0, sizeof "
         "*state);\n"
         "    state->where = \"asking for the device (is a context current?)\";\n"
         "    result = cuCtxGetDevice(&device);\n"
         "    if (!result) result = cuDeviceGetAttribute(&processors, 16, device);\n"
         "    if (!result && processors < %" PRIu32 ") {\n"
         "        state->where = \"the launches are shaped for %" PRIu32
         " multiprocessors or more\";\n        return 801;\n    }\n",
         at->name, at->name, at->device->processor_count, at->device->processor_count);
    LINE("    for (unsigned i = 0; !result && images[i]; i++) {\n        state->where = \"loading a kernel image (is "
         "the card "
         "a %s?)\";\n        result = cuModuleLoadData(&state->modules[i], images[i]);\n    }\n",
         qf_plan_target(at->plan));
    LINE("    for (unsigned i = 0; !result && kernels[i].name; i++) {\n        state->where = kernels[i].name;\n"
         "        result = cuModuleGetFunction(&state->functions[i], state->modules[kernels[i].image], "
         "kernels[i].name);\n"
         "        if (!result && kernels[i].shared_bytes)\n"
         "            result = cuFuncSetAttribute(state->functions[i], 8, kernels[i].shared_bytes);\n"
         "        if (!result && kernels[i].cluster > 8) result = cuFuncSetAttribute(state->functions[i], 14, 1);\n    "
         "}\n"
         "    if (result)\n        (void)%s_close(state);\n    else\n        state->where = \"\";\n    return "
         "result;\n}\n\n",
         at->name);
    LINE("int %s_prepare(%s_state *state, void *workspace, void *stream) {\n    int result = 0;\n"
         "    state->where = \"filling the workspace\";\n",
         at->name, at->name);
    if (at->device->zeroed_size)
        LINE("    result = cuMemsetD8Async((uintptr_t)workspace + %" PRIu64 "u, 0, %zu, stream);\n", at->zeroed_offset,
             at->device->zeroed_size);
    if (at->plan->byte_size)
        LINE("    if (!result)\n        result = cuMemcpyHtoDAsync_v2((uintptr_t)workspace + %" PRIu64
             "u, constants0, sizeof constants0, stream);\n",
             at->constants_offset);
    LINE("    (void)workspace, (void)stream, (void)constants0;\n    if (!result) state->where = \"\";\n    return "
         "result;\n}\n\n");
}

static void print_run(printer *print) {
    const qf_emission *at = print->at;
    LINE(
        "static void *place(void *const *bases, address to) {\n    return (char *)bases[to.base] + to.offset;\n}\n\n"
        "static int encode(const tensor_map *map, void *const *bases, unsigned char *parameters) {\n"
        "    static const uint32_t steps[5] = {1, 1, 1, 1, 1};\n"
        "    return cuTensorMapEncodeTiled(parameters + map->at, (int)map->type, map->rank, place(bases, map->to), "
        "map->extents,\n"
        "                                  map->strides, map->box, steps, 0, map->swizzle, map->promotion, 0);\n}\n\n");
    LINE("static int launch(void *function, const action *what, void *const *bases, void *stream) {\n"
         "    _Alignas(64) unsigned char parameters[4096] = {0};\n    void *arguments[] = {parameters};\n"
         "    qf_launch_attribute attributes[3];\n    qf_launch_config config;\n    int result = 0;\n"
         "    memset(attributes, 0, sizeof attributes);\n    memset(&config, 0, sizeof config);\n"
         "    memcpy(parameters, what->parameters, what->parameters_size);\n"
         "    for (uint32_t i = 0; i < what->relocation_count; i++) {\n"
         "        void *pointer = place(bases, what->relocations[i].to);\n"
         "        memcpy(parameters + what->relocations[i].at, &pointer, sizeof pointer);\n    }\n"
         "    for (uint32_t i = 0; !result && i < what->map_count; i++) result = encode(&what->maps[i], bases, "
         "parameters);\n"
         "    memcpy(config.grid, what->grid, sizeof config.grid);\n    memcpy(config.block, what->block, sizeof "
         "config.block);\n"
         "    config.shared_bytes = what->shared_bytes;\n    config.stream = stream;\n    config.attributes = "
         "attributes;\n");
    LINE("    if (what->dependent) {\n        attributes[config.attribute_count].id = 6;\n"
         "        attributes[config.attribute_count++].u.value = 1;\n    }\n"
         "    if (what->cluster) {\n        attributes[config.attribute_count].id = 4;\n"
         "        attributes[config.attribute_count].u.cluster[0] = what->cluster;\n"
         "        attributes[config.attribute_count].u.cluster[1] = 1;\n"
         "        attributes[config.attribute_count++].u.cluster[2] = 1;\n"
         "        attributes[config.attribute_count].id = 5;\n        attributes[config.attribute_count++].u.value = "
         "%d;\n    "
         "}\n"
         "    return result ? result : cuLaunchKernelEx(&config, function, arguments, NULL);\n}\n\n",
         QF_CU_CLUSTER_POLICY_LOAD_BALANCING);
    LINE("int %s_run(%s_state *state, void *stream, void *const *inputs, void *const *outputs, void *const *weights,\n"
         "        void *workspace) {\n"
         "    void *bases[%s_input_count + %s_output_count + %s_weight_count + 1];\n    int result = 0;\n    unsigned "
         "count = "
         "0;\n",
         at->name, at->name, at->name, at->name, at->name);
    if (at->plan->input_count)
        LINE("    for (int i = 0; i < %s_input_count; i++) bases[count++] = inputs[i];\n", at->name);
    if (at->plan->output_count)
        LINE("    for (int i = 0; i < %s_output_count; i++) bases[count++] = outputs[i];\n", at->name);
    if (at->plan->parameter_count)
        LINE("    for (int i = 0; i < %s_weight_count; i++) bases[count++] = weights[i];\n", at->name);
    LINE("    bases[count] = workspace;\n    (void)inputs, (void)outputs, (void)weights;\n"
         "    for (unsigned i = 0; !result && i < action_count; i++) {\n        const action *what = &actions[i];\n"
         "        state->where = what->kernel < 0 ? \"a copy\" : kernels[what->kernel].name;\n"
         "        if (what->kernel < 0)\n"
         "            result = cuMemcpyDtoDAsync_v2((uintptr_t)place(bases, what->to), (uintptr_t)place(bases, "
         "what->from), what->size,\n"
         "                                          stream);\n"
         "        else\n            result = launch(state->functions[what->kernel], what, bases, stream);\n    }\n"
         "    if (!result) state->where = \"\";\n    return result;\n}\n");
}

void qf_emission_print(qf_emission *at, qf_buffer *out) {
    printer self = {.at = at, .out = out}, *print = &self;
    collect_kernels(print);
    if (at->status == QF_OK) {
        print_head(print);
        print_driver(print);
        print_types(print);
        print_kernels(print);
        print_actions(print);
        print_state(print);
        print_open(print);
        print_run(print);
    }
    QF_FREE_ITEMS(at->context, print->kernels, print->kernel_capacity);
}
