// Decompression of zlib streams (RFC 1950 and 1951) of a known length.
//
// The streams come from other machines and from files, so nothing that they say
// is trusted: each access stays within the given bytes and the given output.
#ifndef COMMON_REPLAY_CC_INFLATE_H_
#define COMMON_REPLAY_CC_INFLATE_H_

#include <cstddef>
#include <cstdint>

namespace replay {

// Bytes beyond the end of a stream that must be readable, whatever they are.
constexpr size_t kInflateReadAhead = 16;
// Bytes beyond the end of the output that must be writable; they are garbage
// afterwards.
constexpr size_t kInflateWriteAhead = 16;

// Decompresses the stream [begin, end), which must give `size` bytes, into
// `out`. Returns null, or what is wrong with the stream; `out` is garbage then.
const char* Inflate(const uint8_t* begin, const uint8_t* end, uint8_t* out,
                    size_t size);

}  // namespace replay

#endif  // COMMON_REPLAY_CC_INFLATE_H_
