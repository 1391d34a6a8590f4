"""A stand-in for Gluon, which has no interpreter: a kernel's own source runs on the CPU, its partitions as threads.

It is as late as the GPU may be, so that a stage or a buffer that is given free too early shows as a wrong result: a
product reads its operands only when it is waited for, and a store reads shared memory only when it is waited for or
at the end. What nothing has written is NaN. A wait that nothing ends fails after some seconds.
"""

import random
import threading
import types
from dataclasses import dataclass

import torch

PATIENCE = 20  # seconds
STATE = threading.local()  # program, programs and, by thread, what is in flight


class Tensor(torch.Tensor):
    """Registers: a torch tensor with the few names that Gluon has and torch has otherwise."""

    @property
    def type(self):
        return types.SimpleNamespace(layout=None)

    def split(self):
        return self[..., 0], self[..., 1]


class InFlight:
    """An accumulator and the products that are not added yet."""

    def __init__(self, value, products):
        self.value, self.products = value, products


class Barrier:
    def __init__(self):
        self.changed = threading.Condition()
        self.count = None

    def init(self, count):
        self.count = self.pending = count
        self.phases = self.bytes = 0

    def change(self, arrivals=0, size=0):
        with self.changed:
            assert self.count, "not initialised"
            self.pending -= arrivals
            self.bytes += size
            assert self.pending >= 0, "more arrivals than expected"
            if self.pending == self.bytes == 0:
                self.phases += 1
                self.pending = self.count
                self.changed.notify_all()

    def wait(self, parity):
        assert parity in (0, 1)
        with self.changed:
            assert self.changed.wait_for(lambda: self.phases % 2 != parity, PATIENCE), "nothing ends this wait"


@dataclass
class Smem:
    data: torch.Tensor

    def index(self, i):
        return self.data[i][0] if isinstance(self.data, list) else Smem(self.data[i])

    def slice(self, start, length, dim=0):
        return Smem(self.data.narrow(dim, start, length))

    def permute(self, order):
        return Smem(self.data.permute(order))

    def store(self, value):
        assert value.shape == self.data.shape and value.dtype == self.data.dtype
        self.data.copy_(value)


@dataclass
class Descriptor:
    base: torch.Tensor
    shape: list
    strides: list
    block_shape: list
    layout: object

    @classmethod
    def of(cls, d):
        return cls(d.base, d.shape, d.strides, d.block_shape, d.layout)

    @property
    def dtype(self):
        return self.base.dtype

    @property
    def block_type(self):
        rows, columns = self.block_shape
        return types.SimpleNamespace(nbytes=rows * columns * self.base.element_size())

    def box(self, at, smem):
        """The part of the matrix, and of shared memory, that the box at a place covers."""
        assert list(smem.data.shape) == list(self.block_shape)
        assert min(at) >= 0
        rows, columns = (min(b, max(0, s - i)) for b, s, i in zip(self.block_shape, self.shape, at, strict=True))
        matrix = torch.as_strided(self.base, self.shape, self.strides)
        return matrix[at[0] : at[0] + rows, at[1] : at[1] + columns], smem.data[:rows, :columns]


@dataclass
class Pointer:
    base: torch.Tensor
    offset: object = 0

    def __add__(self, more):
        return Pointer(self.base, self.offset + more)


def load_by_tma(desc, at, barrier, smem):
    source, target = desc.box(at, smem)
    smem.data.zero_()
    target.copy_(source)
    barrier.change(size=-desc.block_type.nbytes)


def store_by_tma(desc, at, smem):
    def store():
        target, source = desc.box(at, smem)
        target.copy_(source)

    STATE.stores.append(store)


def store_wait(pending):
    while len(STATE.stores) > pending:
        STATE.stores.pop(0)()


def warpgroup_mma(a, b, acc, use_acc, is_async):
    value, products = (acc.value, acc.products) if isinstance(acc, InFlight) else (acc, [])
    assert is_async and a.data.shape[1] == b.data.shape[0]
    return InFlight(value, [*products, (a, b, use_acc)])


def warpgroup_mma_wait(pending, accs):
    (acc,) = accs
    value, products = acc.value, list(acc.products)
    while len(products) > pending:
        a, b, use_acc = products.pop(0)
        product = a.data.float() @ b.data.float()
        value = (value + product if use_acc else product).as_subclass(Tensor)
    return InFlight(value, products) if products else value


