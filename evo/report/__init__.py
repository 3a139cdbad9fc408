"""The report: the records as one page, text, table, data or drawing. Pure, except counting on the simulator."""

from __future__ import annotations

from evo.report.case_study import CaseStudy, case_study
from evo.report.csv_json import climbs_svg, report_output, roof_svg, trials_csv
from evo.report.markdown import markdown
from evo.report.model import AncestryStep, Climb, ClimbPoint, ReportModel, report_model
from evo.report.page import page
from evo.report.roofline_plot import Roofline, RooflineDot, roofline
from evo.report.source_counters import Heat, count_lines
from evo.report.svg import drawable

__all__ = [
    "AncestryStep",
    "CaseStudy",
    "Climb",
    "ClimbPoint",
    "Heat",
    "ReportModel",
    "Roofline",
    "RooflineDot",
    "case_study",
    "climbs_svg",
    "count_lines",
    "drawable",
    "markdown",
    "page",
    "report_model",
    "report_output",
    "roof_svg",
    "roofline",
    "trials_csv",
]
