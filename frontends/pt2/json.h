/* Owns: reading JSON within limits, and looking into it without a check at every step.
 * Does not own: what the documents mean (import.c, weights.c).
 * Next: json.c. */
#ifndef QF_FRONTENDS_PT2_JSON_H
#define QF_FRONTENDS_PT2_JSON_H

#include <jansson.h>

#include "base/context.h"

/* Nesting of arrays and objects; checked on the bytes before jansson reads them. A subgraph takes eight levels. */
#define QF_PT2_MAX_DEPTH 128

/* The document, to be freed with json_decref. NULL after a located failure. */
json_t *qf_pt2_json_parse(qf_context *context, const char *location, const uint8_t *data, uint64_t size);

/* All of these accept NULL and other kinds of values. */
static inline const char *qf_pt2_text(const json_t *value) { /* "" where it is no string */
    const char *text = json_string_value(value);
    return text ? text : "";
}
static inline json_t *qf_pt2_get(const json_t *object, const char *key) {
    return json_object_get(object, key);
}
/* The single member of an object that stands for a union; NULL where it has none or several. */
json_t *qf_pt2_union(const json_t *value, const char **out_key);
/* The name of {"as_tensor": {"name": ...}} or {"name": ...}; "" where there is none. */
const char *qf_pt2_name_of(const json_t *value);

#endif
