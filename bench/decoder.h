/* Owns: text of decoder graphs of any depth, as exporters write them: everything decomposed.
 * Does not own: measuring (compile_time.c).
 * Next: decoder.c. */
#ifndef QF_BENCH_DECODER_H
#define QF_BENCH_DECODER_H

#include "base/context.h"

/* Appends a graph of `layers` layers: RMS norm, rotary embedding, grouped heads by expand, FP8 K and V by
 * quantise/dequantise pairs, softmax attention under a causal mask, static FP8 quantisation by divide, clamp and cast,
 * gated MLP. About 85 nodes a layer. */
void decoder_text(qf_buffer *out, uint32_t layers);

#endif
