// The functions of the ops that save and load a memory.
#ifndef COMMON_REPLAY_CC_SAVING_OPS_H_
#define COMMON_REPLAY_CC_SAVING_OPS_H_

#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernel_arguments.h"
#include "saved_file.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace replay {

// Calls function(path). Outputs "wrong": the line of a file that cannot be
// written or used, or an empty string. An error's message would not be one line.
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
absl::Status LoadMemory(tensorflow::OpKernelContext* c,
                        MemoryResource<Memory>& resource) {
  return WithFile(c, "load", [&](const std::string& path) {
    FileReader file(path, resource.signature);
    const auto require = [&](bool is_empty) {
      if (is_empty) return;
      file.Refuse(absl::StrCat("the memory is in use, it holds ",
                               resource.memory->statistics().steps,
                               " steps: load into a new one"));
    };
    require(resource.memory->statistics().steps == 0);
    // The memory gets all of the file or nothing.
    const auto loaded = resource.make();
    loaded->Load(file);
    file.Finish();
    require(resource.memory->SwapIfEmpty(*loaded));
  });
}

}  // namespace replay

#endif  // COMMON_REPLAY_CC_SAVING_OPS_H_
