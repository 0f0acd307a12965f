"""What every input that grows must do, as a list of small checks to run on one's own.

A `Feed` is what the checks need to know of an input: how something arrives there, and how it is followed. A `Follower`
follows it as a program does that may be stopped at any time.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from dpi.sources.live import Done, LiveInput, Reach
from dpi.testing._checking import require, run_checks

Reached = tuple[Reach, ...]
PATIENCE = 10.0
"""Seconds after which a thread that should wait for nothing is taken to wait."""


class Feed(ABC):
    """An input that the checks can let something arrive at. What it cannot do it leaves undone and says False."""

    resumes: bool = True
    """Whether a later program finds what had arrived; a pipe has no position from which it could be read again."""

    @abstractmethod
    def follow(self, done: Done, known: Reached) -> LiveInput:
        """Begin to follow it, as a program that has stored `done` and noted `known` does."""

    @abstractmethod
    def send(self, users: Sequence[str]) -> None:
        """Let one whole event of each of these users arrive."""

    def send_part(self, user: str, end: bool) -> bool:
        """Let the first half of a user's event arrive, or its rest; False if events come whole."""
        return False

    def begin(self, user: str) -> Callable[[bool], None] | None:
        """Let a user's event be under way, as in an open transaction; None if events cannot be.

        What is returned ends it: with True the event arrives, with False it never does.
        """
        return None

    def cut(self) -> bool:
        """Take away what has arrived: the input begins anew in its place. False if that cannot happen."""
        return False

    def replace(self) -> bool:
        """Put an empty one in its place and keep the old one beside it (rotation). False if that cannot happen."""
        return False


class Follower:
    """Follows an input as a program does that may be stopped at any time: what is stored is in `done`."""

    def __init__(
        self, follow: Callable[[Done, Reached], LiveInput], done: dict[str, int] | None = None, known: Reached = ()
    ) -> None:
        self.done: dict[str, int] = {} if done is None else done
        self.input = follow(self.stored, known)

    def stored(self, producer: str) -> int:
        """Return what is stored of a producer."""
        return self.done.get(producer, -1)

    def upto(self, reached: Reached, blocks: int | None = None) -> list[str]:
        """Return the users before a mark, or in some blocks before it, and store each block with its position."""
        users: list[str] = []
        for number, block in enumerate(self.input.read(reached)):
            if number == blocks:
                break
            require(block.sequence > self.stored(block.producer), "a block repeats what is stored of its producer.")
            self.done[block.producer] = block.sequence
            users.extend(block.events["user"])
        return users

    def new(self) -> list[str]:
        """Return the users of what is there now and was not read yet."""
        return self.upto(self.input.reached())


FreshFeed = Callable[[], Feed]
SourceCheck = Callable[[Feed], None]


def check_source(fresh: FreshFeed) -> None:
    """Run `SOURCE_CHECKS`, each on a feed of its own; raises `AssertionError` that names the check that fails.

    The column that holds ids is called `user`. See `tests/live_files.py` for files and standard input, and
    `tests/broker_feeds.py` for brokers.
    """
    for check in SOURCE_CHECKS:
        run_checks((check,), fresh())


def every_event_is_read_once(feed: Feed) -> None:
    """Check that events are read in the order in which they came, and nothing where nothing is new."""
    follower = _start(feed)
    _expect(follower.new(), [], "something is read of an input at which nothing has arrived.")
    for users in (["ada"], ["bob", "eve", "ada"]):
        feed.send(users)
        _expect(follower.new(), users, "events are lost, repeated or in another order.")
        _expect(follower.new(), [], "an event is read twice.")
    require(not follower.input.lost, "an input calls something lost that was read.")
    follower.input.close()


