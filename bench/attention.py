#!/usr/bin/env python3
# Owns: QFuse's attention beside cuDNN's and PyTorch's in one process, in turns: a table of FP8, a table of bf16.
# Does not own: benches without Python (`qfuse bench`), the record of results (RESULTS.md).
# Next: docs/gpu.md. Usage: attention.py --library=libqfuse.so.0 [--only=PART] [--rounds=N] [--launches=N]
"""Times attention on the GPU that PyTorch sees: FP8 q, k, v with an FP8 result and per-tensor scales, then bf16 throughout.

Needs PyTorch with CUDA; cuDNN's needs the package nvidia-cudnn-frontend. What is missing is named in the table's head and its column stays
empty. All are called on one stream, each replayed from a CUDA graph of as many launches as take some milliseconds (--launches: so many), one
after another within a round, so that they meet the same temperature and power; a figure is the median over the rounds. MHz is the mean of the
multiprocessors' clock while the contender's own launches ran, W the board's power when the row ended (the driver's mean over some time, so
of all contenders). `err` is the relative RMS difference of the dequantised result from f32 attention on dequantised inputs; `ratio`
is the time of the fastest other contender over QFuse's.
"""
import argparse
import ctypes
import statistics
import sys

OK, CUDA = 0, 2  # qf_status, DLPack's device type


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


try:
    import torch
except ImportError as fault:
    skip(f"PyTorch cannot be imported: {fault}")
if not torch.cuda.is_available():
    skip("PyTorch sees no GPU")
try:
    import cudnn

    CUDNN_MISSING = ""
except ImportError as fault:
    cudnn, CUDNN_MISSING = None, f"package nvidia-cudnn-frontend: {fault}"


class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_uint32), ("dims", ctypes.c_int64 * 8), ("data", ctypes.c_void_p),
                ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class ExecutorOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("device", ctypes.c_char_p), ("thread_count", ctypes.c_uint32),
                ("weights_root", ctypes.c_char_p), ("time_steps", ctypes.c_bool), ("check_hashes", ctypes.c_bool),
                ("stream", ctypes.c_void_p), ("device_id", ctypes.c_int32)]


class CompileOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("target", ctypes.c_char_p), ("pipeline", ctypes.c_char_p),
                ("numerics", ctypes.c_char_p), ("rules", ctypes.c_char_p), ("source", ctypes.c_void_p)]


class Diagnostic(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("severity", ctypes.c_int), ("status", ctypes.c_int), ("location", ctypes.c_char_p),
                ("message", ctypes.c_char_p)]  # and more, which is not read here


Handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Diagnostic))


class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("reallocate", ctypes.c_void_p), ("allocator_user", ctypes.c_void_p), ("handler", Handler),
                ("handler_user", ctypes.c_void_p)]


