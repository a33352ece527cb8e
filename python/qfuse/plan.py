# Owns: launch plans: loading, saving, reading their interface; executors; run().
# Does not own: making plans (graph.py), tensors (tensor.py).
# Next: program.py.
import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass

from . import abi, tensor as tensors
from .abi import library
from .context import Context, Handle, encode, text


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

    device: "cpu", "cuda", or None for the plan's; device_id: of several GPUs; stream: the address of a CUstream to launch
    on; weights_root: the folder under which the files of weights lie."""

    def __init__(self, plan, *, device=None, device_id=0, stream=None, threads=0, weights_root=None):
        context = Context()  # of its own: other threads may run the same plan
        options = abi.qf_executor_options(device=encode(device), device_id=device_id, stream=stream,
                                          thread_count=threads, weights_root=encode(weights_root))
        handle = ctypes.c_void_p()
        context.check(library.qf_executor_create(context.handle, plan.handle, ctypes.byref(options),
                                                 ctypes.byref(handle)))
        super().__init__(context, handle, library.qf_executor_destroy, plan)
        self.plan = plan
        self._inputs = {}
        self._outputs = {}
        self._parameters = {}

    def bind_input(self, index, value):
        """Borrows the memory of `value` (any DLPack producer or buffer) until it is bound again."""
        tensor, owner = tensors.borrow(self.context, value)
        self.context.check(library.qf_executor_bind_input(self.handle, index, ctypes.byref(tensor)))
        self._inputs[index] = owner

    def bind_output(self, index, value):
        """The result goes to the memory of `value`; None: to memory of the executor."""
        tensor, owner = tensors.borrow(self.context, value) if value is not None else (None, None)
        self.context.check(library.qf_executor_bind_output(self.handle, index, tensor and ctypes.byref(tensor)))
        self._outputs[index] = owner

    def bind_parameter(self, name, value):
        tensor, owner = tensors.borrow(self.context, value)
        self.context.check(library.qf_executor_bind_parameter(self.handle, encode(name), ctypes.byref(tensor)))
        self._parameters[name] = owner

    def bind_symbol(self, name, value):
        self.context.check(library.qf_executor_bind_symbol(self.handle, encode(name), value))

    def prepare(self):
        """Checks shapes and guards; afterwards output() gives the outputs' shapes."""
        self.context.check(library.qf_executor_prepare(self.handle))

    def run(self):
        """On a GPU the work is in the stream when this returns; wait() or the stream's order tells when it is done."""
        self.context.check(library.qf_executor_run(self.handle))

    def wait(self):
        self.context.check(library.qf_executor_wait(self.handle))

    def output(self, index):
        """Output `index` of the last run, in the memory where it lies."""
        out = abi.qf_tensor()
        self.context.check(library.qf_executor_output(self.handle, index, ctypes.byref(out)))
        return tensors.Tensor(out, self)


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


def run(plan, values, *, weights=None, symbols=None, device=None, device_id=0, stream=None, threads=0,
        weights_root=None):
    """Runs a plan once and returns its outputs as a list, in the framework of the inputs: torch tensors, NumPy arrays, or
    qfuse.Tensor.

    plan: a Plan, or the path of a saved one. values: tensors by input name, or in order: anything with __dlpack__ or a
    buffer. weights: tensors by parameter name, in place of the plan's files. symbols: sizes that no input's shape
    determines."""
    if not isinstance(plan, Plan):
        plan = Plan.load(plan)
    values = ordered(plan, values)
    executor = Executor(plan, device=device, device_id=device_id, stream=stream, threads=threads,
                        weights_root=weights_root)
    for name, value in (weights or {}).items():
        executor.bind_parameter(name, value)
    for name, value in (symbols or {}).items():
        executor.bind_symbol(name, value)
    for index, value in enumerate(values):
        executor.bind_input(index, value)
    executor.run()
    executor.wait()
    framework = tensors.framework_of(values)
    return [tensors.give(executor.output(index), framework) for index in range(len(plan.outputs))]
