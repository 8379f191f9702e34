"""What all kinds of catalog documents have in common, as users write them and as the bucket keeps them.

A document is `apiVersion`, `kind`, `metadata`, `spec`. What the platform fills in (owner, times, sequence, `status`) is
accepted in what users send and not looked at, so that a document that was read can be applied again. The class
variables of a kind say how it is called in keys of the bucket and messages (`SINGULAR`) and in ids (`PREFIX`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AwareDatetime, Field, JsonValue, PlainSerializer, StrictBool

from shared.clock import rfc3339
from shared.documents.fields import Document, Name
from shared.ids import hashed_id
from shared.jobspec.models import API_VERSION

Time = Annotated[AwareDatetime, PlainSerializer(rfc3339, return_type=str)]

A_NAME = 'a name of at most 128 characters, without / : * ? " < > | and white space'
NAMES_OF_USERS = "a list of user names"
_NAMES_OF_GROUPS = "a list of group names"
ON_OFF = "true or false"
_FILLED_IN = "nothing; the platform fills this in"


class Metadata(Document):
    """What the document is called; the rest is filled in by the platform."""

    name: Name = Field(description=A_NAME)
    id: str | None = Field(None, description=_FILLED_IN)
    owner: Name | None = Field(None, description=_FILLED_IN)
    created_at: Time | None = Field(None, description=_FILLED_IN)
    updated_at: Time | None = Field(None, description=_FILLED_IN)
    sequence: int | None = Field(None, description=_FILLED_IN)


class Members(Document):
    """Users and groups by name."""

    users: tuple[Name, ...] = Field((), description=NAMES_OF_USERS)
    groups: tuple[Name, ...] = Field((), description=_NAMES_OF_GROUPS)


class Access(Members):
    """Who may use an asset beside its owner and the admins."""

    public: StrictBool = Field(default=False, description=ON_OFF)


class CatalogDocument(Document):
    """Base of all kinds."""

    SINGULAR: ClassVar[str]
    PREFIX: ClassVar[str]

    api_version: Literal["trainmaster/v1"] = Field(description=f"'{API_VERSION}'")
    metadata: Metadata = Field(description="an object with the name")
    spec: Document
    status: JsonValue = Field(None, description=_FILLED_IN)

    @property
    def name(self) -> str:
        """Name that the users gave it."""
        return self.metadata.name

    @property
    def owner(self) -> str | None:
        """Name of the user who made it, where the kind has owners."""
        return self.metadata.owner

    @property
    def id(self) -> str:
        """Id that the name always means."""
        return self.id_of(self.name)

    @classmethod
    def plural(cls) -> str:
        """How the kind is called in paths."""
        return f"{cls.SINGULAR}s"

    @classmethod
    def id_of(cls, name: str) -> str:
        """Id of the document of this kind with this name."""
        return hashed_id(cls.PREFIX, name)

    @classmethod
    def key_of(cls, name: str) -> str:
        """Key of the bucket under which the document with this name is."""
        return f"{cls.SINGULAR}.{cls.id_of(name)}"

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return self.model_dump(mode="json", exclude_none=True)
