"""What the submitter decides, pure and synchronous: admission, asset and account rules, the documents it answers."""
