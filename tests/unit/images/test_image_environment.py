"""What fills an image: nothing that differs from build to build, nothing that no component imports."""

from __future__ import annotations

import os
from pathlib import Path

from images.environment import settle, trim, without_addresses


def test_addresses_leave_a_kernel_and_its_length_stays() -> None:
    kernel = b"\x00global(_f: <function _f_ab12 at 0x7fe3ced54ae0>)\xff 0x7fe3 <function g at 0xab>"
    bare = b"\x00global(_f: <function _f_ab12 at 0x000000000000>)\xff 0x7fe3 <function g at 0x00>"
    assert without_addresses(kernel) == bare
    assert without_addresses(bare) == bare


def test_what_no_component_imports_is_trimmed_and_the_rest_is_kept(tmp_path: Path) -> None:
    kept = [
        *("numpy/testing/__init__.py", "kubernetes/client/models/__init__.py", "kubernetes/client/rest.py"),
        *("kubernetes/aio/client/api/__init__.py", "pulp/solverdir/cbc/linux/arm64/cbc", "aiohttp/tests/a.py"),
    ]
    trimmed = [
        *("numpy/_core/tests/test_a.py", "scipy/tests/a.py", "kubernetes/client/models/v1_pod.py"),
        *("kubernetes/aio/client/api/core_v1_api.py", "pulp/solverdir/cbc/linux/i64/cbc"),
        *("pulp/solverdir/cbc/osx/i64/cbc", "pulp/solverdir/cbc/win/i64/cbc.exe"),
    ]
    for name in kept + trimmed:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    trim(tmp_path, "aarch64")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)


def test_every_file_has_the_time_of_the_commit_links_too(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "link").symlink_to("/nowhere")
    settle(tmp_path, 1_700_000_000)
    times = {os.lstat(path).st_mtime for path in [tmp_path, *tmp_path.rglob("*")]}
    assert times == {1_700_000_000}
