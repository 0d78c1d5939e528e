"""kubernetes.yaml: D4PG's, which its own tests run, but for what is checked here."""

import json
import re

from kubernetes_file import PROCESS_BYTES, KubernetesFile

from common import environments
from common.environments.spec import EnvironmentSpec
from common.replay import footprint
from reproductions.apex.dqn.config import NUM_ACTORS, DQNConfig

FILE = KubernetesFile("apex", program="apex_dqn")
SETS = FILE.sets
PONG = EnvironmentSpec(84 * 84 * 4, 18, image_shape=(84, 84, 4), is_discrete=True)


def test_all_else_is_as_for_d4pg():
    FILE.check_all_else_is_d4pgs({"apex": "d4pg"})


def test_the_addresses_are_those_of_the_pods():
    cluster = json.loads(re.search(r"cluster='(.*?)'", FILE.script, re.S)[1])
    pods = {
        role: [f"{role}-{i}.apex" for i in range(SETS[role]["replicas"])]
        for role in ("learner", "replay", "evaluator")
    }
    assert cluster == {role: [f"{pod}:7000" for pod in names] for role, names in pods.items()}
    assert len(pods["replay"]) == 2
    assert FILE.hosts == pods["learner"] + pods["replay"]


def test_the_flags_are_the_papers_and_fit_the_sets(tmp_path):
    assert int(FILE.flags["num_actors"]) == NUM_ACTORS
    assert int(FILE.flags["actor_processes"]) == SETS["actor"]["replicas"]
    FILE.check_flags("atari:no_such_game", tmp_path)


def test_each_role_has_a_memory_limit():
    for name in SETS:
        request, limit = FILE.memory(name)
        assert PROCESS_BYTES < request <= limit


def test_the_memory_holds_the_replay():
    assert -(-NUM_ACTORS // SETS["actor"]["replicas"]) == 8
    environment = environments.make(FILE.flags["environment"], 0)
    bytes_per_step = footprint.image_bytes_per_step(DQNConfig(), PONG, environment)
    environment.close()
    share = DQNConfig().replay_capacity / SETS["replay"]["replicas"]
    need = PROCESS_BYTES + share * bytes_per_step
    request, limit = FILE.memory("replay")
    assert need <= request <= limit < 3 * need
    assert 2 * (need - PROCESS_BYTES) <= limit  # also while the learner, which removes, is away
