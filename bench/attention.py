#!/usr/bin/env python3
# Owns: QFuse's FP8 attention beside cuDNN's FP8 and PyTorch's bf16 in one process, in turns, as one table.
# Does not own: benches without Python (`qfuse bench`), the record of results (RESULTS.md).
# Next: docs/gpu.md. Usage: attention.py --library=libqfuse.so.0 [--only=PART] [--rounds=N]
"""Times attention of FP8 q, k, v with an FP8 result, per-tensor scales, on the GPU that PyTorch sees.

Needs PyTorch with CUDA; cuDNN's FP8 needs the package nvidia-cudnn-frontend. What is missing is named in the table's head and its
column stays empty. All are called on one stream, each replayed from a CUDA graph, one after another within a round; a figure is the median
over the rounds. `err` is the relative RMS difference of the dequantised result from PyTorch's f32 attention on dequantised inputs.
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


F32, E4M3 = 1, 4  # qf_dtype
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


class Qfuse:
    name = "qfuse fp8"

    def __init__(self, shape, data, out_scale, library, stream):
        b, s, h, g, d = shape.batch, shape.length, shape.heads, shape.kv_heads, shape.dim
        text = (f"graph @attention(%q: f8E4M3FN[{b}, {s}, {h}, {d}], %k: f8E4M3FN[{b}, {s}, {g}, {d}], %v: f8E4M3FN[{b}, {s}, {g}, {d}],\n"
                "  %qs: f32[], %ks: f32[], %vs: f32[], %os: f32[]) {\n"
                "  %y = attention %q, %k, %v, q_scale=%qs, k_scale=%ks, v_scale=%vs, out_scale=%os "
                f"{{scale={d ** -0.5!r}, causal={'true' if shape.causal else 'false'}, align=top_left, layout=bshd, out=f8E4M3FN, p=kernel}}\n"
                "  return %y\n}\n")
        self.library = library
        self.executor = library.executor(library.plan(text, "sm_90a"), stream.cuda_stream)
        self.out = torch.empty_like(data["q"])
        self.kept = [data["q"], data["k"], data["v"]]
        self.kept += [torch.tensor(SCALES[name], device="cuda") for name in "qkv"] + [torch.tensor(out_scale, device="cuda")]
        for i, tensor in enumerate(self.kept):
            library.bind(self.executor, library.runtime.qf_executor_bind_input, i, tensor, F32 if tensor.dim() == 0 else E4M3)
        library.bind(self.executor, library.runtime.qf_executor_bind_output, 0, self.out, E4M3)
        library.check(library.runtime.qf_executor_prepare(self.executor), "preparing")

    def run(self):
        self.library.check(self.library.runtime.qf_executor_run(self.executor), "running")

    def result(self, out_scale):
        return self.out.float() * out_scale


class Cudnn:
    name = "cudnn fp8"

    def __init__(self, shape, data, out_scale, _, stream):
        graph = cudnn.pygraph(io_data_type=cudnn.data_type.FP8_E4M3, intermediate_data_type=cudnn.data_type.FLOAT,
                              compute_data_type=cudnn.data_type.FLOAT)
        self.handle = cudnn.create_handle()
        cudnn.set_stream(handle=self.handle, stream=stream.cuda_stream)

        def tensor(source, name):
            """BHSD dims over BSHD memory."""
            b, s, h, d = source.shape
            return graph.tensor(name=name, dim=[b, h, s, d], stride=[s * h * d, d, h * d, 1], data_type=cudnn.data_type.FP8_E4M3)

        def number(name):
            return graph.tensor(name=name, dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], data_type=cudnn.data_type.FLOAT)

        names = {name: tensor(data[name], name) for name in "qkv"}
        scales = {name: number(name) for name in ("dq", "dk", "dv", "ds", "ss", "so")}
        out, _, amax_s, amax_o = graph.sdpa_fp8(q=names["q"], k=names["k"], v=names["v"], descale_q=scales["dq"], descale_k=scales["dk"],
                                                descale_v=scales["dv"], descale_s=scales["ds"], scale_s=scales["ss"], scale_o=scales["so"],
                                                is_inference=True, attn_scale=shape.dim**-0.5, use_causal_mask=shape.causal)
        b, s, h, d = data["q"].shape
        out.set_output(True).set_dim([b, h, s, d]).set_stride([s * h * d, d, h * d, 1]).set_data_type(cudnn.data_type.FP8_E4M3)
        for amax in (amax_s, amax_o):
            amax.set_output(True).set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1]).set_data_type(cudnn.data_type.FLOAT)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        self.graph = graph
        self.out = torch.empty_like(data["q"])
        values = dict(dq=SCALES["q"], dk=SCALES["k"], dv=SCALES["v"], ds=1 / 256, ss=256.0, so=1 / out_scale)
        self.pack = {names[name]: data[name] for name in "qkv"}
        self.pack |= {scales[name]: torch.tensor(values[name], device="cuda").reshape(1, 1, 1, 1) for name in scales}
        self.pack |= {out: self.out, amax_s: torch.zeros(1, 1, 1, 1, device="cuda"), amax_o: torch.zeros(1, 1, 1, 1, device="cuda")}
        self.workspace = torch.empty(max(graph.get_workspace_size(), 1), device="cuda", dtype=torch.uint8)

    def run(self):
        self.graph.execute(self.pack, self.workspace, handle=self.handle)

    def result(self, out_scale):
        return self.out.float() * out_scale


class Torch:
    name = "torch bf16"

    def __init__(self, shape, data, *_):
        group = shape.heads // shape.kv_heads
        self.parts = []
        for name in "qkv":
            real = (data[name].float() * SCALES[name]).to(torch.bfloat16).transpose(1, 2)
            self.parts.append(real if name == "q" or group == 1 else real.repeat_interleave(group, dim=1))
        self.causal = shape.causal
        self.out = None

    def run(self):
        self.out = torch.nn.functional.scaled_dot_product_attention(*self.parts, is_causal=self.causal)

    def result(self, _):
        return self.out.transpose(1, 2).float()


def captured(contender, stream):
    """Replays of one call, captured on the stream that the contender was made for."""
    with torch.cuda.stream(stream):
        for _ in range(3):
            contender.run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            contender.run()
    return graph


def median_times(graphs, stream, rounds):
    """Microseconds, the contenders in turns within a round."""
    times = [[] for _ in graphs]
    with torch.cuda.stream(stream):
        for _ in range(rounds):
            for graph, into in zip(graphs, times):
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                graph.replay()
                begin.record(stream)
                for _ in range(4):
                    graph.replay()
                end.record(stream)
                end.synchronize()
                into.append(begin.elapsed_time(end) * 250)
    return [statistics.median(each) for each in times]


def row(shape, library, rounds, stream):
    data = inputs(shape)
    rows, wanted = reference(shape, data)
    out_scale = float(wanted.abs().max()) / 400
    cells, graphs, made = {}, [], []
    for kind in (Qfuse, Cudnn, Torch):
        if kind is Cudnn and cudnn is None:
            continue
        try:
            contender = kind(shape, data, out_scale, library, stream)
            graph = captured(contender, stream)
            graph.replay()
            torch.cuda.synchronize()
            found = contender.result(out_scale)[:1][:, rows]
            cells[kind.name] = [float((found - wanted).norm() / wanted.norm())]
            made.append(contender)
            graphs.append((kind.name, graph))
        except Exception as fault:  # one that does not take the shape leaves the others their turn
            cells[kind.name] = f"{type(fault).__name__}: {str(fault).splitlines()[0][:60]}"
            torch.cuda.synchronize()
    for (name, _), time in zip(graphs, median_times([graph for _, graph in graphs], stream, rounds)):
        cells[name].append(time)
    return cells


def print_row(shape, cells):
    line = f"{shape.name():28}"
    for name in ("qfuse fp8", "cudnn fp8", "torch bf16"):
        cell = cells.get(name)
        if not isinstance(cell, list):
            line += f" | {'-':>9} {'':>7} {'':>7}"
            continue
        line += f" | {cell[1]:9.1f} {shape.flops() / cell[1] * 1e-6:7.0f} {cell[0]:7.4f}"
    print(line, flush=True)
    for name, cell in cells.items():
        if isinstance(cell, str):
            print(f"    {name}: {cell}")


SHAPES = [Shape(1, 1024, 32, 8, 128, True), Shape(1, 2048, 32, 8, 128, True), Shape(4, 4096, 32, 8, 128, True), Shape(4, 4096, 32, 8, 128, False),
          Shape(1, 16384, 32, 8, 128, True), Shape(1, 16384, 16, 16, 128, False), Shape(4, 4096, 32, 32, 64, True), Shape(4, 4096, 8, 8, 256, True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libqfuse.so.0, with libqfuse_rt.so.0 beside it")
    parser.add_argument("--only", default="", help="only shapes whose name holds this")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    library = Library(given.library)
    stream = torch.cuda.Stream()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"frontend {cudnn.__version__ if cudnn else 'missing (' + CUDNN_MISSING + ')'}")
    print(f"{'':28} | {'qfuse fp8 in, fp8 out':^25} | {'cudnn fp8 in, fp8 out':^25} | {'torch bf16':^25}")
    print(f"{'shape':28}" + f" | {'us':>9} {'TFLOPS':>7} {'err':>7}" * 3)
    for shape in SHAPES:
        if given.only in shape.name():
            print_row(shape, row(shape, library, given.rounds, stream))


if __name__ == "__main__":
    main()
