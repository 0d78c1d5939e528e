// The ops on `Memory`, which check their arguments and call the memory. The Python
// interface (memory.py) explains their purpose.
//
// The memory knows its columns; an op on it does not. The Python interface sets
// their static shapes in graphs, since a list of shapes as an attribute of each op
// would cost an eager call more than the sampling itself.
#include "memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ops.h"

namespace replay::memory_ops {
namespace {

using absl::Span;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::NoOutputs;
using tensorflow::shape_inference::UnknownShape;
using Resource = MemoryResource<Memory>;

constexpr int kNumCounters = sizeof(Memory::Statistics) / sizeof(int64_t);

// Returns the input "priorities": n numbers, each finite and not negative, or -1
// for unknown.
absl::StatusOr<Span<const float>> Priorities(OpKernelContext* c, int64_t n) {
  TF_ASSIGN_OR_RETURN(const auto priorities, Vector<float>(c, "priorities", n));
  for (int64_t i = 0; i < n; ++i) {
    const float priority = priorities[i];
    if (priority == kUnknownPriority) continue;
    if (priority >= 0 && std::isfinite(priority)) continue;
    return InvalidArgument("priorities[", i, "] must be finite and not negative "
                           "(or -1 for unknown), is ", priority);
  }
  return priorities;
}

// Returns the input "item_lengths", or null if it is empty. Lengths must be in
// [1, capacity], and the keys of an item's steps at most 2^63 - 1.
absl::StatusOr<const int32_t*> Lengths(OpKernelContext* c,
                                       Span<const int64_t> item_keys,
                                       size_t capacity) {
  const Tensor* given;
  TF_RETURN_IF_ERROR(c->input("item_lengths", &given));
  if (given->NumElements() == 0) return nullptr;
  TF_ASSIGN_OR_RETURN(const auto lengths,
                      Vector<int32_t>(c, "item_lengths", item_keys.size()));
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int32_t length = lengths[i];
    if (length < 1 || static_cast<size_t>(length) > capacity) {
      return InvalidArgument("item_lengths[", i, "] must be in [1, ", capacity,
                             "], is ", length);
    }
    if (item_keys[i] > std::numeric_limits<int64_t>::max() - (length - 1)) {
      return InvalidArgument("item_keys[", i, "] + item_lengths[", i, "] must be "
                             "at most 2^63, they are ", item_keys[i], " and ",
                             length);
    }
  }
  return lengths.data();
}

// Creates a memory. `kinds`, `exponents` and `periods` describe its distributions
// (DistributionSpec), and so does `uniform_mixes`, an input because attributes
// cannot hold doubles. `removal` is the index of the distribution that picks the
// items to remove. The Python interface has checked all but the largest capacity.
absl::Status MakeMemory(OpKernelContext* c) {
  TF_ASSIGN_OR_RETURN(const auto capacity, Attribute(c, "capacity"));
  TF_ASSIGN_OR_RETURN(const auto hard_capacity, Attribute(c, "hard_capacity"));
  TF_ASSIGN_OR_RETURN(const auto columns, GetColumns(c));
  TF_ASSIGN_OR_RETURN(const auto kinds,
                      Attribute<std::vector<std::string>>(c, "kinds"));
  TF_ASSIGN_OR_RETURN(const auto exponents,
                      Attribute<std::vector<float>>(c, "exponents"));
  TF_ASSIGN_OR_RETURN(const auto periods,
                      Attribute<std::vector<int64_t>>(c, "periods"));
  TF_ASSIGN_OR_RETURN(const auto removal, Attribute(c, "removal"));
  TF_ASSIGN_OR_RETURN(const auto seed, Attribute(c, "seed"));
  if (hard_capacity > (1 << 30)) {
    return InvalidArgument("hard_capacity (the capacity, if not given) must be "
                           "at most 2^30, is ", hard_capacity);
  }
  const int64_t num_distributions = kinds.size();
  TF_ASSIGN_OR_RETURN(const auto mixes, Vector<double>(c, "uniform_mixes",
                                                       num_distributions));
  std::vector<DistributionSpec> specs;
  Signature signature = {"kind: keyed memory",
                         absl::StrCat("capacity: ", capacity),
                         absl::StrCat("hard capacity: ", hard_capacity)};
  for (int64_t i = 0; i < num_distributions; ++i) {
    specs.push_back({kinds[i], exponents[i], mixes[i], periods[i]});
    signature.push_back(absl::StrCat(
        "distribution ", i, ": ", kinds[i], ", exponent ", Exact(exponents[i]),
        ", uniform mix ", Exact(mixes[i]), ", period ", periods[i],
        i == removal ? ", for removal" : ""));
  }
  return OutputMemory<Memory>(c, columns, std::move(signature), hard_capacity,
                              capacity, hard_capacity, ColumnBytes(columns),
                              specs, removal, seed);
}

OP("ReplayMemory", MakeMemory)
    .Input("uniform_mixes: double")
    .Output("memory: resource")
    .Attr("capacity: int >= 1").Attr("hard_capacity: int >= 1")
    .Attr("names: list(string) >= 1").Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1").Attr("max_bytes: list(int) >= 1")
    .Attr("prefixes: list(string) >= 1").Attr("suffixes: list(string) >= 1")
    .Attr("kinds: list({'uniform', 'fifo', 'proportional', 'contextual', "
          "'rank_based'}) >= 1")
    .Attr("exponents: list(float) >= 1").Attr("periods: list(int) >= 1")
    .Attr("removal: int >= 0").Attr("seed: int = 0")
    .SetShapeFn(Scalars);

// Adds steps [S], and items [I] that view steps of this call or older steps.
// `item_keys` is [0] if each step is an item (I = S), and `item_lengths` is [0]
// if each item views one step.
absl::Status Insert(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto step_keys, Keys(c, "step_keys"));
  TF_ASSIGN_OR_RETURN(auto item_keys, Keys(c, "item_keys"));
  if (item_keys.empty()) item_keys = step_keys;
  TF_ASSIGN_OR_RETURN(
      const auto* lengths,
      Lengths(c, item_keys, resource.memory->capacity()));
  TF_ASSIGN_OR_RETURN(const auto priorities, Priorities(c, item_keys.size()));
  const size_t hard_capacity = resource.memory->hard_capacity();
  if (step_keys.size() > hard_capacity) {
    return InvalidArgument("step_keys: ", step_keys.size(), " steps at once do "
                           "not fit a capacity of ", hard_capacity);
  }
  Memory::Steps steps = {step_keys.size(), step_keys.data(), {}};
  TF_ASSIGN_OR_RETURN(steps.columns,
                      InputColumns(c, resource.columns, steps.n));
  const Memory::Items items = {item_keys.size(), item_keys.data(), lengths,
                               priorities.data()};
  if (!resource.memory->Insert(steps, items)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the memory of ", hard_capacity, " steps has no room: too "
                     "many calls are in flight"));
  }
  return absl::OkStatus();
}

