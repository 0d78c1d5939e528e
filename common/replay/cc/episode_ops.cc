// The ops on `EpisodeMemory`, which check their arguments and call the memory. The
// Python interface (episode_memory.py) explains their purpose.
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "episode_memory.h"
#include "ops.h"

namespace replay::episode_ops {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::NoOutputs;
using tensorflow::shape_inference::UnknownShape;
using Resource = MemoryResource<EpisodeMemory>;

constexpr int kNumCounters =
    offsetof(EpisodeMemory::Statistics, mean_divergence) / sizeof(int64_t);

// Returns the input `name`: n finite floats, each at least `least`.
absl::StatusOr<const float*> Values(
    OpKernelContext* c, const char* name, int64_t n,
    float least = std::numeric_limits<float>::lowest()) {
  TF_ASSIGN_OR_RETURN(const auto values, Vector<float>(c, name, n));
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(values[i])) {
      return InvalidArgument(name, "[", i, "] must be finite, is ", values[i]);
    }
    if (values[i] < least) {
      return InvalidArgument(name, "[", i, "] must be at least ", least, ", is ",
                             values[i]);
    }
  }
  return values.data();
}

// The arguments of all ops that draw.
struct Draw {
  int32_t batch_size;
  int64_t num_batches;
  uint64_t seed;
  TensorShape shape;  // [num_batches * batch_size]
};

absl::StatusOr<Draw> GetDraw(OpKernelContext* c) {
  Draw draw;
  TF_ASSIGN_OR_RETURN(draw.batch_size, Scalar<int32_t>(c, "batch_size"));
  TF_ASSIGN_OR_RETURN(draw.num_batches, Attribute(c, "num_batches"));
  TF_ASSIGN_OR_RETURN(draw.seed, Scalar<int64_t>(c, "seed"));
  if (draw.batch_size < 1) {
    return InvalidArgument("batch_size must be at least 1, is ",
                           draw.batch_size);
  }
  if (draw.num_batches > (1 << 30)) {
    return InvalidArgument("num_batches must be at most 2^30, is ",
                           draw.num_batches);
  }
  TF_RETURN_IF_ERROR(
      draw.shape.AddDimWithStatus(draw.batch_size * draw.num_batches));
  return draw;
}

absl::Status TooFew(const Draw& draw, int64_t count, const char* items) {
  return absl::FailedPreconditionError(
      absl::StrCat("the memory holds ", count, " ", items,
                   ", fewer than a batch of ", draw.batch_size));
}

// Creates a memory; the attributes of its columns are as in ReplayMemory.
absl::Status MakeMemory(OpKernelContext* c) {
  const std::map<std::string, EpisodeMemory::Removal> removals = {
      {"oldest", EpisodeMemory::Removal::kOldest},
      {"far_policy", EpisodeMemory::Removal::kFarPolicy},
      {"divergence", EpisodeMemory::Removal::kDivergence}};
  TF_ASSIGN_OR_RETURN(const auto capacity, Attribute(c, "capacity"));
  TF_ASSIGN_OR_RETURN(const auto discount, Attribute<float>(c, "discount"));
  TF_ASSIGN_OR_RETURN(const auto columns, GetColumns(c));
  TF_ASSIGN_OR_RETURN(const auto kind, Attribute<std::string>(c, "kind"));
  TF_ASSIGN_OR_RETURN(const auto exponent, Attribute<float>(c, "exponent"));
  TF_ASSIGN_OR_RETURN(const auto mix, Attribute<float>(c, "uniform_mix"));
  TF_ASSIGN_OR_RETURN(const auto period, Attribute(c, "period"));
  TF_ASSIGN_OR_RETURN(const auto removal, Attribute<std::string>(c, "removal"));
  TF_ASSIGN_OR_RETURN(const auto seed, Attribute(c, "seed"));
  if (capacity > (1 << 29)) {
    return InvalidArgument("capacity must be at most 2^29, is ", capacity);
  }
  const DistributionSpec sampling = {kind, exponent, mix, period};
  Signature signature = {"kind: episode memory",
                         absl::StrCat("capacity: ", capacity),
                         absl::StrCat("discount: ", Exact(discount)),
                         absl::StrCat("sampling: ", kind, ", exponent ",
                                      Exact(exponent), ", period ", period,
                                      mix > 0 ? ", mix " + Exact(mix) : ""),
                         absl::StrCat("removal: ", removal)};
  return OutputMemory<EpisodeMemory>(c, columns, std::move(signature), capacity,
                                     capacity, discount, ColumnBytes(columns),
                                     sampling, removals.at(removal), seed);
}

