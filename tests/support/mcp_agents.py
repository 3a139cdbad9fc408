"""An agent that talks to an `evo mcp` of its own, through the SDK's client over stdio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiny import command, environment

if TYPE_CHECKING:
    from mcp import Client


def session(root: Path, agent: Callable[[Client], Awaitable[None]], *words: str) -> None:
    async def talk() -> None:
        from mcp import Client, StdioServerParameters  # seconds to import, for these tests alone

        started = command("mcp", "--device", "sim:l4", *words)
        parameters = StdioServerParameters(command=started[0], args=started[1:], cwd=str(root), env=environment())
        async with Client(parameters) as client:
            await agent(client)

    asyncio.run(talk())


async def ask(client: Client, name: str, **words: Any) -> dict[str, Any]:
    """What a tool answers; its error comes back as {"error": text}."""
    result = await client.call_tool(name, words)
    if result.is_error:
        return {"error": "".join(getattr(part, "text", "") for part in result.content)}
    assert result.structured_content is not None
    return dict(result.structured_content)
