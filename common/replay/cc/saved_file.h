// The file of a saved memory: a signature, then chunks with checksums.
//
//   8 bytes   "RPLMEM\r\n"
//   8 bytes   the version of the format
//   chunks    8 bytes size, 8 bytes checksum, at most kChunkBytes of content. The
//             first contains the signature. The others form one stream: the
//             structures, then the rows of all stored slots in any order, each
//             preceded by its slot
//   16 bytes  a chunk of size 0
//
// Numbers and structures have the same bytes as in RAM, so a file can only be loaded
// on a machine of the same kind.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "invariants.h"

namespace replay {

constexpr size_t kChunkBytes = size_t{4} << 20;
// The maximum value of a counter in a file, so that it never overflows.
constexpr int64_t kMaxCount = int64_t{1} << 62;
// Bytes of rows that are copied each time a memory's lock is held.
constexpr size_t kCopiedBytes = size_t{1} << 20;

// The description of a memory, a line for each property. A file is loaded only
// into a memory of the same signature.
using Signature = std::vector<std::string>;

// An error for a file that cannot be written, read or used; the message is one line.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Bytes to be written to a file. They are in blocks, since a single long block
// would be copied as it grows.
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

  // Returns whether the last block has reached kCopiedBytes.
  bool IsFull() const {
    return !blocks_.empty() && blocks_.back().size() >= kCopiedBytes;
  }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  std::vector<Block> blocks_;
};

// An open file, which the destructor closes.
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// Writes to `path`.tmp at a limited rate. The file appears under `path`, or replaces
// an existing file, only once it is completely on disk. All methods throw
// FileError.
class FileWriter {
 public:
  FileWriter(std::string path, const Signature& signature);
  // Removes `path`.tmp, which no longer exists after Commit.
  ~FileWriter();

  // Requires that no lock is held, since it sleeps.
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
  std::chrono::steady_clock::time_point next_{};  // Earliest time of the next chunk.
};

// Reads a file written by FileWriter. Checksums detect damage, but a file may have
// been forged: every number is checked before it is used. All methods throw
// FileError.
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

  // Returns a number, which must be at most `most`.
  size_t Count(size_t most);

  // Returns the number of elements that follow, of so many bytes each: the file
  // is not shorter.
  size_t CountOf(size_t bytes) { return Count(left() / bytes); }

  template <typename T>
  void Vector(std::vector<T>& values) {
    values.resize(CountOf(sizeof(T)));
    Array(values.data(), values.size());
  }

  // Reads n numbers, which must be at least 0 and below `end`.
  void Indices(int32_t* indices, size_t n, size_t end);

  // Reads a generator, and refuses one that would return 0 for ever.
  void Generator(std::mt19937_64& rng);

  // Throws unless the whole file has been read.
  void Finish();
  // Throws a FileError that says why the file cannot be loaded.
  [[noreturn]] void Refuse(const std::string& why) const;
  // Calls check(); refuses the file if it throws BrokenInvariant.
  template <typename Check>
  void RequireInvariants(Check check) const {
    try {
      check();
    } catch (const BrokenInvariant& broken) {
      Refuse("its content is wrong: " + std::string(broken.what()));
    }
  }

 private:
  void Read(char* to, size_t bytes);
  void ReadChunk();
  void ReadRaw(void* to, size_t bytes);
  void RequireSame(const Signature& expected) const;
  size_t left() const { return bytes_left_ + chunk_.size() - position_; }

  const std::string path_;
  const File file_;
  uint64_t num_chunks_ = 0;
  uint64_t bytes_left_;  // In the file, after the chunk.
  std::vector<char> chunk_;
  size_t position_ = 0;  // In the chunk.
};

}  // namespace replay
