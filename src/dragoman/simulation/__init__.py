"""The live plane on a virtual clock: capacity planning, and faults found before users find them.

    from dragoman.simulation import FleetGroup, Scenario, Traffic, make_report, simulate

    scenario = Scenario(
        duration_seconds=600,
        fleet=(FleetGroup(nodes=12, slots=4),),
        traffic=(Traffic(sessions=60),),
    )
    report = make_report(scenario, simulate(scenario, seeds=range(5)))
    print(report.metrics["p99"], report.bottleneck)

The scheduler is the one that `dragoman serve` runs. The same seed gives the same figures. `World`
plays one scenario on a virtual loop of yours, together with nodes and clients of your own.
"""

from dragoman.simulation.callers import Speaker
from dragoman.simulation.distributions import (
    Distribution,
    Exponential,
    Fixed,
    Gamma,
    Lognormal,
    Measured,
    Uniform,
    read_distribution,
)
from dragoman.simulation.erlang import erlang_b, erlang_c, mean_wait, servers_for_loss
from dragoman.simulation.example import EXAMPLE
from dragoman.simulation.fault_search import FaultSearch, OnSchedule, Schedule, find_faults
from dragoman.simulation.figures import (
    METRICS,
    UNITS,
    DurationSpread,
    FigureEstimate,
    GroupFigures,
    PairFigures,
    RunFigures,
    WorkFigures,
    estimate,
)
from dragoman.simulation.fleet_nodes import FleetNode
from dragoman.simulation.goals import Clause, Goal, read_goal
from dragoman.simulation.measured import from_metrics, from_results
from dragoman.simulation.observed import observed_scenario
from dragoman.simulation.planning import NoFleetMeetsIt, OnTry, Plan, plan
from dragoman.simulation.recording import GroupUse, RunRecorder
from dragoman.simulation.report import (
    FigureDifference,
    ScenarioComparison,
    SimulationReport,
    compare,
    make_report,
)
from dragoman.simulation.report_page import comparison_page, report_page, row_cells, shown_estimate
from dragoman.simulation.running import OnShare, Runner, cores, simulate, simulate_once
from dragoman.simulation.scenario import (
    Fault,
    FaultKind,
    FleetGroup,
    InputKind,
    Scenario,
    Traffic,
    TrafficKind,
)
from dragoman.simulation.scenario_file import faults_as_toml, parse_scenario, read_scenario
from dragoman.simulation.world import OnProgress, Prepare, World, play

__all__ = [
    "EXAMPLE",
    "METRICS",
    "UNITS",
    "Clause",
    "Distribution",
    "DurationSpread",
    "Exponential",
    "Fault",
    "FaultKind",
    "FaultSearch",
    "FigureDifference",
    "FigureEstimate",
    "Fixed",
    "FleetGroup",
    "FleetNode",
    "Gamma",
    "Goal",
    "GroupFigures",
    "GroupUse",
    "InputKind",
    "Lognormal",
    "Measured",
    "NoFleetMeetsIt",
    "OnProgress",
    "OnSchedule",
    "OnShare",
    "OnTry",
    "PairFigures",
    "Plan",
    "Prepare",
    "RunFigures",
    "RunRecorder",
    "Runner",
    "Scenario",
    "ScenarioComparison",
    "Schedule",
    "SimulationReport",
    "Speaker",
    "Traffic",
    "TrafficKind",
    "Uniform",
    "WorkFigures",
    "World",
    "compare",
    "comparison_page",
    "cores",
    "erlang_b",
    "erlang_c",
    "estimate",
    "faults_as_toml",
    "find_faults",
    "from_metrics",
    "from_results",
    "make_report",
    "mean_wait",
    "observed_scenario",
    "parse_scenario",
    "plan",
    "play",
    "read_distribution",
    "read_goal",
    "read_scenario",
    "report_page",
    "row_cells",
    "servers_for_loss",
    "shown_estimate",
    "simulate",
    "simulate_once",
]
