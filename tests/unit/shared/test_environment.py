"""What every replica of every gang finds in its environment and in /etc/trainmaster."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.environment import (
    HOSTS_VARIABLE_MAX_BYTES,
    GangEnvironment,
    GangShape,
    MountPath,
    RoleShape,
    data_variables,
    num_variable,
)
from shared.ids import host_name
from shared.jobspec.reserved import is_reserved, role_token

JOB = "tj-aaaaaaaaaaaa"
ENV_STRING_MAX_BYTES = 128 * 1024

role_names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
role_shapes = st.lists(
    st.builds(RoleShape, name=role_names, replicas=st.integers(1, 6), gpus=st.integers(0, 8)),
    min_size=1,
    max_size=10,
    unique_by=lambda role: role_token(role.name),
).map(tuple)


def shape(*roles: RoleShape, **more) -> GangShape:
    return GangShape(job=JOB, name="demo", attempt=1, roles=roles, **more)


def replicas(gang: GangShape) -> list[tuple[str, int]]:
    return [(role.name, index) for role in gang.roles for index in range(role.replicas)]


class TestVolcanoVariables:
    def test_the_source_documents_example_comes_out_as_it_is_written_there(self):
        gang = shape(RoleShape("task1", 1), RoleShape("task2", 2))
        variables = GangEnvironment(gang).variables("task2", 1)
        assert variables["VC_TASK1_HOSTS"] == f"{JOB}-1-task1-0.{JOB}-1"
        assert variables["VC_TASK2_HOSTS"] == f"{JOB}-1-task2-0.{JOB}-1,{JOB}-1-task2-1.{JOB}-1"
        assert (variables["VC_TASK1_NUM"], variables["VC_TASK2_NUM"]) == ("1", "2")
        assert variables["VC_TASK_NAMES"] == "task1,task2"
        assert variables["VC_TASK_INDEX"] == "1"

    def test_role_names_are_upper_cased_and_dashes_become_underscores(self):
        variables = GangEnvironment(shape(RoleShape("param-server", 1))).variables("param-server", 0)
        assert variables["VC_PARAM_SERVER_NUM"] == "1"
        assert "VC_PARAM_SERVER_HOSTS" in variables

    @given(role_shapes)
    def test_every_role_lists_all_its_hosts_in_order_in_every_replica(self, roles):
        environment = GangEnvironment(shape(*roles))
        for name, index in replicas(shape(*roles)):
            variables = environment.variables(name, index)
            for role in roles:
                expected = [host_name(JOB, 1, role.name, i) for i in range(role.replicas)]
                assert variables[f"VC_{role_token(role.name)}_HOSTS"].split(",") == expected
                assert variables[num_variable(role.name)] == str(role.replicas)

    @given(role_shapes)
    def test_no_two_roles_write_the_same_variable(self, roles):
        variables = GangEnvironment(shape(*roles)).variables(roles[0].name, 0)
        written = [name for name in variables if name.startswith("VC_") and name.endswith(("_HOSTS", "_NUM"))]
        assert len(written) == 2 * len(roles)


class TestRanks:
    @given(role_shapes)
    def test_ranks_are_exactly_zero_to_world_size(self, roles):
        gang = shape(*roles)
        environment = GangEnvironment(gang)
        given = [environment.variables(*replica) for replica in replicas(gang)]
        assert sorted(int(variables["RANK"]) for variables in given) == list(range(len(given)))
        assert {int(variables["WORLD_SIZE"]) for variables in given} == {len(given)}

    @given(role_shapes)
    def test_the_master_address_is_the_host_of_rank_zero_in_every_replica(self, roles):
        gang = shape(*roles)
        environment = GangEnvironment(gang)
        (zero,) = [r for r in replicas(gang) if environment.rank(*r) == 0]
        for replica in replicas(gang):
            assert environment.variables(*replica)["MASTER_ADDR"] == host_name(JOB, 1, *zero)

    def test_the_role_master_is_ranked_first_wherever_it_is_written(self):
        environment = GangEnvironment(shape(RoleShape("worker", 2), RoleShape("master", 1)))
        assert environment.rank("master", 0) == 0
        assert environment.rank("worker", 0) == 1
        assert environment.variables("worker", 0)["VC_TASK_NAMES"] == "worker,master"

    def test_without_a_master_the_first_role_is_ranked_first(self):
        environment = GangEnvironment(shape(RoleShape("ps", 2), RoleShape("worker", 2)))
        assert [environment.rank("ps", 0), environment.rank("worker", 0)] == [0, 2]


class TestTorchVariables:
    @given(role_shapes)
    def test_torchruns_defaults_say_what_the_plain_variables_say(self, roles):
        gang = shape(*roles)
        environment = GangEnvironment(gang)
        for replica in replicas(gang):
            variables = environment.variables(*replica)
            assert variables["PET_NNODES"] == variables["WORLD_SIZE"]
            assert variables["PET_NODE_RANK"] == variables["RANK"]
            assert variables["PET_MASTER_ADDR"] == variables["MASTER_ADDR"]
            assert variables["PET_MASTER_PORT"] == variables["MASTER_PORT"]
            assert variables["PET_NPROC_PER_NODE"] == variables["NPROC_PER_NODE"]

    @pytest.mark.parametrize(("gpus", "processes"), [(0, "1"), (1, "1"), (8, "8")])
    def test_processes_per_node_are_the_gpus_of_the_instance_or_one(self, gpus, processes):
        environment = GangEnvironment(shape(RoleShape("worker", 1, gpus)))
        assert environment.variables("worker", 0)["NPROC_PER_NODE"] == processes

    def test_without_named_hosts_every_address_is_the_loopback_one(self):
        environment = GangEnvironment(shape(RoleShape("worker", 2), named_hosts=False))
        variables = environment.variables("worker", 1)
        assert variables["MASTER_ADDR"] == "127.0.0.1"
        assert variables["VC_WORKER_HOSTS"] == "127.0.0.1,127.0.0.1"


class TestOwnVariables:
    def test_a_replica_is_told_who_it_is(self):
        gang = GangShape(job=JOB, name="数字 demo", attempt=3, roles=(RoleShape("worker", 2),))
        variables = GangEnvironment(gang).variables("worker", 1)
        told = {name: variables[f"TM_{name}"] for name in ("JOB_ID", "JOB_NAME", "ATTEMPT", "ROLE", "INDEX")}
        assert told == {"JOB_ID": JOB, "JOB_NAME": "数字 demo", "ATTEMPT": "3", "ROLE": "worker", "INDEX": "1"}

    def test_directories_are_given_only_where_the_job_has_them(self):
        bare = GangEnvironment(shape(RoleShape("worker", 1))).variables("worker", 0)
        assert not {"TM_TENSORBOARD_DIR", "TM_CHECKPOINT_DIR", "TM_RESUME"} & bare.keys()
        full = shape(RoleShape("worker", 1), tensorboard_dir="/mnt/data/runs", checkpoint_dir="/mnt/data/ckpt")
        variables = GangEnvironment(full).variables("worker", 0)
        assert variables["TM_TENSORBOARD_DIR"] == "/mnt/data/runs"
        assert variables["TM_CHECKPOINT_DIR"] == "/mnt/data/ckpt"
        assert "TM_RESUME" not in variables

    def test_a_later_attempt_is_told_to_resume_from_its_checkpoint(self):
        gang = GangShape(job=JOB, name="demo", attempt=2, roles=(RoleShape("worker", 1),), checkpoint_dir="/mnt/data")
        assert GangEnvironment(gang).variables("worker", 0)["TM_RESUME"] == "1"

    def test_mounts_are_named_after_their_sources(self):
        mounts = (MountPath("dataset_mnist", "/mnt/set"), MountPath("team-data", "/mnt/data"))
        assert data_variables(mounts) == {"TM_DATA_DATASET_MNIST": "/mnt/set", "TM_DATA_TEAM_DATA": "/mnt/data"}

    def test_mounts_with_names_that_fall_together_are_numbered(self):
        mounts = (MountPath("a-b", "/1"), MountPath("a.b", "/2"), MountPath("数据", "/3"), MountPath("模型", "/4"))
        assert data_variables(mounts) == {
            "TM_DATA_A_B": "/1",
            "TM_DATA_A_B_2": "/2",
            "TM_DATA_MOUNT": "/3",
            "TM_DATA_MOUNT_2": "/4",
        }

    @given(st.lists(st.text(min_size=1, max_size=6), max_size=8))
    def test_every_mount_has_a_variable_that_a_shell_can_read(self, sources):
        mounts = [MountPath(source, f"/{number}") for number, source in enumerate(sources)]
        variables = data_variables(mounts)
        assert sorted(variables.values()) == sorted(mount.path for mount in mounts)
        assert all(re.fullmatch(r"TM_DATA_[A-Z0-9_]+", name, re.ASCII) for name in variables)


class TestUsersVariables:
    def test_the_users_variables_are_given(self):
        gang = shape(RoleShape("worker", 1), user={"NCCL_DEBUG": "INFO"})
        assert GangEnvironment(gang).variables("worker", 0)["NCCL_DEBUG"] == "INFO"

    def test_output_is_unbuffered_unless_the_user_says_otherwise(self):
        assert GangEnvironment(shape(RoleShape("worker", 1))).variables("worker", 0)["PYTHONUNBUFFERED"] == "1"
        gang = shape(RoleShape("worker", 1), user={"PYTHONUNBUFFERED": ""})
        assert GangEnvironment(gang).variables("worker", 0)["PYTHONUNBUFFERED"] == ""

    def test_a_platform_variable_cannot_be_overwritten(self):
        gang = shape(RoleShape("worker", 2), user={"RANK": "7", "VC_WORKER_NUM": "9"})
        variables = GangEnvironment(gang).variables("worker", 1)
        assert (variables["RANK"], variables["VC_WORKER_NUM"]) == ("1", "2")

    @given(role_shapes)
    def test_every_variable_of_the_platform_is_reserved(self, roles):
        gang = shape(*roles, mounts=(MountPath("x", "/x"),), tensorboard_dir="/x/t", checkpoint_dir="/x/c")
        names = GangEnvironment(gang).variables(roles[0].name, 0).keys() - {"PYTHONUNBUFFERED"}
        assert all(is_reserved(name) for name in names)


class TestFiles:
    def test_hosts_stand_one_a_line_in_the_file_of_their_role(self):
        files = GangEnvironment(shape(RoleShape("ps", 1), RoleShape("worker", 2))).files
        assert files["hosts/ps"] == f"{JOB}-1-ps-0.{JOB}-1\n"
        assert files["hosts/worker"] == f"{JOB}-1-worker-0.{JOB}-1\n{JOB}-1-worker-1.{JOB}-1\n"

    def test_the_hostfile_has_every_host_in_rank_order_with_its_slots(self):
        files = GangEnvironment(shape(RoleShape("worker", 2, gpus=4), RoleShape("master", 1))).files
        assert files["hostfile"].splitlines() == [
            f"{JOB}-1-master-0.{JOB}-1 slots=1",
            f"{JOB}-1-worker-0.{JOB}-1 slots=4",
            f"{JOB}-1-worker-1.{JOB}-1 slots=4",
        ]


class TestLargeGangs:
    @settings(max_examples=25)
    @given(st.integers(1, 12_000))
    def test_no_variable_of_the_platform_reaches_the_kernels_limit_at_any_size(self, count):
        environment = GangEnvironment(shape(RoleShape("worker", count)))
        variables = environment.variables("worker", count - 1)
        assert all(len(name) + len(value) + 2 < ENV_STRING_MAX_BYTES for name, value in variables.items())
        assert ("VC_WORKER_HOSTS" in variables) != ("VC_WORKER_HOSTS_FILE" in variables)

    def test_a_long_host_list_is_given_as_its_file_alone(self):
        gang = shape(RoleShape("worker", 10_000), RoleShape("ps", 1), files_dir="/elsewhere")
        environment = GangEnvironment(gang)
        variables = environment.variables("worker", 9_999)
        assert variables["VC_WORKER_HOSTS_FILE"] == "/elsewhere/hosts/worker"
        assert variables["VC_WORKER_NUM"] == "10000"
        assert variables["VC_PS_HOSTS"] == f"{JOB}-1-ps-0.{JOB}-1"
        assert environment.files["hosts/worker"].count("\n") == 10_000

    def test_a_list_of_just_the_limit_is_still_a_variable(self):
        host_size = len(host_name(JOB, 1, "w", 0)) + 1
        fitting = HOSTS_VARIABLE_MAX_BYTES // (host_size + 3)
        assert "VC_W_HOSTS" in GangEnvironment(shape(RoleShape("w", fitting))).variables("w", 0)
