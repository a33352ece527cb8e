# Owns: torch programs: optimize(), and the callable that runs the plan on torch tensors.
# Does not own: reading archives (graph.py), plans (plan.py). torch is imported only here and where its tensors come in.
# Next: docs/python.md.
import io
import os
import threading

from . import graph as graphs, tensor as tensors
from .plan import Executor


def optimize(program, *, passes="serving", numerics=None, target=None, query_scale=None, customs=None):
    """Rewrites a program of torch.export and compiles it.

    program: an ExportedProgram, or the path of a saved one (.pt2) or of an ONNX model. passes, numerics, query_scale: as
    for `qfuse opt`. target: "cpu", "sm_90a", ...; None: that of the device on which the program's weights are, or some
    of its arguments. customs: rows for more custom operators (docs/pt2.md).

    The result is an Optimized: .report says what became of each attention, calling it runs the plan. Raises qfuse.Error
    with the located message where the program cannot be read or compiled."""
    exported = None if isinstance(program, (str, os.PathLike)) else program
    if target is None:
        target = target_of(_gpu_of(exported)) if exported is not None else "cpu"
    if exported is None:
        graph = graphs.read(program, customs)
    else:
        import torch
        archive = io.BytesIO()
        torch.export.save(exported, archive)
        graph = graphs.read_pt2(archive.getvalue(), _name_of(exported), customs)
    report = graph.run_pipeline(passes, numerics=numerics, target=target, query_scale=query_scale)
    plan = graph.compile(target=target, pipeline=passes, numerics=numerics)
    return Optimized(exported, graph, report, plan)


def _name_of(program):
    name = type(program.graph_module.meta.get("forward_cls", program)).__name__
    return name if name != "ExportedProgram" else "program"


def _gpu_of(program):
    """torch's device of the program's weights or arguments, if that is a GPU."""
    arguments = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    return tensors.torch_gpu([*program.state_dict.values(), *program.constants.values(), *arguments])


def target_of(device):
    """The newest target that runs on a device of torch; "cpu" for None."""
    import torch
    if device is None or torch.device(device).type != "cuda":
        return "cpu"
    major, minor = torch.cuda.get_device_capability(device)
    for least, name in (((10, 0), "sm_100a"), ((9, 0), "sm_90a"), ((8, 9), "sm_89"), ((8, 0), "sm_80")):
        if (major, minor) >= least:
            return name
    raise ValueError(f"no target runs on compute capability {major}.{minor}; the oldest is sm_80")


