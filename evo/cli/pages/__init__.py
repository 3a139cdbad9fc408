"""The report: the records as one page, text, table, data or drawing. Pure, except counting on the simulator."""

from __future__ import annotations

from evo.cli.pages.case_study import CaseStudy, case_study
from evo.cli.pages.csv_json import climbs_svg, report_output, roof_svg, trials_csv
from evo.cli.pages.html_page import page
from evo.cli.pages.markdown import markdown
from evo.cli.pages.report_model import Climb, ClimbPoint, ReportModel, report_model
from evo.cli.pages.roofline_chart import drawable
from evo.cli.pages.roofline_plot import Roofline, RooflineDot, roofline
from evo.cli.pages.source_counters import LineUtilisation, count_lines

__all__ = [
    "CaseStudy", "Climb", "ClimbPoint", "LineUtilisation", "ReportModel", "Roofline", "RooflineDot",
    "case_study", "climbs_svg", "count_lines", "drawable", "markdown", "page", "report_model", "report_output",
    "roof_svg", "roofline", "trials_csv",
]  # fmt: skip
