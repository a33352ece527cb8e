// Owns: the timing of the prefill kernels on one GPU: tables of cells, rates, peers' figures.
// Does not own: correctness (tests/gpu/prefill) and what a variant of a cell launches (run.cuh).
// Read next: run.cuh; bench/RESULTS.md for dated results.
//
// prefill_bench [SECTION...] [--name=value...]
//   sections, a cell after the other: dense, dense16 (bf16 in and out), paged
//   sections, variants of a cell in turns: pages (dense, pages of 64 and 16, HND), pages16 (the same, bf16), types
//             (results of each kind of operands), mix (sequences of different lengths in one packed batch); none = all
//             of these; forms (V transposed inside, before, shared) only where it is named
//   values:   cell (substring of a cell's name), ctas (0 = one a multiprocessor), section (KV heads handed out
//             together, 0 = the host's choice), warm (milliseconds of load before a row is timed), launches (of a
//             graph; 0 = some milliseconds; 1 = none overlaps its predecessor, as where a model's graph is replayed),
//             rounds (of turns), rows (of a tile of work, 0 = the host's choice), trace (a file for the stamps of
//             kernels/cuda/prefill/trace.cuh, of a cell's last launches), transpose (of V in FP8: inside, before,
//             shared; the host's choice where absent)
//
// Method: random normal q, k and v, the same buffers in every launch; a graph of launches of some milliseconds,
// replayed until the card is warm, then nine timed replays, median. In turns: rounds of a replay of each variant's
// graph, every second round backwards, medians; `/first` is the median of the quotients within a round, a rate's.
// FLOP = 4 * q tokens * keys * head dim * query heads, half of it under a causal mask. Clock and power are read while
// the last replay runs; /clk is FLOP a clock and multiprocessor at that clock, of 8192 (FP8) or 4096 (16 bits). Built
// with -DQF_PREFILL_CLOCKS, /clk uses the clocks that dense launches counted.
#include <memory>

#include "run.cuh"

using namespace bench;

