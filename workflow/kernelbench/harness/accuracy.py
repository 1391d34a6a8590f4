"""Is the output right? How the outputs of a mode are compared with those of eager PyTorch.

Each compared call begins with the same weights and the same state of all random number generators. Two eager calls show
eager's noise: how far it is off itself. Elements more than LARGE times the median are an output of their own: a mask of
-1e9 would hide all others. How far an output is off another one is

- of floating-point and complex numbers ‖own - other‖ / ‖other‖, with NaN and infinities in the same places;
- of integers, masks and choices the share of elements that differ.

The reference is the same model in float64 (complex128). Where that does not run, or eager is off it by more than
CEILING, the reference is eager itself. An output is right if it is off the reference by at most

    limit = min(CEILING, slack * max(eager's error, eager's noise) + rounding)

slack is 2, and 4 for another runtime, whose products add up in an order of their own. rounding is ε/2 of the output's
dtype. Of a user's model nothing is known, and other kernels may add up in another order anywhere in it: there it is √ε,
half of the digits, of the coarsest dtype that the output has or that the reference computes in.

An output beyond the limit is wrong. So is the gradient of one weight that is off by more than CEILING, and by more than
FAR times what eager's is. Of noise around zero beside other outputs nothing is known. An output is not compared, which
is neither right nor wrong, where

- eager's noise is more than √ε;
- the mode draws other random numbers than eager;
- only CEILING speaks against it, or only eager, which is as far off float64 itself, and in as many elements;
- single elements are off by more than FAR times the most that any of eager's is, plus √ε of the largest element;
- one choice of so few differs that it may be a tie;
- NaN and infinities are in other places than eager's, and eager's in others than those of float64;
- eager's outputs are zero everywhere.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, sqrt

from kernelbench import notes
from kernelbench.harness.precision import epsilon_of, watch, widen
from kernelbench.harness.program import Program
from kernelbench.harness.randomness import read_states
from kernelbench.notes import Note

# The most that an output may be off. No recorded job needs more than 0.074, a gradient of ResNet-50 under autocast.
CEILING = 0.1
# A norm does not see few wrong elements of many; a choice inside a model may turn out otherwise for one of them.
FAR = 8
LARGE = 32
# A part with fewer elements is no vector: its error is large or small by chance.
PART_ELEMENTS = 16
# Elements of a float64 chunk of the reference: 0.5 GiB each for input, output and temporaries.
CHUNK_ELEMENTS = 2**26


def seed_of(*parts) -> int:
    """Return a 63-bit seed that depends on every part and on nothing else, on any machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def check(program: Program, inputs: dict, outputs: tuple, slack: float = 2, after: list | None = None) -> dict:
    """Compare `outputs`, the results of a mode for `inputs`, with eager and with the reference; the worst stands.

    slack: how many times eager's error theirs may be; after: `read_states` when they were made, None where the mode
    draws random numbers of its own.

    Returns {ok, compared, reason (a note as JSON, or None), error, eager_error, noise, limit (all relative,
    dimensionless), special (NaN and inf as in eager's), reference (its dtype, or "eager")}; without numbers where there
    are none.
    """
    look = _choose_look(program)
    (eager, before, states), epsilon = look(lambda: call_eager(program, inputs))
    again, _, _ = call_eager(program, inputs)
    if reason := _find_difference(program, outputs, eager):
        return {"ok": False, "compared": True, "reason": reason.to_json()}
    pieces = _split(program, eager)
    sums = [_Sums(program, outputs[piece.number], slack, epsilon) for piece in pieces]
    sums[-1].segments = program.workload.segments(program.module)
    for found, piece in zip(sums, pieces, strict=True):
        found.add_eager(*(piece.pick(tensors) for tensors in (outputs, eager, again)))
    if not any(found.is_something for found in sums):
        return {"ok": not any(o.any() for o in outputs), "compared": False, "reason": notes.ZeroReference().to_json()}
    if before == states:  # Random numbers in float64 are others.
        _add_exact(program, inputs, sums, pieces, outputs, eager)
    top = max(found.peaks["eager"] for found in sums)
    verdicts = [found.verdict(top) for found in sums]
    found = worst(verdicts)
    if not found["ok"] and before != states and after not in (before, states):
        return {"ok": True, "compared": False, "reason": notes.OtherRandomNumbers().to_json()}
    if (found["reason"] or {}).get("code") in ("ErrorTooLarge", "SomeFarOff"):
        number = pieces[verdicts.index(found)].number
        where = _find_place(program, outputs, eager, number, found["limit"] or CEILING)
        found["reason"]["where"] = where.to_json()
    return found


