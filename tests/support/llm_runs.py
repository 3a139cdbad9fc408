"""`evo iterate --operators llm` in a repository of a test, and the transcript that it leaves."""

from __future__ import annotations

from pathlib import Path

from llm_server import KEY, LlmServer
from tiny import Ran, commit_all, evo
from tiny import new_repository as tiny_repository


def iterate(root: Path, server: LlmServer | None, *words: object, iterations: int = 3) -> Ran:
    url = ("--llm-url", server.url, "--llm-model", "test") if server is not None else ()
    common = ("--device", "sim:l4", "--operators", "llm", "--iterations", iterations, "--json", "--llm-retries", 1)
    common += ("--margin", "1%")  # the fast kernel can gain 2 % at most: with 10 % nothing would be asked of it
    return evo("iterate", "scale", *common, *url, *words, cwd=root, env={"EVO_LLM_KEY": KEY} if server else None)


def new_repository(folder: Path) -> Path:
    """The tiny task, whose start has blocks of 128: one element a thread then gains without more blocks to start."""
    root = tiny_repository(folder)
    rung = root / "kernels" / "scale" / "ladder" / "00_slow.cu"
    rung.write_text(rung.read_text().replace("#define THREADS 32", "#define THREADS 128"))
    commit_all(root)
    return root


def transcript(root: Path) -> Path:
    (path,) = (root / "population" / "scale" / "transcripts").iterdir()
    return path
