"""Rules about roles: how many, names that stay apart in variables, host names that fit, pools, completion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import TypeAdapter

from shared.documents.fields import DnsLabel, shown
from shared.documents.parsing import pointer
from shared.errors import Violation
from shared.ids import DNS_LABEL_MAX, replica_id
from shared.jobspec.draft import ABSENT, Draft
from shared.jobspec.models import DEFAULT_ROLE, ROLES_MAX, Replicas, SucceedWhen
from shared.jobspec.reserved import role_token

# Every job id is as long as this one, and attempts have at most three digits.
_ANY_JOB: Final = "tj-aaaaaaaaaaaa"
_LAST_ATTEMPT: Final = 999

_ROLES: Final = ("spec", "roles")
_ROLE_NAME: Final = TypeAdapter(DnsLabel)
_REPLICAS: Final = TypeAdapter(Replicas)
_SUCCEED_WHEN: Final = TypeAdapter(SucceedWhen)


def count_is_right(draft: Draft) -> Iterator[Violation]:
    """A job has 1 to 10 roles."""
    count = draft.length(*_ROLES)
    if isinstance(draft.raw(*_ROLES), list) and not 1 <= count <= ROLES_MAX:
        code = "too-few" if count == 0 else "too-many"
        yield Violation(pointer(_ROLES), code, f"a job has 1 to {ROLES_MAX} roles; this one has {count}")


def names_stay_apart(draft: Draft) -> Iterator[Violation]:
    """No two role names are the same once they stand in variable names."""
    first_by_token: dict[str, str] = {}
    for index, name in role_names(draft):
        token = role_token(name)
        if token in first_by_token:
            yield Violation(
                _name_pointer(index),
                "duplicate-role",
                f"{shown(name)} and {shown(first_by_token[token])} would share the variables VC_{token[:40]}_…; "
                "give each role a name of its own",
            )
        first_by_token.setdefault(token, name)


def host_names_fit(draft: Draft) -> Iterator[Violation]:
    """The host name of every replica is a DNS label, also with the highest index and a late attempt."""
    for index in range(draft.length(*_ROLES)):
        name = draft.get(_ROLE_NAME, *_ROLES, index, "name")
        if name is None:
            continue
        replicas = draft.get(_REPLICAS, *_ROLES, index, "replicas") or 1
        excess = len(replica_id(_ANY_JOB, _LAST_ATTEMPT, name, replicas - 1)) - DNS_LABEL_MAX
        if excess > 0:
            yield Violation(
                _name_pointer(index),
                "host-name-too-long",
                f"host names made of this role name would pass {DNS_LABEL_MAX} characters; "
                f"with {replicas} replicas it may have at most {len(name) - excess}",
            )


def pools_are_named(draft: Draft) -> Iterator[Violation]:
    """A dedicated pool is named; the public one is the cluster's only one and has no name here."""
    for index in range(draft.length(*_ROLES)):
        place = (*_ROLES, index, "pool")
        kind, name = draft.raw(*place, "type"), draft.raw(*place, "name")
        if kind == "dedicated" and name is ABSENT:
            yield Violation(
                pointer((*place, "name")), "required", "name is missing; give the name of the dedicated pool"
            )
        if kind in ("public", ABSENT) and isinstance(name, str):
            yield Violation(
                pointer((*place, "name")),
                "pool-name-not-allowed",
                "the public pool has no name here; leave it out, or give type: dedicated",
            )


def completion_names_a_role(draft: Draft) -> Iterator[Violation]:
    """`role:<name>` names a role of this job."""
    place = ("spec", "completion", "succeedWhen")
    rule = draft.get(_SUCCEED_WHEN, *place)
    names = [name for _, name in role_names(draft)]
    if names and rule not in (None, "all") and rule.removeprefix("role:") not in names:
        yield Violation(
            pointer(place),
            "unknown-role",
            f"there is no role {shown(rule.removeprefix('role:'))}; the roles are {', '.join(map(shown, names))}",
        )


def role_names(draft: Draft) -> Iterator[tuple[int, str]]:
    """Position and name of each role that has a name in text, right or wrong."""
    for index in range(draft.length(*_ROLES)):
        if isinstance(draft.raw(*_ROLES, index), dict):
            name = draft.raw(*_ROLES, index, "name")
            name = DEFAULT_ROLE if name is ABSENT else name
            if isinstance(name, str):
                yield index, name


def _name_pointer(index: int) -> str:
    return pointer((*_ROLES, index, "name"))
