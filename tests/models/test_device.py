"""Which processor and number format are chosen, and what happens where they are not there."""

import pytest
import torch

from specviz.i18n import Fault
from specviz.models import device


def test_a_plain_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(device, "cpu_has_bf16", lambda: False)
    placed = device.place()
    assert (placed.device, placed.dtype) == (torch.device("cpu"), torch.float32)
    assert placed.name
    assert placed.threads >= 1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("fpu avx2 avx512_bf16", True), ("amx_bf16", True), ("fp asimd bf16", True), ("fpu avx2 avx512f", False)],
)
def test_native_bf16_by_the_flags_of_the_cpu(monkeypatch, flags, expected):
    monkeypatch.setattr(device, "_cpuinfo", lambda *names: flags)
    assert device.cpu_has_bf16() is expected
    assert device.best_dtype(torch.device("cpu")) == (torch.bfloat16 if expected else torch.float32)


def test_apple_and_other_machines_without_cpuinfo(monkeypatch):
    monkeypatch.setattr(device, "_cpuinfo", lambda *names: "")
    monkeypatch.setattr(device.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(device, "_sysctl", lambda name: "1")
    assert device.cpu_has_bf16()
    monkeypatch.setattr(device.platform, "system", lambda: "Windows")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    assert device.cpu_has_bf16()


def test_cuda_comes_first_and_takes_what_it_computes_in(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda where: "Some GPU")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    placed = device.place()
    assert (str(placed.device), placed.dtype, placed.name, placed.threads) == ("cuda:0", torch.bfloat16, "Some GPU", 0)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    assert device.place().dtype == torch.float16


def test_mps_takes_float16(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    placed = device.place()
    assert (placed.device.type, placed.dtype) == ("mps", torch.float16)
    assert "(GPU)" in placed.name


def test_the_caller_decides():
    placed = device.place("cpu", "float16")
    assert (placed.device.type, placed.dtype) == ("cpu", torch.float16)


@pytest.mark.parametrize(
    ("where", "dtype", "sentence"),
    [
        ("tpu", None, "device “tpu” is unknown"),
        ("cpu:1", None, "unknown"),
        ("cuda:x", None, "unknown"),
        ("cuda", None, "has no device “cuda”"),
        ("cpu", "int8", "number format “int8” is unknown"),
    ],
)
def test_what_is_not_there(monkeypatch, where, dtype, sentence):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Fault, match=sentence):
        device.place(where, dtype)


def test_a_gpu_number_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(Fault, match="no device “cuda:1”"):
        device.place("cuda:1")


def test_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(device.os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    monkeypatch.setattr(device.psutil, "cpu_count", lambda logical: 8)
    monkeypatch.setattr(device, "_quota", lambda: None)
    assert device.usable_cores() == 8
    monkeypatch.setattr(device, "_quota", lambda: 2)
    assert device.usable_cores() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert device.usable_cores() == 3


def test_free_memory_of_this_machine():
    assert device.free_memory(torch.device("cpu")) > 0
