# Owns: the ceilings and peers that PyTorch and cuDNN give on the card, for the run that times our kernels: the FP8 matrix
# product of cuBLASLt, cuDNN's FP8 and bf16 attention. Does not own: our kernels' times (prefill_bench.cu).
# Next: bench/RESULTS.md. Usage: peers.py [product] [fp8] [bf16]; needs torch and nvidia-cudnn-frontend.
import math
import subprocess
import sys

import torch

CELLS = [(16, 1024, 16, 16, 128), (4, 4096, 16, 16, 128), (1, 16384, 16, 16, 128), (4, 4096, 32, 8, 128),
         (1, 8192, 32, 8, 128), (1, 16384, 32, 8, 128), (1, 2048, 32, 8, 128), (1, 1024, 32, 8, 128),
         (4, 4096, 32, 32, 64), (1, 16384, 32, 32, 64), (4, 4096, 8, 8, 256), (1, 16384, 8, 8, 256)]


def clock_and_power():
    return subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"],
                          capture_output=True, text=True).stdout.strip()


def median_ms(run, flop):
    """Median of nine timings of some 5 ms each, after 40 ms of warming up, and the card's state at the end."""
    launches = max(1, min(200, int(5e-3 / (flop / 8e14))))
    for _ in range(max(3, int(8 * launches))):
        run()
    times = []
    for _ in range(9):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(launches):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / launches)
    return sorted(times)[4]


def product():
    size = 8192
    a = torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    flop = 2 * size**3
    for fast in (False, True):
        ms = median_ms(lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast), flop)
        print(f"FP8 product {size}^3 {'fast' if fast else 'full'} accumulation: {flop / ms * 1e-9:.0f} TFLOPS ({clock_and_power()})")


def attention(fp8):
    import cudnn
    print("cuDNN", cudnn.backend_version(), "FP8 in and out" if fp8 else "bf16")
    handle = cudnn.create_handle()
    cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
    kind = cudnn.data_type.FP8_E4M3 if fp8 else cudnn.data_type.BFLOAT16
    dtype = torch.float8_e4m3fn if fp8 else torch.bfloat16
    for batch, tokens, heads, kv_heads, dim in CELLS:
        for causal in (False, True):
            try:
                graph = cudnn.pygraph(handle=handle, io_data_type=kind, intermediate_data_type=cudnn.data_type.FLOAT,
                                      compute_data_type=cudnn.data_type.FLOAT)
                data = {}

                def tensor(name, count):
                    data[name] = torch.randn(batch, tokens, count, dim, device="cuda").to(dtype)
                    return graph.tensor(name=name, dim=[batch, count, tokens, dim],
                                        stride=[tokens * count * dim, dim, count * dim, 1], data_type=kind)

                def scalar(name):
                    data[name] = torch.ones(1, 1, 1, 1, device="cuda")
                    return graph.tensor(name=name, dim=[1, 1, 1, 1], stride=[1, 1, 1, 1],
                                        data_type=cudnn.data_type.FLOAT)

                q, k, v = tensor("q", heads), tensor("k", kv_heads), tensor("v", kv_heads)
                scale = 1 / math.sqrt(dim)
                pack, names = {q: data["q"], k: data["k"], v: data["v"]}, []
                if fp8:
                    scales = {n: scalar(n) for n in ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")}
                    pack.update({t: data[n] for n, t in scales.items()})
                    results = graph.sdpa_fp8(q=q, k=k, v=v, **scales, attn_scale=scale, use_causal_mask=causal,
                                             generate_stats=False)
                    for amax in results[2:4]:
                        amax.set_output(True).set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1]).set_data_type(cudnn.data_type.FLOAT)
                        pack[amax] = torch.zeros(1, 1, 1, 1, device="cuda")
                else:
                    results = graph.sdpa(q=q, k=k, v=v, attn_scale=scale, use_causal_mask=causal, generate_stats=False)
                out = results[0]
                out.set_output(True).set_dim([batch, heads, tokens, dim]).set_stride(
                    [tokens * heads * dim, dim, heads * dim, 1]).set_data_type(kind)
                pack[out] = torch.empty(batch, tokens, heads, dim, device="cuda", dtype=dtype)
                graph.validate()
                graph.build_operation_graph()
                graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
                graph.check_support()
                graph.build_plans()
                workspace = torch.empty(max(graph.get_workspace_size(), 1), device="cuda", dtype=torch.uint8)
                flop = 4 * batch * tokens * tokens * dim * heads * (0.5 if causal else 1)
                ms = median_ms(lambda: graph.execute(pack, workspace, handle=handle), flop)
                print(f"{batch}x{tokens} {heads}/{kv_heads} d{dim:<4} {'causal' if causal else 'full':<7} {ms * 1e3:10.2f} us "
                      f"{flop / ms * 1e-9:6.0f} TFLOPS ({clock_and_power()})", flush=True)
            except Exception as error:
                print(f"{batch}x{tokens} {heads}/{kv_heads} d{dim} failed: {str(error).splitlines()[0][:200]}")


wanted = sys.argv[1:] or ["product", "fp8", "bf16"]
if "product" in wanted:
    product()
if "fp8" in wanted:
    attention(True)
if "bf16" in wanted:
    attention(False)
