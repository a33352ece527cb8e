# Owns: tests of optimize() against torch: results, buffers, structures of arguments, FP8 in and out, errors.
# Does not own: the library without torch (test_run.py).
# Next: qfuse/program.py. scripts/python.sh installs torch and runs them.
import tempfile
import threading
import unittest
from pathlib import Path

import qfuse
from tests.torch_parts import Cache, F, codes, torch

E4M3 = torch.float8_e4m3fn if torch else None


def quantise(x, scale):
    return (x / scale).clamp(-448, 448).to(E4M3)


if torch:
    class Layer(torch.nn.Module):
        """Projections, causal attention with grouped heads, an FP8 quantise."""

        def __init__(self, heads=4, groups=2, size=16):
            super().__init__()
            self.heads, self.groups, self.size = heads, groups, size
            self.query = torch.nn.Linear(heads * size, heads * size)
            self.keys = torch.nn.Linear(heads * size, groups * size)
            self.values = torch.nn.Linear(heads * size, groups * size)
            self.register_buffer("out_scale", torch.tensor(0.02))

        def split(self, x, count):
            return x.view(x.shape[0], x.shape[1], count, self.size).transpose(1, 2)

        def forward(self, x):
            q, k, v = self.split(self.query(x), self.heads), self.split(self.keys(x), self.groups), \
                self.split(self.values(x), self.groups)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return quantise(out.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1), self.out_scale)


