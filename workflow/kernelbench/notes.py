"""Notes: what one stage tells the next of a job or of a row, as a code with fields; and its text, for people alone.

A note says why a job has no times, what speaks against them, or what to know of a row. Stages hand notes on as objects
of JSON, `{"code": "NearFloor", "floor_us": 4.4, …}`. Whoever decides by one asks for its class and its fields; `str`
makes the text for a table, a terminal or a paper, and no code reads it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from string import Formatter
from typing import ClassVar


class _Text(Formatter):
    """str.format with `!l` for a list ("a, b") and `!o` for alternatives ("a or b")."""

    def convert_field(self, value, conversion):
        joined = {"l": ", ", "o": " or "}.get(conversion)
        return joined.join(map(str, value)) if joined else super().convert_field(value, conversion)


@dataclass(frozen=True)
class Note:
    """A code, which is the name of its class, and its fields; `text` is how its sentence is made of them.

    title: what a table calls all notes of a kind that speaks against times.
    """

    text: ClassVar[str] = ""
    title: ClassVar[str] = ""

    def __str__(self) -> str:
        return _Text().vformat(self.text, (), self._fields())

    @property
    def code(self) -> str:
        """The name by which files know this kind of note."""
        return type(self).__name__

    def to_json(self) -> dict:
        """Return the note as JSON can hold it."""
        return {"code": self.code} | {name: dump(value) for name, value in self._fields().items()}

    def _fields(self) -> dict:
        return {field.name: getattr(self, field.name) for field in fields(self)}


# Why a mode cannot run a cell here.


@dataclass(frozen=True)
class NeedsDevice(Note):
    """`what` (a dtype; empty: the mode) exists on `devices` only, and this machine's is `device`."""

    what: str
    devices: list[str]
    device: str
    text = "{what} needs {devices!o}, this machine is {device}"

    def __str__(self) -> str:
        return super().__str__().strip()  # Nothing stands for the mode itself.


@dataclass(frozen=True)
class NeedsCapability(Note):
    """A dtype needs a GPU of a compute capability (such as "8.9")."""

    dtype: str
    needed: str
    found: str
    text = "{dtype} needs compute capability {needed}, this GPU has {found}"


@dataclass(frozen=True)
class NotInstalled(Note):
    """A package is missing; `install` is the line that installs it."""

    package: str
    install: str
    text = "{package} is not installed; {install}"


@dataclass(frozen=True)
class NotImportable(Note):
    """A package is there and its import fails with `error`."""

    package: str
    error: str
    install: str
    text = "{package} cannot be imported ({error}); {install}"


@dataclass(frozen=True)
class NoGpuSupport(Note):
    """A package is there without its part for GPUs."""

    package: str
    install: str
    text = "{package} finds no GPU; {install}"


@dataclass(frozen=True)
class NoProvider(Note):
    """ONNX Runtime is there without the provider of the device."""

    provider: str
    install: str
    text = "onnxruntime has no {provider} here; {install}"


@dataclass(frozen=True)
class InferenceOnly(Note):
    """A runner takes the forward pass out of PyTorch, where there is no `what` (training step, autocast)."""

    runner: str
    what: str
    text = "{runner} has no {what}: it takes the forward pass out of PyTorch"


@dataclass(frozen=True)
class NoBlocks(Note):
    """Regional compilation has nothing to compile."""

    is_model: bool
    text = "it has no repeated blocks to compile"

    def __str__(self) -> str:
        return super().__str__() + ("" if self.is_model else ": it is an operation and not a model")


@dataclass(frozen=True)
class NoKernel(Note):
    """There is no hand-written kernel for a workload."""

    workload: str
    text = "there is no Triton kernel for {workload}"


@dataclass(frozen=True)
class NotInJax(Note):
    """A workload is not written in JAX."""

    workload: str
    text = "there is no {workload} in JAX"


@dataclass(frozen=True)
class NotInLibrary(Note):
    """A library has no kernel for a workload."""

    library: str
    workload: str
    text = "{library} has no {workload}"


@dataclass(frozen=True)
class RowsTooWide(Note):
    """A library's kernel takes rows of so many elements at most."""

    library: str
    widest: int
    text = "{library} takes rows of at most {widest} elements"


@dataclass(frozen=True)
class NotBound(Note):
    """ONNX Runtime cannot bind tensors of a dtype of torch."""

    dtype: str
    text = "ONNX Runtime binds tensors of float16 and float32, not {dtype}"


@dataclass(frozen=True)
class RuntimeRefused(Note):
    """Another runtime refuses the model, in its own words."""

    runtime: str
    error: str
    text = "{runtime}: {error}"


