"""Notes: what one stage tells the next about a job or a row of a table, as a code with fields.

A note says why a job has no times, what speaks against its times, or what a reader of a row should know. Files hold
notes as JSON objects: `{"code": "NearFloor", "floor_us": 4.4, "factor": 10}`. Code that decides by a note asks for its
class and its fields. `str` makes its text, for people alone: no code reads that.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, make_dataclass
from string import Formatter
from typing import Any, ClassVar


class _Text(Formatter):
    """str.format with `!l` for a list ("a, b") and `!o` for alternatives ("a or b")."""

    def convert_field(self, value, conversion):
        joined = {"l": ", ", "o": " or "}.get(conversion)
        return joined.join(map(str, value)) if joined else super().convert_field(value, conversion)


# A part of a template that may be left out, and the field that an unconditional one has in it.
OPTIONAL, FIELD = re.compile(r"\[(?:unless (\w+):)?([^]]*)]"), re.compile(r"\{(\w+)")


@dataclass(frozen=True)
class Note:
    """The name of the class is the code. Its fields fill the template `text`.

    A part of the template in square brackets is left out if its field is empty, or if the field after `unless` is true.
    title: a short name for the column of suspect jobs, for the notes that can stand there.
    """

    text: ClassVar[str] = ""
    title: ClassVar[str] = ""

    def __str__(self) -> str:
        given = self._fields()

        def choose(part: re.Match) -> str:
            left_out = given[part[1]] if part[1] else given[FIELD.search(part[2])[1]] in (None, "")
            return "" if left_out else part[2]

        return _Text().vformat(OPTIONAL.sub(choose, self.text), (), given)

    @property
    def code(self) -> str:
        """The name of this kind of note in files."""
        return type(self).__name__

    def to_json(self) -> dict:
        """Return the note as a JSON object."""
        return {"code": self.code} | {name: dump(value) for name, value in self._fields().items()}

    def _fields(self) -> dict:
        return {field.name: getattr(self, field.name) for field in fields(self)}


# By code; without the classes that only group others.
CODES: dict[str, type[Note]] = {}


def _note(code: str, names: str, text: str, title: str = "", base: type[Note] = Note) -> Any:
    """Return the class of a kind of note, with these names of fields; one that ends with `?` may be left out."""
    own = {"text": text, "title": title, "__module__": __name__}
    fields = [(name[:-1], Any, None) if name.endswith("?") else (name, Any) for name in names.split()]
    CODES[code] = make_dataclass(code, fields, bases=(base,), namespace=own, frozen=True)
    return CODES[code]


# Why a mode cannot run a cell here. `what` is a dtype or a CUDA graph, empty for the mode itself; `install` the command
# that installs a package.
NeedsDevice = _note("NeedsDevice", "what devices device", "[{what} ]needs {devices!o}, this machine is {device}")
NeedsCapability = _note(
    "NeedsCapability", "dtype needed found", "{dtype} needs compute capability {needed}, this GPU has {found}"
)
NotInstalled = _note("NotInstalled", "package install", "{package} is not installed; {install}")
NotImportable = _note("NotImportable", "package error install", "{package} cannot be imported ({error}); {install}")
NoGpuSupport = _note("NoGpuSupport", "package install", "{package} finds no GPU; {install}")
NoProvider = _note("NoProvider", "provider install", "onnxruntime has no {provider} here; {install}")
InferenceOnly = _note(
    "InferenceOnly", "runner what", "{runner} has no {what}: it takes the forward pass out of PyTorch"
)
NoRepeatedBlocks = _note(
    "NoRepeatedBlocks",
    "is_model",
    "it has no repeated blocks to compile[unless is_model:: it is an operation and not a model]",
)
NoKernel = _note("NoKernel", "workload", "there is no Triton kernel for {workload}")
NotInJax = _note("NotInJax", "workload", "there is no {workload} in JAX")
NotInLibrary = _note("NotInLibrary", "library workload", "{library} has no {workload}")
RowsTooWide = _note("RowsTooWide", "library widest", "{library} takes rows of at most {widest} elements")
DtypeNotSupported = _note(
    "DtypeNotSupported", "dtype", "ONNX Runtime binds tensors of float16 and float32, not {dtype}"
)
RuntimeRefused = _note("RuntimeRefused", "runtime error", "{runtime}: {error}")
NotCaptured = _note("NotCaptured", "error", "cannot be captured: {error}")
OwnGraphs = _note("OwnGraphs", "", "the mode replays CUDA graphs of its own")
NothingCompiled = _note("NothingCompiled", "", "torch.compile compiled no graph: all of it ran in eager mode")
PartlyEager = _note(
    "PartlyEager", "eager frames error", "torch.compile left {eager} of {frames} frames to eager mode: {error}"
)
GraphsSkipped = _note("GraphsSkipped", "times", "torch.compile skipped CUDA graphs {times} times")
NoGraphRecorded = _note("NoGraphRecorded", "", "torch.compile recorded no CUDA graph")

# Why a job failed. `where` is a line of the workload's file; `phase` the part of the job that its process ended in,
# None before the first one; `error` of ErrorTooLarge is None where it is not finite, `special` says whether NaN and
# infinities stand where eager's do, and `where` is one of the two notes after it.
Raised = _note("Raised", "error where", "{error}[ ({where})]")
TimeLimit = _note("TimeLimit", "phase seconds", "time limit of {seconds:g} s[ during {phase}]")
Killed = _note("Killed", "phase signal", "killed by {signal}[ during {phase}]")
Exited = _note("Exited", "phase exit_code", "exit code {exit_code}[ during {phase}]")
OutputDiffers = _note("OutputDiffers", "found eager", "output is {found}, eager's is {eager}")
WritesToInput = _note("WritesToInput", "name", "it writes to the input {name}, and eager does not")
ZeroReference = _note("ZeroReference", "", "the reference is zero everywhere: there is nothing to compare with")
ErrorTooLarge = _note(
    "ErrorTooLarge",
    "error limit special where?",
    "relative error {error}, allowed {limit:.3g}[unless special:; NaN or inf in other places than eager's][; {where}]",
)
OffAt = _note("OffAt", "share first", "{share:.2%} of the output differs[, first at output {first}]")
OffWhereZero = _note(
    "OffWhereZero",
    "first slow_path",
    "it differs only where eager's output is zero, first at output {first}"
    "[unless slow_path:: eager takes PyTorch's fast path for transformer encoders, which fills padding with zeros; "
    "torch.backends.mha.set_fastpath_enabled(False) in model() turns it off]",
)
RetryFailed = _note("RetryFailed", "status note", "{status}: {note}")

# What speaks against the times of a job. `ms`: for how long clocks were held back, None where the driver does not say.
NotMonitored = _note("NotMonitored", "", "NVML is missing: nobody watched the GPU", "nobody watched the GPU")
OtherProcesses = _note("OtherProcesses", "count", "other processes on the GPU: {count}", "other processes on the GPU")
Unsettled = _note("Unsettled", "", "its warm-up did not settle")


@dataclass(frozen=True)
class Throttled(Note):
    """The GPU's clocks were held back."""


