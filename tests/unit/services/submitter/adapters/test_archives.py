"""Archives that are hostile, and those that are not."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from services.submitter.adapters.archives import UNPACKED_MAX_BYTES, check_archive
from shared.errors import InvalidInputError


def archive(*members: tarfile.TarInfo, tail: bytes = b"") -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(min(member.size, 1 << 16))) if member.isreg() else None)
    return io.BytesIO(gzip.compress(buffer.getvalue() + tail))


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    return info


def code_of(file: io.BytesIO) -> str | None:
    try:
        check_archive(file)
    except InvalidInputError as error:
        return error.violations[0].code
    finally:
        assert file.tell() == 0
    return None


def test_files_folders_and_links_inside_are_fine() -> None:
    folder, file = member("src", tarfile.DIRTYPE), member("src/训练.py", size=10)
    link = member("src/link", tarfile.SYMTYPE, link="../README")
    assert code_of(archive(folder, file, link)) is None
    assert code_of(archive()) is None


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/passwd"),
        member("../x"),
        member("a/../../x"),
        member("dev", tarfile.CHRTYPE),
        member("pipe", tarfile.FIFOTYPE),
        member("link", tarfile.SYMTYPE, link="/etc"),
        member("a/link", tarfile.SYMTYPE, link="../../x"),
        member("hard", tarfile.LNKTYPE, link="file"),
        member("a/" * 201 + "x"),
    ],
    ids=lambda info: f"{info.name}-{info.linkname}",
)
def test_what_would_leave_the_folder_is_refused(bad: tarfile.TarInfo) -> None:
    assert code_of(archive(member("good"), bad)) == "archive-member"


def test_a_file_that_unpacks_to_terabytes_is_refused_by_its_header() -> None:
    huge = member("huge", size=UNPACKED_MAX_BYTES * 1000)
    content = gzip.compress(huge.tobuf(tarfile.PAX_FORMAT) + bytes(1 << 16))
    assert code_of(io.BytesIO(content)) == "archive-unreadable"


def test_a_header_of_a_gigabyte_is_never_read_into_memory() -> None:
    header = member("pax", tarfile.XHDTYPE, size=1 << 30)
    content = gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 16))
    assert code_of(io.BytesIO(content)) == "archive-unreadable"


@pytest.mark.parametrize(
    "content", [b"", b"x", gzip.compress(b"", mtime=0), gzip.compress(b"x" * 2000, mtime=0), b"\x1f\x8b\x08"]
)
def test_what_is_no_archive_is_refused(content: bytes) -> None:
    assert code_of(io.BytesIO(content)) == "archive-unreadable"


@pytest.mark.parametrize("size", [-1, -512, -1024])
def test_a_size_below_zero_which_would_have_the_reader_go_back_is_refused(size: int) -> None:
    header = bytearray(member("x").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)  # type: ignore[attr-defined]
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    file = archive(member("before"))
    plain = gzip.decompress(file.read())[:512] + bytes(header) + bytes(1024)

    assert code_of(io.BytesIO(gzip.compress(plain))) == "archive-member"
