// What the kernels of all memories share: columns, and checks of arguments.
#ifndef COMMON_REPLAY_CC_KERNEL_ARGUMENTS_H_
#define COMMON_REPLAY_CC_KERNEL_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rows.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace replay {

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// A column of a stored step. The last three fields are used by strings only:
// the longest value allowed, and the bytes with which each value must begin and
// end.
struct Column {
  std::string name;
  tensorflow::DataType dtype;
  tensorflow::TensorShape shape;
  int64_t max_bytes;
  std::string prefix, suffix;

  bool is_variable() const { return dtype == tensorflow::DT_STRING; }
  // The size of its values, as for Rows.
  size_t bytes() const;
};

// Gets the columns that the attributes of a memory's op describe.
absl::Status GetColumns(tensorflow::OpKernelConstruction* c,
                        std::vector<Column>* columns);

std::vector<size_t> ColumnBytes(const std::vector<Column>& columns);

// Points `sources` at the values of the tensors of the input list "columns",
// which must be of shape [num_rows, ...] and outlive them.
absl::Status GetSources(tensorflow::OpKernelContext* c,
                        const std::vector<Column>& columns, int64_t num_rows,
                        std::vector<ColumnSource>* sources);

// Allocates an output of shape [leading..., column...] for each column, from
// output number `first` on.
absl::Status AllocateColumns(tensorflow::OpKernelContext* c,
                             const std::vector<Column>& columns,
                             const tensorflow::TensorShape& leading, int first,
                             std::vector<ColumnTarget>* targets);

// Checks that the attribute `dtypes` of an op fits the memory's columns.
absl::Status SameDtypes(const std::vector<tensorflow::DataType>& dtypes,
                        const std::vector<Column>& columns);

// Gets the input `name`, which must be a vector, of `expected` elements if that
// is given.
absl::Status Vector(tensorflow::OpKernelContext* c, const char* name,
                    const tensorflow::Tensor** tensor, int64_t expected = -1);

// Gets the input `name`, which must be a scalar.
template <typename T>
absl::Status Scalar(tensorflow::OpKernelContext* c, const char* name,
                    T* value) {
  const tensorflow::Tensor* tensor;
  TF_RETURN_IF_ERROR(c->input(name, &tensor));
  if (tensor->dims() != 0) {
    return InvalidArgument(name, " must be a scalar, is of shape ",
                           tensor->shape().DebugString());
  }
  *value = tensor->scalar<T>()();
  return absl::OkStatus();
}

// Gets the input `name`, a vector of keys.
absl::Status Keys(tensorflow::OpKernelContext* c, const char* name,
                  const tensorflow::Tensor** tensor);

// Makes a status of what a check of arguments.h returns.
absl::Status Checked(const std::string& wrong);

// Outputs a handle that owns a new resource.
template <typename Resource>
void OutputHandle(tensorflow::OpKernelContext* c, Resource* resource) {
  tensorflow::Tensor handle(tensorflow::DT_RESOURCE,
                            tensorflow::TensorShape({}));
  handle.scalar<tensorflow::ResourceHandle>()() =
      tensorflow::ResourceHandle::MakeRefCountingHandle(resource,
                                                        c->device()->name());
  c->set_output(0, handle);
}

// Base of the ops on an existing memory.
template <typename Resource>
class ResourceUserOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* c) override {
    tensorflow::core::RefCountPtr<Resource> resource;
    OP_REQUIRES_OK(c, tensorflow::LookupResource(
                          c, tensorflow::HandleFromInput(c, 0), &resource));
    ComputeWith(c, *resource);
  }

 protected:
  virtual void ComputeWith(tensorflow::OpKernelContext* c,
                           Resource& resource) = 0;
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_KERNEL_ARGUMENTS_H_