def an_event_is_read_when_it_is_complete(feed: Feed) -> None:
    """Check that half an event waits for its rest, and belongs where its end lies: to no mark that was made before."""
    follower = _start(feed)
    feed.send(["ada"])
    if feed.send_part("bob", end=False):
        before = follower.input.reached()
        feed.send_part("bob", end=True)
        feed.send(["eve"])
        _expect(follower.upto(before), ["ada"], "a mark takes the end of an event with it that came later.")
        _expect(follower.upto(before), [], "a mark that was reached gives something again.")
        _expect(follower.new(), ["bob", "eve"], "an event that came in two parts is lost.")
    follower.input.close()


def a_mark_bounds_what_is_read(feed: Feed) -> None:
    """Check that each mark gives what had arrived by then, however far behind the reader is."""
    follower, marks = _start(feed), []
    for user in ("ada", "bob", "eve"):
        feed.send([user])
        marks.append(follower.input.reached())
    _expect([user for mark in marks for user in follower.upto(mark)], ["ada", "bob", "eve"], "marks lose events.")
    follower.input.close()


def looking_takes_no_turn_of_reading(feed: Feed) -> None:
    """Check that another thread learns how far the input is while a block is handled: no user's flood delays a mark."""
    follower = _start(feed)
    feed.send(["ada"])
    blocks = follower.input.read(follower.input.reached())
    next(blocks)
    feed.send(["bob"])
    seen: list[Reached] = []
    thread = threading.Thread(target=lambda: seen.append(follower.input.reached()), daemon=True)
    thread.start()
    thread.join(timeout=PATIENCE)
    require(seen, "`reached` waits for a reader.")
    follower.input.close()


def a_reader_resumes_where_it_stopped(feed: Feed) -> None:
    """Check that every event is read once, in its segment, however the input grows and wherever programs restart."""
    if not feed.resumes:
        return
    random = np.random.default_rng(1)
    follower, marks, users = _start(feed), [], list[str]()
    sent: list[str] = []
    for turn in range(24):
        fresh = [f"user-{turn}-{number}" for number in range(int(random.integers(0, 3)))]
        sent += fresh
        feed.send(fresh)
        marks.append((follower.input.reached(), len(sent)))
        if random.random() < 0.4:  # nothing since the last stop is read yet
            follower.input.close()
            follower = Follower(feed.follow, follower.done, marks[-1][0])
            for mark, count in marks:
                users += follower.upto(mark)
                _expect(users, sent[:count], "after a restart events are lost, repeated or in another segment.")
            marks = []
    for mark, _ in marks:
        users += follower.upto(mark)
    _expect(users, sent, "after a restart events are lost or repeated.")
    require(not follower.input.lost, "an input calls something lost that was read.")
    follower.input.close()


def what_was_cut_after_it_was_read_is_not_lost(feed: Feed) -> None:
    """Check that an input that begins anew is read from its start, and that what was read before counts once."""
    follower = _start(feed)
    feed.send(["ada", "bob"])
    _expect(follower.new(), ["ada", "bob"], "events are lost.")
    if feed.cut():
        feed.send(["eve"])
        _expect(follower.new(), ["eve"], "an input that was cut is not read from its start.")
        require(not follower.input.lost, "an input calls something lost that was read before the cut.")
    follower.input.close()


def what_was_cut_away_unread_is_lost_and_stops_nothing(feed: Feed) -> None:
    """Check that a mark out of reach is passed, that the input says so, and that what is new counts once."""
    follower = _start(feed)
    feed.send(["ada", "bob"])
    then = follower.input.reached()
    if feed.cut():
        feed.send(["eve"])
        _expect(follower.upto(then), [], "something is read under a mark whose events were cut away.")
        require(follower.input.lost, "events were cut away unread, and the input does not say so.")
        _expect(follower.new(), ["eve"], "after a cut what is new is lost, or counts twice.")
    follower.input.close()


