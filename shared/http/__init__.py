"""The HTTP factory: every service builds its API with `app.create_app` and `routing.api_router`, and nothing else.

`routing` decides about one request before its handler runs (who asks, how large, is it strict JSON), `problems` turns
every error into RFC 9457, `middleware` gives request ids, metrics and a last resort, `origin` puts several services
behind one address, `serve` runs the server, and `sse`, `etag` and `paging` hold the shapes that several services share.
"""
