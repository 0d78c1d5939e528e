"""kubernetes.yaml: D4PG's, which its own tests run, but for what is checked here."""

from kubernetes_file import PROCESS_BYTES, KubernetesFile
import pytest

from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.replay import footprint
from reproductions.aql.config import NUM_ACTORS, AQLConfig

FILE = KubernetesFile("aql")
SETS = FILE.sets
HUMANOID = EnvironmentSpec(67, 21)


def test_all_else_is_as_for_d4pg():
    FILE.check_all_else_is_d4pgs({"aql": "d4pg"})


@pytest.mark.parametrize("role", SETS)
def test_a_pods_place_is_one_of_the_layout(role, tmp_path):
    last = SETS[role]["replicas"] - 1
    place = FILE.check_place(f"{role}-{last}", layouts.ACTORS_WITH_REPLAY.roles, tmp_path)
    assert place.keeper_address == "learner-0.aql:7000"
    assert FILE.hosts == ["learner-0.aql"]


def test_the_flags_are_the_papers_and_fit_the_sets(tmp_path):
    assert int(FILE.flags["num_actors"]) == NUM_ACTORS
    assert int(FILE.flags["actor_processes"]) == SETS["actor"]["replicas"]
    assert SETS["learner"]["replicas"] == SETS["evaluator"]["replicas"] == 1
    FILE.check_flags("control:no:no", tmp_path)


@pytest.mark.parametrize("role", SETS)
def test_the_memory_of_each_role_suffices(role):
    config = AQLConfig()
    replay = config.replay_capacity * footprint.unroll_bytes_per_step(config, HUMANOID, None)
    need = PROCESS_BYTES + (replay if role == "actor" else 0)
    request, limit = FILE.memory(role)
    assert need <= request <= limit < 3 * need
