# Owns: tests of graphs, plans, tensors and errors with the standard library alone.
# Does not own: torch (test_torch.py), the ABI (test_abi.py).
# Next: qfuse/plan.py.
import array
import gc
import importlib.util
import os
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref
from pathlib import Path

import qfuse
from qfuse import abi

try:
    import numpy
except ImportError:
    numpy = None

DOUBLE = 'graph @g(%x: f32[B, 2], %s: f32[]) {\n  %y = mul %x, %s\n  return %y as "y"\n}\n'
ATTENTION = """graph @layer(%q: f32[1, 2, T, 8], %k: f32[1, 2, S, 8], %v: f32[1, 2, S, 8], %out_scale: f32[]) {
  %scores = contract %q, %k {equation="bhtd,bhsd->bhts"}
  %p = softmax %scores {axis=3}
  %o = contract %p, %v {equation="bhts,bhsd->bhtd"}
  %y = quantize %o, %out_scale {dtype=f8E4M3FN}
  return %y
}
"""


def floats(shape, values):
    return memoryview(array.array("f", values)).cast("B").cast("f", shape)


def scalar(value):
    tensor = qfuse.Tensor.empty("f32", ())
    tensor.fill(struct.pack("f", value))
    return tensor


class Running(unittest.TestCase):
    def test_by_name_and_in_order(self):
        plan = qfuse.read_text(DOUBLE).compile()
        x = floats((3, 2), range(6))
        for values in ({"s": scalar(2), "x": x}, [x, scalar(2)]):
            made, = qfuse.run(plan, values)
            self.assertEqual((made.dtype, made.shape), ("f32", (3, 2)))
            self.assertEqual(made.tolist(), [[0, 2], [4, 6], [8, 10]])

    def test_inputs_are_checked(self):
        plan = qfuse.read_text(DOUBLE).compile()
        with self.assertRaisesRegex(TypeError, r"missing: \['s'\], unknown: \['t'\]"):
            qfuse.run(plan, {"x": floats((1, 2), [1, 2]), "t": scalar(1)})
        with self.assertRaisesRegex(TypeError, "takes 2 inputs"):
            qfuse.run(plan, [scalar(1)])
        with self.assertRaises(qfuse.Error) as caught:
            qfuse.run(plan, [floats((1, 3), [1, 2, 3]), scalar(1)])
        self.assertEqual(caught.exception.status, "guard")
        self.assertIn('input "x" axis 1 is 3, expected 2', str(caught.exception))
        with self.assertRaisesRegex(TypeError, "format 'u'|format 'w'|buffer"):
            qfuse.run(plan, [array.array("H", [1, 2]), scalar(1)])

    def test_numbers_are_checked(self):
        """ctypes alone takes -1 for 4294967295, and 2**40 for 0."""
        graph = qfuse.read_text(DOUBLE)
        plan = graph.compile()
        executor, x = qfuse.Executor(plan), floats((1, 2), [1, 2])
        wrong = (
            (lambda: qfuse.Executor(plan, device_id=2**40), "device_id is 1099511627776, expected 0 to 2147483647"),
            (lambda: qfuse.Executor(plan, device_id=-1), "device_id is -1, expected 0 to"),
            (lambda: qfuse.Executor(plan, threads=-1), "threads is -1, expected 0 to 4294967295"),
            (lambda: qfuse.run(plan, [x, scalar(1)], threads=2**32), "threads is 4294967296, expected 0 to 4294967295"),
            (lambda: executor.bind_input(-1, x), "input index is -1, expected 0 to 1"),
            (lambda: executor.bind_input(2, x), "input index is 2, expected 0 to 1"),
            (lambda: executor.bind_input(2**32, x), "input index is 4294967296, expected 0 to 1"),
            (lambda: executor.bind_output(-1, None), "output index is -1, expected 0 to 0"),
            (lambda: executor.output(-1), "output index is -1, expected 0 to 0"),
            (lambda: executor.bind_symbol("B", 2**64), "size B is 18446744073709551616, expected -9223372036854775808 to"),
            (lambda: graph.run_pipeline(rewrite_limit=-1), "rewrite_limit is -1, expected 0 to"),
            (lambda: qfuse.read_pt2(b"junk", page_size=-1), "page_size is -1, expected 0 to"),
            (lambda: qfuse.read("junk.pt2", page_size=-1), "page_size is -1, expected 0 to"),
            (lambda: qfuse.Tensor.empty("f32", (2, -1)), "size of axis 1 is -1, expected 0 to"),
            (lambda: qfuse.Tensor.empty("f32", (1,) * 9), "at most 8 axes, found 'f32' of 9"),
            (lambda: qfuse.Tensor.empty("float", ()), "expected a type of f32, f16, .*, found 'float'"))
        for call, said in wrong:
            with self.subTest(said), self.assertRaisesRegex(qfuse.Error, said) as caught:
                call()
            self.assertEqual(caught.exception.status, "invalid_argument")
        for call, said in ((lambda: executor.bind_input("x", x), "input index is 'x', expected a whole number"),
                           (lambda: qfuse.Executor(plan, threads=1.5), "threads is 1.5, expected a whole number")):
            with self.assertRaisesRegex(TypeError, said):
                call()

    def test_plans_are_saved_and_shared(self):
        plan = qfuse.read_text(DOUBLE).compile()
        self.assertEqual([info.name for info in plan.inputs], ["x", "s"])
        self.assertEqual((plan.inputs[0].shape, plan.outputs[0].name), ((-1, 2), "y"))
        self.assertEqual(plan.symbols, ("B",))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "double.qfplan")
            plan.save(path)
            loaded = qfuse.Plan.load(path)
            self.assertEqual(qfuse.run(path, [floats((1, 2), [1, 2]), scalar(3)])[0].tolist(), [[3, 6]])
            self.assertEqual(str(qfuse.Plan.from_bytes(path.read_bytes())), str(loaded))
        found = []
        threads = [threading.Thread(target=lambda n=n: found.append(
            qfuse.run(loaded, [floats((1, 2), [n, n]), scalar(2)])[0].tolist() == [[2 * n, 2 * n]])) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [True] * 8)

    def test_executors_keep_what_they_borrow(self):
        plan = qfuse.read_text(DOUBLE).compile()
        executor = qfuse.Executor(plan)
        executor.bind_input(0, floats((1, 2), [1, 2]))
        executor.bind_input(1, scalar(5))
        del plan
        gc.collect()
        executor.run()
        made = executor.output(0)
        del executor
        gc.collect()
        self.assertEqual(made.tolist(), [[5, 10]])

    def test_outputs_outlive_later_runs(self):
        executor = qfuse.Executor(qfuse.read_text(DOUBLE).compile())
        executor.bind_input(1, scalar(2))
        taken = []
        for size in (1, 1, 1 << 18, 3):
            executor.bind_input(0, floats((size, 2), [len(taken) + 1] * (2 * size)))
            executor.run()
            taken.append((executor.output(0), size))
        for index, (made, size) in enumerate(taken):
            self.assertEqual(made.tolist(), [[2 * (index + 1)] * 2] * size)

    def test_a_result_comes_back_as_a_growing_input(self):
        plan = qfuse.read_text('graph @g(%x: f32[B, 2]) {\n  %y = concat %x, %x {axis=0}\n  return %y as "y"\n}\n').compile()
        executor, made = qfuse.Executor(plan), floats((1, 2), [1, 2])
        for _ in range(16):
            executor.bind_input(0, made)
            executor.run()
            made = executor.output(0)
        self.assertEqual(made.tolist(), [[1, 2]] * (1 << 16))

    def test_outputs_hold_what_is_bound_to_them(self):
        executor, own = qfuse.Executor(qfuse.read_text(DOUBLE).compile()), qfuse.Tensor.empty("f32", (1, 2))
        executor.bind_input(0, floats((1, 2), [1, 2]))
        executor.bind_input(1, scalar(2))
        executor.bind_output(0, own)
        executor.run()
        made, gone = executor.output(0), weakref.ref(own)
        self.assertEqual(made.tensor.data, own.tensor.data)
        executor.bind_output(0, None)
        del own
        gc.collect()
        self.assertIsNotNone(gone())
        self.assertEqual(made.tolist(), [[2, 4]])
        del made
        gc.collect()
        self.assertIsNone(gone())

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_numpy(self):
        plan = qfuse.read_text(DOUBLE).compile()
        x = numpy.arange(12, dtype=numpy.float32).reshape(6, 2)[::2]
        frozen = numpy.array(3, dtype=numpy.float32)
        frozen.flags.writeable = False
        made, = qfuse.run(plan, {"x": x, "s": frozen})
        self.assertEqual((type(made), made.dtype), (numpy.ndarray, numpy.float32))
        numpy.testing.assert_array_equal(made, x * 3)
        numpy.testing.assert_array_equal(numpy.from_dlpack(qfuse.run(plan, [floats((1, 2), [1, 2]), scalar(2)])[0]),
                                         [[2, 4]])

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_lasting_bindings_are_never_copies(self):
        """What a copy would hide: results that the caller never sees, writes that later runs never see."""
        plan = qfuse.read_text(DOUBLE).compile()
        executor = qfuse.Executor(plan)
        strided, frozen = numpy.ones((2, 6), numpy.float32).T[::3], numpy.ones((2, 2), numpy.float32)
        frozen.flags.writeable = False
        for bind, name in ((executor.bind_input, 'input "x"'), (executor.bind_output, 'output "y"')):
            with self.assertRaises(qfuse.Error) as caught:
                bind(0, strided)
            self.assertEqual((caught.exception.status, caught.exception.location), ("unsupported", name))
            self.assertIn("shape (2, 2) has strides (3, 6)", str(caught.exception))
            with self.assertRaisesRegex(qfuse.Error, f"^{name}: the array is read-only"):
                bind(0, frozen)
            with self.assertRaisesRegex(qfuse.Error, f"^{name}: the buffer is read-only"):
                bind(0, memoryview(bytes(16)).cast("f", (2, 2)))
            with self.assertRaisesRegex(qfuse.Error, f"^{name}: .*DLPack dtype code 5"):
                bind(0, numpy.ones((2, 2), numpy.complex64))
            with self.assertRaisesRegex(TypeError, f"^{name}: a buffer of format 'H'"):
                bind(0, array.array("H", [1, 2]))
        executor.bind_input(0, strided, copy=True)
        executor.bind_input(1, scalar(2))
        made = numpy.zeros((2, 2), numpy.float32)
        executor.bind_output(0, made)
        executor.run()
        numpy.testing.assert_array_equal(made, strided * 2)

    def test_an_empty_tensor(self):
        plan = qfuse.read_text(DOUBLE).compile()
        made, = qfuse.run(plan, [qfuse.Tensor.empty("f32", (0, 2)), scalar(1)])
        self.assertEqual((made.shape, made.tolist()), ((0, 2), []))


