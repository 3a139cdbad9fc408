"""Command lines for the help texts and the pages of the commands."""

from __future__ import annotations

from collections.abc import Mapping

# Command -> pairs of (command line, purpose).
EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "init": (
        ("evo init --task softmax", "one task, in the root of a git repository"),
        ("evo init", "all shipped tasks"),
        ("evo init --root ../kernels-of-mine", "in another repository"),
    ),
    "iterate": (
        ("evo iterate softmax --iterations 20", "twenty trials, on the GPU or on the simulator"),
        (
            "evo iterate attention --from ladder/00_scalar.cu --branch evo/first-run",
            "from another start, on a new branch",
        ),
        ("evo iterate attention --device gpu:0 --budget 30m --operators ladder,rules,derive", "half an hour on a GPU"),
        ("evo iterate softmax --resume --iterations 40", "continue the last run, up to 40 trials in all"),
        ("evo iterate softmax --operators llm --llm-model MODEL --llm-budget 2.00", "ask a language model"),
        ("evo iterate attention --cluster processes:4", "on four GPUs at once"),
        ("evo iterate softmax --json | tee run.jsonl", "one JSON object per trial"),
    ),
    "leaderboard": (
        ("evo leaderboard", "all champions"),
        ("evo leaderboard attention --json", "the entries of one task, as in leaderboard.json"),
        ("evo leaderboard --rebuild", "write leaderboard.json again from the records"),
    ),
    "check": (
        ("evo check mine.cu", "the file names its task"),
        ("evo check ladder/10_block.cu --task softmax", "a file of the task's folder"),
        ("evo check mine.cu --seed 535657112", "the same inputs as in an earlier check"),
        ("evo check mine.cu --coverage", "with what no case exercises; `evo profile` counts by line"),
    ),
    "bench": (
        ("evo bench mine.cu", "alone"),
        ("evo bench mine.cu --against other.cu --device gpu:0", "interleaved with another file, with a decision"),
    ),
    "try": (
        ("evo try mine.cu", "against the champion"),
        ("evo try mine.cu --json", "for a script or an agent"),
        ("evo try --edits answer.txt --task softmax", "a model's answer to `evo prompt softmax`"),
    ),
    "compile": (
        ("evo compile mine.cu", "for every set of compiled-in axes"),
        ("evo compile mine.cu --arch sm_90 --json", "for another chip, as data"),
    ),
    "limits": (
        ("evo limits attention --gpu l4", "all timed cases on an L4"),
        ("evo limits softmax --gpu h200 --case rows4k --plot roofline.svg", "one case, and a drawing"),
    ),
    "derive": (
        ("evo derive matmul --gpu l4", "the best legal configurations, with the proofs"),
        ("evo derive --check mine.cu --gpu l4", "does this file fit the chip?"),
    ),
    "explain": (
        ("evo explain mine.cu", "who reads what how often, what is scattered, what may be rewritten"),
        ("evo explain mine.cu --gpu l4 --case ragged --json", "for a chip and a case, as data"),
    ),
    "baseline": (("evo baseline attention --device gpu:0", "every backend of the library, on a GPU"),),
    "profile": (
        ("evo profile mine.cu", "exact counts, on the simulator"),
        ("evo profile mine.cu --device gpu:0", "with Nsight Compute's counters, on a GPU"),
    ),
    "tune": (
        ("evo tune ladder/30_mma.cu --task matmul --device sim:l4 --budget 20", "the knobs of a kernel"),
        ("evo tune --space convolution_A4000_T4.json.gz --runs 20", "a recorded space, by replay"),
        ("evo tune --ask-tell", "any space, over stdin and stdout"),
    ),
    "apply": (
        ("evo apply mine.cu", "the knob values of the task's champion"),
        ("evo apply mine.cu --tuned results.json", "the fastest that `evo tune mine.cu --out results.json` found"),
        ("evo apply mine.cu --champion sim-l4-sm_89 --whole", "the champion's text in place of the file's"),
    ),
    "operators": (("evo operators", "all of them, with an example each"), ("evo operators unroll", "one rule in full")),
    "insights": (
        ("evo insights softmax", "effects by kind of change, on each chip"),
        ("evo insights --rules", "the evidence for each rewrite rule, over all records"),
    ),
    "log": (("evo log softmax", "all trials of a task"), ("evo log --json", "as data")),
    "show": (("evo show 5954", "the beginning of a variant's or trial's id is enough"),),
    "diff": (("evo diff 5f1b 5954", "two variants side by side"),),
    "replay": (("evo replay 5954", "the trial again, on this machine"),),
    "report": (
        ("evo report", "report.html, one self-contained page"),
        ("evo report --case-study --task attention --format md --out study.md", "one run as an article"),
        ("evo report --format csv --out trials.csv", "the trials as a table"),
    ),
    "serve": (
        ("evo serve", "then open the address that it prints"),
        ("evo serve --port 0 --task softmax", "one task, on a free port"),
    ),
    "adopt": (
        ("evo adopt saxpy.cu", "the kernel that main launches becomes a task, with itself as the reference"),
        ("evo adopt softmax.cu --yes --axis N=4096,C=1024", "no questions; sizes that no caller sets"),
        ("evo adopt saxpy.cu --reference 'y = a * x + y'", "a formula as the reference; or FILE.py:FUNCTION"),
    ),
    "new": (
        (
            "evo new row_scale --axis ROWS=4096,COLS=1024 --in 'x:float16[ROWS,COLS]' --in 's:float32[ROWS]'"
            " --out 'y:float16[ROWS,COLS]' --compute 'y = x * s[:, None]'",
            "from names, shapes and a formula",
        ),
        ("evo new gated --axis B=512,DIM=1024 --in 'x:float32[B,DIM]' --module model.py:Gated --init DIM", "a module"),
    ),
    "import": (
        ("evo import kernelbench problems/*.py", "each file becomes a task"),
        ("evo import gpumode problems/grayscale", "a folder with task.yml and reference.py"),
        ("evo import kernel-tuner tune_matmul.py --name matmul", "a script: its parameters become knobs"),
        ("evo import kernel-tuner add.json --source add.cu --name add", "the same from a T1 file"),
    ),
    "export": (
        ("evo export attention --out attention_op", "a package with a torch operator"),
        ("evo export softmax --out softmax_ptx --format ptx --from mine.cu", "one kernel as PTX"),
    ),
    "prompt": (
        ("evo prompt softmax --strategy inversion", "the prompt for the champion"),
        ("evo prompt attention --from ladder/00_scalar.cu --strategy rewrite --rewrite", "for another kernel"),
    ),
    "mcp": (("evo mcp --device sim:l4", "the command that an agent starts"),),
    "redteam": (
        ("evo redteam --device sim:l4", "all attacks; about a minute and a half of processor time"),
        ("evo redteam --only attention", "some of them: by name, row or task"),
        ("evo redteam mine.cu", "an attack of your own; the file names its task"),
    ),
    "doctor": (
        ("evo doctor", "what is installed, what is missing"),
        ("evo doctor --calibrate --device gpu:0", "measure the rates of this GPU"),
        ("evo doctor --llm --llm-url http://localhost:11434/v1 --llm-model qwen3", "try a language model's endpoint"),
    ),
    "nightly": (
        ("evo nightly --device gpu:0 --budget 2h --branch evo/nightly", "all champions, then two hours of the loop"),
        ("evo nightly softmax --no-redteam --iterations 0", "one task's champions, nothing else"),
    ),
}
