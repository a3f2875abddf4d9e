"""A pytest plugin that writes one line of JSON for each test into SUITE_RESULTS: its name, outcome and first error."""

import json
import os

import pytest

results = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    found = results.setdefault(item.nodeid, {"outcome": "passed", "error": ""})
    if report.skipped:
        found["outcome"] = "skipped"
    if report.failed:
        found["outcome"] = "failed"
        # The first error of a test counts, not that of its tear-down.
        found["error"] = found["error"] or (f"{call.excinfo.typename}: {call.excinfo.value}" if call.excinfo else "failed")


def pytest_sessionfinish():
    with open(os.environ["SUITE_RESULTS"], "w") as file:
        for test, found in results.items():
            file.write(json.dumps({"test": test, "outcome": found["outcome"], "error": found["error"][:400]}) + "\n")
