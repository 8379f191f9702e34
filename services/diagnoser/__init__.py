"""The diagnoser checks placed nodes before user code runs.

Diagnosis comes with a later issue; until then a job that asks for it is refused at submission. The service is here with
settings, health and its consumer, and a request that comes nevertheless is kept as a dead letter, never passed over.
"""
