#include "png.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "inflate.h"

namespace replay {
namespace {

constexpr size_t kSlice = 8;
using CrcTables = std::array<std::array<uint32_t, 256>, kSlice>;

// Returns what each byte adds to a CRC if 0 to 7 bytes follow it.
constexpr CrcTables MakeCrcTables() {
  CrcTables tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    tables[0][byte] = crc;
  }
  for (size_t zeros = 1; zeros < kSlice; ++zeros) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[zeros - 1][byte];
      tables[zeros][byte] = crc >> 8 ^ tables[0][crc & 255];
    }
  }
  return tables;
}
constexpr CrcTables kCrcTables = MakeCrcTables();

// Returns the checksum of a chunk's name and data (RFC 2083, section 3.4).
uint32_t Crc(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  size_t i = 0;
  for (; i + kSlice <= bytes.size(); i += kSlice) {
    uint8_t slice[kSlice];
    std::memcpy(slice, &bytes[i], kSlice);
    for (size_t j = 0; j < 4; ++j) slice[j] ^= crc >> 8 * j;
    crc = 0;
    for (size_t j = 0; j < kSlice; ++j) {
      crc ^= kCrcTables[kSlice - 1 - j][slice[j]];
    }
  }
  for (; i < bytes.size(); ++i) {
    crc = crc >> 8 ^ kCrcTables[0][(crc ^ bytes[i]) & 255];
  }
  return ~crc;
}

uint32_t BigEndian(const char* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes[i]);
  }
  return value;
}

// Returns which of three neighbours is nearest to left + up - corner.
uint8_t Paeth(int left, int up, int corner) {
  const int from_left = std::abs(up - corner);
  const int from_up = std::abs(left - corner);
  const int from_corner = std::abs(left + up - 2 * corner);
  if (from_left <= from_up && from_left <= from_corner) return left;
  return from_up <= from_corner ? up : corner;
}

}  // namespace

PngDecoder::PngDecoder(std::string_view prefix, size_t height, size_t width,
                       size_t channels)
    : prefix_(prefix),
      height_(height),
      row_bytes_(width * channels),
      channels_(channels),
      filtered_(new uint8_t[height * (1 + row_bytes_) + kInflateWriteAhead]) {}

const char* PngDecoder::Decode(std::string_view file, uint8_t* pixels) {
  if (file.substr(0, prefix_.size()) != prefix_) {
    return "it is not a PNG file of this shape";
  }
  // A chunk has four bytes each of length, name and, behind its data, checksum.
  constexpr size_t kAround = 12;
  std::string_view data, name;
  std::string joined;  // The data of a file that has it in parts.
  for (size_t at = prefix_.size(); name != "IEND";) {
    if (file.size() - at < kAround) return "it is cut short";
    const size_t length = BigEndian(&file[at]);
    if (length > file.size() - at - kAround) return "it is cut short";
    const std::string_view content = file.substr(at + 4, 4 + length);
    if (Crc(content) != BigEndian(&file[at + 8 + length])) {
      return "a checksum is wrong";
    }
    name = content.substr(0, 4);
    at += kAround + length;
    if (name == "IDAT") {
      if (joined.empty()) joined = data;
      data = content.substr(4);
      if (!joined.empty()) joined += data;
    } else if (name != "IEND" && (name[0] & 32) == 0) {
      return "it has a chunk that is not read here";  // But needed, as it says.
    }
  }
  if (!joined.empty()) {
    const size_t size = joined.size();
    joined.resize(size + kInflateReadAhead);
    data = std::string_view(joined).substr(0, size);
  }
  // Behind the data of a single chunk come its checksum and IEND.
  static_assert(4 + kAround >= kInflateReadAhead);
  const auto* begin = reinterpret_cast<const uint8_t*>(data.data());
  const char* wrong = Inflate(begin, begin + data.size(), filtered_.get(),
                              height_ * (1 + row_bytes_));
  return wrong != nullptr ? wrong : Unfilter(pixels);
}

const char* PngDecoder::Unfilter(uint8_t* pixels) const {
  const std::vector<uint8_t> zeros(row_bytes_);
  const uint8_t *filtered = filtered_.get(), *above = zeros.data();
  for (size_t y = 0; y < height_; ++y) {
    const int filter = *filtered++;
    std::memcpy(pixels, filtered, row_bytes_);
    if (filter > 4) return "a row has an unknown filter";
    for (size_t i = 0; filter > 0 && i < row_bytes_; ++i) {
      const int up = above[i];
      const int left = i < channels_ ? 0 : pixels[i - channels_];
      const int corner = i < channels_ ? 0 : above[i - channels_];
      pixels[i] += filter == 1   ? left
                   : filter == 2 ? up
                   : filter == 3 ? (left + up) / 2
                                 : Paeth(left, up, corner);
    }
    above = pixels;
    pixels += row_bytes_;
    filtered += row_bytes_;
  }
  return nullptr;
}

}  // namespace replay
