from __future__ import annotations

import pytest

from broker_feeds import FEEDS, BrokerFeed, on
from dpi.testing import SOURCE_CHECKS
from dpi.testing._source import SourceCheck


@on(*FEEDS)
@pytest.mark.parametrize("check", SOURCE_CHECKS, ids=lambda check: check.__name__)
def test_every_check_of_a_source_holds(check: SourceCheck, feed: BrokerFeed) -> None:
    """What `dpi.testing.check_source` asks of an input holds for brokers and tables."""
    check(feed)
