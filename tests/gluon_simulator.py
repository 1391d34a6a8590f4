"""Runs Gluon kernels for Hopper on a CPU, to test what they compute and how their warps wait for each other.

A kernel is its Python functions, with this module's `gl` and the rest in place of Gluon's. Partitions of
a program are threads, of which one runs at a time; at every asynchronous operation chance decides
which one goes on. Asynchronous work is done as early as it may begin or as late as it may end,
whichever shows a missing wait: a copy spoils its buffer when it starts and fills it some time after, a
matrix product reads its operands when it is waited for, and so does a copy out of shared memory. What
is not simulated: layouts, registers, and the warps within a partition.
"""

import importlib.util
import random
import sys
import threading
from types import SimpleNamespace

import pytest
import torch

# Values


class Array:
    """A tensor in registers."""

    def __init__(self, data):
        self.data = data
        self.type = SimpleNamespace(layout=None)
        self.shape = list(data.shape)

    def to(self, dtype):
        return Array(self.data.to(dtype))

    def reshape(self, shape):
        return Array(self.data.reshape(shape))

    def __getitem__(self, index):
        return Array(self.data[index])


def raw(x):
    return x.data if isinstance(x, Array) else x


def lift(function):
    def call(*args, **kwargs):
        out = function(*map(raw, args), **kwargs)
        return Array(out) if isinstance(out, torch.Tensor) else out

    return call


