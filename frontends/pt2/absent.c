/* Owns: the torch.export entry points of a build without the frontend: each fails and says so.
 * Does not own: the frontend (import.c).
 * Next: frontends/CMakeLists.txt. */
#include <qfuse/pt2.h>

#include "base/context.h"

static qf_status absent(qf_context *context, qf_graph **out_graph) {
    if (!context || !out_graph) return QF_ERROR_INVALID_ARGUMENT;
    *out_graph = NULL;
    return qf_fail(context, QF_ERROR_UNSUPPORTED, NULL,
                   "this build of QFuse has no torch.export frontend: build with libzip and jansson installed");
}

qf_status qf_pt2_import_file(qf_context *context, const char *path, const qf_pt2_import_options *options,
                             qf_graph **out_graph) {
    (void)path;
    (void)options;
    return absent(context, out_graph);
}

qf_status qf_pt2_import_memory(qf_context *context, const void *data, size_t size, const qf_pt2_import_options *options,
                               qf_graph **out_graph) {
    (void)data;
    (void)size;
    (void)options;
    return absent(context, out_graph);
}
