"""Brokers and tables, and who follows them, for the tests that name them by `broker_feeds.on`."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from broker_feeds import BrokerFeed
from dpi.testing import Follower


@pytest.fixture
def feed(request: pytest.FixtureRequest) -> Iterator[BrokerFeed]:
    """A broker or a table, empty."""
    feed = request.param()
    yield feed
    feed.close()


@pytest.fixture
def follower(feed: BrokerFeed) -> Iterator[Follower]:
    """A program that follows it."""
    follower = Follower(feed.follow)
    follower.input.start(threading.Event())
    yield follower
    follower.input.close()
