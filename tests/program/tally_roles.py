"""The roles of the program in tally.py."""

import json
import random

import numpy as np
import tensorflow as tf

from common import environments
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Patience, report_ready


class TallyAgent:
    """An agent that neither acts nor learns."""

    def __init__(self, config, setting):
        self.config, self.setting = config, setting


def run_tally(context):
    """Counts clicks, over all starts, until there are --max_actor_steps."""
    path = context.directory.path / "tally.json"
    total = tf.Variable(json.loads(path.read_text()) if path.exists() else 0, dtype=tf.int64)
    server = context.server()
    server.register("click", lambda: total.assign_add(1), [])
    server.register("total", total.read_value, [])
    server.start()
    report_ready()
    while not context.stop.requested and not context.limits.reached(0, int(total), 0):
        context.stop.wait(0.05)
    path.write_text(json.dumps(int(total)))
    context.stop.wait(1.0)  # the clickers ask for the total meanwhile
    server.close()
    played = context.watch(lambda: environments.make_batch(context.environment, [0]))
    context.closing.callback(played.close)


def run_clicker(context):
    """Clicks for each of its actors, then waits for the end of the run."""
    print(f"drew {random.random()} {np.random.random()}", flush=True)
    client = context.client(context.topology.keeper_address)
    patience = Patience("no answer from the tally")
    left = len(context.actors) * context.agent.config.clicks
    while not context.stop.requested:
        try:
            total = int(client.call("click" if left else "total"))
        except ServiceUnavailableError as error:
            patience.check(error)
            context.stop.wait(0.2)
            continue
        patience.renew()
        report_ready()
        if left == 1:
            print(f"clicked for {[*context.actors]} of {context.values['clickers']}", flush=True)
        left = max(0, left - 1)
        if context.limits.reached(0, total, 0):
            return
        context.stop.wait(0.05)
