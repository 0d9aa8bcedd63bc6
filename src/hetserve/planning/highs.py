"""Linear and mixed-integer programs, solved by HiGHS through its own Python interface.

highspy takes arrays, so a program of 40 types x 100 classes is handed over in a millisecond; PuLP would build it
expression by expression, and SciPy's copy of HiGHS writes to standard output.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import highspy
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GAP: Final = 1e-3
"""Relative gap at which a program counts as solved."""
NODES: Final = 2_000
"""Most nodes of a search for a bound: a limit that no clock decides."""
FEW_NODES: Final = 200
"""The same for an answer that is tried anyway."""
INFINITY: Final = highspy.kHighsInf


class FlowSolverError(Exception):
    """HiGHS gave no answer."""


_JUMP: Final = "mip_heuristic_run_feasibility_jump"


@dataclass(slots=True)
class Model:
    """Columns and rows as they are added; `maximise` or minimise. nodes: of the search, at most."""

    maximise: bool
    nodes: int = NODES
    costs: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integral: list[bool] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[NDArray[np.int64]] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)

    def column(self, cost: float = 0.0, lower: float = 0.0, upper: float = INFINITY, *, integral: bool = False) -> int:
        self.costs.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integral.append(integral)
        return len(self.costs) - 1

    def flows(self, count: int) -> None:
        """Adds columns from 0 on, without a cost."""
        self.costs += [0.0] * count
        self.lower += [0.0] * count
        self.upper += [INFINITY] * count
        self.integral += [False] * count

    def row(self, columns: Iterable[int], values: Iterable[float], least: float, most: float) -> None:
        """Adds least <= sum values x columns <= most."""
        indices, numbers = np.fromiter(columns, np.int64), np.fromiter(values, np.float64)
        self.columns.append(indices)
        self.values.append(numbers)
        self.starts.append(self.starts[-1] + len(indices))
        self.row_lower.append(least)
        self.row_upper.append(most)

    def equations(self, ends: NDArray[np.int64], columns: NDArray[np.int64], values: Floats) -> None:
        """Adds sum values x columns = 0 for each of `ends`: of the columns from the end before it up to its own."""
        self.columns.append(columns)
        self.values.append(values)
        self.starts += (self.starts[-1] + ends).tolist()
        self.row_lower += [0.0] * len(ends)
        self.row_upper += [0.0] * len(ends)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """values: [column]. objective, bound: of the answer, and what no answer can beat. duals: [row], of a linear
    program.
    """

    values: Floats
    objective: float
    bound: float
    duals: Floats


def solve(model: Model, known: float = INFINITY) -> Solved | None:
    """Answer within the gap, or the best one after its most nodes; None: infeasible. Raises FlowSolverError.

    known: what some answer costs; where the bound is above it, the program is solved again in another way.
    """
    highs = loaded(model)
    run(highs)
    found = read(highs, any(model.integral))
    if known < INFINITY and (found is None or found.bound > known * (1 + GAP)):
        highs.clearSolver()
        highs.setOptionValue("presolve", _other_presolve(highs))
        run(highs)
        found = read(highs, any(model.integral))
    return found


def _other_presolve(highs: Any) -> str:
    return "choose" if highs.getOptionValue("presolve")[1] == "off" else "off"


def run(highs: Any) -> None:
    """Solves; an answer that HiGHS cannot place, or gives up, is sought again from nothing, in other ways."""
    highs.run()
    presolve = highs.getOptionValue("presolve")[1]
    for name, other, usual in (("presolve", _other_presolve(highs), presolve), (_JUMP, True, False)):
        if highs.getModelStatus() not in {highspy.HighsModelStatus.kUnknown, highspy.HighsModelStatus.kSolveError}:
            return
        highs.clearSolver()
        highs.setOptionValue(name, other)
        highs.run()
        highs.setOptionValue(name, usual)


def loaded(model: Model) -> Any:
    """A silent, single-threaded HiGHS with this program.

    Of 3,000 integer programs with rows of rare classes, presolving and tolerances of 1e-8 for whole numbers lost the
    optimum of 22; without presolving and with 1e-6, of one, in the same time.
    """
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("mip_rel_gap", GAP),
        ("mip_max_nodes", model.nodes),
        ("presolve", "off" if any(model.integral) else "choose"),
        ("mip_feasibility_tolerance", 1e-6),
        ("primal_feasibility_tolerance", 1e-8),
        # These programs need a dozen nodes: what prepares for thousands takes four fifths of their time.
        (_JUMP, False),
        ("mip_allow_restart", False),
        ("mip_detect_symmetry", False),
        ("mip_heuristic_effort", 0.02),
    ):
        highs.setOptionValue(name, value)
    highs.passModel(_program(model))
    return highs


def read(highs: Any, integral: bool) -> Solved | None:
    """The answer of a HiGHS that ran."""
    status, info = highs.getModelStatus(), highs.getInfo()
    if status in {highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible}:
        return None
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    # An optimum that misses a tolerance by rounding counts: plans are checked exactly.
    if not found and status != highspy.HighsModelStatus.kOptimal:
        raise FlowSolverError(f"HiGHS ended with status {highs.modelStatusToString(status)}")
    solution = highs.getSolution()
    bound = info.mip_dual_bound if integral else info.objective_function_value
    return Solved(np.array(solution.col_value), info.objective_function_value, bound, np.array(solution.row_dual))


def _program(model: Model) -> Any:
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(model.costs), len(model.row_lower)
    program.sense_ = highspy.ObjSense.kMaximize if model.maximise else highspy.ObjSense.kMinimize
    program.col_cost_ = np.array(model.costs)
    program.col_lower_, program.col_upper_ = np.array(model.lower), np.array(model.upper)
    program.row_lower_, program.row_upper_ = np.array(model.row_lower), np.array(model.row_upper)
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_ = np.array(model.starts, dtype=np.int32)
    matrix.index_ = np.concatenate([*model.columns, np.zeros(0, np.int64)]).astype(np.int32)
    matrix.value_ = np.concatenate([*model.values, np.zeros(0)])
    if any(model.integral):
        kinds = {True: highspy.HighsVarType.kInteger, False: highspy.HighsVarType.kContinuous}
        program.integrality_ = [kinds[one] for one in model.integral]
    return program
