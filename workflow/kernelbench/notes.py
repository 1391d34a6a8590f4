"""Notes: what one stage tells the next about a job or a row of a table, as a code with fields.

A note says why a job has no times, what speaks against its times, or what a reader of a row should know. Files hold
notes as JSON objects: `{"code": "NearFloor", "floor_us": 4.4, "factor": 10}`. Code that decides by a note asks for its
class and its fields. `str` makes its text, for people alone: no code reads that.
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
    """The name of the class is the code. `text` is the template of the sentence; its fields fill it.

    title: a short name of this kind of note for the column of suspect jobs, where it can stand there.
    """

    text: ClassVar[str] = ""
    title: ClassVar[str] = ""

    def __str__(self) -> str:
        return _Text().vformat(self.text, (), self._fields())

    @property
    def code(self) -> str:
        """The name of this kind of note in files."""
        return type(self).__name__

    def to_json(self) -> dict:
        """Return the note as a JSON object."""
        return {"code": self.code} | {name: dump(value) for name, value in self._fields().items()}

    def _fields(self) -> dict:
        return {field.name: getattr(self, field.name) for field in fields(self)}


# Why a mode cannot run a cell here.


@dataclass(frozen=True)
class NeedsDevice(Note):
    """`what` (a dtype, a CUDA graph; empty for the mode itself) runs on `devices` only; this machine's is `device`."""

    what: str
    devices: list[str]
    device: str
    text = "{what} needs {devices!o}, this machine is {device}"

    def __str__(self) -> str:
        return super().__str__().strip()  # An empty `what` leaves a space.


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
    """A package is installed, but its import fails with `error`."""

    package: str
    error: str
    install: str
    text = "{package} cannot be imported ({error}); {install}"


@dataclass(frozen=True)
class NoGpuSupport(Note):
    """A package is installed without its support for GPUs."""

    package: str
    install: str
    text = "{package} finds no GPU; {install}"


@dataclass(frozen=True)
class NoProvider(Note):
    """ONNX Runtime is installed without the provider for the device."""

    provider: str
    install: str
    text = "onnxruntime has no {provider} here; {install}"


@dataclass(frozen=True)
class InferenceOnly(Note):
    """A runner exports the forward pass from PyTorch, and so cannot run `what` (training step, autocast)."""

    runner: str
    what: str
    text = "{runner} has no {what}: it takes the forward pass out of PyTorch"


@dataclass(frozen=True)
class NoRepeatedBlocks(Note):
    """Regional compilation needs repeated blocks, and the workload has none."""

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
    """A library's kernel takes rows of at most `widest` elements."""

    library: str
    widest: int
    text = "{library} takes rows of at most {widest} elements"


@dataclass(frozen=True)
class DtypeNotSupported(Note):
    """ONNX Runtime cannot bind tensors of this dtype of torch."""

    dtype: str
    text = "ONNX Runtime binds tensors of float16 and float32, not {dtype}"


@dataclass(frozen=True)
class RuntimeRefused(Note):
    """Another runtime refuses the model; `error` is its message."""

    runtime: str
    error: str
    text = "{runtime}: {error}"


@dataclass(frozen=True)
class NotCaptured(Note):
    """PyTorch cannot capture the calls into a CUDA graph; `error` is its message."""

    error: str
    text = "cannot be captured: {error}"


@dataclass(frozen=True)
class OwnGraphs(Note):
    """The mode replays CUDA graphs itself, so that it has no graph time."""

    text = "the mode replays CUDA graphs of its own"


@dataclass(frozen=True)
class NothingCompiled(Note):
    """torch.compile compiled nothing: all of the job ran in eager mode."""

    text = "torch.compile compiled no graph: all of it ran in eager mode"


@dataclass(frozen=True)
class PartlyEager(Note):
    """`eager` of the `frames` that Dynamo saw ran in eager mode; `error` is what it says of the first."""

    eager: int
    frames: int
    error: str
    text = "torch.compile left {eager} of {frames} frames to eager mode: {error}"


