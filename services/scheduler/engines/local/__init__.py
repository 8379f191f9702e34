"""The local engine: replicas as processes of this machine, in bubblewrap sandboxes where those work.

`engine` is what stands behind the port. A gang is a directory (`gang_dir`), made whole by `preparation` (with `unpack`
for code and `master_port` for the rendezvous) and run by `launcher`, which starts one `runner` a replica, inside the
root that `sandbox` describes, with what `mounts` has opened. `lookout` tells what became of each replica, read off its
files by `replica_state`; `stopping` ends a gang. `inventory` tells what the machine has, `memory_groups` limits memory
where cgroups are writable, `strays` finds what a lost runner left.

`python -m services.scheduler.engines.local -- COMMAND` runs one command the way a replica runs.
"""
