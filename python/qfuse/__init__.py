# Owns: what the package offers.
# Does not own: how (the modules beside it).
# Next: docs/python.md.
"""QFuse finds attention followed by FP8 quantisation, rewrites it to one FP8 attention, and runs the result.

    result = qfuse.optimize(torch.export.export(model, inputs))
    print(result.report)
    outputs = result(*inputs)
"""
from .abi import library as _library
from .context import Error
from .graph import Graph, Report, Site, read, read_pt2, read_text
from .plan import Executor, Plan, TensorInfo, run
from .program import Optimized, optimize, target_of
from .tensor import Tensor

__version__ = _library.qf_version().decode()
__all__ = ["Error", "Executor", "Graph", "Optimized", "Plan", "Report", "Site", "Tensor", "TensorInfo", "optimize",
           "read", "read_pt2", "read_text", "run", "target_of"]