@dataclass(frozen=True)
class GraphsSkipped(Note):
    """torch.compile was asked for CUDA graphs and skipped some."""

    times: int
    text = "torch.compile skipped CUDA graphs {times} times"


@dataclass(frozen=True)
class NoGraphRecorded(Note):
    """torch.compile was asked for CUDA graphs and recorded none."""

    text = "torch.compile recorded no CUDA graph"


# Why a job failed.


@dataclass(frozen=True)
class Raised(Note):
    """The job raised an exception: its type and message, and the line of the workload's file, if it came from one."""

    error: str
    where: str
    text = "{error}"

    def __str__(self) -> str:
        return super().__str__() + (f" ({self.where})" if self.where else "")


@dataclass(frozen=True)
class ProcessEnded(Note):
    """The job's process ended before the job did, in this `phase`; None where it had not begun one."""

    phase: str | None

    def __str__(self) -> str:
        return super().__str__() + (f" during {self.phase}" if self.phase else "")


@dataclass(frozen=True)
class TimeLimit(ProcessEnded):
    """The job exceeded its time limit."""

    seconds: float
    text = "time limit of {seconds:g} s"


@dataclass(frozen=True)
class Killed(ProcessEnded):
    """A signal killed the job's process."""

    signal: str
    text = "killed by {signal}"


@dataclass(frozen=True)
class Exited(ProcessEnded):
    """The job's process exited by itself."""

    exit_code: int
    text = "exit code {exit_code}"


@dataclass(frozen=True)
class OutputDiffers(Note):
    """The output has another shape or dtype than eager's."""

    found: str
    eager: str
    text = "output is {found}, eager's is {eager}"


@dataclass(frozen=True)
class ZeroReference(Note):
    """The reference is zero everywhere, so that there is no relative error."""

    text = "the reference is zero everywhere: there is nothing to compare with"


@dataclass(frozen=True)
class NoisyReference(Note):
    """Eager's own error is so large that an output of zeros would pass."""

    eager_error: float
    text = "eager's own error is {eager_error:.2g} of the reference: the check would compare noise"


@dataclass(frozen=True)
class ErrorTooLarge(Note):
    """The relative error exceeds its limit, or NaN and infinities stand elsewhere than in eager's output.

    error: None where it is not finite; special: whether NaN and infinities stand where eager's do.
    """

    error: float | None
    limit: float
    special: bool
    text = "relative error {error}, allowed {limit:.3g}"

    def __str__(self) -> str:
        return super().__str__() + ("" if self.special else "; NaN or inf in other places than eager's")


@dataclass(frozen=True)
class RetryFailed(Note):
    """A retry of a job failed with `status`, and the try before it was kept."""

    status: str
    note: Note | None
    text = "{status}: {note}"


# What speaks against the times of a job.


@dataclass(frozen=True)
class NotMonitored(Note):
    """Without NVML nobody knows who else used the GPU, or whether its clocks were held back."""

    text = "NVML is missing: nobody watched the GPU"
    title = "nobody watched the GPU"


@dataclass(frozen=True)
class OtherProcesses(Note):
    """Other processes computed on the GPU."""

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
    """The GPU ran into its power cap; how much power a mode draws is its own doing."""

    title = "power cap"


class Heat(Throttled):
    """Heat, by the driver's counter of the time that it held clocks back."""

    title = "heat"


class HardwareSlowdown(Throttled):
    """The hardware slowed down, for heat or power."""

    title = "hardware slowdown"


class SoftwareThermalSlowdown(Throttled):
    """The driver slowed the GPU down for heat."""

    title = "software thermal slowdown"


class HardwareThermalSlowdown(Throttled):
    """The hardware slowed the GPU down for heat."""

    title = "hardware thermal slowdown"


class PowerBrake(Throttled):
    """The power supply asked the GPU to slow down."""

    title = "power brake"


@dataclass(frozen=True)
class Unsettled(Note):
    """The times of the warm-up never agreed within the tolerance."""

    text = "its warm-up did not settle"


