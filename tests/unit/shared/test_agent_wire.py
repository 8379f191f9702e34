"""What agents are asked and what they answer."""

from __future__ import annotations

import pytest

from shared.agent_wire import (
    Gpu,
    MalformedAnswerError,
    Shipped,
    decode_probe_answer,
    decode_probe_request,
    decode_shipped,
    decode_shipped_request,
    encode_probe_answer,
    encode_probe_request,
    encode_shipped,
    encode_shipped_request,
    probe_subject,
    shipped_subject,
)
from tests.support.probes import measurement


def test_a_request_and_its_answer_come_back_as_they_were():
    assert decode_probe_request(encode_probe_request({"n-2", "n-1"})) == ("n-1", "n-2")
    measured = {"n-1": measurement(gpus=(Gpu("GPU-1", "H200", 2),))}
    assert decode_probe_answer(encode_probe_answer(measured)) == measured


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"nodes": 3}', b'{"nodes": {"n-1": {}}}'])
def test_other_bytes_are_refused(body):
    with pytest.raises(MalformedAnswerError):
        decode_probe_answer(body)
    if body != b'{"nodes": {"n-1": {}}}':
        with pytest.raises(MalformedAnswerError):
            decode_probe_request(body)


@pytest.mark.parametrize(("machine", "token"), [("host-1", "host-1"), ("a.b c*>", "a-b-c"), ("…", "local")])
def test_any_name_of_a_machine_is_one_token(machine, token):
    assert probe_subject(machine) == f"tm.agent.{token}.probe"


def test_what_is_asked_and_told_of_a_gang_comes_back_as_it_was():
    assert decode_shipped_request(encode_shipped_request("tj-a-1")) == "tj-a-1"
    for told in (Shipped("tj-a-1"), Shipped("tj-a-1", ("worker-0", "the pods are not known yet"))):
        assert decode_shipped(encode_shipped(told)) == told
    assert Shipped("tj-a-1").is_all
    assert not Shipped("tj-a-1", ("worker-0",)).is_all
    assert shipped_subject("east.gpu-7") == "tm.agent.east-gpu-7.shipped"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"gang": "x", "waits_for": 3}'])
def test_other_bytes_say_nothing_of_a_gang(body):
    with pytest.raises(MalformedAnswerError):
        decode_shipped(body)
    if b"gang" not in body:
        with pytest.raises(MalformedAnswerError):
            decode_shipped_request(body)
