"""The submitter's use cases: each loads, asks the domain, writes, and answers; HTTP is above, the bus below them."""
