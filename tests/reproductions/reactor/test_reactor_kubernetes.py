"""kubernetes.yaml: D4PG's, which its own tests run, but for what is checked here."""

from kubernetes_file import PROCESS_BYTES, KubernetesFile
import pytest

from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.replay import footprint
from reproductions.reactor.config import NUM_WORKERS, ReactorConfig

FILE = KubernetesFile("reactor")
SETS = FILE.sets
PONG = EnvironmentSpec(84 * 84, 18, image_shape=(84, 84, 1), is_discrete=True)
THEIRS = {"reactor": "d4pg", "parameter-server": "learner", "worker": "actor"}
"""D4PG's name for each of Reactor's."""


def test_all_else_is_as_for_d4pg():
    """Reactor's script has other comments, and makes the role's name of the pod's."""
    FILE.check_all_else_is_d4pgs(THEIRS, r"(?m)^(#|role=).*\n")


@pytest.mark.parametrize("pod", ["parameter-server-0", "worker-0", "worker-9", "evaluator-0"])
def test_each_pod_gets_its_place(pod, tmp_path):
    place = FILE.check_place(pod, layouts.WORKERS.roles, tmp_path)
    assert place.keeper_address == "parameter-server-0.reactor:7000"
    assert FILE.hosts == ["parameter-server-0.reactor"]


def test_the_flags_are_the_papers_and_fit_the_sets(tmp_path):
    assert int(FILE.flags["num_workers"]) == NUM_WORKERS == SETS["worker"]["replicas"]
    assert SETS["parameter-server"]["replicas"] == SETS["evaluator"]["replicas"] == 1
    FILE.check_flags("atari:no_such_game", tmp_path)


@pytest.mark.parametrize("name", SETS)
def test_each_role_has_a_memory_limit(name):
    request, limit = FILE.memory(name)
    assert PROCESS_BYTES < request <= limit


def test_the_memory_of_a_worker_holds_its_replay():
    config = ReactorConfig()
    stored = config.replay_capacity * footprint.sequence_bytes_per_step(config, PONG, None)
    request, limit = FILE.memory("worker")
    assert PROCESS_BYTES + stored <= request <= limit < 3 * (PROCESS_BYTES + stored)
