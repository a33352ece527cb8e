/* Owns: attentions whose result is read in parts, or as a part, before it is quantised: bringing quantise and attention
 * together. Does not own: the fusion itself (rules/attention.rules).
 * Next: parts.c (one quantise for all readers), parts_cut.c (an own one for each part). */
#ifndef QF_PATTERNS_PARTS_H
#define QF_PATTERNS_PARTS_H

#include "patterns/rules.h"

/* A static quantise of a whole tensor to FP8, as attention can do it. */
typedef struct qf_output_quantise {
    qf_dtype dtype;
    int64_t mode, compute;
    qf_value scale;
} qf_output_quantise;

bool qf_output_quantise_read(const qf_graph *graph, qf_node node, qf_output_quantise *out);
/* An attention whose float result may still be quantised. */
bool qf_awaits_quantise(const qf_graph *graph, qf_node node);

/* Where slices, splits, concatenations and masks that set rows to zero alone stand between attentions and equal
 * quantises, these move to the attention, and to what else is concatenated. Then, where the rows of an attention are
 * cut into parts and each is quantised by an own scale, the attention is cut as well: each part reads all keys. Both
 * are exact (but zero times infinity becomes zero); the rules of fuse_attention_quant take what comes out. *out_changed
 * is set, never cleared. */
qf_status qf_attention_quantise_parts(qf_graph *graph, const qf_rules_options *options, qf_report *report,
                                      bool *out_changed);
/* The second rewrite for one attention. False only on failure. */
bool qf_attention_cut_rows(qf_graph *graph, qf_node attention, const qf_rules_options *options, qf_report *report,
                           bool *out_changed);

#endif
