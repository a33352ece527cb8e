/* Owns: the text of one decoder layer, and what stands around the layers.
 * Does not own: the language (docs/ir.md).
 * Next: decoder.h. */
#include "decoder.h"

/* %u is replaced by the layer's number: printf gets it once for each. Layer input is %x<n>, output %x<n+1>. */
#define NORM(in, out, weight)                                                                                          \
    "  %%" out "a%1$u = cast %%" in " {dtype=f32}\n"                                                                   \
    "  %%" out "b%1$u = mul %%" out "a%1$u, %%" out "a%1$u\n"                                                          \
    "  %%" out "c%1$u = reduce_mean %%" out "b%1$u {axes=[2]}\n"                                                       \
    "  %%" out "d%1$u = add %%" out "c%1$u, %%eps\n"                                                                   \
    "  %%" out "e%1$u = rsqrt %%" out "d%1$u\n"                                                                        \
    "  %%" out "f%1$u = mul %%" out "a%1$u, %%" out "e%1$u\n"                                                          \
    "  %%" out "g%1$u = cast %%" out "f%1$u {dtype=f16}\n"                                                             \
    "  %%" weight "%1$u = parameter {name=\"layer%1$u." weight "\"} : f16[4096]\n"                                     \
    "  %%" out "%1$u = mul %%" out "g%1$u, %%" weight "%1$u\n"

#define LINEAR(in, out, weight, rows, columns)                                                                         \
    "  %%" weight "%1$u = parameter {name=\"layer%1$u." weight "\"} : f16[" rows ", " columns "]\n"                    \
    "  %%" out "%1$u = contract %%" in "%1$u, %%" weight "%1$u {equation=\"bti,io->bto\"}\n"

#define HEADS(in, out, heads)                                                                                          \
    "  %%" out "v%1$u = view %%" in "%1$u {shape=[B, T, " heads ", 128]}\n"                                            \
    "  %%" out "%1$u = permute %%" out "v%1$u {order=[0, 2, 1, 3]}\n"

#define ROTATE(in, out, heads)                                                                                         \
    "  %%" out "l%1$u = slice %%" in "%1$u {starts=[0, 0, 0, 0], ends=[B, " heads ", T, 64], steps=[1, 1, 1, 1]}\n"    \
    "  %%" out "h%1$u = slice %%" in "%1$u {starts=[0, 0, 0, 64], ends=[B, " heads ", T, 128], steps=[1, 1, 1, 1]}\n"  \
    "  %%" out "n%1$u = neg %%" out "h%1$u\n"                                                                          \
    "  %%" out "r%1$u = concat %%" out "n%1$u, %%" out "l%1$u {axis=3}\n"                                              \
    "  %%" out "c%1$u = mul %%" in "%1$u, %%cos\n"                                                                     \
    "  %%" out "s%1$u = mul %%" out "r%1$u, %%sin\n"                                                                   \
    "  %%" out "%1$u = add %%" out "c%1$u, %%" out "s%1$u\n"

#define FP8_PAIR(in, out, scale)                                                                                       \
    "  %%" scale "%1$u = constant {value=f32[] 0.0625}\n"                                                              \
    "  %%" out "q%1$u = quantize %%" in "%1$u, %%" scale "%1$u {dtype=f8E4M3FN}\n"                                     \
    "  %%" out "%1$u = dequantize %%" out "q%1$u, %%" scale "%1$u {dtype=f16}\n"

#define REPEAT(in, out)                                                                                                \
    "  %%" out "a%1$u = view %%" in "%1$u {shape=[B, 8, 1, T, 128]}\n"                                                 \
    "  %%" out "b%1$u = expand %%" out "a%1$u {shape=[B, 8, 4, T, 128]}\n"                                             \
    "  %%" out "%1$u = view %%" out "b%1$u {shape=[B, 32, T, 128]}\n"

