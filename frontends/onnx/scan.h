/* Owns: the check of raw protobuf bytes before a library unpacks them, and the list of weights left out of unpacking.
 * Does not own: unpacking (model.c); what the fields mean.
 * Next: scan.c. */
#ifndef QF_FRONTENDS_ONNX_SCAN_H
#define QF_FRONTENDS_ONNX_SCAN_H

#include <protobuf-c/protobuf-c.h>

#include "base/context.h"

/* Messages nested deeper than this are refused. */
#define QF_ONNX_MAX_DEPTH     64
/* An input that would unpack to more than this many bytes a byte (plus the base) is refused. */
#define QF_ONNX_MEMORY_FACTOR 32
#define QF_ONNX_MEMORY_BASE   ((uint64_t)16 << 20)
/* Raw weights of at least this size are not unpacked (which would copy them) but read where they lie. */
#define QF_ONNX_CUT_BYTES     64

/* raw_data of one initialiser of the main graph, by its place in the list of initialisers. */
typedef struct qf_onnx_cut {
    uint32_t initializer;
    uint64_t field_begin;              /* of the tag of raw_data */
    uint64_t offset, size;             /* of the bytes themselves */
    uint64_t tensor_begin, tensor_end; /* the TensorProto's payload */
} qf_onnx_cut;

typedef struct qf_onnx_scan {
    qf_context *context;
    const char *name; /* for messages */
    const uint8_t *data;
    uint64_t size, max_nodes;
    uint64_t nodes, estimate;
    uint64_t graph_begin, graph_end; /* payload of the model's graph; equal when there is none */
    qf_onnx_cut *cuts;
    uint32_t cut_count, cut_capacity;
    uint32_t initializers;
} qf_onnx_scan;

/* Walks `data` as a message of `descriptor`: lengths within bounds, depth, known wire types, number of nodes, and an
 * upper bound of what protobuf-c will allocate. One located failure, or QF_OK. The caller frees with
 * qf_onnx_scan_destroy. */
qf_status qf_onnx_scan_bytes(qf_onnx_scan *scan, const ProtobufCMessageDescriptor *descriptor);
/* Appends the scanned bytes without the cut weights to `out`. */
void qf_onnx_scan_skeleton(const qf_onnx_scan *scan, qf_buffer *out);
void qf_onnx_scan_destroy(qf_onnx_scan *scan);

#endif