class Library:
    """The functions that are needed, and a context that keeps its messages."""

    def __init__(self, path):
        # The run-time half lies beside it.
        self.runtime = ctypes.CDLL(path.replace("libqfuse.so", "libqfuse_rt.so"), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self.messages = []
        self.handler = Handler(lambda _, diagnostic: self.messages.append(diagnostic.contents.message.decode()))
        self.context = ctypes.c_void_p()
        options = ContextOptions(struct_size=ctypes.sizeof(ContextOptions), handler=self.handler)
        self.check(self.runtime.qf_context_create(ctypes.byref(options), ctypes.byref(self.context)), "a context")

    def check(self, status, what):
        if status != OK:
            said, self.messages = "; ".join(self.messages), []
            raise RuntimeError(f"{what}: status {status}: {said}")

    def plan(self, text, target):
        graph, plan = ctypes.c_void_p(), ctypes.c_void_p()
        data = text.encode()
        self.check(self.library.qf_graph_from_text(self.context, data, ctypes.c_size_t(len(data)), b"bench", ctypes.byref(graph)), "the graph")
        options = CompileOptions(struct_size=ctypes.sizeof(CompileOptions), target=target.encode())
        self.check(self.library.qf_compile(graph, ctypes.byref(options), ctypes.byref(plan)), "compiling")
        return plan

    def executor(self, plan, stream):
        made = ctypes.c_void_p()
        options = ExecutorOptions(struct_size=ctypes.sizeof(ExecutorOptions), device=b"cuda", stream=stream)
        self.check(self.runtime.qf_executor_create(self.context, plan, ctypes.byref(options), ctypes.byref(made)), "an executor")
        return made

    def bind(self, executor, function, index, tensor, dtype):
        made = Tensor(dtype=dtype, rank=tensor.dim(), data=tensor.data_ptr(), device_type=CUDA, device_id=tensor.device.index)
        for i, size in enumerate(tensor.shape):
            made.dims[i] = size
        self.check(function(executor, index, ctypes.byref(made)), f"binding {index}")


F32, BF16, E4M3 = 1, 3, 4  # qf_dtype
SCALES = dict(q=0.011, k=0.013, v=0.017)


class Shape:
    def __init__(self, batch, length, heads, kv_heads, dim, causal):
        self.batch, self.length, self.heads, self.kv_heads, self.dim, self.causal = batch, length, heads, kv_heads, dim, causal

    def name(self):
        return f"b{self.batch} s{self.length} {self.heads}/{self.kv_heads} d{self.dim}{' causal' if self.causal else ''}"

    def flops(self):
        pairs = self.length * (self.length + 1) / 2 if self.causal else self.length * self.length
        return 4 * pairs * self.batch * self.heads * self.dim


def inputs(shape):
    """BSHD, as FP8 codes, with outliers and a V that has a mean."""
    generator = torch.Generator(device="cuda").manual_seed(1)
    made = {}
    for name, heads in (("q", shape.heads), ("k", shape.kv_heads), ("v", shape.kv_heads)):
        real = torch.randn(shape.batch, shape.length, heads, shape.dim, device="cuda", generator=generator) + (0.25 if name == "v" else 0)
        made[name] = (real / SCALES[name]).clamp(-448, 448).to(torch.float8_e4m3fn)
    return made


def reference(shape, data):
    """A slice of the rows in f32: all heads of the first sequence, 64 rows spread over it."""
    real = {name: data[name][:1].float() * SCALES[name] for name in data}
    rows = torch.linspace(0, shape.length - 1, 64, device="cuda").long()
    group = shape.heads // shape.kv_heads
    k, v = (real[name].repeat_interleave(group, dim=2) for name in "kv")
    scores = torch.einsum("bthd,bshd->bhts", real["q"][:, rows], k) * shape.dim**-0.5
    if shape.causal:
        scores.masked_fill_(torch.arange(shape.length, device="cuda")[None, :] > rows[:, None], float("-inf"))
    return rows, torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v)


def dequantised(data):
    return {name: (data[name].float() * SCALES[name]).to(torch.bfloat16) for name in "qkv"}


class Qfuse:
    def __init__(self, shape, data, fp8, out_scale, library, stream):
        b, s, h, g, d = shape.batch, shape.length, shape.heads, shape.kv_heads, shape.dim
        kind, dtype = ("f8E4M3FN", E4M3) if fp8 else ("bf16", BF16)
        scalars = ", ".join(f"%{name}: f32[]" for name in ("qs", "ks", "vs", "os")) if fp8 else ""
        operands = ", q_scale=%qs, k_scale=%ks, v_scale=%vs, out_scale=%os" if fp8 else ""
        text = (f"graph @attention(%q: {kind}[{b}, {s}, {h}, {d}], %k: {kind}[{b}, {s}, {g}, {d}], %v: {kind}[{b}, {s}, {g}, {d}]"
                f"{', ' + scalars if fp8 else ''}) {{\n  %y = attention %q, %k, %v{operands} {{scale={d ** -0.5!r}, "
                f"causal={'true' if shape.causal else 'false'}, align=top_left, layout=bshd, out={kind}{', p=kernel' if fp8 else ''}}}\n"
                "  return %y\n}\n")
        self.library = library
        self.executor = library.executor(library.plan(text, "sm_90a"), stream.cuda_stream)
        self.kept = list((data if fp8 else dequantised(data)).values())
        self.out = torch.empty_like(self.kept[0])
        if fp8:
            self.kept += [torch.tensor(SCALES[name], device="cuda") for name in "qkv"] + [torch.tensor(out_scale, device="cuda")]
        for i, tensor in enumerate(self.kept):
            library.bind(self.executor, library.runtime.qf_executor_bind_input, i, tensor, F32 if tensor.dim() == 0 else dtype)
        library.bind(self.executor, library.runtime.qf_executor_bind_output, 0, self.out, dtype)
        library.check(library.runtime.qf_executor_prepare(self.executor), "preparing")

    def run(self):
        self.library.check(self.library.runtime.qf_executor_run(self.executor), "running")


