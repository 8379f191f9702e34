"""Folders that user code has filled."""

from __future__ import annotations

from pathlib import Path

from shared.trees import files_below, remove_tree
from tests.support.trees import BEYOND_ANY_PATH, BEYOND_ANY_STACK, make_deep


def test_a_tree_goes_whatever_is_in_it_and_links_are_not_followed(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    tree = tmp_path / "tree"
    (tree / "closed/deep").mkdir(parents=True)
    (tree / "link").symlink_to(outside)
    (tree / "closed/deep/file").touch()
    (tree / "closed/deep/link").symlink_to(outside)
    (tree / "closed/deep").chmod(0)
    (tree / "closed").chmod(0o500)

    remove_tree(tree)
    remove_tree(tree)

    assert list(tmp_path.iterdir()) == [outside]
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_tree_deeper_than_any_path_goes_too(tmp_path: Path):
    make_deep(tmp_path / "tree", BEYOND_ANY_PATH)

    remove_tree(tmp_path / "tree")

    assert list(tmp_path.iterdir()) == []


def test_names_that_a_tree_has_already_do_not_keep_it(tmp_path: Path):
    for name in (".lifted-0", ".lifted-1/full", "a/b/c", "a/.lifted-2/x", ".lifted-3/.lifted-4/x"):
        (tmp_path / "tree" / name).mkdir(parents=True)
    (tmp_path / "tree/.lifted-5").touch()

    remove_tree(tmp_path / "tree")

    assert list(tmp_path.iterdir()) == []


def test_what_is_no_folder_stays(tmp_path: Path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)

    remove_tree(tmp_path / "file")
    remove_tree(tmp_path / "link")

    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}


def test_files_are_found_deeper_than_any_stack_and_links_are_not_followed(tmp_path: Path):
    make_deep(tmp_path / "tree")
    (tmp_path / "tree/loop").symlink_to(tmp_path / "tree")

    found = list(files_below(tmp_path / "tree"))

    assert len(found) == BEYOND_ANY_STACK + 1
    assert {path.name for path in found} == {"file", "loop"}
    remove_tree(tmp_path / "tree")
