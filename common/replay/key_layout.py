"""The number of bits of each part of a replay key; see `common.replay.keys`."""

SHARD_BITS, ACTOR_BITS, INCARNATION_BITS, STEP_BITS = 5, 12, 14, 32
MAX_SHARDS = 1 << SHARD_BITS
MAX_ACTORS = 1 << ACTOR_BITS
MAX_INCARNATIONS = 1 << INCARNATION_BITS
