"""A training command for tests of the page: it keeps a run's folder as the true one does, and trains nothing.

What it does is said by FAKE_TRAINING: "learn" until it is asked to stop, "finish", "fail", "die" without a word.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from specviz.training.status import STOP, sitting


def main() -> None:
    """As `specviz train heads`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pair")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    mode = os.environ.get("FAKE_TRAINING", "learn")
    with sitting(asked.out, asked.pair, asked.minutes) as status:
        print("the fake command speaks", flush=True)
        status.phase = status.at = "corpus"
        status.write(asked.out)
        if mode == "die":
            print("its last words", file=sys.stderr, flush=True)
            os._exit(9)
        if mode == "fail":
            from specviz.i18n import Fault

            raise Fault("training.budget_small", minutes=1, conversations=0, tokens=0)
        status.phase = status.at = "training"
        status.training = {"minutes": 0.5}
        with (asked.out / "log.jsonl").open("a") as log:
            while mode == "learn" and not (asked.out / STOP).exists():
                status.seconds += 0.05
                losses = {"head 1": 5.0, "head 2": 6.0}
                log.write(
                    json.dumps({"step": 1, "done": 0.1, "seconds": status.seconds, "tokens": 10, "losses": losses, "held_out": None}) + "\n"
                )
                log.flush()
                status.write(asked.out)
                time.sleep(0.05)
        status.phase = "done" if mode == "finish" else "stopped"


if __name__ == "__main__":
    main()
