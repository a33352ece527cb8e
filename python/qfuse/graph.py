# Owns: graphs: reading models, running pipelines, the report of a run.
# Does not own: plans (plan.py), torch's programs (program.py).
# Next: plan.py.
import ctypes
import os
from dataclasses import dataclass

from . import abi
from .abi import library
from .context import UINT32_MAX, Context, Handle, encode, text, whole
from .plan import Plan


@dataclass(frozen=True)
class Site:
    """One attention: fused, or why not. `location` and `miss_location` are places of the source."""
    name: str
    location: str
    recognised: bool
    fused: bool  # writes FP8
    fp8_query: bool  # reads q as FP8
    rule: str  # that fused it
    numerics: str  # loosest class of all rewrites at the site
    note: str  # what those looser than exact added or dropped
    miss_code: str
    miss_node: str
    miss_location: str
    miss_text: str

    def __str__(self):
        where = self.location or self.name
        if self.fused:
            query = "; reads q as FP8" if self.fp8_query else ""
            note = f": {self.note}" if self.note else ""
            return f"{where}: fused by {self.rule} ({self.numerics}){query}{note}"
        place = f" at {self.miss_location}" if self.miss_location and self.miss_location != where else ""
        return f"{where}: not fused [{self.miss_code}]: {self.miss_text}{place}"


@dataclass(frozen=True)
class Report:
    """What a pipeline did. str(report) has a line for each attention."""
    attentions: int
    fused_fp8_out: int
    fp8_query: int
    query_quants_inserted: int
    sites: tuple
    rewrites: tuple  # a line each: number, rule, numerics class, place
    warnings: tuple  # "place: what": operators that were carried through as they are, and the like

    def __str__(self):
        head = f"{self.fused_fp8_out} of {self.attentions} attentions write FP8, {self.fp8_query} read q as FP8"
        return "\n".join([head, *map(str, self.sites)])


class Graph(Handle):
    """A tensor graph of QFuse. Made by read() or read_text(); str(graph) is its text form."""

    def __init__(self, context, handle, *keep):
        super().__init__(context, handle, library.qf_graph_destroy, *keep)

    def __str__(self):
        out, size = ctypes.c_void_p(), ctypes.c_size_t()
        with self.context.lock:
            self.context.check(library.qf_graph_to_text(self.handle, ctypes.byref(out), ctypes.byref(size)))
            result = ctypes.string_at(out.value, size.value).decode()
            library.qf_text_destroy(self.context.handle, out)
        return result

    def run_pipeline(self, passes=None, *, numerics=None, target=None, query_scale=None, rules=None, rewrite_limit=None):
        """Rewrites the graph in place and returns the Report. The arguments are those of `qfuse opt`; rules: text."""
        options = abi.qf_pipeline_options(passes=encode(passes), numerics=encode(numerics), target=encode(target),
                                          query_scale=encode(query_scale), rules=encode(rules), rules_name=b"rules",
                                          limit_rewrites=rewrite_limit is not None,
                                          rewrite_limit=whole("rewrite_limit", rewrite_limit or 0, 0, UINT32_MAX))
        run = ctypes.c_void_p()
        with self.context.lock:
            self.context.check(library.qf_run_pipeline(self.handle, ctypes.byref(options), ctypes.byref(run)))
            try:
                return _report(self.context, run)
            finally:
                library.qf_run_destroy(run)

    def compile(self, *, target=None, pipeline=None, numerics=None):
        """A Plan of the graph as it is now."""
        options = abi.qf_compile_options(target=encode(target), pipeline=encode(pipeline), numerics=encode(numerics))
        plan = ctypes.c_void_p()
        with self.context.lock:
            self.context.check(library.qf_compile(self.handle, ctypes.byref(options), ctypes.byref(plan)))
        return Plan(self.context, plan, self)  # weights that are bound to the graph stay borrowed

    def weight(self, name):
        """The bytes bound to a parameter or a buffer of this name, or None. A copy: see has_weight()."""
        size = ctypes.c_size_t()
        with self.context.lock:
            data = library.qf_graph_weight(self.handle, encode(name), ctypes.byref(size))
        return ctypes.string_at(data, size.value) if data else None

    def has_weight(self, name):
        with self.context.lock:
            return bool(library.qf_graph_weight(self.handle, encode(name), None))


def _report(context, run):
    counts = abi.qf_run_counts()
    library.qf_run_get_counts(run, ctypes.byref(counts))
    sites = []
    for index in range(library.qf_run_site_count(run)):
        site = abi.qf_site()
        context.check(library.qf_run_get_site(run, index, ctypes.byref(site)))
        fields = {name: getattr(site, name) for name in Site.__dataclass_fields__}
        sites.append(Site(**{name: value if isinstance(value, bool) else text(value) for name, value in fields.items()}))
    rewrites = tuple(text(library.qf_run_rewrite_text(run, index)) for index in range(counts.rewrites))
    warnings = tuple(f"{place}: {said}" if place else said for place, said in context.warnings)
    return Report(counts.attentions, counts.fused_fp8_out, counts.fp8_query, counts.query_quants_inserted, tuple(sites),
                  rewrites, warnings)


def read_text(source, name="graph.qf"):
    """A Graph from QFuse text (docs/ir.md)."""
    context, data, graph = Context(), source.encode(), ctypes.c_void_p()
    with context.lock:
        context.check(library.qf_graph_from_text(context.handle, data, len(data), encode(name), ctypes.byref(graph)))
    return Graph(context, graph)


def read_pt2(data, name="model.pt2", customs=None, kv_cache=None, page_size=0):
    """A Graph from the bytes of a torch.export archive. customs: rows for more custom operators; kv_cache, page_size: the
    caches of layers that are only names become inputs (docs/pt2.md)."""
    context, graph = Context(), ctypes.c_void_p()
    options = abi.qf_pt2_import_options(name=encode(name), customs=encode(customs), kv_cache=encode(kv_cache),
                                        page_size=whole("page_size", page_size, 0, UINT32_MAX))
    memory = (ctypes.c_char * len(data)).from_buffer(data) if isinstance(data, bytearray) else ctypes.c_char_p(data)
    with context.lock:
        context.check(library.qf_pt2_import_memory(context.handle, ctypes.cast(memory, ctypes.c_void_p), len(data),
                                                   ctypes.byref(options), ctypes.byref(graph)))
    return Graph(context, graph, memory, data)


def read(path, customs=None, kv_cache=None, page_size=0):
    """A Graph from a file: an ONNX model (.onnx), a torch.export archive (.pt2), or QFuse text. The others: as for read_pt2."""
    path = os.fspath(path)
    context, graph = Context(), ctypes.c_void_p()
    if path.endswith(".pt2"):
        options = abi.qf_pt2_import_options(customs=encode(customs), kv_cache=encode(kv_cache),
                                            page_size=whole("page_size", page_size, 0, UINT32_MAX))
        with context.lock:
            context.check(library.qf_pt2_import_file(context.handle, encode(path), ctypes.byref(options),
                                                     ctypes.byref(graph)))
        return Graph(context, graph)
    if path.endswith(".onnx"):
        with context.lock:
            context.check(library.qf_onnx_import_file(context.handle, encode(path), None, ctypes.byref(graph)))
        return Graph(context, graph)
    with open(path, encoding="utf-8") as file:
        return read_text(file.read(), path)
