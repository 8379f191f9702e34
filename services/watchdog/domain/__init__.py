"""Pure judgement: matching lines, deciding about retries, and telling silence from work."""
