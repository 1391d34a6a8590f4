"""Is the output right? Error against a reference in float64, judged by eager's own error.

The criterion: ‖out - ref‖ / ‖ref‖ is at most twice that of eager in the same dtype (four times for another runtime,
whose products add up in an order of their own) plus one rounding unit of the output, and NaN and infinities stand where
eager's stand.

Of a user's model nothing is known. Other kernels may add up in another order anywhere in it, so that √ε, half of the
digits of the output's dtype, takes the place of the rounding unit ε/2. If two eager calls differ by more than eager's
error, that difference counts. If the model does not run in float64, a second eager call is the reference.
"""

import hashlib
from math import isfinite, sqrt

from kernelbench.harness.program import Program
from kernelbench.notes import ErrorTooLarge, NoisyReference, OutputDiffers, ZeroReference

# Elements of a float64 chunk of the reference: 0.5 GiB each for input, output and temporaries.
CHUNK_ELEMENTS = 2**26


def seed_of(*parts) -> int:
    """Return a 63-bit seed that depends on every part and on nothing else, on any machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


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

    Returns {error, eager_error, noise (between two eager calls), limit (all relative, dimensionless), special (NaN and
    inf as in eager's), ok, reference (its dtype, or "eager")}.
    """
    eager = program.results(program.function, inputs)
    again = program.results(program.function, inputs) if program.workload.is_foreign else eager
    for output, theirs in zip(outputs, eager, strict=True):
        # Under autocast the dtype is that of the last operation: a fused one may have another than its parts.
        if output.shape != theirs.shape or (output.dtype != theirs.dtype and not program.autocast):
            found, wanted = (f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in (output, theirs))
            return {"ok": False, "reason": OutputDiffers(found, wanted).to_json()}
    try:
        return _compare(program, inputs, outputs, eager, again, slack)
    except Exception:
        if not program.workload.is_foreign:
            raise
    return _judge(program, "eager", [(slice(None), again)], outputs, eager, again, slack)


def _compare(program: Program, inputs: dict, outputs: tuple, eager: tuple, again: tuple, slack: float) -> dict:
    """Return the verdict by a reference in the dtype that the program names."""
    import torch

    exact, workload = program.exact(), program.workload
    chunks = _chunks(workload, inputs, outputs[0], getattr(torch, program.reference))
    references = ((part, exact.results(exact.function, chunk)) for part, chunk in chunks)
    return _judge(program, program.reference, references, outputs, eager, again, slack)


def _judge(program: Program, name: str, references, outputs: tuple, eager: tuple, again: tuple, slack: float) -> dict:
    """Return the worst verdict of the outputs by references in chunks: (slice, a tensor for each output)."""
    sums = [_Sums(output, program.workload.is_foreign) for output in outputs]
    for part, chunk in references:
        for found, *tensors, reference in zip(sums, outputs, eager, again, chunk, strict=True):
            own, *theirs = (_folded(program.workload, tensor)[part] for tensor in tensors)
            found.add(own, *theirs, reference.reshape(own.shape))
    # An output that is zero throughout says something only beside one that is not.
    told = [found for found in sums if any(found.squares)] or sums
    return {**worst([found.verdict(slack) for found in told]), "reference": name}


def worst(checks: list[dict]) -> dict:
    """Return the worst of several verdicts."""
    return max(checks, key=lambda check: (not check["ok"], check.get("error") or 0))


class _Sums:
    """Sums of squares, over chunks, of what an output and two of eager's are off, and of the reference.

    An output and eager's are compared with the reference, a second one of eager's with the first.
    """

    def __init__(self, output, is_foreign: bool):
        import torch

        self.torch = torch
        epsilon = torch.finfo(output.dtype).eps if output.is_floating_point() else 0
        self.rounding = sqrt(epsilon) if is_foreign else epsilon / 2
        self.squares = [0.0, 0.0, 0.0, 0.0]
        self.special = True

    def add(self, own, theirs, again, reference) -> None:
        squares = self._squares(own, theirs, again, reference)
        # Sums are finite where all that is in them is. A closer look calls ten kernels more, and a job loads each one
        # that it calls for the first time.
        if not all(map(isfinite, squares)):
            where, finite = self.torch.where, theirs.isfinite() & again.isfinite()
            odd = [where(tensor.isfinite(), 0, tensor) for tensor in (own, theirs)]
            self.special &= bool(self.torch.isclose(odd[0].to(theirs.dtype), odd[1], equal_nan=True).all())
            squares = self._squares(*(where(finite, tensor, 0) for tensor in (own, theirs, again, reference)))
        self.squares = [before + more for before, more in zip(self.squares, squares, strict=True)]

    def _squares(self, own, theirs, again, reference) -> list[float]:
        """Return the four sums of a chunk, added up in the dtype of a reference that has more digits."""
        wide = reference.dtype if reference.dtype != own.dtype else self.torch.float64
        own, theirs, again, reference = (tensor.to(wide) for tensor in (own, theirs, again, reference))
        off = (own - reference, theirs - reference, theirs - again, reference)
        return [part.square().sum().item() for part in off]

    def verdict(self, slack: float) -> dict:
        *off, reference = self.squares
        if not reference:
            return {"ok": False, "reason": ZeroReference().to_json()}
        error, eager_error, noise = (sqrt(square / reference) for square in off)
        limit = slack * max(eager_error, noise) + self.rounding
        found = {"eager_error": eager_error, "noise": noise, "limit": limit}
        if limit >= 1 > slack * noise + self.rounding:  # Zeros would pass.
            return {"ok": False, "error": error, **found, "reason": NoisyReference(eager_error).to_json()}
        # Written so that a NaN error never passes.
        ok = self.special and error <= limit
        error = error if isfinite(error) else None  # JSON knows no NaN.
        verdict = {"error": error, **found, "special": self.special, "ok": ok}
        if not ok:
            verdict["reason"] = ErrorTooLarge(error, limit, self.special).to_json()
        return verdict
