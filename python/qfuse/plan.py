# Owns: launch plans: loading, saving, reading their interface; executors; run().
# Does not own: making plans (graph.py), tensors (tensor.py).
# Next: program.py.
import ctypes
import os
import sys
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

from . import abi, tensor as tensors
from .abi import library
from .context import (INT32_MAX, INT64_MAX, INT64_MIN, INVALID_ARGUMENT, UINT32_MAX, Context, Error, Handle, encode, text,
                      whole)


@dataclass(frozen=True)
class TensorInfo:
    """An input, output or parameter of a plan. A size is -1 where it depends on symbols; None: the shape is unknown."""
    name: str
    dtype: str
    shape: tuple
    in_place: int = -1  # outputs: the input whose memory may be bound to this output too


class Plan(Handle):
    """An immutable launch plan; any number of threads may run it. str(plan) is the readable dump."""

    def __init__(self, context, handle, *keep):
        super().__init__(context, handle, library.qf_plan_destroy, *keep)
        self.target = text(library.qf_plan_target(handle))
        self.device = "cpu" if self.target == "cpu" else "cuda"  # that runs it
        self.inputs = self._infos(library.qf_plan_input_count, library.qf_plan_input)
        self.outputs = self._infos(library.qf_plan_output_count, library.qf_plan_output)
        self.parameters = self._infos(library.qf_plan_parameter_count, library.qf_plan_parameter)
        self.symbols = tuple(text(library.qf_plan_symbol(handle, index))
                             for index in range(library.qf_plan_symbol_count(handle)))

    def _infos(self, count, read):
        result = []
        for index in range(count(self.handle)):
            info = abi.qf_plan_tensor_info()
            read(self.handle, index, ctypes.byref(info))
            shape = tuple(info.dims[:info.rank]) if info.rank <= abi.MAX_RANK else None
            result.append(TensorInfo(text(info.name), abi.DTYPE_NAMES[info.dtype], shape, info.in_place))
        return tuple(result)

    @classmethod
    def load(cls, path):
        context, plan = Context(), ctypes.c_void_p()
        with context.lock:
            context.check(library.qf_plan_load(context.handle, encode(os.fspath(path)), ctypes.byref(plan)))
        return cls(context, plan)

    @classmethod
    def from_bytes(cls, data):
        context, plan = Context(), ctypes.c_void_p()
        with context.lock:
            context.check(library.qf_plan_from_bytes(context.handle, data, len(data), ctypes.byref(plan)))
        return cls(context, plan)

    def save(self, path):
        """Writes the binary form. Weights that were bound to the graph from memory are not saved with it."""
        with self.context.lock:
            self.context.check(library.qf_plan_save(self.context.handle, self.handle, encode(os.fspath(path))))

    def __str__(self):
        parts = []

        @abi.write_function
        def write(_, data, size):
            parts.append(ctypes.string_at(data, size))

        with self.context.lock:
            self.context.check(library.qf_plan_print(self.context.handle, self.handle, write, None))
        return b"".join(parts).decode()


