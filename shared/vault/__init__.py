"""Values of secrets: `keyring` seals them under keys that are never in the store, `store` keeps what is sealed."""

from shared.vault.keyring import Keyring, SealError
from shared.vault.store import Vault

__all__ = ["Keyring", "SealError", "Vault"]
