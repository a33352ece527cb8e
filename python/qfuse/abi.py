# Owns: the C ABI as ctypes sees it: where the library lies, its structs and functions, each declared once.
# Does not own: what is done with them (context.py, graph.py, plan.py, tensor.py).
# Next: context.py; include/qfuse/ for what everything means. tests/test_abi.py compares this file with the headers.
import ctypes
import os
from ctypes import (CFUNCTYPE, POINTER, c_bool, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16,
                    c_uint32, c_uint64, c_void_p)
from pathlib import Path

c_status = c_int32
MAX_RANK = 8

STATUS_NAMES = {0: "ok", 1: "out_of_memory", 2: "invalid_argument", 3: "parse", 4: "verify", 5: "unsupported", 6: "io",
                7: "limit", 8: "not_found", 9: "version", 10: "guard", 11: "device", 12: "internal"}
DTYPE_NAMES = ("none", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E8M0FNU", "f4E2M1FN",
               "i1", "i8", "u8", "i32", "i64", "f64", "token")
DTYPE_NUMBERS = {name: number for number, name in enumerate(DTYPE_NAMES)}


class Options(ctypes.Structure):
    """A struct that begins with its own size."""

    def __init__(self, **fields):
        super().__init__(**fields)
        self.struct_size = ctypes.sizeof(self)


class qf_diagnostic(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("severity", c_int32), ("status", c_status), ("location", c_char_p),
                ("message", c_char_p), ("source_line", c_char_p), ("column", c_uint32)]


diagnostic_handler = CFUNCTYPE(None, c_void_p, POINTER(qf_diagnostic))


class qf_allocator(ctypes.Structure):
    _fields_ = [("reallocate", c_void_p), ("user", c_void_p)]


class qf_context_options(Options):
    _fields_ = [("struct_size", c_size_t), ("allocator", qf_allocator), ("handler", diagnostic_handler),
                ("handler_user", c_void_p)]


class qf_pt2_import_options(Options):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("max_bytes", c_uint64), ("max_json", c_uint64),
                ("max_nodes", c_uint64), ("customs", c_char_p), ("kv_cache", c_char_p), ("page_size", c_uint32)]


class qf_pipeline_options(Options):
    _fields_ = [("struct_size", c_size_t), ("passes", c_char_p), ("numerics", c_char_p), ("target", c_char_p),
                ("query_scale", c_char_p), ("rewrite_limit", c_uint32), ("skip_verify", c_bool), ("observer", c_void_p),
                ("observer_user", c_void_p), ("rules", c_char_p), ("rules_name", c_char_p),
                ("limit_rewrites", c_bool)]


class qf_site(Options):
    _fields_ = [("struct_size", c_size_t), ("tag", c_uint64), ("name", c_char_p), ("location", c_char_p),
                ("recognised", c_bool), ("fused", c_bool), ("fp8_query", c_bool), ("rule", c_char_p),
                ("numerics", c_char_p), ("note", c_char_p), ("miss_code", c_char_p), ("miss_node", c_char_p),
                ("miss_location", c_char_p), ("miss_text", c_char_p)]


class qf_run_counts(Options):
    _fields_ = [("struct_size", c_size_t), ("attentions", c_uint32), ("fused_fp8_out", c_uint32),
                ("fp8_query", c_uint32), ("query_quants_inserted", c_uint32), ("rewrites", c_uint32)]


class qf_compile_options(Options):
    _fields_ = [("struct_size", c_size_t), ("target", c_char_p), ("pipeline", c_char_p), ("numerics", c_char_p),
                ("rules", c_char_p), ("source", c_void_p)]


class qf_plan_tensor_info(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int32), ("rank", c_uint32), ("dims", c_int64 * MAX_RANK),
                ("file", c_char_p), ("offset", c_uint64), ("size", c_uint64), ("in_place", c_int32),
                ("reason", c_char_p)]


