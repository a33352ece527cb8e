# Owns: what the tests with torch share, on the CPU and on a GPU: torch, where it is installed, a module with a buffer, codes.
# Does not own: the tests.
# Next: test_torch.py, test_cuda.py (the GPU bundle takes this file along).
try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = F = None

Cache = None

if torch:
    class Cache(torch.nn.Module):
        """Writes its buffer at a position."""

        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(1, 8, 4))

        def forward(self, position, new):
            self.cache.index_copy_(1, position, new)
            return self.cache.sum(dim=1)


def codes(x):
    """FP8 elements as bytes, in the same memory."""
    return x.view(torch.uint8)