# What a reader of a row should know.


@dataclass(frozen=True)
class NearFloor(Note):
    """A device time is below `factor` times the timer's floor (µs), too short to mean much."""

    floor_us: float
    factor: int
    text = "below {factor} times the timer's floor of {floor_us:.3g} µs"


@dataclass(frozen=True)
class Uncovered(Note):
    """In this share of the samples the delay did not hide the host's work, which is in the device time."""

    share: float
    text = "uncovered in {share:.0%} of the samples: the host's time is in it"


@dataclass(frozen=True)
class TwoPeaks(Note):
    """The repeats fall into two groups, `percent` apart; no interval is honest about that."""

    lower: int
    upper: int
    percent: float
    text = "two peaks: {lower} and {upper} repeats, {percent:.2g} % apart"


@dataclass(frozen=True)
class FarOff(Note):
    """Some repeats are more than `times` their median, or less than it by as much: the interval promises too much."""

    count: int
    of: int
    times: int
    text = "far off: {count} of {of} repeats, more than {times} times their median"


@dataclass(frozen=True)
class ExactIntervalDisagrees(Note):
    """Only one of the two intervals, Student's and the exact one, holds a speedup of 1."""

    text = "the exact interval disagrees"


@dataclass(frozen=True)
class SizesNotOk(Note):
    """There is no mean over sizes, since these did not run."""

    sizes: list[str]
    text = "not ok at {sizes!l}"


@dataclass(frozen=True)
class SizesNotMeasured(Note):
    """The study does not have the mode at these sizes; the mean is over the `others` sizes."""

    sizes: list[str]
    others: int
    text = "not measured at {sizes!l}: over the other {others} sizes"


@dataclass(frozen=True)
class OffStream(Note):
    """The mode runs outside PyTorch's stream, where neither its events nor its allocator reach."""

    text = "not on PyTorch's stream: it has latency, throughput and first_call"


@dataclass(frozen=True)
class ZeroValue(Note):
    """The value is 0, so that there is no ratio."""

    text = "it is 0, of which there is no ratio"


@dataclass(frozen=True)
class WorkersDiffer(Note):
    """First calls do not compare, since the mode and the baseline compile with different numbers of processes."""

    processes: int
    baseline: str
    baseline_processes: int
    text = "compiled in {processes:g} processes, {baseline} in {baseline_processes:g}"


@dataclass(frozen=True)
class OfBaseline(Note):
    """The baseline has this note, which holds for the speedup over it as well."""

    baseline: str
    note: Note
    text = "{baseline}: {note}"


@dataclass(frozen=True)
class SomeRepeats(Note):
    """Only some repeats have this note."""

    count: int
    of: int
    note: Note
    text = "{count} of {of} repeats: {note}"


@dataclass(frozen=True)
class Unclassified(Note):
    """A sentence of an older record for which there is no code."""

    words: str
    text = "{words}"


def _kinds(of: type[Note]) -> Iterable[type[Note]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


# By name; without the classes that only group others.
CODES = {kind.__name__: kind for kind in _kinds(Note) if kind.text and kind is not Throttled}
# The notes that say that an interval promises too much.
FLAGS = (TwoPeaks, FarOff)


def dump(value):
    """Return notes, in lists or alone, as JSON; plain values as they are."""
    if isinstance(value, Note):
        return value.to_json()
    return [dump(each) for each in value] if isinstance(value, list | tuple) else value


def load(value):
    """Return what `dump` was given; raise ValueError for an object that is no note."""
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
    """Return the first of the notes, or of their JSON, of one of these kinds; None if there is none."""
    for note in notes:
        of = type(note) if isinstance(note, Note) else CODES[note["code"]]
        if issubclass(of, kinds):
            return load(note)
    return None


def say(notes: Iterable) -> str:
    """Return the text of the notes, or of their JSON, in one line for people."""
    return "; ".join(str(load(note)) for note in notes)
