# pyright: strict
"""The response object of the protocol, and why a response ended as it did."""

from __future__ import annotations

from typing import Any

from services.face import Ending, Usage
from services.realtime.session import Session

_STATUS = {"answered": "completed", "interrupted": "cancelled", "failed": "failed"}
_REASON = {"max_tokens": "max_output_tokens", "content_filter": "content_filter"}


def show_response(
    *,
    response_id: str,
    session: Session,
    conversation_id: str | None,
    metadata: dict[str, str] | None,
    status: str,
    details: dict[str, Any] | None,
    output: list[dict[str, Any]],
    usage: Usage | None,
) -> dict[str, Any]:
    """The object.

    Args:
        session: as this answer has it.
        conversation_id: None: the response is out of band.
        output: its items, in their order.
    """
    return {
        "object": "realtime.response",
        "id": response_id,
        "status": status,
        "status_details": details,
        "output": output,
        "conversation_id": conversation_id,
        "output_modalities": [session.modality],
        "max_output_tokens": session.shown_limit,
        "audio": {"output": {"format": session.says.wire(), "voice": session.shown_voice}},
        "usage": _usage(usage) if usage is not None else None,
        "metadata": metadata,
    }


def status_of(ending: Ending, *, by_client: bool) -> tuple[str, dict[str, Any] | None]:
    """Status of a response that is over, and its details.

    Args:
        by_client: an interruption was the client's wish.
    """
    if ending.outcome == "answered":
        if ending.cut is None:
            return "completed", None
        return "incomplete", {"type": "incomplete", "reason": _REASON[ending.cut]}
    status, error = _STATUS[ending.outcome], ending.error
    details: dict[str, Any] = {"type": status}
    if error is not None:
        details["error"] = {"type": "server_error", "code": error.code, "message": str(error)}
    else:
        details["reason"] = "client_cancelled" if by_client else "turn_detected"
    return status, details


def _usage(usage: Usage) -> dict[str, Any]:
    """The language model reads and writes text only."""
    return {
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "input_token_details": {
            "text_tokens": usage.input_tokens,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": usage.cached_tokens,
            "cached_tokens_details": {
                "text_tokens": usage.cached_tokens,
                "audio_tokens": 0,
                "image_tokens": 0,
            },
        },
        "output_token_details": {"text_tokens": usage.output_tokens, "audio_tokens": 0},
    }
