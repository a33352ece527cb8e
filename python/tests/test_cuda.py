# Owns: tests on a GPU: results against torch and the CPU, streams, captures, lifetimes, refusals; prints figures.
# Does not own: the device without a GPU (test_device.py), kernels' accuracy (tests/gpu).
# Next: docs/gpu.md (`run.sh host` runs them).
import gc
import unittest

import qfuse
from qfuse import abi, tensor as tensors
from tests.torch_parts import Cache, F, codes, torch

try:
    import cupy
except ImportError:
    cupy = None

GPU = torch is not None and torch.cuda.is_available()
SCALES = {"ks": 0.013, "vs": 0.017, "os": 0.008}
LAYER = """graph @layer(%q: f16[B, 8, T, 128], %k: f8E4M3FN[B, 2, S, 128], %v: f8E4M3FN[B, 2, S, 128],
             %ks: f32[], %vs: f32[], %os: f32[]) symbols(T min 1, S min 1) {
  %kd = dequantize %k, %ks {dtype=f16}
  %vd = dequantize %v, %vs {dtype=f16}
  %a = attention %q, %kd, %vd {scale=0.0883883, causal=true, align=bottom_right, out=f16}
  %y = quantize %a, %os {dtype=f8E4M3FN}
  return %y
}
"""
SHAPES = {"prefill": (2, 192, 192), "decode": (3, 1, 1000), "chunk": (1, 65, 517)}  # B, T, S


def inputs(shape, seed=1):
    batch, queries, keys = shape
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def normal(heads, length, mean=0.0):
        return torch.randn(batch, heads, length, 128, device="cuda", generator=generator) + mean

    made = {"q": normal(8, queries).half()}
    made["k"] = (normal(2, keys) / SCALES["ks"]).clamp(-448, 448).to(torch.float8_e4m3fn)
    made["v"] = (normal(2, keys, 0.25) / SCALES["vs"]).clamp(-448, 448).to(torch.float8_e4m3fn)
    return {**made, **{name: torch.tensor(value, device="cuda") for name, value in SCALES.items()}}


def reference(data):
    """torch's attention in f32 on the dequantised inputs."""
    q = data["q"].float()
    k, v = (data[name].float().repeat_interleave(4, dim=1) * SCALES[name + "s"] for name in "kv")
    rows, keys = (torch.arange(size, device="cuda") for size in (q.shape[2], k.shape[2]))
    mask = keys[None, :] <= rows[:, None] + (keys.numel() - rows.numel())
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.0883883)


def poisoned(like):
    return torch.full(like.shape, 0x7F, dtype=torch.uint8, device=like.device).view(like.dtype)


def error(found, expected):
    return float((found - expected).norm() / expected.norm())


