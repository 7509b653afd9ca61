"""The program's own source, parsed."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file, without garbage collection meanwhile: in CPython 3.11 one that runs then can upset the parser's count
    of its own depth ("AST constructor recursion depth mismatch").
    """
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()
