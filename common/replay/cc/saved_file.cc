#include "saved_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

namespace replay {
namespace {

struct FileHeader {
  char magic[8];
  uint64_t version;
};
constexpr char kMagic[8] = {'R', 'P', 'L', 'M', 'E', 'M', '\r', '\n'};
// Must change whenever the saved bytes of a structure change, since files of other
// versions are refused.
constexpr uint64_t kVersion = 3;

// The maximum rate of writing. On two cores, other calls run at 0.9 of their rate
// during a save. Without a limit the save was twice as fast, but some calls ran at
// 0.6 of their rate.
constexpr double kBytesPerSecond = 320e6;

struct ChunkHeader {
  uint64_t size;
  uint64_t checksum;
};

uint64_t Rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

// Returns a checksum of a chunk's bytes, size and number. Any change within one
// 8-byte word changes it, since each step is a bijection. Four sums are computed
// in parallel, as fast as memory is read.
uint64_t Checksum(const char* data, size_t bytes, uint64_t number) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  uint64_t sums[4] = {number, bytes, 2, 3};
  uint64_t words[4];
  while (bytes > 0) {
    const size_t n = std::min(bytes, sizeof(words));
    if (n < sizeof(words)) std::memset(words, 0, sizeof(words));
    std::memcpy(words, data, n);
    for (int k = 0; k < 4; ++k) {
      sums[k] = Rotate((sums[k] ^ words[k]) * kFactor, 29);
    }
    data += n;
    bytes -= n;
  }
  uint64_t sum = 0;
  for (const uint64_t each : sums) sum = Rotate((sum ^ each) * kFactor, 31);
  return sum;
}

std::string Reason() {
  return std::error_code(errno, std::generic_category()).message();
}

// Opens a file. Throws FileError: "cannot `purpose` `path`: " and the reason.
File Open(const std::string& path, const char* mode, const char* purpose) {
  File file(std::fopen(path.c_str(), mode), std::fclose);
  if (file != nullptr) return file;
  const std::string reason = Reason();
  throw FileError("cannot " + std::string(purpose) + " " + path + ": " +
                  reason);
}

// Removes a file that a killed writer has left, or a link, and returns its path. If
// a link were followed, whoever made the directory could choose what is overwritten.
std::string Unlinked(std::string path) {
  unlink(path.c_str());
  return path;
}

}  // namespace

FileWriter::FileWriter(std::string path)
    : path_(std::move(path)),
      temporary_(Unlinked(path_ + ".tmp")),
      file_(Open(temporary_, "wxe", "write")) {}

FileWriter::FileWriter(std::string path, const Signature& signature)
    : FileWriter(std::move(path)) {
  FileHeader header = {{}, kVersion};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  WriteRaw(&header, sizeof(header));
  std::string text;
  for (const std::string& line : signature) text += line + '\n';
  WriteChunk(text.data(), text.size());
}

FileWriter::~FileWriter() { unlink(temporary_.c_str()); }

void FileWriter::Write(const Writer& writer) {
  for (const Writer::Block& block : writer.blocks()) {
    for (size_t begin = 0; begin < block.size(); begin += kChunkBytes) {
      WriteChunk(block.data() + begin, std::min(block.size() - begin, kChunkBytes));
    }
  }
}

void FileWriter::Commit() {
  WriteChunk(nullptr, 0);
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) Fail();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) Fail();
  // The directory's data contains the new name.
  const auto directory = std::filesystem::absolute(path_).parent_path();
  if (fsync(fileno(Open(directory, "re", "open").get())) != 0) Fail();
}

void FileWriter::WriteChunk(const char* data, size_t bytes) {
  std::this_thread::sleep_until(next_);
  const std::chrono::nanoseconds least(
      static_cast<int64_t>(1e9 / kBytesPerSecond * bytes));
  next_ = std::chrono::steady_clock::now() + least;
  const ChunkHeader header = {bytes, Checksum(data, bytes, num_chunks_++)};
  WriteRaw(&header, sizeof(header));
  WriteRaw(data, bytes);
}

void FileWriter::WriteRaw(const void* data, size_t bytes) {
  // The data of an empty chunk is null, which fwrite must not receive.
  if (bytes > 0 && std::fwrite(data, 1, bytes, file_.get()) != bytes) Fail();
}

