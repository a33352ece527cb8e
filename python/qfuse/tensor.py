# Owns: tensors in and out: DLPack capsules and buffers as qf_tensor, memory of ours offered as DLPack.
# Does not own: DLPack's layouts (abi.py), running on tensors (plan.py).
# Next: plan.py.
import ctypes
import math
import struct
from ctypes import pythonapi

from . import abi
from .abi import library
from .context import INT64_MAX, INVALID_ARGUMENT, Context, Error, whole

_UNSUPPORTED = 5  # qf_status

pythonapi.PyCapsule_New.restype = ctypes.py_object
pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
# Given as addresses: a destructor sees an object that is going away, which must not be referenced again.
pythonapi.PyCapsule_IsValid.restype = ctypes.c_int
pythonapi.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
pythonapi.Py_IncRef.restype = None
pythonapi.Py_IncRef.argtypes = [ctypes.py_object]

_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_MANAGED = {_PLAIN: abi.qf_dl_managed_tensor, _VERSIONED: abi.qf_dl_managed_tensor_versioned}

# Element types of Python's buffers; the others have no letter there.
_FORMATS = {"f32": "f", "f64": "d", "f16": "e", "i1": "?", "i8": "b", "u8": "B", "i32": "i", "i64": "q"}
_BUFFER_DTYPES = {**{letter: name for name, letter in _FORMATS.items()}, "l": "i64"}
# FP8 tensors of torch and of ml_dtypes lend their bytes; neither exports the type everywhere.
_FLOAT8 = {"float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float8_e4m3fnuz": "f8E4M3FNUZ",
           "float8_e5m2fnuz": "f8E5M2FNUZ", "float8_e8m0fnu": "f8E8M0FNU"}
_BYTES = {"bfloat16": "bf16", **_FLOAT8}


def is_torch(value):
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "data_ptr")


def torch_gpu(values):
    """torch's device of the first tensor that lies on a GPU, or None."""
    return next((value.device for value in values if is_torch(value) and value.is_cuda), None)


def torch_stream(device):
    """The address of torch's current stream; 0: the default one."""
    import torch
    return torch.cuda.current_stream(device).cuda_stream


def is_numpy(value):
    return type(value).__module__.split(".")[0] == "numpy" and hasattr(value, "__array_interface__")


def _refuse(reason):
    raise Error(_UNSUPPORTED, [("", reason)])


def _refuse_strides(shape, strides):
    _refuse(f"shape {tuple(shape)} has strides {tuple(strides)}, which are not contiguous (row-major); bind a contiguous "
            "copy, which later writes to the tensor itself do not reach")


def _borrow_torch(value, stream, copy):
    """A tensor whose memory may be read as it lies, and the dtype that DLPack cannot be trusted to say."""
    import torch
    value = value.detach()
    if value.is_conj() or value.is_neg() or not value.is_contiguous():
        if not copy:
            _refuse_strides(value.shape, value.stride())
        value = value.resolve_conj().resolve_neg().contiguous()
    if value.is_cuda and stream is not None:
        # Else torch gives the memory away when it is dropped, which may be before `stream` gets to the launches.
        value.record_stream(torch.cuda.ExternalStream(stream, value.device) if stream
                            else torch.cuda.default_stream(value.device))
    name = _FLOAT8.get(str(value.dtype).removeprefix("torch."))
    return (value, None) if name is None else (value.view(torch.uint8), name)