OP("EpisodeMemory", MakeMemory)
    .Output("memory: resource")
    .Attr("capacity: int >= 1").Attr("discount: float")
    .Attr("names: list(string) >= 1").Attr("dtypes: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1").Attr("max_bytes: list(int) >= 1")
    .Attr("prefixes: list(string) >= 1").Attr("suffixes: list(string) >= 1")
    .Attr("kind: {'uniform', 'proportional', 'rank_based'}")
    .Attr("exponent: float").Attr("uniform_mix: float").Attr("period: int >= 1")
    .Attr("removal: {'oldest', 'far_policy', 'divergence'}")
    .Attr("seed: int = 0")
    .SetShapeFn(Scalars);

// Adds an episode of T steps: finite `rewards` [T], `values` [T + 1] and
// `advantages` [T], and `columns` [T + 1, ...].
absl::Status Add(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto rewards, Vector<float>(c, "rewards"));
  const size_t num_steps = rewards.size();
  const size_t capacity = resource.memory->capacity();
  if (num_steps < 1) {
    return InvalidArgument("rewards: an episode must have at least 1 step, "
                           "has 0");
  }
  if (num_steps > capacity) {
    return InvalidArgument("rewards: an episode of ", num_steps, " steps does "
                           "not fit a capacity of ", capacity);
  }
  EpisodeMemory::NewEpisode added;
  added.num_steps = num_steps;
  TF_ASSIGN_OR_RETURN(added.rewards, Values(c, "rewards", num_steps));
  TF_ASSIGN_OR_RETURN(added.values, Values(c, "values", num_steps + 1));
  TF_ASSIGN_OR_RETURN(added.advantages, Values(c, "advantages", num_steps));
  TF_ASSIGN_OR_RETURN(added.terminated, Scalar<bool>(c, "terminated"));
  TF_ASSIGN_OR_RETURN(added.columns,
                      InputColumns(c, resource.columns, num_steps + 1));
  TF_ASSIGN_OR_RETURN(auto* key, Output<int64_t>(c, "key"));
  if (!resource.memory->Add(added, key)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the memory of ", capacity, " steps has no room: too many "
                     "calls are in flight"));
  }
  return absl::OkStatus();
}

OP("EpisodeAdd", Add)
    .Input("memory: resource")
    .Input("rewards: float").Input("values: float")
    .Input("advantages: float").Input("terminated: bool").Input("columns: dtypes")
    .Output("key: int64")
    .Attr("dtypes: list(type) >= 1")
    .SetShapeFn(Scalars);

// Draws N = num_batches * batch_size steps. With a history of H, `columns` are
// [N, H + 2, ...]: at most H states before each step, its own and the next one.
absl::Status Sample(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const Draw draw, GetDraw(c));
  // Checked before allocating memory for a batch that cannot be drawn.
  if (draw.batch_size > static_cast<int64_t>(resource.memory->capacity())) {
    return TooFew(draw, resource.memory->statistics().steps, "steps");
  }
  const TensorShape& n = draw.shape;
  EpisodeMemory::Drawn drawn;
  TF_ASSIGN_OR_RETURN(drawn.keys, Output<int64_t>(c, "keys", n));
  TF_ASSIGN_OR_RETURN(drawn.probabilities,
                      Output<double>(c, "probabilities", n));
  TF_ASSIGN_OR_RETURN(drawn.rewards, Output<float>(c, "rewards", n));
  TF_ASSIGN_OR_RETURN(drawn.discounts, Output<float>(c, "discounts", n));
  TF_ASSIGN_OR_RETURN(drawn.bootstraps, Output<bool>(c, "bootstraps", n));
  TF_ASSIGN_OR_RETURN(drawn.q_ret, Output<float>(c, "q_ret", n));
  TF_ASSIGN_OR_RETURN(drawn.v_tbc, Output<float>(c, "v_tbc", n));
  TF_ASSIGN_OR_RETURN(auto* count, Output<int64_t>(c, "count"));
  TF_ASSIGN_OR_RETURN(drawn.history, Attribute(c, "history"));
  TF_ASSIGN_OR_RETURN(drawn.lengths, Output<int32_t>(c, "lengths", n));
  TensorShape states = n;
  TF_RETURN_IF_ERROR(states.AddDimWithStatus(drawn.history + 2));
  TF_ASSIGN_OR_RETURN(drawn.columns,
                      OutputColumns(c, resource.columns, states));
  if (resource.memory->Sample(draw.batch_size, draw.num_batches, draw.seed,
                              drawn, count)) {
    return absl::OkStatus();
  }
  return TooFew(draw, *count, "steps");
}