class Executor(Handle):
    """The state of running one plan: bound tensors, workspace, mapped weights. One thread at a time.

    device: "cpu", "cuda", or None for the plan's; device_id: of several GPUs; stream: where to launch, the address of a
    CUstream or a torch.cuda.Stream, None: the default stream; weights_root: the folder under which the files of weights
    lie."""

    # Invariant: while a tensor of _lent lives, sizes stay as they were (_keep_lent), so that no run outgrows the
    # executor's memory, which would free what the tensor shows.

    def __init__(self, plan, *, device=None, device_id=0, stream=None, threads=0, weights_root=None):
        context = Context()  # of its own: other threads may run the same plan
        self.device = device or plan.device
        stream = getattr(stream, "cuda_stream", stream) or None
        self.stream = (stream or 0) if self.device == "cuda" else None
        options = abi.qf_executor_options(device=encode(device), device_id=whole("device_id", device_id, 0, INT32_MAX),
                                          stream=stream, thread_count=whole("threads", threads, 0, UINT32_MAX),
                                          weights_root=encode(weights_root))
        handle = ctypes.c_void_p()
        context.check(library.qf_executor_create(context.handle, plan.handle, ctypes.byref(options),
                                                 ctypes.byref(handle)))
        super().__init__(context, handle, library.qf_executor_destroy, plan)
        self.plan = plan
        self._inputs = {}
        self._shapes = {}  # of the inputs, by index
        self._outputs = {}
        self._parameters = {}
        self._symbols = {}
        self._sizes = None  # of the last run or preparation
        self._lent = weakref.WeakSet()  # tensors on the executor's own memory

    def _borrow(self, what, infos, key, value, **how):
        """The tensor, and what to hold. Faults of the value itself say where it was to go."""
        name = infos[key].name if infos else key
        place = f'{what} "{name}"'
        try:
            # What is only recorded, nothing can wait for: the attempt would end the capture.
            return tensors.borrow(self.context, value, self.stream, ordered=not self._captured_elsewhere(), **how)
        except Error as fault:
            raise fault.at(place) from None
        except (TypeError, BufferError) as fault:
            raise TypeError(f"{place}: {fault}") from None

    def bind_input(self, index, value, *, copy=False):
        """Borrows the memory of `value` (any DLPack producer or buffer) until it is bound again. Runs read what lies there
        by then. copy: a tensor that is not contiguous, or that nobody may write, is copied now instead of refused."""
        index = _position("input", self.plan.inputs, index)
        tensor, owner = self._borrow("input", self.plan.inputs, index, value, copy=copy)
        self.context.check(library.qf_executor_bind_input(self.handle, index, ctypes.byref(tensor)))
        self._inputs[index] = owner
        self._shapes[index] = tuple(tensor.dims[:tensor.rank])

    def bind_output(self, index, value):
        """The result goes to the memory of `value`; None: to memory of the executor."""
        index = _position("output", self.plan.outputs, index)
        tensor = owner = None
        if value is not None:
            tensor, owner = self._borrow("output", self.plan.outputs, index, value, writable=True)
        self.context.check(library.qf_executor_bind_output(self.handle, index, tensor and ctypes.byref(tensor)))
        self._outputs[index] = owner

    def bind_parameter(self, name, value):
        tensor, owner = self._borrow("parameter", (), name, value)
        self.context.check(library.qf_executor_bind_parameter(self.handle, encode(name), ctypes.byref(tensor)))
        self._parameters[name] = owner

    def bind_symbol(self, name, value):
        value = whole(f"size {name}", value, INT64_MIN, INT64_MAX)
        self.context.check(library.qf_executor_bind_symbol(self.handle, encode(name), value))
        self._symbols[name] = value

    def input_shapes(self):
        """What is bound, in order."""
        return tuple(self._shapes[index] for index in range(len(self.plan.inputs)))

    def let_go(self):
        """Drops inputs and outputs, which torch keeps for the stream; all must be bound anew before the next run."""
        self._inputs.clear()
        self._outputs.clear()

    def prepare(self):
        """Checks shapes and guards; afterwards output() gives the outputs' shapes."""
        self._at_sizes(library.qf_executor_prepare)

    def run(self):
        """On a GPU the work is in the stream when this returns; wait() or the stream's order tells when it is done."""
        if self._captured_elsewhere():  # it would run at once, and be missing from the graph
            raise Error(INVALID_ARGUMENT, [("", "torch captures its current stream, and the executor launches on another: "
                                            "capture with torch.cuda.graph(graph, stream=...) on the executor's own")])
        self._at_sizes(library.qf_executor_run)

    def _at_sizes(self, function):
        """Calls what may need other memory than the last run."""
        sizes = (dict(self._shapes), dict(self._symbols))
        used = next(iter(self._lent), None)
        if used is not None and sizes != self._sizes:
            raise Error(INVALID_ARGUMENT, [("", f"sizes changed, and {used!r}, an output of the last run, is still used: its "
                                            "memory may be too small now, and would be freed. Drop it and what shares its "
                                            "memory, after a copy if need be, or bind outputs to memory of your own")])
        self.context.check(function(self.handle))
        self._sizes = sizes

    def _captured_elsewhere(self):
        """Whether torch captures a stream that is current, and not the executor's."""
        torch = sys.modules.get("torch")
        return (self.device == "cuda" and torch is not None and torch.cuda.is_initialized()
                and torch.cuda.is_current_stream_capturing()
                and torch.cuda.current_stream().cuda_stream != self.stream)

    def capture(self):
        """Records the plan into a CUDA graph of the executor, which later runs replay. Sizes and addresses are frozen."""
        self._at_sizes(library.qf_executor_capture)

    def drop_capture(self):
        library.qf_executor_drop_capture(self.handle)

    def ready_on(self, stream):
        """For consumers of outputs on another stream."""
        if self.stream is not None and stream != self.stream:
            self.wait()

    def wait(self):
        self.context.check(library.qf_executor_wait(self.handle))

    def output(self, index):
        """Output `index` of the last run: what is bound to it, where it lies; else on the CPU a copy, on a GPU the executor's
        memory, which the next run writes, and which no run of other sizes may replace while the tensor is used."""
        made = self.peek(index)
        return made.copy() if self.stream is None and made in self._lent else made

    def peek(self, index):
        """Output `index` of the last run in the memory where it lies, on the CPU as well."""
        index = _position("output", self.plan.outputs, index)
        out = abi.qf_tensor()
        self.context.check(library.qf_executor_output(self.handle, index, ctypes.byref(out)))
        bound = self._outputs.get(index)
        made = tensors.Tensor(out, self, bound)
        if bound is None:
            self._lent.add(made)
        return made