def _throttled(code: str, title: str) -> Any:
    return _note(code, "ms", f"throttled: {title}[ for {{ms:.1f}} ms]", title, Throttled)


# How much power a mode draws is its own doing; the other causes are the machine's.
PowerCap = _throttled("PowerCap", "power cap")
Heat = _throttled("Heat", "heat")
HardwareSlowdown = _throttled("HardwareSlowdown", "hardware slowdown")
SoftwareThermalSlowdown = _throttled("SoftwareThermalSlowdown", "software thermal slowdown")
HardwareThermalSlowdown = _throttled("HardwareThermalSlowdown", "hardware thermal slowdown")
PowerBrake = _throttled("PowerBrake", "power brake")

# What speaks against a host before any job: too few cores are free; all at once do the work of so few at full speed;
# the share of turns that are taken again; by how much the 95th percentile of launches is above their median.
FewCores = _note("FewCores", "free cores needed", "{free} of {cores} cores are free, and {needed} are needed")
CoresWorthLess = _note("CoresWorthLess", "cores worth", "{cores} cores at once do the work of {worth:.1f}")
TurnsTakenAgain = _note("TurnsTakenAgain", "share", "{share:.0%} of the turns are taken again, as cores are slow")
LaunchesVary = _note("LaunchesVary", "share", "launches vary by {share:.0%}")

