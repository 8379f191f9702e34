"""Users, groups, passwords, logins."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from services.submitter.adapters.credentials import Credentials
from services.submitter.domain import accounts, assets
from services.submitter.handlers.assets import parsed
from shared.auth.login_limit import LoginLimiter
from shared.auth.passwords import Passwords
from shared.auth.principal import Principal
from shared.auth.revocations import KvRevocations
from shared.auth.tokens import IssuedToken, TokenIssuer
from shared.catalog import Catalog, CatalogDocument, CatalogWatch, CatalogWriter, Entry, Group, User, Written
from shared.clock import Clock
from shared.errors import InvalidInputError, NotFoundError, UnauthenticatedError, Violation
from shared.ids import UserId
from shared.jobspec.models import API_VERSION
from shared.readmodel import JobQuery, JobReadModel


@dataclass(frozen=True, slots=True)
class AccountHandlers:
    """The use cases about who may do what."""

    watch: CatalogWatch
    writer: CatalogWriter
    credentials: Credentials
    passwords: Passwords
    limiter: LoginLimiter
    issuer: TokenIssuer
    revocations: KvRevocations
    jobs: JobReadModel
    clock: Clock

    # --- logging in --------------------------------------------------------------------------------------------------

    async def login(self, username: str, password: str, client: str) -> IssuedToken:
        """A token for the user; raises UnauthenticatedError, the same for every reason, or TooManyRequestsError."""
        tries = f"{username}|{client}"
        self.limiter.attempt(tries)
        catalog = await self.watch.refresh()
        user = catalog.get(User, username)
        kept = await self.credentials.hash_of(user.id) if user is not None and not user.spec.disabled else None
        if not await self.passwords.verify(kept, password) or user is None or kept is None:
            raise UnauthenticatedError("user name or password is wrong")
        self.limiter.succeeded(tries)
        if self.passwords.outdated(kept):
            await self.credentials.keep(user.id, await self.passwords.hash(password))
        return self.issuer.issue(_principal_of(user))

    async def change_password(self, principal: Principal, current: str, new: str, client: str) -> IssuedToken:
        """Set the principal's own password; every token from before is taken back, and a new one given."""
        try:
            await self.login(principal.name, current, client)
        except UnauthenticatedError:
            # The token is fine, so this must not look as if it were not.
            wrong = Violation("/current", "wrong-password", "this is not your present password")
            raise InvalidInputError((wrong,)) from None
        await self._set_password(principal.user_id, new)
        await self.revocations.revoke_user(principal.user_id)
        catalog = await self.watch.refresh()
        user = catalog.get(User, principal.name)
        if user is None:
            raise NotFoundError("user", principal.name)
        return self.issuer.issue(_principal_of(user))

    async def ensure_admin(self, name: str, password: str) -> None:
        """Make the first user of a platform that has none."""
        catalog = await self.watch.refresh()
        if any(catalog.all(User)):
            return
        spec = {"admin": True, "password": password}
        body = {"apiVersion": API_VERSION, "kind": "User", "metadata": {"name": name}, "spec": spec}
        await self._put_user(name, parsed(User, name, body), None)
        structlog.get_logger(service="submitter").info("first_admin_made", user=name)

    # --- users and groups --------------------------------------------------------------------------------------------

    async def get(self, principal: Principal, kind: type[CatalogDocument], name: str) -> Entry[CatalogDocument]:
        """A user or group."""
        accounts.check_may_read(kind, name, principal)
        entry = (await self.watch.refresh()).find(kind, name)
        if entry is None:
            raise NotFoundError(kind.SINGULAR, name)
        return entry

    async def all(self, principal: Principal, kind: type[CatalogDocument]) -> list[Entry[CatalogDocument]]:
        """All users or groups, by name."""
        accounts.check_admin(principal)
        return list((await self.watch.refresh()).entries(kind))

    async def put_user(self, principal: Principal, name: str, body: object, if_match: int | None) -> Written[User]:
        """Keep a user; where rights or password change, the tokens that they have are taken back."""
        accounts.check_admin(principal)
        past = JobQuery(owner=User.id_of(name), limit=1, with_deleted=True)
        return await self._put_user(name, parsed(User, name, body), if_match, has_jobs=bool(self.jobs.query(past).jobs))

    async def put_group(self, principal: Principal, name: str, body: object, if_match: int | None) -> Written[Group]:
        """Keep a group."""
        accounts.check_admin(principal)
        group = parsed(Group, name, body)

        def make(catalog: Catalog, before: Entry[Group] | None) -> Group:
            accounts.check_group(group, catalog)
            return assets.stamped(group, before, self.clock.now())

        return await self.writer.put(Group, name, make, if_match=if_match)

    async def delete_user(self, principal: Principal, name: str, if_match: int | None) -> None:
        """Remove a user who owns nothing and has no live job."""
        accounts.check_admin(principal)
        user_id = User.id_of(name)

        def check(catalog: Catalog, entry: Entry[User]) -> None:
            live = sum(job.owner == user_id for job in self.jobs.live())
            accounts.check_deletable(entry.document, catalog, live)

        await self.writer.delete(User, name, check, if_match=if_match)
        await self.credentials.forget(user_id)
        await self.revocations.revoke_user(user_id)

    async def delete_group(self, principal: Principal, name: str, if_match: int | None) -> None:
        """Remove a group; what was shared with it is shared with nobody through it."""
        accounts.check_admin(principal)
        await self.writer.delete(Group, name, lambda _catalog, _entry: None, if_match=if_match)

    async def _put_user(self, name: str, user: User, if_match: int | None, *, has_jobs: bool = False) -> Written[User]:
        def make(catalog: Catalog, before: Entry[User] | None) -> User:
            if before is None:
                accounts.check_new_name(name, catalog, has_jobs=has_jobs)
            accounts.check_user(user, before.document if before else None, catalog)
            return assets.stamped(accounts.without_password(user), before, self.clock.now())

        written = await self.writer.put(User, name, make, if_match=if_match)
        if user.spec.password is not None:
            await self._set_password(user.id, user.spec.password)
        if accounts.rights_changed(user, written.before):
            await self.revocations.revoke_user(user.id)
        return written

    async def _set_password(self, user_id: str, password: str) -> None:
        await self.credentials.keep(user_id, await self.passwords.hash(password))


def _principal_of(user: User) -> Principal:
    return Principal(UserId(user.id), user.name, user.spec.admin)
