"""`evo report` as a process on a repository with a run, and its page in a headless Chromium."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import headless_chromium
import pytest
from headless_chromium import Chromium
from tiny import evo, evo_here, evolved, fails, git, new_repository


@pytest.fixture(name="evolved", scope="module")
def _evolved() -> Path:
    return evolved()[0]


def test_without_a_trial_there_is_nothing_to_report(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    fails(evo_here("report", cwd=root), 3, "nothing to report", "evo iterate")
    fails(evo_here("report", "--task", "scale", "--json", cwd=root), 3, "no trial of scale")


def test_every_format_tells_the_same_trials(evolved: Path, tmp_path: Path) -> None:
    whole = evo_here("report", "--json", cwd=evolved).json
    assert whole["trials"] >= 2
    assert [climb["timing"] for climb in whole["climbs"]] == ["modelled"]
    assert len(evo_here("report", "--format", "csv", cwd=evolved).out.splitlines()) == 1 + whole["trials"]
    assert "modelled" in evo_here("report", "--format", "md", cwd=evolved).out
    drawing = tmp_path / "climb.svg"
    assert evo_here("report", "--out", drawing, cwd=evolved).code == 0
    assert ElementTree.parse(drawing).getroot().tag.endswith("svg")
    study = tmp_path / "study.json"
    assert evo("report", "--case-study", "--out", study, cwd=evolved).code == 0
    assert "Traditional against inverted" in [
        c["heading"] for c in json.loads(study.read_text())["case_study"]["chapters"]
    ]


def test_the_page_counts_the_champion_by_source_line(evolved: Path) -> None:
    ran = evo("report", "--count", "--out", "-", cwd=evolved)
    assert ran.code == 0, ran.err
    assert "evo report --count" not in ran.out
    assert 'class="heat"' in ran.out
    assert "global sectors" in ran.out


def test_what_cannot_be_asked_for_is_told(evolved: Path, tmp_path: Path) -> None:
    fails(evo_here("report", "--task", "nope", cwd=evolved), 2, "nope")
    fails(evo_here("report", "--run", "1999", cwd=evolved), 2, "1999")
    fails(evo_here("report", "--out", tmp_path / "report.pdf", cwd=evolved), 2, "html")
    fails(evo_here("report", "--out", tmp_path / "none" / "report.html", cwd=evolved), 2, "no folder")
    fails(evo_here("report", "--json", "--format", "csv", cwd=evolved), 2, "together")
    assert git(evolved, "status", "--porcelain") == ""


@pytest.mark.long
def test_chromium_opens_it_without_complaint(evolved: Path, tmp_path: Path) -> None:
    program = headless_chromium.find()
    if program is None:
        pytest.skip(f"no Chromium here: none of {', '.join(headless_chromium.NAMES)} is on the path")
    path = tmp_path / "report.html"
    assert evo("report", "--case-study", "--count", "--out", path, cwd=evolved).code == 0
    with Chromium(program) as browser:
        for width in (1440, 390):
            for dark in (False, True):
                browser.open(path, width=width, dark=dark)
                assert browser.complaints() == []
                assert [url for url in browser.requests() if not url.startswith("data:")] == [path.as_uri()]
                assert browser.evaluate("document.documentElement.scrollWidth") <= width
                assert browser.evaluate(_CONTRAST) == []
        shown = "[...document.querySelectorAll('#trial-list .trial')].filter(one => !one.hidden).length"
        every = browser.evaluate(shown)
        browser.evaluate("document.getElementById('filter-kept').click()")
        assert 0 < browser.evaluate(shown) < every
        browser.evaluate("document.querySelector('.trial:not([hidden]) > summary').click()")
        assert browser.evaluate("document.querySelectorAll('.trial[open]').length") == 1
        browser.evaluate("document.querySelector('.kin a').click()")  # a link to a trial unfolds it
        browser.wait("document.querySelectorAll('.trial[open]').length === 2")
        browser.open(path, width=390)
        browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        assert browser.evaluate(_CONTRAST) == []


# Texts whose colour is too near to their background: WCAG AA, 4.5 to 1, of opaque colours.
_CONTRAST = """
(() => {
  const rgb = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126*r + 0.7152*g + 0.0722*b; };
  const behind = element => { for (let e = element; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; }
    return [255, 255, 255]; };
  const low = new Set();
  for (const e of document.querySelectorAll('main *, header *, nav *, footer *')) {
    if (e.closest('svg') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const a = light(rgb(getComputedStyle(e).color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.add(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2));
  }
  return [...low];
})()
"""
