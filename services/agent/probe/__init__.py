"""The probe of this machine, run by the agent as `python -I services/agent/probe DIRECTORY`: a JSON object on stdout.

Nothing of this project is needed, and of other packages only `pynvml` where there is a driver of GPUs, so that it runs
wherever a Python is. `cpus` has every CPU compute, `host` reads passive facts, `network` InfiniBand and RoCE ports,
`kernel_log` what drivers have complained about since the machine was started, `gpus` what the driver says of each GPU.

`… probe places JSON` looks at directories instead, given as an object of paths: whether each can be read, and where its
value is true, written. Only rights and mount flags are looked at, nothing is written. It is a process of its own, since
a file system whose server is gone may never answer. `… probe mounts ROOT JSON` does so with directories of a node that
a container has below ROOT.
"""
