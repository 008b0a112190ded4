"""Why the Hugging Face Hub gave nothing, by what its client says of it.

transformers hides the client's errors behind sentences of its own, which are the same for a Hub that is down, one that
refuses too many requests, and a machine without a network.
"""

from __future__ import annotations

from collections.abc import Iterator

from huggingface_hub import constants, errors, get_session, get_token

from orch_py.worker.protocol import Refused, first_line

_OFFLINE = "it is not in the Hub's cache (HF_HOME), and HF_HUB_OFFLINE is set"
_PROXY = "HTTPS_PROXY names a proxy, and HF_ENDPOINT another Hub"
_LOG_IN = "log in by `hf auth login`, or set HF_TOKEN"
# What stands before a server answers so for one that is down.
_DOWN = (502, 503, 504)
_UNAUTHORISED, _FORBIDDEN, _TOO_MANY, _SERVER = 401, 403, 429, 500
# Seconds within which a Hub that is there has answered.
_PATIENCE = 10.0
# Why the Hub is left alone; None where it is not, or where the user said so.
_unreachable: str | None = None


def leave_alone_if_unreachable() -> None:
    """Takes everything from the cache for the rest of this process, if the Hub does not answer.

    Its client tries each file that may be missing for half a minute, so that a model which is in the cache took
    minutes where the Hub was down.
    """
    global _unreachable
    if constants.HF_HUB_OFFLINE:
        return
    try:
        status = get_session().head(constants.ENDPOINT, timeout=_PATIENCE).status_code
    except Exception as error:  # noqa: BLE001 - the client's transport has errors of its own.
        _unreachable = _not_reached(error)
    else:
        # A mirror may know no such request at its root, which is no sign of anything.
        _unreachable = _out_of_order(status) if status in _DOWN else None
    constants.HF_HUB_OFFLINE = _unreachable is not None


def refusal(error: BaseException, source: str, what: str, revision: str | None = None) -> Refused:
    """Why `source` could not be had: `what`, such as "cannot be loaded", and the Hub's answer.

    What the Hub refuses is an error. What it, the network or the cache does not give today is unavailable; so is what
    the Hub has no part in, by the first line of the error itself.
    """
    causes = list(_causes(error))
    why = next((why for cause in causes if (why := _refused(cause, source, revision)) is not None), None)
    if why is not None:
        return Refused("error", f"`{source}` {what}: {why}")
    why = next((why for cause in causes if (why := _not_given(cause)) is not None), None)
    if why is None and any(isinstance(cause, errors.LocalEntryNotFoundError) for cause in causes):
        why = (_unreachable or _OFFLINE) if constants.HF_HUB_OFFLINE else _not_reached(causes[-1])
    return Refused("unavailable", f"`{source}` {what}: {why or first_line(error)}")


def _refused(cause: BaseException, source: str, revision: str | None) -> str | None:
    if isinstance(cause, errors.GatedRepoError):
        page = f"{constants.ENDPOINT}/{source}"
        if get_token() is None:
            return f"it is gated: ask for access at {page}, and {_LOG_IN}"
        return f"it is gated, and the token that is used has no access: ask for it at {page}"
    if isinstance(cause, errors.RevisionNotFoundError):
        return f"it has no revision `{revision}`" if revision else "it has no such revision"
    if isinstance(cause, errors.RepositoryNotFoundError):
        return f"{_hub()} has no such repository, or it is private: check the id, or {_LOG_IN}"
    if (status := _status(cause)) in (_UNAUTHORISED, _FORBIDDEN):
        return f"{_hub()} refuses the token that is used ({status}): {_LOG_IN}"
    return None


def _not_given(cause: BaseException) -> str | None:
    status = _status(cause)
    if isinstance(cause, errors.OfflineModeIsEnabled):
        return _unreachable or _OFFLINE
    if status == _TOO_MANY:
        return f"{_hub()} takes no more requests for now ({status}): wait, or {_LOG_IN}"
    return None if status is None else _out_of_order(status)


def _not_reached(error: BaseException) -> str:
    return f"{_hub()} cannot be reached ({first_line(error)}); {_PROXY}"


def _out_of_order(status: int) -> str | None:
    return f"{_hub()} is out of order ({status}): try again later" if status >= _SERVER else None


def _status(cause: BaseException) -> int | None:
    status = getattr(getattr(cause, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _hub() -> str:
    """The Hub, by its address where that is another one than usual."""
    return "the Hub" if constants.ENDPOINT == "https://huggingface.co" else f"the Hub at {constants.ENDPOINT}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