@dataclass(frozen=True)
class _Piece:
    """Elements of the output of this number that are compared together: all, or those of a mask."""

    number: int
    mask: object = None

    def pick(self, tensors: tuple):
        """Return the elements of this piece, of all outputs of a call."""
        tensor = tensors[self.number].flatten()
        return tensor if self.mask is None else tensor[self.mask]


def _split(program: Program, eager: tuple) -> list[_Piece]:
    """Return the pieces of the outputs: of a user's model large elements are apart, the whole last."""
    pieces = []
    for number, theirs in enumerate(eager):
        if program.workload.is_foreign and theirs.is_floating_point() and theirs.numel():
            sizes = theirs.flatten().double().abs()
            is_large = sizes > LARGE * sizes[sizes.isfinite() & (sizes > 0)].median()
            if is_large.any():
                pieces += [_Piece(number, is_large), _Piece(number, ~is_large)]
        pieces.append(_Piece(number))
    return pieces


def _choose_look(program: Program) -> Callable:
    """Return `watch`; for a model of KernelBench's own, of which it is known what it computes in, what says that."""
    import torch

    epsilon = epsilon_of(getattr(torch, program.autocast)) if program.autocast else 0.0
    return watch if program.workload.is_foreign else lambda call: (call(), epsilon)


def worst(checks: list[dict]) -> dict:
    """Return the worst of several verdicts."""
    return max(checks, key=lambda check: (not check["ok"], not check["compared"], check.get("error") or 0))


def call_eager(program: Program, inputs: dict) -> tuple[tuple, list, list]:
    """Return (eager's outputs, the states of the random number generators before it, and after it)."""
    program.seed_generators()
    before = read_states()
    outputs = program.results(program.function, inputs)
    return outputs, before, read_states()


def compare_calls(program: Program, first: tuple, again: tuple, epsilon: float) -> tuple[float, float]:
    """Return (what two calls differ by relative to their size, the most with which outputs can still be compared).

    epsilon: of the coarsest dtype that they compute in.
    """
    found = []
    for output, other in zip(first, again, strict=True):
        sums = _Sums(program, output, slack=0, epsilon=epsilon)
        sums.add_eager(output.flatten(), output.flatten(), other.flatten())
        found.append((sums.noise, sums.digits))
    return max(found, key=lambda each: each[0] - each[1])


def _find_difference(program: Program, outputs: tuple, eager: tuple) -> Note | None:
    """Return a note where outputs cannot be laid beside eager's: their number, shape or dtype is another one."""
    if len(outputs) != len(eager):
        return notes.OutputDiffers(*(f"{len(each)} tensors" for each in (outputs, eager)))
    for output, theirs in zip(outputs, eager, strict=True):
        # Under autocast the dtype is that of the last operation: a fused one may have another than its parts.
        if output.shape != theirs.shape or (output.dtype != theirs.dtype and not program.autocast):
            return notes.OutputDiffers(*(f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in (output, theirs)))
    return None


def _add_exact(
    program: Program, inputs: dict, sums: list["_Sums"], pieces: list[_Piece], outputs: tuple, eager: tuple
) -> None:
    """Add to the sums how far the outputs and eager's are off the reference in the dtype that the program names."""
    import torch

    workload, dtype = program.workload, getattr(torch, program.reference)
    try:
        exact = program.exact()
        look = _choose_look(exact)
        for part, chunk in _chunks(workload, inputs, outputs[0], dtype):
            references, epsilon = look(lambda chunk=chunk: exact.results(exact.function, chunk))
            own, theirs = ([_folded(workload, tensor)[part] for tensor in tensors] for tensors in (outputs, eager))
            folded = [ref.reshape(tensor.shape) for ref, tensor in zip(references, own, strict=True)]
            for found, piece in zip(sums, pieces, strict=True):
                found.add_exact(*(piece.pick(tensors) for tensors in (own, theirs, folded)), epsilon)
    except Exception:  # Many a model cannot run in float64.
        if not program.workload.is_foreign:
            raise
        for found in sums:
            found.exact_epsilon = None


