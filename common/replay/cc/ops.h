// Shared by the ops: their declaration, columns, attributes, inputs and outputs,
// and the functions that save and load a memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "rows.h"
#include "saved_file.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/statusor.h"

namespace replay {

// Calls the function of an op that creates a resource.
inline absl::Status Call(absl::Status (*function)(tensorflow::OpKernelContext*),
                         tensorflow::OpKernelContext* c) {
  return function(c);
}

// Calls the function of an op on a resource, whose handle is the first input.
template <typename Resource>
absl::Status Call(absl::Status (*function)(tensorflow::OpKernelContext*,
                                           Resource&),
                  tensorflow::OpKernelContext* c) {
  tensorflow::core::RefCountPtr<Resource> resource;
  TF_RETURN_IF_ERROR(tensorflow::LookupResource(
      c, tensorflow::HandleFromInput(c, 0), &resource));
  std::shared_lock<std::shared_mutex> lock(resource->calls);
  return function(c, *resource);
}

template <auto function>
class FunctionOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* c) override {
    c->SetStatus(Call(function, c));
  }
};

// Shape functions that TensorFlow's common_shape_fns.h lacks.

inline absl::Status Scalars(tensorflow::shape_inference::InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
  return absl::OkStatus();
}

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// A column of a stored step, either of strings, with shape [], or of a dtype whose
// values all have the same size. Only strings use the last three fields: the
// length of the longest value allowed, and the bytes with which each value must
// start and end.
struct Column {
  std::string name;  // For error messages.
  tensorflow::DataType dtype;
  tensorflow::TensorShape shape;
  int64_t max_bytes;
  std::string prefix, suffix;

  bool is_variable() const { return dtype == tensorflow::DT_STRING; }
  // The size of its values, or kVariable, as in Rows.
  size_t bytes() const;
};

// A memory; it lives as long as a handle to it does.
template <typename Memory>
struct MemoryResource : public tensorflow::ResourceBase {
  MemoryResource(std::vector<Column> columns, Signature signature,
                 std::function<std::unique_ptr<Memory>()> make)
      : columns(std::move(columns)),
        signature(std::move(signature)),
        make(std::move(make)),
        memory(this->make()) {}
  std::string DebugString() const override { return "replay memory"; }

  const std::vector<Column> columns;
  const Signature signature;
  // Creates an empty memory with the same arguments.
  const std::function<std::unique_ptr<Memory>()> make;
  std::unique_ptr<Memory> memory;
  std::shared_mutex calls;  // Held by calls of the memory, exclusively to load.
};

// Returns an attribute of the op, which is in the range that the op declares.
template <typename T = int64_t>
absl::StatusOr<T> Attribute(tensorflow::OpKernelContext* c, const char* name) {
  T value;
  TF_RETURN_IF_ERROR(
      tensorflow::GetNodeAttr(c->op_kernel().def(), name, &value));
  return value;
}

// Returns the input `name`, which must be a scalar.
template <typename T>
absl::StatusOr<T> Scalar(tensorflow::OpKernelContext* c, const char* name) {
  const tensorflow::Tensor* tensor;
  TF_RETURN_IF_ERROR(c->input(name, &tensor));
  if (tensor->dims() != 0) {
    return InvalidArgument(name, " must be a scalar, is of shape ",
                           tensor->shape().DebugString());
  }
  return tensor->scalar<T>()();
}

// Checks that `tensor` is a vector, of `expected` elements unless that is negative.
absl::Status CheckVector(const char* name, const tensorflow::Tensor& tensor,
                         int64_t expected);

// Returns the input `name`, which must be a vector, of `expected` elements unless
// that is negative.
template <typename T>
absl::StatusOr<absl::Span<const T>> Vector(tensorflow::OpKernelContext* c,
                                           const char* name,
                                           int64_t expected = -1) {
  const tensorflow::Tensor* tensor;
  TF_RETURN_IF_ERROR(c->input(name, &tensor));
  TF_RETURN_IF_ERROR(CheckVector(name, *tensor, expected));
  return absl::MakeConstSpan(tensor->flat<T>().data(), tensor->NumElements());
}

// Returns the input `name`, a vector of keys, which must not be negative.
absl::StatusOr<absl::Span<const int64_t>> Keys(tensorflow::OpKernelContext* c,
                                               const char* name);

// Allocates the output `name` and returns its elements.
template <typename T>
absl::StatusOr<T*> Output(tensorflow::OpKernelContext* c, const char* name,
                          const tensorflow::TensorShape& shape = {}) {
  tensorflow::Tensor* tensor;
  TF_RETURN_IF_ERROR(c->allocate_output(name, shape, &tensor));
  return tensor->flat<T>().data();
}

// Outputs the first `n` members of a memory's statistics, all int64, as the vector
// "counters".
template <int n, typename Statistics>
absl::Status OutputCounters(tensorflow::OpKernelContext* c,
                            const Statistics& statistics) {
  static_assert(sizeof(statistics) >= n * sizeof(int64_t));
  TF_ASSIGN_OR_RETURN(auto* counters, Output<int64_t>(c, "counters", {n}));
  std::memcpy(counters, &statistics, n * sizeof(int64_t));
  return absl::OkStatus();
}

// Returns the columns that the attributes of a memory's op describe.
absl::StatusOr<std::vector<Column>> GetColumns(tensorflow::OpKernelContext* c);

std::vector<size_t> ColumnBytes(const std::vector<Column>& columns);

// Returns a column's line in a signature.
std::string Description(const Column& column);

