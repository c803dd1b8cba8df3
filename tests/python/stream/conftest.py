"""What the tests of servers, workers and clients share."""

from collections.abc import Iterator

import pytest
from cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Processes that end with the test."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """The same for tests of one file that leave their server as they found it."""
    with Cluster() as cluster:
        yield cluster
