#include "kernel_arguments.h"

#include <cstring>
#include <string_view>

#include "arguments.h"

namespace replay {
namespace {

using tensorflow::DataType;
using tensorflow::DataTypeString;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

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

// Returns whether n values at `data` are finite: the exponent of a float that is
// not has all of its bits. The compiler makes vector instructions of this loop.
template <typename Bits>
bool AllFinite(const char* data, size_t n, Bits exponent) {
  Bits wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    Bits value;
    std::memcpy(&value, data + i * sizeof(Bits), sizeof(Bits));
    wrong |= (value & exponent) == exponent ? 1 : 0;
  }
  return wrong == 0;
}

absl::Status CheckFinite(const Column& column, const Tensor& tensor) {
  const char* data = tensor.tensor_data().data();
  const size_t n = tensor.NumElements();
  bool finite = true;
  switch (column.dtype) {
    case tensorflow::DT_FLOAT:
      finite = AllFinite<uint32_t>(data, n, 0x7f800000);
      break;
    case tensorflow::DT_DOUBLE:
      finite = AllFinite<uint64_t>(data, n, 0x7ff0000000000000);
      break;
    case tensorflow::DT_HALF:
      finite = AllFinite<uint16_t>(data, n, 0x7c00);
      break;
    case tensorflow::DT_BFLOAT16:
      finite = AllFinite<uint16_t>(data, n, 0x7f80);
      break;
    default:
      break;
  }
  if (finite) return absl::OkStatus();
  return InvalidArgument("column ", column.name, " must be finite, has NaN or ",
                         "infinite values");
}

// Points `source` at the values of `tensor`, [S, ...] of the column's dtype,
// which must outlive it.
absl::Status Source(const Column& column, const Tensor& tensor,
                    ColumnSource* source) {
  if (!column.is_variable()) {
    source->fixed = tensor.tensor_data().data();
    return CheckFinite(column, tensor);
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

absl::Status Check(const Column& column) {
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

}  // namespace

size_t Column::bytes() const {
  if (is_variable()) return kVariable;
  return shape.num_elements() * tensorflow::DataTypeSize(dtype);
}

absl::Status GetColumns(OpKernelConstruction* c,
                        std::vector<Column>* columns) {
  std::vector<std::string> names, prefixes, suffixes;
  std::vector<DataType> dtypes;
  std::vector<TensorShape> shapes;
  std::vector<int64_t> max_bytes;
  TF_RETURN_IF_ERROR(c->GetAttr("names", &names));
  TF_RETURN_IF_ERROR(c->GetAttr("dtypes", &dtypes));
  TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
  TF_RETURN_IF_ERROR(c->GetAttr("max_bytes", &max_bytes));
  TF_RETURN_IF_ERROR(c->GetAttr("prefixes", &prefixes));
  TF_RETURN_IF_ERROR(c->GetAttr("suffixes", &suffixes));
  if (names.size() != dtypes.size() || names.size() != shapes.size() ||
      names.size() != max_bytes.size() || names.size() != prefixes.size() ||
      names.size() != suffixes.size()) {
    return InvalidArgument("names, dtypes, shapes, max_bytes, prefixes and "
                           "suffixes must be of one length");
  }
  for (size_t i = 0; i < names.size(); ++i) {
    columns->push_back({names[i], dtypes[i], shapes[i], max_bytes[i],
                        prefixes[i], suffixes[i]});
    TF_RETURN_IF_ERROR(Check(columns->back()));
  }
  return absl::OkStatus();
}

std::vector<size_t> ColumnBytes(const std::vector<Column>& columns) {
  std::vector<size_t> bytes;
  for (const Column& column : columns) bytes.push_back(column.bytes());
  return bytes;
}

absl::Status GetSources(OpKernelContext* c, const std::vector<Column>& columns,
                        int64_t num_rows, std::vector<ColumnSource>* sources) {
  OpInputList tensors;
  TF_RETURN_IF_ERROR(c->input_list("columns", &tensors));
  for (size_t i = 0; i < columns.size(); ++i) {
    TensorShape expected({num_rows});
    expected.AppendShape(columns[i].shape);
    if (tensors[i].shape() != expected) {
      return InvalidArgument("column ", columns[i].name, " must be of shape ",
                             expected.DebugString(), ", is ",
                             tensors[i].shape().DebugString());
    }
    sources->emplace_back();
    TF_RETURN_IF_ERROR(Source(columns[i], tensors[i], &sources->back()));
  }
  return absl::OkStatus();
}

absl::Status AllocateColumns(OpKernelContext* c,
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

absl::Status SameDtypes(const std::vector<DataType>& dtypes,
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

absl::Status Vector(OpKernelContext* c, const char* name,
                           const Tensor** tensor, int64_t expected) {
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

absl::Status Keys(OpKernelContext* c, const char* name,
                  const Tensor** tensor) {
  TF_RETURN_IF_ERROR(Vector(c, name, tensor));
  return Checked(CheckKeys(name, (*tensor)->vec<int64_t>().data(),
                           (*tensor)->NumElements()));
}

absl::Status Checked(const std::string& wrong) {
  return wrong.empty() ? absl::OkStatus() : InvalidArgument(wrong);
}

}  // namespace replay
