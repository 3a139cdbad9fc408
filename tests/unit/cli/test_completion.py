"""What Tab offers, asked as shells ask it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evo.cli.app import run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., set[str]]:
    def ask(*words: str) -> set[str]:
        monkeypatch.chdir(ROOT)
        monkeypatch.setenv("_EVO_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        assert run([]) == 0
        return set(capsys.readouterr().out.split())

    return ask


@pytest.mark.parametrize(
    ("words", "among"),
    [
        (("evo", "le"), {"leaderboard"}),
        (("evo", "iterate", "at"), {"attention"}),
        (("evo", "export", "soft"), {"softmax"}),
        (("evo", "check", "x.cu", "--task", "rms"), {"rmsnorm"}),
        (("evo", "limits", "--gpu", "h2"), {"h200"}),
        (("evo", "iterate", "--device", "a"), {"auto"}),
        (("evo", "iterate", "--device", "sim:"), {"sim:l4", "sim:h200"}),
        # bash hands over the colon as a word and replaces only what follows it
        (("evo", "iterate", "--device", "sim", ":", "l"), {"l4"}),
        (("evo", "iterate", "--operators", "ladder,rules.kn"), {"ladder,rules.knob"}),
        (("evo", "limits", "attention", "--case", "b"), {"b2", "b4", "b8"}),
        (("evo", "report", "--format", "h"), {"html"}),
        (("evo", "import", "kernel"), {"kernelbench", "kernel-tuner"}),
        (("evo", "export", "attention", "--format", "p"), {"ptx"}),
        (("evo", "nightly", "soft"), {"softmax"}),
        (("evo", "show", "1705e2"), {"1705e262d8c5"}),
        (("evo", "compile", "x.cu", "--arch", "na"), {"native"}),
    ],
)
def test_tab_offers(offered: Callable[..., set[str]], words: tuple[str, ...], among: set[str]) -> None:
    got = offered(*words)
    assert among <= got
    assert len(got) < 12


def test_outside_a_repository_nothing_is_offered_and_nothing_complains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_EVO_COMPLETE", "complete_bash")
    for line in ("evo\niterate\n", "evo\nlimits\n--case\n"):
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count("\n")))
        assert run([]) == 0
        captured = capsys.readouterr()
        assert not captured.out.strip()
        assert not captured.err


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_answered(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_EVO_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "evo limits --gpu h2")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert run([]) == 0
    assert "h200" in capsys.readouterr().out


def test_bash_reads_the_script() -> None:
    """The script that is shown, in a real bash, with the words as readline splits them."""
    script = f"""
        export PATH={Path(sys.executable).parent}:$PATH
        source <(_EVO_COMPLETE=source_bash evo)
        COMP_WORDS=(evo baseline --device sim : h); COMP_CWORD=5
        _evo_completion evo; echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["h200"], done.stderr