OP("ReplayInsert", Insert)
    .Input("memory: resource")
    .Input("step_keys: int64").Input("item_keys: int64")
    .Input("item_lengths: int32").Input("priorities: float")
    .Input("columns: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .SetShapeFn(NoOutputs);

// Draws items [B]: their first steps, [B, ...], or, if `max_length` is not 0,
// sequences of at most that length, [B, max_length, ...].
absl::Status Sample(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto n, Scalar<int32_t>(c, "batch_size"));
  TF_ASSIGN_OR_RETURN(const auto seed, Scalar<int64_t>(c, "seed"));
  if (n < 1) return InvalidArgument("batch_size must be at least 1, is ", n);
  TF_ASSIGN_OR_RETURN(const auto distribution, Attribute(c, "distribution"));
  TF_ASSIGN_OR_RETURN(const auto max_length, Attribute(c, "max_length"));
  const TensorShape batch({n});
  TensorShape leading = batch;
  if (max_length > 0) {
    TF_RETURN_IF_ERROR(leading.AddDimWithStatus(max_length));
  }
  TF_ASSIGN_OR_RETURN(auto* keys, Output<int64_t>(c, "keys", batch));
  TF_ASSIGN_OR_RETURN(auto* masses, Output<double>(c, "masses", batch));
  TF_ASSIGN_OR_RETURN(auto* total_mass, Output<double>(c, "total_mass"));
  TF_ASSIGN_OR_RETURN(auto* count, Output<int64_t>(c, "count"));
  TF_ASSIGN_OR_RETURN(auto* lengths, Output<int32_t>(c, "lengths", batch));
  TF_ASSIGN_OR_RETURN(const auto columns,
                      OutputColumns(c, resource.columns, leading));
  if (!resource.memory->Sample(
          distribution, n, std::max<int64_t>(max_length, 1), seed, keys, masses,
          lengths, total_mass, count, columns)) {
    return absl::FailedPreconditionError(
        "the memory holds no item of positive priority to sample");
  }
  return absl::OkStatus();
}

