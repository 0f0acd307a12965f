"""Requests that are made up from the description of all routes: none of them is a fault of the program."""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from dpi.service.tokens import ROLES
from serving import FIRST, MOMENT, SECOND, running

MET = {role: {200, 403, 404, 422} for role in ("admin", "curator", "analyst")} | {
    "auditor": {200, 403, 404},
    None: {200, 401},
}
"""Statuses that requests of each role meet at least: they are not all refused at the door."""
SLOW = bool(os.environ.get("DPI_SLOW"))
EXAMPLES = {"admin": 5, "curator": 3, "analyst": 4}
"""Of each route; 2 of roles that meet fewer handlers, and 300 of all with DPI_SLOW."""


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """The routes of a service that has releases, as it describes them."""
    import schemathesis  # a second, which only the process that has these tests takes

    with running(tmp_path_factory.mktemp("described"), now=MOMENT + 5 * SECOND, patience=5.0) as found:
        assert found.send([("ada", 1.0, "home")], 0).status_code == 200
        found.set(21)
        found.schema = schemathesis.openapi.from_url(f"{found.url}/v1/openapi.json")
        yield found


@pytest.mark.parametrize("role", [*ROLES, None])
def test_no_request_is_a_fault(described, role):
    """Whatever is sent is answered as described: no 5xx, and each answer is of the form that is promised."""
    asked = set()
    for found in described.schema.get_all_operations():
        operation = found.ok()
        if not operation.path.endswith("/follow"):  # it goes on for ever
            headers = {} if role is None else {"authorization": f"Bearer {described.tokens[role]}"}
            ask(operation, headers, asked, 300 if SLOW else EXAMPLES.get(role, 2))
    assert asked >= MET[role]
    assert not any(status >= 500 for status in asked)


def ask(operation, headers, asked, examples):
    """Requests to one route; what it answers is noted."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    promised = (checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance)

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def asking(case):
        if "stream" in (case.path_parameters or {}) and len(str(case.query)) % 2:
            case.path_parameters["stream"] = "visits"
        if "slot" in (case.path_parameters or {}) and len(str(case.query)) % 3:
            case.path_parameters["slot"] = str(FIRST)
        answer = case.call(headers=headers)
        asked.add(answer.status_code)
        case.validate_response(answer, checks=[not_a_server_error, *promised])

    asking()
