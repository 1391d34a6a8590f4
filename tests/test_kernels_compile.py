"""What the Triton kernels compile to, without a GPU: instructions in the PTX, spills, memory.

A child process, in whose workers Triton compiles rather than interprets, builds the cases of the tests that were
selected with the constants that the functions pick, and prints what it found: `echo '[]' | python` this file for all.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Compute capability -> what the kernels ask of a GPU: capability, multiprocessors, shared memory.
GPUS = {90: (9, 132, 232448), 80: (8, 108, 166912), 75: (7, 40, 65536)}

COLUMNS = (*(2**i for i in range(8, 19)), 1000)
SHAPES = {
    "softmax": {f"{n}": [(8192, n)] for n in COLUMNS},
    "layer_norm": {f"{n}": [(16384, n), (n,), (n,)] for n in COLUMNS},
    "matmul": {f"{n}": [(n, n), (n, n)] for n in (512, 1024, 4096)},
    "attention": {f"{d}": [(8, 16, 2048, d)] * 3 for d in (32, 64, 128)},
}
# A size of one becomes a constant of the kernel.
SHAPES["softmax"]["one"] = [(1, 1)]
SHAPES["layer_norm"]["one"] = [(1, 1), (1,), (1,)]
SHAPES["matmul"]["one"] = [(1, 1), (1, 1)]
SHAPES["attention"]["one"] = SHAPES["attention"]["one causal"] = [(1, 1, 1, 16)] * 3
# In each of the three ways: rows in registers, in shared memory, read twice. None is left out.
THREE = {"rows": 4096, "ring": 131072, "twice": 262144}
SHAPES["rms_norm"] = {}
for way, n in THREE.items():
    SHAPES["layer_norm"] |= {
        f"{way}, no weight": [(16384, n), None, (n,)],
        f"{way}, no bias": [(16384, n), (n,), None],
        f"{way}, neither": [(16384, n), None, None],
    }
    SHAPES["rms_norm"] |= {way: [(16384, n), (n,)], f"{way}, no weight": [(16384, n), None]}
SHAPES["softmax"]["odd"] = [(8192, 50257)]
SHAPES["layer_norm"]["odd"] = [(16384, 50257), (50257,), (50257,)]
SHAPES["matmul"]["1000"] = [(1000, 1000), (1000, 1000)]
SHAPES["matmul"]["16 rows"] = [(16, 4096), (4096, 4096)]
SHAPES["softmax"]["vocabulary"] = [(512, 151936)]
SHAPES["matmul"]["shared tiles"] = [(5120, 5120), (5120, 5120)]
SHAPES["matmul"]["three consumers"] = [(3072, 3072), (3072, 3072)]
SHAPES["matmul"]["1280"] = [(1280, 1280), (1280, 1280)]
SHAPES["matmul"]["odd columns"] = [(300, 512), (512, 50257)]
SHAPES["matmul"]["256 deep"] = [(4096, 256), (256, 4096)]
SHAPES["attention"]["64 causal"] = SHAPES["attention"]["64"]
SHAPES["attention"]["128 causal"] = SHAPES["attention"]["128"]
# Numbers of keys for which compute capability 9 has other tiles than for those.
KEYS = (
    "64 of 200",
    "64 of 300",
    "64 of 777",
    "64 of 1024",
    "64 causal of 300",
    "64 causal of 1024",
    "128 causal of 512",
)
SHAPES["attention"] |= {size: [(8, 16, int(size.split()[-1]), int(size.split()[0]))] * 3 for size in KEYS}
SHAPES["attention"]["80"] = [(8, 16, 577, 80)] * 3
SHAPES["attention"]["96 causal"] = [(2, 32, 1500, 96)] * 3
SHAPES["attention"]["256 causal"] = [(4, 8, 2048, 256)] * 3
SHAPES["attention"]["shared heads"] = [(4, 32, 777, 128), (4, 8, 777, 128), (4, 8, 777, 128)]
SHAPES["attention"]["one query"] = [(8, 32, 1, 128), (8, 8, 4097, 128), (8, 8, 4097, 128)]
# Where compute capability 9 has kernels of its own: products of many tiles, of a short K; attention.
HOPPER = (
    *("4096", "shared tiles", "three consumers", "1280", "odd columns", "256 deep", "1000"),
    *("64", "64 causal", "128", "128 causal", "80", "96 causal", "256 causal", "shared heads", *KEYS),
)

# Of these an older GPU and float32 would show nothing new.
LEFT_OUT = {size for size, (_, *affine) in SHAPES["layer_norm"].items() if None in affine} | set(SHAPES["rms_norm"])
ONCE = {*KEYS, *LEFT_OUT, "shared tiles", "three consumers", "1280", "odd columns", "shared heads"}
# bfloat16 compiles as float16 does but for the type's name: every fourth shape will do. An older GPU has none.
CASES = [
    (gpu, op, size, dtype)
    for gpu in GPUS
    for op, sizes in SHAPES.items()
    for place, size in enumerate(sizes)
    for dtype in ("float16", "bfloat16", "float32")
    if (dtype != "bfloat16" or (gpu != 75 and place % 4 == 0))
    and (size not in ONCE or (gpu == 90 and dtype != "float32"))
]


def is_daily(gpu, op, size, dtype):
    """Is it one of those that are not left to night: each shape in a dtype for an H100, half for an older GPU?"""
    place = list(SHAPES[op]).index(size)
    # Where compute capability 9 has a kernel of its own, that one: it is for 16 bits.
    own = gpu == 90 and op in ("matmul", "attention") and size in HOPPER
    there = [d for g, o, s, d in CASES if (g, o, s) == (gpu, op, size) and not (own and d == "float32")]
    return gpu in (90, (80, None, 75, None)[place % 4]) and dtype == there[place // 2 % len(there)]


# Kernels that only copy what another one reads, or join what it made.
BESIDES = ("_copy_kernel", "_join_kernel")
# Bytes of registers spilled by ways that a sweep found faster than the best that spills none.
SPILLED = {"sm_90 layer_norm 65536": 16, "sm_90 layer_norm 131072": 24}  # of 16 bits
# Ways that were tuned with weight, bias and mean, or for heads that are a power of two; else ptxas spills as much.
UNTUNED = {f"sm_90 {op} {size}": 16 for op in ("layer_norm", "rms_norm") for size in SHAPES[op] if size[0] in "rt"}
UNTUNED |= {"sm_90 attention 80 float32": 168, "sm_90 attention 96 causal float32": 136}


def name(gpu, op, size, dtype):
    return f"sm_{gpu} {op} {size} {dtype}"


# In the child process


class Recorder:
    """Stands in for a kernel and keeps what it would have been launched with."""

    def __init__(self, kernel, launches):
        self.kernel, self.launches = kernel, launches

    def __getitem__(self, grid):
        return lambda *args, **options: self.launches.append((self.kernel, args, options))


def launch(gpu, op, size, dtype, patch):
    """The kernel, arguments and options with which `op` would start on that GPU."""
    import torch

    tensors = [s and torch.empty(s, dtype=getattr(torch, dtype), device="meta") for s in SHAPES[op][size]]
    return launch_for(gpu, op, tensors, "causal" in size, patch)


def launch_for(gpu, op, tensors, causal, patch):
    """The same for these tensors of the meta device."""
    import triton

    module = importlib.import_module(f"kernels.{op}")
    launches = []
    for holder in (
        module,
        importlib.import_module("kernels.layer_norm"),
        importlib.import_module("kernels.ring"),
        importlib.import_module("kernels.attention_hopper"),
        importlib.import_module("kernels.matmul_hopper"),
    ):
        for attribute, kernel in list(vars(holder).items()):
            if isinstance(kernel, triton.JITFunction):
                patch.setattr(holder, attribute, Recorder(kernel, launches))
    patch.setattr(module.launch, "limits", lambda _: GPUS[gpu])
    rest = {"layer_norm": (1e-5,), "rms_norm": (None, 1e-5, False), "attention": (causal, None)}.get(op, ())
    module._anew(*tensors, *rest)  # the function itself refuses tensors without a GPU
    (found,) = (each for each in launches if each[0].fn.__name__ not in BESIDES)
    return found


def source(kernel, args):
    """The kernel specialised as a launch would: ones are constants, multiples of 16 are marked."""
    import torch
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    types = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.int64: "i64"}
    signature, constants, marks = {}, {}, {}
    for i, (parameter, value) in enumerate(zip(kernel.params, args, strict=True)):
        special = not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or (special and isinstance(value, int) and value == 1):
            signature[parameter.name] = "constexpr"
            constants[(i,)] = value
            continue
        if isinstance(value, torch.Tensor):
            signature[parameter.name] = f"*{types[value.dtype]}"
        elif hasattr(value, "block_shape"):
            box = f"{types[value.base.dtype]}{value.block_shape}"
            signature[parameter.name] = f"tensordesc<{box},{value.layout!r}>"
            continue
        elif isinstance(value, float):
            signature[parameter.name] = "fp32"
        else:
            signature[parameter.name] = "i32" if value < 2**31 else "i64"
        if special and (isinstance(value, torch.Tensor) or (isinstance(value, int) and value % 16 == 0)):
            marks[(i,)] = [["tt.divisibility", 16]]
    return (GluonASTSource if kernel.is_gluon() else ASTSource)(kernel, signature, constants, marks)


def stack(cubin):
    """Bytes of local memory per thread, which is spilled registers; None if it cannot be read."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    if not tool.exists():
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [tool, "--dump-resource-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(int(size) for size in re.findall(r"(?:STACK|LOCAL):(\d+)", usage))


def serialized(gpu, ptx):
    """Does ptxas say that it makes wgmma instructions wait for each other?"""
    import triton

    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [triton.knobs.nvidia.ptxas.path, "-v", f"--gpu-name=sm_{gpu}a", file.name, "-o", os.devnull]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return "serialized" in log


def build(gpu, op, size, dtype):
    import triton
    from triton.backends.compiler import GPUTarget

    with pytest.MonkeyPatch.context() as patch:
        kernel, args, options = launch(gpu, op, size, dtype, patch)
    target = GPUTarget("cuda", gpu, 32)
    compiled = triton.compile(source(kernel, args), target=target, options=options)
    ptx = compiled.asm["ptx"]
    return {
        "options": options,
        "gluon": kernel.is_gluon(),
        "shared": compiled.metadata.shared,
        "stack": stack(compiled.asm["cubin"]),
        "wgmma": len(re.findall(r"wgmma\.mma_async", ptx)),
        "mma": len(re.findall(r"\bmma\.sync", ptx)),
        "tf32": len(re.findall(r"tf32", ptx)),
        "pointers": len(re.findall(r"\.param \.u64 \.ptr", ptx)),
        "load": len(re.findall(r"ld\.global", ptx)),
        "load16": len(re.findall(r"ld\.global\S*\.v4\.b32", ptx)),
        "kept": len(re.findall(r"ld\.global\.L1::evict_last", ptx)),
        "store": len(re.findall(r"st\.global", ptx)),
        "store16": len(re.findall(r"st\.global\S*\.v4\.b32", ptx)),
        "tma": len(re.findall(r"cp\.async\.bulk\.tensor\S*shared\S*\.global", ptx)),
        "tma store": len(re.findall(r"cp\.async\.bulk\.tensor\S*global\.shared", ptx)),
        "copy": len(re.findall(r"cp\.async\.c[ag]", ptx)),
        "copy16": len(re.findall(r"cp\.async\.cg[^;]*, 0x10\b", ptx)),
        "serialized": "wgmma" in ptx and serialized(gpu, ptx),
    }


# The tests


@pytest.fixture(scope="module")
def built(request, tmp_path_factory):
    pytest.importorskip("triton")
    selected = [item.callspec.params for item in request.session.items if item.module is request.module]
    names = sorted({params["case"] for params in selected})
    cache = str(tmp_path_factory.mktemp("triton"))
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    environment = os.environ | {"PYTHONPATH": path, "TRITON_CACHE_DIR": cache}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, __file__]
    child = subprocess.run(
        command, env=environment, input=json.dumps(names), capture_output=True, text=True, timeout=1200
    )
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def cases(*, gpus=tuple(GPUS), ops=tuple(SHAPES), sizes=None, dtypes=("float16", "bfloat16")):
    chosen = [
        pytest.param(name(gpu, op, size, dtype), marks=() if is_daily(gpu, op, size, dtype) else pytest.mark.nightly)
        for gpu, op, size, dtype in CASES
        if gpu in gpus and op in ops and dtype in dtypes and (sizes is None or size in sizes)
    ]
    return pytest.mark.parametrize("case", chosen)


