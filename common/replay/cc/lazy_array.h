// A zeroed array of fixed size whose pages are committed only when touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace replay {

// A memory that is not yet full takes only as much RAM as it has stored. Large
// arrays ask for huge pages: rows are read at random, and with 4 KiB pages each
// read would miss the TLB as well.
template <typename T>
class LazyArray {
 public:
  explicit LazyArray(size_t size)
      : data_(size == 0 ? nullptr : static_cast<T*>(Map(size * sizeof(T))),
              Unmap{size * sizeof(T)}) {}

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return data_.get_deleter().bytes / sizeof(T); }

 private:
#ifdef __SANITIZE_ADDRESS__
  // The address sanitizer guards the ends of heap blocks, not of mappings.
  static void* Map(size_t bytes) {
    void* data = std::calloc(bytes, 1);
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }
  struct Unmap {
    size_t bytes;
    void operator()(void* data) const { std::free(data); }
  };
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
  struct Unmap {
    size_t bytes;
    void operator()(void* data) const { munmap(data, bytes); }
  };
#endif

  std::unique_ptr<T[], Unmap> data_;
};

}  // namespace replay
