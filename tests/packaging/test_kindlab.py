"""The lab with a public node image, without root, and what it says where it cannot build its own, on stubs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from harness import limits
from stub_machine import program, tools

LAB: Final = Path(__file__).parents[2] / "e2e" / "kind" / "lab"
USED: Final = (
    *("awk", "bash", "cat", "chmod", "cut", "dirname", "find", "grep", "ln", "mkdir", "mktemp"),
    *("rm", "sed", "seq", "sha256sum", "sort", "tr", "xargs"),
)
IMAGE: Final = "kindest/node:v1.35.8"
PINNED: Final = "v0.33.0"
GO: Final = """\
case "$1" in
  env) echo go1.26.8;;
  list) echo FOLDER/module;;
  build)
    while [ "$1" != -o ]; do shift; done
    for name in $2 ${2}mkimage; do
      case "$name" in */) continue;; esac
      printf '#!/bin/sh\\necho "built %s $*" >>CALLS\\n' "${name##*/}" >"$name"; chmod 755 "$name"
    done;;
esac"""


class Machine:
    """An unprivileged user of Ubuntu with Go, an engine that answers, kind and kubectl, all of them stubs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.bin = tools(folder / "bin", *USED)
        self.variables = {"KINDLAB_NODE_IMAGE": IMAGE}
        self.stub("id", "echo 1000")
        self.stub("apt-get", "echo http://archive.ubuntu.com/ubuntu/")
        self.stub("docker", 'case "$1 $2" in "create "*) echo container;; "image inspect") exit 1;; esac')
        self.stub("go", GO)
        self.kind("kind v0.33.2 go1.26.0 linux/amd64")
        self.kubectl("v1.35.1")
        for stage in ("node/fast/node-a.yaml", "node/heartbeat/node-b.yaml", "pod/fast/pod-c.yaml"):
            path = folder / "module/kustomize/stage" / stage
            path.parent.mkdir(parents=True)
            path.write_text("kind: Stage\n")

    def stub(self, name: str, does: str) -> None:
        does = does.replace("FOLDER", str(self.folder)).replace("CALLS", str(self.folder / "calls"))
        program(self.bin / name, f'echo "{name} $*" >>{self.folder / "calls"}\n{does}')

    def kind(self, version: str, clusters: str = "", nodes: str = "") -> None:
        said = f'version) echo "{version}";; "get clusters") echo {clusters};; "get nodes"*) echo {nodes};;'
        self.stub("kind", f'case "$*" in {said} esac')

    def kubectl(self, version: str) -> None:
        says = f'echo "Client Version: {version}"; echo "Kustomize Version: v5.7.1"'
        self.stub(
            "kubectl", f'case "$*" in "version --client") {says};; *"apply -f -") cat >{self.folder}/applied;; esac'
        )

    def run(self, stage: str) -> tuple[int, str, list[str]]:
        """Exit code of a stage, its last line, and what it called, without questions for versions."""
        (self.folder / "calls").write_text("")
        environment = {
            "PATH": str(self.bin),
            "KINDLAB_CACHE": str(self.cache),
            "HOME": str(self.folder),
        } | self.variables
        done = subprocess.run(
            [LAB / "kindlab.sh", stage],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=limits.COMMAND,
        )
        calls = (self.folder / "calls").read_text().splitlines()
        asked = ("id ", "apt-get indextargets", "go env", "kind version", "kubectl version")
        said = done.stderr.splitlines() or [""]
        return done.returncode, said[-1], [call for call in calls if not call.startswith(asked)]

    def creates(self, program: str, image: str) -> str:
        config, kubeconfig = self.cache / "cluster-kindlab.yaml", self.cache / "kubeconfig-kindlab"
        return (
            f"{program} create cluster --name kindlab --image {image} --config {config} "
            f"--kubeconfig {kubeconfig} --wait 120s"
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("stage", ["image", "cached"])
def test_with_a_public_node_image_there_is_nothing_to_build(machine: Machine, stage: str) -> None:
    code, _, calls = machine.run(stage)
    assert (code, calls) == (0, [])


def test_the_installed_programs_make_a_cluster_of_the_public_image(machine: Machine) -> None:
    code, _, calls = machine.run("up")
    assert code == 0
    assert calls[1:] == ["kind get clusters", machine.creates("kind", IMAGE), "kind get nodes --name kindlab"]
    assert calls[0].startswith("go build ")
    assert calls[0].endswith(" ./..."), "only the lab's own tools are built"
    for name in ("kind", "kubectl"):
        assert (machine.cache / "bin" / name).samefile(machine.bin / name)
    assert machine.run("up")[0] == 0, "again, where the links are there"


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_every_node_refuses_what_is_for_a_service_by_a_rule_that_is_written_once(machine: Machine, there: bool) -> None:
    machine.kind("kind v0.33.2 go1.26.0 linux/amd64", clusters="kindlab" if there else "", nodes="one two")
    machine.stub("docker", 'case "$*" in *"-C OUTPUT"*) exit 1;; esac')

    code, said, calls = machine.run("up")

    assert code == 0, said
    written = [call for call in calls if call.startswith("docker exec") and " -C " not in call]
    assert written == [
        f"docker exec {node} iptables -w -I OUTPUT -d 10.96.0.0/16 -j REJECT" for node in ("one", "two")
    ], "what is there is not written again"


def test_a_kind_of_another_version_gives_way_to_the_pinned_one(machine: Machine) -> None:
    assert f"sigs.k8s.io/kind {PINNED} " in (LAB / "mods/kind/go.mod").read_text()
    machine.run("up")
    machine.kind("kind v0.27.0 go1.23.6 linux/amd64")
    installed = (machine.bin / "kind").read_text()
    code, _, calls = machine.run("up")
    assert code == 0
    assert any(call.startswith("go build ") and call.endswith(" sigs.k8s.io/kind") for call in calls)
    assert machine.creates("built kind", IMAGE) in calls
    assert (machine.bin / "kind").read_text() == installed, "nothing is written through the link"


@pytest.mark.parametrize(
    ("version", "image", "used"),
    [
        ("v1.34.0", IMAGE, True),
        ("v1.36.3", f"registry.example/{IMAGE}@sha256:0123", True),
        ("v1.33.9", IMAGE, False),
        ("v1.37.0", IMAGE, False),
        ("v1.35.0", "registry.example/node:ours", False),
        ("none", IMAGE, False),
    ],
)
def test_a_kubectl_that_the_api_server_does_not_fit_gives_way_to_the_images(
    machine: Machine, version: str, image: str, used: bool
) -> None:
    machine.run("up")
    machine.kubectl(version)
    installed = (machine.bin / "kubectl").read_text()
    machine.variables["KINDLAB_NODE_IMAGE"] = image
    code, _, calls = machine.run("up")
    copied = [call for call in calls if call.startswith("docker")]
    to = machine.cache / "bin" / "kubectl"
    taken = [f"docker create {image}", f"docker cp container:/usr/bin/kubectl {to}", "docker rm container"]
    assert (code, copied) == (0, [] if used else taken)
    assert to.is_symlink() == used
    assert (machine.bin / "kubectl").read_text() == installed


def test_a_kubectl_that_fits_no_longer_is_not_taken_for_the_images(machine: Machine) -> None:
    to = machine.cache / "bin" / "kubectl"
    for version, linked in (("v1.30.0", False), ("v1.35.0", True), ("v1.30.0", False)):
        machine.kubectl(version)
        calls = machine.run("up")[2]
        assert to.is_symlink() == linked
        assert (f"docker create {IMAGE}" in calls) == (not linked)


def test_the_labs_own_folder_may_be_on_the_path(machine: Machine) -> None:
    machine.run("up")
    machine.variables["PATH"] = f"{machine.cache / 'bin'}:{machine.bin}"
    assert machine.run("up")[0] == 0
    assert (machine.cache / "bin" / "kind").samefile(machine.bin / "kind")


def test_without_installed_programs_the_pinned_kind_and_the_images_kubectl_are_used(machine: Machine) -> None:
    (machine.bin / "kind").unlink()
    (machine.bin / "kubectl").unlink()
    code, _, calls = machine.run("up")
    assert code == 0
    assert f"docker create {IMAGE}" in calls
    assert machine.creates("built kind", IMAGE) in calls


def test_our_own_node_image_is_not_mixed_with_installed_programs(machine: Machine) -> None:
    machine.run("up")
    machine.variables.clear()
    machine.stub("docker", '[ "$1" != create ] || echo container')
    code, _, calls = machine.run("up")
    own = next(call for call in calls if call.startswith("docker create ")).removeprefix("docker create ")
    assert own.startswith("localhost/kindlab/node:v1.35.4-")
    assert code == 0
    assert machine.creates("built kind", own) in calls
    assert not (machine.cache / "bin" / "kind").is_symlink()


def test_nodes_that_kwok_plays_have_no_address_where_kindnet_would_route_to_it(machine: Machine) -> None:
    machine.run("up")
    assert machine.run("kwok")[0] == 0
    manifest = (LAB / "manifests" / "kwok.yaml").read_text().splitlines(keepends=True)
    applied = (machine.folder / "applied").read_text()
    assert applied == "".join(line for line in manifest if "- --node-ip=" not in line) != "".join(manifest)
    machine.variables.clear()
    assert machine.run("kwok")[0] == 0
    assert (machine.folder / "applied").read_text() == "".join(manifest)


def test_without_a_debian_mirror_it_is_said_before_anything_is_built(machine: Machine) -> None:
    machine.variables.clear()
    machine.stub("id", "echo 0")
    code, said, calls = machine.run("image")
    assert code == 1
    assert said == (
        "kindlab: no Debian mirror to build the node image from: apt names none here. Set KINDLAB_MIRROR to one "
        "that has /debian and /debian-security, or KINDLAB_NODE_IMAGE to a public node image"
    )
    assert not any(call.startswith("go build") for call in calls)
    (machine.bin / "apt-get").unlink()
    assert machine.run("image")[:2] == (code, said), "nor does a machine without apt end without a word"


@pytest.mark.parametrize("where", ["engine", "cache"])
def test_an_image_that_is_there_needs_no_mirror(machine: Machine, where: str) -> None:
    machine.variables.clear()
    machine.stub("id", "echo 0")
    asked = next(call for call in machine.run("up")[2] if call.startswith("docker image inspect "))
    if where == "engine":
        machine.stub("docker", "exit 0")
    else:
        machine.stub("dpkg-query", "echo installed")
        machine.stub("zstd", "exit 0")
        (machine.cache / f"node-{asked.rpartition(':')[2]}.tar.zst").touch()
    code, said, calls = machine.run("image")
    assert code == 0
    assert said.startswith("== image, all told")
    assert any(call.startswith("docker import ") for call in calls) == (where == "cache")


def test_a_user_whom_no_engine_answers_is_told_so(machine: Machine) -> None:
    machine.stub("docker", "exit 1")
    assert machine.run("engine")[:2] == (1, "kindlab: no docker engine answers this user, and starting one needs root")


def test_the_name_of_our_own_image_is_that_of_its_sources_alone() -> None:
    text = (LAB / "lib" / "image.sh").read_text()
    assert "image_key() { digest_of lib/image.sh manifests mods/k8s mods/etcd mods/coredns mods/kind tools; }" in text
    assert "public" not in text
