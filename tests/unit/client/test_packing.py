from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmaster.errors import PackingError
from trainmaster.packing import packed

Write = Callable[[str, str], Path]


def names(folder: Path) -> list[str]:
    with packed(folder) as archive, tarfile.open(fileobj=archive.file) as tar:
        return [entry.name for entry in tar.getmembers()]


def digest(folder: Path) -> str:
    with packed(folder) as archive:
        return hashlib.sha256(archive.file.read()).hexdigest()


class TestDeterminism:
    def test_the_same_files_give_the_same_bytes_whatever_their_times_modes_and_order(
        self, tmp_path: Path, write: Write
    ) -> None:
        for name in ("b.py", "a.py", "sub/c.py"):
            write(f"one/{name}", name)
        for name in ("sub/c.py", "a.py", "b.py"):
            os.utime(write(f"two/{name}", name), (1, 1))
        (tmp_path / "two" / "a.py").chmod(0o600)
        assert digest(tmp_path / "one") == digest(tmp_path / "two")

    def test_content_names_and_the_executable_bit_change_the_bytes(self, tmp_path: Path, write: Write) -> None:
        path = write("src/a.sh", "x")
        digests = {digest(tmp_path / "src")}
        path.chmod(0o755)
        digests.add(digest(tmp_path / "src"))
        path.write_text("y")
        digests.add(digest(tmp_path / "src"))
        path.rename(path.with_name("b.sh"))
        digests.add(digest(tmp_path / "src"))
        assert len(digests) == 4

    def test_nothing_of_the_packing_machine_is_in_it(self, tmp_path: Path, write: Write) -> None:
        write("src/a.py", "x")
        with packed(tmp_path / "src") as archive, tarfile.open(fileobj=archive.file) as tar:
            (entry,) = tar.getmembers()
        facts = (entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.mode)
        assert facts == (0, 0, 0, "", "", 0o644)

    def test_long_and_foreign_names_survive(self, tmp_path: Path, write: Write) -> None:
        wanted = [f"{'d' * 120}/{'f' * 120}.py", "训练/é.py"]
        for name in wanted:
            write(f"src/{name}", "x")
        assert set(wanted) <= set(names(tmp_path / "src"))


class TestGitignore:
    def test_patterns_leave_out_files_and_folders(self, tmp_path: Path, write: Write) -> None:
        write("src/.gitignore", "*.log\nbuild/\n/only-here\n")
        for name in ("a.py", "a.log", "build/x", "only-here", "sub/only-here", "sub/b.log"):
            write(f"src/{name}", "x")
        assert names(tmp_path / "src") == [".gitignore", "a.py", "sub", "sub/only-here"]

    def test_a_deeper_file_has_the_last_word(self, tmp_path: Path, write: Write) -> None:
        write("src/.gitignore", "*.log\n")
        write("src/keep/.gitignore", "!wanted.log\n")
        for name in ("keep/wanted.log", "keep/other.log"):
            write(f"src/{name}", "x")
        assert names(tmp_path / "src") == [".gitignore", "keep", "keep/.gitignore", "keep/wanted.log"]

    def test_what_is_inside_an_ignored_folder_cannot_be_brought_back(self, tmp_path: Path, write: Write) -> None:
        write("src/.gitignore", "data/\n!data/small.csv\n")
        write("src/data/small.csv", "x")
        assert names(tmp_path / "src") == [".gitignore"]

    def test_git_and_python_caches_never_go_along(self, tmp_path: Path, write: Write) -> None:
        for name in (".git/config", "__pycache__/a.pyc", "sub/__pycache__/b.pyc", "a.py"):
            write(f"src/{name}", "x")
        assert names(tmp_path / "src") == ["a.py", "sub"]


class TestRefusals:
    def test_a_missing_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(PackingError, match="does not exist"), packed(tmp_path / "absent"):
            pass

    def test_a_file_is_no_folder(self, write: Write) -> None:
        with pytest.raises(PackingError, match="is a file"), packed(write("a.py", "x")):
            pass

    def test_a_folder_of_ignored_files_is_nothing_to_upload(self, tmp_path: Path, write: Write) -> None:
        write("src/a.log", "x")
        write("src/.gitignore", "*\n")
        with pytest.raises(PackingError, match="nothing to upload"), packed(tmp_path / "src"):
            pass

    @pytest.mark.parametrize("target", ["/etc/passwd", "../outside.txt", "../src/a.py", "loop"])
    def test_a_link_that_leads_out_or_nowhere_is_named(self, tmp_path: Path, write: Write, target: str) -> None:
        write("outside.txt", "secret")
        write("src/a.py", "x")
        (tmp_path / "src" / "loop").symlink_to(target)
        with pytest.raises(PackingError, match=r"loop links to .*which is not in"), packed(tmp_path / "src"):
            pass

    def test_a_link_within_stays_a_link(self, tmp_path: Path, write: Write) -> None:
        write("src/a.py", "x")
        (tmp_path / "src" / "b.py").symlink_to("a.py")
        with packed(tmp_path / "src") as archive, tarfile.open(fileobj=archive.file) as tar:
            assert tar.getmember("b.py").linkname == "a.py"

    def test_folders_too_deep_in_each_other_are_refused_and_can_be_left_out(self, tmp_path: Path, write: Write) -> None:
        write("src/a.py", "x")
        (tmp_path / "src/cache" / "/".join("d" * 200)).mkdir(parents=True)
        with pytest.raises(PackingError, match="more than 200 folders"), packed(tmp_path / "src"):
            pass
        write("src/.gitignore", "cache/")
        assert names(tmp_path / "src") == [".gitignore", "a.py"]

    def test_a_pipe_is_named_and_not_read(self, tmp_path: Path, write: Write) -> None:
        write("src/a.py", "x")
        os.mkfifo(tmp_path / "src" / "pipe")
        with pytest.raises(PackingError, match="pipe is neither file"), packed(tmp_path / "src"):
            pass