OP("EpisodeSample", Sample)
    .Input("memory: resource").Input("batch_size: int32").Input("seed: int64")
    .Output("keys: int64").Output("probabilities: double")
    .Output("rewards: float").Output("discounts: float")
    .Output("bootstraps: bool").Output("q_ret: float").Output("v_tbc: float")
    .Output("count: int64").Output("lengths: int32").Output("columns: dtypes")
    .Attr("dtypes: list(type) >= 1").Attr("num_batches: int >= 1 = 1")
    .Attr("history: int >= 0 = 0")
    .SetShapeFn(UnknownShape);

// Draws windows of N = num_batches * batch_size episodes. The longest window has L
// steps: `rewards` are [N, L] and `columns` [N, L + 1, ...].
absl::Status SampleEpisodes(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const Draw draw, GetDraw(c));
  TF_ASSIGN_OR_RETURN(const auto max_steps, Scalar<int32_t>(c, "max_steps"));
  if (max_steps < 1) {
    return InvalidArgument("max_steps must be at least 1, is ", max_steps);
  }
  // Checked before allocating memory for a batch that cannot be drawn.
  const int64_t there = resource.memory->statistics().episodes;
  if (there < draw.batch_size) return TooFew(draw, there, "episodes");
  const TensorShape& n = draw.shape;
  EpisodeMemory::Windows windows;
  TF_ASSIGN_OR_RETURN(windows.keys, Output<int64_t>(c, "keys", n));
  TF_ASSIGN_OR_RETURN(windows.lengths, Output<int64_t>(c, "lengths", n));
  TF_ASSIGN_OR_RETURN(windows.bootstraps, Output<bool>(c, "bootstraps", n));
  TF_ASSIGN_OR_RETURN(auto* count, Output<int64_t>(c, "count"));
  const auto make_room = [&](int64_t longest,
                             EpisodeMemory::WindowSteps* steps) {
    TensorShape states = n, actions = n;
    TF_RETURN_IF_ERROR(states.AddDimWithStatus(longest + 1));
    TF_RETURN_IF_ERROR(actions.AddDimWithStatus(longest));
    TF_ASSIGN_OR_RETURN(steps->rewards, Output<float>(c, "rewards", actions));
    TF_ASSIGN_OR_RETURN(steps->columns,
                        OutputColumns(c, resource.columns, states));
    return absl::OkStatus();
  };
  absl::Status room;
  const bool is_drawn = resource.memory->SampleEpisodes(
      draw.batch_size, draw.num_batches, max_steps, draw.seed, windows,
      [&](size_t longest, EpisodeMemory::WindowSteps* steps) {
        room = make_room(longest, steps);
        return room.ok();
      },
      count);
  return is_drawn ? room : TooFew(draw, *count, "episodes");
}

OP("EpisodeSampleEpisodes", SampleEpisodes)
    .Input("memory: resource").Input("batch_size: int32")
    .Input("max_steps: int32").Input("seed: int64")
    .Output("keys: int64").Output("lengths: int64").Output("bootstraps: bool")
    .Output("count: int64").Output("rewards: float").Output("columns: dtypes")
    .Attr("dtypes: list(type) >= 1").Attr("num_batches: int >= 1 = 1")
    .SetShapeFn(UnknownShape);

// Stores the results of updates for steps [N]: all finite, and rhos and errors not
// negative.
absl::Status Refresh(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto num_batches, Attribute(c, "num_batches"));
  TF_ASSIGN_OR_RETURN(const auto keys, Keys(c, "keys"));
  const int64_t n = keys.size();
  if (n % num_batches != 0) {
    return InvalidArgument("keys: ", n, " steps are not ", num_batches,
                           " batches of one size");
  }
  EpisodeMemory::Refreshed refreshed;
  refreshed.n = n;
  refreshed.keys = keys.data();
  TF_ASSIGN_OR_RETURN(refreshed.values, Values(c, "values", n));
  TF_ASSIGN_OR_RETURN(refreshed.advantages, Values(c, "advantages", n));
  TF_ASSIGN_OR_RETURN(refreshed.rhos, Values(c, "rhos", n, 0.0f));
  TF_ASSIGN_OR_RETURN(refreshed.divergences, Values(c, "divergences", n));
  TF_ASSIGN_OR_RETURN(refreshed.errors, Values(c, "errors", n, 0.0f));
  TF_ASSIGN_OR_RETURN(refreshed.next_values, Values(c, "next_values", n));
  TF_ASSIGN_OR_RETURN(const auto c_max, Scalar<float>(c, "c_max"));
  if (!(c_max >= 1)) {
    return InvalidArgument("c_max must be at least 1, is ", c_max);
  }
  TF_ASSIGN_OR_RETURN(auto* missing, Output<int64_t>(c, "missing"));
  *missing = resource.memory->Refresh(refreshed, c_max, num_batches);
  return absl::OkStatus();
}

