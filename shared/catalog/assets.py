"""Kinds that jobs use: data, images, code and secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from shared.catalog.base import Access, CatalogDocument, Members
from shared.catalog.fields import DataUri, DirectoryUri, GitUrl, SecretValue
from shared.documents.fields import Argument, Document, Name, RelativePath, Text, UploadDigest


class DataSpec(Document):
    """Where data is and who may use it."""

    uri: DataUri = Field(
        description="a URI such as file:///data/mnist, s3://bucket/mnist, pvc://claim/mnist or nfs://server/mnist"
    )
    access: Access = Field(Access(), description="an object with public, users and groups")
    description: Text = Field("", description="a text")


class Storage(CatalogDocument):
    """A file store with a root; jobs mount paths below it."""

    SINGULAR = "storage"
    PREFIX = "s"

    kind: Literal["Storage"] = Field(description="'Storage'")
    spec: DataSpec = Field(description="an object with uri and access")


class Dataset(CatalogDocument):
    """A name for data to train on."""

    SINGULAR = "dataset"
    PREFIX = "d"

    kind: Literal["Dataset"] = Field(description="'Dataset'")
    spec: DataSpec = Field(description="an object with uri and access")


class Model(CatalogDocument):
    """A name for a trained model."""

    SINGULAR = "model"
    PREFIX = "m"

    kind: Literal["Model"] = Field(description="'Model'")
    spec: DataSpec = Field(description="an object with uri and access")


class ImageSpec(Document):
    """An image in a registry."""

    type: Literal["platform", "custom"] = Field("custom", description="'platform' or 'custom'")
    address: Argument = Field(description="an address such as registry.example/team/image:tag")
    pull_secret: Name | None = Field(None, description="the name of a secret with a .dockerconfigjson")
    access: Access = Field(Access(), description="an object with public, users and groups")
    description: Text = Field("", description="a text")


class Image(CatalogDocument):
    """A name for an image: the platform's own, or a user's."""

    SINGULAR = "image"
    PREFIX = "i"

    kind: Literal["Image"] = Field(description="'Image'")
    spec: ImageSpec = Field(description="an object with type, address and access")


class GitRepository(Document):
    """Where a repository is, and what opens it."""

    url: GitUrl = Field(description="a URL such as https://git.example/team/code.git")
    secret: Name | None = Field(None, description="the name of a secret with the password or token")
    username: Name | None = Field(None, description="the user that the password or token belongs to")


class CodeSetSpec(Document):
    """Code in one of the ways that there are."""

    upload: UploadDigest | None = Field(None, description="the digest of an upload (sha256:…)")
    directory: DirectoryUri | None = Field(None, description="a URI such as file:///data/code")
    inline: Mapping[RelativePath, Text] | None = Field(None, description="an object of file paths, each with its text")
    git: GitRepository | None = Field(None, description="an object with url, and secret where one is needed")
    access: Access = Field(Access(), description="an object with public, users and groups")
    description: Text = Field("", description="a text")


class CodeSet(CatalogDocument):
    """A name for code that jobs find at /code."""

    SINGULAR = "code-set"
    PREFIX = "cs"

    kind: Literal["CodeSet"] = Field(description="'CodeSet'")
    spec: CodeSetSpec = Field(description="an object with one of upload, directory, inline and git")


class SecretSpec(Document):
    """Who may use it. The value is written here and never kept in the catalog."""

    value: SecretValue | None = Field(None, repr=False, description="a text, such as a token")
    access: Members = Field(Members(), description="an object with users and groups")
    description: Text = Field("", description="a text")


class Secret(CatalogDocument):
    """A name for a value that nobody can read back and that jobs find in their environment."""

    SINGULAR = "secret"
    PREFIX = "sec"

    kind: Literal["Secret"] = Field(description="'Secret'")
    spec: SecretSpec = Field(SecretSpec(), description="an object with value and access")
