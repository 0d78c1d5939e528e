// Decoding of PNG files in memory, of a shape that is known beforehand.
#ifndef COMMON_REPLAY_CC_PNG_H_
#define COMMON_REPLAY_CC_PNG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace replay {

// Decodes files of 8 bits a channel, without interlacing (RFC 2083). Files may
// be damaged or made to do harm: sizes are the caller's, not those in a file.
class PngDecoder {
 public:
  // Files must begin with `prefix`: the signature, and the header of images of
  // this height, width and number of channels.
  PngDecoder(std::string_view prefix, size_t height, size_t width,
             size_t channels);

  // Writes [height, width, channels] to `pixels`. Returns null, or what is
  // wrong with the file; `pixels` are garbage then.
  const char* Decode(std::string_view file, uint8_t* pixels);

 private:
  // Undoes the filters of the rows in `filtered_`.
  const char* Unfilter(uint8_t* pixels) const;

  const std::string_view prefix_;
  const size_t height_, row_bytes_, channels_;
  // The rows as they are compressed, each after the number of its filter.
  const std::unique_ptr<uint8_t[]> filtered_;
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_PNG_H_
