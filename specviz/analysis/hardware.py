"""The roofs of a machine: measured here, or taken from a datasheet and then called assumed.

A roof is the *most* that the machine can do, so the best of many short repeats counts, over several sizes: a short one is not interrupted
on a busy machine, and the best size differs from machine to machine. Were a size left out that the models use, their passes could lie
above the roof. Bandwidth is that of memory: every slice was pushed out of the caches by the rest of a large buffer before it is read
again. What a processor reads from its caches can therefore exceed it; `roofline.fault` says so where it happens.

Measured once (about a second), then kept in the user's cache folder, under processor, number format, threads and torch version.
"""

import contextlib
import hashlib
import heapq
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

import platformdirs
import psutil
import torch
from torch import Tensor

from specviz.trace import Peaks

# Rows × inner × columns of a product: those of small models first, then larger ones. A GPU needs far larger ones to fill it.
CPU_SIZES = ((64, 576, 1536), (256, 576, 1536), (512, 576, 1536), (256, 2048, 2048), (1024, 1024, 1024))
GPU_SIZES = ((1024, 4096, 4096), (4096, 4096, 4096), (8192, 8192, 8192))
CPU_BUFFER, GPU_BUFFER = 2**29, 2**31  # bytes; several times the largest last-level cache
SLICES = (2**22, 2**24, 2**26)  # bytes read at once; longer reads have less overhead, shorter ones fewer interruptions
SECONDS = 0.3  # for the products, and as much for the reads
PATIENCE = 3  # times as long at most, where other programs take the processor
QUIET = 0.85  # of the processor time that the threads could have had


@dataclass(frozen=True)
class _Work:
    """Something to time: `run` does `amount` of FLOPs or bytes."""

    run: Callable[[], object]
    amount: int


def peaks(device: str = "cpu", dtype: str = "float32", refresh: bool = False) -> Peaks:
    """The roofs of this machine: from the cache folder, or measured now where it holds none that can be read.

    `refresh` measures again and keeps the higher of each: a roof is the most that the machine has shown, and it may have been busy.
    """
    device, dtype = str(device), _dtype_name(dtype)
    file = _cache_file(device, dtype)
    known = _read(file, device, dtype)
    if known is not None and not refresh:
        return known
    measured = measure_peaks(device, dtype)
    if known is not None:
        best = {"flops": max(known.flops, measured.flops), "bandwidth": max(known.bandwidth, measured.bandwidth)}
        measured = measured.model_copy(update=best)
    _write(file, measured)
    return measured


@torch.inference_mode()
def measure_peaks(device: str = "cpu", dtype: str = "float32") -> Peaks:
    """Measure matmul FLOP/s at `dtype` and memory read bytes/s, with the threads that torch uses.

    Takes about a second, and a few on a busy machine. There one thread alone may beat several that wait for each other: it is tried too.
    """
    where, kind = torch.device(device), _dtype_name(dtype)
    flops = _roof(where, list(_products(where, getattr(torch, kind))))
    bandwidth = _roof(where, list(_reads(where)))
    return Peaks(device=processor(device), dtype=kind, flops=flops, bandwidth=bandwidth, measured_on=date.today().isoformat())


def _roof(device: torch.device, works: Sequence[_Work]) -> float:
    rate, busy = _best_rate(device, works)
    if busy and torch.get_num_threads() > 1:
        with _threads(1):
            rate = max(rate, _best_rate(device, works[:2])[0])  # the shortest, which fit between two interruptions
    return rate