class Optimized:
    """A compiled program. Call it as the program's module: same arguments, same results, buffers updated.

    report: what the pipeline did. graph: the rewritten graph (str() is its text). plan: the launch plan. buffers: the
    tensors that the program writes, by name, which calls read and update. Calls from several threads take turns."""

    def __init__(self, program, graph, report, plan):
        self.program = program
        self.graph = graph
        self.report = report
        self.plan = plan
        self._weights = _unstored_weights(program, graph, plan) if program is not None else {}
        self._lock = threading.Lock()
        self._executors = {}
        self._shapes = {}  # of outputs, by the sizes of a call
        self._signature = _Signature(program, plan) if program is not None else None
        self.buffers = self._signature.buffers(program) if program is not None else _stored_buffers(graph, plan)

    def __repr__(self):
        return f"qfuse.Optimized({self.report.fused_fp8_out} of {self.report.attentions} attentions write FP8)"

    def __call__(self, *args, **kwargs):
        with self._lock:
            if self._signature is None:
                return self._run_by_name(args, kwargs)
            values, symbols = self._signature.inputs(args, kwargs)
            made = self._run({**self.buffers, **values}, symbols)
            return self._signature.results(made, {**self.buffers, **values})

    def _run_by_name(self, args, kwargs):
        """Without a program to give the structure: inputs in order or by name, a list of outputs."""
        own = [info.name for info in self.plan.inputs if info.name not in self.buffers]
        values = dict(zip(own, args))
        values.update(kwargs)
        if len(args) > len(own) or set(values) != set(own):
            raise TypeError(f"expected the inputs {own}, in order or by name; found {sorted(values)}")
        device = next((value.device for value in values.values() if tensors.is_torch(value)), None)
        if device is not None:
            self.buffers = {name: held if tensors.is_torch(held) else tensors.give(held, "torch").to(device)
                            for name, held in self.buffers.items()}
        made = self._run({**self.buffers, **values}, {})
        results = []
        for info, value in zip(self.plan.outputs, made):
            if info.name in self.buffers:
                self.buffers[info.name] = value
            else:
                results.append(value)
        return results

    def _executor(self, values):
        """One a device and stream. CUDA work goes to torch's current stream."""
        device = tensors.torch_gpu(values)
        key = (device and device.index, device and tensors.torch_stream(device))
        if key not in self._executors:
            executor = Executor(self.plan) if device is None else Executor(self.plan, device="cuda",
                                                                           device_id=device.index, stream=key[1])
            self._executors[key] = self._bound(executor)
        return self._executors[key]

    def _bound(self, executor):
        for name, value in self._weights.items():
            executor.bind_parameter(name, value)
        return executor

    def _run(self, values, symbols):
        executor = self._executor(values.values())
        if executor.device == "cuda":
            values = _on_gpu(values)
        for name, size in symbols.items():
            executor.bind_symbol(name, size)
        for index, info in enumerate(self.plan.inputs):
            executor.bind_input(index, values[info.name], copy=True)
        framework = tensors.framework_of(values.values())
        if framework != "torch":
            executor.run()
            executor.wait()
            return [_copied(executor.peek(index), framework) for index in range(len(self.plan.outputs))]
        return self._run_on_torch(executor, values, symbols)

    def _output_shapes(self, executor, symbols):
        """(dtype, shape) of each output. Sizes that were seen before need no preparation, which would allocate."""
        key = (executor.input_shapes(), tuple(symbols.items()))
        if key not in self._shapes:
            for index in range(len(self.plan.outputs)):
                executor.bind_output(index, None)
            executor.prepare()
            if len(self._shapes) == _MOST_SHAPES:
                self._shapes.clear()
            made = (executor.peek(index) for index in range(len(self.plan.outputs)))
            self._shapes[key] = [(output.dtype, output.shape) for output in made]
        return self._shapes[key]

    def _run_on_torch(self, executor, values, symbols):
        """Results go to fresh torch memory; a buffer is updated where it lies, if the plan proved that it may."""
        import torch
        device = tensors.torch_gpu(values.values()) or "cpu"
        shapes = self._output_shapes(executor, symbols)
        made = []
        for index, (info, (dtype, shape)) in enumerate(zip(self.plan.outputs, shapes)):
            shared = self.plan.inputs[info.in_place].name if info.in_place >= 0 else None
            if shared == info.name and shared in self.buffers and values[shared].is_contiguous():
                made.append(values[shared])
            else:
                made.append(torch.empty(shape, dtype=tensors.torch_dtype(dtype), device=device))
            executor.bind_output(index, made[index])
        executor.run()
        executor.let_go()
        return made


_MOST_SHAPES = 1024


def _on_gpu(values):
    """torch lets scalars of the CPU meet tensors of a GPU."""
    device = tensors.torch_gpu(values.values())
    return {name: value.to(device) if tensors.is_torch(value) and not value.is_cuda and value.dim() == 0 else value
            for name, value in values.items()}


def _unstored_weights(program, graph, plan):
    """Of weights that the archive stores as pickles (tensor subclasses) the parts that the plan reads: "weight.part"."""
    import torch
    found = {}
    for info in plan.parameters:
        if graph.has_weight(info.name):
            continue
        name, _, part = info.name.rpartition(".")
        held = getattr(program.state_dict.get(name, program.constants.get(name)), part, None)
        if isinstance(held, torch.Tensor):
            found[info.name] = held.detach().contiguous()
    return found


def _copied(value, framework):
    """The executor's memory is written by its next run."""
    return tensors.give(value, framework) if framework == "numpy" else value.copy()


