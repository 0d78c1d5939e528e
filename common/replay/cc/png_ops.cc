// The op that decodes PNG files. Its Python face (png.py) says what it is for.
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "ops.h"
#include "png.h"
#include "tensorflow/core/util/work_sharder.h"

namespace replay::png_ops {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Decodes all files on the threads of TensorFlow.
absl::Status DecodePng(OpKernelContext* c) {
  TF_ASSIGN_OR_RETURN(const auto prefix, Attribute<std::string>(c, "prefix"));
  TF_ASSIGN_OR_RETURN(const auto shape, Attribute<TensorShape>(c, "shape"));
  if (shape.dims() != 3) {
    return InvalidArgument("shape must be [height, width, channels], is ",
                           shape.DebugString());
  }
  const auto files = c->input(0).flat<tstring>();
  TensorShape all = c->input(0).shape();
  all.AppendShape(shape);
  TF_ASSIGN_OR_RETURN(uint8_t* images, Output<uint8_t>(c, "images", all));
  const int64_t bytes = shape.num_elements(), num_files = files.size();
  std::mutex mutex;
  int64_t first_wrong = num_files;
  const char* wrong = nullptr;
  const auto decode = [&](int64_t begin, int64_t end) {
    PngDecoder decoder(prefix, shape.dim_size(0), shape.dim_size(1),
                       shape.dim_size(2));
    for (int64_t i = begin; i < end; ++i) {
      const char* reason = decoder.Decode(files(i), images + i * bytes);
      if (reason == nullptr) continue;
      std::lock_guard<std::mutex> lock(mutex);
      if (i < first_wrong) first_wrong = i, wrong = reason;
      return;
    }
  };
  const auto* threads = c->device()->tensorflow_cpu_worker_threads();
  // About a cycle a byte.
  tensorflow::Shard(threads->num_threads, threads->workers, num_files, bytes,
                    decode);
  if (wrong == nullptr) return absl::OkStatus();
  return InvalidArgument("file ", first_wrong, ": ", wrong);
}

OP("ReplayDecodePng", DecodePng)
    .Input("files: string")
    .Output("images: uint8")
    .Attr("prefix: string").Attr("shape: shape")
    .SetShapeFn([](InferenceContext* c) {
      tensorflow::PartialTensorShape shape;
      ShapeHandle image, images;
      TF_RETURN_IF_ERROR(c->GetAttr("shape", &shape));
      TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shape, &image));
      TF_RETURN_IF_ERROR(c->Concatenate(c->input(0), image, &images));
      c->set_output(0, images);
      return absl::OkStatus();
    });

}  // namespace
}  // namespace replay::png_ops