// Returns a short text from which the number can be read back exactly.
template <typename T>
std::string Exact(T value) {
  std::string text;
  for (int digits = 6; digits <= std::numeric_limits<T>::max_digits10; ++digits) {
    text = absl::StrFormat("%.*g", digits, value);
    // Not std::strtod, which expects a comma where the program's locale does.
    double read;
    if (absl::SimpleAtod(text, &read) && static_cast<T>(read) == value) break;
  }
  return text;
}

// Returns the values of the input list "columns", whose tensors must have shape
// [num_rows, ...] and outlive the values.
absl::StatusOr<std::vector<ColumnSource>> InputColumns(
    tensorflow::OpKernelContext* c, const std::vector<Column>& columns,
    int64_t num_rows);

// Allocates the outputs of the list "columns", each of shape [leading..., ...].
// The Python interface sets their dtypes.
absl::StatusOr<std::vector<ColumnTarget>> OutputColumns(
    tensorflow::OpKernelContext* c, const std::vector<Column>& columns,
    const tensorflow::TensorShape& leading);

// Outputs a handle to a new memory of `num_steps` steps, constructed from
// `arguments`. `signature` has a line for each argument except the columns and the
// seed.
template <typename Memory, typename... Arguments>
absl::Status OutputMemory(tensorflow::OpKernelContext* c,
                          const std::vector<Column>& columns,
                          Signature signature, int64_t num_steps,
                          const Arguments&... arguments) {
  for (const Column& column : columns) signature.push_back(Description(column));
  MemoryResource<Memory>* resource;
  try {
    resource = new MemoryResource<Memory>(
        columns, std::move(signature),
        [arguments...] { return std::make_unique<Memory>(arguments...); });
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no address space for a memory of ", num_steps, " steps"));
  }
  tensorflow::core::RefCountPtr<MemoryResource<Memory>> owner(resource);
  TF_ASSIGN_OR_RETURN(auto* handle,
                      Output<tensorflow::ResourceHandle>(c, "memory"));
  *handle = tensorflow::ResourceHandle::MakeRefCountingHandle(
      owner.release(), c->device()->name());
  return absl::OkStatus();
}

// Calls function(path). Outputs "wrong": one line that says why the file cannot be
// written or used, or an empty string. The message of an error status would not be
// one line.
template <typename Function>
absl::Status WithFile(tensorflow::OpKernelContext* c, const char* verb,
                      Function function) {
  using tensorflow::tstring;
  TF_ASSIGN_OR_RETURN(const std::string path, Scalar<tstring>(c, "path"));
  TF_ASSIGN_OR_RETURN(auto* wrong, Output<tstring>(c, "wrong"));
  try {
    function(path);
  } catch (const FileError& error) {
    *wrong = error.what();
  } catch (const std::bad_alloc&) {
    *wrong = absl::StrCat("cannot ", verb, " ", path, ": not enough memory");
  }
  return absl::OkStatus();
}

// Writes a memory to the file "path".
template <typename Memory>
absl::Status SaveMemory(tensorflow::OpKernelContext* c,
                        MemoryResource<Memory>& resource) {
  return WithFile(c, "write", [&](const std::string& path) {
    FileWriter file(path, resource.signature);
    resource.memory->Save(file);
    file.Commit();
  });
}

// Loads an empty memory from the file "path".
template <typename Memory>
absl::Status LoadMemory(tensorflow::OpKernelContext* c) {
  tensorflow::core::RefCountPtr<MemoryResource<Memory>> resource;
  TF_RETURN_IF_ERROR(tensorflow::LookupResource(
      c, tensorflow::HandleFromInput(c, 0), &resource));
  return WithFile(c, "load", [&](const std::string& path) {
    FileReader file(path, resource->signature);
    // The resource receives the whole file or nothing.
    auto loaded = resource->make();
    loaded->Load(file);
    file.Finish();
    std::lock_guard<std::shared_mutex> lock(resource->calls);
    const int64_t steps = resource->memory->statistics().steps;
    if (steps == 0) return resource->memory.swap(loaded);
    file.Refuse(absl::StrCat("the memory is in use, it holds ", steps,
                             " steps: load into a new one"));
  });
}

// Checks all invariants of a memory.
template <typename Memory>
absl::Status CheckMemory(tensorflow::OpKernelContext*,
                         MemoryResource<Memory>& resource) {
  try {
    resource.memory->CheckInvariants();
  } catch (const BrokenInvariant& broken) {
    return absl::InternalError(absl::StrCat("replay memory: ", broken.what()));
  }
  return absl::OkStatus();
}

}  // namespace replay

// Declares a stateful op `name`, a string, that calls `function`. Its inputs,
// outputs, attributes and shape function follow as for REGISTER_OP:
//
//   absl::Status CountSteps(OpKernelContext* c, Resource& resource) { ... }
//   OP("EpisodeCountSteps", CountSteps)
//       .Input("memory: resource").Input("n: int64")
//       .SetShapeFn(NoOutputs);
#define OP(name, function)                                            \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU),  \
                          ::replay::FunctionOp<function>);            \
  REGISTER_OP(name).SetIsStateful()

// Declares the ops that save, load and check a class of memories.
#define SAVING_OPS(kind, Memory)                                        \
  OP(kind "Save", SaveMemory<Memory>)                                   \
      .Input("memory: resource").Input("path: string")                  \
      .Output("wrong: string").SetShapeFn(Scalars);                     \
  OP(kind "Load", LoadMemory<Memory>)                                   \
      .Input("memory: resource").Input("path: string")                  \
      .Output("wrong: string").SetShapeFn(Scalars);                     \
  OP(kind "Check", CheckMemory<Memory>)                                 \
      .Input("memory: resource").SetShapeFn(NoOutputs)
