// Kernels of the ops on `Memory`: they check the arguments and call the memory.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "arguments.h"
#include "kernel_arguments.h"
#include "memory.h"
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

class MemoryResource : public tensorflow::ResourceBase {
 public:
  MemoryResource(std::vector<Column> columns, std::unique_ptr<Memory> memory)
      : columns(std::move(columns)), memory(std::move(memory)) {}
  std::string DebugString() const override { return "replay memory"; }

  const std::vector<Column> columns;
  const std::unique_ptr<Memory> memory;
};

class MemoryOp : public OpKernel {
 public:
  explicit MemoryOp(OpKernelConstruction* c) : OpKernel(c) {
    std::vector<float> exponents;
    std::vector<int64_t> periods;
    OP_REQUIRES_OK(c, c->GetAttr("capacity", &capacity_));
    OP_REQUIRES_OK(c, c->GetAttr("hard_capacity", &hard_capacity_));
    OP_REQUIRES_OK(c, GetColumns(c, &columns_));
    OP_REQUIRES_OK(c, c->GetAttr("kinds", &kinds_));
    OP_REQUIRES_OK(c, c->GetAttr("exponents", &exponents));
    OP_REQUIRES_OK(c, c->GetAttr("periods", &periods));
    OP_REQUIRES_OK(c, c->GetAttr("removal", &removal_));
    OP_REQUIRES_OK(c, c->GetAttr("seed", &seed_));
    OP_REQUIRES(c, hard_capacity_ <= (1 << 30),
                InvalidArgument("hard_capacity (the capacity, if not given) "
                                "must be at most 2^30, is ", hard_capacity_));
    OP_REQUIRES(c, capacity_ <= hard_capacity_,
                InvalidArgument("capacity must be at most hard_capacity, ",
                                hard_capacity_, ", is ", capacity_));
    OP_REQUIRES(c, kinds_.size() == exponents.size() &&
                       kinds_.size() == periods.size() &&
                       removal_ < static_cast<int64_t>(kinds_.size()),
                InvalidArgument("kinds, exponents and periods must be of one "
                                "length, and removal an index into them"));
    for (size_t i = 0; i < kinds_.size(); ++i) {
      OP_REQUIRES(c, MakeDistribution({kinds_[i], 0.0, 0.0}, 1) != nullptr,
                  InvalidArgument("unknown distribution \"", kinds_[i], "\""));
      specs_.push_back({kinds_[i], exponents[i], 0.0, periods[i]});
    }
  }

  void Compute(OpKernelContext* c) override {
    const Tensor& mixes = c->input(0);
    OP_REQUIRES(c, mixes.shape() == TensorShape({static_cast<int64_t>(
                                        specs_.size())}),
                InvalidArgument("uniform_mixes must have one value for each of ",
                                specs_.size(), " distributions, is of shape ",
                                mixes.shape().DebugString()));
    std::vector<DistributionSpec> specs = specs_;
    for (size_t i = 0; i < specs.size(); ++i) {
      const double mix = mixes.vec<double>()(i);
      OP_REQUIRES(c, mix >= 0 && mix <= 1,
                  InvalidArgument("uniform_mixes[", i, "] must be in [0, 1], ",
                                  "is ", mix));
      specs[i].uniform_mix = mix;
    }
    std::unique_ptr<Memory> memory;
    try {
      memory = std::make_unique<Memory>(capacity_, hard_capacity_,
                                        ColumnBytes(columns_), specs, removal_,
                                        seed_);
    } catch (const std::bad_alloc&) {
      c->SetStatus(absl::ResourceExhaustedError(absl::StrCat(
          "no address space for a memory of ", hard_capacity_, " steps")));
      return;
    }
    OutputHandle(c, new MemoryResource(columns_, std::move(memory)));
  }

 private:
  int64_t capacity_, hard_capacity_, removal_, seed_;
  std::vector<std::string> kinds_;
  std::vector<Column> columns_;
  std::vector<DistributionSpec> specs_;  // Without their uniform mixes.
};

// Base of the ops on an existing memory.
class MemoryUserOp : public ResourceUserOp<MemoryResource> {
 public:
  using ResourceUserOp::ResourceUserOp;

 protected:
  static absl::Status Priorities(OpKernelContext* c, int64_t expected,
                                 const Tensor** tensor) {
    TF_RETURN_IF_ERROR(Vector(c, "priorities", tensor, expected));
    return Checked(CheckPriorities((*tensor)->vec<float>().data(),
                                   (*tensor)->NumElements()));
  }

  static absl::Status Known(int64_t distribution,
                            const MemoryResource& resource) {
    const int64_t count = resource.memory->num_distributions();
    if (distribution < count) return absl::OkStatus();
    return InvalidArgument("distribution must be below ", count, ", is ",
                           distribution);
  }
};

