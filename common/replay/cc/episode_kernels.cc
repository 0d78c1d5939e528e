// Kernels of the ops on `EpisodeMemory`: they check the arguments and call the
// memory.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "arguments.h"
#include "episode_memory.h"
#include "kernel_arguments.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace replay {
namespace {

using tensorflow::DataType;
using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr float kLowest = std::numeric_limits<float>::lowest();

class EpisodeMemoryResource : public tensorflow::ResourceBase {
 public:
  EpisodeMemoryResource(std::vector<Column> columns,
                        std::unique_ptr<EpisodeMemory> memory)
      : columns(std::move(columns)), memory(std::move(memory)) {}
  std::string DebugString() const override { return "episode memory"; }

  const std::vector<Column> columns;
  const std::unique_ptr<EpisodeMemory> memory;
};

class EpisodeMemoryOp : public OpKernel {
 public:
  explicit EpisodeMemoryOp(OpKernelConstruction* c) : OpKernel(c) {
    const std::map<std::string, EpisodeMemory::Removal> removals = {
        {"oldest", EpisodeMemory::Removal::kOldest},
        {"far_policy", EpisodeMemory::Removal::kFarPolicy},
        {"divergence", EpisodeMemory::Removal::kDivergence}};
    std::string removal;
    float exponent;
    OP_REQUIRES_OK(c, c->GetAttr("capacity", &capacity_));
    OP_REQUIRES_OK(c, c->GetAttr("discount", &discount_));
    OP_REQUIRES_OK(c, GetColumns(c, &columns_));
    OP_REQUIRES_OK(c, c->GetAttr("kind", &sampling_.kind));
    OP_REQUIRES_OK(c, c->GetAttr("exponent", &exponent));
    OP_REQUIRES_OK(c, c->GetAttr("period", &sampling_.period));
    OP_REQUIRES_OK(c, c->GetAttr("removal", &removal));
    OP_REQUIRES_OK(c, c->GetAttr("seed", &seed_));
    OP_REQUIRES(c, capacity_ <= (1 << 29),
                InvalidArgument("capacity must be at most 2^29, is ",
                                capacity_));
    removal_ = removals.at(removal);
    sampling_.exponent = exponent;
    sampling_.uniform_mix = 0.0;
  }

  void Compute(OpKernelContext* c) override {
    std::unique_ptr<EpisodeMemory> memory;
    try {
      memory = std::make_unique<EpisodeMemory>(
          capacity_, discount_, ColumnBytes(columns_), sampling_, removal_,
          seed_);
    } catch (const std::bad_alloc&) {
      c->SetStatus(absl::ResourceExhaustedError(absl::StrCat(
          "no address space for a memory of ", capacity_, " steps")));
      return;
    }
    OutputHandle(c, new EpisodeMemoryResource(columns_, std::move(memory)));
  }

 private:
  int64_t capacity_, seed_;
  float discount_;
  std::vector<Column> columns_;
  DistributionSpec sampling_;
  EpisodeMemory::Removal removal_;
};

// Base of the ops on an existing memory.
class EpisodeUserOp : public ResourceUserOp<EpisodeMemoryResource> {
 public:
  using ResourceUserOp::ResourceUserOp;

 protected:
  // Gets the input `name`, a vector of n finite floats that are not below
  // `least`.
  static absl::Status Values(OpKernelContext* c, const char* name, int64_t n,
                             const float** values, float least = kLowest) {
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(Vector(c, name, &tensor, n));
    *values = tensor->vec<float>().data();
    return Checked(CheckValues(name, *values, n, least));
  }

  static absl::Status CMax(OpKernelContext* c, float* c_max) {
    TF_RETURN_IF_ERROR(Scalar(c, "c_max", c_max));
    if (*c_max >= 1) return absl::OkStatus();
    return InvalidArgument("c_max must be at least 1, is ", *c_max);
  }

