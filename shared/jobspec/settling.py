"""What a document means before it is read: shorthands are written out, so that models and rules know one form only.

`VC_<ROLE>_NUM` in `env` becomes the `replicas` of that role; a single mount without a path is mounted at /mnt/data; a
path of a directory loses the slash at its end; a job of a framework template that does not say when it has succeeded
has when its master has.
Only the sections concerned are copied; the user's document stays as it is.
"""

from __future__ import annotations

import re
from typing import Final

from shared.documents.fields import shown
from shared.documents.parsing import json_kind, pointer
from shared.errors import Violation
from shared.jobspec.draft import ABSENT, Draft
from shared.jobspec.models import REPLICAS_MAX, TEMPLATES
from shared.jobspec.reserved import MASTER_ROLE, role_token, role_token_of_variable
from shared.jobspec.rules.roles import role_names

DEFAULT_MOUNT_PATH: Final = "/mnt/data"

_COUNT: Final = re.compile(r"[1-9]\d{0,4}", re.ASCII)
_ENDS_WITH_SLASH: Final = re.compile(r"[^/]/\Z")


def settle(document: dict[str, object]) -> tuple[dict[str, object], tuple[Violation, ...]]:
    """The document in its long form, and what was wrong with the short one."""
    draft = Draft(document)
    changed, violations = _settle_replicas(draft)
    changed |= _settle_mounts(draft) | _settle_directories(draft) | _settle_completion(draft)
    if not changed:
        return document, violations
    return {**document, "spec": draft.mapping("spec") | changed}, violations


def _settle_mounts(draft: Draft) -> dict[str, object]:
    mounts = [draft.raw("spec", "mounts", index) for index in range(draft.length("spec", "mounts"))]
    path = {"mountPath": DEFAULT_MOUNT_PATH} if len(mounts) == 1 else {}
    settled = [
        path | mount | _shortened(mount, "mountPath", "subPath") if isinstance(mount, dict) and mount else mount
        for mount in mounts
    ]
    return {"mounts": settled} if settled != mounts else {}


def _settle_directories(draft: Draft) -> dict[str, object]:
    sections = {name: draft.mapping("spec", name) for name in ("tensorboard", "checkpoint")}
    shorter = {name: _shortened(section, "logDir", "dir") for name, section in sections.items()}
    return {name: sections[name] | paths for name, paths in shorter.items() if paths}


def _shortened(section: dict[str, object], *keys: str) -> dict[str, object]:
    """Those of the paths that are written with a slash at their end, without it."""
    paths = {key: section.get(key) for key in keys}
    return {key: path[:-1] for key, path in paths.items() if isinstance(path, str) and _ENDS_WITH_SLASH.search(path)}


def _settle_completion(draft: Draft) -> dict[str, object]:
    completion = draft.raw("spec", "completion")
    is_open = completion in (ABSENT, None, {})
    has_master = any(name == MASTER_ROLE for _, name in role_names(draft))
    if not is_open or not has_master or draft.raw("spec", "framework") not in TEMPLATES:
        return {}
    return {"completion": {"succeedWhen": f"role:{MASTER_ROLE}"}}


def _settle_replicas(draft: Draft) -> tuple[dict[str, object], tuple[Violation, ...]]:
    """`roles` and `env` with every `VC_<ROLE>_NUM` moved from the latter into the former."""
    env = draft.mapping("spec", "env")
    moved = {name: token for name in env if (token := role_token_of_variable(name))}
    if not moved:
        return {}, ()
    index_by_token = {role_token(name): index for index, name in reversed(list(role_names(draft)))}
    roles = [draft.raw("spec", "roles", index) for index in range(draft.length("spec", "roles"))]
    violations = []
    for name, token in moved.items():
        index, count = index_by_token.get(token), _count(env[name])
        if index is None:
            violations.append(_unknown_role(name, list(index_by_token)))
        elif count is None:
            violations.append(_not_a_count(name, env[name]))
        else:
            roles[index] = draft.mapping("spec", "roles", index) | {"replicas": count}
    settled: dict[str, object] = {"env": {name: text for name, text in env.items() if name not in moved}}
    return settled | ({"roles": roles} if roles else {}), tuple(violations)


def _count(value: object) -> int | None:
    """Number of replicas in a variable: text of digits, or a number."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    count = int(text) if _COUNT.fullmatch(text) else 0
    return count if 1 <= count <= REPLICAS_MAX else None


def _unknown_role(name: str, tokens: list[str]) -> Violation:
    known = ", ".join(f"VC_{token}_NUM" for token in tokens) or "none, as no role has a name yet"
    return Violation(
        pointer(("spec", "env", name)),
        "unknown-role",
        f"{shown(name)} sets the replicas of a role that is not here; the variables of this kind are {known}",
    )


def _not_a_count(name: str, value: object) -> Violation:
    given = shown(value) if isinstance(value, str) else f"{json_kind(value)} such as this one"
    return Violation(
        pointer(("spec", "env", name)),
        "replicas-invalid",
        f"{given} is no number of replicas; give an integer from 1 to {REPLICAS_MAX}",
    )
