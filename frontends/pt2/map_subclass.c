/* Owns: the mapping of the parts of tensor subclasses, which the archive stores as pickles.
 * Does not own: plain weights (weights.c).
 * Next: weights.c. */
#include <stdio.h>

#include "frontends/pt2/maps.h"

/* A parameter "weight.qdata" of the type that the program declares; its bytes are the host's to bind. */
qf_pt2_outcome qf_pt2_map_inner_tensor(qf_pt2_call *call) {
    qf_pt2_import *import = call->import;
    uint32_t tensor = qf_pt2_tensor_argument(call, "src_subclass_tensor");
    uint32_t source = tensor ? import->tensors[tensor].source : 0;
    const char *part = qf_pt2_string(call, "attr", "");
    if (!source || !*part || !call->output_count) return qf_pt2_decline(call, "it takes a part of what is no weight");
    const json_t *meta = qf_pt2_get(qf_pt2_get(call->scope->graph, "tensor_values"), call->output_names[0]);
    qf_type type = qf_pt2_meta_type(import, meta, call->where);
    char name[512];
    (void)snprintf(name, sizeof name, "%.380s.%.120s", import->sources[source - 1].foreign, part);
    qf_attribute attributes[QF_MAX_ATTRIBUTES];
    qf_pt2_defaults(call, QF_OP_parameter, attributes);
    attributes[QF_ATTR(parameter, name)].string = qf_intern_c(import->context, name);
    qf_node_spec spec = {
        .op = QF_OP_parameter, .attributes = attributes, .result_types = &type, .location = call->location};
    qf_node node = type.id ? qf_graph_insert(import->graph, (qf_node){0}, &spec) : (qf_node){0};
    return qf_pt2_done(call, node.id ? qf_node_result(import->graph, node, 0) : (qf_value){0});
}