def processor(device: str) -> str:
    """The name of the processor behind `device`."""
    where = torch.device(device)
    if where.type == "cuda":
        return torch.cuda.get_device_name(where)
    name = _cpu_model() or platform.processor() or platform.machine() or "CPU"
    return name if where.type == "cpu" else f"{name} ({where.type})"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _products(device: torch.device, dtype: torch.dtype) -> Iterator[_Work]:
    sizes = CPU_SIZES if device.type == "cpu" else GPU_SIZES
    room = _free_memory(device) // (4 * dtype.itemsize)  # the models may already fill most of it
    for rows, inner, columns in (size for size in sizes if size == sizes[0] or math.prod(size) // min(size) < room):
        x = torch.randn(rows, inner, device=device).to(dtype)
        weight = torch.randn(columns, inner, device=device).to(dtype)
        yield _Work(partial(torch.nn.functional.linear, x, weight), 2 * rows * inner * columns)


def _reads(device: torch.device) -> Iterator[_Work]:
    whole = CPU_BUFFER if device.type == "cpu" else GPU_BUFFER
    size = max(SLICES[-1], min(whole, _free_memory(device) // 4 // SLICES[-1] * SLICES[-1]))
    buffer = torch.ones(size // 4, device=device)  # fp32: its sum is as fast as memory on every device; ones, as zeros take no memory
    for piece in SLICES if device.type == "cpu" else (size // 4, size):
        yield _Work(_Turn(buffer, piece // 4).read, piece)


class _Turn:
    """Reads one slice after another of a buffer, so that each was pushed out of the caches since it was last read."""

    def __init__(self, buffer: Tensor, length: int):
        self.slices = buffer.split(length)
        self.next = 0

    def read(self) -> Tensor:
        """The sum of the next slice."""
        self.next = (self.next + 1) % len(self.slices)
        return self.slices[self.next].sum()


def _best_rate(device: torch.device, works: Sequence[_Work]) -> tuple[float, bool]:
    """The highest amount a second over all works, repeated until a round was undisturbed or patience ends; and whether none was."""
    clock = _event_clock if device.type == "cuda" else partial(_wall_clock, device)
    best, end = 0.0, time.perf_counter() + PATIENCE * SECONDS
    while best == 0 or time.perf_counter() < end:
        wall, cpu = time.perf_counter(), time.process_time()
        best = max(best, *(work.amount / _fastest(work.run, clock, SECONDS / len(works)) for work in works))
        had = (time.process_time() - cpu) / (time.perf_counter() - wall)
        if device.type != "cpu" or had > QUIET * torch.get_num_threads():
            return best, False
    return best, True


def _fastest(run: Callable[[], object], clock: Callable[[Callable[[], object]], float], seconds: float) -> float:
    """The least time that was reached three times: a single reading may be a hiccup of the clock."""
    run()  # the first call compiles, allocates, fills caches
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        times.append(clock(run))
    return heapq.nsmallest(3, times)[-1]


def _wall_clock(device: torch.device, run: Callable[[], object]) -> float:
    _synchronise(device)
    before = time.perf_counter()
    run()
    _synchronise(device)
    return time.perf_counter() - before


def _event_clock(run: Callable[[], object]) -> float:
    """Seconds on a CUDA device, by its own clock: launching is not counted."""
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    before.record()
    run()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / 1000


def _synchronise(device: torch.device) -> None:
    if device.type == "mps":
        torch.mps.synchronize()


def _free_memory(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _dtype_name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def _cache_file(device: str, dtype: str) -> Path:
    chosen = os.environ.get("SPECVIZ_CACHE")
    folder = Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("specviz", appauthor=False))
    key = "|".join([processor(device), dtype, str(torch.get_num_threads()), torch.__version__])
    return folder / f"peaks-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _read(file: Path, device: str, dtype: str) -> Peaks | None:
    """The peaks in `file`; None where there is no such file, or it is damaged or another machine's."""
    try:
        known = Peaks.model_validate_json(file.read_bytes())
    except (OSError, ValueError):
        return None
    return known if (known.device, known.dtype) == (processor(device), dtype) else None


def _write(file: Path, measured: Peaks) -> None:
    """Keep `measured`; where the folder cannot be written, the next start measures again."""
    part = file.with_suffix(f".{os.getpid()}.part")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(measured.model_dump_json())
        part.replace(file)
