"""Atari 2600 games in the emulator ALE, with names in snake case such as "ms_pacman".

An agent step is 4 frames with the same action (Ape-X section 4.1, appendix C). Observations are
preprocessed as in DQN and `gymnasium.wrappers.AtariPreprocessing`: the pixel-wise maximum of the
step's last two grey frames, averaged down to 84 x 84, and stacked with the images of earlier steps,
which are black at the start of an episode. Rewards are the game's own; agents may clip them.

Not in the paper: all 18 actions (R2D2: "like Ape-X"; ALE has only 9 in Skiing and Lost Luggage),
no sticky actions, and 0 to 30 no-op frames before an episode, also in training ("no-op
starts", which the paper mentions for the evaluation). A lost life is a MID step with discount 0,
which cuts returns while the game goes on (R2D2 says that Ape-X did so). An episode that reaches the
limit of frames keeps its discount, since only its time has ended.
"""

from collections.abc import Sequence

from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
import dm_env
from dm_env import specs
import numpy as np

from common.environments import rendering
from common.environments.atari_games import FRAMES_PER_STEP, GAMES
from common.environments.batch import SingleEnvironment, batched_timestep

TRAINING_FRAMES = 50_000
"""Maximum frames of an episode in training (Ape-X section 4.1)."""

EVALUATION_FRAMES = 108_000
"""Maximum frames of an episode in an evaluation: half an hour of play.

Not in the paper, which says "longer"; usual since Mnih et al. 2015.
"""

DEFAULT_STACK = 4
"""Frames in an observation (Mnih et al. 2015)."""

# ALE has these games only for two players, and exits the process that loads one.
_FOR_TWO_PLAYERS = {"combat", "joust", "maze_craze", "warlords"}

_MAX_NOOPS = 30
_SIZE = 84
_STEP_SECONDS = FRAMES_PER_STEP / 60


def names() -> list[str]:
    """Returns the names of the usual 57 games, then of ALE's other games."""
    others = set(roms.get_all_rom_ids()) - set(GAMES) - _FOR_TWO_PLAYERS
    return [*GAMES, *sorted(others)]


def why_unknown(name: str) -> str | None:
    """Returns the reason why a name with parameters is unknown; None for other names."""
    if ":" not in name and "=" not in name:
        return None
    return f"a game has no parameters, and a step is always {FRAMES_PER_STEP} frames"


def make(
    name: str, seed: int, evaluation: bool = False, frames: int | None = None
) -> "AtariEnvironment":
    """Creates the game `name`, one of `names()`; `seed` is in [0, 2**32)."""
    return AtariEnvironment(make_batch(name, [seed], evaluation, frames))


def make_batch(
    name: str, seeds: Sequence[int], evaluation: bool = False, frames: int | None = None
) -> "AtariBatch":
    """Creates a game for each seed, with the frame limit of training or of evaluation."""
    max_frames = EVALUATION_FRAMES if evaluation else TRAINING_FRAMES
    return AtariBatch(name, seeds, max_frames, frames or DEFAULT_STACK)


