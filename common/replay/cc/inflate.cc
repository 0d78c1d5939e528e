#include "inflate.h"

#include <algorithm>
#include <cstring>

namespace replay {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "bits are read in words of the machine");

constexpr int kMaxCodeBits = 15;

// The meaning of a symbol: a literal byte, the end of a block, or a length or
// distance of `base` plus the next `extra` bits.
enum Kind : uint8_t { kNoSymbol, kLiteral, kMatch, kEndOfBlock, kLongCode };

struct Symbol {
  uint16_t base;
  Kind kind : 4;
  uint8_t extra : 4;
  uint8_t code_bits;  // The length of its code, once it has one.

  Symbol() = default;
  constexpr Symbol(Kind kind, int base = 0, int extra = 0)
      : base(base), kind(kind), extra(extra), code_bits(0) {}
};

constexpr int kNumLengthSymbols = 288, kNumDistanceSymbols = 32;

// The symbols of the alphabets, by number (RFC 1951, section 3.2.5).
struct Alphabets {
  Symbol lengths[kNumLengthSymbols] = {};
  Symbol distances[kNumDistanceSymbols] = {};
  Symbol code_lengths[19] = {};

  constexpr Alphabets() {
    for (int i = 0; i < 256; ++i) lengths[i] = {kLiteral, i};
    lengths[256] = kEndOfBlock;
    for (int i = 0, base = 3; i < 28; ++i) {
      const int extra = i < 4 ? 0 : i / 4 - 1;
      lengths[257 + i] = {kMatch, base, extra};
      base += 1 << extra;
    }
    lengths[285] = {kMatch, 258};
    for (int i = 0, base = 1; i < 30; ++i) {
      const int extra = i < 2 ? 0 : i / 2 - 1;
      distances[i] = {kMatch, base, extra};
      base += 1 << extra;
    }
    for (int i = 0; i < 19; ++i) code_lengths[i] = {kLiteral, i};
  }
};
constexpr Alphabets kAlphabets;

// Reads bits, the lowest of a byte first.
class BitReader {
 public:
  BitReader(const uint8_t* next, const uint8_t* end) : next_(next), end_(end) {}

  // Makes 56 bits available. Returns false if more bits were taken than the
  // stream has.
  bool Fill() {
    // Of what was read, at most 7 bytes are not taken yet.
    if (next_ > end_ + 8) return false;
    uint64_t word;
    std::memcpy(&word, next_, 8);
    bits_ |= word << count_;
    next_ += (63 - count_) >> 3;
    count_ |= 56;
    return true;
  }

  bool Has(int n) const { return count_ >= n; }

  // Takes the code of a symbol; 15 bits must be available.
  template <typename Code>
  Symbol TakeSymbol(const Code& code) {
    const Symbol symbol = code.Find(bits_);
    Take(symbol.code_bits);
    return symbol;
  }

  uint32_t Take(int n) {
    const uint32_t value = bits_ & ((uint64_t{1} << n) - 1);
    bits_ >>= n;
    count_ -= n;
    return value;
  }

  // Drops the rest of a byte and returns the bytes that follow, up to `end`;
  // null if there are fewer than n.
  const uint8_t* Bytes(size_t n) {
    next_ -= count_ >> 3;
    bits_ = count_ = 0;
    if (next_ > end_ || static_cast<size_t>(end_ - next_) < n) return nullptr;
    next_ += n;
    return next_ - n;
  }

 private:
  const uint8_t* next_;
  const uint8_t* end_;
  uint64_t bits_ = 0;
  int count_ = 0;
};

