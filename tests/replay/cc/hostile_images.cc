// Hostile PNG files, for the sanitizers: streams of which some bits are wrong,
// in files whose checksums are right, so that they reach the innermost code.
#include "hostile_images.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "png.h"

namespace replay {
namespace {

constexpr size_t kHeight = 8, kWidth = 8, kChannels = 3;
constexpr size_t kRowBytes = 1 + kWidth * kChannels;
// A zlib stream of an image, with Huffman codes of its own and all filters.
constexpr uint8_t kStream[] = {
    0x78, 0xda, 0x75, 0x8d, 0x49, 0x0e, 0x00, 0x30, 0x08, 0x02, 0x81, 0x36,
    0xf1, 0xff, 0x2f, 0xb6, 0x6e, 0x3d, 0xea, 0x41, 0x47, 0x81, 0x08, 0x81,
    0x88, 0x62, 0x74, 0xc2, 0x54, 0x90, 0xc8, 0x4d, 0x10, 0x83, 0xfe, 0x9a,
    0x97, 0x61, 0x1d, 0xb2, 0xcd, 0x93, 0x72, 0xa4, 0xcd, 0x89, 0x4b, 0x8f,
    0x59, 0x8b, 0xbe, 0xbf, 0xd3, 0x5b, 0xa2, 0x9e, 0xf7, 0xd9, 0x1b, 0xac,
    0x74, 0x69, 0x13, 0x1e, 0xe4, 0x0c, 0x0b, 0x7c};

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += char(value >> shift);
  return bytes;
}

// Returns a chunk with its length and its checksum.
std::string Chunk(const std::string& name, const std::string& data) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : name + data) {
    crc ^= static_cast<uint8_t>(byte);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return BigEndian(data.size()) + name + data + BigEndian(~crc);
}

// Returns rows of random filters, among them unknown ones, without compression.
std::string StoredStream(std::mt19937_64& rng) {
  std::string rows;
  uint32_t a = 1, b = 0;
  for (size_t i = 0; i < kHeight * kRowBytes; ++i) {
    rows += char(i % kRowBytes ? rng() : rng() % 40 ? rng() % 5 : rng());
    a = (a + static_cast<uint8_t>(rows.back())) % 65521;
    b = (b + a) % 65521;
  }
  const uint16_t size = rows.size(), sizes[] = {size, uint16_t(~size)};
  std::string stream = "\x78\x01\x01";
  stream.append(reinterpret_cast<const char*>(sizes), sizeof sizes);
  return stream + rows + BigEndian(b << 16 | a);
}

}  // namespace

void AttackImages(size_t files) {
  const std::string prefix =
      "\x89PNG\r\n\x1a\n" + Chunk("IHDR", BigEndian(kWidth) +
                                              BigEndian(kHeight) +
                                              std::string("\x08\x02\0\0\0", 5));
  PngDecoder decoder(prefix, kHeight, kWidth, kChannels);
  // Of the exact size, so that a byte beyond it is found.
  const auto pixels =
      std::make_unique<uint8_t[]>(kHeight * kWidth * kChannels);
  std::mt19937_64 rng(0);
  size_t decoded = 0;
  for (size_t n = 0; n < files; ++n) {
    std::string stream(std::begin(kStream), std::end(kStream));
    if (rng() % 3 == 0) stream = StoredStream(rng);
    for (size_t i = rng() % 4; i > 0; --i) {
      stream[rng() % stream.size()] ^= char(1 << rng() % 8);
    }
    if (rng() % 8 == 0) stream.resize(rng() % stream.size());
    std::string file = prefix;
    while (rng() % 3 == 0) {
      const size_t size = rng() % (stream.size() + 1);
      file += Chunk("IDAT", stream.substr(0, size));
      stream.erase(0, size);
    }
    file += Chunk("IDAT", stream) + Chunk("IEND", "");
    if (rng() % 8 == 0) file[rng() % file.size()] ^= char(1 << rng() % 8);
    if (rng() % 8 == 0) file.resize(rng() % file.size());
    const auto exact = std::make_unique<char[]>(file.size());
    std::memcpy(exact.get(), file.data(), file.size());
    decoded += decoder.Decode({exact.get(), file.size()}, pixels.get()) == nullptr;
  }
  std::printf("of images: %zu; decoded %zu, refused %zu\n", files, decoded,
              files - decoded);
  if (decoded < files / 16) {
    std::fprintf(stderr, "hostile_images: whole images are refused\n");
    std::_Exit(1);
  }
}

}  // namespace replay
