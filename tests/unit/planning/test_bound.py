from __future__ import annotations

import numpy as np
import pytest

from hetserve.planning.kairos.ranking import closed_bounds
from testing.kairos_bound import base_rate_for_large, closed_bound, paper_bound

# u, Q_b, A, f, t -> bound, each worked out by hand.
CASES = {
    "no auxiliary: the base alone": (2, 10.0, 0.0, 0.5, 0.2, 20.0),
    "f = 0, an auxiliary that serves nothing: the base alone": (2, 10.0, 50.0, 0.0, 0.0, 20.0),
    "f = 1, the auxiliary serves everything: the rates add up": (2, 10.0, 5.0, 1.0, 1.0, 25.0),
    # Q_b^{s+} = 10 x 0.5 / 0.8 = 6.25; C = 4: slack (6.25 - 4) / 6.25 of 10, and 4 / 0.5.
    "the auxiliary is the bottleneck (Eq. 11)": (1, 10.0, 4.0, 0.5, 0.2, 11.6),
    # C = 20 > 6.25: 6.25 / 0.5.
    "the base is the bottleneck (Eq. 9)": (1, 10.0, 20.0, 0.5, 0.2, 12.5),
    "where both cases meet (C = Q_b^{s+})": (1, 10.0, 6.25, 0.5, 0.2, 12.5),
    "large queries take the base no time (t = 1, f < 1): no plateau": (1, 10.0, 4.0, 0.5, 1.0, 18.0),
    "small queries take the base no time (t = 0): auxiliaries relieve it of nothing": (1, 10.0, 4.0, 0.5, 0.0, 10.0),
}


@pytest.mark.parametrize("case", CASES)
def test_printed_closed_and_vectorised_bound(case: str) -> None:
    u, q_base, aux_rate, f, t, expected = CASES[case]
    assert closed_bound(u, q_base, aux_rate, f, t) == pytest.approx(expected)
    assert paper_bound(u, q_base, base_rate_for_large(q_base, f, t), aux_rate, f) == pytest.approx(expected)
    arrays = (np.array([float(value)]) for value in (u, aux_rate, f, t))
    many, aux, share, time = arrays
    assert closed_bounds(many, q_base, aux, share, time)[0] == pytest.approx(expected)


def test_f_rounded_to_one_keeps_the_plateau_in_the_closed_form() -> None:
    # The printed form would divide by 1 - f, or add the rates up without end.
    assert closed_bound(1, 10.0, 1e6, 1.0, 0.75) == pytest.approx(40.0)


def test_vectorised_bounds_of_mixed_edges_raise_no_floating_point_warning() -> None:
    f, t = np.array([0.0, 0.0, 1.0, 0.5]), np.array([0.0, 0.0, 1.0, 0.2])
    with np.errstate(all="raise"):
        bounds = closed_bounds(np.ones(4), 10.0, np.array([0.0, 5.0, 5.0, 5.0]), f, t)
    assert bounds.tolist() == [10.0, 10.0, 15.0, 12.0]