// Symbols by their Huffman codes. Codes of up to `table_bits` bits are looked
// up; longer ones are rare, and compared length by length.
template <int table_bits, int max_symbols>
class Code {
 public:
  // Makes the code in which symbol i of an alphabet has a code of lengths[i]
  // bits, or none if that is 0. Returns false if there is no such code, or one
  // that leaves bits without a meaning (but a single code of one bit may).
  bool Make(const uint8_t* lengths, int n, const Symbol* alphabet) {
    alphabet_ = alphabet;
    std::fill_n(counts_, kMaxCodeBits + 1, 0);
    for (int i = 0; i < n; ++i) ++counts_[lengths[i]];
    counts_[0] = 0;
    int unused = 1, longest = 0;  // Unused codes of the length that is reached.
    uint16_t places[kMaxCodeBits + 2] = {};
    for (int bits = 1; bits <= kMaxCodeBits; ++bits) {
      unused = 2 * unused - counts_[bits];
      if (unused < 0) return false;
      if (counts_[bits] > 0) longest = bits;
      places[bits + 1] = places[bits] + counts_[bits];
    }
    if (unused > 0) {
      if (longest > 1) return false;
      std::fill_n(table_, 1 << table_bits, Symbol(kNoSymbol));
    }
    const int num_codes = places[kMaxCodeBits + 1];
    for (int i = 0; i < n; ++i) {
      if (lengths[i] > 0) in_order_[places[lengths[i]]++] = i;
    }
    // Codes are in the order of their lengths, then of their symbols. They are
    // read from their highest bit, so the table is indexed by reversed codes.
    uint32_t reversed = 0;
    for (int i = 0; i < num_codes; ++i) {
      const int bits = lengths[in_order_[i]];
      if (bits <= table_bits) {
        Symbol symbol = alphabet[in_order_[i]];
        symbol.code_bits = bits;
        for (int at = reversed; at < 1 << table_bits; at += 1 << bits) {
          table_[at] = symbol;
        }
      } else {
        table_[reversed & ((1 << table_bits) - 1)] = kLongCode;
      }
      uint32_t carry = 1u << (bits - 1);
      while (reversed & carry) carry >>= 1;
      reversed = carry == 0 ? 0 : (reversed & (carry - 1)) | carry;
    }
    return true;
  }

  // Returns the symbol whose code `bits` begin with, and 15 of which are read.
  Symbol Find(uint64_t bits) const {
    const Symbol symbol = table_[bits & ((1 << table_bits) - 1)];
    return symbol.kind == kLongCode ? FindLong(bits) : symbol;
  }

 private:
  [[gnu::noinline]] Symbol FindLong(uint64_t rest) const {
    // Of the codes of a length: the first, and its place in the order.
    int code = 0, first = 0, place = 0;
    for (int bits = 1; bits <= kMaxCodeBits; ++bits) {
      code |= rest & 1;
      rest >>= 1;
      if (code - first < counts_[bits]) {
        Symbol symbol = alphabet_[in_order_[place + code - first]];
        symbol.code_bits = bits;
        return symbol;
      }
      place += counts_[bits];
      first = (first + counts_[bits]) << 1;
      code <<= 1;
    }
    return kNoSymbol;
  }

  Symbol table_[1 << table_bits];
  uint16_t counts_[kMaxCodeBits + 1];  // By their lengths.
  uint16_t in_order_[max_symbols];
  const Symbol* alphabet_;
};

// Returns the checksum of [at, end): the sum of the bytes and the sum of its
// prefixes (RFC 1950, section 8.2). Sums are kept in lanes, a row at a time, in
// 16 bits for as many rows as these hold.
uint32_t Adler32(const uint8_t* at, const uint8_t* end) {
  constexpr size_t kLanes = 16, kRows = 16, kBlock = kLanes * kRows;
  using Bytes [[gnu::vector_size(kLanes)]] = uint8_t;
  using Sums [[gnu::vector_size(2 * kLanes)]] = uint16_t;
  using LongSums [[gnu::vector_size(4 * kLanes)]] = uint32_t;
  constexpr uint64_t kModulus = 65521;
  uint64_t sum = 1, sum_of_sums = 0;
  while (end - at >= static_cast<ptrdiff_t>(kBlock)) {
    // Few enough blocks for 32 bits.
    const size_t blocks = std::min<size_t>((end - at) / kBlock, 256);
    LongSums all = {}, all_of_all = {};
    for (size_t block = 0; block < blocks; ++block) {
      Sums sums = {}, sums_of_sums = {};
      for (size_t row = 0; row < kRows; ++row, at += kLanes) {
        Bytes bytes;
        std::memcpy(&bytes, at, kLanes);
        sums_of_sums += sums;
        sums += __builtin_convertvector(bytes, Sums);
      }
      all_of_all += kRows * all;
      all_of_all += __builtin_convertvector(sums_of_sums, LongSums);
      all += __builtin_convertvector(sums, LongSums);
    }
    sum_of_sums += blocks * kBlock * sum;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sum += all[lane];
      sum_of_sums += kLanes * uint64_t{all_of_all[lane]} +
                     (kLanes - lane) * uint64_t{all[lane]};
    }
    sum %= kModulus;
    sum_of_sums %= kModulus;
  }
  for (; at < end; ++at) sum_of_sums += sum += *at;
  return sum_of_sums % kModulus << 16 | sum % kModulus;
}

