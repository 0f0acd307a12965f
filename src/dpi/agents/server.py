"""The Model Context Protocol over standard input and output: the tools, as an agent's host calls them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import getdoc
from typing import TYPE_CHECKING

from dpi._version import __version__, how_to_install
from dpi.agents.tools import FREE, INTERVALS, Document, Tools
from dpi.errors import OptionError, StateError, StoreError

if TYPE_CHECKING:
    from mcp.server import MCPServer


def make_server(tools: Tools) -> MCPServer[object]:
    """Return a server with these tools."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    except ImportError:
        raise OptionError(f"a server for agents needs mcp: {how_to_install('mcp')}.") from None

    def told(tool: Callable[..., Document]) -> Callable[..., object]:
        """Have a tool say in a sentence what is wrong with a call. It runs in the thread that opened the store."""

        @wraps(tool)
        async def call(**given: object) -> Document:
            try:
                return tool(**given)
            except (OptionError, StateError, StoreError) as error:
                raise ToolError(str(error)) from None

        return call

    server: MCPServer[object] = MCPServer(
        "dpi",
        title="Private statistics of a stream",
        instructions=f"{FREE} {INTERVALS} Begin with `streams`.",
        version=__version__,
        log_level="ERROR",
    )
    for tool in tools.all():
        same = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
        server.add_tool(told(tool), name=tool.__name__, description=getdoc(tool), annotations=same)
    return server