def allocate_shared_memory(dtype, shape, layout):
    if dtype == "barrier":
        return Smem([[Barrier()] for _ in range(shape[0])])
    return Smem(torch.full(shape, torch.nan, dtype=dtype))


def atomic_add(pointer, value):
    with LOCK:
        before = pointer.base[pointer.offset].item()
        pointer.base[pointer.offset] += value
    return before


def store(pointer, value, mask=None):
    if mask is None:
        pointer.base[pointer.offset] = value
    else:
        pointer.base[pointer.offset[mask]] = value[mask]


def load(pointer, mask, other, cache_modifier):
    return torch.where(mask, pointer.base[pointer.offset], other).as_subclass(Tensor)


LOCK = threading.Lock()


def thread(state, function, args, errors):
    def run():
        STATE.program, STATE.programs = state
        STATE.stores = []
        try:
            function(*args)
            assert not STATE.stores, "shared memory was left while a store reads it"
        except BaseException as error:
            errors.append(error)

    return threading.Thread(target=run, daemon=True)


def together(functions_and_args, warps, registers):
    assert len(warps) == len(registers) == len(functions_and_args) - 1
    errors = []
    state = STATE.program, STATE.programs
    threads = [thread(state, function, args, errors) for function, args in functions_and_args]
    random.shuffle(threads)
    for t in threads:
        t.start()
    for t in threads:
        t.join(2 * PATIENCE)
    if errors:
        raise errors[0]
    assert not any(t.is_alive() for t in threads)


class Kernel:
    """In place of a kernel: runs its source for every program, in any order."""

    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        def launch(*args, **options):
            args = [Descriptor.of(a) if hasattr(a, "block_shape") else a for a in args]
            args = [Pointer(a) if isinstance(a, torch.Tensor) else a for a in args]
            for program in random.sample(range(grid[0]), grid[0]):
                STATE.program, STATE.programs = program, grid[0]
                self.function(*args)

        return launch


GL = types.SimpleNamespace(
    int64="barrier",
    float32=torch.float32,
    static_range=range,
    minimum=min,
    cdiv=lambda a, b: -(-a // b),
    program_id=lambda axis: STATE.program,
    num_programs=lambda axis: STATE.programs,
    num_warps=lambda: 4,
    NVMMADistributedLayout=lambda *args: None,
    SliceLayout=lambda *args: None,
    zeros=lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype).as_subclass(Tensor),
    arange=lambda start, stop, layout: torch.arange(start, stop),
    allocate_shared_memory=allocate_shared_memory,
    atomic_add=atomic_add,
    load=load,
    store=store,
    warp_specialize=together,
)
TMA = types.SimpleNamespace(
    async_copy_global_to_shared=load_by_tma, async_copy_shared_to_global=store_by_tma, store_wait=store_wait
)
MBARRIER = types.SimpleNamespace(
    MBarrierLayout=lambda: None,
    init=lambda barrier, count: barrier.init(count),
    wait=lambda barrier, parity: barrier.wait(parity),
    expect=lambda barrier, size: barrier.change(arrivals=1, size=size),
    arrive=lambda barrier, pred=True: barrier.change(arrivals=1) if pred else None,
)


def install(patch, module, kernel):
    """Have `module` run its Gluon functions as they are written here, and `kernel` of it on the CPU."""
    names = [name for name, value in vars(module).items() if getattr(value, "is_gluon", bool)()]
    for name in names:
        function = getattr(module, name).fn
        patch.setattr(module, name, Kernel(function) if name == kernel else function)
    for name, value in {
        "gl": types.SimpleNamespace(**vars(GL), NVMMASharedLayout=module.gl.NVMMASharedLayout),
        "tma": TMA,
        "mbarrier": MBARRIER,
        "warpgroup_mma": warpgroup_mma,
        "warpgroup_mma_wait": warpgroup_mma_wait,
        "fence_async_shared": lambda: None,
        "gdc_wait": lambda: None,
        "gdc_launch_dependents": lambda: None,
        "_barrier": lambda: None,
    }.items():
        patch.setattr(module, name, value, raising=False)
