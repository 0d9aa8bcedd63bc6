"""The workflows of CI and of a release: linted, pinned by commit, with few rights, and no release without kind."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from harness import tools
from harness.pins import ACTIONLINT, KUBERNETES, KUBERNETES_VERSIONS, pinned_version

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".github" / "workflows"
FILES: Final = sorted(FOLDER.glob("*.yml"))
PINNED: Final = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
Job = dict[str, Any]


def jobs(name: str) -> dict[str, Job]:
    found: dict[str, Job] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))["jobs"]
    return found


def needs(of: dict[str, Job], name: str) -> set[str]:
    """Jobs that must have passed before a job, through others too."""
    direct = of[name].get("needs", [])
    direct = {direct} if isinstance(direct, str) else set(direct)
    return direct.union(*(needs(of, one) for one in direct))


def scripts(of: dict[str, Job]) -> Iterator[str]:
    for job in of.values():
        yield from (step["run"] for step in job.get("steps", ()) if "run" in step)


def lint(*files: Path) -> subprocess.CompletedProcess[str]:
    program = tools.provide([ACTIONLINT])["actionlint"]
    # Without shellcheck and pyflakes, which are there or not: the result is the same everywhere.
    command = [program, "-no-color", "-shellcheck=", "-pyflakes=", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.cluster  # actionlint is one of the tools that are built
def test_the_linter_of_workflows_finds_nothing_and_would_find_something(tmp_path: Path) -> None:
    done = lint(*FILES)
    assert (done.returncode, done.stdout) == (0, "")
    wrong = tmp_path / "wrong.yml"
    text = (FOLDER / "release.yml").read_text(encoding="utf-8")
    wrong.write_text(text.replace("needs: [version, images]", "needs: [version, imags]"), encoding="utf-8")
    assert "imags" in lint(wrong).stdout


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_release_beside(path: Path) -> None:
    used = re.findall(r"uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert used
    local = "./.github/workflows/ci.yml"
    assert [one for one in used if one != local and not PINNED.fullmatch(one)] == []


def test_an_action_has_one_commit_everywhere() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    commits: dict[str, set[str]] = {}
    for action, commit in re.findall(r"uses: ([\w./-]+)@([0-9a-f]{40}  # \S+)", text):
        commits.setdefault(action, set()).add(commit)
    assert {action: found for action, found in commits.items() if len(found) > 1} == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_right_is_given_to_all_jobs_and_each_job_names_its_own(path: Path) -> None:
    whole = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert whole["permissions"] == {}
    assert whole["concurrency"]["group"]
    for name, job in whole["jobs"].items():
        assert "permissions" in job, name
        assert "uses" in job or "timeout-minutes" in job or name == "version", name
    text = path.read_text(encoding="utf-8")
    assert text.count("uses: actions/checkout@") == text.count("persist-credentials: false")


def test_only_jobs_that_publish_may_write_and_these_wait_for_the_checks_and_for_kind() -> None:
    release = jobs("release.yml")
    writing = {name for name, job in release.items() if "write" in job["permissions"].values()}
    assert writing == {"images", "publish"}
    assert [name for name in writing if not {"checks", "deep", "kind"} <= needs(release, name)] == []
    assert "make e2e-kind" in [step.get("run") for step in release["kind"]["steps"]]
    assert release["checks"]["uses"] == release["deep"]["uses"] == "./.github/workflows/ci.yml"
    assert release["deep"]["with"] == jobs("deep.yml")["deep"]["with"] == {"command": "make test-deep"}
    assert {name for name, job in release.items() if "write" in str(job["permissions"].get("contents"))} == {"publish"}
    assert all(set(job["permissions"]) == {"contents"} for job in jobs("ci.yml").values())


def needed_for_kind(job: Job) -> list[str]:
    """What a job lacks that runs `make e2e-kind`: the lab needs root or a public node image, and Go in both cases."""
    step = next(step for step in job["steps"] if "make e2e-kind" in step.get("run", ""))
    variables = {**job.get("env", {}), **step.get("env", {})}
    lacks = []
    if not variables.get("KINDLAB_NODE_IMAGE") and "sudo" not in step["run"].split():
        lacks.append("KINDLAB_NODE_IMAGE or root")
    before = job["steps"][: job["steps"].index(step)]
    if not any(one.get("uses", "").startswith("actions/setup-go@") for one in before):
        lacks.append("Go")
    return lacks


def test_the_job_of_kind_has_what_the_lab_needs_of_a_machine_of_githubs() -> None:
    job = jobs("release.yml")["kind"]
    assert needed_for_kind(job) == []
    steps = [step for step in job["steps"] if "setup-go" not in step.get("uses", "")]
    assert needed_for_kind({**job, "env": {}, "steps": steps}) == ["KINDLAB_NODE_IMAGE or root", "Go"]
    as_root = [step | {"run": f"sudo {step['run']}"} if "run" in step else step for step in job["steps"]]
    assert needed_for_kind({**job, "env": {}, "steps": as_root}) == []


def test_the_public_node_image_is_of_the_labs_kubernetes_and_named_alike_everywhere() -> None:
    image = jobs("release.yml")["kind"]["env"]["KINDLAB_NODE_IMAGE"]
    lab = (ROOT / "e2e" / "kind" / "lab" / "mods" / "k8s" / "go.mod").read_text(encoding="utf-8")
    minor = pinned_version(lab, "k8s.io/kubernetes").rpartition(".")[0]
    assert re.fullmatch(rf"kindest/node:{re.escape(minor)}\.\d+", image)
    found = subprocess.run(
        ["git", "grep", "-ohE", r"kindest/node:v[0-9.]*[0-9]"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(found.stdout.split()) == {image}


def test_what_the_workflows_call_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    run = [script for path in FILES for script in scripts(jobs(path.name))]
    run += [str(job.get("with", {}).get("command", "")) for path in FILES for job in jobs(path.name).values()]
    lines = [line for script in run for line in re.findall(r"^\s*make (.*)$", script, re.MULTILINE)]
    called = {word for line in lines for word in line.split()}
    assert called
    assert called <= targets
    assert "|| 'bash .ci/run' }}" in (FOLDER / "ci.yml").read_text(encoding="utf-8")
    assert (ROOT / ".ci" / "run").is_file()
    for path in FILES:
        for file in re.findall(r"go-version-file: (\S+)", path.read_text(encoding="utf-8")):
            assert (ROOT / file).is_file()


def test_ci_runs_one_file_of_scenarios_on_each_kubernetes_that_is_not_the_default() -> None:
    older = jobs("ci.yml")["older"]
    others = {minor for minor, module in KUBERNETES_VERSIONS.items() if module is not KUBERNETES}
    assert set(older["strategy"]["matrix"]["kubernetes"]) == others
    step = older["steps"][-1]
    assert step["env"]["KUBERNETES"] == "${{ matrix.kubernetes }}"
    assert step["run"] == "make e2e"
    scenarios = step["env"]["TESTS"]
    assert (ROOT / scenarios).is_file()
    assert f"e2e TESTS={scenarios}" in (ROOT / ".ci" / "kubernetes").read_text(encoding="utf-8")
    asked = re.findall(
        r"^step \.ci/kubernetes (\S+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert asked
    assert set(asked) <= others


def test_images_are_built_where_the_last_commit_that_changed_them_is_known() -> None:
    checkout = next(step for step in jobs("release.yml")["images"]["steps"] if "checkout" in step.get("uses", ""))
    assert checkout["with"]["fetch-depth"] == 0, "a shallow clone takes its only commit for it"


def test_both_architectures_and_every_image_are_built_joined_and_signed() -> None:
    from images.lock import OF_COMPONENTS

    release = jobs("release.yml")
    built = {one["arch"] for one in release["images"]["strategy"]["matrix"]["include"]}
    assert built == {"amd64", "arm64"}
    loops = re.findall(r"for component in (.*); do", "\n".join(scripts(release)))
    assert [set(loop.split()) for loop in loops] == [set(OF_COMPONENTS)] * 2
    publish = "\n".join(step.get("run", "") for step in release["publish"]["steps"])
    assert all(f'"$image:$VERSION-{arch}"' in publish for arch in built)
    assert publish.count("cosign sign ") == 2
    assert "cosign sign-blob" in publish
