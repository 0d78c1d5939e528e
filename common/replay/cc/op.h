// The declaration of an op: its name, its signature and the function it calls.
#ifndef COMMON_REPLAY_CC_OP_H_
#define COMMON_REPLAY_CC_OP_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace replay {

// The function of an op that makes a resource.
inline absl::Status Call(absl::Status (*function)(tensorflow::OpKernelContext*),
                         tensorflow::OpKernelContext* c) {
  return function(c);
}

// The function of an op on a resource, whose handle is the first input.
template <typename Resource>
absl::Status Call(absl::Status (*function)(tensorflow::OpKernelContext*,
                                           Resource&),
                  tensorflow::OpKernelContext* c) {
  tensorflow::core::RefCountPtr<Resource> resource;
  TF_RETURN_IF_ERROR(tensorflow::LookupResource(
      c, tensorflow::HandleFromInput(c, 0), &resource));
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

// Shape functions beside those of TensorFlow (common_shape_fns.h).

inline absl::Status Scalars(tensorflow::shape_inference::InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
  return absl::OkStatus();
}

// Every output has the shape of the second input, the keys.
inline absl::Status ShapeOfKeys(
    tensorflow::shape_inference::InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(1));
  return absl::OkStatus();
}

}  // namespace replay

// Declares the op `name`, a string, that calls `function`. It is stateful; its
// inputs, outputs, attributes and shape function follow as for REGISTER_OP:
//
//   absl::Status CountSteps(OpKernelContext* c, Resource& resource) { ... }
//   OP("EpisodeCountSteps", CountSteps)
//       .Input("memory: resource").Input("n: int64")
//       .SetShapeFn(NoOutputs);
#define OP(name, function)                                            \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU),  \
                          ::replay::FunctionOp<function>);            \
  REGISTER_OP(name).SetIsStateful()

#endif  // COMMON_REPLAY_CC_OP_H_