class AtariBatch:
    """K games as one; see `common.environments.batch.EnvironmentBatch`.

    Observation: uint8 [84, 84, stack], the newest frame last. Action: int32, an index into ALE's
    full set.
    """

    def __init__(
        self, game: str, seeds: Sequence[int], max_frames: int, stack: int = DEFAULT_STACK
    ):
        """Creates a game for each seed.

        Args:
          game: name of the game, from `names()`.
          seeds: a seed in [0, 2**32) for each game.
          max_frames: maximum frames of an episode, not counting the no-op frames before its first
            step; a multiple of `FRAMES_PER_STEP`.
          stack: number of frames in an observation.
        """
        # ALE's seeds are int32, and it ignores negative ones.
        self._seeds: np.ndarray | None = np.array(seeds, np.int64) % 2**31
        self._max_steps = max_frames // FRAMES_PER_STEP
        self._environment = AtariVectorEnv(
            game,
            len(seeds),
            num_threads=1,  # an actor process uses one core (Ape-X section 4.1: a core an actor)
            # `step` limits episodes: at ALE's own limit, the last frame mixes in the step before.
            max_num_frames_per_episode=2**31 - 1,
            full_action_space=True,
            img_height=_SIZE,
            img_width=_SIZE,
            stack_num=stack,
            frameskip=FRAMES_PER_STEP,
            noop_max=_MAX_NOOPS + 1,  # ALE draws fewer than this
            # Lost lives are read from `lives`; with this flag they would look like a game's end.
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=False,
            repeat_action_probability=0.0,
        )
        self._observation_shape = (_SIZE, _SIZE, stack)
        self._num_actions = int(self._environment.single_action_space.n)

    @property
    def num_environments(self) -> int:
        """The number of games, K."""
        return self._environment.num_envs

    def observation_spec(self) -> specs.Array:
        """Returns the spec of one game's observation."""
        return specs.Array(self._observation_shape, np.uint8, name="observation")

    def action_spec(self) -> specs.DiscreteArray:
        """Returns the spec of one game's action, an index into ALE's full set."""
        return specs.DiscreteArray(self._num_actions, np.int32, name="action")

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode in each game."""
        frames, info = self._environment.reset(seed=self._seeds)
        self._seeds = None  # a second reset must not repeat the episodes
        k = self.num_environments
        self._steps = np.zeros(k, np.int64)
        self._is_over = np.zeros(k, bool)
        self._lives = info["lives"].copy()
        nothing = np.zeros(k)
        return batched_timestep(np.ones(k, bool), nothing, nothing, nothing, _channels_last(frames))

    def step(self, actions: np.ndarray) -> dm_env.TimeStep:
        """Takes an action, int32 [K], in each game; resets instead if never reset before.

        Raises:
          ValueError: there is not one action for each game, or an action is out of range.
        """
        actions = np.asarray(actions)
        # ALE would wait forever for a game that fails at an invalid action.
        if actions.shape != (self.num_environments,) or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions must be {self.num_environments} integers, got {actions.dtype} "
                f"{list(actions.shape)}"
            )
        if actions.min() < 0 or actions.max() >= self._num_actions:
            raise ValueError(f"actions must be in [0, {self._num_actions}), got {actions.tolist()}")
        if self._seeds is not None:
            return self.reset()
        frames, reward, is_over, _, info = self._environment.step(actions.astype(np.int32))
        # After a game's end, ALE's next step ignores the action and starts an episode.
        out_of_time = (self._steps == self._max_steps) & ~self._is_over
        if out_of_time.any():
            frames, info = self._environment.reset(options={"reset_mask": out_of_time})
        starts = self._is_over | out_of_time
        self._is_over = is_over & ~out_of_time
        self._steps = np.where(starts, 0, self._steps + 1)
        lost_life = info["lives"] < self._lives
        self._lives = info["lives"].copy()
        ends = self._is_over | (self._steps == self._max_steps)
        discount = ~(self._is_over | lost_life)
        return batched_timestep(starts, ends, reward, discount, _channels_last(frames))

    def close(self) -> None:
        """Frees the emulators."""
        self._environment.close()


class AtariEnvironment(SingleEnvironment):
    """A single game, with the observations and actions of `AtariBatch`."""

    _frame = np.zeros((_SIZE, _SIZE), np.uint8)

    def control_timestep(self) -> float:
        """Returns the length of a step in seconds."""
        return _STEP_SECONDS

    def render(self, height: int, width: int) -> np.ndarray:
        """Returns the newest frame that the agent sees, enlarged: uint8 [height, width, 3]."""
        grey = rendering.resized(self._frame, height, width)
        return np.repeat(grey[..., np.newaxis], 3, axis=2)

    def _single(self, batched: dm_env.TimeStep) -> dm_env.TimeStep:
        timestep = super()._single(batched)
        self._frame = timestep.observation[..., -1]
        return timestep


def _channels_last(frames: np.ndarray) -> np.ndarray:
    """Returns [K, stack, 84, 84] as a new array [K, 84, 84, stack].

    This takes a quarter of the time of `np.ascontiguousarray`.
    """
    count, stack, height, width = frames.shape
    stacked = np.empty((count, height, width, stack), np.uint8)
    for channel in range(stack):
        stacked[..., channel] = frames[:, channel]
    return stacked
