from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker_feeds import FEEDS, BrokerFeed
from dpi.testing import SOURCE_CHECKS
from dpi.testing._source import SourceCheck


@pytest.fixture(params=FEEDS, ids=lambda feed: feed.__name__)
def feed(request: pytest.FixtureRequest) -> Iterator[BrokerFeed]:
    """A broker or a table, empty."""
    feed = request.param()
    yield feed
    feed.close()


@pytest.mark.parametrize("check", SOURCE_CHECKS, ids=lambda check: check.__name__)
def test_every_check_of_a_source_holds(check: SourceCheck, feed: BrokerFeed) -> None:
    """What `dpi.testing.check_source` asks of an input holds for brokers and tables."""
    check(feed)