@unittest.skipUnless(GPU, "torch sees no GPU")
class Hosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = qfuse.target_of("cuda")
        cls.graph = qfuse.read_text(LAYER)
        report = cls.graph.run_pipeline("serving", target=cls.target)
        assert report.fused_fp8_out == 1 and report.fp8_query == 1, str(report)
        cls.plan = cls.graph.compile(target=cls.target)
        torch.backends.cuda.matmul.allow_tf32 = False

    def bound(self, data, out=None, **options):
        executor = qfuse.Executor(self.plan, **options)
        for index, info in enumerate(self.plan.inputs):
            executor.bind_input(index, data[info.name])
        if out is not None:
            executor.bind_output(0, out)
        return executor

    def direct(self, data):
        return codes(qfuse.run(self.plan, data)[0]).clone()

    # --- results ---

    def test_results(self):
        on_the_cpu = self.graph.compile(target="cpu")
        for name, shape in SHAPES.items():
            data = inputs(shape)
            found, = qfuse.run(self.plan, data)
            self.assertEqual((found.dtype, found.device.type), (torch.float8_e4m3fn, "cuda"))
            self.assertEqual(found.shape, data["q"].shape)
            host, = qfuse.run(on_the_cpu, {key: value.cpu() for key, value in data.items()})
            equal = float((codes(found).cpu() == codes(host)).float().mean())
            wanted = reference(data)
            rounded = (wanted / SCALES["os"]).clamp(-448, 448).to(torch.float8_e4m3fn)
            real, ideal = found.float() * SCALES["os"], rounded.float() * SCALES["os"]
            print(f"{name:8} {tuple(found.shape)}: codes equal to the CPU's {equal:.4f}, to torch's f32 "
                  f"{float((codes(found) == codes(rounded)).float().mean()):.4f}; error against f32 {error(real, wanted):.4f}, "
                  f"of rounding alone {error(ideal, wanted):.4f}")
            self.assertGreater(equal, 0.95)
            self.assertLess(error(real, wanted), 1.2 * error(ideal, wanted) + 0.005)

    def test_the_same_bits_on_every_way(self):
        for name, shape in SHAPES.items():
            data = inputs(shape)
            expected = self.direct(data)
            out = poisoned(data["q"].to(torch.float8_e4m3fn))
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            executor = self.bound(data, out, stream=stream)
            executor.run()
            stream.synchronize()
            self.assertTrue(torch.equal(codes(out), expected), f"{name}: a second stream")

            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                executor.run()
            for _ in range(3):
                codes(out).fill_(0x7F)
                graph.replay()
                torch.cuda.synchronize()
                self.assertTrue(torch.equal(codes(out), expected), f"{name}: torch's graph")

            data["os"].mul_(0.5)  # what lies behind the addresses may change
            graph.replay()
            torch.cuda.synchronize()
            changed = codes(out).clone()
            self.assertFalse(torch.equal(changed, expected))
            self.assertTrue(torch.equal(self.direct(data), changed), f"{name}: another scale")

            executor.capture()
            codes(out).fill_(0x7F)
            stream.wait_stream(torch.cuda.current_stream())
            executor.run()
            executor.wait()
            self.assertTrue(torch.equal(codes(out), changed), f"{name}: QFuse's own graph")
        print("bits equal: direct, second stream, torch.cuda.graph, QFuse's graph")

    def test_a_graph_of_torch_outlives_larger_sizes(self):
        small, large = inputs((2, 1, 300)), inputs((8, 1, 40000))
        expected, stream = self.direct(small), torch.cuda.Stream()
        out = poisoned(small["q"].to(torch.float8_e4m3fn))
        torch.cuda.synchronize()
        executor = self.bound(small, out, stream=stream)
        executor.prepare()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            executor.run()
        executor.bind_output(0, None)
        for index, info in enumerate(self.plan.inputs):
            executor.bind_input(index, large[info.name])
        executor.run()
        executor.wait()
        junk = [torch.full((1 << 22,), 255, dtype=torch.uint8, device="cuda") for _ in range(16)]
        codes(out).fill_(0x7F)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(codes(out), expected))
        del junk

    def captured(self, stream, inside):
        """Whether torch's capture, in which inside() was called, went on."""
        graph, marker = torch.cuda.CUDAGraph(), torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(graph, stream=stream):
                marker.add_(1)
                inside()
        except RuntimeError as fault:
            return str(fault).splitlines()[0]
        graph.replay()
        return "it went on" if float(marker) == 1 else "it is lost"

    def test_refusals_leave_the_capture_whole(self):
        data, stream = inputs((1, 64, 64)), torch.cuda.Stream()
        executor, elsewhere = self.bound(data, stream=stream), self.bound(data)
        for refused, said in ((executor.run, "the stream is being captured"), (elsewhere.run, "launches on another"),
                              (executor.wait, "nothing to wait for")):
            with self.subTest(said):
                went = self.captured(stream, lambda: self.assertRaisesRegex(qfuse.Error, said, refused))
                self.assertEqual(went, "it went on")
        executor.run()
        executor.wait()

    def test_executors_come_and_go_during_a_capture(self):
        data, stream, other = inputs((1, 64, 64)), torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.synchronize()

        def come_and_go():
            self.bound(data).prepare()

        kept = []

        def run_on(where, wait):
            kept.append(self.bound(data, stream=where))
            kept[0].run()
            if wait:
                kept[0].wait()

        cases = [("made and dropped", lambda: None, come_and_go)]
        for name, where in (("default stream", None), ("another stream", other)):
            for wait in (True, False):
                cases.append((f"dropped after {'waiting' if wait else 'running'} on the {name}",
                              lambda where=where, wait=wait: run_on(where, wait), kept.clear))
        for name, before, inside in cases:
            with self.subTest(name):
                before()
                self.assertEqual(self.captured(stream, inside), "it went on")
                kept.clear()

    # --- memory ---

    def test_tensors_in_and_out_are_not_copied(self):
        data = inputs((1, 64, 64))
        executor = self.bound(data)
        executor.run()
        made = executor.output(0)
        expected = self.direct(data)
        given = tensors.give(made, "torch")
        self.assertEqual(given.data_ptr(), made.tensor.data)
        del executor, made
        gc.collect()
        junk = [torch.full_like(given.view(torch.uint8), 255) for _ in range(8)]
        self.assertTrue(torch.equal(codes(given), expected))  # the result holds its executor
        del junk, given
        gc.collect()

    def test_a_result_is_ready_for_another_stream(self):
        data, stream = inputs((2, 192, 192)), torch.cuda.Stream()
        expected = self.direct(data)
        torch.cuda.synchronize()
        executor = self.bound(data, stream=stream)
        executor.prepare()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(100_000_000)
        executor.run()
        self.assertTrue(torch.equal(codes(tensors.give(executor.output(0), "torch")), expected))

    def test_inputs_wait_for_their_producer(self):
        """q is still being written on torch's stream when the executor launches on its own."""
        data, stream = inputs((2, 192, 192)), torch.cuda.Stream()
        expected = self.direct(data)
        q, late = data["q"], torch.zeros_like(data["q"])
        torch.cuda.synchronize()
        executor = self.bound({**data, "q": late}, stream=stream)
        executor.prepare()
        torch.cuda._sleep(100_000_000)
        late.copy_(q)
        executor.bind_input(0, late)
        executor.run()
        executor.wait()
        self.assertTrue(torch.equal(codes(tensors.give(executor.output(0), "torch")), expected))

    def test_tensors_dropped_while_the_stream_is_busy(self):
        data, other, stream = inputs((2, 192, 192)), inputs((2, 192, 192), seed=2), torch.cuda.Stream()
        expected = self.direct(data)
        out = poisoned(data["q"].to(torch.float8_e4m3fn))
        torch.cuda.synchronize()
        executor = self.bound(data, out, stream=stream)
        executor.prepare()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(100_000_000)
        executor.run()
        shapes = [(data[name].shape, data[name].dtype) for name in ("q", "k", "v")]
        for index, info in enumerate(self.plan.inputs):
            executor.bind_input(index, other[info.name])
        del data
        gc.collect()
        junk = [torch.zeros(shape, dtype=torch.uint8 if kind is not torch.float16 else kind, device="cuda")
                for _ in range(4) for shape, kind in shapes]
        executor.wait()
        self.assertTrue(torch.equal(codes(out), expected))
        del junk

    def test_tensors_that_do_not_fit(self):
        data = inputs((1, 64, 64))
        executor = self.bound(data)
        q, turned = data["q"], data["q"].transpose(1, 2).contiguous().transpose(1, 2)
        cases = ((q.cpu(), 'input "q" lies on a device of DLPack type 1, expected type 2'),
                 (q.float(), 'input "q": expected f16 of rank 4, found f32 of rank 4'),
                 (q[0], 'input "q": expected f16 of rank 4, found f16 of rank 3'),
                 (turned, r'input "q": shape \(1, 8, 64, 128\) has strides'),
                 (q.to(torch.complex64), 'input "q": DLPack dtype code 5, 64 bits'))
        for value, said in cases:
            with self.assertRaisesRegex(qfuse.Error, said):
                executor.bind_input(0, value)
        liar = qfuse.Tensor.empty("f16", tuple(q.shape))
        liar.tensor.device_type = abi.DL_CUDA
        with self.assertRaisesRegex(qfuse.Error, 'input "q": 0x[0-9a-f]+ is not memory of device cuda'):
            executor.bind_input(0, liar)
        with self.assertRaisesRegex(qfuse.Error, 'output "y": shape'):
            executor.bind_output(0, turned.to(torch.float8_e4m3fn))
        executor.bind_output(0, torch.empty(1, 8, 63, 128, dtype=torch.float8_e4m3fn, device="cuda"))
        with self.assertRaisesRegex(qfuse.Error, 'output "y" axis 2 is 63, expected T = 64'):
            executor.run()
        executor.bind_output(0, data["k"].new_empty(1, 8, 64, 128))
        executor.run()
        executor.wait()
        self.assertTrue(torch.equal(self.direct({**data, "q": turned}), self.direct(data)))  # run() copies
        with self.assertRaisesRegex(qfuse.Error, 'lies on a device of DLPack type 2, expected type 1'):
            qfuse.run(self.graph.compile(target="cpu"), data)

    @unittest.skipUnless(cupy, "CuPy is not installed")
    def test_another_framework(self):
        data = inputs((1, 64, 64))
        expected = self.direct(data)
        executor = self.bound({**data, "q": cupy.from_dlpack(data["q"])})
        out = cupy.zeros(data["q"].shape, dtype=cupy.uint8)
        with self.assertRaisesRegex(qfuse.Error, 'output "y": expected f8E4M3FN of rank 4, found u8'):
            executor.bind_output(0, out)
        executor.run()
        executor.wait()
        self.assertTrue(torch.equal(codes(tensors.give(executor.output(0), "torch")), expected))

    # --- programs of torch.export ---

    def test_a_program(self):
        class Attend(torch.nn.Module):
            """No weights: the arguments say where it runs. `scale` stays on the CPU, as torch allows."""

            def forward(self, q, k, v, scale):
                out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                return (out.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)

        torch.manual_seed(3)
        q, k, v = (torch.randn(2, 4, 96, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        scale = torch.tensor(0.01)
        result = qfuse.optimize(torch.export.export(Attend(), (q, k, v, scale)))
        self.assertEqual((result.plan.target, result.report.fused_fp8_out), (self.target, 1))
        found, expected = result(q, k, v, scale), Attend()(q.float(), k.float(), v.float(), scale)
        self.assertEqual((found.dtype, found.is_cuda), (torch.float8_e4m3fn, True))
        print(f"program  {tuple(found.shape)}: codes equal to torch's f32 "
              f"{float((codes(found) == codes(expected)).float().mean()):.4f}, error {error(found.float(), expected.float()):.4f}")
        self.assertLess(error(found.float(), expected.float()), 0.05)

        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        on_the_gpu = scale.cuda()
        with torch.cuda.stream(stream):
            again = result(q, k, v, on_the_gpu)
        stream.synchronize()
        self.assertTrue(torch.equal(codes(again), codes(found)))
        with torch.cuda.graph(graph, stream=stream):
            captured = result(q, k, v, on_the_gpu)
        wanted = codes(result(k, q, v, scale)).clone()
        q0, k0 = q.clone(), k.clone()
        q.copy_(k0)
        k.copy_(q0)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(torch.equal(codes(captured), wanted))

    def test_buffers_stay_on_the_gpu(self):
        module, expected = Cache().cuda(), Cache().cuda()
        position, new = torch.tensor([2], device="cuda"), torch.randn(1, 1, 4, device="cuda")
        result = qfuse.optimize(torch.export.export(module, (position, new)))
        for step in range(3):
            position, new = torch.tensor([step * 2], device="cuda"), torch.randn(1, 1, 4, device="cuda")
            torch.testing.assert_close(result(position, new), expected(position, new))
            torch.testing.assert_close(result.buffers["cache"], expected.cache)


if __name__ == "__main__":
    unittest.main(verbosity=2)