ALL = ("float16", "bfloat16", "float32")
DOTS = ("matmul", "attention")
ALIGNED = {n for sizes in SHAPES.values() for n in sizes} - {"one", "one causal", "odd", "odd columns"}
MANY_ROWS = {n for sizes in SHAPES.values() for n in sizes} - {"one", "one query", "16 rows"}


@cases(dtypes=ALL)
def test_compiles(built, case):
    assert "error" not in built[case], built[case]["error"]


@cases(gpus=(90,), ops=DOTS, sizes=MANY_ROWS)
def test_hopper_uses_wgmma(built, case):
    assert built[case]["wgmma"] > 0
    assert built[case]["mma"] == 0


@cases(gpus=(90,), ops=DOTS)
def test_wgmma_overlaps_with_other_work(built, case):
    assert not built[case]["serialized"]


@cases(gpus=(80,), ops=DOTS)
def test_ampere_uses_its_tensor_cores(built, case):
    assert built[case]["mma"] > 0


@cases(gpus=(90, 80), ops=DOTS, dtypes=("float32",))
def test_float32_is_ieee(built, case):
    assert built[case]["wgmma"] == built[case]["mma"] == built[case]["tf32"] == 0


@cases(gpus=(90, 80), ops=DOTS, sizes=ALIGNED, dtypes=ALL)
def test_operands_are_copied_to_shared_memory_ahead_in_16_bytes(built, case):
    if built[case]["gluon"]:
        assert built[case]["tma"] > 0 and built[case]["tma store"] > 0 and not built[case]["copy"]
    else:
        assert built[case]["copy"] == built[case]["copy16"] > 0