class Cudnn:
    def __init__(self, shape, data, fp8, out_scale, _, stream):
        kind = cudnn.data_type.FP8_E4M3 if fp8 else cudnn.data_type.BFLOAT16
        graph = cudnn.pygraph(io_data_type=kind, intermediate_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT)
        self.handle = cudnn.create_handle()
        cudnn.set_stream(handle=self.handle, stream=stream.cuda_stream)
        data = data if fp8 else dequantised(data)

        def tensor(source, name):
            """BHSD dims over BSHD memory."""
            b, s, h, d = source.shape
            return graph.tensor(name=name, dim=[b, h, s, d], stride=[s * h * d, d, h * d, 1], data_type=kind)

        def number(name):
            return graph.tensor(name=name, dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], data_type=cudnn.data_type.FLOAT)

        names = {name: tensor(data[name], name) for name in "qkv"}
        self.pack = {names[name]: data[name] for name in "qkv"}
        common = dict(q=names["q"], k=names["k"], v=names["v"], attn_scale=shape.dim**-0.5, use_causal_mask=shape.causal)
        if fp8:
            values = dict(descale_q=SCALES["q"], descale_k=SCALES["k"], descale_v=SCALES["v"], descale_s=1 / 256, scale_s=256.0,
                          scale_o=1 / out_scale)
            scales = {name: number(name) for name in values}
            self.pack |= {scales[name]: torch.tensor(values[name], device="cuda").reshape(1, 1, 1, 1) for name in scales}
            out, _, *largest = graph.sdpa_fp8(is_inference=True, **scales, **common)
            for amax in largest:
                amax.set_output(True).set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1]).set_data_type(cudnn.data_type.FLOAT)
                self.pack[amax] = torch.zeros(1, 1, 1, 1, device="cuda")
        else:
            out, _ = graph.sdpa(is_inference=True, **common)
        b, s, h, d = data["q"].shape
        out.set_output(True).set_dim([b, h, s, d]).set_stride([s * h * d, d, h * d, 1]).set_data_type(kind)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        self.graph = graph
        self.out = torch.empty_like(data["q"])
        self.pack[out] = self.out
        self.workspace = torch.empty(max(graph.get_workspace_size(), 1), device="cuda", dtype=torch.uint8)

    def run(self):
        self.graph.execute(self.pack, self.workspace, handle=self.handle)


class Torch:
    """Heads are repeated for groups before, outside of what is timed."""

    def __init__(self, shape, data, *_):
        group = shape.heads // shape.kv_heads
        self.parts = [part.transpose(1, 2).repeat_interleave(1 if name == "q" else group, dim=1) for name, part in dequantised(data).items()]
        self.causal = shape.causal
        self.out = None

    def run(self):
        self.out = torch.nn.functional.scaled_dot_product_attention(*self.parts, is_causal=self.causal).transpose(1, 2)


class Board:
    """Clock and power by NVML, if it is there."""

    def __init__(self):
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            self.device = ctypes.c_void_p()
            if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)):
                self.nvml = None
        except OSError:
            self.nvml = None

    def read(self, function, *arguments):
        value = ctypes.c_uint()
        if self.nvml is None or getattr(self.nvml, function)(self.device, *arguments, ctypes.byref(value)):
            return float("nan")
        return value.value

    def megahertz(self):
        return self.read("nvmlDeviceGetClockInfo", 1)  # NVML_CLOCK_SM

    def watts(self):
        return self.read("nvmlDeviceGetPowerUsage") / 1000


def captured(contender, stream, launches):
    """A graph of so many calls, captured on the stream that the contender was made for."""
    with torch.cuda.stream(stream):
        for _ in range(3):
            contender.run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(launches):
                contender.run()
    return graph


def timed(graphs, stream, launches, rounds, board):
    """(Microseconds a launch, MHz) of each graph, in turns within a round, after a round that is not counted."""
    times, clocks = [[] for _ in graphs], [[] for _ in graphs]
    with torch.cuda.stream(stream):
        for turn in range(rounds + 1):
            for graph, time, clock in zip(graphs, times, clocks):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                graph.replay()
                begin.record(stream)
                graph.replay()
                end.record(stream)
                if turn:
                    clock.append(board.megahertz())
                end.synchronize()
                if turn:
                    time.append(begin.elapsed_time(end) * 1e3 / launches)
    return [(statistics.median(time), statistics.mean(clock)) for time, clock in zip(times, clocks)]


