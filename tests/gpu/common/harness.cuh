// Owns: counting and reporting tests, the watchdog, memory on the device.
// Does not own: what is tested.
// Read next: setup.cuh.
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "kernels/cuda/common/check.cuh"

namespace harness {

inline int g_ctas = 0, g_passed = 0, g_failed = 0;
inline std::string g_filter;
inline const char *g_running = "";

inline void on_alarm(int) {
    static const char text[] = "FATAL watchdog: a test hangs\n";
    if (write(1, text, sizeof text - 1) < 0 || write(1, g_running, std::strlen(g_running)) < 0) std::_Exit(4);
    std::_Exit(4);
}

// Reads the arguments of a harness, prints where it runs, and gives the number of multiprocessors.
inline int start(int argc, char **argv) {
    if (argc > 1) g_filter = argv[1];
    std::signal(SIGALRM, on_alarm);
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    std::printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
    return properties.multiProcessorCount;
}

// Prints the counts and gives the exit status.
inline int finish() {
    std::printf("%d passed, %d failed\n", g_passed, g_failed);
    return g_failed == 0 ? 0 : 1;
}

inline void report_text(const std::string &name, bool ok, const char *text) {
    std::printf("%s %-58s %s\n", ok ? "ok  " : "FAIL", name.c_str(), text);
    std::fflush(stdout);
    (ok ? g_passed : g_failed) += 1;
}

inline void report(const std::string &name, bool ok, const char *format, double a = 0, double b = 0, double c = 0) {
    char text[256];
    std::snprintf(text, sizeof text, format, a, b, c);
    report_text(name, ok, text);
}

inline bool selected(const std::string &name) {
    return g_filter.empty() || name.find(g_filter) != std::string::npos;
}

template <class T>
struct Device {
    T *data = nullptr;
    size_t count = 0;

    Device() = default;
    explicit Device(size_t n) : count(n) {
        CHECK(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T)));
    }
    explicit Device(const std::vector<T> &host) : Device(host.size()) {
        upload(host);
    }
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;
    Device(Device &&other) noexcept {
        *this = std::move(other);
    }
    Device &operator=(Device &&other) noexcept {
        std::swap(data, other.data);
        std::swap(count, other.count);
        return *this;
    }
    ~Device() {
        cudaFree(data);
    }
    void upload(const std::vector<T> &host) {
        CHECK(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    void fill(uint8_t byte) {
        CHECK(cudaMemset(data, byte, count * sizeof(T)));
    }
    std::vector<T> download() const {
        std::vector<T> host(count);
        CHECK(cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
};

} // namespace harness