def _borrow_numpy(value, copy):
    import numpy
    if not value.flags.c_contiguous and not copy:
        _refuse_strides(value.shape, (step // value.itemsize for step in value.strides))
    value = numpy.ascontiguousarray(value).reshape(value.shape)
    if not value.flags.writeable:  # DLPack before 1.0 cannot say so, and NumPy refuses
        if not copy:
            _refuse("the array is read-only; bind a copy")
        value = value.copy()
    name = _BYTES.get(value.dtype.name)
    if name is None:
        return value, None
    return value.view(numpy.uint16 if name == "bf16" else numpy.uint8), name


def _capsule(value, stream):
    """The producer makes `stream` wait for what it has still to write."""
    if value.__dlpack_device__()[0] == abi.DL_CUDA:
        arguments = {"stream": abi.DL_NO_ORDER if stream is None else stream or abi.DL_DEFAULT_STREAM}
    else:
        arguments = {}
    try:
        return value.__dlpack__(max_version=abi.DL_VERSION, **arguments)
    except (TypeError, BufferError):  # a producer from before DLPack 1.0, or memory that only it may read
        return value.__dlpack__(**arguments)


def _from_dlpack(context, value, stream, writable):
    capsule = _capsule(value, stream)
    out, read_only = abi.qf_tensor(), ctypes.c_bool()
    for name in (_VERSIONED, _PLAIN):
        if not pythonapi.PyCapsule_IsValid(id(capsule), name):
            continue
        managed = pythonapi.PyCapsule_GetPointer(id(capsule), name)
        if name == _VERSIONED:
            context.check(library.qf_tensor_from_versioned(context.handle, managed, ctypes.byref(out),
                                                           ctypes.byref(read_only)))
            if writable and read_only:
                _refuse("its producer lends the memory for reading only")
        else:
            context.check(library.qf_tensor_from_managed(context.handle, managed, ctypes.byref(out)))
        return out, capsule  # its destructor gives the tensor back
    raise TypeError(f"{type(value).__name__}.__dlpack__ gave no DLPack capsule")


def _from_buffer(value, copy):
    view = memoryview(value)
    name = _BUFFER_DTYPES.get(view.format)
    if name is None or not view.c_contiguous or view.ndim > abi.MAX_RANK:
        raise TypeError(f"a buffer of format {view.format!r}, rank {view.ndim} is no tensor that QFuse knows; expected "
                        f"contiguous elements of one of {', '.join(sorted(_BUFFER_DTYPES))}")
    size = max(view.nbytes, 1)
    if view.readonly and not copy:
        _refuse("the buffer is read-only; bind a copy")
    if view.readonly or not view.nbytes:
        memory = (ctypes.c_char * size).from_buffer_copy(view.tobytes() or b"\0")
    else:
        memory = (ctypes.c_char * size).from_buffer(view)
    return make(name, view.shape, ctypes.addressof(memory)), memory


def make(dtype, shape, address, device=(0, 0)):
    out = abi.qf_tensor(dtype=abi.DTYPE_NUMBERS[dtype], rank=len(shape), data=address, device_type=device[0],
                        device_id=device[1])
    for axis, size in enumerate(shape):
        out.dims[axis] = size
    return out


def borrow(context, value, stream=None, *, ordered=True, copy=False, writable=False):
    """A qf_tensor on the memory of `value`, and what must be held as long as it is used.

    stream: the address of the CUDA stream that will use it, 0: the default one. It waits for what the producer has still to
    write (unless not ordered), and the memory is kept for it. copy: what does not lie as QFuse reads it is copied, else refused."""
    if isinstance(value, Tensor):
        value.ready_on(stream)
        return value.tensor, value
    name = None
    if is_torch(value):
        value, name = _borrow_torch(value, stream, copy)
    elif is_numpy(value):
        value, name = _borrow_numpy(value, copy)
    if not hasattr(value, "__dlpack__"):
        return _from_buffer(value, copy)
    tensor, owner = _from_dlpack(context, value, stream if ordered else None, writable)
    if name is not None:
        tensor.dtype = abi.DTYPE_NUMBERS[name]
    return tensor, owner


# --- memory of ours ---

_lent = {}  # what consumers of DLPack still use, by number


def _lasting(callback):
    """Never frees a callback. Consumers let go whenever they like, at the interpreter's exit even after this module's names
    are gone: a lasting callback takes all that it uses as defaults of its arguments."""
    pythonapi.Py_IncRef(callback)
    return callback


@_lasting
@abi.release_function
def _release(number, lent=_lent):
    lent.pop(number, None)


@_lasting
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _destroy_capsule(capsule, managed=tuple(_MANAGED.items()), is_valid=pythonapi.PyCapsule_IsValid,
                     get_pointer=pythonapi.PyCapsule_GetPointer):
    """A capsule that nobody consumed: consumers rename the ones they took."""
    for name, layout in managed:
        if is_valid(capsule, name):
            address = get_pointer(capsule, name)
            layout.from_address(address).deleter(address)


_context = Context()  # of wrappers, which their consumers free whenever they like


class Tensor:
    """Contiguous elements that QFuse made. Frameworks take it without a copy: torch.from_dlpack(t), numpy.asarray(t) in host
    memory (FP8 and bf16 as ml_dtypes has them, else as their bits). `dtype` is a name such as "f8E4M3FN"."""

    def __init__(self, tensor, owner, *keep):
        self.tensor = tensor
        self._owner = owner
        self._keep = keep

    @classmethod
    def empty(cls, dtype, shape):
        """Zeroed host memory."""
        if dtype not in abi.DTYPE_NAMES[1:-1] or len(shape) > abi.MAX_RANK:
            raise Error(INVALID_ARGUMENT, [("", f"expected a type of {', '.join(abi.DTYPE_NAMES[1:-1])} and at most "
                                            f"{abi.MAX_RANK} axes, found {dtype!r} of {len(shape)}")])
        shape = [whole(f"the size of axis {axis}", size, 0, INT64_MAX) for axis, size in enumerate(shape)]
        tensor = make(dtype, shape, None)
        size = library.qf_tensor_bytes(ctypes.byref(tensor))
        if size > 1 << 48:
            raise MemoryError(f"no memory for {dtype}{list(shape)}")
        memory = (ctypes.c_char * max(size + 64, 1))()
        tensor.data = (ctypes.addressof(memory) + 63) // 64 * 64
        return cls(tensor, memory)

    def fill(self, data):
        """Takes over the bytes of `data`, which are as many as the tensor's. Host memory only."""
        size = library.qf_tensor_bytes(ctypes.byref(self.tensor))
        if len(data) != size:
            raise ValueError(f"{self!r} takes {size} bytes, found {len(data)}")
        ctypes.memmove(self.tensor.data, data, size)

    @property
    def dtype(self):
        return abi.DTYPE_NAMES[self.tensor.dtype]

    @property
    def shape(self):
        return tuple(self.tensor.dims[:self.tensor.rank])

    def __repr__(self):
        return f"qfuse.Tensor({self.dtype}{list(self.shape)})"

    def __dlpack_device__(self):
        return (self.tensor.device_type or abi.DL_CPU, self.tensor.device_id)

    def ready_on(self, stream):
        """Waits for the run that writes the tensor, unless it goes before what `stream` does next."""
        if hasattr(self._owner, "ready_on"):
            self._owner.ready_on(stream)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("QFuse lends its memory where it lies; it makes no copies for other devices")
        if stream != abi.DL_NO_ORDER:
            self.ready_on(0 if stream in (None, abi.DL_DEFAULT_STREAM) else stream)
        versioned = max_version is not None and max_version[0] >= 1
        out = ctypes.c_void_p()
        wrap = library.qf_tensor_to_versioned if versioned else library.qf_tensor_to_managed
        with _context.lock:
            number = id(self)
            while number in _lent:
                number += 1
            _lent[number] = self
            try:
                _context.check(wrap(_context.handle, ctypes.byref(self.tensor), _release, number, ctypes.byref(out)))
            except BaseException:
                del _lent[number]
                raise
        return pythonapi.PyCapsule_New(out.value, _VERSIONED if versioned else _PLAIN, _destroy_capsule)

    def __array__(self, dtype=None, copy=None):
        self._check_host()
        view = _as_numpy(self)
        if copy is False and dtype is not None and view.dtype != dtype:
            raise ValueError(f"{self!r} as {dtype} takes a copy")
        return view.astype(view.dtype if dtype is None else dtype, copy=bool(copy))

    def copy(self):
        """The same elements in memory of their own. Host memory only."""
        self._check_host()
        own = Tensor.empty(self.dtype, self.shape)
        ctypes.memmove(own.tensor.data, self.tensor.data, library.qf_tensor_bytes(ctypes.byref(self.tensor)))
        return own

    def _check_host(self):
        if self.__dlpack_device__()[0] != abi.DL_CPU:
            raise BufferError("the tensor lies in device memory; take it through DLPack")

    def tobytes(self):
        """The elements as bytes, row-major. Host memory only."""
        self._check_host()
        return ctypes.string_at(self.tensor.data, library.qf_tensor_bytes(ctypes.byref(self.tensor)))

    def tolist(self):
        """Nested lists of numbers, for element types that Python knows."""
        if self.dtype not in _FORMATS:
            raise TypeError(f"Python has no numbers of type {self.dtype}; take tobytes()")
        if 0 in self.shape:
            return _empty_lists(self.shape)
        flat = struct.unpack(f"={self.element_count()}{_FORMATS[self.dtype]}", self.tobytes())
        for size in reversed(self.shape[1:]):
            flat = [list(flat[at:at + size]) for at in range(0, len(flat), size)]
        return list(flat) if self.shape else flat[0]

    def element_count(self):
        return math.prod(self.shape)


def _empty_lists(shape):
    return [_empty_lists(shape[1:]) for _ in range(shape[0])] if shape else None


# --- results in the framework of the inputs ---

def framework_of(values):
    """"torch", "numpy" or "": of the first input that is of one."""
    for value in values:
        if is_torch(value):
            return "torch"
        if is_numpy(value):
            return "numpy"
    return ""


def torch_dtype(name):
    import torch
    plain = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i1": "bool", "i8": "int8",
             "u8": "uint8", "i32": "int32", "i64": "int64", **{ours: theirs for theirs, ours in _FLOAT8.items()}}
    dtype = getattr(torch, plain.get(name, ""), None)
    if dtype is None:
        raise TypeError(f"this torch has no element type for {name}")
    return dtype


def give(tensor, framework):
    """A Tensor as the framework has them; NumPy gets FP8 and bf16 as bytes unless ml_dtypes is there."""
    if framework == "torch":
        import torch
        dtype = torch_dtype(tensor.dtype)
        if tensor.dtype not in _FLOAT8.values():
            return torch.from_dlpack(tensor)
        lent = abi.qf_tensor.from_buffer_copy(tensor.tensor)
        lent.dtype = abi.DTYPE_NUMBERS["u8"]
        return torch.from_dlpack(Tensor(lent, tensor)).view(dtype)
    return _as_numpy(tensor).copy() if framework == "numpy" else tensor


class _Elements:
    """What an array of NumPy holds as the owner of its memory."""

    def __init__(self, tensor, shape, letters):
        self._tensor = tensor
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": letters, "data": (tensor.tensor.data, False)}


def _as_numpy(tensor):
    """An array on the memory of the tensor. Packed elements are a row of bytes."""
    import numpy
    if tensor.dtype in _FORMATS:
        return numpy.asarray(_Elements(tensor, tensor.shape, numpy.dtype(_FORMATS[tensor.dtype]).str))
    name = {ours: theirs for theirs, ours in _BYTES.items()}.get(tensor.dtype)
    if name is None:
        return numpy.asarray(_Elements(tensor, (library.qf_tensor_bytes(ctypes.byref(tensor.tensor)),), "|u1"))
    bits = numpy.asarray(_Elements(tensor, tensor.shape, numpy.dtype("u2" if tensor.dtype == "bf16" else "u1").str))
    try:
        import ml_dtypes
        return bits.view(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        return bits
