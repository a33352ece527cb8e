# Owns: tests of the device "cuda" from Python without a GPU: streams, orders, captures, places, on a driver that copies only.
# Does not own: results of GPU kernels (test_cuda.py), the driver (tests/fake_driver).
# Next: qfuse/plan.py. QFUSE_FAKE_DRIVER names the driver's file; CTest sets it.
import ctypes
import os
import unittest
from unittest import mock

import qfuse
from qfuse import abi

DRIVER = os.environ.get("QFUSE_FAKE_DRIVER")
COPY = 'graph @g(%x: f32[B, 2]) {\n  return %x as "y"\n}\n'


class Producer:
    """Host memory that says it is a GPU's, as the driver's is; notes what consumers ask for."""

    def __init__(self, shape, values=(), device_id=0):
        self.own = qfuse.Tensor.empty("f32", shape)
        self.own.tensor.device_type, self.own.tensor.device_id = abi.DL_CUDA, device_id
        self.view = (ctypes.c_float * max(self.own.element_count(), 1)).from_address(self.own.tensor.data)
        self.view[:len(values)] = values
        self.streams = []

    def __dlpack_device__(self):
        return self.own.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **arguments):
        self.streams.append(stream)
        return self.own.__dlpack__(stream=-1, **arguments)


@unittest.skipUnless(DRIVER, "QFUSE_FAKE_DRIVER is not set")
class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = ctypes.CDLL(DRIVER)  # found under its soname from now on
        cls.driver.qf_fake_reset.restype = ctypes.c_void_p

    def setUp(self):
        self.driver.qf_fake_reset()
        self.plan = qfuse.read_text(COPY).compile(target="sm_90a")
        self.memory = ctypes.create_string_buffer(4096)  # a stream of that driver: zeros
        self.stream = ctypes.addressof(self.memory)

    def test_a_run(self):
        executor = qfuse.Executor(self.plan)
        self.assertEqual((executor.device, executor.stream), ("cuda", 0))
        x, y = Producer((2, 2), [1, 2, 3, 4]), Producer((2, 2))
        executor.bind_input(0, x)
        executor.bind_output(0, y)
        executor.run()
        executor.wait()
        self.assertEqual(list(y.view), [1, 2, 3, 4])
        self.assertEqual(executor.output(0).tensor.data, y.own.tensor.data)
        with self.assertRaisesRegex(BufferError, "lies in device memory"):
            executor.output(0).tolist()

    def test_producers_order_their_work_before_the_stream(self):
        for stream, told in ((None, 1), (self.stream, self.stream), (mock.Mock(cuda_stream=self.stream), self.stream),
                             (mock.Mock(cuda_stream=0), 1)):
            executor, x = qfuse.Executor(self.plan, stream=stream), Producer((2, 2))
            executor.bind_input(0, x)
            executor.bind_output(0, Producer((2, 2)))
            self.assertEqual(x.streams, [told])

    def test_a_capture_by_torch_on_another_stream(self):
        executor, torch = qfuse.Executor(self.plan, stream=self.stream), mock.Mock()
        torch.cuda.current_stream.return_value.cuda_stream = self.stream + 64
        with mock.patch.dict("sys.modules", torch=torch):
            for current, told in ((self.stream + 64, -1), (self.stream, self.stream)):
                torch.cuda.current_stream.return_value.cuda_stream = current
                x = Producer((2, 2))
                executor.bind_input(0, x)
                self.assertEqual(x.streams, [told])
                if told == -1:
                    with self.assertRaisesRegex(qfuse.Error, "launches on another"):
                        executor.run()
            executor.run()
            torch.cuda.is_current_stream_capturing.return_value = False
            qfuse.Executor(self.plan).bind_input(0, x)
            self.assertEqual(x.streams, [told, 1])

    def test_consumers_on_another_stream_wait(self):
        executor = qfuse.Executor(self.plan, stream=self.stream)
        executor.bind_input(0, Producer((2, 2), [1, 2, 3, 4]))
        executor.run()
        made = executor.output(0)
        self.assertEqual(made.__dlpack_device__(), (abi.DL_CUDA, 0))
        lent = qfuse.Tensor(made.tensor, made)  # FP8 is lent as bytes
        for tensor in (made, lent):
            for stream, waits in ((None, 1), (1, 1), (self.stream, 0), (-1, 0), (self.stream + 64, 1)):
                with mock.patch.object(executor, "wait") as wait:
                    tensor.__dlpack__(stream=stream)
                self.assertEqual(wait.call_count, waits, stream)
        other = qfuse.Executor(self.plan)
        with mock.patch.object(executor, "wait") as wait:
            other.bind_input(0, made)
        self.assertEqual(wait.call_count, 1)

    def test_lent_outputs_are_not_outgrown(self):
        executor = qfuse.Executor(self.plan)
        executor.bind_input(0, Producer((2, 2)))
        executor.run()
        made = executor.output(0)
        lent = made.__dlpack__()
        for take in (executor.run, executor.prepare, executor.capture):
            executor.bind_input(0, Producer((2, 2)))
            executor.prepare()
            executor.bind_input(0, Producer((1000, 2)))
            with self.assertRaisesRegex(qfuse.Error, r"sizes changed, and qfuse.Tensor\(f32\[2, 2\]\), an output of"):
                take()
        del made
        with self.assertRaisesRegex(qfuse.Error, "sizes changed"):
            executor.run()
        del lent
        executor.run()
        self.assertEqual(executor.output(0).shape, (1000, 2))
        executor.bind_input(0, Producer((1, 2)))
        executor.run()

    def test_wrong_places(self):
        executor = qfuse.Executor(self.plan)
        host = qfuse.Tensor.empty("f32", (2, 2))
        for value, said in ((host, 'input "x" lies on a device of DLPack type 1, expected type 2'),
                            (Producer((2, 2), device_id=1), 'input "x" lies on device 1, the executor runs on device 0'),
                            (Producer((2, 2, 2)), 'input "x": expected f32 of rank 2, found f32 of rank 3')):
            with self.assertRaisesRegex(qfuse.Error, said):
                executor.bind_input(0, value)
        with self.assertRaisesRegex(qfuse.Error, 'input "x" lies on a device of DLPack type 2, expected type 1'):
            qfuse.Executor(qfuse.read_text(COPY).compile()).bind_input(0, Producer((2, 2)))

    def test_own_captures(self):
        executor = qfuse.Executor(self.plan)
        x = Producer((2, 2), [1, 2, 3, 4])
        executor.bind_input(0, x)
        executor.capture()
        executor.run()
        x.view[0] = 9
        executor.run()
        executor.bind_input(0, x)
        with self.assertRaisesRegex(qfuse.Error, "keeps sizes and addresses"):
            executor.bind_input(0, Producer((2, 2)))
        executor.drop_capture()
        executor.bind_input(0, Producer((3, 2)))


if __name__ == "__main__":
    unittest.main()
