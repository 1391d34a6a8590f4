"""A stand-in for Gluon, which has no interpreter: runs kernels on a CPU, to test what they compute and how they wait.

A kernel is its Python functions, with this module's `gl` and the rest in place of Gluon's. Partitions of a program are
threads, of which one runs at a time; at every asynchronous operation chance decides which one goes on. Asynchronous
work is done as early as it may begin or as late as it may end, whichever shows a missing wait: a copy spoils its buffer
when it starts and fills it some time after, a matrix product reads its operands when it is waited for, and so does a
copy out of shared memory. Global memory is read and written within its bounds, and written only once. What is not
simulated: layouts, registers, fences, and the warps within a partition.
"""

import random
import threading
from types import FunctionType, ModuleType, SimpleNamespace

import torch
from triton.language import constexpr

# Values


class Tensor(torch.Tensor):
    """A tensor in registers: torch's, with what Gluon has besides or has otherwise."""

    @property
    def type(self):
        return SimpleNamespace(layout=None)

    def split(self):
        return self[..., 0], self[..., 1]


class Pointer:
    """Into a flat tensor, of which `spare` elements past the end may be read, too."""

    def __init__(self, memory, spare=0, offset=0):
        self.memory, self.spare, self.offset = memory, spare, offset
        self.dtype = SimpleNamespace(element_ty=memory.dtype)

    def __add__(self, other):
        return Pointer(self.memory, self.spare, self.offset + other)

    def _at(self, mask, spare):
        offset = torch.as_tensor(self.offset)
        mask = torch.ones_like(offset, dtype=torch.bool) if mask is None else mask.expand_as(offset)
        used = offset[mask]
        assert (used >= 0).all() and (used < len(self.memory) + spare).all(), "beside the tensor"
        return offset, mask

    def read(self, mask=None, other=0.0, cache_modifier=""):
        offset, mask = self._at(mask, self.spare)
        padded = torch.cat([self.memory, torch.full((self.spare,), torch.nan, dtype=self.memory.dtype)])
        return padded[offset.where(mask, 0)].where(mask, other).as_subclass(Tensor)

    def write(self, value, mask=None, cache_modifier=""):
        offset, mask = self._at(mask, 0)
        used = offset[mask]
        assert self.memory[used].isnan().all() or not self.memory.is_floating_point(), "written twice"
        self.memory[used] = torch.as_tensor(value).expand_as(offset)[mask].to(self.memory.dtype)


class Memory:
    """A shared memory descriptor: a view of a tensor, or of a list of barriers."""

    def __init__(self, data):
        self.data = data
        self.shape = list(data.shape) if isinstance(data, torch.Tensor) else [len(data), 1]
        self.dtype = getattr(data, "dtype", None)

    def index(self, i):
        assert 0 <= i < self.shape[0], f"index {i} of a buffer of {self.shape}"
        return Memory(self.data[i]) if isinstance(self.data, torch.Tensor) else self.data[i]

    def slice(self, start, length, dim=0):
        return Memory(self.data.narrow(dim, start, length))

    def reshape(self, shape):
        return Memory(self.data.view(shape))

    def permute(self, order):
        return Memory(self.data.permute(order))

    def load(self, layout):
        return self.data.clone().as_subclass(Tensor)

    def store(self, value):
        assert self.data.dtype == value.dtype and self.data.shape == value.shape
        self.data.copy_(value)


class Descriptor:
    """A tensor map: what lies outside of the tensor reads as zero and is not written."""

    def __init__(self, base, shape, strides, block_shape, layout):
        assert all(s > 0 and s * base.element_size() % 16 == 0 for s in strides[:-1]) and strides[-1] == 1
        self.base, self.shape, self.strides, self.block_shape, self.layout = base, shape, strides, block_shape, layout
        self.dtype = base.dtype
        self.block_type = SimpleNamespace(nbytes=torch.Size(block_shape).numel() * base.element_size())
        self.tensor = base.as_strided(shape, strides)

    def _box(self, at):
        assert min(at) >= 0
        stops = [min(a + b, n) for a, b, n in zip(at, self.block_shape, self.shape, strict=True)]
        whole = tuple(slice(a, max(a, stop)) for a, stop in zip(at, stops, strict=True))
        return whole, tuple(slice(0, max(0, stop - a)) for a, stop in zip(at, stops, strict=True))

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
            local.partition = i
            self._await_turn(i)
            run_partition(function, args)
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