namespace {

Options g_options;
Device g_device;
int g_rounds = 15;

bool passes_filter(const std::string &name) {
    return g_options.cell.empty() || name.find(g_options.cell) != std::string::npos;
}

// Null where the kernels do not take it.
std::unique_ptr<Run> make_run(const Cell &cell, const Variant &variant) {
    const Shape shape(cell, variant);
    const qf_prefill_problem problem = make_problem(cell, variant, shape, g_options, g_device.multiprocessors);
    if (qf_prefill_refusal(&problem) != nullptr) return nullptr;
    return std::make_unique<Run>(cell, variant, shape, problem, g_options, g_device);
}

const char *form_of(const qf_prefill_choice &choice) {
    return choice.divide_from < INT32_MAX ? "before, shared, divided"
           : choice.cluster > 1           ? "before, shared"
           : choice.before_ctas > 0       ? "before"
                                          : "";
}

#ifdef QF_PREFILL_CLOCKS
// SM clocks of a CTA in the last launch.
double mean_clocks(const int *device, int ctas) {
    std::vector<long long> clocks(ctas);
    CHECK(cudaMemcpy(clocks.data(), device, ctas * 8, cudaMemcpyDeviceToHost));
    double sum = 0;
    for (long long x : clocks) sum += static_cast<double>(x);
    return sum / ctas;
}
#endif

#ifdef QF_PREFILL_TRACE
// Appends: CTAs, launches, roles, slots as 64-bit words, then the stamps.
void write_trace(const Run &run) {
    std::FILE *file = g_options.trace.empty() ? nullptr : std::fopen(g_options.trace.c_str(), "ab");
    if (file == nullptr) return;
    std::vector<int> host(run.launches * run.stamp_words);
    CHECK(cudaMemcpy(host.data(), run.stamps.data, host.size() * 4, cudaMemcpyDeviceToHost));
    const int64_t head[4] = {run.choice.ctas, run.launches, kTraceRoles, kTraceSlots};
    std::fwrite(head, sizeof head, 1, file);
    std::fwrite(host.data(), 4, host.size(), file);
    std::fclose(file);
}
#endif

void warm_up(const Run &run, double milliseconds) {
    for (int i = 0; i < milliseconds / run.milliseconds(); ++i) CHECK(cudaGraphLaunch(run.exec, g_device.stream));
}

void run_cell(const Cell &cell, const Variant &variant) {
    const std::string name = cell_name(cell, variant);
    if (!passes_filter(name)) return;
    const std::unique_ptr<Run> run = make_run(cell, variant);
    if (!run) return;
    warm_up(*run, g_options.warm);
    const Timing timing = time_graph(run->exec, run->launches, g_device.stream, run->most / run->launches);
#ifdef QF_PREFILL_TRACE
    write_trace(*run);
#endif
    const double flop = run->shape.flop, tflops = flop / timing.median * 1e-6;
    const double peer = variant.causal ? cell.peer_causal : cell.peer_full;
    std::printf("%-24s %-7s %10.2f [%9.2f %9.2f] %7.0f", name.c_str(), variant.causal ? "causal" : "full",
                timing.median, timing.low, timing.high, tflops);
    if (peer > 0)
        std::printf(" %6.0f %5.2f", peer, tflops / peer);
    else
        std::printf(" %6s %5s", "", "");
    double clocks = timing.median * timing.megahertz;
#ifdef QF_PREFILL_CLOCKS
    if (variant.page_size == 0) clocks = mean_clocks(run->table.data, run->choice.ctas);
#endif
    std::printf("  %5u %4u %6.0f %s\n", timing.megahertz, timing.watts, flop / clocks / g_device.multiprocessors,
                form_of(run->choice));
    std::fflush(stdout);
}

void run_table(const char *title, const std::vector<Cell> &cells, Variant variant, bool full) {
    std::printf("\n%s\n%-24s %-7s %10s %23s %7s %6s %5s  %5s %4s %6s\n", title, "cell", "mask", "us",
                "[lowest   highest]", "TFLOPS", "peer", "/peer", "MHz", "W", "/clk V^T");
    for (const Cell &cell : cells) {
        for (int causal = full ? 0 : 1; causal < 2; ++causal) {
            variant.causal = causal != 0;
            run_cell(cell, variant);
        }
    }
}

// One of what is timed in turns.
struct Entry {
    std::string label;
    Cell cell;
    Variant variant;
};

void print_turns_head(const char *title) {
    std::printf("\n%s, in turns\n%-24s %-7s %-22s %10s %23s %7s %6s  %5s %4s V^T\n", title, "cell", "mask", "what",
                "us", "[lowest   highest]", "TFLOPS", "/first", "MHz", "W");
}

void run_turns(const std::vector<Entry> &entries) {
    std::vector<std::unique_ptr<Run>> runs;
    std::vector<Turn> turns;
    std::vector<const Entry *> taken;
    for (const Entry &entry : entries) {
        if (!passes_filter(cell_name(entry.cell, entry.variant))) continue;
        std::unique_ptr<Run> run = make_run(entry.cell, entry.variant);
        if (!run) continue;
        turns.push_back({run->exec, run->launches, run->most / run->launches});
        runs.push_back(std::move(run)), taken.push_back(&entry);
    }
    if (runs.empty()) return;
    for (const std::unique_ptr<Run> &run : runs) warm_up(*run, static_cast<double>(g_options.warm) / runs.size());
    const std::vector<TurnTiming> timings = time_in_turns(turns, g_device.stream, g_rounds);
    for (size_t i = 0; i < runs.size(); ++i) {
        const TurnTiming &timing = timings[i];
        const double flop = runs[i]->shape.flop;
        std::printf("%-24s %-7s %-22s %10.2f [%9.2f %9.2f] %7.0f %6.3f  %5u %4u %s\n",
                    cell_name(taken[i]->cell, taken[i]->variant).c_str(), taken[i]->variant.causal ? "causal" : "full",
                    taken[i]->label.c_str(), timing.median, timing.low, timing.high, flop / timing.median * 1e-6,
                    flop / runs[0]->shape.flop / timing.ratio, timing.megahertz, timing.watts,
                    form_of(runs[i]->choice));
    }
    std::fflush(stdout);
}

const char *type_name(int dtype) {
    return dtype == QF_PREFILL_E4M3 ? "e4m3" : dtype == QF_PREFILL_BF16 ? "bf16" : "f16";
}

// FP8 results against 16-bit ones.
void time_types() {
    for (int dtype : {QF_PREFILL_E4M3, QF_PREFILL_BF16, QF_PREFILL_F16}) {
        print_turns_head((std::string(type_name(dtype)) + " in").c_str());
        for (const Cell &cell : kTypeCells) {
            for (const bool causal : {false, true}) {
                std::vector<Entry> entries;
                for (int out_dtype : {QF_PREFILL_BF16, QF_PREFILL_F16, QF_PREFILL_E4M3}) {
                    if (dtype != QF_PREFILL_E4M3 && out_dtype != QF_PREFILL_E4M3 && out_dtype != dtype) continue;
                    Variant variant;
                    variant.dtype = dtype, variant.out_dtype = out_dtype, variant.causal = causal;
                    entries.push_back({std::string(type_name(out_dtype)) + " out", cell, variant});
                }
                run_turns(entries);
            }
        }
    }
}

void time_pages(int dtype, const std::vector<Cell> &cells) {
    print_turns_head((std::string(type_name(dtype)) + " in and out, paged and dense").c_str());
    for (const Cell &cell : cells) {
        std::vector<Entry> entries;
        Variant variant;
        variant.dtype = variant.out_dtype = dtype;
        entries.push_back({"dense", cell, variant});
        variant.page_size = 64;
        entries.push_back({"page 64 NHD", cell, variant});
        variant.page_size = 16;
        entries.push_back({"page 16 NHD", cell, variant});
        variant.page_size = 64, variant.head_major = true;
        entries.push_back({"page 64 HND", cell, variant});
        run_turns(entries);
    }
}

// The mix by what it is measured by, sequences of one length; the longest first, then last: the order must not matter
// much.
void time_mix(int dtype) {
    print_turns_head((std::string(type_name(dtype)) + ", packed, page 64 NHD").c_str());
    Variant variant;
    variant.dtype = variant.out_dtype = dtype, variant.page_size = 64;
    std::vector<Entry> entries;
    for (const Cell &cell : kMixUniformCells) entries.push_back({"one length", cell, variant});
    variant.mix.assign(16, 1024);
    variant.mix.front() = 16384;
    entries.push_back({"16k, then 15 of 1k", kMixCell, variant});
    std::swap(variant.mix.front(), variant.mix.back());
    entries.push_back({"15 of 1k, then 16k", kMixCell, variant});
    run_turns(entries);
}

void time_forms() {
    print_turns_head("dense, e4m3 in and out, where V is transposed");
    for (const Cell &cell : kDenseCells) {
        for (const bool causal : {false, true}) {
            Variant variant;
            variant.causal = causal;
            std::vector<Entry> entries = {{"the host's choice", cell, variant}};
            variant.wish = QF_PREFILL_WISH_INSIDE;
            entries.push_back({"inside", cell, variant});
            variant.wish = QF_PREFILL_WISH_BEFORE;
            entries.push_back({"before", cell, variant});
            variant.wish = QF_PREFILL_WISH_SHARED;
            entries.push_back({"shared", cell, variant});
            run_turns(entries);
        }
    }
}

bool named(const char *section) {
    for (const std::string &name : g_options.sections) {
        if (name == section) return true;
    }
    return false;
}

bool wanted(const char *section) {
    return g_options.sections.empty() || named(section);
}

void parse(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        const size_t equals = argument.find('=');
        if (argument.rfind("--", 0) != 0 || equals == std::string::npos) {
            g_options.sections.push_back(argument);
            continue;
        }
        const std::string name = argument.substr(2, equals - 2), value = argument.substr(equals + 1);
        if (name == "cell")
            g_options.cell = value;
        else if (name == "ctas")
            g_options.ctas = std::atoi(value.c_str());
        else if (name == "section")
            g_options.section = std::atoi(value.c_str());
        else if (name == "launches")
            g_options.launches = std::atoi(value.c_str());
        else if (name == "rows")
            g_options.rows = std::atoi(value.c_str());
        else if (name == "rounds")
            g_rounds = std::atoi(value.c_str());
        else if (name == "trace")
            g_options.trace = value;
        else if (name == "warm")
            g_options.warm = std::atoi(value.c_str());
        else if (name == "transpose")
            g_options.wish = value == "shared"   ? QF_PREFILL_WISH_SHARED
                             : value == "before" ? QF_PREFILL_WISH_BEFORE
                                                 : QF_PREFILL_WISH_INSIDE;
        else
            std::printf("unknown option %s\n", name.c_str()), std::exit(2);
    }
}

} // namespace

int main(int argc, char **argv) {
    parse(argc, argv);
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    g_device.multiprocessors = properties.multiProcessorCount;
    CHECK(cudaStreamCreate(&g_device.stream));
    std::printf("%s, %d multiprocessors\n", properties.name, g_device.multiprocessors);
    if (wanted("dense")) run_table("dense BSHD, e4m3 in and out", kDenseCells, {}, true);
    if (wanted("dense16")) {
        Variant variant;
        variant.dtype = variant.out_dtype = QF_PREFILL_BF16;
        run_table("dense BSHD, bf16 in and out", kDense16Cells, variant, true);
    }
    if (wanted("paged")) {
        Variant variant;
        variant.page_size = 64;
        run_table("paged 64 NHD, e4m3 in and out", kPagedCells, variant, false);
    }
    if (wanted("pages")) time_pages(QF_PREFILL_E4M3, kPagedCells);
    if (wanted("pages16")) time_pages(QF_PREFILL_BF16, kPaged16Cells);
    if (wanted("types")) time_types();
    for (int dtype : {QF_PREFILL_E4M3, QF_PREFILL_BF16}) {
        if (wanted("mix")) time_mix(dtype);
    }
    if (named("forms")) time_forms();
    return 0;
}