#define STATIC_QUANT(in, out, scale)                                                                                   \
    "  %%" scale "%1$u = constant {value=f32[] 0.125}\n"                                                               \
    "  %%" out "w%1$u = cast %%" in "%1$u {dtype=f32}\n"                                                               \
    "  %%" out "x%1$u = div %%" out "w%1$u, %%" scale "%1$u\n"                                                         \
    "  %%" out "y%1$u = clamp %%" out "x%1$u, low=%%lowest, high=%%highest\n"                                          \
    "  %%" out "z%1$u = cast %%" out "y%1$u {dtype=f8E4M3FN}\n"                                                        \
    "  %%" out "%1$u = dequantize %%" out "z%1$u, %%" scale "%1$u {dtype=f16}\n"

static const char attention_part[] = NORM("x%1$u", "h", "wn") LINEAR("h", "qp", "wq", "4096", "4096")
    LINEAR("h", "kp", "wk", "4096", "1024") LINEAR("h", "vp", "wv", "4096", "1024") HEADS("qp", "qh", "32")
        HEADS("kp", "kh", "8") HEADS("vp", "vh", "8") ROTATE("qh", "qr", "32") ROTATE("kh", "kr", "8")
            FP8_PAIR("kr", "kd", "ks") FP8_PAIR("vh", "vd", "vs") REPEAT("kd", "ke")
                REPEAT("vd", "ve") "  %%kt%1$u = permute %%ke%1$u {order=[0, 1, 3, 2]}\n"
                                   "  %%sa%1$u = contract %%qr%1$u, %%kt%1$u {equation=\"bhtd,bhds->bhts\"}\n"
                                   "  %%sb%1$u = mul %%sa%1$u, %%scale\n"
                                   "  %%sc%1$u = add %%sb%1$u, %%mask\n"
                                   "  %%sd%1$u = cast %%sc%1$u {dtype=f32}\n"
                                   "  %%se%1$u = softmax %%sd%1$u {axis=3}\n"
                                   "  %%sf%1$u = cast %%se%1$u {dtype=f16}\n"
                                   "  %%oa%1$u = contract %%sf%1$u, %%ve%1$u {equation=\"bhts,bhsd->bhtd\"}\n"
                                   "  %%ob%1$u = permute %%oa%1$u {order=[0, 2, 1, 3]}\n"
                                   "  %%oc%1$u = view %%ob%1$u {shape=[B, T, 4096]}\n" STATIC_QUANT("oc", "od", "os")
                                       LINEAR("od", "oe", "wo", "4096", "4096") "  %%y%1$u = add %%x%1$u, %%oe%1$u\n";

static const char mlp_part[] =
    NORM("y%1$u", "m", "wm") STATIC_QUANT("m", "mi", "ms") LINEAR("mi", "ga", "wg", "4096", "11008")
        LINEAR("mi", "up", "wu", "4096",
               "11008") "  %%gs%1$u = sigmoid %%ga%1$u\n"
                        "  %%gm%1$u = mul %%ga%1$u, %%gs%1$u\n"
                        "  %%gu%1$u = mul %%gm%1$u, %%up%1$u\n" LINEAR("gu", "dn", "wd", "11008",
                                                                       "4096") "  %%x%2$u = add %%y%1$u, %%dn%1$u\n";

void decoder_text(qf_buffer *out, uint32_t layers) {
    qf_buffer_print(out, "%s",
                    "graph @decoder(%x0: f16[B, T, 4096], %cos: f16[B, 1, T, 128], %sin: f16[B, 1, T, 128]) "
                    "symbols(B min 1, T min 1) {\n"
                    "  %eps = constant {value=f32[] 1e-05}\n"
                    "  %scale = constant {value=f16[] 0.08837890625}\n"
                    "  %lowest = constant {value=f32[] -448.0}\n"
                    "  %highest = constant {value=f32[] 448.0}\n"
                    "  %zero = constant {value=f16[] 0.0}\n"
                    "  %fill = constant {value=f16[] -65504.0}\n"
                    "  %row = iota {shape=[T, 1], axis=0}\n"
                    "  %column = iota {shape=[1, T], axis=1}\n"
                    "  %keep = less_equal %column, %row\n"
                    "  %mask = where %keep, %zero, %fill\n");
    for (uint32_t i = 0; i < layers; i++) {
        qf_buffer_print(out, attention_part, i);
        qf_buffer_print(out, mlp_part, i, i + 1);
    }
    qf_buffer_print(out, "  return %%x%u as \"hidden\"\n}\n", layers);
}