local = threading.local()  # of a partition: what of its own is under way
current = SimpleNamespace(program=None, id=0, number=0, seed=0)


def run_partition(function, args):
    local.products, local.stores, local.copies, local.groups = [], [], [], []
    function(*args)
    assert not local.products, "a matrix product was never waited for"
    assert not local.stores, "a copy out of shared memory was never waited for"


class Barrier:
    count = None

    def init(self, count):
        self.count, self.left, self.bytes, self.phase = count, count, 0, 0

    def change(self, arrivals=0, size=0):
        assert self.count, "not initialised"
        self.left -= arrivals
        self.bytes += size
        assert self.left >= 0, "more arrivals than the barrier counts"
        if self.left == 0 and self.bytes == 0:
            self.left, self.phase = self.count, self.phase ^ 1

    def wait(self, phase):
        assert phase in (0, 1)
        current.program.switch(lambda: self.phase != phase)

    def arrive(self, count=1, pred=True):
        self.change(arrivals=count if pred else 0)
        current.program.switch()

    def expect(self, size):
        self.change(arrivals=1, size=size)
        current.program.switch()


# Asynchronous work


def load_by_tma(desc, at, barrier, memory):
    memory.data.fill_(torch.nan)

    def finish():
        memory.data.copy_(desc.read(at))
        barrier.change(size=-desc.block_type.nbytes)

    current.program.copies.append(finish)
    current.program.switch()


def store_by_tma(desc, at, memory):
    local.stores.append(lambda: desc.write(at, memory.data))
    current.program.switch()


def store_wait(pending):
    while len(local.stores) > pending:
        local.stores.pop(0)()
    current.program.switch()


def copy_async(memory, pointer, mask=None):
    memory.data.fill_(torch.nan)
    local.copies.append((memory, pointer.read(mask)))


def commit_group():
    local.groups.append(local.copies)
    local.copies = []


def wait_group(pending):
    while len(local.groups) > pending:
        for memory, value in local.groups.pop(0):
            memory.data.copy_(value)


class Product:
    """A matrix product under way. It may be added to before it is finished, but not used."""

    def __init__(self, a, b, accumulator):
        self.a, self.b, self.accumulator, self.value = a, b, accumulator, None

    def finish(self):
        a, b = (t.data if isinstance(t, Memory) else t for t in (self.a, self.b))
        before = self.accumulator
        before = before.value if isinstance(before, Product) else before
        product = (a.float() @ b.float()).as_subclass(Tensor)
        self.value = product if before is None else before + product


def warpgroup_mma(a, b, accumulator, use_acc=True, is_async=False):
    assert isinstance(b, Memory) and isinstance(a, Memory | Tensor) and isinstance(accumulator, Tensor | Product)
    assert a.dtype == b.dtype != torch.float32 and a.shape[1] == b.shape[0]
    product = Product(a, b, accumulator if use_acc else None)
    local.products.append(product)
    current.program.switch()
    return product if is_async else warpgroup_mma_wait(0, [product])


def warpgroup_mma_wait(pending, deps):
    while len(local.products) > pending:
        local.products.pop(0).finish()
    current.program.switch()
    values = [d.value if isinstance(d, Product) and d.value is not None else d for d in deps]
    return values[0] if len(values) == 1 else tuple(values)


# Gluon


def allocate(dtype, shape, layout):
    if dtype == gl.int64:
        return Memory([Barrier() for _ in range(shape[0])])
    return Memory(torch.full(shape, torch.nan, dtype=dtype))


def specialize(functions_and_args, warps, registers):
    assert len(functions_and_args) == len(warps) + 1 == len(registers) + 1
    current.program.run(functions_and_args)


def where(condition, a, b):
    return torch.where(condition, a, b) if isinstance(condition, torch.Tensor) else (a if condition else b)


def maximum(a, b):
    """As Triton's it passes no NaN on, if one is a number."""
    return torch.fmax(a, torch.as_tensor(b, dtype=a.dtype)) if isinstance(a, torch.Tensor) else max(a, b)


def largest(x, axis):
    return x.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf).amax(axis)