def _chunks(workload, inputs: dict, output, dtype):
    """Yield (slice of the independent dimensions, inputs of that slice in `dtype`), each a bounded amount of memory."""
    if not workload.split:
        yield slice(None), {name: widen(tensor, dtype) for name, tensor in inputs.items()}
        return
    length = _folded(workload, output).shape[0]
    per_row = max(1, max(t.numel() for t in inputs.values()) // length)
    step = max(1, min(length, CHUNK_ELEMENTS // per_row // 4))
    whole = {k: widen(t, dtype) for k, t in inputs.items() if k not in workload.split}
    for start in range(0, length, step):
        part = slice(start, start + step)
        split = {k: widen(_folded(workload, inputs[k])[part], dtype) for k in workload.split}
        yield part, {k: whole[k] if k in whole else split[k] for k in inputs}


def _folded(workload, tensor):
    """Return a tensor that is split, its independent dimensions made one; of one that is not, all of them."""
    return tensor.flatten(0, workload.independent - 1) if workload.split else tensor.flatten()


class _Sums:
    """How far an output is off, added up over chunks: the output and eager's, each off the reference, and off eager.

    exact_epsilon: of what the reference in float64 computes in; None where there is no such reference.
    """

    def __init__(self, program: Program, output, slack: float, epsilon: float):
        self.is_foreign, self.reference = program.workload.is_foreign, program.reference
        self.is_choice = not output.is_floating_point()
        self.slack, self.epsilon, self.exact_epsilon = slack, max(epsilon, epsilon_of(output.dtype)), None
        self.own_epsilon = epsilon if self.is_choice else epsilon_of(output.dtype)
        self.sums = dict.fromkeys(("error", "eager_error", "reference", "difference", "noise", "eager"), 0.0)
        self.peaks, self.counts = dict(self.sums), dict(self.sums)
        self.special, self.is_odd, self.is_something, self.elements = True, False, False, output.numel()
        self.segments: list[int] = []
        self.parts: list[tuple[float, ...]] = []

    def add_eager(self, own, theirs, again) -> None:
        """Add a chunk of the output, of eager's and of a second call of eager's."""
        self.parts.clear()
        for parts in self._split(own, theirs, again):
            self.is_something |= bool(parts[1].any())
            self._add(("difference", "noise", "eager"), parts[0], parts[2], parts[1], finite_in=parts[1:])

    def add_exact(self, own, theirs, reference, epsilon: float) -> None:
        """Add a chunk of the output, of eager's and of the reference, which computes in dtypes of this ε."""
        self.exact_epsilon = max(self.exact_epsilon or 0.0, epsilon)
        if not self.special:
            self.is_odd |= not _are_alike(theirs, reference.to(theirs.dtype))
        self.parts.clear()
        for parts in self._split(own, theirs, reference):
            self._add(("error", "eager_error", "reference"), *parts, finite_in=[parts[1]])

    def _split(self, *tensors):
        """Return the tensors in chunks: the parts that are judged by themselves, or of a bounded amount of memory."""
        return zip(*(tensor.split(self.segments or CHUNK_ELEMENTS) for tensor in tensors), strict=True)

    def _add(self, names: tuple, own, other, base, finite_in: list) -> None:
        found = self._measure(own, other, base)
        # Sums are finite where all that is in them is. A closer look calls ten kernels more, and a job loads each one
        # that it calls for the first time.
        if not all(isfinite(total) for total, *_ in found):
            import torch

            finite = torch.stack([tensor.isfinite() for tensor in finite_in]).all(0)
            if names[0] == "difference":
                self.special &= _are_alike(own, base)
            found = self._measure(*(torch.where(finite, tensor, 0) for tensor in (own, other, base)))
        for name, (total, peak, count) in zip(names, found, strict=True):
            self.sums[name] += total
            self.peaks[name] = max(self.peaks[name], peak)
            self.counts[name] += count
        if self.segments:
            self.parts.append(tuple(total for total, *_ in found))

    def _measure(self, own, other, base) -> list[tuple[float, float, float]]:
        """Return of what two tensors are off a base, and of the base, (sum of squares, largest, number of large ones).

        Large is what is more than √ε of the base's root mean square. Of choices each is the number that differs.
        """
        if self.is_choice:
            counts = (float((own != base).sum()), float((other != base).sum()), float(base.numel()))
            return [(count, 0.0, count) for count in counts]
        import torch

        wide = base.dtype if base.dtype.itemsize > own.dtype.itemsize else torch.float64
        own, other, base = (tensor.to(wide) for tensor in (own, other, base))
        if not base.numel():
            return [(0.0, 0.0, 0.0)] * 3
        large = self.digits * base.square().mean().sqrt()
        sizes = [part.abs() for part in (own - base, other - base, base)]
        return [(s.square().sum().item(), s.max().item(), float((s > large).sum())) for s in sizes]

    def _ratio(self, name: str, base: str) -> float:
        off, size = self.sums[name], self.sums[base]
        if off == 0 or size == 0:
            return 0.0 if off == 0 else inf
        return off / size if self.is_choice else sqrt(off / size)

    @property
    def noise(self) -> float:
        """What two calls of eager's differ by, relative to their size."""
        return self._ratio("noise", "eager")

    @property
    def digits(self) -> float:
        """√ε, half of the digits."""
        return sqrt(self.epsilon)

    def verdict(self, top: float) -> dict:
        """Return the verdict by the rule that the module states; top: the largest element of any of eager's outputs."""
        exact = None if self.exact_epsilon is None else [self._ratio(n, "reference") for n in ("error", "eager_error")]
        by_exact = exact is not None and exact[1] <= CEILING
        noise = self.noise
        error, eager_error = exact if by_exact else (self._ratio("difference", "eager"), 0.0)
        allowed = self.slack * max(eager_error, noise) + self._rounding(by_exact)
        limit = min(allowed, CEILING)
        numbers = {"error": error, "eager_error": eager_error, "noise": noise, "limit": limit}
        found = {
            **{name: value if isfinite(value) else None for name, value in numbers.items()},  # JSON knows no NaN.
            "special": self.special,
            "reference": self.reference if by_exact else "eager",
        }
        is_noisy = noise > self.digits
        if self.special and self._is_noise(exact, top):
            return {**found, "ok": True, "compared": True, "reason": None}
        if self._has_wrong_part():
            reason = notes.ErrorTooLarge(found["error"], found["limit"], self.special)
            return {**found, "ok": False, "compared": True, "reason": reason.to_json()}
        if self.special and error <= limit:
            reason = notes.NotDeterministic(noise) if is_noisy or noise > eager_error / 2 else None
            far = None if is_noisy else self._find_far(by_exact)
            return {**found, "ok": True, "compared": not is_noisy and not far, "reason": notes.dump(far or reason)}
        if self.special and error <= allowed:
            reason = notes.NotDeterministic(noise) if is_noisy else notes.AsFarOff(error, eager_error)
        elif self.special and exact and not by_exact and self._is_excused(exact):
            reason = notes.AsFarOff(error, exact[1])
        elif self.is_choice and round(error * self.elements) == 1 > limit * self.elements:
            reason = notes.OneChoiceDiffers(self.elements)
        elif not self.special and self.is_odd:
            reason = notes.OddPlaces()
        else:
            reason = notes.ErrorTooLarge(found["error"], found["limit"], self.special)
            return {**found, "ok": False, "compared": True, "reason": reason.to_json()}
        return {**found, "ok": True, "compared": False, "reason": reason.to_json()}

    def _is_noise(self, exact: list[float] | None, top: float) -> bool:
        """Say whether eager has no digit right of it, or zero, and all of it is nothing beside other outputs."""
        off = self.peaks["difference"]
        if self.is_choice or exact is None:
            return False
        if not self.peaks["eager"]:
            return 0 < off <= self.epsilon * top
        return exact[1] > CEILING and max(off, self.peaks["eager"]) <= self.digits * top

    def _has_wrong_part(self) -> bool:
        """Say whether a part is off by much that a norm over all parts hides."""
        for length, squares in zip(self.segments, self.parts, strict=False):
            off, eagers, base = (sqrt(square) if isfinite(square) else inf for square in squares)
            if length >= PART_ELEMENTS and eagers <= CEILING * base and off > max(CEILING * base, FAR * eagers):
                return True
        return False

    def _is_excused(self, exact: list[float]) -> bool:
        """Say whether an output is off eager as eager is off float64: by as much, and in as many elements."""
        as_far = exact[0] <= self.slack * exact[1] < inf
        return as_far and self.counts["difference"] <= self.slack * self.counts["eager_error"]

    def _find_far(self, by_exact: bool) -> Note | None:
        """Return a note where a norm hides an element that is far off."""
        own, eager, base = ("error", "eager_error", "reference") if by_exact else ("difference", "noise", "eager")
        most = max(self.peaks[eager], self.peaks["noise"])
        is_far = self.peaks[own] > FAR * most + self.digits * self.peaks[base]
        return notes.SomeFarOff(self.peaks[own], most) if is_far else None

    def _rounding(self, by_exact: bool) -> float:
        if not by_exact:
            return self.digits
        return sqrt(max(self.own_epsilon, self.exact_epsilon)) if self.is_foreign else self.own_epsilon / 2


def _are_alike(own, other) -> bool:
    """Say whether NaN and infinities of two tensors are in the same places."""
    import torch

    odd = [torch.where(tensor.isfinite(), 0, tensor) for tensor in (own, other)]
    return bool(torch.isclose(odd[0].to(other.dtype), odd[1], equal_nan=True).all())


def _find_place(program: Program, outputs: tuple, eager: tuple, number: int, limit: float) -> Note:
    """Return a note of where an output differs from eager's, of its number among the outputs."""
    import torch

    output, theirs = outputs[number], eager[number]
    if output.is_floating_point():
        size = theirs.nan_to_num(0, 0, 0).double().square().mean().sqrt().item()
        off = ~torch.isclose(output.to(theirs.dtype), theirs, limit, limit * size, equal_nan=True)
    else:
        off = output != theirs
    first = f"{number}{off.nonzero()[0].tolist()}" if off.any() else ""
    if first and not theirs[off].any():
        return notes.OffWhereZero(first, not program.takes_fast_path())
    return notes.OffAt(off.double().mean().item(), first)
