"""Which processor runs the models, in which number format, and what it is called."""

import os
import platform
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from specviz.i18n import Fault

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NATIVE_BF16 = {"avx512_bf16", "amx_bf16", "bf16"}  # as /proc/cpuinfo spells them; the last is ARM's


@dataclass(frozen=True)
class Placement:
    """Where a model runs: `device` and `dtype` as torch has them, `name` of the processor in words, `threads` on a CPU (0 elsewhere)."""

    device: torch.device
    dtype: torch.dtype
    name: str
    threads: int


def place(device: str | None = None, dtype: str | None = None) -> Placement:
    """Choose by what the machine has, where the caller says nothing: CUDA before MPS before the CPU.

    `device` is "cpu", "cuda", "cuda:1" or "mps"; `dtype` one of DTYPES. Raises Fault for one that is unknown or not there.
    """
    where = _device(device) if device else best_device()
    if dtype is not None and dtype not in DTYPES:
        raise Fault("device.unknown_dtype", dtype=str(dtype)[:40], choices=", ".join(DTYPES))
    threads = usable_cores() if where.type == "cpu" else 0
    return Placement(where, DTYPES[dtype] if dtype else best_dtype(where), device_name(where), threads)


def best_device() -> torch.device:
    """The fastest kind of processor that this machine has."""
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def best_dtype(device: torch.device) -> torch.dtype:
    """Half precision where the processor computes in it natively, single precision elsewhere."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    if device.type == "mps":
        return torch.float16
    return torch.bfloat16 if cpu_has_bf16() else torch.float32


def device_name(device: torch.device) -> str:
    """The processor in words, such as "NVIDIA A100-SXM4-40GB" or "AMD EPYC 7763"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    name = _cpuinfo("model name", "Model") or _sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine()
    return f"{name} (GPU)" if device.type == "mps" else name


def cpu_has_bf16() -> bool:
    """Whether this CPU multiplies bfloat16 matrices in hardware; emulated, it would be slower than float32."""
    flags = set(_cpuinfo("flags", "Features").split())
    if flags:
        return bool(flags & NATIVE_BF16)
    if platform.system() == "Darwin":
        return _sysctl("hw.optional.arm.FEAT_BF16") == "1"
    probe: Callable[[], bool] | None = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(probe and probe())


def usable_cores() -> int:
    """Physical cores that this process may use; OMP_NUM_THREADS overrides. A container's quota counts, which `os.cpu_count` ignores."""
    if os.environ.get("OMP_NUM_THREADS", "").isdecimal():
        return max(1, int(os.environ["OMP_NUM_THREADS"]))
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed, _quota() or allowed))


def free_memory(device: torch.device) -> int:
    """Bytes that a model could take now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return max(0, torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    return psutil.virtual_memory().available


def _device(text: str) -> torch.device:
    kind, _, index = text.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (index and not (kind == "cuda" and index.isdecimal())):
        raise Fault("device.unknown", device=text[:40])
    there = {"cpu": lambda: True, "cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}[kind]()
    if not there or (kind == "cuda" and int(index or 0) >= torch.cuda.device_count()):
        raise Fault("device.unavailable", device=text)
    return torch.device(kind, int(index or 0)) if kind == "cuda" else torch.device(kind)


def _quota() -> int | None:
    """Whole CPUs that a Linux control group grants, where it limits them."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if limit == "max" else max(1, int(limit) // int(period))
    except (OSError, ValueError):
        return None


def _cpuinfo(*names: str) -> str:
    """The first value that /proc/cpuinfo gives one of `names`; "" where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    fields = [line.partition(":") for line in lines]
    return next((value.strip() for field, _, value in fields if field.strip() in names), "")


def _sysctl(name: str) -> str:
    if platform.system() != "Darwin":
        return ""
    return subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False).stdout.strip()
