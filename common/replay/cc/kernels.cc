// Kernels of the replay ops: they check the arguments and call the memory.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "arguments.h"
#include "memory.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace replay {
namespace {

using tensorflow::DataType;
using tensorflow::DataTypeString;
using tensorflow::DEVICE_CPU;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::core::RefCountPtr;

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// A column of a stored step. The last three fields are used by strings only:
// the longest value allowed, and the bytes with which each value must begin and
// end.
struct Column {
  std::string name;
  DataType dtype;
  TensorShape shape;
  int64_t max_bytes;
  std::string prefix, suffix;

  bool is_variable() const { return dtype == tensorflow::DT_STRING; }
};

class MemoryResource : public tensorflow::ResourceBase {
 public:
  MemoryResource(std::vector<Column> columns, std::unique_ptr<Memory> memory)
      : columns(std::move(columns)), memory(std::move(memory)) {}
  std::string DebugString() const override { return "replay memory"; }

  const std::vector<Column> columns;
  const std::unique_ptr<Memory> memory;
};

// Checks a value of a column of strings.
absl::Status CheckString(const Column& column, int64_t row,
                         std::string_view value) {
  const auto refuse = [&](const auto&... parts) {
    return InvalidArgument("column ", column.name, "[", row, "] must ",
                           parts...);
  };
  if (static_cast<int64_t>(value.size()) > column.max_bytes) {
    return refuse("have at most ", column.max_bytes, " bytes, has ",
                  value.size());
  }
  if (value.size() < column.prefix.size() + column.suffix.size()) {
    return refuse("have at least ",
                  column.prefix.size() + column.suffix.size(), " bytes, has ",
                  value.size());
  }
  if (value.substr(0, column.prefix.size()) != column.prefix) {
    return refuse("begin with the prefix in the column's spec: it is damaged, "
                  "or of another kind or size");
  }
  if (value.substr(value.size() - column.suffix.size()) != column.suffix) {
    return refuse("end with the suffix in the column's spec: it is damaged or "
                  "cut off");
  }
  return absl::OkStatus();
}

// Points `source` at the values of `tensor`, [S, ...] of the column's dtype,
// which must outlive it.
absl::Status Source(const Column& column, const Tensor& tensor,
                    ColumnSource* source) {
  if (!column.is_variable()) {
    source->fixed = tensor.tensor_data().data();
    return absl::OkStatus();
  }
  const auto values = tensor.flat<tstring>();
  source->variable.reserve(values.size());
  for (int64_t i = 0; i < values.size(); ++i) {
    const std::string_view value = values(i);
    TF_RETURN_IF_ERROR(CheckString(column, i, value));
    source->variable.push_back(value);
  }
  return absl::OkStatus();
}

// Returns a target that writes to `tensor`, of the column's dtype, which must
// outlive it.
ColumnTarget Target(const Column& column, Tensor* tensor) {
  ColumnTarget target;
  if (column.is_variable()) {
    tstring* const values = tensor->flat<tstring>().data();
    target.variable = [values](size_t i, std::string_view value) {
      values[i].assign(value.data(), value.size());
    };
  } else {
    target.fixed = const_cast<char*>(tensor->tensor_data().data());
  }
  return target;
}

class MemoryOp : public OpKernel {
 public:
  explicit MemoryOp(OpKernelConstruction* c) : OpKernel(c) {
    std::vector<std::string> names;
    std::vector<DataType> dtypes;
    std::vector<TensorShape> shapes;
    std::vector<float> exponents;
    std::vector<int64_t> max_bytes;
    std::vector<std::string> prefixes, suffixes;
    OP_REQUIRES_OK(c, c->GetAttr("capacity", &capacity_));
    OP_REQUIRES_OK(c, c->GetAttr("hard_capacity", &hard_capacity_));
    OP_REQUIRES_OK(c, c->GetAttr("names", &names));
    OP_REQUIRES_OK(c, c->GetAttr("dtypes", &dtypes));
    OP_REQUIRES_OK(c, c->GetAttr("shapes", &shapes));
    OP_REQUIRES_OK(c, c->GetAttr("max_bytes", &max_bytes));
    OP_REQUIRES_OK(c, c->GetAttr("prefixes", &prefixes));
    OP_REQUIRES_OK(c, c->GetAttr("suffixes", &suffixes));
    OP_REQUIRES_OK(c, c->GetAttr("kinds", &kinds_));
    OP_REQUIRES_OK(c, c->GetAttr("exponents", &exponents));
    OP_REQUIRES_OK(c, c->GetAttr("removal", &removal_));
    OP_REQUIRES_OK(c, c->GetAttr("seed", &seed_));
    OP_REQUIRES(c, hard_capacity_ <= (1 << 30),
                InvalidArgument("hard_capacity (the capacity, if not given) "
                                "must be at most 2^30, is ", hard_capacity_));
    OP_REQUIRES(c, capacity_ <= hard_capacity_,
                InvalidArgument("capacity must be at most hard_capacity, ",
                                hard_capacity_, ", is ", capacity_));
    OP_REQUIRES(c, names.size() == dtypes.size() &&
                       names.size() == shapes.size() &&
                       names.size() == max_bytes.size() &&
                       names.size() == prefixes.size() &&
                       names.size() == suffixes.size(),
                InvalidArgument("names, dtypes, shapes, max_bytes, prefixes "
                                "and suffixes must be of one length"));
    OP_REQUIRES(c, kinds_.size() == exponents.size() &&
                       removal_ < static_cast<int64_t>(kinds_.size()),
                InvalidArgument("kinds and exponents must be of one length, "
                                "and removal an index into them"));
    for (size_t i = 0; i < names.size(); ++i) {
      columns_.push_back({names[i], dtypes[i], shapes[i], max_bytes[i],
                          prefixes[i], suffixes[i]});
      OP_REQUIRES_OK(c, Check(columns_.back()));
    }
    for (size_t i = 0; i < kinds_.size(); ++i) {
      OP_REQUIRES(c, MakeDistribution({kinds_[i], 0.0, 0.0}, 1) != nullptr,
                  InvalidArgument("unknown distribution \"", kinds_[i], "\""));
      specs_.push_back({kinds_[i], exponents[i], 0.0});
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
    std::vector<size_t> bytes;
    for (const Column& column : columns_) {
      bytes.push_back(column.is_variable()
                          ? kVariable
                          : column.shape.num_elements() *
                                tensorflow::DataTypeSize(column.dtype));
    }
    std::unique_ptr<Memory> memory;
    try {
      memory = std::make_unique<Memory>(capacity_, hard_capacity_,
                                        std::move(bytes), specs, removal_,
                                        seed_);
    } catch (const std::bad_alloc&) {
      c->SetStatus(absl::ResourceExhaustedError(absl::StrCat(
          "no address space for a memory of ", hard_capacity_, " steps")));
      return;
    }
    Tensor handle(tensorflow::DT_RESOURCE, TensorShape({}));
    handle.scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle(
            new MemoryResource(columns_, std::move(memory)),
            c->device()->name());
    c->set_output(0, handle);
  }

 private:
  static absl::Status Check(const Column& column) {
    if (column.is_variable()) {
      if (column.max_bytes >= 1 && column.shape.dims() == 0) {
        return absl::OkStatus();
      }
      return InvalidArgument("column ", column.name, ": dtype string needs ",
                             "shape [] and max_bytes of at least 1, not ",
                             column.shape.DebugString(), " and ",
                             column.max_bytes);
    }
    if (tensorflow::DataTypeCanUseMemcpy(column.dtype)) {
      return absl::OkStatus();
    }
    return InvalidArgument("column ", column.name, ": dtype ",
                           DataTypeString(column.dtype), " has no fixed size");
  }

  int64_t capacity_, hard_capacity_, removal_, seed_;
  std::vector<std::string> kinds_;
  std::vector<Column> columns_;
  std::vector<DistributionSpec> specs_;  // Without their uniform mixes.
};

// Base of the ops on an existing memory.
class MemoryUserOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* c) override {
    RefCountPtr<MemoryResource> resource;
    OP_REQUIRES_OK(c, tensorflow::LookupResource(
                          c, tensorflow::HandleFromInput(c, 0), &resource));
    ComputeWith(c, *resource);
  }