@unittest.skipUnless(torch, "torch is not installed (scripts/python.sh --torch)")
class Programs(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)

    def near(self, found, expected):
        """FP8 codes: at most one apart, nearly all equal; a rounding to 16 bits is the most that fusing left out."""
        self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape))
        if found.dtype is not E4M3:
            return torch.testing.assert_close(found, expected)
        apart = (codes(found).int() - codes(expected).int()).abs()
        self.assertLessEqual(int(apart.max()), 1)
        self.assertGreaterEqual(float((apart == 0).float().mean()), 0.99)

    def test_attention_with_fp8_output(self):
        layer, x = Layer().eval(), torch.randn(2, 6, 64)
        result = qfuse.optimize(torch.export.export(layer, (x,)))
        self.assertEqual((result.report.attentions, result.report.fused_fp8_out), (1, 1))
        self.assertIn("scaled_dot_product_attention", str(result.report))
        for _ in range(2):
            x = torch.randn(2, 6, 64)
            self.near(result(x), layer(x))

    def test_other_sizes_than_at_export(self):
        layer = Layer().eval()
        shapes = {"x": {1: torch.export.Dim("T", min=2, max=64)}}
        result = qfuse.optimize(torch.export.export(layer, (torch.randn(2, 6, 64),), dynamic_shapes=shapes))
        for size in (3, 17, 64, 17, 3):
            x = torch.randn(2, size, 64)
            self.near(result(x), layer(x))
        with self.assertRaises(qfuse.Error) as caught:
            result(torch.randn(2, 6, 63))
        self.assertEqual(caught.exception.status, "guard")

    def test_sixteen_bit_inputs_that_are_not_contiguous(self):
        class Attend(torch.nn.Module):
            def forward(self, q, k, v, scale):
                return quantise(F.scaled_dot_product_attention(q, k, v).float(), scale)

        q, k, v = (torch.randn(1, 5, 2, 16, dtype=torch.bfloat16).transpose(1, 2) for _ in range(3))
        scale = torch.tensor(0.05)
        result = qfuse.optimize(torch.export.export(Attend(), (q, k, v, scale)))
        self.assertEqual(result.report.fused_fp8_out, 1)
        expected = Attend()(q.float(), k.float(), v.float(), scale)
        self.near(result(q, k, v, scale), expected)

    def test_a_scale_in_f32_beside_sixteen_bits(self):
        """Bit for bit what torch's CPU kernels make of it."""
        class Quantise(torch.nn.Module):
            def forward(self, x, scale):
                return quantise(x, scale), quantise(x, scale.reciprocal()), (x * scale + scale).to(E4M3)

        x, scale = (torch.randn(4096) * 50).bfloat16(), torch.tensor(0.3)
        result = qfuse.optimize(torch.export.export(Quantise(), (x, scale)), numerics="exact")
        for found, expected in zip(result(x, scale), Quantise()(x, scale)):
            self.assertTrue(torch.equal(codes(found), codes(expected)))

    def test_fp8_in_and_out(self):
        class Dequantise(torch.nn.Module):
            def forward(self, x, y):
                return x.float() * 2, y.to(torch.float8_e5m2)

        x = torch.randn(3, 4).to(E4M3)
        y = torch.randn(4)
        result = qfuse.optimize(torch.export.export(Dequantise(), (x, y)))
        found, expected = result(x, y), Dequantise()(x, y)
        torch.testing.assert_close(found[0], expected[0])
        self.assertEqual(found[1].dtype, torch.float8_e5m2)
        self.assertTrue(torch.equal(codes(found[1]), codes(expected[1])))

    def test_buffers_are_updated(self):
        module = Cache()
        inputs = torch.tensor([2]), torch.randn(1, 1, 4)
        for program in (torch.export.export(module, inputs), torch.export.export(module, inputs).run_decompositions()):
            result = qfuse.optimize(program)
            kept = result.buffers["cache"]
            expected = Cache()
            for step in range(4):
                position, new = torch.tensor([step * 2]), torch.randn(1, 1, 4)
                torch.testing.assert_close(result(position, new), expected(position, new))
                torch.testing.assert_close(result.buffers["cache"], expected.cache)
            self.assertIs(result.buffers["cache"], kept)
            self.assertEqual(float(program.state_dict["cache"].abs().sum()), 0)

    def test_arguments_that_are_written(self):
        class Write(torch.nn.Module):
            def forward(self, x, y):
                x.add_(y)
                return x * 2

        result = qfuse.optimize(torch.export.export(Write(), (torch.randn(3), torch.randn(3))))
        x, y = torch.randn(3), torch.randn(3)
        before = x.clone()
        found = result(x, y)
        torch.testing.assert_close(x, before + y)
        torch.testing.assert_close(found, x * 2)

    def test_structures_and_keywords(self):
        class Structured(torch.nn.Module):
            def forward(self, pair, *, bias, flag=True, scale=2.0):
                a, b = pair["a"], pair["b"]
                return {"sum": a + b + bias, "rest": [a * scale, None, 5]}

        inputs = {"a": torch.randn(2), "b": torch.randn(2)}
        keywords = {"bias": torch.randn(2), "flag": True, "scale": 2.0}
        result = qfuse.optimize(torch.export.export(Structured(), (inputs,), keywords))
        found = result(inputs, scale=2.0, flag=True, bias=keywords["bias"])
        expected = Structured()(inputs, **keywords)
        torch.testing.assert_close(found["sum"], expected["sum"])
        torch.testing.assert_close(found["rest"][0], expected["rest"][0])
        self.assertEqual(found["rest"][1:], [None, 5])
        with self.assertRaisesRegex(TypeError, "another structure"):
            result(inputs)
        with self.assertRaisesRegex(ValueError, "was 2.0 at export, found 3.0"):
            result(inputs, bias=keywords["bias"], flag=True, scale=3.0)

    def test_integers_of_the_program(self):
        class Sized(torch.nn.Module):
            def forward(self, x, n):
                return x.narrow(0, 0, n) * 2, n + 1

        shapes = {"x": None, "n": torch.export.Dim.DYNAMIC}
        result = qfuse.optimize(torch.export.export(Sized(), (torch.randn(8), 3), dynamic_shapes=shapes))
        x = torch.randn(8)
        for n in (2, 5):
            found = result(x, n)
            torch.testing.assert_close(found[0], x[:n] * 2)
            self.assertEqual(found[1], n + 1)

    def test_archives_from_files(self):
        module, inputs = Cache(), (torch.tensor([2]), torch.randn(1, 1, 4))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "cache.pt2")
            torch.export.save(torch.export.export(module, inputs), path)
            result = qfuse.optimize(path)
            found, = result(*inputs)
            torch.testing.assert_close(found, module(*inputs))
            with self.assertRaisesRegex(TypeError, "expected the inputs"):
                result(inputs[0])

    def test_calls_from_threads_take_turns(self):
        layer = Layer().eval()
        result = qfuse.optimize(torch.export.export(layer, (torch.randn(1, 6, 64),)))
        inputs = [torch.randn(1, 6, 64) for _ in range(6)]
        found = [None] * 6

        def call(index):
            found[index] = result(inputs[index])

        threads = [threading.Thread(target=call, args=(index,)) for index in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for made, x in zip(found, inputs):
            self.near(made, layer(x))

    def test_decomposed_and_eager_spellings(self):
        class Eager(Layer):
            def forward(self, x):
                q, k, v = self.split(self.query(x), self.heads), self.split(self.keys(x), self.groups), \
                    self.split(self.values(x), self.groups)
                k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
                mask = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
                p = torch.softmax(q @ k.transpose(-1, -2) / self.size**0.5 + mask, dim=-1)
                return quantise((p @ v).transpose(1, 2).flatten(2), self.out_scale)

        x = torch.randn(2, 6, 64)
        for module in (Layer().eval(), Eager().eval()):
            for program in (torch.export.export(module, (x,)), torch.export.export(module, (x,)).run_decompositions()):
                result = qfuse.optimize(program)
                self.assertEqual((result.report.attentions, result.report.fused_fp8_out), (1, 1), str(result.report))
                self.near(result(x), module(x))

    def test_operators_of_serving_frameworks(self):
        """vLLM's quantise multiplies by the reciprocal, and writes an argument."""
        library = torch.library.Library("_C", "FRAGMENT")
        library.define("static_scaled_fp8_quant(Tensor(a!) result, Tensor input, Tensor scale) -> ()")

        def on_the_cpu(result, x, scale):
            result.copy_((x.float() * (1 / scale)).clamp(-448, 448).to(E4M3))

        library.impl("static_scaled_fp8_quant", on_the_cpu, "CPU")
        library.impl("static_scaled_fp8_quant", lambda result, x, scale: None, "Meta")

        class Quantise(torch.nn.Module):
            def forward(self, q, k, v, scale):
                out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
                result = torch.empty(out.shape, dtype=E4M3)
                torch.ops._C.static_scaled_fp8_quant(result, out, scale)
                return result

        q, k, v = (torch.randn(1, 2, 5, 16) for _ in range(3))
        scale = torch.tensor([0.013])
        for decompose in (False, True):
            program = torch.export.export(Quantise(), (q, k, v, scale))
            program = program.run_decompositions() if decompose else program
            result = qfuse.optimize(program)
            self.assertEqual(result.report.fused_fp8_out, 1)
            self.assertIn("mul_recip", str(result.graph))
            self.near(result(q, k, v, scale), Quantise()(q, k, v, scale))

    def test_weights_of_tensor_subclasses(self):
        """The archive has them as pickles; the program still holds their parts."""
        from torch.testing._internal.two_tensor import TwoTensor

        class Parts(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(TwoTensor(torch.randn(4, 4), torch.randn(4, 4)))

            def forward(self, x):
                return x @ self.weight.a + self.weight.b[0]

        module, x = Parts(), torch.randn(2, 4)
        result = qfuse.optimize(torch.export.export(module, (x,)))
        self.assertRegex("\n".join(result.report.warnings), "^weight: the archive stores this weight as a pickle")
        torch.testing.assert_close(result(x), module(x))

    def test_guards_of_the_program(self):
        class Halves(torch.nn.Module):
            def forward(self, x, y):
                if x.shape[0] > 16:
                    return x + 1
                return torch.cat([x, x]) + y

        shapes = {"x": {0: torch.export.Dim.DYNAMIC}, "y": {0: torch.export.Dim.DYNAMIC}}
        result = qfuse.optimize(torch.export.export(Halves(), (torch.randn(4, 8), torch.randn(8, 8)), dynamic_shapes=shapes))
        x, y = torch.randn(16, 8), torch.randn(32, 8)
        torch.testing.assert_close(result(x, y), Halves()(x, y))
        for sizes in ((17, 34), (4, 9)):
            with self.assertRaises(qfuse.Error) as caught:
                result(torch.randn(sizes[0], 8), torch.randn(sizes[1], 8))
            self.assertEqual(caught.exception.status, "guard")

    def test_errors_name_the_node(self):
        class Unknown(torch.nn.Module):
            def forward(self, x):
                return torch.linalg.det(x) + 1

        result = qfuse.optimize(torch.export.export(Unknown(), (torch.eye(3),)))
        self.assertIn("linalg", "\n".join(result.report.warnings))
        with self.assertRaises(qfuse.Error) as caught:
            result(torch.eye(3))
        self.assertEqual(caught.exception.status, "unsupported")
        self.assertIn("linalg", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
