"""Who asks and what they may see: principals, Ed25519 tokens and their revocation, passwords, login rate limits."""
