// Registration and documentation of the ops on `Memory`.
//
// The memory knows its columns; an op on it does not. The Python face sets
// their static shapes in graphs: a list of shapes as an attribute of each op
// would cost an eager call more than the sampling itself.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace replay {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::UnknownShape;

REGISTER_OP("ReplayMemory")
    .Input("uniform_mixes: double")
    .Output("memory: resource")
    .Attr("capacity: int >= 1")
    .Attr("hard_capacity: int >= 1")
    .Attr("names: list(string) >= 1")
    .Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("max_bytes: list(int) >= 1")
    .Attr("prefixes: list(string) >= 1")
    .Attr("suffixes: list(string) >= 1")
    .Attr("kinds: list(string) >= 1")
    .Attr("exponents: list(float) >= 1")
    .Attr("periods: list(int) >= 1")
    .Attr("removal: int >= 0")
    .Attr("seed: int = 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Makes a memory; it lives as long as a handle to it does.

uniform_mixes: [D], share of each distribution's draws that are uniform, in
  [0, 1]. An attribute could not hold doubles.
capacity: Steps that ReplayRemoveToFit leaves.
hard_capacity: Steps that the memory never exceeds.
names: The columns' names, for error messages.
dtypes: The columns' dtypes: string, or one whose values are all of one size.
shapes: The columns' shapes; [] if the dtype is string.
max_bytes: The longest value of each column of strings; unused for others.
prefixes: Bytes with which each value of a column of strings must begin.
suffixes: Bytes with which each value of a column of strings must end.
kinds: [D], the distributions' kinds: "uniform", "fifo", "proportional",
  "contextual" or "rank_based".
exponents: [D], the power of the priority in "proportional" and "contextual",
  and of 1 / rank in "rank_based".
periods: [D], updates from one ranking to the next in "rank_based".
removal: Index of the distribution that picks the items to remove.
seed: Seed of sampling and removal; 0 takes one from the system.
)doc");

REGISTER_OP("ReplayInsert")
    .Input("memory: resource")
    .Input("step_keys: int64")
    .Input("item_keys: int64")
    .Input("item_lengths: int32")
    .Input("priorities: float")
    .Input("columns: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Adds steps, and items that view steps of this call or older ones.

step_keys: [S], not negative. A key that is stored already is skipped and
  counted.
item_keys: [I], the key of each item's first step; or [0] if each step is an
  item (I = S).
item_lengths: [I], the number of steps with consecutive keys that it views; or
  [0] if each item views one step.
priorities: [I], raw, finite and not negative, or -1 for unknown.
columns: [S, ...] each.
)doc");

REGISTER_OP("ReplaySample")
    .Input("memory: resource")
    .Input("batch_size: int32")
    .Input("seed: int64")
    .Output("keys: int64")
    .Output("masses: double")
    .Output("total_mass: double")
    .Output("count: int64")
    .Output("lengths: int32")
    .Output("columns: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Attr("distribution: int >= 0 = 0")
    .Attr("max_length: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(UnknownShape)
    .Doc(R"doc(
Draws items with replacement: item k with probability mass_k / total_mass.

batch_size: B.
seed: Determines the draw, together with the memory's contents; 0 draws with
  the memory's own generator.
keys: [B].
masses: [B].
count: Items in the memory.
lengths: [B], steps of each item.
columns: [B, ...], the first step of each item, if max_length is 0; else
  [B, max_length, ...], padded with zeros and empty strings after the end of a
  shorter item.
)doc");

REGISTER_OP("ReplayRead")
    .Input("memory: resource")
    .Input("keys: int64")
    .Output("found: bool")
    .Output("columns: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .SetIsStateful()
    .SetShapeFn(UnknownShape)
    .Doc(R"doc(
Reads steps by key; zeros and empty strings where a key is not found.
)doc");

REGISTER_OP("ReplayUpdatePriorities")
    .Input("memory: resource")
    .Input("keys: int64")
    .Input("priorities: float")
    .Output("missing: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Sets the raw priorities of items in every distribution of the memory.

keys: [B]. Of equal keys the last one counts.
priorities: [B], finite and not negative, or -1 for unknown.
missing: Keys skipped because the item is gone.
)doc");

REGISTER_OP("ReplayRemoveToFit")
    .Input("memory: resource")
    .Output("removed: int64")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Removes items until no more steps than the capacity are stored.");

REGISTER_OP("ReplayMass")
    .Input("memory: resource")
    .Output("total_mass: double")
    .Output("count: int64")
    .Attr("distribution: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Scalar());
      return absl::OkStatus();
    })
    .Doc("Returns the sum of a distribution's masses and the number of items.");

REGISTER_OP("ReplayMasses")
    .Input("memory: resource")
    .Input("keys: int64")
    .Output("found: bool")
    .Output("masses: double")
    .Attr("distribution: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->input(1));
      c->set_output(1, c->input(1));
      return absl::OkStatus();
    })
    .Doc(R"doc(
Returns the masses of items in a distribution.

keys: [B].
found: [B], false if there is no item of that key.
masses: [B]; 0 where not found.
)doc");

REGISTER_OP("ReplayStatistics")
    .Input("memory: resource")
    .Output("statistics: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(11));
      return absl::OkStatus();
    })
    .Doc("Returns the counters of Memory::Statistics, in their order.");

REGISTER_OP("ReplayCheck")
    .Input("memory: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Checks all invariants; an Internal error names a broken one.");

}  // namespace replay