constexpr char kCutShort[] = "its compressed data is cut short";
constexpr char kTooLong[] = "it holds more data than the image";
constexpr char kWrongCodes[] = "its compressed data has impossible codes";

class Inflater {
 public:
  Inflater(const uint8_t* begin, const uint8_t* end, uint8_t* out, size_t size)
      : reader_(begin, end), begin_(out), out_(out), end_(out + size) {}

  const char* Run() {
    const uint8_t* header = reader_.Bytes(2);
    if (header == nullptr) return kCutShort;
    // Method 8, a window of at most 2^15 bytes, no dictionary.
    if ((header[0] & 15) != 8 || header[0] >> 4 > 7 || (header[1] & 32) != 0 ||
        (header[0] << 8 | header[1]) % 31 != 0) {
      return "its data is not compressed by zlib";
    }
    bool is_last;
    do {
      if (!reader_.Fill()) return kCutShort;
      is_last = reader_.Take(1);
      const int kind = reader_.Take(2);
      const char* wrong = kind == 0   ? Stored()
                          : kind == 1 ? FixedCodes()
                          : kind == 2 ? OwnCodes()
                                      : kWrongCodes;
      if (wrong != nullptr) return wrong;
    } while (!is_last);
    if (out_ != end_) return "it holds less data than the image";
    const uint8_t* sum = reader_.Bytes(4);
    if (sum == nullptr) return kCutShort;
    if ((uint32_t{sum[0]} << 24 | sum[1] << 16 | sum[2] << 8 | sum[3]) !=
        Adler32(begin_, end_)) {
      return "the checksum of its data is wrong";
    }
    return nullptr;
  }

 private:
  const char* Stored() {
    const uint8_t* sizes = reader_.Bytes(4);
    if (sizes == nullptr) return kCutShort;
    const int n = sizes[0] | sizes[1] << 8, inverted = sizes[2] | sizes[3] << 8;
    if ((n ^ inverted) != 0xffff) return kWrongCodes;
    if (n > end_ - out_) return kTooLong;
    const uint8_t* bytes = reader_.Bytes(n);
    if (bytes == nullptr) return kCutShort;
    std::memcpy(out_, bytes, n);
    out_ += n;
    return nullptr;
  }

