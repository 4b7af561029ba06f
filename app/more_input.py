"""A tool that ends by asking for more input: what the model is told, since AG-UI carries no such question to a person.

Upstream lets a tool raise `UserInputRequiredException`, lets a middleware answer with a new approval request, and makes
one itself where arguments change after their approval. Through AG-UI each of these leaves a thread that can not go on:
the results of sibling calls are dropped, the answered approval stays open with no card, or the call has no result. So
the call ends here, recorded once and never run again, with its question in words. What the model then calls is a call
of its own: asked for, approved and keyed like any other.
"""

from __future__ import annotations

from agent_framework import Content, MiddlewareTermination
from agent_framework.exceptions import UserInputRequiredException

from app.answers import canonical
from app.upstream import changed_arguments


def question_in(error: BaseException, result: object = None) -> str | None:
    """Return what the model is told of a call that ended with this error; None if it asks for nothing.

    `result` is what a middleware has put there for the call, which counts where it ended the call without another.
    """
    if isinstance(error, UserInputRequiredException):
        asked = [_in_words(each) for each in error.contents if isinstance(each, Content)]
        return _told(" ".join(asked) or "It did not say which.")
    answer = answer_in(error, result)
    if isinstance(answer, Content):
        return _told(_in_words(answer)) if answer.type == "function_approval_request" else None
    changed = changed_arguments(error)
    if changed is None:
        return None
    return (
        f"Error: The arguments were changed to {canonical(changed)} after the approval, so nothing was run. "
        "Call the tool with these to ask for them."
    )


def answer_in(error: BaseException, result: object) -> object:
    """Return the answer with which a middleware ended a call; None if it gave none, or did not end it so.

    As core has it, `result`, what it has put there for the call, counts before what it raised.
    """
    if not isinstance(error, MiddlewareTermination):
        return None
    return result if result is not None else error.result


def _told(question: str) -> str:
    return f"The tool ended by asking for more input: {question} Ask the user, then call what is needed."


def _in_words(content: Content) -> str:
    match content.type:
        case "function_approval_request" if content.function_call is not None:
            call = content.function_call
            arguments = canonical(dict(call.parse_arguments() or {}))
            return f"A person must approve '{call.name}' with {arguments}; call it, and they are asked."
        case "oauth_consent_request":
            return f"The user must consent first: {content.consent_link}"
        case "function_result":
            return str(content.result)
        case _:
            return content.text or f"It sent a request of the kind '{content.type}'."
