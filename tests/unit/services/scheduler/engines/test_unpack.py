from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.scheduler.engines.unpack import Limits, lay_code
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeArchive, CodeDirectory, CodeInline


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> CodeArchive:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return CodeArchive(path)


def everything_below(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*")}


class TestArchive:
    def test_files_folders_and_links_are_laid(self, tmp_path: Path):
        code = archive(
            tmp_path / "a.tar.gz",
            member("./", type=tarfile.DIRTYPE),
            member("./src/train.py", b"print()"),
            member("run.sh", b"#!/bin/sh", mode=0o4777),
            member("empty", type=tarfile.DIRTYPE),
            link("src/link", "../run.sh"),
        )

        lay_code(code, tmp_path / "code")

        assert everything_below(tmp_path / "code") == {"src", "src/train.py", "run.sh", "empty", "src/link"}
        assert (tmp_path / "code/src/link").read_bytes() == b"#!/bin/sh"
        assert (tmp_path / "code/run.sh").stat().st_mode & 0o7777 == 0o755
        assert (tmp_path / "code/src/train.py").stat().st_mode & 0o7777 == 0o644

    def test_a_later_member_replaces_an_earlier_one(self, tmp_path: Path):
        lay_code(archive(tmp_path / "a", member("x", b"old"), member("x", b"new")), tmp_path / "code")

        assert (tmp_path / "code/x").read_bytes() == b"new"

    @pytest.mark.parametrize(
        ("evil", "message"),
        [
            ([member("/etc/x", b"x")], "outside of the code"),
            ([member("../x", b"x")], "outside of the code"),
            ([member("a/../../x", b"x")], "outside of the code"),
            ([link("a", "/etc")], "leads to /etc, out of the code"),
            ([link("a", "../..")], "out of the code"),
            ([link("d/a", "../../x")], "out of the code"),
            ([link("a", "."), link("a/b", "c")], "lies behind a link"),
            ([link("a/b/c", "../.."), link("a/b/c/x", "../.."), link("a/b/c/x/evil", "y")], "lies behind a link"),
            ([link("a", "/etc/passwd", tarfile.LNKTYPE)], "neither file nor folder"),
            ([member("a", type=tarfile.FIFOTYPE)], "neither file nor folder"),
            ([member("a", type=tarfile.BLKTYPE)], "neither file nor folder"),
            ([member("a", b"x"), member("a/b", b"x")], "cannot be laid"),
            ([member(".", b"x")], "cannot be laid"),
            ([member("a", b"x"), member("a/b", b"x")], "^code from the archive cannot be laid at /code: 'a': "),
            ([member("a/" * 201 + "x", b"x")], "more than 200 deep"),
        ],
    )
    def test_what_could_reach_outside_is_refused(
        self, tmp_path: Path, evil: list[tuple[tarfile.TarInfo, bytes]], message: str
    ):
        (tmp_path / "gang").mkdir()

        with pytest.raises(StartRefusedError, match=message):
            lay_code(archive(tmp_path / "a.tar.gz", *evil), tmp_path / "gang/code")

        assert not (tmp_path / "gang/code").exists()
        assert set(os.listdir(tmp_path)) == {"a.tar.gz", "gang"}  # noqa: PTH208  # names are what is compared
        assert set(os.listdir(tmp_path / "gang")) == {"code.partial"}  # noqa: PTH208

    def test_a_file_is_not_written_through_a_link(self, tmp_path: Path):
        (tmp_path / "outside").write_text("kept")
        code = archive(tmp_path / "a.tar.gz", link("x", "inside"), member("x", b"evil"), member("inside", b"old"))

        lay_code(code, tmp_path / "code")

        assert (tmp_path / "code/x").is_symlink()
        assert (tmp_path / "code/inside").read_bytes() == b"old"

    @pytest.mark.parametrize(
        "content", [b"", b"no tar", gzip.compress(b"no tar", mtime=0), gzip.compress(b"x" * 2048, mtime=0)[:-9]]
    )
    def test_what_is_no_archive_is_refused(self, tmp_path: Path, content: bytes):
        (tmp_path / "a").write_bytes(content)

        with pytest.raises(StartRefusedError, match=r"^code from the archive"):
            lay_code(CodeArchive(tmp_path / "a"), tmp_path / "code")

    def test_a_size_below_zero_gives_no_room_back(self, tmp_path: Path):
        header = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
        header[124:136] = tarfile.itn(-512, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        (tmp_path / "a").write_bytes(gzip.compress(bytes(header) + bytes(1024)))

        with pytest.raises(StartRefusedError, match="size below zero"):
            lay_code(CodeArchive(tmp_path / "a"), tmp_path / "code")

    def test_a_full_disk_is_not_the_fault_of_the_code(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        code = archive(tmp_path / "a", member("x", b"x"))

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(shutil, "copyfileobj", full)
        with pytest.raises(OSError, match="No space left"):
            lay_code(code, tmp_path / "code")
        monkeypatch.undo()

        lay_code(code, tmp_path / "code")
        assert (tmp_path / "code/x").read_bytes() == b"x"

    def test_a_missing_archive_is_refused(self, tmp_path: Path):
        with pytest.raises(StartRefusedError, match="No such file"):
            lay_code(CodeArchive(tmp_path / "a"), tmp_path / "code")

    def test_limits_count_what_it_unpacks_to(self, tmp_path: Path):
        big = archive(tmp_path / "a", member("zeros", bytes(2000)))
        many = archive(tmp_path / "b", *(member(f"{number}") for number in range(20)))

        with pytest.raises(StartRefusedError, match="more than 1000B"):
            lay_code(big, tmp_path / "code", Limits(size_bytes=1000, files=10))
        with pytest.raises(StartRefusedError, match="more than 10 files"):
            lay_code(many, tmp_path / "code", Limits(size_bytes=1000, files=10))

    def test_an_enormous_header_is_not_read(self, tmp_path: Path):
        header = tarfile.TarInfo("pax")
        header.type, header.size = tarfile.XHDTYPE, 1 << 40
        with gzip.open(tmp_path / "a", "wb") as file:
            file.write(header.tobuf(tarfile.GNU_FORMAT) + bytes(10_000))

        with pytest.raises(StartRefusedError, match="unpacks to more than is accepted"):
            lay_code(CodeArchive(tmp_path / "a"), tmp_path / "code")

    @given(
        names=st.lists(st.text("ab./\0é", min_size=1, max_size=8), min_size=1, max_size=6),
        targets=st.lists(st.text("ab./", min_size=1, max_size=8), min_size=6, max_size=6),
    )
    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    def test_no_archive_touches_anything_outside(
        self, tmp_path_factory: pytest.TempPathFactory, names: list[str], targets: list[str]
    ):
        place = tmp_path_factory.mktemp("any")
        (place / "gang").mkdir()
        files = [member(name, b"x") for name in names]
        links = [link(name, target) for name, target in zip(names, targets, strict=False)]
        try:
            code = archive(place / "a", *files[::2], *links[1::2])
        except (ValueError, UnicodeError):
            return
        try:
            lay_code(code, place / "gang/code")
        except StartRefusedError:
            assert not (place / "gang/code").exists()

        assert {each.name for each in place.iterdir()} == {"a", "gang"}
        assert {each.name for each in (place / "gang").iterdir()} <= {"code", "code.partial"}


class TestDirectory:
    def test_it_is_copied_with_links_as_they_are_and_without_special_files(self, tmp_path: Path):
        source = tmp_path / "src"
        (source / "sub").mkdir(parents=True)
        (source / "sub/x.py").write_text("1")
        (source / "dangling").symlink_to("/nowhere")
        os.mkfifo(source / "pipe")

        lay_code(CodeDirectory(source), tmp_path / "code")
        (source / "sub/x.py").write_text("2")

        assert everything_below(tmp_path / "code") == {"sub", "sub/x.py", "dangling"}
        assert (tmp_path / "code/sub/x.py").read_text() == "1"

    def test_limits_hold_for_it_too(self, tmp_path: Path):
        (tmp_path / "src").mkdir()
        (tmp_path / "src/big").write_bytes(bytes(2000))

        with pytest.raises(StartRefusedError, match="more than 1000B"):
            lay_code(CodeDirectory(tmp_path / "src"), tmp_path / "code", Limits(size_bytes=1000))

    def test_one_with_folders_too_deep_in_each_other_is_refused(self, tmp_path: Path):
        (tmp_path / "src" / "/".join("d" * 201)).mkdir(parents=True)

        with pytest.raises(StartRefusedError, match="more than 200 deep"):
            lay_code(CodeDirectory(tmp_path / "src"), tmp_path / "code")

    def test_a_missing_one_is_refused(self, tmp_path: Path):
        with pytest.raises(StartRefusedError, match="no such folder"):
            lay_code(CodeDirectory(tmp_path / "src"), tmp_path / "code")


class TestInline:
    def test_texts_are_written_at_their_paths(self, tmp_path: Path):
        lay_code(CodeInline({"pkg/a.py": "é\n", "b.py": ""}), tmp_path / "code")

        assert (tmp_path / "code/pkg/a.py").read_text(encoding="utf-8") == "é\n"

    def test_names_that_lead_out_are_refused(self, tmp_path: Path):
        with pytest.raises(StartRefusedError, match=r"the inline files: '../x' lies outside"):
            lay_code(CodeInline({"../x": ""}), tmp_path / "code")


def test_code_that_is_there_is_left_as_it_is(tmp_path: Path):
    lay_code(CodeInline({"a": "first"}), tmp_path / "code")
    lay_code(CodeInline({"a": "second"}), tmp_path / "code")

    assert (tmp_path / "code/a").read_text() == "first"


def test_what_an_interrupted_call_left_is_replaced(tmp_path: Path):
    (tmp_path / "code.partial").mkdir()
    (tmp_path / "code.partial/half").touch()

    lay_code(CodeInline({"a": ""}), tmp_path / "code")

    assert everything_below(tmp_path) == {"code", "code/a"}


@pytest.mark.parametrize("swap", ["for a link", "for nothing"])
def test_a_file_that_is_swapped_while_it_is_copied_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
):
    (tmp_path / "src").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "src/x").write_text("x")
    looked = os.stat

    def swapped(path: object, *arguments: object, **options: object) -> os.stat_result:
        found = looked(path, *arguments, **options)  # type: ignore[arg-type]
        if path == "x" and (tmp_path / "src/x").exists():
            (tmp_path / "src/x").unlink()
            if swap == "for a link":
                (tmp_path / "src/x").symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr("os.stat", swapped)
    with pytest.raises(StartRefusedError, match="x cannot be copied"):
        lay_code(CodeDirectory(tmp_path / "src"), tmp_path / "code")
