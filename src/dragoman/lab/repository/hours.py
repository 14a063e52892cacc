"""The scores of an experiment hour by hour: whether the quality of what never ends holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from dragoman.lab.model import EvaluatorSpec, ExperimentId, ScoreSummary
from dragoman.lab.repository.certainty import ANY, interval_of_mean, range_of
from dragoman.lab.repository.fields import Numbers, scores_of, shown_turns
from dragoman.lab.repository.tables import evaluator_record
from dragoman.store import StoreConnection

HOUR_MS = 3_600_000
MAX_HOURS = 31 * 24


class HourOfScores(msgspec.Struct, frozen=True):
    """The scores that were given within an hour, of turns as they stand now."""

    began_at_ms: int
    scores: dict[str, ScoreSummary]


def scores_by_hour(
    connection: StoreConnection,
    experiment_id: ExperimentId,
    evaluators: Sequence[EvaluatorSpec],
    numbers: Numbers,
    since_ms: int,
) -> list[HourOfScores]:
    """Every hour from then on in which a score was given, the earliest first.

    Turns of one item count as if they were drawn apart: an append experiment mostly has one each.
    """
    ranges = {one.name: range_of(one) for one in evaluators}
    shown, record = shown_turns(experiment_id, None), evaluator_record.c
    score = record.score
    # A label: the same expression with two bound values is two expressions to PostgreSQL.
    hour = (record.created_at_ms // sa.literal_column(str(HOUR_MS), sa.BigInteger)).label("hour")
    rows = connection.execute(
        sa.select(
            hour,
            record.name,
            sa.func.count(score).label("number"),
            sa.func.sum(score).label("total"),
            sa.func.sum(score * score).label("squares"),
            sa.func.sum(sa.case((score == 1.0, 1), else_=0)).label("ones"),
            sa.func.sum(sa.case((score == 0.0, 1), else_=0)).label("zeros"),
        )
        .select_from(scores_of(shown, numbers))
        .where(record.created_at_ms >= since_ms, score.is_not(None))
        .group_by(hour, record.name)
        .order_by(hour, record.name)
    )
    hours: dict[int, dict[str, ScoreSummary]] = {}
    for row in rows:
        count, ones = int(row.number), int(row.ones)
        mean = row.total / count
        squares = max(0.0, row.squares - count * mean**2)
        stddev = math.sqrt(squares / (count - 1)) if count > 1 else None
        is_rate = ones + int(row.zeros) == count
        interval = interval_of_mean(
            count,
            mean,
            stddev,
            ones=ones,
            is_rate=is_rate,
            values=None,
            within=ranges.get(row.name, ANY),
        )
        hours.setdefault(int(row.hour), {})[row.name] = ScoreSummary(count, mean, interval)
    return [HourOfScores(hour * HOUR_MS, scores) for hour, scores in hours.items()]
