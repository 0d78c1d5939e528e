// Registration and documentation of the ops on `EpisodeMemory`.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace replay {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::NoOutputs;
using tensorflow::shape_inference::ScalarShape;
using tensorflow::shape_inference::UnknownShape;

// Every output has the shape of the keys.
absl::Status ShapeOfKeys(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(1));
  return absl::OkStatus();
}

REGISTER_OP("EpisodeMemory")
    .Output("memory: resource")
    .Attr("capacity: int >= 1")
    .Attr("discount: float")
    .Attr("names: list(string) >= 1")
    .Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("max_bytes: list(int) >= 1")
    .Attr("prefixes: list(string) >= 1")
    .Attr("suffixes: list(string) >= 1")
    .Attr("kind: {'uniform', 'rank_based'}")
    .Attr("exponent: float")
    .Attr("period: int >= 1")
    .Attr("removal: {'oldest', 'far_policy', 'divergence'}")
    .Attr("seed: int = 0")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Makes a memory of episodes; it lives as long as a handle to it does.

capacity: Steps that the memory never exceeds.
discount: In Q_t = r_t + discount (V_t+1 + min(1, rho_t+1) (Q_t+1 - V_t+1)).
names: The columns' names, for error messages; these and the next five
  attributes are those of ReplayMemory.
kind: The distribution over the steps.
exponent: The power of 1 / rank in "rank_based".
period: Updates from one ranking to the next in "rank_based".
removal: The episode that leaves a full memory: the oldest, the one with the
  largest part of far-policy steps, or the one with the largest mean divergence.
seed: Seed of sampling; 0 takes one from the system.
)doc");

REGISTER_OP("EpisodeAdd")
    .Input("memory: resource")
    .Input("rewards: float")
    .Input("values: float")
    .Input("terminated: bool")
    .Input("columns: dtypes")
    .Output("key: int64")
    .Attr("dtypes: list(type) >= 1")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Adds a finished episode; removes whole episodes until it fits.

rewards: [T], finite.
values: [T + 1], finite; the last one counts 0 if terminated.
terminated: Scalar: the last state is a true end, not where the time was up.
columns: [T + 1, ...] each.
key: Step t has key + t.
)doc");

REGISTER_OP("EpisodeSample")
    .Input("memory: resource")
    .Input("batch_size: int32")
    .Input("seed: int64")
    .Output("keys: int64")
    .Output("probabilities: double")
    .Output("rewards: float")
    .Output("discounts: float")
    .Output("bootstraps: bool")
    .Output("q_ret: float")
    .Output("count: int64")
    .Output("columns: dtypes")
    .Attr("dtypes: list(type) >= 2")
    .Attr("num_batches: int >= 1 = 1")
    .SetIsStateful()
    .SetShapeFn(UnknownShape)
    .Doc(R"doc(
Draws batches of steps, N = num_batches * batch_size in all.

batch_size: Steps in a batch, none of them twice.
seed: Determines the draw, together with the memory's contents; 0 draws with
  the memory's own generator.
keys: [N].
probabilities: [N].
rewards: [N], scaled.
discounts: [N], 0 before a true end.
bootstraps: [N], the next state is where the time was up.
q_ret: [N].
count: Steps in the memory.
columns: [N, ...], those of the states, then those of the next states; dtypes
  has both.
)doc");

REGISTER_OP("EpisodeRefresh")
    .Input("memory: resource")
    .Input("keys: int64")
    .Input("values: float")
    .Input("rhos: float")
    .Input("divergences: float")
    .Input("errors: float")
    .Input("next_values: float")
    .Input("c_max: float")
    .Output("missing: int64")
    .Attr("num_batches: int >= 1 = 1")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"doc(
Stores what updates have computed, then Q of these steps and those before.

keys: [N], of num_batches updates, one behind the other. Of equal keys the last
  one counts.
values: [N], finite, as are the next four.
rhos: [N], not negative.
divergences: [N].
errors: [N], not negative.
next_values: [N]; they count where the next state is where the time was up.
c_max: Scalar, at least 1.
missing: Keys skipped because the step is gone.
)doc");

REGISTER_OP("EpisodeStored")
    .Input("memory: resource")
    .Input("keys: int64")
    .Output("values: float")
    .Output("rhos: float")
    .Output("divergences: float")
    .Output("errors: float")
    .Output("q_ret: float")
    .SetIsStateful()
    .SetShapeFn(ShapeOfKeys)
    .Doc("Reads what is stored of steps [B]; NaN where a step is gone.");

REGISTER_OP("EpisodeContains")
    .Input("memory: resource")
    .Input("keys: int64")
    .Output("contains: bool")
    .SetIsStateful()
    .SetShapeFn(ShapeOfKeys)
    .Doc("Returns which of the steps [B] are stored.");

REGISTER_OP("EpisodeRewardScale")
    .Input("memory: resource")
    .Output("scale: double")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("Returns the root of the mean squared reward; 0 if there is none.");

REGISTER_OP("EpisodeSetRewardScale")
    .Input("memory: resource")
    .Input("scale: double")
    .Attr("recompute: bool")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc(R"doc(
Divides rewards by scale + 1e-7 from now on.

scale: Scalar, finite and not negative.
recompute: Whether to compute all Q anew now.
)doc");

REGISTER_OP("EpisodeCountFarPolicy")
    .Input("memory: resource")
    .Input("c_max: float")
    .Output("count: int64")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("Counts the steps with rho <= 1 / c_max or rho >= c_max.");

REGISTER_OP("EpisodeMoments")
    .Input("memory: resource")
    .Output("mean: double")
    .Output("deviation: double")
    .Attr("column: string")
    .SetIsStateful()
    .SetShapeFn(UnknownShape)
    .Doc("Returns mean and standard deviation of a column over all states.");

REGISTER_OP("EpisodeCountSteps")
    .Input("memory: resource")
    .Input("n: int64")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc("Adds n to the number of executed steps.");

REGISTER_OP("EpisodeStatistics")
    .Input("memory: resource")
    .Output("counters: int64")
    .Output("mean_divergence: double")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(9));
      c->set_output(1, c->Scalar());
      return absl::OkStatus();
    })
    .Doc("Returns EpisodeMemory::Statistics in their order.");

REGISTER_OP("EpisodeCheck")
    .Input("memory: resource")
    .SetIsStateful()
    .SetShapeFn(NoOutputs)
    .Doc("Checks all invariants; an Internal error names a broken one.");

}  // namespace replay