void FileWriter::Fail() const {
  const std::string reason = Reason();
  throw FileError("cannot write " + path_ + ": " + reason);
}

FileReader::FileReader(std::string path, const Signature& signature)
    : path_(std::move(path)), file_(Open(path_, "re", "read")) {
  std::error_code error;
  bytes_left_ = std::filesystem::file_size(path_, error);
  if (error) Refuse(error.message());
  FileHeader header = {};
  if (bytes_left_ >= sizeof(header)) ReadRaw(&header, sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    Refuse("it is not a saved replay memory");
  }
  if (header.version != kVersion) {
    Refuse("it has version " + std::to_string(header.version) +
           " of the format, this program reads version " +
           std::to_string(kVersion));
  }
  ReadChunk();
  RequireSame(signature);
  position_ = chunk_.size();
}

size_t FileReader::Count(size_t most) {
  uint64_t count;
  Value(count);
  if (count <= most) return count;
  Refuse("it has a count of " + std::to_string(count) + ", the most is " +
         std::to_string(most));
}

void FileReader::Indices(int32_t* indices, size_t n, size_t end) {
  Array(indices, n);
  for (size_t i = 0; i < n; ++i) {
    if (indices[i] >= 0 && static_cast<size_t>(indices[i]) < end) continue;
    Refuse("it has an index of " + std::to_string(indices[i]) + ", not below " +
           std::to_string(end));
  }
}

void FileReader::Generator(std::mt19937_64& rng) {
  Value(rng);
  std::mt19937_64 copy = rng;
  for (size_t i = 0; i <= 2 * copy.state_size; ++i) {
    if (copy() != 0) return;
  }
  Refuse("its random generator is stuck");
}

void FileReader::Read(char* to, size_t bytes) {
  while (bytes > 0) {
    if (position_ == chunk_.size()) {
      ReadChunk();
      if (chunk_.empty()) Refuse("it ends too early");
    }
    const size_t n = std::min(bytes, chunk_.size() - position_);
    std::memcpy(to, chunk_.data() + position_, n);
    to += n;
    position_ += n;
    bytes -= n;
  }
}

void FileReader::Finish() {
  if (position_ == chunk_.size()) ReadChunk();
  if (!chunk_.empty() || bytes_left_ > 0) Refuse("it is longer than its content");
}

void FileReader::Refuse(const std::string& why) const {
  throw FileError("cannot load " + path_ + ": " + why);
}

void FileReader::ReadChunk() {
  const std::string number = std::to_string(num_chunks_);
  ChunkHeader header;
  if (bytes_left_ < sizeof(header)) {
    Refuse("it is cut off before chunk " + number);
  }
  ReadRaw(&header, sizeof(header));
  if (header.size > std::min<uint64_t>(bytes_left_, kChunkBytes)) {
    Refuse("it is cut off or damaged in chunk " + number);
  }
  chunk_.resize(header.size);
  position_ = 0;
  ReadRaw(chunk_.data(), header.size);
  if (Checksum(chunk_.data(), header.size, num_chunks_) != header.checksum) {
    Refuse("it is damaged: the checksum of chunk " + number + " is wrong");
  }
  ++num_chunks_;
}

void FileReader::ReadRaw(void* to, size_t bytes) {
  bytes_left_ -= bytes;
  if (bytes == 0 || std::fread(to, 1, bytes, file_.get()) == bytes) return;
  Refuse(std::ferror(file_.get()) ? Reason() : "it has become shorter");
}

void FileReader::RequireSame(const Signature& expected) const {
  std::istringstream text(std::string(chunk_.begin(), chunk_.end()));
  Signature found;
  for (std::string line; std::getline(text, line);) found.push_back(line);
  const auto line = [](const Signature& signature, size_t i) {
    return i < signature.size() ? '"' + signature[i] + '"' : "nothing more";
  };
  for (size_t i = 0; i < std::max(found.size(), expected.size()); ++i) {
    if (line(found, i) == line(expected, i)) continue;
    Refuse("it is of another memory: it has " + line(found, i) +
           " where this one has " + line(expected, i));
  }
}

}  // namespace replay
