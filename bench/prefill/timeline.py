# Owns: printing the stamps that prefill_bench --trace=FILE wrote, a line a role of a CTA and a line a launch.
# Does not own: the stamps (kernels/cuda/prefill/trace.cuh).
# Next: bench/RESULTS.md. Usage: timeline.py FILE [CELL [LAUNCH [CTA...]]]; clocks count from a CTA's first instruction.
import array
import sys

EVENTS = ["time", "entry", "released", "work", "ready", "copied", "scores", "tile", "epilogue", "next"]
ROLES = ["consumer 0", "consumer 1", "consumer 2", "loader", "transposer"]
LOW = (1 << 56) - 1


def cells(path):
    words = array.array("q")
    with open(path, "rb") as file:
        words.frombytes(file.read())
    at = 0
    while at < len(words):
        ctas, launches, roles, slots = words[at:at + 4]
        at += 4
        yield [[[stamps(words[(first := at + ((launch * ctas + cta) * roles + role) * slots):first + slots]) for role in range(roles)]
                for cta in range(ctas)] for launch in range(launches)]
        at += ctas * launches * roles * slots


def stamps(words):
    """The nanosecond of the entry, and (event, clocks since the entry)."""
    pairs = [(word >> 56, word & LOW) for word in words[1:words[0]]]
    entry = next((clock for event, clock in pairs if event == 1), 0)
    return next((clock for event, clock in pairs if event == 0), 0), [(event, clock - entry) for event, clock in pairs if event]


def main():
    path, cell, launch, *ctas = sys.argv[1:2] + [int(x) for x in sys.argv[2:]] + [0] * max(0, 4 - len(sys.argv))
    chosen = list(cells(path))[cell]
    for cta in ctas:
        for role, (_, events) in zip(ROLES, chosen[launch][cta]):
            print(f"cta {cta} {role:10}", " ".join(f"{EVENTS[event]}:{clock}" for event, clock in events))
    for number, run in enumerate(chosen):
        entries = [cta[0][0] for cta in run]
        ends = sorted(max(role[1][-1][1] for role in cta[:3] if role[1]) for cta in run)
        print(f"launch {number}: entries spread over {max(entries) - min(entries)} ns; clocks of a CTA, least {ends[0]}, median "
              f"{ends[len(ends) // 2]}, most {ends[-1]}")


main()