  // Allocates output `i` and returns its elements.
  template <typename T>
  static absl::Status Output(OpKernelContext* c, int i,
                             const TensorShape& shape, T** elements) {
    Tensor* tensor;
    TF_RETURN_IF_ERROR(c->allocate_output(i, shape, &tensor));
    *elements = tensor->flat<T>().data();
    return absl::OkStatus();
  }
};

class EpisodeAddOp : public EpisodeUserOp {
 public:
  explicit EpisodeAddOp(OpKernelConstruction* c) : EpisodeUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("dtypes", &dtypes_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    const Tensor* rewards;
    EpisodeMemory::NewEpisode added;
    OP_REQUIRES_OK(c, Vector(c, "rewards", &rewards));
    const int64_t num_steps = rewards->NumElements();
    const int64_t capacity = resource.memory->capacity();
    OP_REQUIRES(c, num_steps >= 1,
                InvalidArgument("rewards: an episode must have at least 1 "
                                "step, has 0"));
    OP_REQUIRES(c, num_steps <= capacity,
                InvalidArgument("rewards: an episode of ", num_steps,
                                " steps does not fit a capacity of ",
                                capacity));
    added.num_steps = num_steps;
    OP_REQUIRES_OK(c, Values(c, "rewards", num_steps, &added.rewards));
    OP_REQUIRES_OK(c, Values(c, "values", num_steps + 1, &added.values));
    OP_REQUIRES_OK(c, Scalar(c, "terminated", &added.terminated));
    OP_REQUIRES_OK(c, SameDtypes(dtypes_, resource.columns));
    OP_REQUIRES_OK(
        c, GetSources(c, resource.columns, num_steps + 1, &added.columns));
    int64_t* key;
    OP_REQUIRES_OK(c, Output(c, 0, TensorShape({}), &key));
    OP_REQUIRES(c, resource.memory->Add(added, key) ==
                       EpisodeMemory::Outcome::kOk,
                absl::ResourceExhaustedError(absl::StrCat(
                    "the memory of ", capacity, " steps has no room: too many "
                    "calls are in flight")));
  }

 private:
  std::vector<DataType> dtypes_;
};

class EpisodeSampleOp : public EpisodeUserOp {
 public:
  explicit EpisodeSampleOp(OpKernelConstruction* c) : EpisodeUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("dtypes", &dtypes_));
    OP_REQUIRES_OK(c, c->GetAttr("num_batches", &num_batches_));
    OP_REQUIRES(c, num_batches_ <= (1 << 30),
                InvalidArgument("num_batches must be at most 2^30, is ",
                                num_batches_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    std::vector<DataType> dtypes = dtypes_;
    dtypes.resize(dtypes_.size() / 2);
    OP_REQUIRES_OK(c, SameDtypes(dtypes, resource.columns));
    int32_t batch_size;
    int64_t seed;
    OP_REQUIRES_OK(c, Scalar(c, "batch_size", &batch_size));
    OP_REQUIRES_OK(c, Scalar(c, "seed", &seed));
    OP_REQUIRES(c, batch_size >= 1,
                InvalidArgument("batch_size must be at least 1, is ",
                                batch_size));
    // Before memory is allocated for a batch that cannot be drawn.
    OP_REQUIRES(c, batch_size <= static_cast<int64_t>(resource.memory->capacity()),
                TooFew(batch_size, resource.memory->statistics().steps));
    TensorShape n;
    OP_REQUIRES_OK(c, n.AddDimWithStatus(batch_size * num_batches_));
    EpisodeMemory::Drawn drawn;
    int64_t* count;
    OP_REQUIRES_OK(c, Output(c, 0, n, &drawn.keys));
    OP_REQUIRES_OK(c, Output(c, 1, n, &drawn.probabilities));
    OP_REQUIRES_OK(c, Output(c, 2, n, &drawn.rewards));
    OP_REQUIRES_OK(c, Output(c, 3, n, &drawn.discounts));
    OP_REQUIRES_OK(c, Output(c, 4, n, &drawn.bootstraps));
    OP_REQUIRES_OK(c, Output(c, 5, n, &drawn.q_ret));
    OP_REQUIRES_OK(c, Output(c, 6, TensorShape({}), &count));
    OP_REQUIRES_OK(
        c, AllocateColumns(c, resource.columns, n, 7, &drawn.columns));
    OP_REQUIRES_OK(
        c, AllocateColumns(c, resource.columns, n, 7 + resource.columns.size(),
                           &drawn.next_columns));
    OP_REQUIRES(c, resource.memory->Sample(batch_size, num_batches_,
                                           static_cast<uint64_t>(seed), drawn,
                                           count) ==
                       EpisodeMemory::Outcome::kOk,
                TooFew(batch_size, *count));
  }

 private:
  static absl::Status TooFew(int64_t batch_size, int64_t count) {
    return absl::FailedPreconditionError(
        absl::StrCat("the memory holds ", count, " steps, fewer than a batch "
                     "of ", batch_size));
  }

  std::vector<DataType> dtypes_;
  int64_t num_batches_;
};

class EpisodeRefreshOp : public EpisodeUserOp {
 public:
  explicit EpisodeRefreshOp(OpKernelConstruction* c) : EpisodeUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("num_batches", &num_batches_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    const Tensor* keys;
    EpisodeMemory::Refreshed refreshed;
    float c_max = 0;
    OP_REQUIRES_OK(c, Keys(c, "keys", &keys));
    const int64_t n = keys->NumElements();
    OP_REQUIRES(c, n % num_batches_ == 0,
                InvalidArgument("keys: ", n, " steps are not ", num_batches_,
                                " batches of one size"));
    refreshed.n = n;
    refreshed.keys = keys->vec<int64_t>().data();
    OP_REQUIRES_OK(c, Values(c, "values", n, &refreshed.values));
    OP_REQUIRES_OK(c, Values(c, "rhos", n, &refreshed.rhos, 0.0f));
    OP_REQUIRES_OK(c, Values(c, "divergences", n, &refreshed.divergences));
    OP_REQUIRES_OK(c, Values(c, "errors", n, &refreshed.errors, 0.0f));
    OP_REQUIRES_OK(c, Values(c, "next_values", n, &refreshed.next_values));
    OP_REQUIRES_OK(c, CMax(c, &c_max));
    int64_t* missing;
    OP_REQUIRES_OK(c, Output(c, 0, TensorShape({}), &missing));
    *missing = resource.memory->Refresh(refreshed, c_max, num_batches_);
  }