class Reports(unittest.TestCase):
    def test_fused(self):
        graph = qfuse.read_text(ATTENTION)
        report = graph.run_pipeline()
        self.assertEqual((report.attentions, report.fused_fp8_out, len(report.sites)), (1, 1, 1))
        self.assertRegex(str(report), r"1 of 1 attentions write FP8.*\ngraph.qf:4:\d+: fused by attention_output")
        self.assertIn("attention %q, %k, %v", str(graph))
        self.assertEqual(len(report.rewrites), len([line for line in report.rewrites if line]))

    def test_limits(self):
        report = qfuse.read_text(ATTENTION).run_pipeline(rewrite_limit=0)
        self.assertEqual((report.fused_fp8_out, report.rewrites), (0, ()))
        self.assertIn("rewrite_limit", str(report))

    def test_not_fused(self):
        text = ATTENTION.replace("  %y = quantize %o, %out_scale {dtype=f8E4M3FN}\n", "").replace("return %y", "return %o")
        report = qfuse.read_text(text).run_pipeline()
        self.assertFalse(report.sites[0].fused)
        self.assertRegex(str(report), r"graph.qf:4:\d+: not fused \[no_quantise\]")


class Errors(unittest.TestCase):
    def test_text(self):
        with self.assertRaises(qfuse.Error) as caught:
            qfuse.read_text("graph @g(%x: f32[4]) {\n  %y = nog %x\n  return %y\n}\n", "layer.qf")
        self.assertEqual((caught.exception.status, caught.exception.location), ("parse", "layer.qf:2:8"))
        self.assertIn("layer.qf:2:8: expected the name of an op", str(caught.exception))

    def test_a_context_goes_on_after_an_error(self):
        graph = qfuse.read_text(ATTENTION)
        for _ in range(2):
            with self.assertRaisesRegex(qfuse.Error, "no_such_pass"):
                graph.run_pipeline("no_such_pass")
        self.assertEqual(graph.run_pipeline().fused_fp8_out, 1)
        with self.assertRaisesRegex(qfuse.Error, "sm_12"):
            graph.compile(target="sm_12")

    def test_files(self):
        with self.assertRaises(qfuse.Error):
            qfuse.read("/nonexistent/model.pt2")
        with self.assertRaisesRegex(qfuse.Error, "junk.pt2"):
            qfuse.read_pt2(b"junk", "junk.pt2")
        with self.assertRaises(qfuse.Error):
            qfuse.Plan.from_bytes(b"junk")