 protected:
  virtual void ComputeWith(OpKernelContext* c, MemoryResource& resource) = 0;

  // Gets the input `name`, which must be a vector, of `expected` elements if
  // that is given.
  static absl::Status Vector(OpKernelContext* c, const char* name,
                             const Tensor** tensor, int64_t expected = -1) {
    TF_RETURN_IF_ERROR(c->input(name, tensor));
    const TensorShape& shape = (*tensor)->shape();
    if (shape.dims() != 1 || (expected >= 0 && shape.dim_size(0) != expected)) {
      const std::string wanted =
          expected >= 0 ? absl::StrCat("[", expected, "]")
                        : "a vector";
      return InvalidArgument(name, " must be of shape ", wanted, ", is ",
                             shape.DebugString());
    }
    return absl::OkStatus();
  }

  static absl::Status Keys(OpKernelContext* c, const char* name,
                           const Tensor** tensor) {
    TF_RETURN_IF_ERROR(Vector(c, name, tensor));
    return Checked(CheckKeys(name, (*tensor)->vec<int64_t>().data(),
                             (*tensor)->NumElements()));
  }

  static absl::Status Priorities(OpKernelContext* c, int64_t expected,
                                 const Tensor** tensor) {
    TF_RETURN_IF_ERROR(Vector(c, "priorities", tensor, expected));
    return Checked(CheckPriorities((*tensor)->vec<float>().data(),
                                   (*tensor)->NumElements()));
  }

