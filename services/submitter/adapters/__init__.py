"""What the submitter does to the world: password hashes in their bucket, archives in files, followers of events."""
