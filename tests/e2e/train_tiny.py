"""The true training command over a tiny target: SPECVIZ_TINY names its folder, and a minute of the budget has TINY_MINUTE seconds."""

import os

import torch

from specviz import cli
from specviz.models import load as loading
from specviz.training import quick, status


def main() -> None:
    """As `python -m specviz`."""
    torch.set_num_threads(1)
    tiny = loading.load_local(os.environ["SPECVIZ_TINY"], device="cpu", dtype="float32", name="embedded")
    loading.load = lambda *given, **named: tiny
    status.Status.budget = property(lambda run: float(os.environ["TINY_MINUTE"]) * run.minutes)
    quick.LEAST_CONVERSATIONS, quick.LEAST_TOKENS = 2, 50
    cli.main()


if __name__ == "__main__":
    main()