class Lending(unittest.TestCase):
    def test_a_capsule_that_nobody_takes_gives_its_memory_back(self):
        from qfuse import tensor as module
        tensor = qfuse.Tensor.empty("f32", (2,))
        for arguments in ({}, {"max_version": (1, 0)}):
            capsule = tensor.__dlpack__(**arguments)
            self.assertEqual(len(module._lent), 1)
            del capsule
            self.assertEqual(len(module._lent), 0)
        with self.assertRaises(BufferError):
            tensor.__dlpack__(copy=True)

    def test_results_may_live_at_exit(self):
        """Their consumers let go after the interpreter has cleared this package's names."""
        start = ("import gc, sys, qfuse\n"
                 f"plan = qfuse.read_text({DOUBLE!r}).compile()\n"
                 "scale, x = qfuse.Tensor.empty('f32', ()), qfuse.Tensor.empty('f32', (3, 2))\n"
                 "executor = qfuse.Executor(plan)\n"
                 "executor.bind_input(0, x)\n"
                 "executor.bind_input(1, scale)\n"
                 "executor.run()\n")
        cases = {"output": "made = executor.output(0)",
                 "run": "made = qfuse.run(plan, [x, scale])",
                 "capsules": "made = executor.output(0).__dlpack__(), x.__dlpack__(max_version=(1, 0))",
                 "last": "sys.last = x.__dlpack__(), executor.output(0), plan"}
        if numpy:
            cases["numpy"] = "import numpy; made = [numpy.from_dlpack(t) for t in (x, executor.output(0))]"
            cases["numpy_last"] = ("import numpy; gc.disable(); made = [numpy.from_dlpack(t) for t in "
                                   "(x, executor.output(0), *qfuse.run(plan, [x, scale]))]; made.append(made); sys.last = made")
        if importlib.util.find_spec("torch"):
            cases["torch"] = "import torch; made = [torch.from_dlpack(x), *qfuse.run(plan, [torch.ones(2, 2), scale])]"
        for name, line in cases.items():
            with self.subTest(name):
                done = subprocess.run([sys.executable, "-c", f"{start}{line}\nprint('end')"], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))

    def test_our_own_capsules_come_back_in(self):
        class Producer:
            def __init__(self, tensor, versioned):
                self.tensor, self.versioned = tensor, versioned

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

            def __dlpack__(self, **arguments):
                if not self.versioned and "max_version" in arguments:
                    raise TypeError("a producer from before DLPack 1.0")
                return self.tensor.__dlpack__(**arguments)

        plan = qfuse.read_text(DOUBLE).compile()
        x = qfuse.Tensor.empty("f32", (1, 2))
        x.fill(struct.pack("2f", 3, 4))
        for versioned in (False, True):
            self.assertEqual(qfuse.run(plan, [Producer(x, versioned), scalar(2)])[0].tolist(), [[6, 8]])

    def test_wrong_sizes(self):
        with self.assertRaisesRegex(ValueError, "takes 8 bytes, found 3"):
            qfuse.Tensor.empty("f32", (2,)).fill(b"abc")


