"""Six element-wise operations in a row, each a kernel of its own in eager mode, a size being the number of elements."""

from dataclasses import dataclass

from kernelbench.harness.workload import Workload, length


@dataclass(frozen=True)
class ElementwiseChain(Workload):
    """x, y: (size,)."""

    split = ("x", "y")

    def shapes(self, size, itemsize):
        return {"x": (length(size),), "y": (length(size),)}

    def call(self, x, y):
        return ((x.sin() * y.cos() + x) * y).relu()

    def jax(self):
        import jax.numpy as jnp

        return lambda x, y: jnp.maximum((jnp.sin(x) * jnp.cos(y) + x) * y, 0)

    def flops(self, size, itemsize):
        return 6 * length(size)


WORKLOAD = ElementwiseChain