@dataclass(frozen=True)
class NotCaptured(Note):
    """PyTorch cannot capture the calls into a CUDA graph, in its own words."""

    error: str
    text = "cannot be captured: {error}"


@dataclass(frozen=True)
class OwnGraphs(Note):
    """There is no graph time of a mode that replays CUDA graphs itself."""

    text = "the mode replays CUDA graphs of its own"


@dataclass(frozen=True)
class NothingCompiled(Note):
    """All of it ran in eager mode."""

    text = "torch.compile compiled no graph: all of it ran in eager mode"


@dataclass(frozen=True)
class PartlyEager(Note):
    """Some frames ran in eager mode; `error` is what the compiler says of the first, empty if nothing."""

    eager: int
    frames: int
    error: str
    text = "torch.compile left {eager} of {frames} frames to eager mode: {error}"


@dataclass(frozen=True)
class GraphsSkipped(Note):
    """The compiler was asked for CUDA graphs and recorded none of some."""

    times: int
    text = "torch.compile skipped CUDA graphs {times} times"


@dataclass(frozen=True)
class NoGraphRecorded(Note):
    """The compiler was asked for CUDA graphs, and there is none."""

    text = "torch.compile recorded no CUDA graph"


# Why a job came to no good end.


@dataclass(frozen=True)
class Raised(Note):
    """An exception, in its own words; `where` in a workload's file, empty where in none."""

    error: str
    where: str
    text = "{error}"

    def __str__(self) -> str:
        return super().__str__() + (f" ({self.where})" if self.where else "")


@dataclass(frozen=True)
class Ended(Note):
    """The job's process ended without a word; `phase`: what it was at."""

    phase: str | None

    def __str__(self) -> str:
        return super().__str__() + (f" during {self.phase}" if self.phase else "")


@dataclass(frozen=True)
class TimeLimit(Ended):
    """It took longer than it may."""

    seconds: float
    text = "time limit of {seconds:g} s"


@dataclass(frozen=True)
class Killed(Ended):
    """By a signal."""

    signal: str
    text = "killed by {signal}"


@dataclass(frozen=True)
class Exited(Ended):
    """By itself."""

    exit_code: int
    text = "exit code {exit_code}"


@dataclass(frozen=True)
class OtherOutput(Note):
    """The output has another shape or dtype than eager's."""

    found: str
    eager: str
    text = "output is {found}, eager's is {eager}"


@dataclass(frozen=True)
class ZeroReference(Note):
    """There is no relative error of nothing."""

    text = "the reference is zero everywhere: there is nothing to compare with"


@dataclass(frozen=True)
class NoisyReference(Note):
    """Eager is so far off the reference that zeros would pass as right."""

    eager_error: float
    text = "eager's own error is {eager_error:.2g} of the reference: the check would compare noise"


@dataclass(frozen=True)
class OffReference(Note):
    """The relative error is above its limit, or NaN and infinities stand elsewhere than in eager's output."""

    error: float | None
    limit: float
    special: bool
    text = "relative error {error}, allowed {limit:.3g}"

    def __str__(self) -> str:
        return super().__str__() + ("" if self.special else "; NaN or inf in other places than eager's")


@dataclass(frozen=True)
class OfTry(Note):
    """A second try of a job came to no better end."""

    status: str
    note: Note | None
    text = "{status}: {note}"


# What speaks against the times of a job.


@dataclass(frozen=True)
class Unwatched(Note):
    """Nobody knows who else used the GPU, or at which clock it ran."""

    text = "NVML is missing: nobody watched the GPU"
    title = "nobody watched the GPU"


@dataclass(frozen=True)
class OtherProcesses(Note):
    """So many other processes computed on the GPU."""

    count: int
    text = "other processes on the GPU: {count}"
    title = "other processes on the GPU"


@dataclass(frozen=True)
class Throttled(Note):
    """The GPU's clocks were held back; `ms`: for how long, None where the driver does not say."""

    ms: float | None
    text = "throttled: {title}"

    def __str__(self) -> str:
        return self.text.format(title=self.title) + ("" if self.ms is None else f" for {self.ms:.1f} ms")


class PowerCap(Throttled):
    """By the cap on power: what a mode draws is its own doing."""

    title = "power cap"


class Heat(Throttled):
    """By heat, as the driver's counter of time has it."""

    title = "heat"


class HardwareSlowdown(Throttled):
    """By the hardware."""

    title = "hardware slowdown"


class SoftwareThermalSlowdown(Throttled):
    """By the driver, for heat."""

    title = "software thermal slowdown"