def reduce(values, axis, combine):
    assert axis == 0
    found = [value[0] for value in values]
    for i in range(1, len(values[0])):
        found = combine(*found, *(value[i] for value in values))
    return found


def run_ptx(text, constraints, args, **options):
    """The instructions that the kernels have: a power of two; setting a flag for another program, and awaiting it."""
    (x,) = args
    ready = torch.iinfo(torch.int64).min + 1
    if "st.release" in text:
        x.memory[x.offset] = ready
    elif "ld.acquire" in text:
        assert (x.memory[x.offset] == ready).all(), "awaits a program that starts later"
    else:
        assert text == "ex2.approx.ftz.f32 $0, $1;"
        return torch.exp2(x)


def layout(*args):
    return None


class Constant(int):
    value = property(int)


class Kernel:
    """A function of Gluon's, to be called by others or launched."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        return self.function(*args)

    def __getitem__(self, grid):
        """Launch: run the programs one after the other, in any order; in theirs, if they await each other."""

        def run(*args, **options):
            waiting = any(getattr(a, "shared", False) for a in args)
            args = [Pointer(a.view(-1)) if isinstance(a, torch.Tensor) else a for a in args]
            order = range(grid[0]) if waiting else random.Random(current.seed).sample(range(grid[0]), grid[0])
            for program in order:
                current.program, current.id, current.number = Program(current.seed), program, grid[0]
                current.seed += 1
                run_partition(self.function, args)

        return run


gl = SimpleNamespace(
    int64=torch.int64,
    float16=torch.float16,
    bfloat16=torch.bfloat16,
    float32=torch.float32,
    static_range=range,
    static_assert=lambda condition, message="": None,
    program_id=lambda axis: current.id,
    num_programs=lambda axis: current.number,
    num_warps=lambda: 4,
    constexpr=lambda x: x,
    cast=lambda x, dtype: x,
    cdiv=lambda a, b: -(-a // b),
    minimum=min,
    maximum=maximum,
    where=where,
    exp2=torch.exp2,
    rsqrt=torch.rsqrt,
    div_rn=lambda a, b: a / b,
    inline_asm_elementwise=run_ptx,
    max=largest,
    sum=lambda x, axis: x.sum(axis),
    reduce=reduce,
    arange=lambda start, stop, layout: torch.arange(start, stop).as_subclass(Tensor),
    zeros=lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype).as_subclass(Tensor),
    full=lambda shape, value, dtype, layout=None: torch.full(shape, value, dtype=dtype).as_subclass(Tensor),
    convert_layout=lambda x, layout, assert_trivial=False: x,
    load=Pointer.read,
    store=Pointer.write,
    allocate_shared_memory=allocate,
    warp_specialize=specialize,
    NVMMASharedLayout=SimpleNamespace(get_default_for=layout),
    SwizzledSharedLayout=layout,
    BlockedLayout=layout,
    SliceLayout=layout,
    NVMMADistributedLayout=layout,
    DotOperandLayout=layout,
)
mbarrier = SimpleNamespace(
    MBarrierLayout=layout, init=Barrier.init, wait=Barrier.wait, arrive=Barrier.arrive, expect=Barrier.expect
)
tma = SimpleNamespace(
    async_copy_global_to_shared=load_by_tma, async_copy_shared_to_global=store_by_tma, store_wait=store_wait
)
STANDINS = {
    "gl": gl,
    "tma": tma,
    "mbarrier": mbarrier,
    "async_copy": SimpleNamespace(
        async_copy_global_to_shared=copy_async, commit_group=commit_group, wait_group=wait_group
    ),
    "warpgroup_mma": warpgroup_mma,
    "warpgroup_mma_wait": warpgroup_mma_wait,
    "TensorDescriptor": Descriptor,
    "fence_async_shared": lambda: None,
}


def load(module):
    """A copy of the module whose functions of Gluon's run here."""
    copy = ModuleType(module.__name__)

    def bound(function):
        return FunctionType(function.__code__, vars(copy), function.__name__, function.__defaults__)

    for name, value in vars(module).items():
        if getattr(value, "is_gluon", bool)():
            value = Kernel(bound(value.fn))
        elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
            value = bound(value)
        elif isinstance(value, constexpr):
            value = Constant(value.value) if isinstance(value.value, int) else value.value
        setattr(copy, name, STANDINS.get(name, value))
    return copy
