"""What the seed of the tests determines."""

import pytest

import seeds


def test_each_case_is_in_the_sample_of_some_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = set(range(12))
    samples = []
    for seed in range(30):
        monkeypatch.setattr(seeds, "SEED", seed)
        left_out = seeds.two_thirds("name", sorted(cases))
        # Each of the processes that share the tests leaves out the same ones.
        assert seeds.two_thirds("name", sorted(cases)) == left_out
        samples.append(cases - left_out)
    assert {len(sample) for sample in samples} == {4}
    # 30 seeds leave out a given case with a probability of (2 / 3) ** 30, one in 190,000.
    assert set.union(*samples) == cases
    # A test with fewer than three cases keeps one at least.
    assert [len(seeds.two_thirds("name", range(most))) for most in (1, 2, 3)] == [0, 1, 2]