OP("ReplaySample", Sample)
    .Input("memory: resource").Input("batch_size: int32").Input("seed: int64")
    .Output("keys: int64").Output("masses: double")
    .Output("total_mass: double").Output("count: int64")
    .Output("lengths: int32").Output("columns: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Attr("distribution: int >= 0 = 0").Attr("max_length: int >= 0 = 0")
    .SetShapeFn(UnknownShape);

absl::Status Read(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto keys, Keys(c, "keys"));
  const TensorShape n({static_cast<int64_t>(keys.size())});
  TF_ASSIGN_OR_RETURN(auto* found, Output<bool>(c, "found", n));
  TF_ASSIGN_OR_RETURN(const auto columns,
                      OutputColumns(c, resource.columns, n));
  resource.memory->Read(keys.data(), keys.size(), found, columns);
  return absl::OkStatus();
}

OP("ReplayRead", Read)
    .Input("memory: resource").Input("keys: int64")
    .Output("found: bool").Output("columns: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .SetShapeFn(UnknownShape);

// Sets the priorities of items in every distribution of the memory. Of equal
// keys the last one counts.
absl::Status UpdatePriorities(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto keys, Keys(c, "keys"));
  TF_ASSIGN_OR_RETURN(const auto priorities, Priorities(c, keys.size()));
  TF_ASSIGN_OR_RETURN(auto* missing, Output<int64_t>(c, "missing"));
  *missing = resource.memory->UpdatePriorities(keys.data(), priorities.data(),
                                               keys.size());
  return absl::OkStatus();
}

OP("ReplayUpdatePriorities", UpdatePriorities)
    .Input("memory: resource").Input("keys: int64").Input("priorities: float")
    .Output("missing: int64")
    .SetShapeFn(Scalars);

absl::Status RemoveToFit(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(auto* removed, Output<int64_t>(c, "removed"));
  *removed = resource.memory->RemoveToFit();
  return absl::OkStatus();
}

OP("ReplayRemoveToFit", RemoveToFit)
    .Input("memory: resource")
    .Output("removed: int64")
    .SetShapeFn(Scalars);

absl::Status Masses(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto distribution, Attribute(c, "distribution"));
  TF_ASSIGN_OR_RETURN(const auto keys, Keys(c, "keys"));
  const TensorShape n({static_cast<int64_t>(keys.size())});
  TF_ASSIGN_OR_RETURN(auto* found, Output<bool>(c, "found", n));
  TF_ASSIGN_OR_RETURN(auto* masses, Output<double>(c, "masses", n));
  TF_ASSIGN_OR_RETURN(auto* total_mass, Output<double>(c, "total_mass"));
  TF_ASSIGN_OR_RETURN(auto* count, Output<int64_t>(c, "count"));
  resource.memory->Masses(distribution, keys.data(), keys.size(), found, masses,
                          total_mass, count);
  return absl::OkStatus();
}

OP("ReplayMasses", Masses)
    .Input("memory: resource").Input("keys: int64")
    .Output("found: bool").Output("masses: double")
    .Output("total_mass: double").Output("count: int64")
    .Attr("distribution: int >= 0 = 0")
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(Scalars(c));
      for (const int i : {0, 1}) c->set_output(i, c->input(1));
      return absl::OkStatus();
    });

// Outputs the counters of Memory::Statistics, in their order.
absl::Status Statistics(OpKernelContext* c, Resource& resource) {
  return OutputCounters<kNumCounters>(c, resource.memory->statistics());
}

OP("ReplayStatistics", Statistics)
    .Input("memory: resource")
    .Output("counters: int64")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(kNumCounters));
      return absl::OkStatus();
    });

SAVING_OPS("Replay", Memory);

}  // namespace
}  // namespace replay::memory_ops
