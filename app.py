"""Starts the page as a Hugging Face Space starts it, and for `python app.py`: everything comes from the environment.

GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where it listens (127.0.0.1:7860), SPECVIZ_PAIR which models are chosen at first.
`python -m specviz serve` does the same with options.
"""

import os
from contextlib import suppress

with suppress(ImportError):
    import spaces  # noqa: F401 (on a Space with a borrowed GPU it must come before everything that may touch the GPU)

from specviz.models.hub import default_name
from specviz.ui.build import serve

if __name__ == "__main__":
    serve(pair=os.environ.get("SPECVIZ_PAIR") or default_name())
