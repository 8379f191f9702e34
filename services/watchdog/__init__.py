"""The watchdog decides what becomes of a job whose attempt ended.

`decision` is the pure judgement, `handlers` loads the job, judges and commits, `bootstrap` wires, `settings` says which
environment variables it reads. Rules, incidents, hang verdicts and retries come with a later issue; until then it
serves no route of its own and every decision is "no retry", since a job that asks for retries is refused at submission.
"""
