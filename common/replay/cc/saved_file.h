// The file of a saved memory: a signature, then chunks with checksums.
//
//   8 bytes   "RPLMEM\r\n"
//   8 bytes   the version of the format
//   chunks    8 bytes size, 8 bytes checksum, at most kChunkBytes of content. The
//             first has the signature. The content of the others is one stream:
//             the number of rows, the rows, the structures
//   16 bytes  a chunk of size 0
//
// Numbers and structures have the bytes that they have in RAM, so a file is for
// machines of one kind.
#ifndef COMMON_REPLAY_CC_SAVED_FILE_H_
#define COMMON_REPLAY_CC_SAVED_FILE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace replay {

constexpr size_t kChunkBytes = size_t{4} << 20;

// The description of a memory, a line for each property. A file is loaded only
// into a memory of the same signature.
using Signature = std::vector<std::string>;

// A file that cannot be written, read or used; the message is one line.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An open file, which the destructor closes.
class Descriptor {
 public:
  // Throws FileError: "cannot `purpose` `path`: " and the reason.
  Descriptor(const std::string& path, int flags, const char* purpose);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

// Writes beside, at a limited rate, to `path`.tmp. The file appears under its path, or replaces the
// one there, only when all of it is on the disk. All methods throw FileError.
class FileWriter {
 public:
  FileWriter(std::string path, const Signature& signature);
  // Removes what was written, unless it was committed.
  ~FileWriter();

  // Requires that no lock is held: it sleeps.
  void Write(const char* data, size_t bytes);
  void Commit();

 private:
  void WriteChunk(const char* data, size_t bytes);
  void WriteRaw(const void* data, size_t bytes);
  // Throws the error of the last system call.
  [[noreturn]] void Fail() const;

  const std::string path_, temporary_;
  const Descriptor file_;
  uint64_t num_chunks_ = 0;
  std::chrono::steady_clock::time_point next_{};  // When the next chunk may go.
  bool is_committed_ = false;
};

// All methods throw FileError.
class FileReader {
 public:
  FileReader(std::string path, const Signature& signature);

  void Read(char* to, size_t bytes);
  // Requires that everything has been read.
  void Finish();
  // Refuses the file for a reason.
  [[noreturn]] void Refuse(const std::string& why) const;

 private:
  void ReadChunk();
  void ReadRaw(void* to, size_t bytes);
  void RequireSame(const Signature& expected) const;

  const std::string path_;
  const Descriptor file_;
  uint64_t num_chunks_ = 0;
  uint64_t bytes_left_;  // In the file, after the chunk.
  std::vector<char> chunk_;
  size_t position_ = 0;  // In the chunk.
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_SAVED_FILE_H_
