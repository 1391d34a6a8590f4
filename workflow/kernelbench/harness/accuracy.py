"""Is the output right? Error against a reference in float64, judged by eager's own error.

The criterion: ‖out - ref‖ / ‖ref‖ is at most twice that of eager in the same dtype (four times for another runtime,
whose products add up in an order of their own) plus one rounding unit of the output, and NaN and infinities stand where
eager's stand.
"""

import hashlib
from math import isfinite, sqrt

from kernelbench.harness.dtypes import Dtype
from kernelbench.harness.program import Program
from kernelbench.notes import ErrorTooLarge, NoisyReference, OutputDiffers, ZeroReference

# Elements of a float64 chunk of the reference: 0.5 GiB each for input, output and temporaries.
CHUNK_ELEMENTS = 2**26


def seed_of(*parts) -> int:
    """Return a 63-bit seed that depends on every part and on nothing else, on any machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def make_inputs(workload, size: str, dtype: Dtype, device: str, seed: int) -> dict:
    """Return the input tensors by name, N(0, 1) from `seed`: never zeros, which draw less power and run faster.

    Integers are drawn evenly below their bound.
    """
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    storage = getattr(torch, dtype.storage)
    drawn = storage if storage.itemsize > 1 else torch.float32  # There are no random numbers in float8.
    bounds, inputs = workload.bounds(), {}
    for name, shape in workload.shapes(size, dtype.itemsize).items():
        if name in bounds:
            inputs[name] = torch.randint(bounds[name], shape, device=device, generator=generator)
        else:
            inputs[name] = torch.randn(shape, dtype=drawn, device=device, generator=generator).to(storage)
    return workload.lay_out(inputs)


def _chunks(workload, inputs: dict, output, dtype):
    """Yield (slice of the independent dimensions, inputs of that slice in `dtype`), each a bounded amount of memory."""

    def exact(tensor):
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    if not workload.split:
        yield slice(None), {k: exact(t) for k, t in inputs.items()}
        return
    length = _folded(workload, output).shape[0]
    per_row = max(1, max(t.numel() for t in inputs.values()) // length)
    step = max(1, min(length, CHUNK_ELEMENTS // per_row // 4))
    whole = {k: exact(t) for k, t in inputs.items() if k not in workload.split}
    for start in range(0, length, step):
        part = slice(start, start + step)
        split = {k: exact(_folded(workload, inputs[k])[part]) for k in workload.split}
        yield part, {k: whole[k] if k in whole else split[k] for k in inputs}


def _folded(workload, tensor):
    """Return a tensor that is split, its independent dimensions made one; of one that is not, all of them."""
    return tensor.flatten(0, workload.independent - 1) if workload.split else tensor.flatten()


def check(program: Program, inputs: dict, outputs: tuple, slack: float = 2) -> dict:
    """Compare `outputs`, the results of a mode for `inputs`, with the reference; the worst of them stands.

    slack: how many times eager's error theirs may be.

    Returns {error, eager_error, limit (all relative, dimensionless), special (NaN and inf as in eager's), ok,
    reference (its dtype)}.
    """
    import torch

    eager = program.results(program.function, inputs)
    for output, theirs in zip(outputs, eager, strict=True):
        # Under autocast the dtype is that of the last operation: a fused one may have another than its parts.
        if output.shape != theirs.shape or (output.dtype != theirs.dtype and not program.autocast):
            found, wanted = (f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in (output, theirs))
            return {"ok": False, "reason": OutputDiffers(found, wanted).to_json()}
    exact, workload = program.exact(), program.workload
    dtype = getattr(torch, program.reference)
    sums = [_Sums(output) for output in outputs]
    for part, chunk in _chunks(workload, inputs, outputs[0], dtype):
        references = exact.results(exact.function, chunk)
        for found, *tensors, reference in zip(sums, outputs, eager, references, strict=True):
            own, theirs = (_folded(workload, tensor)[part] for tensor in tensors)
            found.add(own, theirs, reference.reshape(own.shape))
    return {**worst([found.verdict(slack) for found in sums]), "reference": program.reference}


def worst(checks: list[dict]) -> dict:
    """Return the worst of several verdicts."""
    return max(checks, key=lambda check: (not check["ok"], check.get("error") or 0))


class _Sums:
    """Sums of squares, over chunks, of what an output and eager's are off the reference, and of the reference."""

    def __init__(self, output):
        import torch

        self.torch = torch
        self.rounding = torch.finfo(output.dtype).eps / 2
        self.squares = [0.0, 0.0, 0.0]
        self.special = True

    def add(self, own, theirs, reference) -> None:
        squares = self._squares(own, theirs, reference)
        # Sums are finite where all that is in them is. A closer look calls ten kernels more, and a job loads each one
        # that it calls for the first time.
        if not all(map(isfinite, squares)):
            where, finite = self.torch.where, theirs.isfinite()
            odd = [where(tensor.isfinite(), 0, tensor) for tensor in (own, theirs)]
            self.special &= bool(self.torch.isclose(odd[0].to(theirs.dtype), odd[1], equal_nan=True).all())
            squares = self._squares(*(where(finite, tensor, 0) for tensor in (own, theirs, reference)))
        self.squares = [before + more for before, more in zip(self.squares, squares, strict=True)]

    def _squares(self, own, theirs, reference) -> list[float]:
        """Return the three sums of a chunk."""
        off = (own.to(reference.dtype) - reference, theirs.to(reference.dtype) - reference, reference)
        return [part.square().sum().item() for part in off]

    def verdict(self, slack: float) -> dict:
        *off, reference = self.squares
        if not reference:
            return {"ok": False, "reason": ZeroReference().to_json()}
        error, eager_error = (sqrt(square / reference) for square in off)
        limit = slack * eager_error + self.rounding
        if limit >= 1:  # Zeros would pass.
            reason = NoisyReference(eager_error).to_json()
            return {"ok": False, "error": error, "eager_error": eager_error, "limit": limit, "reason": reason}
        # Written so that a NaN error never passes.
        ok = self.special and error <= limit
        error = error if isfinite(error) else None  # JSON knows no NaN.
        verdict = {"error": error, "eager_error": eager_error, "limit": limit, "special": self.special, "ok": ok}
        if not ok:
            verdict["reason"] = ErrorTooLarge(error, limit, self.special).to_json()
        return verdict