OP("EpisodeRefresh", Refresh)
    .Input("memory: resource").Input("keys: int64")
    .Input("values: float").Input("advantages: float").Input("rhos: float")
    .Input("divergences: float").Input("errors: float")
    .Input("next_values: float").Input("c_max: float")
    .Output("missing: int64")
    .Attr("num_batches: int >= 1 = 1")
    .SetShapeFn(Scalars);

// Outputs the stored numbers of steps, [6, B], in the order of EpisodeMemory::Read.
absl::Status Stored(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto keys, Keys(c, "keys"));
  const int64_t n = keys.size();
  TF_ASSIGN_OR_RETURN(
      auto* stored, Output<float>(c, "stored", {EpisodeMemory::kStored, n}));
  resource.memory->Read(keys.data(), n, stored);
  return absl::OkStatus();
}

OP("EpisodeStored", Stored)
    .Input("memory: resource").Input("keys: int64")
    .Output("stored: float")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Matrix(EpisodeMemory::kStored,
                                 InferenceContext::kUnknownDim));
      return absl::OkStatus();
    });

absl::Status RewardScale(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(auto* scale, Output<double>(c, "scale"));
  *scale = resource.memory->RewardScale();
  return absl::OkStatus();
}

OP("EpisodeRewardScale", RewardScale)
    .Input("memory: resource")
    .Output("scale: double")
    .SetShapeFn(Scalars);

absl::Status SetRewardScale(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto scale, Scalar<double>(c, "scale"));
  TF_ASSIGN_OR_RETURN(const auto recompute, Attribute<bool>(c, "recompute"));
  if (!(std::isfinite(scale) && scale >= 0)) {
    return InvalidArgument("scale must be finite and not negative, is ", scale);
  }
  resource.memory->SetRewardScale(scale, recompute);
  return absl::OkStatus();
}

OP("EpisodeSetRewardScale", SetRewardScale)
    .Input("memory: resource").Input("scale: double")
    .Attr("recompute: bool")
    .SetShapeFn(NoOutputs);

absl::Status Moments(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto number, Attribute(c, "column"));
  const Column& column = resource.columns[number];
  if (column.dtype != tensorflow::DT_FLOAT) {
    return InvalidArgument("column ", column.name, " must be float, is ",
                           tensorflow::DataTypeString(column.dtype));
  }
  TF_ASSIGN_OR_RETURN(auto* mean, Output<double>(c, "mean", column.shape));
  TF_ASSIGN_OR_RETURN(auto* deviation,
                      Output<double>(c, "deviation", column.shape));
  resource.memory->Moments(number, column.shape.num_elements(), mean,
                           deviation);
  return absl::OkStatus();
}

OP("EpisodeMoments", Moments)
    .Input("memory: resource")
    .Output("mean: double").Output("deviation: double")
    .Attr("column: int >= 0")
    .SetShapeFn(UnknownShape);

absl::Status CountSteps(OpKernelContext* c, Resource& resource) {
  TF_ASSIGN_OR_RETURN(const auto n, Scalar<int64_t>(c, "n"));
  if (n < 0) return InvalidArgument("n must not be negative, is ", n);
  resource.memory->CountSteps(n);
  return absl::OkStatus();
}

OP("EpisodeCountSteps", CountSteps)
    .Input("memory: resource").Input("n: int64")
    .SetShapeFn(NoOutputs);

// Outputs the members of EpisodeMemory::Statistics, in their order.
absl::Status Statistics(OpKernelContext* c, Resource& resource) {
  const EpisodeMemory::Statistics statistics = resource.memory->statistics();
  TF_ASSIGN_OR_RETURN(auto* mean_divergence,
                      Output<double>(c, "mean_divergence"));
  *mean_divergence = statistics.mean_divergence;
  return OutputCounters<kNumCounters>(c, statistics);
}

OP("EpisodeStatistics", Statistics)
    .Input("memory: resource")
    .Output("counters: int64").Output("mean_divergence: double")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(kNumCounters));
      c->set_output(1, c->Scalar());
      return absl::OkStatus();
    });

SAVING_OPS("Episode", EpisodeMemory);

}  // namespace
}  // namespace replay::episode_ops