@cases(gpus=(90,), ops=DOTS, sizes=HOPPER)
def test_hopper_has_kernels_of_its_own(built, case):
    assert built[case]["gluon"]


@cases(gpus=(90,), ops=DOTS, dtypes=("float32",))
def test_float32_is_multiplied_as_everywhere(built, case):
    assert not built[case]["gluon"]


@cases(gpus=(80, 75), ops=DOTS, dtypes=ALL)
def test_other_gpus_take_no_kernel_of_hopper(built, case):
    assert not built[case]["gluon"]


@cases(ops=("softmax", "layer_norm", "rms_norm"), sizes=ALIGNED, dtypes=ALL)
def test_rows_move_16_bytes_at_a_time(built, case):
    found = built[case]
    assert found["load"] + found["copy"] == found["load16"] + found["copy16"] > 0
    assert found["store"] == found["store16"] > 0


@cases(gpus=(90,), ops=("layer_norm", "rms_norm"), dtypes=ALL)
def test_what_is_left_out_is_no_argument(built, case):
    op, size = case.removeprefix("sm_90 ").rsplit(" ", 1)[0].split(" ", 1)
    scratch = 2  # Triton's own
    assert built[case]["pointers"] == sum(shape is not None for shape in SHAPES[op][size]) + 1 + scratch