 private:
  int64_t num_batches_;
};

class EpisodeStoredOp : public EpisodeUserOp {
 public:
  using EpisodeUserOp::EpisodeUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    const Tensor* keys;
    EpisodeMemory::Stored stored;
    OP_REQUIRES_OK(c, Keys(c, "keys", &keys));
    OP_REQUIRES_OK(c, Output(c, 0, keys->shape(), &stored.values));
    OP_REQUIRES_OK(c, Output(c, 1, keys->shape(), &stored.rhos));
    OP_REQUIRES_OK(c, Output(c, 2, keys->shape(), &stored.divergences));
    OP_REQUIRES_OK(c, Output(c, 3, keys->shape(), &stored.errors));
    OP_REQUIRES_OK(c, Output(c, 4, keys->shape(), &stored.q_ret));
    resource.memory->Read(keys->vec<int64_t>().data(), keys->NumElements(),
                          stored);
  }
};

class EpisodeContainsOp : public EpisodeUserOp {
 public:
  using EpisodeUserOp::EpisodeUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    const Tensor* keys;
    bool* contains;
    OP_REQUIRES_OK(c, Keys(c, "keys", &keys));
    OP_REQUIRES_OK(c, Output(c, 0, keys->shape(), &contains));
    resource.memory->Contains(keys->vec<int64_t>().data(), keys->NumElements(),
                              contains);
  }
};

class EpisodeRewardScaleOp : public EpisodeUserOp {
 public:
  using EpisodeUserOp::EpisodeUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    double* scale;
    OP_REQUIRES_OK(c, Output(c, 0, TensorShape({}), &scale));
    *scale = resource.memory->RewardScale();
  }
};

class EpisodeSetRewardScaleOp : public EpisodeUserOp {
 public:
  explicit EpisodeSetRewardScaleOp(OpKernelConstruction* c) : EpisodeUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("recompute", &recompute_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    double scale;
    OP_REQUIRES_OK(c, Scalar(c, "scale", &scale));
    OP_REQUIRES(c, std::isfinite(scale) && scale >= 0,
                InvalidArgument("scale must be finite and not negative, is ",
                                scale));
    resource.memory->SetRewardScale(scale, recompute_);
  }

 private:
  bool recompute_;
};

