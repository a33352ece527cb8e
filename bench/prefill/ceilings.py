# Owns: the FP8 matrix-product ceiling of the card, through PyTorch's cuBLASLt, for the run that times our kernels.
# Does not own: our kernels' times (prefill_bench.cu). Next: bench/RESULTS.md.
import subprocess

import torch


def clock_and_power():
    query = "clocks.sm,power.draw"
    return subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True,
                          text=True).stdout.strip()


def time_product(size, fast):
    a = torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    run = lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)
    for _ in range(10):
        run()
    times = []
    for _ in range(9):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(10):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 10)
    state = clock_and_power()
    milliseconds = sorted(times)[4]
    print(f"FP8 product {size}^3 {'fast' if fast else 'full'} accumulation: {2 * size**3 / milliseconds * 1e-9:.0f} TFLOPS ({state})")


for size in (8192,):
    for fast in (False, True):
        time_product(size, fast)
