"""`evo mcp`: a Model Context Protocol server on stdin and stdout, with which a coding agent proposes changes."""

from __future__ import annotations

from typing import Annotated

from typer import Context, Option

from evo.cli.command_context import session_of
from evo.cli.options import DEFAULT_ARCH, ArchWord, DeviceWord, choose_device
from evo.errors import UsageError


def mcp(
    context: Context,
    device: DeviceWord = "auto",
    arch: ArchWord = DEFAULT_ARCH,
    commit: Annotated[
        bool, Option("--commit", help="Allow `try` to make trials of the loop, with records and commits.")
    ] = False,
    rewrites: Annotated[
        int, Option("--rewrites", metavar="N", min=0, help="Maximum number of commits that are rewrites.")
    ] = 3,
) -> int:
    """Serve tasks, champions and `try` to a coding agent, by the Model Context Protocol over stdin and stdout."""
    try:
        from evo.cli.mcp_server import ServerOptions, serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise UsageError("evo mcp needs the mcp package, 2.0 or newer", hint="pip install 'evo-kernels[mcp]'") from None

    options = ServerOptions(
        root=session_of(context).root(), device=choose_device(device), arch=arch, may_commit=commit, rewrites=rewrites
    )
    serve(options)
    return 0
