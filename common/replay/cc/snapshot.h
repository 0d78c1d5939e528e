// The bytes of a memory's structures: taken at one moment, read from a file.
#ifndef COMMON_REPLAY_CC_SNAPSHOT_H_
#define COMMON_REPLAY_CC_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "saved_file.h"

namespace replay {

// Structures are written while their memory is locked, which must be short. So
// they are written twice: at first the writer only counts bytes; between the
// locks it gets room for them.
class Writer {
 public:
  template <typename T>
  void Value(const T& value) {
    Array(&value, 1);
  }

  template <typename T>
  void Array(const T* values, size_t n) {
    static_assert(std::is_trivially_copyable_v<T>, "its bytes are its value");
    const char* const from = reinterpret_cast<const char*>(values);
    if (is_counting_) {
      count_ += n * sizeof(T);
    } else {
      bytes_.insert(bytes_.end(), from, from + n * sizeof(T));
    }
  }

  template <typename T>
  void Vector(const std::vector<T>& values) {
    Value<uint64_t>(values.size());
    Array(values.data(), values.size());
  }

  // Ends the counting. The room has an eighth more for what comes in between,
  // and its pages are touched, since that takes longer than copying.
  void MakeRoom() {
    is_counting_ = false;
    bytes_.resize(count_ + count_ / 8);
    bytes_.clear();
  }

  const std::vector<char>& bytes() const { return bytes_; }

 private:
  bool is_counting_ = true;
  size_t count_ = 0;
  std::vector<char> bytes_;
};

// Reads what a Writer has written. All methods throw FileError.
class Reader {
 public:
  explicit Reader(FileReader& file) : file_(file) {}

  template <typename T>
  void Value(T& value) {
    Array(&value, 1);
  }

  template <typename T>
  void Array(T* values, size_t n) {
    static_assert(std::is_trivially_copyable_v<T>, "its bytes are its value");
    file_.Read(reinterpret_cast<char*>(values), n * sizeof(T));
  }

  // Returns a number, which must be at most `most`.
  size_t Count(size_t most = size_t{1} << 40) {
    uint64_t count;
    Value(count);
    if (count <= most) return count;
    file_.Refuse("it has a count of " + std::to_string(count) +
                 ", the most is " + std::to_string(most));
  }

  template <typename T>
  void Vector(std::vector<T>& values) {
    values.resize(Count());
    Array(values.data(), values.size());
  }

 private:
  FileReader& file_;
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_SNAPSHOT_H_
