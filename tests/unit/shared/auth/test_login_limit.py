from __future__ import annotations

import pytest

from shared.auth.login_limit import FREE_TRIES, LoginLimiter
from shared.clock import ManualClock
from shared.errors import TooManyRequestsError


def use_up(limiter: LoginLimiter, key: str = "ada") -> None:
    for _ in range(FREE_TRIES):
        limiter.attempt(key)


def test_tries_beyond_the_free_ones_have_to_wait() -> None:
    limiter = LoginLimiter(ManualClock())
    use_up(limiter)
    with pytest.raises(TooManyRequestsError) as raised:
        limiter.attempt("ada")
    assert raised.value.retry_after_s == 60


async def test_one_try_is_forgiven_each_minute() -> None:
    clock = ManualClock()
    limiter = LoginLimiter(clock)
    use_up(limiter)
    await clock.advance(59)
    with pytest.raises(TooManyRequestsError) as raised:
        limiter.attempt("ada")
    assert raised.value.retry_after_s == 1
    await clock.advance(1)
    limiter.attempt("ada")
    with pytest.raises(TooManyRequestsError):
        limiter.attempt("ada")


def test_a_refused_try_does_not_make_the_wait_longer() -> None:
    limiter = LoginLimiter(ManualClock())
    use_up(limiter)
    for _ in range(100):
        with pytest.raises(TooManyRequestsError) as raised:
            limiter.attempt("ada")
    assert raised.value.retry_after_s == 60


def test_a_right_password_forgets_the_wrong_ones() -> None:
    limiter = LoginLimiter(ManualClock())
    use_up(limiter)
    limiter.succeeded("ada")
    use_up(limiter)


def test_keys_do_not_touch_each_other() -> None:
    limiter = LoginLimiter(ManualClock())
    use_up(limiter)
    limiter.attempt("bob")


def test_the_state_is_bounded_and_the_longest_untouched_goes_first() -> None:
    limiter = LoginLimiter(ManualClock(), max_keys=3)
    use_up(limiter, "ada")
    for key in ("b", "c"):
        limiter.attempt(key)
    with pytest.raises(TooManyRequestsError):
        limiter.attempt("ada")
    limiter.attempt("d")
    limiter.attempt("ada")
