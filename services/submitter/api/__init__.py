"""The submitter over HTTP: a module a prefix, a function a route; each hands the request to its use case."""