def row(shape, fp8, names, given, library, stream, board):
    """name -> (error, microseconds, MHz), or why not."""
    data = inputs(shape)
    rows, wanted = reference(shape, data)
    out_scale = float(wanted.abs().max()) / 400
    launches = given.launches or max(1, min(100, int(3e-3 * 8e14 / shape.flops())))
    cells, graphs, made = {}, [], []
    for name in names:
        if name == "cudnn" and cudnn is None:
            continue
        try:
            contender = CONTENDERS[name](shape, data, fp8, out_scale, library, stream)
            graph = captured(contender, stream, launches)
            graph.replay()
            torch.cuda.synchronize()
            found = contender.out[:1][:, rows].float() * (out_scale if fp8 else 1)
            cells[name] = (float((found - wanted).norm() / wanted.norm()),)
            made.append(contender)
            graphs.append((name, graph))
        except Exception as fault:  # one that does not take the shape leaves the others their turn
            cells[name] = f"{type(fault).__name__}: {str(fault).splitlines()[0][:60]}"
            torch.cuda.synchronize()
    for (name, _), time in zip(graphs, timed([graph for _, graph in graphs], stream, launches, given.rounds, board)):
        cells[name] += time
    return cells


def print_row(shape, names, cells, board):
    line, good = f"{shape.name():28}", {name: cell for name, cell in cells.items() if not isinstance(cell, str)}
    for name in names:
        if name in good:
            error, time, clock = good[name]
            line += f" | {time:8.1f} {shape.flops() / time * 1e-6:6.0f} {error:6.4f} {clock:5.0f}"
        else:
            line += f" | {'-':>8} {'':>6} {'':>6} {'':>5}"
    others = [cell[1] for name, cell in good.items() if name != "qfuse"]
    ratio = f"{min(others) / good['qfuse'][1]:5.3f}" if others and "qfuse" in good else "-"
    print(f"{line} | {ratio:>5} {board.watts():4.0f}", flush=True)
    for name, cell in cells.items():
        if isinstance(cell, str):
            print(f"    {name}: {cell}")


CONTENDERS = {"qfuse": Qfuse, "cudnn": Cudnn, "torch": Torch}
TABLES = [("FP8 in, FP8 out", True, ("qfuse", "cudnn")), ("bf16 in, bf16 out", False, ("qfuse", "cudnn", "torch"))]
SHAPES = [Shape(*dims, causal)
          for dims in ((16, 1024, 16, 16, 128), (4, 4096, 16, 16, 128), (1, 16384, 16, 16, 128), (1, 32768, 16, 16, 128), (4, 4096, 32, 8, 128),
                       (1, 8192, 32, 8, 128), (1, 16384, 32, 8, 128), (4, 4096, 40, 8, 128), (1, 2048, 32, 8, 128), (1, 1024, 32, 8, 128),
                       (4, 4096, 32, 32, 64), (1, 16384, 32, 32, 64), (4, 4096, 8, 8, 256), (1, 16384, 8, 8, 256))
          for causal in (False, True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libqfuse.so.0, with libqfuse_rt.so.0 beside it")
    parser.add_argument("--only", default="", help="only shapes whose name holds this")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--launches", type=int, default=0, help="launches of a graph; 0: as many as take some milliseconds")
    given = parser.parse_args()
    library, board = Library(given.library), Board()
    stream = torch.cuda.Stream()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"frontend {cudnn.__version__ if cudnn else 'missing (' + CUDNN_MISSING + ')'}")
    for title, fp8, names in TABLES:
        print(f"\n{title:28}" + "".join(f" | {name:^28}" for name in names))
        print(f"{'shape':28}" + f" | {'us':>8} {'TFLOPS':>6} {'err':>6} {'MHz':>5}" * len(names) + " | ratio    W")
        for shape in SHAPES:
            if given.only in shape.name():
                print_row(shape, names, row(shape, fp8, names, given, library, stream, board), board)


if __name__ == "__main__":
    main()
