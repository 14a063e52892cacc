"""How sure the lab's numbers are: intervals, paired tests, agreement.

Pure functions over numpy arrays. Randomness is passed in, so that the same rows give the same
interval. Needs the extra ``lab``.
"""

from dragoman.lab.statistics.agreement import cohen_kappa, correlation, krippendorff_alpha
from dragoman.lab.statistics.intervals import (
    Interval,
    clustered_mean_interval,
    clustered_rate_interval,
    corpus_interval,
    corpus_slopes,
    delta_corpus_interval,
    mean_interval,
    normal_mean_interval,
    percentile_interval,
    percentile_ranks,
    rate_interval,
    score_interval,
    unit_mean_interval,
)
from dragoman.lab.statistics.paired_tests import (
    ALPHA,
    Difference,
    Verdict,
    compare_corpora,
    compare_means,
    holm,
    items_needed,
    not_worse,
)
from dragoman.lab.statistics.resampling import Floats, ScoreOf, of_each

__all__ = [
    "ALPHA",
    "Difference",
    "Floats",
    "Interval",
    "ScoreOf",
    "Verdict",
    "clustered_mean_interval",
    "clustered_rate_interval",
    "cohen_kappa",
    "compare_corpora",
    "compare_means",
    "corpus_interval",
    "corpus_slopes",
    "correlation",
    "delta_corpus_interval",
    "holm",
    "items_needed",
    "krippendorff_alpha",
    "mean_interval",
    "normal_mean_interval",
    "not_worse",
    "of_each",
    "percentile_interval",
    "percentile_ranks",
    "rate_interval",
    "score_interval",
    "unit_mean_interval",
]
