// The file of a saved memory: a signature, then chunks with checksums.
//
//   8 bytes   "RPLMEM\r\n"
//   8 bytes   the version of the format
//   chunks    8 bytes size, 8 bytes checksum, at most kChunkBytes of content. The
//             first has the signature. The content of the others is one stream:
//             the structures, then the rows of all stored slots in any order,
//             each after its slot
//   16 bytes  a chunk of size 0
//
// Numbers and structures have the bytes that they have in RAM, so a file is for
// machines of one kind.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace replay {

constexpr size_t kChunkBytes = size_t{4} << 20;
// The bytes of rows that are copied at once under a memory's lock.
constexpr size_t kCopiedBytes = size_t{1} << 20;

// The description of a memory, a line for each property. A file is loaded only
// into a memory of the same signature.
using Signature = std::vector<std::string>;

// A file that cannot be written, read or used; the message is one line.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bytes that go to a file. They are in blocks, since the growth of a long one
// would copy it.
class Writer {
 public:
  using Block = std::vector<char>;

  template <typename T>
  void Value(const T& value) {
    Array(&value, 1);
  }

  template <typename T>
  void Array(const T* values, size_t n) {
    static_assert(std::is_trivially_copyable_v<T>, "its bytes are its value");
    const char* const from = reinterpret_cast<const char*>(values);
    if (blocks_.empty() || IsFull()) {
      blocks_.emplace_back().reserve(2 * kCopiedBytes);
    }
    Block& block = blocks_.back();
    block.insert(block.end(), from, from + n * sizeof(T));
  }

  template <typename T>
  void Vector(const std::vector<T>& values) {
    Value<uint64_t>(values.size());
    Array(values.data(), values.size());
  }

  // Returns whether the last block has as much as is copied at once.
  bool IsFull() const {
    return !blocks_.empty() && blocks_.back().size() >= kCopiedBytes;
  }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

// An open file, which the destructor closes.
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// Writes beside, at a limited rate, to `path`.tmp. The file appears under its
// path, or replaces the one there, only when all of it is on the disk. All
// methods throw FileError.
class FileWriter {
 public:
  FileWriter(std::string path, const Signature& signature);
  // Removes what was written, unless it was committed: then it has another name.
  ~FileWriter();

  // Requires that no lock is held: it sleeps.
  void Write(const Writer& writer);
  void Commit();

 private:
  explicit FileWriter(std::string path);
  void WriteChunk(const char* data, size_t bytes);
  void WriteRaw(const void* data, size_t bytes);
  // Throws the error of the last system call.
  [[noreturn]] void Fail() const;

  const std::string path_, temporary_;
  const File file_;
  uint64_t num_chunks_ = 0;
  std::chrono::steady_clock::time_point next_{};  // When the next chunk may go.
};

// Reads what a FileWriter has written. Checksums find damage; what they confirm is
// trusted. All methods throw FileError.
class FileReader {
 public:
  FileReader(std::string path, const Signature& signature);

  template <typename T>
  void Value(T& value) {
    Array(&value, 1);
  }

  template <typename T>
  void Array(T* values, size_t n) {
    static_assert(std::is_trivially_copyable_v<T>, "its bytes are its value");
    Read(reinterpret_cast<char*>(values), n * sizeof(T));
  }

  size_t Count() {
    uint64_t count;
    Value(count);
    return count;
  }

  template <typename T>
  void Vector(std::vector<T>& values) {
    values.resize(Count());
    Array(values.data(), values.size());
  }

  // Requires that everything has been read.
  void Finish();
  // Refuses the file for a reason.
  [[noreturn]] void Refuse(const std::string& why) const;

 private:
  void Read(char* to, size_t bytes);
  void ReadChunk();
  void ReadRaw(void* to, size_t bytes);
  void RequireSame(const Signature& expected) const;

  const std::string path_;
  const File file_;
  uint64_t num_chunks_ = 0;
  uint64_t bytes_left_;  // In the file, after the chunk.
  std::vector<char> chunk_;
  size_t position_ = 0;  // In the chunk.
};

}  // namespace replay
