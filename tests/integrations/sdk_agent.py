"""A real agent of a2a-sdk on this machine: its own server, routes and event queues.

What it does hangs on the text that it is sent:

    work ...    a task with an artifact in two parts
    fail ...    a task that fails
    ask ...     a task that needs more input, and completes once it has that
    else        a message that says it back
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from a2a.client.card_resolver import parse_agent_card
from a2a.helpers import new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import Task, TaskState, TaskStatus
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cardsign.urls import CARD_PATH


class Agent(AgentExecutor):
    """The agent itself."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        said = context.get_user_input()
        if context.current_task is not None:
            await self._go_on(said, context.current_task, event_queue)
            return
        if said.partition(" ")[0] not in ("work", "fail", "ask"):
            message = new_text_message(f"you said: {said}", context_id=context.context_id)
            await event_queue.enqueue_event(message)
            return
        assert context.task_id
        assert context.context_id
        submitted = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        task = Task(id=context.task_id, context_id=context.context_id, status=submitted)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        await self._carry_out(said, updater)

    async def _carry_out(self, said: str, updater: TaskUpdater) -> None:
        if said.startswith("work"):
            part = [new_text_part("high water ")]
            await updater.add_artifact(part, artifact_id="a", append=False, last_chunk=False)
            part = [new_text_part("at noon")]
            await updater.add_artifact(part, artifact_id="a", append=True, last_chunk=True)
            await updater.complete()
        elif said.startswith("fail"):
            await updater.failed(updater.new_agent_message([new_text_part("the sea is dry")]))
        elif said.startswith("ask"):
            message = updater.new_agent_message([new_text_part("at which place?")])
            await updater.requires_input(message)

    async def _go_on(self, said: str, task: Task, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([new_text_part(f"noon at {said}")], artifact_id="a")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id
        assert context.context_id
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


@dataclass
class SdkAgent:
    """A server that runs.

    Attributes:
        port: On loopback.
        seen: The ``Authorization`` of each request to the agent itself, or "".
        paths: Of all requests.
    """

    port: int
    seen: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


Document = Callable[[int], bytes]


@contextlib.contextmanager
def sdk_agent(
    make_card: Callable[[int], dict[str, Any]],
    serve_card: Callable[[dict[str, Any]], bytes] = lambda card: json.dumps(card).encode(),
    token: str = "",
    wrap: Callable[[Any, dict[str, Any]], Any] = lambda app, card: app,
) -> Iterator[SdkAgent]:
    """Run an agent of the SDK.

    Args:
        make_card: Its card, by the port.
        serve_card: The card's bytes at the well-known path.
        token: The bearer token that it demands; "" for none.
        wrap: What stands before it, by its application and its card.
    """
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        agent = SdkAgent(listening.getsockname()[1])
        card = make_card(agent.port)
        app = wrap(make_app(card, serve_card(card), agent, token), card)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield agent
        finally:
            server.should_exit = server.force_exit = True
            thread.join(10)
            assert not thread.is_alive()


def make_app(
    card: dict[str, Any], served: bytes, agent: SdkAgent, token: str = "", extended_name: str = ""
) -> Any:
    """The application of an agent; with a name it has an extended card of its own."""
    sdk_card = parse_agent_card(json.loads(json.dumps(card)))
    extended = parse_agent_card(json.loads(json.dumps({**card, "name": extended_name})))
    own = {"extended_agent_card": extended} if extended_name else {}
    handler = DefaultRequestHandler(Agent(), InMemoryTaskStore(), sdk_card, **own)

    async def well_known(request: Request) -> Response:
        return Response(served, media_type="application/json")

    routes = [
        Route(CARD_PATH, well_known),
        *create_jsonrpc_routes(handler, "/a2a", enable_v0_3_compat=True),
        *create_jsonrpc_routes(handler, "/unlisted", enable_v0_3_compat=True),
        *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=True),
    ]
    inner = Starlette(routes=routes)

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        agent.paths.append(path)
        if not path.startswith("/.well-known/"):
            said = dict(scope["headers"]).get(b"authorization", b"").decode()
            agent.seen.append(said)
            if token and said != f"Bearer {token}":
                fields = {"WWW-Authenticate": 'Bearer realm="harbour"'}
                await Response(b"{}", 401, fields)(scope, receive, send)
                return
        await inner(scope, receive, send)

    return guarded
