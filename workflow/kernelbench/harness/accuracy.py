"""Is the output right? Error against a float64 reference, judged by eager's own error.

The criterion: ‖out - ref‖ / ‖ref‖ is at most twice that of eager in the same dtype plus one rounding unit of
the output, and NaN and infinities stand where eager's stand.
"""

import hashlib
from math import isfinite

# Elements of a float64 chunk of the reference: 0.5 GiB each for input, output and temporaries.
CHUNK_ELEMENTS = 2**26


def seed_of(*parts) -> int:
    """Return a 63-bit seed that depends on every part and on nothing else, on any machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def make_inputs(workload, size: str, dtype, device: str, seed: int) -> dict:
    """Return the input tensors by name, N(0, 1) from `seed`: never zeros, which draw less power and run faster."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    return {
        name: torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for name, shape in workload.shapes(size, dtype.itemsize).items()
    }


def _chunks(workload, inputs: dict, output):
    """Yield (slice of the independent dimensions, inputs of that slice in float64), each a bounded amount of memory."""
    import torch

    length = _folded(workload, output).shape[0]
    per_row = max(1, max(t.numel() for t in inputs.values()) // length)
    step = max(1, min(length, CHUNK_ELEMENTS // per_row // 4))
    whole = {k: t.to(torch.float64) for k, t in inputs.items() if k not in workload.split}
    for start in range(0, length, step):
        part = slice(start, start + step)
        split = {k: _folded(workload, inputs[k])[part].to(torch.float64) for k in workload.split}
        yield part, [whole[k] if k in whole else split[k] for k in inputs]


def _folded(workload, tensor):
    """Return a tensor that is split, its independent dimensions made one."""
    return tensor.flatten(0, workload.independent - 1)


def check(workload, inputs: dict, output) -> dict:
    """Compare `output` with the reference for `inputs`.

    Returns {error, eager_error, limit (all relative, dimensionless), special (NaN and inf as in eager's), ok}.
    """
    import torch

    eager = workload.call(*inputs.values())
    if output.shape != eager.shape or output.dtype != eager.dtype:
        return {
            "ok": False,
            "reason": f"output is {tuple(output.shape)} {output.dtype}, eager's is {tuple(eager.shape)} {eager.dtype}",
        }
    sums = torch.zeros(3, dtype=torch.float64, device=output.device)
    special = True
    for part, chunk in _chunks(workload, inputs, output):
        reference = workload.call(*chunk)
        own, theirs = (_folded(workload, tensor)[part] for tensor in (output, eager))
        finite = theirs.isfinite()
        odd = [torch.where(tensor.isfinite(), 0, tensor) for tensor in (own, theirs)]
        special &= bool(torch.isclose(*odd, equal_nan=True).all())
        reference = torch.where(finite, reference, 0)
        for i, tensor in enumerate((own, theirs)):
            sums[i] += (torch.where(finite, tensor, 0).to(torch.float64) - reference).square().sum()
        sums[2] += reference.square().sum()
    error, eager_error = (sums[:2] / sums[2]).sqrt().tolist()
    limit = 2 * eager_error + torch.finfo(output.dtype).eps / 2
    # Written so that a NaN error never passes.
    ok = special and error <= limit
    error = error if isfinite(error) else None  # JSON knows no NaN.
    verdict = {"error": error, "eager_error": eager_error, "limit": limit, "special": special, "ok": ok}
    if not ok:
        where = "" if special else "; NaN or inf in other places than eager's"
        verdict["reason"] = f"relative error {error}, allowed {limit:.3g}{where}"
    return verdict
