#!/usr/bin/env python3
"""Owns: a large program of torch.export made of a small one: its nodes again and again, under other names.

Does not own: timing (import_time.c). Usage: repeat_pt2.py MODEL.pt2 OUT.pt2 NODES
"""
import json
import sys
import zipfile


def names(item):
    """Tensors that an argument names."""
    if isinstance(item, dict):
        for key, value in item.items():
            if key == "as_tensor" and isinstance(value, dict):
                yield value["name"]
            elif key == "as_tensors" and isinstance(value, list):
                yield from (tensor["name"] for tensor in value)
            else:
                yield from names(value)
    elif isinstance(item, list):
        for value in item:
            yield from names(value)


def renamed(item, made, suffix):
    """The item with the names of tensors that nodes make changed."""
    if isinstance(item, dict):
        return {
            key: value + suffix if key == "name" and isinstance(value, str) and value in made else renamed(value, made, suffix)
            for key, value in item.items()
        }
    return [renamed(value, made, suffix) for value in item] if isinstance(item, list) else item


def repeat(graph, wanted):
    made = {name for node in graph["nodes"] for name in names(node["outputs"])}
    # Sizes are made once: a second definition would be another symbol.
    once = [node for node in graph["nodes"] if "as_sym_int" not in json.dumps(node["outputs"])]
    values = dict(graph["tensor_values"])
    nodes, count = list(graph["nodes"]), 0
    while len(nodes) < wanted:
        count += 1
        suffix = f"_r{count}"
        for node in once:
            copy = renamed(node, made, suffix)
            if node.get("name"):
                copy["name"] = node["name"] + suffix
            nodes.append(copy)
        values.update({name + suffix: value for name, value in graph["tensor_values"].items() if name in made})
    graph["nodes"], graph["tensor_values"] = nodes, values
    return len(nodes)


def main():
    source, target, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("models/model.json"):
                program = json.loads(data)
                count = repeat(program["graph_module"]["graph"], wanted)
                data = json.dumps(program).encode()
                print(f"{target}: {count} nodes, {len(data) / 1e6:.1f} MB of JSON")
            new.writestr(name, data)


main()
