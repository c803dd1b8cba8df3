"""What tests of data sets share: nothing of them goes into the user's cache."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