# What a reader of a row should know. NearFloor: a device time below `factor` times what a pair of events takes by
# itself, on which no verdict rests; Uncovered: the share of samples that hold the host's time, which do not count;
# TwoPeaks: how many repeats are in each group, and how far the groups are apart; FarOff: repeats that are more than
# `times` their median, or less than it by as much.
NearFloor = _note(
    "NearFloor",
    "floor_us factor",
    "below {factor} times the {floor_us:.3g} µs of a pair of events: see kernels",
)
Uncovered = _note("Uncovered", "share", "the host's work is in {share:.0%} of the samples: see kernels")
ProfileIncomplete = _note("ProfileIncomplete", "", "the profiler lost kernels")
TwoPeaks = _note("TwoPeaks", "lower upper percent", "two peaks: {lower} and {upper} repeats, {percent:.2g} % apart")
FarOff = _note("FarOff", "count of times", "far off: {count} of {of} repeats, more than {times} times their median")
ExactIntervalDisagrees = _note("ExactIntervalDisagrees", "", "the exact interval disagrees")
SizesNotOk = _note("SizesNotOk", "sizes", "not ok at {sizes!l}")
SizesNotMeasured = _note("SizesNotMeasured", "sizes others", "not measured at {sizes!l}: over the other {others} sizes")
OffStream = _note("OffStream", "", "not on PyTorch's stream: it has latency, throughput and first_call")
NotDeterministic = _note("NotDeterministic", "noise", "two eager calls differ by {noise:.2g} of their size")
CompiledInside = _note("CompiledInside", "places", "a part of the model is compiled already: {places!l}")
# That outputs were not compared; why, besides NotDeterministic and ZeroReference.
NotCompared = _note("NotCompared", "note", "its outputs were not compared: {note}")
OtherRandomNumbers = _note("OtherRandomNumbers", "", "it draws other random numbers than eager")
AsFarOff = _note(
    "AsFarOff", "error eager_error", "the output is off by {error:.2g}, but eager itself is off by {eager_error:.2g}"
)
OddPlaces = _note(
    "OddPlaces", "", "NaN or infinities stand elsewhere than eager's do, and eager's elsewhere than float64's"
)
SomeFarOff = _note(
    "SomeFarOff", "most eager where?", "an element is off by {most:.2g}, eager's by {eager:.2g} at most[; {where}]"
)
OneChoiceDiffers = _note("OneChoiceDiffers", "of", "one of {of} choices differs from eager's, and may be a tie")
ZeroValue = _note("ZeroValue", "", "it is 0, of which there is no ratio")
WorkersDiffer = _note(
    "WorkersDiffer",
    "processes baseline baseline_processes",
    "compiled in {processes:g} processes, {baseline} in {baseline_processes:g}",
)
OfBaseline = _note("OfBaseline", "baseline note", "{baseline}: {note}")
SomeRepeats = _note("SomeRepeats", "count of note", "{count} of {of} repeats: {note}")
# A sentence of an older record for which there is no code.
Unclassified = _note("Unclassified", "words", "{words}")

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


def find_of_either(notes: Iterable, *kinds: type[Note]) -> Note | None:
    """Return the first note of these kinds on a row itself or on its baseline, None if there is none."""
    loaded = [load(dump(note)) for note in notes]
    return find([note.note if isinstance(note, OfBaseline) else note for note in loaded], *kinds)


def say(notes: Iterable) -> str:
    """Return the text of the notes, or of their JSON, in one line for people."""
    return "; ".join(str(load(note)) for note in notes)