  const char* FixedCodes() {
    uint8_t bits[kNumLengthSymbols];
    for (int i = 0; i < kNumLengthSymbols; ++i) {
      bits[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    }
    lengths_.Make(bits, kNumLengthSymbols, kAlphabets.lengths);
    std::fill_n(bits, kNumDistanceSymbols, 5);
    distances_.Make(bits, kNumDistanceSymbols, kAlphabets.distances);
    return Compressed();
  }

  const char* OwnCodes() {
    static constexpr uint8_t kOrder[] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                         11, 4,  12, 3, 13, 2, 14, 1, 15};
    // Run(), which filled, took 3 bits.
    const int num_lengths = 257 + reader_.Take(5);
    const int num_distances = 1 + reader_.Take(5);
    const int num_code_lengths = 4 + reader_.Take(4);
    if (num_lengths > 286 || num_distances > 30) return kWrongCodes;
    uint8_t bits[kNumLengthSymbols + kNumDistanceSymbols] = {};
    for (int i = 0; i < num_code_lengths; ++i) {
      if (!reader_.Fill()) return kCutShort;
      bits[kOrder[i]] = reader_.Take(3);
    }
    Code<7, 19> code_lengths;
    if (!code_lengths.Make(bits, 19, kAlphabets.code_lengths)) {
      return kWrongCodes;
    }
    const int n = num_lengths + num_distances;
    for (int i = 0; i < n;) {
      if (!reader_.Fill()) return kCutShort;
      const Symbol symbol = reader_.TakeSymbol(code_lengths);
      if (symbol.kind != kLiteral) return kWrongCodes;
      if (symbol.base < 16) {
        bits[i++] = symbol.base;
        continue;
      }
      // The last length, or 0, repeated.
      if (symbol.base == 16 && i == 0) return kWrongCodes;
      const uint8_t repeated = symbol.base == 16 ? bits[i - 1] : 0;
      const int times = symbol.base == 16   ? 3 + reader_.Take(2)
                        : symbol.base == 17 ? 3 + reader_.Take(3)
                                            : 11 + reader_.Take(7);
      if (times > n - i) return kWrongCodes;
      std::fill_n(bits + i, times, repeated);
      i += times;
    }
    if (bits[256] == 0 ||
        !lengths_.Make(bits, num_lengths, kAlphabets.lengths) ||
        !distances_.Make(bits + num_lengths, num_distances,
                         kAlphabets.distances)) {
      return kWrongCodes;
    }
    return Compressed();
  }

  // Reads literals and matches up to the end of the block.
  const char* Compressed() {
    BitReader reader = reader_;  // Copies, which stay in registers.
    uint8_t *out = out_, *const end = end_;
    while (true) {
      // 20 bits for a length, 28 for its distance.
      if (!reader.Has(48) && !reader.Fill()) return kCutShort;
      const Symbol symbol = reader.TakeSymbol(lengths_);
      if (symbol.kind == kLiteral) {
        if (out == end) return kTooLong;
        *out++ = symbol.base;
        continue;
      }
      if (symbol.kind != kMatch) {
        reader_ = reader;
        out_ = out;
        return symbol.kind == kEndOfBlock ? nullptr : kWrongCodes;
      }
      const size_t length = symbol.base + reader.Take(symbol.extra);
      const Symbol far = reader.TakeSymbol(distances_);
      if (far.kind != kMatch) return kWrongCodes;
      const size_t distance = far.base + reader.Take(far.extra);
      if (distance > static_cast<size_t>(out - begin_)) {
        return "its compressed data refers to bytes before its first";
      }
      if (length > static_cast<size_t>(end - out)) return kTooLong;
      Repeat(out, distance, length);
      out += length;
    }
  }

  // Copies `length` bytes from `distance` before `out`, and up to 15 more.
  static void Repeat(uint8_t* out, size_t distance, size_t length) {
    uint8_t* const end = out + length;
    if (distance == 1) {
      std::memset(out, out[-1], length);
      return;
    }
    const uint8_t* from = out - distance;
    // What is copied repeats its beginning: twice as far back is the same.
    for (; distance < 16; distance *= 2) {
      for (size_t i = 0; i < distance; ++i) out[i] = from[i];
      out += distance;
      if (out >= end) return;
    }
    do {
      std::memcpy(out, from, 16);
      out += 16;
      from += 16;
    } while (out < end);
  }

  BitReader reader_;
  uint8_t* const begin_;
  uint8_t* out_;
  uint8_t* const end_;
  Code<10, kNumLengthSymbols> lengths_;
  Code<8, kNumDistanceSymbols> distances_;
};

}  // namespace

const char* Inflate(const uint8_t* begin, const uint8_t* end, uint8_t* out,
                    size_t size) {
  return Inflater(begin, end, out, size).Run();
}

}  // namespace replay