@unittest.skipUnless(numpy, "NumPy is not installed")
class Arrays(unittest.TestCase):
    def test_every_element_type(self):
        for name in abi.DTYPE_NAMES[1:-1]:
            for shape in ((), (2, 3), (0, 2)):
                with self.subTest(name, shape=shape):
                    tensor = qfuse.Tensor.empty(name, shape)
                    data = bytes(index % 2 for index in range(len(tensor.tobytes())))
                    tensor.fill(data)
                    made = numpy.asarray(tensor)
                    self.assertNotEqual(made.dtype, object)
                    self.assertEqual((made.shape if name != "f4E2M1FN" else shape, made.tobytes()), (shape, data))

    def test_the_memory_is_shared_and_held(self):
        tensor = qfuse.Tensor.empty("f32", (2, 2))
        made = numpy.asarray(tensor)
        made[:] = [[1, 2], [3, 4]]
        self.assertEqual(tensor.tolist(), [[1, 2], [3, 4]])
        self.assertEqual(made.ctypes.data, tensor.tensor.data)
        gone = weakref.ref(tensor)
        del tensor
        gc.collect()
        self.assertIsNotNone(gone())
        self.assertEqual(made.tolist(), [[1, 2], [3, 4]])
        del made
        gc.collect()
        self.assertIsNone(gone())

    def test_copies(self):
        tensor = qfuse.Tensor.empty("f32", (2,))
        for made in (numpy.array(tensor), numpy.asarray(tensor, dtype="f8"), tensor.__array__(copy=True)):
            made[:] = 7
            self.assertEqual(tensor.tolist(), [0, 0])
        self.assertEqual(tensor.__array__(copy=False).ctypes.data, tensor.tensor.data)
        with self.assertRaisesRegex(ValueError, "as f8 takes a copy"):
            tensor.__array__("f8", copy=False)

    def test_device_memory(self):
        tensor = qfuse.Tensor.empty("f32", (2,))
        tensor.tensor.device_type = abi.DL_CUDA
        with self.assertRaisesRegex(BufferError, "lies in device memory"):
            numpy.asarray(tensor)


class Finding(unittest.TestCase):
    def test_the_variable_is_the_only_place(self):
        environment = {**os.environ, "QFUSE_LIBRARY": "/nonexistent/libqfuse.so"}
        done = subprocess.run([sys.executable, "-c", "import qfuse"], env=environment, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("set QFUSE_LIBRARY", done.stderr)
        self.assertIn("/nonexistent/libqfuse.so", done.stderr)

    def test_torch_is_not_needed_to_import(self):
        done = subprocess.run([sys.executable, "-c", "import qfuse, sys; print('torch' in sys.modules)"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "False")

    def test_candidates_end_with_the_loader(self):
        saved = os.environ.pop("QFUSE_LIBRARY", None)
        try:
            self.assertEqual(abi.candidates()[-1], "libqfuse.so.0")
        finally:
            if saved:
                os.environ["QFUSE_LIBRARY"] = saved


if __name__ == "__main__":
    unittest.main()
