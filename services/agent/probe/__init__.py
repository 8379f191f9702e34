"""The probe of this machine, run by the agent as `python -I -S services/agent/probe DIRECTORY`: JSON on stdout.

Nothing of this project is needed, and of other packages only `pynvml` where there is a driver of GPUs, so that it runs
wherever a Python is. `cpus` has every CPU compute, `host` reads passive facts, `network` InfiniBand and RoCE ports,
`kernel_log` what drivers have complained about since the machine was started, `gpus` what the driver says of each GPU.
Names behind the directory must have addresses, as the machine's own.

`… probe places JSON` looks at directories instead, given as an object of paths: whether each can be read, and where its
value is true, written (`writing`). It is a process of its own, since a file system whose server is gone may never
answer. `… probe mounts ROOT JSON` looks at directories of a node that a container has below ROOT, and writes nothing.
"""
