// Owns: timing a CUDA graph, with the card's clock and power meanwhile.
// Does not own: what is launched.
// Read next: a bench that uses it.
#pragma once

#include <algorithm>
#include <dlfcn.h>
#include <vector>

#include "kernels/cuda/common/check.cuh"

namespace bench {

// Clock and power through NVML, where it is installed.
struct Monitor {
    typedef int (*Init)();
    typedef int (*Handle)(unsigned, void **);
    typedef int (*Clock)(void *, int, unsigned *);
    typedef int (*Power)(void *, unsigned *);
    void *device = nullptr;
    Clock clock = nullptr;
    Power power = nullptr;

    Monitor() {
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        if (library == nullptr) return;
        const Init init = reinterpret_cast<Init>(dlsym(library, "nvmlInit_v2"));
        const Handle handle = reinterpret_cast<Handle>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
        if (init == nullptr || handle == nullptr || init() != 0 || handle(0, &device) != 0) return;
        clock = reinterpret_cast<Clock>(dlsym(library, "nvmlDeviceGetClockInfo"));
        power = reinterpret_cast<Power>(dlsym(library, "nvmlDeviceGetPowerUsage"));
    }
    unsigned megahertz() const {
        unsigned value = 0;
        if (clock != nullptr) clock(device, 1, &value);
        return value;
    }
    unsigned watts() const {
        unsigned value = 0;
        if (power != nullptr) power(device, &value);
        return value / 1000;
    }
};

struct Timing {
    double median, low, high;
    unsigned megahertz, watts;
};

// What is timed beside others. `replays` of the graph make a turn.
struct Turn {
    cudaGraphExec_t exec;
    int launches, replays;
};

struct TurnTiming : Timing {
    double ratio; // of a turn's time to the first one's of the same round, median
};

// Rounds of one turn each, every second round backwards, so that all meet the same clock and power; microseconds a
// launch. The first round warms up.
inline std::vector<TurnTiming> time_in_turns(const std::vector<Turn> &turns, cudaStream_t stream, int rounds) {
    static const Monitor monitor;
    const size_t count = turns.size();
    std::vector<std::vector<double>> times(count), ratios(count);
    std::vector<TurnTiming> timings(count);
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int round = -1; round < rounds; ++round) {
        for (size_t i = 0; i < count; ++i) {
            const size_t at = round % 2 != 0 ? count - 1 - i : i;
            const Turn &turn = turns[at];
            CHECK(cudaEventRecord(begin, stream));
            for (int replay = 0; replay < turn.replays; ++replay) CHECK(cudaGraphLaunch(turn.exec, stream));
            CHECK(cudaEventRecord(end, stream));
            if (round == rounds - 1) timings[at].megahertz = monitor.megahertz(), timings[at].watts = monitor.watts();
            CHECK(cudaEventSynchronize(end));
            float milliseconds;
            CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
            if (round >= 0) times[at].push_back(milliseconds * 1e3 / turn.launches / turn.replays);
        }
        for (size_t i = 0; i < count && round >= 0; ++i) ratios[i].push_back(times[i].back() / times[0].back());
    }
    for (size_t i = 0; i < count; ++i) {
        std::sort(times[i].begin(), times[i].end()), std::sort(ratios[i].begin(), ratios[i].end());
        timings[i].low = times[i].front(), timings[i].high = times[i].back();
        timings[i].median = times[i][times[i].size() / 2], timings[i].ratio = ratios[i][ratios[i].size() / 2];
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return timings;
}

// Nine times `replays` replays of a graph of `launches` launches; microseconds a launch.
inline Timing time_graph(cudaGraphExec_t exec, int launches, cudaStream_t stream, int replays = 1) {
    static const Monitor monitor;
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    std::vector<double> times;
    Timing timing = {};
    for (int i = 0; i < 9; ++i) {
        CHECK(cudaEventRecord(begin, stream));
        for (int replay = 0; replay < replays; ++replay) CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaEventRecord(end, stream));
        if (i == 8) timing.megahertz = monitor.megahertz(), timing.watts = monitor.watts();
        CHECK(cudaEventSynchronize(end));
        float milliseconds;
        CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        times.push_back(milliseconds * 1e3 / launches / replays);
    }
    std::sort(times.begin(), times.end());
    timing.low = times.front(), timing.high = times.back(), timing.median = times[times.size() / 2];
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return timing;
}

} // namespace bench
