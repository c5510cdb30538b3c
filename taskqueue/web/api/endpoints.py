"""What answers each operation: decode, ask the daemon, encode; and what answers each address.

request ──► may he? ──► Decoding ──► daemon ──► JSON, and the address of the next page
              └──────────┴────────────┴──────► problem+json
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from taskqueue.errors import TaskQueueError
from taskqueue.web.access.admitted import Admitted
from taskqueue.web.api.answering import answering
from taskqueue.web.api.operation import Operation
from taskqueue.web.api.problems import Problem, problem_of


class Address:
    """All operations at one path."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._admitted: dict[str, Admitted] = {each.method: _admitted(each) for each in operations}

    @property
    def methods(self) -> list[str]:
        """That it knows."""
        heads = ["HEAD"] if "GET" in self._admitted else []
        return [*self._admitted, *heads, "OPTIONS"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        try:
            await self._admitted.get(method, self._answer_other)(scope, receive, send)
        except ClientDisconnect:
            return
        except HTTPException as refused:  # whoever may not ask, or finds no place; nothing has been said yet
            await Problem(refused.status_code, refused.detail, **dict(refused.headers or {})).response()(
                scope, receive, send
            )

    async def _answer_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = ", ".join(self.methods)
        if scope["method"] == "OPTIONS":
            response = Response(status_code=204, headers={"Allow": allowed})
        else:
            response = Problem(405, f"{scope['method']} is not for this address", Allow=allowed).response()
        await response(scope, receive, send)


def _admitted(operation: Operation) -> Admitted:
    """Its endpoint, for those who may ask it."""
    endpoint = (operation.endpoint or answering)(operation)

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (Problem, TaskQueueError, HTTPException) as error:
            if (problem := problem_of(error)) is None:
                raise
            return problem.response()

    return Admitted(answer, operation.role, is_long=operation.is_long)


class AddressRoute(Route):
    """The route to an address, which says itself what is not for it."""

    def __init__(self, path: str, found: Address) -> None:
        super().__init__(path, found, name=path)
        # What another address at the same path knows, such as one that has a name there, is left to that.
        self.methods = set(found.methods)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, whatever the method."""
        await self.app(scope, receive, send)


def routes_of(operations: Iterable[Operation]) -> list[Route]:
    """A route for each path, in the order of the operations."""
    by_path: dict[str, list[Operation]] = {}
    for each in operations:
        by_path.setdefault(each.path, []).append(each)
    routes: list[Route] = []
    for path, there in by_path.items():
        found = Address(there)
        routes.append(AddressRoute(path, found))
    return routes