def _position(what, infos, index):
    """An index into the plan's inputs or outputs."""
    if not infos:
        raise Error(INVALID_ARGUMENT, [("", f"the plan has no {what}s")])
    return whole(f"{what} index", index, 0, len(infos) - 1)


def ordered(plan, values):
    """The tensors of a mapping by name, or of a sequence, as a list in the order of the plan's inputs."""
    names = [info.name for info in plan.inputs]
    if isinstance(values, Mapping):
        missing = [name for name in names if name not in values]
        unknown = [name for name in values if name not in names]
        if missing or unknown:
            raise TypeError(f"the plan's inputs are {names}; missing: {missing}, unknown: {unknown}")
        return [values[name] for name in names]
    values = list(values)
    if len(values) != len(names):
        raise TypeError(f"the plan takes {len(names)} inputs ({', '.join(names)}), found {len(values)}")
    return values


def run(plan, values, *, weights=None, symbols=None, device=None, device_id=None, stream=None, threads=0,
        weights_root=None):
    """Runs a plan once and returns its outputs as a list, in the framework of the inputs: torch tensors, NumPy arrays, or
    qfuse.Tensor.

    plan: a Plan, or the path of a saved one. values: tensors by input name, or in order: anything with __dlpack__ or a
    buffer. weights: tensors by parameter name, in place of the plan's files. symbols: sizes that no input's shape
    determines. device_id, stream: where inputs are torch's, their GPU and torch's current stream on it, unless given."""
    if not isinstance(plan, Plan):
        plan = Plan.load(plan)
    values = ordered(plan, values)
    device = device or plan.device
    gpu = tensors.torch_gpu(values) if device == "cuda" else None
    if gpu is not None and device_id in (None, gpu.index):
        device_id, stream = gpu.index, tensors.torch_stream(gpu) if stream is None else stream
    executor = Executor(plan, device=device, device_id=device_id or 0, stream=stream, threads=threads,
                        weights_root=weights_root)
    for name, value in (weights or {}).items():
        executor.bind_parameter(name, value)
    for name, value in (symbols or {}).items():
        executor.bind_symbol(name, value)
    for index, value in enumerate(values):
        executor.bind_input(index, value, copy=True)
    executor.run()
    executor.wait()
    framework = tensors.framework_of(values)
    return [tensors.give(executor.peek(index), framework) for index in range(len(plan.outputs))]