def what_was_replaced_is_read_to_its_end(feed: Feed) -> None:
    """Check that rotation loses no event: the old input is read up to where it had got, and then the new one."""
    follower = _start(feed)
    feed.send(["ada"])
    marks = [follower.input.reached()]
    for user in ("bob", "eve"):
        if not feed.replace():
            break
        feed.send([user])
        marks.append(follower.input.reached())
    read = [follower.upto(mark) for mark in marks]
    _expect([user for users in read for user in users], ["ada", "bob", "eve"][: len(marks)], "rotation loses events.")
    require(not follower.input.lost, "an input calls something lost that was read after rotation.")
    follower.input.close()


def what_was_replaced_while_nobody_followed_is_found(feed: Feed) -> None:
    """Check that after a restart the old input is read up to where it had been seen, then the new one."""
    follower = _start(feed)
    feed.send(["ada", "bob"])
    then = follower.input.reached()
    if feed.resumes and feed.replace():
        follower.input.close()
        feed.send(["eve"])
        follower = Follower(feed.follow, follower.done, then)
        now = follower.input.reached()
        _expect(follower.upto(then), ["ada", "bob"], "what was replaced during a stop is not found.")
        _expect(follower.upto(now), ["eve"], "after a stop the new input is not read.")
        require(not follower.input.lost, "an input calls something lost that was found.")
    follower.input.close()


def no_user_moves_anothers_events(feed: Feed) -> None:
    """Check that each mark has what others had sent by then, whatever one user sends: long, many, under way or undone.

    So no user drops another's event, nor moves it to an earlier or later mark. A reader may wait for what is under way.
    """
    random, follower = np.random.default_rng(2), _start(feed)
    marks: list[tuple[Reached, list[str]]] = []
    under_way: dict[str, Callable[[bool], None]] = {}
    arrived, own = list[str](), list[str]()
    for turn in range(20):
        slow, others = f"slow-{turn}", [f"before-{turn}", f"after-{turn}"]
        feed.send(others[:1])
        end = feed.begin(slow)
        if end is None:
            feed.send([slow])
            arrived.append(slow)
        else:
            under_way[slow] = end
        many = {7: [f"{slow} again"] * 300, 11: [slow + "x" * 50_000]}.get(turn, [])
        feed.send(many)
        arrived += many
        feed.send(others[1:])
        marks.append((follower.input.reached(), others))
        for user in [user for user in under_way if turn % 5 == 4 or random.random() < 0.4]:
            kept = bool(random.random() < 0.5)
            under_way.pop(user)(kept)
            arrived += [user] * kept
        if under_way:
            continue
        marks.append((follower.input.reached(), []))
        for mark, others in marks:
            read = follower.upto(mark)
            own += [user for user in read if user.startswith("slow")]
            rest = [user for user in read if not user.startswith("slow")]
            _expect(rest, others, "what one user has under way moves or drops another's event.")
        if feed.resumes:
            follower.input.close()
            follower = Follower(feed.follow, follower.done, marks[-1][0])
            _expect(follower.upto(marks[-1][0]), [], "a mark that was stored is read again.")
        marks = []
    _expect(
        sorted(own), sorted(arrived), "an event that was under way is lost or repeated, or one that was undone is read."
    )
    require(not follower.input.lost, "an input calls something lost that was read.")
    follower.input.close()


SOURCE_CHECKS: tuple[SourceCheck, ...] = (
    every_event_is_read_once,
    an_event_is_read_when_it_is_complete,
    a_mark_bounds_what_is_read,
    looking_takes_no_turn_of_reading,
    a_reader_resumes_where_it_stopped,
    what_was_cut_after_it_was_read_is_not_lost,
    what_was_cut_away_unread_is_lost_and_stops_nothing,
    what_was_replaced_is_read_to_its_end,
    what_was_replaced_while_nobody_followed_is_found,
    no_user_moves_anothers_events,
)


def _start(feed: Feed) -> Follower:
    follower = Follower(feed.follow)
    follower.input.start(threading.Event())
    return follower


def _expect(read: list[str], expected: list[str], otherwise: str) -> None:
    """Made-up names may stand in the text."""
    require(read == expected, f"{otherwise} Expected {expected}, read {read}.")
