#include "ops.h"

#include <cstring>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"

namespace replay {
namespace {

using tensorflow::DataType;
using tensorflow::DataTypeString;
using tensorflow::OpInputList;
using tensorflow::OpKernelContext;
using tensorflow::OpOutputList;
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
  if (!absl::StartsWith(value, column.prefix)) {
    return refuse("begin with the prefix in the column's spec: it is damaged, "
                  "or of another kind or size");
  }
  if (!absl::EndsWith(value, column.suffix)) {
    return refuse("end with the suffix in the column's spec: it is damaged or "
                  "cut off");
  }
  return absl::OkStatus();
}

// Returns whether the n values at `data` are finite. In a float that is not, all
// bits of the exponent are set. The compiler vectorises this loop.
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

// Points `source` at the values of `tensor`, [S, ...] of the column's dtype, which
// must outlive `source`.
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
// outlive the target.
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

}  // namespace

size_t Column::bytes() const {
  if (is_variable()) return kVariable;
  return shape.num_elements() * tensorflow::DataTypeSize(dtype);
}

absl::StatusOr<std::vector<Column>> GetColumns(OpKernelContext* c) {
  using Strings = std::vector<std::string>;
  TF_ASSIGN_OR_RETURN(auto names, Attribute<Strings>(c, "names"));
  TF_ASSIGN_OR_RETURN(auto dtypes,
                      Attribute<std::vector<DataType>>(c, "dtypes"));
  TF_ASSIGN_OR_RETURN(auto shapes,
                      Attribute<std::vector<TensorShape>>(c, "shapes"));
  TF_ASSIGN_OR_RETURN(auto max_bytes,
                      Attribute<std::vector<int64_t>>(c, "max_bytes"));
  TF_ASSIGN_OR_RETURN(auto prefixes, Attribute<Strings>(c, "prefixes"));
  TF_ASSIGN_OR_RETURN(auto suffixes, Attribute<Strings>(c, "suffixes"));
  std::vector<Column> columns;
  for (size_t i = 0; i < names.size(); ++i) {
    columns.push_back({names[i], dtypes[i], shapes[i], max_bytes[i],
                       prefixes[i], suffixes[i]});
    if (!columns[i].is_variable() &&
        !tensorflow::DataTypeCanUseMemcpy(dtypes[i])) {
      return InvalidArgument("column ", names[i], ": dtype ",
                             DataTypeString(dtypes[i]), " has no fixed size");
    }
  }
  return columns;
}

std::vector<size_t> ColumnBytes(const std::vector<Column>& columns) {
  std::vector<size_t> bytes;
  for (const Column& column : columns) bytes.push_back(column.bytes());
  return bytes;
}

std::string Description(const Column& column) {
  std::string line = absl::StrCat(
      "column ", absl::CEscape(column.name), ": ",
      DataTypeString(column.dtype), column.shape.DebugString());
  if (column.is_variable()) {
    absl::StrAppend(&line, " of at most ", column.max_bytes, " bytes, prefix \"",
                    absl::CEscape(column.prefix), "\", suffix \"",
                    absl::CEscape(column.suffix), "\"");
  }
  return line;
}

absl::StatusOr<std::vector<ColumnSource>> InputColumns(
    OpKernelContext* c, const std::vector<Column>& columns, int64_t num_rows) {
  OpInputList tensors;
  TF_RETURN_IF_ERROR(c->input_list("columns", &tensors));
  std::vector<ColumnSource> sources(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    if (tensors[i].dtype() != columns[i].dtype) {
      return InvalidArgument("column ", columns[i].name, " must be ",
                             DataTypeString(columns[i].dtype), ", is ",
                             DataTypeString(tensors[i].dtype()));
    }
    TensorShape expected({num_rows});
    expected.AppendShape(columns[i].shape);
    if (tensors[i].shape() != expected) {
      return InvalidArgument("column ", columns[i].name, " must be of shape ",
                             expected.DebugString(), ", is ",
                             tensors[i].shape().DebugString());
    }
    TF_RETURN_IF_ERROR(Source(columns[i], tensors[i], &sources[i]));
  }
  return sources;
}

absl::StatusOr<std::vector<ColumnTarget>> OutputColumns(
    OpKernelContext* c, const std::vector<Column>& columns,
    const TensorShape& leading) {
  OpOutputList tensors;
  TF_RETURN_IF_ERROR(c->output_list("columns", &tensors));
  std::vector<ColumnTarget> targets;
  for (size_t i = 0; i < columns.size(); ++i) {
    TensorShape shape = leading;
    TF_RETURN_IF_ERROR(shape.AppendShapeWithStatus(columns[i].shape));
    Tensor* tensor;
    TF_RETURN_IF_ERROR(tensors.allocate(i, shape, &tensor));
    targets.push_back(Target(columns[i], tensor));
  }
  return targets;
}

absl::Status CheckVector(const char* name, const Tensor& tensor,
                         int64_t expected) {
  const TensorShape& shape = tensor.shape();
  if (shape.dims() == 1 && (expected < 0 || shape.dim_size(0) == expected)) {
    return absl::OkStatus();
  }
  const std::string wanted =
      expected >= 0 ? absl::StrCat("[", expected, "]") : "a vector";
  return InvalidArgument(name, " must be of shape ", wanted, ", is ",
                         shape.DebugString());
}

absl::StatusOr<absl::Span<const int64_t>> Keys(OpKernelContext* c,
                                               const char* name) {
  TF_ASSIGN_OR_RETURN(const auto keys, Vector<int64_t>(c, name));
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] >= 0) continue;
    return InvalidArgument(name, "[", i, "] must not be negative, is ", keys[i]);
  }
  return keys;
}

}  // namespace replay
