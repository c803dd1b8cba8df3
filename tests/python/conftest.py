"""Settings that every test of the Python package shares."""

import pytest

import gt


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "heavy: slow or sensitive to load; deselected by default")
    config.addinivalue_line("markers", "timeout: seconds after which a test fails (pytest-timeout)")
    # Both sides warn about the variance of one element; the tests ask for it on purpose.
    config.addinivalue_line("filterwarnings", "ignore:.*[Dd]egrees of freedom")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test has a timeout, so that a lost reply is a failure and not a hang."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(60))


@pytest.fixture(autouse=True)
def seeded() -> None:
    gt.manual_seed(0)