class InsertOp : public MemoryUserOp {
 public:
  explicit InsertOp(OpKernelConstruction* c) : MemoryUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("dtypes", &dtypes_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, MemoryResource& resource) override {
    const Tensor *step_keys, *item_keys, *lengths, *priorities;
    OP_REQUIRES_OK(c, Keys(c, "step_keys", &step_keys));
    OP_REQUIRES_OK(c, Keys(c, "item_keys", &item_keys));
    const int64_t num_steps = step_keys->NumElements();
    if (item_keys->NumElements() == 0) item_keys = step_keys;
    const int64_t num_items = item_keys->NumElements();
    OP_REQUIRES_OK(c, c->input("item_lengths", &lengths));
    const bool all_one = lengths->NumElements() == 0;
    if (!all_one) {
      OP_REQUIRES_OK(c, Vector(c, "item_lengths", &lengths, num_items));
    }
    OP_REQUIRES_OK(c, Priorities(c, num_items, &priorities));
    const int64_t hard_capacity = resource.memory->hard_capacity();
    OP_REQUIRES(c, num_steps <= hard_capacity,
                InvalidArgument("step_keys: ", num_steps, " steps at once do "
                                "not fit a capacity of ", hard_capacity));
    if (!all_one) {
      OP_REQUIRES_OK(c, Checked(CheckLengths(
                            item_keys->vec<int64_t>().data(),
                            lengths->vec<int32_t>().data(), num_items,
                            resource.memory->capacity())));
    }
    OP_REQUIRES_OK(c, SameDtypes(dtypes_, resource.columns));
    Memory::Steps steps;
    steps.n = num_steps;
    steps.keys = step_keys->vec<int64_t>().data();
    OP_REQUIRES_OK(
        c, GetSources(c, resource.columns, num_steps, &steps.columns));
    const Memory::Items items = {static_cast<size_t>(num_items),
                                 item_keys->vec<int64_t>().data(),
                                 all_one ? nullptr
                                         : lengths->vec<int32_t>().data(),
                                 priorities->vec<float>().data()};
    OP_REQUIRES(c, resource.memory->Insert(steps, items) ==
                       Memory::Outcome::kOk,
                absl::ResourceExhaustedError(absl::StrCat(
                    "the memory of ", hard_capacity, " steps has no room: too "
                    "many calls are in flight")));
  }

 private:
  std::vector<DataType> dtypes_;
};

class SampleOp : public MemoryUserOp {
 public:
  explicit SampleOp(OpKernelConstruction* c) : MemoryUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("dtypes", &dtypes_));
    OP_REQUIRES_OK(c, c->GetAttr("distribution", &distribution_));
    OP_REQUIRES_OK(c, c->GetAttr("max_length", &max_length_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, MemoryResource& resource) override {
    OP_REQUIRES_OK(c, SameDtypes(dtypes_, resource.columns));
    int32_t n;
    int64_t seed;
    OP_REQUIRES_OK(c, Scalar(c, "batch_size", &n));
    OP_REQUIRES_OK(c, Scalar(c, "seed", &seed));
    OP_REQUIRES(c, n >= 1,
                InvalidArgument("batch_size must be at least 1, is ", n));
    OP_REQUIRES_OK(c, Known(distribution_, resource));
    const TensorShape batch({n});
    TensorShape leading = batch;
    if (max_length_ > 0) {
      OP_REQUIRES_OK(c, leading.AddDimWithStatus(max_length_));
    }
    Tensor *keys, *masses, *total_mass, *count, *lengths;
    OP_REQUIRES_OK(c, c->allocate_output(0, batch, &keys));
    OP_REQUIRES_OK(c, c->allocate_output(1, batch, &masses));
    OP_REQUIRES_OK(c, c->allocate_output(2, TensorShape({}), &total_mass));
    OP_REQUIRES_OK(c, c->allocate_output(3, TensorShape({}), &count));
    OP_REQUIRES_OK(c, c->allocate_output(4, batch, &lengths));
    std::vector<ColumnTarget> columns;
    OP_REQUIRES_OK(
        c, AllocateColumns(c, resource.columns, leading, 5, &columns));
    OP_REQUIRES(c,
                resource.memory->Sample(
                    distribution_, n, std::max<int64_t>(max_length_, 1),
                    static_cast<uint64_t>(seed),
                    keys->vec<int64_t>().data(), masses->vec<double>().data(),
                    lengths->vec<int32_t>().data(),
                    &total_mass->scalar<double>()(),
                    &count->scalar<int64_t>()(),
                    columns) == Memory::Outcome::kOk,
                absl::FailedPreconditionError("the memory holds no item of "
                                              "positive priority to sample"));
  }

 private:
  std::vector<DataType> dtypes_;
  int64_t distribution_, max_length_;
};

class ReadOp : public MemoryUserOp {
 public:
  explicit ReadOp(OpKernelConstruction* c) : MemoryUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("dtypes", &dtypes_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, MemoryResource& resource) override {
    OP_REQUIRES_OK(c, SameDtypes(dtypes_, resource.columns));
    const Tensor* keys;
    OP_REQUIRES_OK(c, Keys(c, "keys", &keys));
    Tensor* found;
    OP_REQUIRES_OK(c, c->allocate_output(0, keys->shape(), &found));
    std::vector<ColumnTarget> columns;
    OP_REQUIRES_OK(
        c, AllocateColumns(c, resource.columns, keys->shape(), 1, &columns));
    resource.memory->Read(keys->vec<int64_t>().data(), keys->NumElements(),
                          found->vec<bool>().data(), columns);
  }

