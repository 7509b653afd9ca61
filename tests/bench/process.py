"""A process of its own: how long a second start takes, and how much memory the embedded pair needs at most."""

import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

SCRIPT = """
import json, resource, sys, time
from pathlib import Path
import specviz
pair = specviz.load("embedded")
next(specviz.decode(pair, "What is the capital of France?", max_new_tokens=8))
first = time.time()
for method in ("plain", "ngram", "draft", "medusa"):
    specviz.run(pair, "What is the capital of France?", method=method, max_new_tokens=64, baseline=False)
status = Path("/proc/self/status")  # where there is one: ru_maxrss of Linux also counts the process that started this one
lines = status.read_text().splitlines() if status.exists() else []
kib = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) if kib is None else kib * 1024
print(json.dumps({"first": first, "peak": peak}))
"""


def measure(repeats: int) -> list[dict[str, Any]]:
    """Median seconds from the start of a process to its first token, the model being in the cache folder; peak memory after 64 tokens."""
    found = [_once() for _ in range(repeats + 1)][1:]  # the first start of a day reads the disk
    return [{"first_token_s": median(seconds for seconds, _ in found), "peak_gb": max(peak for _, peak in found)}]


def _once() -> tuple[float, float]:
    before = time.time()
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout.splitlines()[-1])
    return said["first"] - before, said["peak"] / 1e9
