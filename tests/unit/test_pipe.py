"""The pipe between a run and its reader: bounded, and empty once the reader is gone."""

from __future__ import annotations

import gc
import weakref

from ag_ui.core import BaseEvent, TextMessageContentEvent

from app.pipe import Pipe


def event(text: str) -> BaseEvent:
    return TextMessageContentEvent(message_id="m", delta=text)


async def test_a_reader_gets_what_was_put_until_the_pipe_is_closed() -> None:
    pipe, events = Pipe(10), [event("a"), event("b")]
    for each in events:
        pipe.put(each)
    pipe.close()
    pipe.put(event("late"))

    assert [each async for each in pipe.events()] == events


async def test_a_reader_that_falls_behind_is_cut_off_with_a_last_event() -> None:
    pipe = Pipe(2, if_cut_off=event("cut off"))
    for text in "abcd":
        pipe.put(event(text))

    assert [each async for each in pipe.events()] == [event("a"), event("b"), event("cut off")]


async def test_nothing_is_kept_for_a_reader_that_left() -> None:
    pipe = Pipe(10)
    kept = []
    for text in "ab":
        each = event(text)
        kept.append(weakref.ref(each))
        pipe.put(each)
        del each

    pipe.leave()
    late = event("late")
    kept.append(weakref.ref(late))
    pipe.put(late)
    del late

    gc.collect()
    assert [ref() for ref in kept] == [None, None, None]
