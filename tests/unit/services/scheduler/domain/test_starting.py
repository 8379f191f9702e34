"""What the engine is given to start."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from services.scheduler.domain.choosing import Among
from services.scheduler.domain.starting import gang_start, places_of_users, stored_code
from services.scheduler.ports.engine import StartRefusedError
from services.scheduler.ports.gangs import CodeDirectory, CodeInline, PoolTerms
from shared import events as ev
from shared.jobs import fold_all
from tests.support.catalog import catalog_of, dataset, pool, storage
from tests.support.jobs import history, role, submitted

ROLES = [
    {"name": "worker", "replicas": 2, "instanceType": "gpu", "command": "work $RANK"},
    {"name": "master", "replicas": 1, "instanceType": "gpu", "command": "lead"},
]
PLACED = ev.Placed(
    cluster="main",
    roles=(
        ev.RolePlacement(
            role="worker", pool="p", nodes=("n-1", "n-2"), node_of=(0, 1), devices=(("g0", "g1"), ("g2", "g3"))
        ),
        ev.RolePlacement(role="master", pool="p", nodes=("n-3",), node_of=(0,)),
    ),
)
MOUNT = ev.ResolvedMount(
    mount_path="/mnt/data", type="storage", source="team", uri="file:///srv/team/mnist", root="file:///srv/team"
)


def job(found: ev.ResolvedCode | None = None, mount: ev.ResolvedMount = MOUNT, **spec):
    made = submitted()
    roles = (role("worker", gpu_count=2, memory_bytes=7), role("master"))
    resolved = ev.Resolved(cluster="main", roles=roles, mounts=(mount,), code=found)
    mounts = [{"type": "storage", "source": "team", "mountPath": "/mnt/data"}]
    full = {**made.spec, "roles": ROLES, "mounts": mounts, **spec}
    made = made.model_copy(update={"spec": full, "resolved": resolved})
    return fold_all(history([(made, 1), (PLACED, 1)]))


def started(**spec):
    return gang_start(job(**spec), PLACED, None, {}, data={}, named_hosts=True)


def test_replicas_come_in_the_order_of_their_ranks():
    gang = started()
    assert [(replica.role, replica.index, replica.env["RANK"]) for replica in gang.replicas] == [
        ("master", 0, "0"),
        ("worker", 0, "1"),
        ("worker", 1, "2"),
    ]


def test_each_replica_has_its_command_node_devices_and_memory():
    last = started().replicas[2]
    assert (last.command, last.node, last.devices, last.memory_bytes) == ("work $RANK", "n-2", ("g2", "g3"), 7)
    assert (last.gpus, last.cpu_m) == (2, 1000)
    assert last.env["NPROC_PER_NODE"] == "2"
    assert last.env["TM_DATA_TEAM"] == "/mnt/data"


def test_mounts_are_paths_of_the_host_that_do_not_lead_out_of_their_root():
    (mount,) = started().mounts
    assert (mount.source, mount.path, mount.root) == (Path("/srv/team/mnist"), "/mnt/data", Path("/srv/team"))


def test_mounts_are_told_also_as_a_volume_and_a_part_of_it():
    (mount,) = started().mounts
    assert (mount.uri, mount.sub_path) == ("file:///srv/team", "mnist")


def test_a_mount_that_is_not_on_this_machine_has_no_path_there():
    (mount,) = started(mount=ev.ResolvedMount(mount_path="/mnt/data", type="dataset", source="c", uri="pvc://c")).mounts
    assert (mount.source, mount.uri, mount.sub_path) == (None, "pvc://c", "")


def test_directories_and_grace_come_from_the_spec():
    gang = started(tensorboard={"logDir": "/mnt/data/runs"}, terminationGrace="5s", checkpoint={"dir": "/mnt/data/c"})
    assert (gang.tensorboard_dir, gang.termination_grace_s) == ("/mnt/data/runs", 5)
    assert gang.replicas[0].env["TM_TENSORBOARD_DIR"] == "/mnt/data/runs"
    assert gang.replicas[0].env["TM_CHECKPOINT_DIR"] == "/mnt/data/c"


def test_the_gangs_files_are_given_along():
    assert set(started().files) == {"hosts/worker", "hosts/master", "hostfile", "python/trainmaster_hook.py"}


def test_deepspeed_finds_its_hosts_only_where_there_are_several():
    assert started(framework="deepspeed").hostfile_at == "/job/hostfile"
    assert started(framework="deepspeed", roles=ROLES[1:]).hostfile_at is None
    assert started(framework="colossalai").hostfile_at is None
    assert started().hostfile_at is None


def test_code_in_the_spec_or_in_a_directory_needs_not_be_fetched():
    inline = job(ev.ResolvedCode(kind="inline"), code={"inline": {"train.py": "print()"}})
    assert stored_code(inline) == CodeInline({"train.py": "print()"})
    directory = job(ev.ResolvedCode(kind="directory", uri="file:///srv/code"))
    assert stored_code(directory) == CodeDirectory(Path("/srv/code"))


def test_an_upload_or_no_code_is_nothing_that_is_stored():
    assert stored_code(job()) is None
    assert stored_code(job(ev.ResolvedCode(kind="upload", digest="sha256:0"))) is None


def test_places_of_users_are_all_that_the_catalog_names_but_the_system():
    documents = [
        storage("team", "file:///srv/team"),
        storage("root", "file:///"),
        dataset("set", "file:///data/set"),
        dataset("far", "s3://bucket/set"),
    ]
    assert places_of_users(catalog_of(*documents)) == (Path("/data/set"), Path("/srv/team"))


def in_pool(**spec):
    pools = {"public": pool("public", **spec)}
    return gang_start(job(), PLACED, None, {}, data={}, named_hosts=True, pools=pools)


def test_a_pool_says_who_binds_replicas_and_where_they_may_be():
    gang = in_pool(binding="kubernetes", nodes={"names": ["a"], "labels": {"team": "x"}}, runAsUser=2000)
    assert gang.replicas[0].pool == PoolTerms("kubernetes", ("a",), {"team": "x"}, 2000)
    assert gang.gang_scheduler == "trainmaster"


def test_nodes_that_others_must_not_choose_are_told_and_names_are_those_of_the_cluster():
    pools = {"public": pool("public", binding="kubernetes", nodes={"names": ["n-a"]})}
    told = partial(gang_start, job(), PLACED, None, {}, data={}, named_hosts=True, pools=pools)
    terms = told(among={"worker": Among(named=("a",), barred=("b",))}).replicas[-1].pool
    assert (terms.node_names, terms.barred) == (("a",), ("b",))
    assert told(among={"worker": Among()}).replicas[-1].pool.node_names == ("n-a",), "none would let all nodes in"


def test_a_pool_says_who_schedules_gangs():
    gang = in_pool(gangScheduler="volcano", queue="research")
    assert (gang.gang_scheduler, gang.queue) == ("volcano", "research")


def test_pools_of_one_gang_that_disagree_about_its_scheduler_refuse_it():
    made = job()
    roles = (role("worker", gpu_count=2, memory_bytes=7), role("master", pool_name="other"))
    resolved = made.submitted.resolved.model_copy(update={"roles": roles})
    made = made.model_copy(update={"submitted": made.submitted.model_copy(update={"resolved": resolved})})
    pools = {"public": pool("public"), "other": pool("other", gangScheduler="volcano")}
    with pytest.raises(StartRefusedError, match="the pools other, public have different gang schedulers"):
        gang_start(made, PLACED, None, {}, data={}, named_hosts=True, pools=pools)