class qf_executor_options(Options):
    _fields_ = [("struct_size", c_size_t), ("device", c_char_p), ("thread_count", c_uint32), ("weights_root", c_char_p),
                ("time_steps", c_bool), ("check_hashes", c_bool), ("stream", c_void_p), ("device_id", c_int32)]


class qf_tensor(ctypes.Structure):
    _fields_ = [("dtype", c_int32), ("rank", c_uint32), ("dims", c_int64 * MAX_RANK), ("data", c_void_p),
                ("device_type", c_int32), ("device_id", c_int32)]


class qf_dl_version(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class qf_dl_device(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class qf_dl_data_type(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class qf_dl_tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", qf_dl_device), ("ndim", c_int32), ("dtype", qf_dl_data_type),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class qf_dl_managed_tensor(ctypes.Structure):
    _fields_ = [("dl_tensor", qf_dl_tensor), ("manager_ctx", c_void_p), ("deleter", CFUNCTYPE(None, c_void_p))]


class qf_dl_managed_tensor_versioned(ctypes.Structure):
    _fields_ = [("version", qf_dl_version), ("manager_ctx", c_void_p), ("deleter", CFUNCTYPE(None, c_void_p)),
                ("flags", c_uint64), ("dl_tensor", qf_dl_tensor)]


DL_VERSION = (1, 1)
DL_CPU, DL_CUDA = 1, 2
DL_NO_ORDER, DL_DEFAULT_STREAM = -1, 1  # what a consumer's `stream` may be beside an address

release_function = CFUNCTYPE(None, c_void_p)
write_function = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)

# name: result, arguments. Handles are c_void_p.
FUNCTIONS = {
    "qf_version": (c_char_p, []),
    "qf_context_create": (c_status, [POINTER(qf_context_options), POINTER(c_void_p)]),
    "qf_context_destroy": (None, [c_void_p]),
    "qf_context_clear_status": (None, [c_void_p]),
    "qf_graph_from_text": (c_status, [c_void_p, c_char_p, c_size_t, c_char_p, POINTER(c_void_p)]),
    "qf_graph_to_text": (c_status, [c_void_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "qf_text_destroy": (None, [c_void_p, c_void_p]),
    "qf_graph_weight": (c_void_p, [c_void_p, c_char_p, POINTER(c_size_t)]),
    "qf_graph_destroy": (None, [c_void_p]),
    "qf_onnx_import_file": (c_status, [c_void_p, c_char_p, c_void_p, POINTER(c_void_p)]),
    "qf_pt2_import_file": (c_status, [c_void_p, c_char_p, POINTER(qf_pt2_import_options), POINTER(c_void_p)]),
    "qf_pt2_import_memory": (c_status,
                             [c_void_p, c_void_p, c_size_t, POINTER(qf_pt2_import_options), POINTER(c_void_p)]),
    "qf_run_pipeline": (c_status, [c_void_p, POINTER(qf_pipeline_options), POINTER(c_void_p)]),
    "qf_run_destroy": (None, [c_void_p]),
    "qf_run_get_counts": (None, [c_void_p, POINTER(qf_run_counts)]),
    "qf_run_site_count": (c_uint32, [c_void_p]),
    "qf_run_get_site": (c_status, [c_void_p, c_uint32, POINTER(qf_site)]),
    "qf_run_rewrite_text": (c_char_p, [c_void_p, c_uint32]),
    "qf_compile": (c_status, [c_void_p, POINTER(qf_compile_options), POINTER(c_void_p)]),
    "qf_plan_from_bytes": (c_status, [c_void_p, c_char_p, c_size_t, POINTER(c_void_p)]),
    "qf_plan_load": (c_status, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "qf_plan_save": (c_status, [c_void_p, c_void_p, c_char_p]),
    "qf_plan_print": (c_status, [c_void_p, c_void_p, write_function, c_void_p]),
    "qf_plan_destroy": (None, [c_void_p]),
    "qf_plan_target": (c_char_p, [c_void_p]),
    "qf_plan_input_count": (c_uint32, [c_void_p]),
    "qf_plan_output_count": (c_uint32, [c_void_p]),
    "qf_plan_parameter_count": (c_uint32, [c_void_p]),
    "qf_plan_symbol_count": (c_uint32, [c_void_p]),
    "qf_plan_input": (c_bool, [c_void_p, c_uint32, POINTER(qf_plan_tensor_info)]),
    "qf_plan_output": (c_bool, [c_void_p, c_uint32, POINTER(qf_plan_tensor_info)]),
    "qf_plan_parameter": (c_bool, [c_void_p, c_uint32, POINTER(qf_plan_tensor_info)]),
    "qf_plan_symbol": (c_char_p, [c_void_p, c_uint32]),
    "qf_executor_create": (c_status, [c_void_p, c_void_p, POINTER(qf_executor_options), POINTER(c_void_p)]),
    "qf_executor_destroy": (None, [c_void_p]),
    "qf_executor_bind_input": (c_status, [c_void_p, c_uint32, POINTER(qf_tensor)]),
    "qf_executor_bind_output": (c_status, [c_void_p, c_uint32, POINTER(qf_tensor)]),
    "qf_executor_bind_parameter": (c_status, [c_void_p, c_char_p, POINTER(qf_tensor)]),
    "qf_executor_bind_symbol": (c_status, [c_void_p, c_char_p, c_int64]),
    "qf_executor_prepare": (c_status, [c_void_p]),
    "qf_executor_run": (c_status, [c_void_p]),
    "qf_executor_capture": (c_status, [c_void_p]),
    "qf_executor_drop_capture": (None, [c_void_p]),
    "qf_executor_wait": (c_status, [c_void_p]),
    "qf_executor_output": (c_status, [c_void_p, c_uint32, POINTER(qf_tensor)]),
    "qf_tensor_bytes": (c_uint64, [POINTER(qf_tensor)]),
    "qf_tensor_from_managed": (c_status, [c_void_p, c_void_p, POINTER(qf_tensor)]),
    "qf_tensor_from_versioned": (c_status, [c_void_p, c_void_p, POINTER(qf_tensor), POINTER(c_bool)]),
    "qf_tensor_to_managed": (c_status, [c_void_p, POINTER(qf_tensor), release_function, c_void_p, POINTER(c_void_p)]),
    "qf_tensor_to_versioned": (c_status,
                               [c_void_p, POINTER(qf_tensor), release_function, c_void_p, POINTER(c_void_p)]),
}

STRUCTS = (qf_diagnostic, qf_allocator, qf_context_options, qf_pt2_import_options, qf_pipeline_options, qf_site,
           qf_run_counts, qf_compile_options, qf_plan_tensor_info, qf_executor_options, qf_tensor, qf_dl_version,
           qf_dl_device, qf_dl_data_type, qf_dl_tensor, qf_dl_managed_tensor, qf_dl_managed_tensor_versioned)


def candidates():
    """Where libqfuse.so is looked for, in order: QFUSE_LIBRARY alone where it is set; beside the package; the build
    folders of the repository that the package lies in, release first; what the system's loader finds."""
    if os.environ.get("QFUSE_LIBRARY"):
        return [os.environ["QFUSE_LIBRARY"]]
    here = Path(__file__).resolve().parent
    build = here.parent.parent / "build"
    folders = [here, build / "release", *sorted(build.glob("*"))]
    found = [folder / name for folder in folders for name in ("libqfuse.so", "libqfuse.so.0")]
    return [str(path) for path in dict.fromkeys(found) if path.is_file()] + ["libqfuse.so.0"]


def load():
    """The library with all functions declared. OSError names every place that was tried."""
    faults = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
            break
        except OSError as fault:
            faults.append(f"{path}: {fault}")
    else:
        raise OSError("libqfuse.so was not found; build QFuse, or set QFUSE_LIBRARY to the file. Tried:\n  " +
                      "\n  ".join(faults))
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise OSError(f"{path} has no function {name}: it is older than this package") from None
        function.restype = result
        function.argtypes = arguments
    return library


library = load()