 private:
  std::vector<DataType> dtypes_;
};

class UpdatePrioritiesOp : public MemoryUserOp {
 public:
  using MemoryUserOp::MemoryUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, MemoryResource& resource) override {
    const Tensor *keys, *priorities;
    OP_REQUIRES_OK(c, Keys(c, "keys", &keys));
    OP_REQUIRES_OK(c, Priorities(c, keys->NumElements(), &priorities));
    Tensor* missing;
    OP_REQUIRES_OK(c, c->allocate_output(0, TensorShape({}), &missing));
    missing->scalar<int64_t>()() = resource.memory->UpdatePriorities(
        keys->vec<int64_t>().data(), priorities->vec<float>().data(),
        keys->NumElements());
  }
};

class RemoveToFitOp : public MemoryUserOp {
 public:
  using MemoryUserOp::MemoryUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, MemoryResource& resource) override {
    Tensor* removed;
    OP_REQUIRES_OK(c, c->allocate_output(0, TensorShape({}), &removed));
    removed->scalar<int64_t>()() = resource.memory->RemoveToFit();
  }
};

class MassOp : public MemoryUserOp {
 public:
  explicit MassOp(OpKernelConstruction* c) : MemoryUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("distribution", &distribution_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, MemoryResource& resource) override {
    OP_REQUIRES_OK(c, Known(distribution_, resource));
    Tensor *total_mass, *count;
    OP_REQUIRES_OK(c, c->allocate_output(0, TensorShape({}), &total_mass));
    OP_REQUIRES_OK(c, c->allocate_output(1, TensorShape({}), &count));
    resource.memory->Mass(distribution_, &total_mass->scalar<double>()(),
                          &count->scalar<int64_t>()());
  }

 private:
  int64_t distribution_;
};

class MassesOp : public MemoryUserOp {
 public:
  explicit MassesOp(OpKernelConstruction* c) : MemoryUserOp(c) {
    OP_REQUIRES_OK(c, c->GetAttr("distribution", &distribution_));
  }

 protected:
  void ComputeWith(OpKernelContext* c, MemoryResource& resource) override {
    OP_REQUIRES_OK(c, Known(distribution_, resource));
    const Tensor* keys;
    OP_REQUIRES_OK(c, Keys(c, "keys", &keys));
    Tensor *found, *masses;
    OP_REQUIRES_OK(c, c->allocate_output(0, keys->shape(), &found));
    OP_REQUIRES_OK(c, c->allocate_output(1, keys->shape(), &masses));
    resource.memory->Masses(distribution_, keys->vec<int64_t>().data(),
                            keys->NumElements(), found->vec<bool>().data(),
                            masses->vec<double>().data());
  }

 private:
  int64_t distribution_;
};

class StatisticsOp : public MemoryUserOp {
 public:
  using MemoryUserOp::MemoryUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, MemoryResource& resource) override {
    const Memory::Statistics s = resource.memory->statistics();
    const std::vector<int64_t> values = {
        s.steps,      s.items,    s.held_bytes, s.inserted, s.duplicates,
        s.incomplete, s.unviewed, s.removed,    s.sampled,  s.updated,
        s.missing};
    Tensor* output;
    OP_REQUIRES_OK(c, c->allocate_output(
                          0, TensorShape({static_cast<int64_t>(values.size())}),
                          &output));
    std::copy(values.begin(), values.end(), output->vec<int64_t>().data());
  }
};

class CheckOp : public MemoryUserOp {
 public:
  using MemoryUserOp::MemoryUserOp;

 protected:
  void ComputeWith(OpKernelContext* c, MemoryResource& resource) override {
    const std::string wrong = resource.memory->CheckInvariants();
    OP_REQUIRES(c, wrong.empty(), absl::InternalError(absl::StrCat("replay memory: ",
                                                         wrong)));
  }
};

#define REGISTER(op, kernel) \
  REGISTER_KERNEL_BUILDER(Name(op).Device(DEVICE_CPU), kernel)
REGISTER("ReplayMemory", MemoryOp);
REGISTER("ReplayInsert", InsertOp);
REGISTER("ReplaySample", SampleOp);
REGISTER("ReplayRead", ReadOp);
REGISTER("ReplayUpdatePriorities", UpdatePrioritiesOp);
REGISTER("ReplayRemoveToFit", RemoveToFitOp);
REGISTER("ReplayMass", MassOp);
REGISTER("ReplayMasses", MassesOp);
REGISTER("ReplayStatistics", StatisticsOp);
REGISTER("ReplayCheck", CheckOp);
#undef REGISTER

}  // namespace
}  // namespace replay
