"""A request that was sent at once, and what becomes of it: told to a function, without a coroutine that waits.

send ──► answered ──► told
   └───► forgotten: nothing is told
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from taskqueue.client.connection.exchange import Exchange, R
from taskqueue.protocol.messages import AnyReply, AnyRequest

T = TypeVar("T")


class PostedRequest(Generic[R, T]):
    """An Answer.

    Args:
        exchange: through which it leaves.
        kind: of its reply.
        read: makes of that what is told.
        told: called once, with that or with an error, those that ``read`` raises included.
    """

    def __init__(
        self, exchange: Exchange, kind: type[R], read: Callable[[R], T], told: Callable[[T | Exception], None]
    ) -> None:
        self._exchange = exchange
        self._kind = kind
        self._read = read
        self._told = told
        self._n: int | None = None

    def send(self, request: AnyRequest) -> bool:
        """Send it at once; False: nothing was sent, because it would have to wait.

        Raises:
            MessageTooLarge: see ``taskqueue.errors``.
        """
        self._n = self._exchange.begin(request, self)
        return self._n is not None

    def done(self) -> bool:
        """There is an outcome, or nobody wants one."""
        return self._n is None

    def set_result(self, result: AnyReply) -> None:
        """The reply has come."""
        self.forget()
        checked = self._exchange.checked(result, self._kind)
        if isinstance(checked, Exception):
            self._told(checked)
            return
        try:
            outcome: T | Exception = self._read(checked)
        except Exception as error:  # Of a reply that can't be; whoever has asked gets it.
            outcome = error
        self._told(outcome)

    def set_exception(self, error: Exception) -> None:
        """There will be no reply."""
        self.forget()
        self._told(error)

    def forget(self) -> None:
        """Nobody waits for it any more."""
        if self._n is not None:
            self._exchange.forget(self._n)
            self._n = None