for _name in ["add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "lt", "le", "gt", "ge", "and"]:
    setattr(Array, f"__{_name}__", lift(getattr(torch.Tensor, f"__{_name}__")))


class Memory:
    """A shared memory descriptor: a view of a tensor, or of a list of barriers."""

    def __init__(self, data):
        self.data = data
        self.shape = list(data.shape) if isinstance(data, torch.Tensor) else [len(data), 1]
        self.dtype = getattr(data, "dtype", None)

    def index(self, i):
        assert 0 <= i < self.shape[0], f"index {i} of a buffer of {self.shape}"
        return Memory(self.data[i]) if isinstance(self.data, torch.Tensor) else self.data[i]

    def reshape(self, shape):
        return Memory(self.data.view(shape))

    def permute(self, order):
        return Memory(self.data.permute(order))

    def load(self, layout):
        return Array(self.data.clone())

    def store(self, value):
        assert self.data.dtype == value.data.dtype
        self.data.copy_(value.data)


class Descriptor:
    """A tensor map: what lies outside of the tensor reads as zero and is not written."""

    def __init__(self, base, shape, strides, block_shape, layout):
        assert all(s > 0 and s * base.element_size() % 16 == 0 for s in strides[:-1]) and strides[-1] == 1
        self.base, self.shape, self.strides, self.block_shape, self.layout = base, shape, strides, block_shape, layout

    @property
    def dtype(self):
        return self.base.dtype

    @property
    def block_type(self):
        return SimpleNamespace(nbytes=torch.Size(self.block_shape).numel() * self.base.element_size())

    @property
    def tensor(self):
        return self.base.as_strided(self.shape, self.strides)

    def _box(self, at):
        stops = [min(a + b, n) for a, b, n in zip(at, self.block_shape, self.tensor.shape, strict=True)]
        whole = tuple(slice(a, max(a, stop)) for a, stop in zip(at, stops, strict=True))
        part = tuple(slice(0, max(0, stop - a)) for a, stop in zip(at, stops, strict=True))
        return whole, part

    def read(self, at):
        whole, part = self._box(at)
        out = torch.zeros(self.block_shape, dtype=self.dtype)
        out[part] = self.tensor[whole]
        return out

    def write(self, at, data):
        whole, part = self._box(at)
        self.tensor[whole] = data[part]


# Threads


class Stopped(Exception):
    pass


class Program:
    """The partitions of one program, and the copies that are under way."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.turn = threading.Condition()
        self.ready = {}  # partition -> may it go on?
        self.running = None
        self.copies = []
        self.error = None

    def run(self, partitions):
        threads = [threading.Thread(target=self._run, args=(i, *p)) for i, p in enumerate(partitions)]
        self.ready = {i: lambda: True for i in range(len(threads))}
        # Uneven speeds, so that one falls as far behind as the waits of the others let it.
        self.speed = [self.random.choice([1, 1, 0.01]) for _ in threads]
        for thread in threads:
            thread.start()
        with self.turn:
            self._next()
        for thread in threads:
            thread.join()
        if self.error:
            raise self.error

    def _run(self, i, function, args):
        try:
            local.products, local.stores, local.partition = [], [], i
            self._await_turn(i)
            function(*args)
            assert not local.products, "a matrix product was never waited for"
            assert not local.stores, "a copy out of shared memory was never waited for"
        except Stopped:
            pass
        except BaseException as error:
            self.error = self.error or error
        finally:
            with self.turn:
                del self.ready[i]
                self._next()

    def _await_turn(self, i):
        with self.turn:
            self.turn.wait_for(lambda: self.running == i or self.error)
        if self.error:
            raise Stopped

    def _next(self):
        while not self.error:
            able = [i for i, ready in self.ready.items() if ready()]
            if self.copies and (not able or self.random.random() < 0.3):
                self.copies.pop(self.random.randrange(len(self.copies)))()
                continue
            if not able and self.ready:
                self.error = AssertionError("every partition waits")
            self.running = self.random.choices(able, [self.speed[i] for i in able])[0] if able else None
            break
        self.turn.notify_all()

    def switch(self, ready=lambda: True):
        i = local.partition
        with self.turn:
            self.ready[i] = ready
            self._next()
        self._await_turn(i)


local = threading.local()  # of a partition: its products and stores under way
current = SimpleNamespace(program=None, id=0, number=0, seed=0)


class Barrier:
    def init(self, count):
        self.count, self.left, self.bytes, self.phase = count, count, 0, 0

    def change(self, arrivals=0, size=0):
        self.left -= arrivals
        self.bytes += size
        assert self.left >= 0, "more arrivals than the barrier counts"
        if self.left == 0 and self.bytes == 0:
            self.left, self.phase = self.count, self.phase ^ 1


# Gluon


def _allocate(dtype, shape, layout):
    if dtype == "barriers":
        return Memory([Barrier() for _ in range(shape[0])])
    return Memory(torch.full(shape, torch.nan, dtype=dtype))


def _load(desc, at, barrier, memory):
    memory.data.fill_(torch.nan)

    def finish():
        memory.data.copy_(desc.read(at))
        barrier.change(size=-desc.block_type.nbytes)

    current.program.copies.append(finish)
    current.program.switch()


def _store(desc, at, memory):
    local.stores.append(lambda: desc.write(at, memory.data))
    current.program.switch()


def _store_wait(pending):
    while len(local.stores) > pending:
        local.stores.pop(0)()
    current.program.switch()


def _wait(barrier, phase):
    current.program.switch(lambda: barrier.phase != phase)


def _arrive(barrier, count):
    barrier.change(arrivals=count)
    current.program.switch()


def _expect(barrier, size):
    barrier.change(arrivals=1, size=size)
    current.program.switch()


class Product:
    def __init__(self, a, b, accumulator):
        self.a, self.b, self.accumulator, self.value = a, b, accumulator, None

    def finish(self):
        product = self.a.data.float() @ self.b.data.float()
        self.value = Array(product if self.accumulator is None else self.accumulator.data + product)


def _mma(a, b, accumulator, use_acc=True, is_async=False):
    assert isinstance(b, Memory) and isinstance(a, Memory | Array) and isinstance(accumulator, Array)
    assert a.data.dtype == b.data.dtype != torch.float32
    product = Product(a, b, accumulator if use_acc else None)
    local.products.append(product)
    current.program.switch()
    return product if is_async else _mma_wait(0, [product])


def _mma_wait(pending, deps):
    while len(local.products) > pending:
        local.products.pop(0).finish()
    current.program.switch()
    values = [d.value if isinstance(d, Product) else d for d in deps]
    assert None not in values, "the wait leaves a product under way whose value is used"
    return values[0] if len(values) == 1 else tuple(values)


def _specialize(functions_and_args, warps, registers):
    assert len(functions_and_args) == len(warps) + 1 == len(registers) + 1
    current.program.run(functions_and_args)


def _where(condition, a, b):
    if not isinstance(condition, torch.Tensor):
        return a if condition else b
    return torch.where(condition, a, torch.as_tensor(b, dtype=a.dtype))


def _maximum(a, b):
    return torch.maximum(a, torch.as_tensor(b, dtype=a.dtype)) if isinstance(a, torch.Tensor) else max(a, b)


def _layout(*args):
    return args


class Constant(int):
    value = property(int)


class Kernel:
    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)

    def __getitem__(self, grid):
        """Launch: run the programs one after the other."""

        def run(*args, num_warps=4):
            for program in range(grid[0]):
                current.program, current.id, current.number = Program(current.seed), program, grid[0]
                current.seed += 1
                self.function(*args)
            return self

        return run


def _jit(function=None, **options):
    return Kernel(function) if function else Kernel


gl = SimpleNamespace(
    constexpr=lambda x: Constant(x) if isinstance(x, int) else x,
    tensor=Array,
    shared_memory_descriptor=Memory,
    int64="barriers",
    float16=torch.float16,
    bfloat16=torch.bfloat16,
    float32=torch.float32,
    static_range=range,
    static_assert=lambda condition, message="": None,
    program_id=lambda axis: current.id,
    num_programs=lambda axis: current.number,
    cdiv=lambda a, b: -(-a // b),
    minimum=min,
    maximum=lift(_maximum),
    where=lift(_where),
    exp2=lift(torch.exp2),
    max=lift(lambda x, axis: x.amax(axis)),
    sum=lift(lambda x, axis: x.sum(axis)),
    arange=lambda start, stop, layout: Array(torch.arange(start, stop)),
    zeros=lambda shape, dtype, layout: Array(torch.zeros(shape, dtype=dtype)),
    full=lambda shape, value, dtype, layout: Array(torch.full(shape, value, dtype=dtype)),
    convert_layout=lambda x, layout, assert_trivial=False: x,
    allocate_shared_memory=_allocate,
    warp_specialize=_specialize,
    NVMMASharedLayout=SimpleNamespace(get_default_for=_layout),
    SliceLayout=_layout,
    NVMMADistributedLayout=_layout,
    DotOperandLayout=_layout,
)
mbarrier = SimpleNamespace(
    MBarrierLayout=_layout,
    init=lambda barrier, count: barrier.init(count),
    wait=_wait,
    arrive=_arrive,
    expect=_expect,
)
tma = SimpleNamespace(async_copy_global_to_shared=_load, async_copy_shared_to_global=_store, store_wait=_store_wait)
hopper = SimpleNamespace(
    mbarrier=mbarrier,
    tma=tma,
    fence_async_shared=lambda: None,
    warpgroup_mma=_mma,
    warpgroup_mma_wait=_mma_wait,
)


def load(path):
    """The module at `path` with this simulator in place of Gluon."""
    gluon = SimpleNamespace(jit=_jit, language=gl)
    fakes = {
        "triton.experimental": SimpleNamespace(gluon=gluon),
        "triton.experimental.gluon": gluon,
        "triton.experimental.gluon.language": gl,
        "triton.experimental.gluon.language.nvidia.hopper": hopper,
        "triton.experimental.gluon.nvidia.hopper": SimpleNamespace(TensorDescriptor=Descriptor),
    }
    spec = importlib.util.spec_from_file_location("simulated_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for name, fake in fakes.items():
            patch.setitem(sys.modules, name, fake)
        spec.loader.exec_module(module)
    return module