def _stored_buffers(graph, plan):
    """Of an archive read from a file: what it holds for the buffers that the program writes."""
    found = {}
    written = {info.name for info in plan.outputs}
    for info in plan.inputs:
        data = graph.weight(info.name) if info.name in written else None
        if data is not None:
            found[info.name] = tensors.Tensor.empty(info.dtype, info.shape)
            found[info.name].fill(data)
    return found


class _Signature:
    """How a call's arguments become the plan's inputs, and the plan's outputs the call's result."""

    def __init__(self, program, plan):
        from torch.export.graph_signature import InputKind, OutputKind, SymIntArgument, TensorArgument
        signature = program.graph_signature
        self.call_spec = program.call_spec
        self.plan = plan
        self.names = []  # of flat arguments: an input's name, or None where the argument was fixed at export
        self.fixed = []
        self.symbols = {}  # position of a flat argument: the symbol that it is
        expressions = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
        for spec in signature.input_specs:
            if spec.kind is not InputKind.USER_INPUT:
                continue
            if isinstance(spec.arg, SymIntArgument):
                self.symbols[len(self.names)] = str(expressions[spec.arg.name].node.expr)
            self.names.append(spec.arg.name if isinstance(spec.arg, TensorArgument) else None)
            self.fixed.append(getattr(spec.arg, "value", None))
        self.outputs = []  # of the flat result: (kind, value fixed at export)
        for spec in signature.output_specs:
            if spec.kind is not OutputKind.USER_OUTPUT:
                continue
            kind = {TensorArgument: "tensor", SymIntArgument: "number"}.get(type(spec.arg), "fixed")
            self.outputs.append((kind, getattr(spec.arg, "value", None)))

    def buffers(self, program):
        """Copies of what the program holds, of everything that is an input of the plan and no argument."""
        arguments = set(self.names)
        device = _gpu_of(program)
        found = {}
        for info in self.plan.inputs:
            if info.name in arguments:
                continue
            held = program.state_dict.get(info.name, program.constants.get(info.name))
            if held is None:
                raise TypeError(f"the program has no buffer {info.name}, which its plan reads")
            held = held.detach().clone().contiguous()
            found[info.name] = held if device is None else held.to(device)
        return found

    def inputs(self, args, kwargs):
        from torch.utils import _pytree as pytree
        spec = self.call_spec.in_spec
        if kwargs and isinstance(spec.child(1).context, list) and set(spec.child(1).context) == set(kwargs):
            kwargs = {name: kwargs[name] for name in spec.child(1).context}  # in the order of the export
        flat, found = pytree.tree_flatten((args, kwargs))
        if found != spec or len(flat) != len(self.names):
            raise TypeError(f"the arguments have another structure than at export: expected {spec}, found {found}")
        values, symbols = {}, {}
        wanted = {info.name for info in self.plan.inputs}
        for position, (name, value) in enumerate(zip(self.names, flat)):
            if position in self.symbols:
                if self.symbols[position] in self.plan.symbols:
                    symbols[self.symbols[position]] = int(value)
            elif name is None:
                if value != self.fixed[position]:
                    raise ValueError(f"argument {position} was {self.fixed[position]!r} at export, found {value!r}")
            elif name in wanted:
                values[name] = value
        return values, symbols

    def results(self, made, held):
        """The call's own result; what the program wrote goes back to where it came from."""
        import torch
        from torch.utils import _pytree as pytree
        own = sum(kind != "fixed" for kind, _ in self.outputs)
        with torch.no_grad():
            for info, value in zip(self.plan.outputs[own:], made[own:]):
                if value is not held[info.name]:
                    held[info.name].copy_(value)
        flat, next_made = [], iter(made)
        for kind, fixed in self.outputs:
            flat.append(fixed if kind == "fixed" else next(next_made))
            if kind == "number":
                flat[-1] = int(flat[-1])
        return pytree.tree_unflatten(flat, self.call_spec.out_spec)
