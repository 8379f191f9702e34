"""What `POST /v1/tensorboard` answers."""

from __future__ import annotations

from dataclasses import dataclass

from trainmaster.decoding import Document, Fields


@dataclass(frozen=True, slots=True)
class TensorBoard:
    """A TensorBoard that answers; `browser_url` lets a browser in once, for `expires_in_s` seconds."""

    id: str
    url: str
    browser_url: str
    expires_in_s: int
    runs: tuple[str, ...]
    document: Document

    @classmethod
    def of(cls, document: Document, platform_url: str) -> TensorBoard:
        """The TensorBoard of an answer of the platform at this address."""
        fields = Fields.of(document)
        root = platform_url.rstrip("/")
        return cls(
            id=fields.text("id"),
            url=root + fields.text("url"),
            browser_url=root + fields.text("ticket"),
            expires_in_s=fields.integer("expiresIn"),
            runs=tuple(run.text("name") for run in fields.each("runs")),
            document=document,
        )