class EpisodeCountFarPolicyOp : public EpisodeUserOp {
 public:
  using EpisodeUserOp::EpisodeUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    float c_max = 0;
    int64_t* count;
    OP_REQUIRES_OK(c, CMax(c, &c_max));
    OP_REQUIRES_OK(c, Output(c, 0, TensorShape({}), &count));
    *count = resource.memory->CountFarPolicy(c_max);
  }
};

class EpisodeMomentsOp : public EpisodeUserOp {
 public:
  explicit EpisodeMomentsOp(OpKernelConstruction* c) : EpisodeUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("column", &column_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    const std::vector<Column>& columns = resource.columns;
    const auto column =
        std::find_if(columns.begin(), columns.end(),
                     [&](const Column& known) { return known.name == column_; });
    OP_REQUIRES(c, column != columns.end(), Unknown(columns));
    OP_REQUIRES(c, column->dtype == tensorflow::DT_FLOAT,
                InvalidArgument("column ", column_, " must be float, is ",
                                tensorflow::DataTypeString(column->dtype)));
    double *mean, *deviation;
    OP_REQUIRES_OK(c, Output(c, 0, column->shape, &mean));
    OP_REQUIRES_OK(c, Output(c, 1, column->shape, &deviation));
    resource.memory->Moments(column - columns.begin(),
                             column->shape.num_elements(), mean, deviation);
  }

 private:
  absl::Status Unknown(const std::vector<Column>& columns) const {
    std::string names;
    for (const Column& column : columns) absl::StrAppend(&names, " ", column.name);
    return InvalidArgument("column \"", column_, "\" is none of:", names);
  }

  std::string column_;
};

class EpisodeCountStepsOp : public EpisodeUserOp {
 public:
  using EpisodeUserOp::EpisodeUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    int64_t n;
    OP_REQUIRES_OK(c, Scalar(c, "n", &n));
    OP_REQUIRES(c, n >= 0, InvalidArgument("n must not be negative, is ", n));
    resource.memory->CountSteps(n);
  }
};

class EpisodeStatisticsOp : public EpisodeUserOp {
 public:
  using EpisodeUserOp::EpisodeUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    const EpisodeMemory::Statistics s = resource.memory->statistics();
    const std::vector<int64_t> values = {
        s.steps,   s.episodes, s.held_bytes, s.executed,  s.removed,
        s.sampled, s.updated,  s.missing,    s.far_policy};
    int64_t* counters;
    double* mean_divergence;
    OP_REQUIRES_OK(
        c, Output(c, 0, TensorShape({static_cast<int64_t>(values.size())}),
                  &counters));
    OP_REQUIRES_OK(c, Output(c, 1, TensorShape({}), &mean_divergence));
    std::copy(values.begin(), values.end(), counters);
    *mean_divergence = s.mean_divergence;
  }
};

class EpisodeCheckOp : public EpisodeUserOp {
 public:
  using EpisodeUserOp::EpisodeUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, EpisodeMemoryResource& resource) override {
    const std::string wrong = resource.memory->CheckInvariants();
    OP_REQUIRES(c, wrong.empty(),
                absl::InternalError(absl::StrCat("episode memory: ", wrong)));
  }
};

#define REGISTER(op, kernel) \
  REGISTER_KERNEL_BUILDER(Name(op).Device(DEVICE_CPU), kernel)
REGISTER("EpisodeMemory", EpisodeMemoryOp);
REGISTER("EpisodeAdd", EpisodeAddOp);
REGISTER("EpisodeSample", EpisodeSampleOp);
REGISTER("EpisodeRefresh", EpisodeRefreshOp);
REGISTER("EpisodeStored", EpisodeStoredOp);
REGISTER("EpisodeContains", EpisodeContainsOp);
REGISTER("EpisodeRewardScale", EpisodeRewardScaleOp);
REGISTER("EpisodeSetRewardScale", EpisodeSetRewardScaleOp);
REGISTER("EpisodeCountFarPolicy", EpisodeCountFarPolicyOp);
REGISTER("EpisodeMoments", EpisodeMomentsOp);
REGISTER("EpisodeCountSteps", EpisodeCountStepsOp);
REGISTER("EpisodeStatistics", EpisodeStatisticsOp);
REGISTER("EpisodeCheck", EpisodeCheckOp);
#undef REGISTER

}  // namespace
}  // namespace replay
