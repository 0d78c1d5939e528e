// A zeroed array of fixed size whose pages are committed only when touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

namespace replay {

// A memory that is not yet full takes only as much RAM as it has stored. Large
// arrays ask for huge pages: rows are read at random, and with 4 KiB pages each
// read would miss the TLB as well.
template <typename T>
class LazyArray {
 public:
  explicit LazyArray(size_t size) : bytes_(size * sizeof(T)) {
    if (bytes_ > 0) data_ = static_cast<T*>(Map(bytes_));
  }
  LazyArray(LazyArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;
  ~LazyArray() {
    if (data_ != nullptr) Unmap(data_, bytes_);
  }

  void swap(LazyArray& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }

 private:
#ifdef __SANITIZE_ADDRESS__
  // The address sanitizer guards the ends of heap blocks, not of mappings.
  static void* Map(size_t bytes) {
    void* data = std::calloc(bytes, 1);
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }
  static void Unmap(void* data, size_t) { std::free(data); }
#else
  static void* Map(size_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    constexpr size_t kHugePage = size_t{2} << 20;
    if (bytes >= 2 * kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
#endif
    return data;
  }
  static void Unmap(void* data, size_t bytes) { munmap(data, bytes); }
#endif

  T* data_ = nullptr;
  size_t bytes_;
};

}  // namespace replay
