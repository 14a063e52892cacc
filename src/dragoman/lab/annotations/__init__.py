"""What people say of rows, and how far evaluators agree with them."""

from dragoman.lab.annotations.agreement import JudgedRow, agreement_of
from dragoman.lab.annotations.agreement_told import (
    agreement_told,
    annotated_told,
    calibration_told,
    is_known,
)
from dragoman.lab.annotations.annotations import (
    MAX_AT_ONCE,
    Annotations,
    NewAnnotation,
    Put,
    this_user,
)
from dragoman.lab.annotations.calibration import (
    JUDGE_KIND,
    LEAST_ROWS,
    Calibrator,
    calibrations_of,
    is_calibrated,
    is_judge,
    judged_rows,
)

__all__ = [
    "JUDGE_KIND",
    "LEAST_ROWS",
    "MAX_AT_ONCE",
    "Annotations",
    "Calibrator",
    "JudgedRow",
    "NewAnnotation",
    "Put",
    "agreement_of",
    "agreement_told",
    "annotated_told",
    "calibration_told",
    "calibrations_of",
    "is_calibrated",
    "is_judge",
    "is_known",
    "judged_rows",
    "this_user",
]
