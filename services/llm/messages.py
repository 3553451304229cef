"""A request's messages, built from the conversation: pure functions.

Each depends on nothing but the messages, so that a message reads the same in every later request
and the server can keep what it has computed of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from services.answer import EMOTION
from services.language import language_of
from services.llm.moods import mood

#: stands for the output of a function call that has none; the same each time, so that what the
#: server has kept of the conversation holds
NO_OUTPUT = "(no output yet)"


def with_prompt(prompt: str, messages: list[Any]) -> list[dict[str, Any]]:
    """Builds the request's messages: the prompt, then the context with neighbours merged.

    Only plain text messages of the same role are merged, with a newline between: function calls and
    their outputs stay as they are. Answers of which nothing was heard are left out.
    """
    merged: list[dict[str, Any]] = [{"role": "system", "content": prompt}] if prompt else []
    for message in messages:
        last = merged[-1] if merged else None
        plain = isinstance(message.get("content"), str) and set(message) == {"role", "content"}
        if plain and message["role"] == "assistant" and not message["content"].strip():
            continue
        if (
            last is not None
            and plain
            and last["role"] == message["role"]
            and set(last) == {"role", "content"}
            and isinstance(last["content"], str)
        ):
            last["content"] = f"{last['content']}\n{message['content']}"
        else:
            merged.append(dict(message))
    return merged


def with_outputs(messages: list[Any]) -> list[Any]:
    """Answers every function call right behind it: servers refuse a conversation in any other form.

    The outputs of a message's calls follow it, in the order of the calls; of two outputs of one
    call the later holds; a call without one gets `NO_OUTPUT`. Outputs of no call are left out.
    """
    outputs = {
        message.get("tool_call_id"): message for message in messages if message["role"] == "tool"
    }
    result: list[Any] = []
    for message in messages:
        if message["role"] == "tool":
            continue
        result.append(message)
        for call in message.get("tool_calls") or ():
            missing = {"role": "tool", "tool_call_id": call["id"], "content": NO_OUTPUT}
            result.append(outputs.get(call["id"], missing))
    return result


def is_object(text: str) -> bool:
    """Whether a text is the JSON of an object, as a function's arguments are to be."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> None:
    """Refuses NaN and the infinities, which only Python reads."""
    raise ValueError(name)


def with_objects(messages: list[Any]) -> list[Any]:
    """Makes arguments of function calls objects, where a model or a client wrote something else.

    Servers parse them for their templates, and refuse the whole conversation for one that is none:
    a single slip would be the end of it.
    """
    return [
        {**message, "tool_calls": [_with_object(call) for call in message["tool_calls"]]}
        if message.get("tool_calls")
        else message
        for message in messages
    ]


def _with_object(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    if is_object(function["arguments"]):
        return call
    arguments = json.dumps({"not_json": function["arguments"]}, ensure_ascii=False)
    return {**call, "function": {**function, "arguments": arguments}}


def with_notes(
    messages: list[Any],
    prompt_language: str,
    *,
    switches: Mapping[str, str],
    moods: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Adds to each user message how it was said, and that it is in another language than the
    prompt's; what the context notes of it for this is taken out.

    Args:
        messages: of the conversation.
        prompt_language: empty: no language is another.
        switches: what is added to a message in a language.
        moods: see `services.llm.moods.mood`.
    """
    result: list[dict[str, Any]] = []
    for message in messages:
        emotion = message.get(EMOTION, "")
        if EMOTION in message:
            message = {key: value for key, value in message.items() if key != EMOTION}
        text = message.get("content")
        if message.get("role") == "user" and isinstance(text, str):
            notes = [mood(emotion, prompt_language, moods)]
            if prompt_language and (language := language_of(text)) != prompt_language:
                notes.append(switches.get(language, ""))
            message = {**message, "content": "\n".join([text, *filter(None, notes)])}
        result.append(message)
    return result
