"""Small integer programs, solved by HiGHS or, if it fails, by CBC; answers are checked exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Protocol

import pulp

TOLERANCE: Final = Fraction(1, 1_000_000)
"""Relative amount by which a constraint with fractional coefficients may be missed."""

_TIME_LIMIT = 20.0


class SolverError(Exception):
    """No answer from a solver, or one that breaks a constraint. witness: a known answer that is better than its."""

    def __init__(self, message: str, witness: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.witness = tuple(witness)


@dataclass(frozen=True, slots=True)
class Constraint:
    """least <= sum of coefficients x variables <= most; None: no limit."""

    coefficients: tuple[float, ...]
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class IntegerProgram:
    """Minimise objective x variables over integers 0 <= variable <= upper."""

    objective: tuple[float, ...]
    upper: tuple[int, ...]
    rows: tuple[Constraint, ...] = ()


class Solver(Protocol):
    @property
    def name(self) -> str: ...

    def solve(self, program: IntegerProgram) -> tuple[int, ...] | None:
        """Optimal values, proven; None: infeasible. Raises SolverError."""
        ...


@dataclass(frozen=True, slots=True)
class PulpSolver:
    """A solver behind PuLP. make: creates the stateful solver object."""

    name: str
    make: Callable[[], Any]

    def solve(self, program: IntegerProgram) -> tuple[int, ...] | None:
        problem, variables = _pulp_problem(program)
        try:
            problem.solve(self.make())
        except Exception as error:
            raise SolverError(f"{type(error).__name__}: {error}") from error
        if problem.status == pulp.LpStatusInfeasible:
            return None
        if problem.sol_status != pulp.LpSolutionOptimal:
            raise SolverError(f"no proven optimum ({pulp.LpSolution[problem.sol_status]})")
        values = tuple(round(variable.value() or 0.0) for variable in variables)
        if not accepted(program, values):
            raise SolverError(f"its answer {values} breaks a constraint")
        return values


def _cbc() -> Any:
    bundled = getattr(getattr(pulp, "PULP_CBC_CMD", None), "pulp_cbc_path", None)
    # With `threads`, CBC sometimes waits ten seconds for a thread that has ended.
    return pulp.COIN_CMD(path=bundled, msg=False, gapRel=0.0, timeLimit=_TIME_LIMIT)


HIGHS: Final = PulpSolver("HiGHS", lambda: pulp.HiGHS(msg=False, gapRel=0.0, threads=1, timeLimit=_TIME_LIMIT))
CBC: Final = PulpSolver("CBC", _cbc)
SOLVERS: Final = (HIGHS, CBC)


@dataclass(slots=True)
class Chain:
    """Solvers in order of preference. used: who answered, and earlier failures. unproven: why a witness was taken."""

    solvers: Sequence[Solver] = SOLVERS
    used: str = ""
    unproven: str = ""

    @property
    def proof(self) -> str:
        """Who proves the answers."""
        return f"not proven: {self.unproven}" if self.unproven else f"proven by {self.used}"

    def solve(self, program: IntegerProgram, witness: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """Answer of the first solver that proves one. Raises SolverError.

        witness: feasible values; a worse answer counts as a failure. The witness is taken where nobody does better, as
        with a thousand million instances.
        """
        failures: list[str] = []
        outdone: tuple[int, ...] = ()
        for solver in self.solvers:
            try:
                answer = solver.solve(program)
                _contradicted(program, answer, witness)
            except SolverError as error:
                failures.append(f"{solver.name}: {error}")
                outdone = error.witness or outdone
                continue
            self.used = solver.name + (f" (after {'; '.join(failures)})" if failures else "")
            return answer
        failed = "; ".join(failures or ["none was given"])
        if not outdone:
            raise SolverError(f"no solver answered: {failed}")
        self.unproven = failed
        return outdone


def _contradicted(program: IntegerProgram, answer: Sequence[int] | None, witness: Sequence[int] | None) -> None:
    if witness is None or not accepted(program, witness):
        return
    if answer is None:
        raise SolverError(f"it calls a program infeasible that {tuple(witness)} solves")
    best, known = _value(program, answer), _value(program, witness)
    if best > known + TOLERANCE * abs(known):
        raise SolverError(f"it calls {tuple(answer)} optimal, {tuple(witness)} is better", witness)


def _value(program: IntegerProgram, values: Sequence[int]) -> Fraction:
    return sum((Fraction(c) * v for c, v in zip(program.objective, values, strict=True)), Fraction(0))


def accepted(program: IntegerProgram, values: Sequence[int]) -> bool:
    """Whether integers keep every bound and constraint: those of whole numbers exactly, others within TOLERANCE."""
    if any(not 0 <= value <= upper for value, upper in zip(values, program.upper, strict=True)):
        return False
    return all(_keeps(row, values) for row in program.rows)


def _keeps(row: Constraint, values: Sequence[int]) -> bool:
    used = [(c, v) for c, v in zip(row.coefficients, values, strict=True) if c and v]
    if all(float(c).is_integer() for c in (*row.coefficients, row.least or 0, row.most or 0)):
        # Integers are a hundred times faster than Fractions.
        total, slack = Fraction(sum(int(c) * v for c, v in used)), Fraction(0)
    else:
        total, slack = sum((Fraction(c) * v for c, v in used), Fraction(0)), TOLERANCE
    low = row.least is None or total >= Fraction(row.least) - slack * abs(Fraction(row.least))
    return low and (row.most is None or total <= Fraction(row.most) + slack * abs(Fraction(row.most)))


def _pulp_problem(program: IntegerProgram) -> tuple[Any, list[Any]]:
    problem = pulp.LpProblem("plan", pulp.LpMinimize)
    # PuLP orders variables by name: zero-padded, they keep their order.
    variables = [
        problem.add_variable(f"x{i:04d}", lowBound=0, upBound=upper, cat=pulp.LpInteger)
        for i, upper in enumerate(program.upper)
    ]
    problem += _expression(program.objective, variables)
    for row in map(_reduced, program.rows):
        expression = _expression(row.coefficients, variables)
        if row.least is not None:
            problem += expression >= row.least
        if row.most is not None:
            problem += expression <= row.most
    return problem, variables


def _reduced(row: Constraint) -> Constraint:
    """The same constraint with small numbers: large ones make CBC err."""
    numbers = [abs(c) for c in (*row.coefficients, row.least or 0, row.most or 0)]
    if not all(float(number).is_integer() for number in numbers):
        return row
    divisor = math.gcd(*(int(number) for number in numbers)) or 1
    least, most = (None if limit is None else int(limit) // divisor for limit in (row.least, row.most))
    return Constraint(tuple(int(c) // divisor for c in row.coefficients), least, most)


def _expression(coefficients: Sequence[float], variables: Sequence[Any]) -> Any:
    return pulp.LpAffineExpression({v: c for v, c in zip(variables, coefficients, strict=True) if c})
