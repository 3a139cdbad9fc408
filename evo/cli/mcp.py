"""`evo mcp`: a Model Context Protocol server on stdin and stdout, with which a coding agent proposes changes."""

from __future__ import annotations

from typing import Annotated

import typer

from evo.cli.options import DEFAULT_ARCH, ArchWord, DeviceWord, choose_device
from evo.cli.session import session_of


def mcp(
    context: typer.Context,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    commit: Annotated[
        bool, typer.Option("--commit", help="Allow `try` to make trials of the loop, with records and commits.")
    ] = False,
) -> int:
    """Serve tasks, champions and `try` to a coding agent, by the Model Context Protocol over stdin and stdout."""
    from evo.cli.mcp_server import ServerOptions, serve

    root = session_of(context).root()
    serve(ServerOptions(root=root, device=choose_device(device), arch=arch, may_commit=commit))
    return 0
