"""Platforms behind TLS: whose certificates are trusted, and what is said of those that are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_platform import FakePlatform, fake_platform, of_json
from tests.support.git import make_certificate
from trainmaster.errors import InputError, UnreachableError
from trainmaster.transport import Transport


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return make_certificate(tmp_path)


@pytest.fixture
def private(certificate: tuple[Path, Path]) -> Iterator[FakePlatform]:
    """A platform whose certificate no authority of this machine made."""
    with fake_platform(certificate) as platform:
        platform.on("GET", "/v1/x", of_json({"a": 1}))
        yield platform


def test_an_authority_of_ones_own_is_trusted_where_it_is_named(
    private: FakePlatform, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert Transport(private.url).document("GET", "/v1/x") == {"a": 1}


def test_a_certificate_that_is_not_trusted_is_told_as_such_with_what_to_do(private: FakePlatform) -> None:
    with pytest.raises(UnreachableError, match=r"is not trusted .*SSL_CERT_FILE") as caught:
        Transport(private.url).document("GET", "/v1/x")
    assert "nothing answers" not in str(caught.value)


def test_a_server_that_speaks_no_tls_is_told_as_such(platform: FakePlatform) -> None:
    with pytest.raises(UnreachableError, match="does it speak https"):
        Transport(platform.url.replace("http:", "https:")).document("GET", "/v1/x")


def test_certificates_that_cannot_be_read_are_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
    with pytest.raises(InputError, match="SSL_CERT_FILE"):
        Transport("https://train.example")
