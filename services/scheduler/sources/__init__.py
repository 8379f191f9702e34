"""Where code and data of a gang come from before its start, and where data goes after its end.

`job_secrets` opens secrets. `code` chooses by kind of code; `repositories` gets commits of git repositories, by way of
`git_command` and, for those on this machine, `snapshot`. `data` brings what is at `s3://` here and back, a `mirror` a
mount, by way of `object_store`.
"""