class HardwareThermalSlowdown(Throttled):
    """By the hardware, for heat."""

    title = "hardware thermal slowdown"


class PowerBrake(Throttled):
    """By the power supply."""

    title = "power brake"


@dataclass(frozen=True)
class Unsettled(Note):
    """The times of the warm-up never agreed."""

    text = "its warm-up did not settle"


# What to know of a row of the tables.


@dataclass(frozen=True)
class NearFloor(Note):
    """A device time below `factor` times the timer's floor, in µs: it says little."""

    floor_us: float
    factor: int
    text = "below {factor} times the timer's floor of {floor_us:.3g} µs"


@dataclass(frozen=True)
class Uncovered(Note):
    """The delay did not hide the host's work in a share of the samples."""

    share: float
    text = "uncovered in {share:.0%} of the samples: the host's time is in it"


@dataclass(frozen=True)
class TwoPeaks(Note):
    """The repeats fall into two groups, `percent` apart: no interval is honest about those."""

    lower: int
    upper: int
    percent: float
    text = "two peaks: {lower} and {upper} repeats, {percent:.2g} % apart"


@dataclass(frozen=True)
class FarOff(Note):
    """Some repeats are more than `times` their median away: the interval promises too much."""

    count: int
    of: int
    times: int
    text = "far off: {count} of {of} repeats, more than {times} times their median"


@dataclass(frozen=True)
class ExactDisagrees(Note):
    """Only one of the two intervals, Student's and the exact one, holds a speedup of 1."""

    text = "the exact interval disagrees"


@dataclass(frozen=True)
class NotOk(Note):
    """A mean over sizes lacks some that did not run."""

    sizes: list[str]
    text = "not ok at {sizes!l}"


@dataclass(frozen=True)
class NotMeasured(Note):
    """A mean is over the `others` sizes that the study has of a mode."""

    sizes: list[str]
    others: int
    text = "not measured at {sizes!l}: over the other {others} sizes"


@dataclass(frozen=True)
class OffStream(Note):
    """A runtime of its own has neither PyTorch's events nor its allocator."""

    text = "not on PyTorch's stream: it has latency, throughput and first_call"


@dataclass(frozen=True)
class IsZero(Note):
    """There is no ratio of nothing."""

    text = "it is 0, of which there is no ratio"


@dataclass(frozen=True)
class OtherWorkers(Note):
    """First calls do not compare: both arms compile, in another number of processes each."""

    processes: int
    baseline: str
    baseline_processes: int
    text = "compiled in {processes:g} processes, {baseline} in {baseline_processes:g}"


@dataclass(frozen=True)
class OfBaseline(Note):
    """What is said of the baseline's row is said of the speedup over it."""

    baseline: str
    note: Note
    text = "{baseline}: {note}"


@dataclass(frozen=True)
class InRepeats(Note):
    """What is said of some repeats only."""

    count: int
    of: int
    note: Note
    text = "{count} of {of} repeats: {note}"


@dataclass(frozen=True)
class Unclassified(Note):
    """A sentence of an older record that no code is known for."""

    words: str
    text = "{words}"


def _kinds(of: type[Note]) -> Iterable[type[Note]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


# Those that stand for others have no text of their own.
CODES = {kind.__name__: kind for kind in _kinds(Note) if kind.text and kind is not Throttled}
# Of a time that an interval promises too much of.
FLAGS = (TwoPeaks, FarOff)


def dump(value):
    """Return what JSON can hold of notes, lists of them and plain values."""
    if isinstance(value, Note):
        return value.to_json()
    return [dump(each) for each in value] if isinstance(value, list | tuple) else value


def load(value):
    """Return the note, list of notes or plain value that `dump` made `value` of. Raises ValueError for another code."""
    if isinstance(value, list):
        return [load(each) for each in value]
    if not isinstance(value, dict):
        return value
    known = {name: load(field) for name, field in value.items() if name != "code"}
    try:
        return CODES[value["code"]](**known)
    except (KeyError, TypeError):
        raise ValueError(f"{value}: is no note; allowed codes: {', '.join(CODES)}") from None


def find(notes: Iterable, *kinds: type[Note]) -> Note | None:
    """Return the first of the notes (or of their JSON) that is of one of these kinds, None where there is none."""
    for note in notes:
        of = type(note) if isinstance(note, Note) else CODES[note["code"]]
        if issubclass(of, kinds):
            return load(note)
    return None


def say(notes: Iterable) -> str:
    """Return the text of notes (or of their JSON) for people, in one line; empty where there are none."""
    return "; ".join(str(load(note)) for note in notes)
