// Owns: launching again and again: streams, captured graphs, outputs that differ; a cache that lies far behind.
// Does not own: what is launched (robustness.cuh of each harness).
// Read next: harness.cuh.
#pragma once

#include "harness.cuh"

namespace harness {

struct Stream {
    cudaStream_t at;

    Stream() {
        CHECK(cudaStreamCreate(&at));
    }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;
    ~Stream() {
        CHECK(cudaStreamDestroy(at));
    }
    void wait() const {
        CHECK(cudaStreamSynchronize(at));
    }
};

// What `record` launches on the stream, captured. Attributes of kernels are set before, outside of the capture.
class Graph {
  public:
    template <class Record>
    Graph(const Stream &stream, Record record) : stream_(stream) {
        CHECK(cudaStreamBeginCapture(stream.at, cudaStreamCaptureModeGlobal));
        record();
        CHECK(cudaStreamEndCapture(stream.at, &graph_));
        CHECK(cudaGraphInstantiate(&exec_, graph_, 0));
    }
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;
    ~Graph() {
        CHECK(cudaGraphExecDestroy(exec_));
        CHECK(cudaGraphDestroy(graph_));
    }
    // To its end.
    void run() const {
        CHECK(cudaGraphLaunch(exec_, stream_.at));
        stream_.wait();
    }

  private:
    const Stream &stream_;
    cudaGraph_t graph_;
    cudaGraphExec_t exec_;
};

// Of `count` runs, each over an output full of `poison`: how many leave other bytes than `want`. run(i) waits.
template <class Run>
int count_different(Device<uint8_t> &out, const std::vector<uint8_t> &want, int count, uint8_t poison, Run run) {
    int different = 0;
    for (int i = 0; i < count; ++i) {
        out.fill(poison);
        run(i);
        different += out.download() != want;
    }
    return different;
}

// `host` behind `distance` bytes that hold NaN.
inline Device<uint8_t> far_behind(const std::vector<uint8_t> &host, size_t distance) {
    Device<uint8_t> memory(distance + host.size());
    memory.fill(0x7F);
    CHECK(cudaMemcpy(memory.data + distance, host.data(), host.size(), cudaMemcpyHostToDevice));
    return memory;
}

} // namespace harness
