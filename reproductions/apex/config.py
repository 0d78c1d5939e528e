"""Hyperparameters that Ape-X DQN and Ape-X DPG share.

"Not in the paper" marks a value that the paper leaves open; the reason for our value follows.
For DPG, appendix D says "otherwise as per DQN". So these values, which section 4.1 and appendix C
state for Atari, hold for both agents.
"""

import dataclasses

from common.config import Config, field


@dataclasses.dataclass
class ApexConfig(Config):
    """The hyperparameters of both agents. Each agent adds `batch_size` and `replay_capacity`."""

    discount: float = field(0.99, minimum=0, maximum=1, suffix="gamma{:g}")
    """gamma, per step. Not in the paper; DQN's and DDPG's value, on which Ape-X builds. R2D2's
    0.997 is "slightly higher" than Ape-X's."""
    min_replay_size: int = field(50_000, minimum=1)
    """Transitions before the first update (appendix C, for DQN)."""
    priority_exponent: float = field(0.6, minimum=0, maximum=7, suffix="alpha{:g}")
    """alpha_sample in P ~ p^alpha (section 4.1; appendix D, for DPG); 0: uniform sampling (figure
    14). DPG's results were "essentially consistent" within [0.3, 0.7] and at times diverged above
    (appendix E)."""
    priority_floor: float = field(1e-6, above=0)
    """Added to each |delta|, since a transition of priority 0 would never be drawn again. Not in
    the paper; Schaul et al. 2016, on whose replay Ape-X builds."""
    importance_exponent: float = field(0.4, minimum=0, suffix="beta{:g}")
    """beta in the weights (1 / (N P))^beta, never annealed (section 4.1, for DQN); 0: no weights.
    Dividing them by the batch's maximum is from Schaul et al. 2016."""
    send_batch: int = field(50, minimum=1, may_change=True)
    """B, transitions that an actor process sends at once (section 4.1, for DQN; our copy of the
    text lacks the number, RLlib also uses 50)."""
    send_buffer: int = field(100, minimum=1, earlier=200, may_change=True)
    """Maximum number of transitions waiting to be sent; then acting waits (section 4.1, "up to
    100"). They are sent in whole batches, and the batch being sent does not count."""
    actor_period: int = field(100, minimum=1)
    """Steps of an actor between pulls of parameters: 400 frames (section 4.1)."""
    removal_period: int = field(100, minimum=1)
    """Learner steps between removals of transitions above the capacity, for which adding does not
    wait (section 4.1, for DQN; "periodically" in appendix D)."""
    prefetch: int = field(16, minimum=1, may_change=True)
    """Batches that the learner draws ahead (section 4.1, for DQN). With single_process, DQN draws
    this number of batches before it learns from them, so priorities are up to this number of
    updates late."""
    samples_per_insert: float = field(0.0, minimum=0)
    """Samples per inserted transition; learner or actors wait to keep it. 0: unlimited, as in the
    paper (section 3), whose rates amount to 0.78 for DQN (9.7K and 12.5K per second, section 4.1)
    and 1.6 for DPG (22K and 14K, section 4.2)."""
    single_process: bool = field(False)
    """Acts, stores and learns in turns in one process, whose actors step together, so that a run
    does not depend on the machine's speed. Not in the paper, whose agents are distributed; for
    scale models."""

    def validate(self) -> None:
        """Adds the conditions on the replay's size and on a single process."""
        super().validate()
        self.require_at_most("replay_capacity", "batch_size", "min_replay_size", "send_batch")
        self.require(
            self.samples_per_insert > 0 or not self.single_process,
            "samples_per_insert",
            "above 0 with single_process, where it paces the updates",
        )
