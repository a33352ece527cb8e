/* Owns: the check of raw protobuf bytes before a library unpacks them.
 * Does not own: unpacking (model.c).
 * Next: model.c. */
#include "frontends/onnx/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "frontends/onnx/proto.h"

/* protobuf-c keeps a record of this size for each field while it parses a message. */
#define SCANNED_FIELD_BYTES    64
/* Allocations are rounded up to 16 bytes (model.c). */
#define ALLOCATION_BYTES(size) (((uint64_t)(size) + 31) & ~(uint64_t)15)

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5, TENSOR_RAW_DATA = 9 };

static qf_status fault(const qf_onnx_scan *scan, uint64_t at, qf_status status, const char *text) {
    char location[512];
    (void)snprintf(location, sizeof location, "%s: byte %" PRIu64, scan->name, at);
    qf_position position = {.location = location};
    return qf_fail(scan->context, status, &position, "%s", text);
}

static bool read_varint(const uint8_t *data, uint64_t end, uint64_t *at, uint64_t *out) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 70 && *at < end; shift += 7) {
        uint8_t byte = data[(*at)++];
        if (shift < 64) value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

typedef struct field {
    uint64_t begin; /* of the tag */
    uint32_t number, wire;
    uint64_t payload, size; /* WIRE_BYTES: where the bytes are; others: the encoded value */
} field;

/* Reads the field at *at and advances past it. NULL, or what is wrong. */
static const char *read_field(const uint8_t *data, uint64_t end, uint64_t *at, field *out) {
    out->begin = *at;
    uint64_t tag, length;
    if (!read_varint(data, end, at, &tag)) return "expected a field's tag, found the end or more than ten bytes";
    out->wire = (uint32_t)(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return "expected a field number from 1 to 536870911";
    out->number = (uint32_t)(tag >> 3);
    out->payload = *at;
    switch (out->wire) {
    case WIRE_VARINT:
        if (!read_varint(data, end, at, &length)) return "expected an integer, found the end or more than ten bytes";
        break;
    case WIRE_64:
    case WIRE_32:
        length = out->wire == WIRE_64 ? 8 : 4;
        if (end - *at < length) return "the file ends inside a number";
        *at += length;
        break;
    case WIRE_BYTES:
        if (!read_varint(data, end, at, &length)) return "expected a length, found the end or more than ten bytes";
        if (length > end - *at) return "a field's length reaches past the end of its message";
        out->payload = *at;
        *at += length;
        break;
    default: return "expected wire type 0, 1, 2 or 5; the file is no ONNX model or is damaged";
    }
    out->size = *at - out->payload;
    return NULL;
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *message, uint32_t number) {
    return protobuf_c_message_descriptor_get_field(message, number);
}

/* Bytes that protobuf-c allocates for one occurrence of a field, its own submessages not counted. */
static uint64_t field_estimate(const ProtobufCFieldDescriptor *descriptor, const field *item) {
    uint64_t bytes = SCANNED_FIELD_BYTES;
    if (!descriptor) return bytes + ALLOCATION_BYTES(item->size) + 32;
    if (descriptor->label == PROTOBUF_C_LABEL_REPEATED) {
        bool numbers = descriptor->type != PROTOBUF_C_TYPE_STRING && descriptor->type != PROTOBUF_C_TYPE_BYTES &&
                       descriptor->type != PROTOBUF_C_TYPE_MESSAGE;
        bytes += numbers && item->wire == WIRE_BYTES ? item->size * 8 : 16;
    }
    if (descriptor->type == PROTOBUF_C_TYPE_STRING || descriptor->type == PROTOBUF_C_TYPE_BYTES)
        bytes += ALLOCATION_BYTES(item->size + 1);
    if (descriptor->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessageDescriptor *message = descriptor->descriptor;
        bytes += ALLOCATION_BYTES(message->sizeof_message);
    }
    return bytes;
}

/* Where in the model a message stands, as far as weights are concerned. */
typedef enum place { PLACE_MODEL, PLACE_GRAPH, PLACE_INITIALIZER, PLACE_OTHER } place;

static place place_below(place above, uint32_t number) {
    if (above == PLACE_MODEL && number == MODEL_GRAPH) return PLACE_GRAPH;
    if (above == PLACE_GRAPH && number == GRAPH_INITIALIZER) return PLACE_INITIALIZER;
    return PLACE_OTHER;
}

static qf_status note_message(qf_onnx_scan *scan, const ProtobufCMessageDescriptor *message, place where,
                              const field *item) {
    if (message == &onnx__node_proto__descriptor && ++scan->nodes > scan->max_nodes)
        return fault(scan, item->begin, QF_ERROR_LIMIT, "the model has more nodes than the limit allows");
    if (where == PLACE_GRAPH) {
        if (scan->graph_begin != scan->graph_end)
            return fault(scan, item->begin, QF_ERROR_PARSE, "the model has a second graph; expected one");
        scan->graph_begin = item->payload;
        scan->graph_end = item->payload + item->size;
    }
    if (where == PLACE_INITIALIZER) scan->initializers++;
    return QF_OK;
}

static qf_status scan_message(qf_onnx_scan *scan, const ProtobufCMessageDescriptor *message, place where,
                              uint64_t begin, uint64_t end, uint32_t depth) {
    if (depth > QF_ONNX_MAX_DEPTH) return fault(scan, begin, QF_ERROR_LIMIT, "messages are nested more than 64 deep");
    uint32_t raw_fields = 0;
    for (uint64_t at = begin; at < end;) {
        field item;
        const char *wrong = read_field(scan->data, end, &at, &item);
        if (wrong) return fault(scan, item.begin, QF_ERROR_PARSE, wrong);
        const ProtobufCFieldDescriptor *descriptor = field_of(message, item.number);
        bool message_field = descriptor && descriptor->type == PROTOBUF_C_TYPE_MESSAGE && item.wire == WIRE_BYTES;
        if (where == PLACE_INITIALIZER && item.number == TENSOR_RAW_DATA && item.wire == WIRE_BYTES) {
            if (++raw_fields > 1) return fault(scan, item.begin, QF_ERROR_PARSE, "a tensor has raw_data twice");
            if (item.size >= QF_ONNX_CUT_BYTES) {
                if (!QF_GROW(scan->context, scan->cuts, scan->cut_capacity, (uint64_t)scan->cut_count + 1))
                    return QF_ERROR_OUT_OF_MEMORY;
                scan->cuts[scan->cut_count++] = (qf_onnx_cut){.initializer = scan->initializers - 1,
                                                              .field_begin = item.begin,
                                                              .offset = item.payload,
                                                              .size = item.size,
                                                              .tensor_begin = begin,
                                                              .tensor_end = end};
                continue;
            }
        }
        scan->estimate += field_estimate(descriptor, &item);
        if (scan->estimate > scan->size * QF_ONNX_MEMORY_FACTOR + QF_ONNX_MEMORY_BASE)
            return fault(scan, item.begin, QF_ERROR_LIMIT,
                         "unpacking would take more than 32 bytes of memory for each byte of the model");
        if (!message_field) continue;
        place below = place_below(where, item.number);
        qf_status status = note_message(scan, descriptor->descriptor, below, &item);
        if (status == QF_OK)
            status =
                scan_message(scan, descriptor->descriptor, below, item.payload, item.payload + item.size, depth + 1);
        if (status != QF_OK) return status;
    }
    return QF_OK;
}

qf_status qf_onnx_scan_bytes(qf_onnx_scan *scan, const ProtobufCMessageDescriptor *descriptor) {
    place where = descriptor == &onnx__model_proto__descriptor ? PLACE_MODEL : PLACE_OTHER;
    return scan_message(scan, descriptor, where, 0, scan->size, 1);
}

static void append_varint(qf_buffer *out, uint64_t value) {
    uint8_t bytes[10];
    size_t count = 0;
    do {
        bytes[count++] = (uint8_t)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        value >>= 7;
    } while (value);
    qf_buffer_append(out, bytes, count);
}

static void append_header(qf_buffer *out, uint32_t number, uint64_t size) {
    append_varint(out, (uint64_t)number << 3 | WIRE_BYTES);
    append_varint(out, size);
}

/* The graph's payload without the cut bytes. Between two cuts the bytes are copied as they are, except for the headers
 * of the tensors, whose lengths change. */
static void append_graph(const qf_onnx_scan *scan, qf_buffer *out) {
    uint32_t cut = 0;
    uint64_t at = scan->graph_begin;
    while (at < scan->graph_end) {
        field item;
        if (read_field(scan->data, scan->graph_end, &at, &item)) return; /* checked by the scan */
        bool shortened = cut < scan->cut_count && item.wire == WIRE_BYTES && item.number == GRAPH_INITIALIZER &&
                         scan->cuts[cut].tensor_begin == item.payload && scan->cuts[cut].tensor_end == at;
        if (!shortened) {
            qf_buffer_append(out, scan->data + item.begin, (size_t)(at - item.begin));
            continue;
        }
        const qf_onnx_cut *hole = &scan->cuts[cut++];
        uint64_t before = hole->field_begin - item.payload, after = hole->tensor_end - (hole->offset + hole->size);
        append_header(out, GRAPH_INITIALIZER, before + after);
        qf_buffer_append(out, scan->data + item.payload, (size_t)before);
        qf_buffer_append(out, scan->data + hole->offset + hole->size, (size_t)after);
    }
}

void qf_onnx_scan_skeleton(const qf_onnx_scan *scan, qf_buffer *out) {
    qf_buffer graph = {.context = scan->context};
    append_graph(scan, &graph);
    for (uint64_t at = 0; at < scan->size;) {
        field item;
        if (read_field(scan->data, scan->size, &at, &item)) break;
        if (item.number == MODEL_GRAPH && item.wire == WIRE_BYTES) {
            append_header(out, MODEL_GRAPH, graph.size);
            qf_buffer_append(out, graph.data, graph.size);
        } else {
            qf_buffer_append(out, scan->data + item.begin, (size_t)(at - item.begin));
        }
    }
    if (graph.failed) out->failed = true;
    qf_buffer_destroy(&graph);
}

void qf_onnx_scan_destroy(qf_onnx_scan *scan) {
    QF_FREE_ITEMS(scan->context, scan->cuts, scan->cut_capacity);
}