@cases(gpus=(90,), ops=("softmax", "layer_norm"), sizes={"8192", "16384"}, dtypes=ALL)
def test_caches_are_told_to_keep_what_is_read_of_a_large_input(built, case):
    assert built[case]["kept"] == built[case]["load"] > 0


@cases(gpus=(90,), ops=("softmax", "layer_norm"), sizes={"256", "1000"}, dtypes=ALL)
def test_caches_are_told_nothing_of_a_small_input(built, case):
    assert built[case]["kept"] == 0 < built[case]["load"]


@cases(gpus=(90,), ops=("softmax", "layer_norm"), sizes={"131072", "odd"}, dtypes=("float16",))
def test_wide_rows_wait_in_shared_memory(built, case):
    """Whatever their alignment, copied 16 bytes at a time into much of what there is for up to four programs."""
    found = built[case]
    assert found["copy"] == found["copy16"] > 0
    assert found["store16"] > 0
    assert found["shared"] > 40_000


@cases(gpus=(90,), sizes=ALIGNED, dtypes=ALL)
def test_no_register_is_spilled(built, case):
    if built[case]["stack"] is None:
        pytest.skip("this Triton brings no cuobjdump")
    cell, dtype = case.rsplit(" ", 1)
    tuned = 0 if dtype == "float32" else SPILLED.get(cell, 0)
    assert built[case]["stack"] <= UNTUNED.get(case, UNTUNED.get(cell, tuned))


@cases(dtypes=ALL)
def test_shared_memory_suffices(built, case):
    gpu = int(case.split()[0].removeprefix("sm_"))
    assert built[case]["shared"] <= GPUS[gpu][2]


def built_or_not(case):
    try:
        return name(*case), build(*case)
    except Exception as error:
        return name(*case), {"error": f"{type(error).__name__}: {error}"}


def main():
    names = json.load(sys.stdin)
    wanted = [case for case in CASES if not names or name(*case) in names]
    with ProcessPoolExecutor(min(4, os.cpu_count())) as pool:
        json.dump(dict(pool.map(built_or_not, wanted, chunksize=4)), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
