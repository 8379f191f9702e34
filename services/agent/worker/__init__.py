"""The tests of a diagnosis on one machine, in processes of their own: `python -I services/agent/worker HOST [WHY]`.

Only the standard library is needed, and nothing of this project, so that it runs under any interpreter of the machine,
above all the one that has PyTorch; where that can be imported, devices are tested by it and nodes exchange data as a
training job does (NCCL between GPUs, Gloo between CPUs). The functions are the same for both kinds of devices. With a
WHY PyTorch is not imported, for that reason.

`lead` is the process that the agent starts: it imports PyTorch once and forks a process for each device of each node,
a `rank`, which stays for the length of the diagnosis. `kernels` has what a rank does alone, `groups` what ranks do
together, `devices` what both know of a device, `steady` when a figure is known well enough. `tcp` is the way between
two nodes where one of them has no PyTorch.
"""
