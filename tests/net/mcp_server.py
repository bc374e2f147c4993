"""A server made with the MCP SDK, with two tools.

``python mcp_server.py stdio`` speaks over stdio; ``streamable-http`` prints its port.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

server = MCPServer("my docs", version="2.0.0")


@server.tool(title="Search")
def search_docs(query: str) -> str:
    """Finds pages"""
    return query


@server.tool()
def read_page(number: int) -> str:
    """Reads a page"""
    return str(number)


def main(transport: str) -> None:
    """Serve until the end of stdin, or until somebody ends it."""
    if transport == "stdio":
        server.run("stdio")
        return
    anywhere = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # behind a relay
    app = server.streamable_http_app(transport_security=anywhere)
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listening])


if __name__ == "__main__":
    main(sys.argv[1])