  // Makes a status of what a check of arguments.h returns.
  static absl::Status Checked(const std::string& wrong) {
    return wrong.empty() ? absl::OkStatus() : InvalidArgument(wrong);
  }

  static absl::Status Known(int64_t distribution,
                            const MemoryResource& resource) {
    const int64_t count = resource.memory->num_distributions();
    if (distribution < count) return absl::OkStatus();
    return InvalidArgument("distribution must be below ", count, ", is ",
                           distribution);
  }

  static absl::Status SameDtypes(const std::vector<DataType>& dtypes,
                                 const std::vector<Column>& columns) {
    if (dtypes.size() != columns.size()) {
      return InvalidArgument("columns: the memory has ", columns.size(),
                             ", not ", dtypes.size());
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      if (dtypes[i] != columns[i].dtype) {
        return InvalidArgument("column ", columns[i].name, " must be ",
                               DataTypeString(columns[i].dtype), ", is ",
                               DataTypeString(dtypes[i]));
      }
    }
    return absl::OkStatus();
  }

  // Allocates an output of shape [leading..., column...] for each column, from
  // output number `first` on.
  static absl::Status AllocateColumns(OpKernelContext* c,
                                      const std::vector<Column>& columns,
                                      const TensorShape& leading, int first,
                                      std::vector<ColumnTarget>* targets) {
    for (size_t i = 0; i < columns.size(); ++i) {
      TensorShape shape = leading;
      TF_RETURN_IF_ERROR(shape.AppendShapeWithStatus(columns[i].shape));
      Tensor* output;
      TF_RETURN_IF_ERROR(c->allocate_output(first + i, shape, &output));
      targets->push_back(Target(columns[i], output));
    }
    return absl::OkStatus();
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
    OpInputList columns;
    OP_REQUIRES_OK(c, c->input_list("columns", &columns));
    OP_REQUIRES_OK(c, SameDtypes(dtypes_, resource.columns));
    Memory::Steps steps;
    steps.n = num_steps;
    steps.keys = step_keys->vec<int64_t>().data();
    for (int i = 0; i < columns.size(); ++i) {
      TensorShape expected({num_steps});
      expected.AppendShape(resource.columns[i].shape);
      OP_REQUIRES(c, columns[i].shape() == expected,
                  InvalidArgument("column ", resource.columns[i].name,
                                  " must be of shape ", expected.DebugString(),
                                  ", is ", columns[i].shape().DebugString()));
      steps.columns.emplace_back();
      OP_REQUIRES_OK(c, Source(resource.columns[i], columns[i],
                               &steps.columns.back()));
    }
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
    const Tensor* batch_size;
    OP_REQUIRES_OK(c, c->input("batch_size", &batch_size));
    OP_REQUIRES(c, batch_size->dims() == 0,
                InvalidArgument("batch_size must be a scalar, is of shape ",
                                batch_size->shape().DebugString()));
    const Tensor* seed;
    OP_REQUIRES_OK(c, c->input("seed", &seed));
    OP_REQUIRES(c, seed->dims() == 0,
                InvalidArgument("seed must be a scalar, is of shape ",
                                seed->shape().DebugString()));
    const int64_t n = batch_size->scalar<int32_t>()();
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
                    static_cast<uint64_t>(seed->scalar<int64_t>()()),
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
