"""What people say of rows, and how far evaluators agree with them."""

from dragoman.lab.annotations.agreement import Judged, agreement_of
from dragoman.lab.annotations.annotations import (
    MAX_AT_ONCE,
    Annotations,
    NewAnnotation,
    Put,
    this_user,
)
from dragoman.lab.annotations.calibration import (
    LEAST_ROWS,
    Calibrator,
    calibrations_of,
    is_calibrated,
    is_judge,
    judged_rows,
)

__all__ = [
    "LEAST_ROWS",
    "MAX_AT_ONCE",
    "Annotations",
    "Calibrator",
    "Judged",
    "NewAnnotation",
    "Put",
    "agreement_of",
    "calibrations_of",
    "is_calibrated",
    "is_judge",
    "judged_rows",
    "this_user",
]
