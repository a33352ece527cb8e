# Owns: contexts: diagnostics become exceptions, one thread at a time, handles that are freed once.
# Does not own: graphs (graph.py), plans (plan.py).
# Next: graph.py.
import ctypes
import operator
import threading
import weakref

from . import abi
from .abi import library

INVALID_ARGUMENT = 2  # qf_status
INT32_MAX, UINT32_MAX, INT64_MIN, INT64_MAX = 2**31 - 1, 2**32 - 1, -2**63, 2**63 - 1


class Error(RuntimeError):
    """A failure of the library. The text holds each located message: "place: what was expected, what was found".

    status: a name such as "parse" or "guard" (include/qfuse/status.h). location: of the first message, "" if unknown."""

    def __init__(self, status, messages):
        self.number = status
        self.status = abi.STATUS_NAMES.get(status, str(status))
        self.messages = messages
        self.location = messages[0][0] if messages else ""
        super().__init__("\n".join(_line(*message) for message in messages) or self.status)

    def at(self, place):
        """The same, of a fault whose messages know no place."""
        return Error(self.number, [(location or place, said) for location, said in self.messages])


def _line(location, text):
    return f"{location}: {text}" if location else text


def text(value):
    return value.decode("utf-8", "backslashreplace") if value else ""


def whole(what, value, least, most):
    """A whole number in bounds. ctypes would cut off what does not fit its C type."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, expected a whole number") from None
    if not least <= number <= most:
        raise Error(INVALID_ARGUMENT, [("", f"{what} is {number}, expected {least} to {most}")])
    return number


def encode(value):
    return None if value is None else str(value).encode()


class Context:
    """Owns strings, types and messages of all that is made from it. A lock keeps it to one thread at a time; objects
    made from it hold it alive."""

    def __init__(self):
        self.lock = threading.RLock()
        self.errors = []
        self.warnings = []
        state = weakref.ref(self)

        def receive(_, diagnostic):
            self_ = state()
            if self_ is None:
                return
            said = (text(diagnostic[0].location), text(diagnostic[0].message))
            if diagnostic[0].severity == 0:
                self_.errors.append(said)
            elif diagnostic[0].severity == 1:
                self_.warnings.append(said)

        handler = abi.diagnostic_handler(receive)
        options = abi.qf_context_options(handler=handler)
        handle = ctypes.c_void_p()
        status = library.qf_context_create(ctypes.byref(options), ctypes.byref(handle))
        if status:
            raise MemoryError("no memory for a context") if status == 1 else Error(status, [])
        self.handle = handle
        # The handler is called until the context is gone.
        _destroy_with(self, _destroy_context, handle, handler)

    def check(self, status):
        """Raises what the library said about a status other than ok."""
        if status == 0:
            return
        messages, self.errors = self.errors, []
        library.qf_context_clear_status(self.handle)
        if status == 1:
            raise MemoryError("QFuse ran out of memory")
        raise Error(status, messages)


def _destroy_with(owner, destroy, *arguments):
    """Calls `destroy` when `owner` goes, but not at the interpreter's exit: there it would come before the last consumers
    of memory that was lent, and the process gives everything back anyway."""
    weakref.finalize(owner, destroy, *arguments).atexit = False


def _destroy_context(handle, handler):
    library.qf_context_destroy(handle)
    del handler


class Handle:
    """A C object of a context. `keep` is held as long as the object lives."""

    def __init__(self, context, handle, destroy, *keep):
        self.context = context
        self.handle = handle
        self._keep = keep
        _destroy_with(self, _destroy, context, handle, destroy, keep)


def _destroy(context, handle, destroy, keep):
    with context.lock:
        destroy(handle)
    del keep
