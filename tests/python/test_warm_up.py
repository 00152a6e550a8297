"""Runs that begin warm, against those after 32,000 timed requests: every kind of server."""

import pytest
import warm_up


@pytest.mark.long
@pytest.mark.simulator
@pytest.mark.parametrize("name", warm_up.CASES)
def test_it_measures_what_a_timed_warm_up_leads_to(name: str) -> None:
    case = warm_up.CASES[name]
    reference, prepared = case.run(case.reference()), case.run(case.prepared())
    assert prepared.agrees(reference, case.bias), (str(reference), str(prepared))
