"""The loops over tasks of attention: a task is a tile of the queries of one head."""

from __future__ import annotations

from dataclasses import replace

from ...text.writer import ENTRY, Writer, copy_floats, declarations
from ..tiling import write_piece
from .query_tile import FIELDS, QueryTile
from .transposition import DECLARATIONS


def source(tile: QueryTile, rest: int, copies: bool) -> str:
    """The text of the entry `attention`, and of `copy` if keys and values are copied first.

    The last tile of a head has `rest` vectors if that is not 0. Copies of a head are [key][head_dim], then
    [key][value_dim], in the workspace.
    """
    kinds = [tile] + ([replace(tile, vectors=rest)] if rest else [])
    return "\n".join([declarations(tile.vector), DECLARATIONS, *tile.declarations,
                      *(kind.functions() for kind in kinds), _attention(tile, rest, copies),
                      *([_copy()] if copies else [])])


def _attention(tile: QueryTile, rest: int, copies: bool) -> str:
    write = Writer(FIELDS)
    size = {name: write.argument(name) for name in FIELDS[:-1]}
    scratch = write_piece(write, size["threads"], size["tasks"], size["piece"])
    mask = "null"
    if tile.mask != "none":
        mask = write.let(f"inttoptr i64 {write.argument('mask')} to ptr")
    with write.loop("%begin", "%end") as task:
        index = write.i64("urem", task, size["tiles"])
        across = write.i64("udiv", task, size["tiles"])
        if tile.causal:
            index = _alternated(write, index, size["tiles"])
        head, image = write.i64("urem", across, size["heads"]), write.i64("udiv", across, size["heads"])
        kv_head = write.i64("udiv", head, size["group"])
        pointers = {}
        for name, base in (("q", "%x"), ("k", "%w"), ("v", "%bias"), ("y", "%y"), ("mask", mask)):
            number = kv_head if name in "kv" else head
            kind = tile.kind_of(name)
            pointers[name] = write.at(write.at(base, write.mul(image, size[f"{name}_image"]), kind),
                                      write.mul(number, size[f"{name}_head"]), kind) if base != "null" else base
        if tile.packs:
            _pack(write, size, task, scratch, pointers)
        elif copies:
            _use_copies(write, size, write.add(write.mul(image, size["kv_heads"]), kv_head), pointers)

        def call(kind: QueryTile) -> None:
            first = write.i64("smin", write.mul(index, tile.lanes), write.i64("sub", size["q_len"], kind.lanes))
            q = write.at(pointers["q"], write.mul(first, size["q_token"]), kind.kind_of("q"))
            y = write.at(pointers["y"], write.mul(first, size["y_token"]), kind.kind_of("y"))
            mask = pointers["mask"]
            if tile.mask == "scores":
                mask = write.at(mask, write.mul(first, size["mask_row"]))
            write.do(f"call void @tile{kind.vectors}(ptr {q}, ptr {pointers['k']}, ptr {pointers['v']}, ptr {mask}, "
                     f"ptr {y}, ptr %a, ptr {scratch}, i64 {first})")

        whole = write.let(f"icmp slt i64 {index}, {size['whole_tiles']}")
        with write.when(whole):
            call(tile)
        if rest:
            with write.when(write.let(f"xor i1 {whole}, true")):
                call(replace(tile, vectors=rest))
    return write.function(f"void @attention({ENTRY})")


def _alternated(write: Writer, index: str, tiles: str) -> str:
    """Take tiles from both ends by turns: later queries see more keys, and every thread's share costs the same."""
    half = write.i64("udiv", index, 2)
    last = write.i64("sub", write.i64("sub", tiles, 1), half)
    odd = write.let(f"trunc i64 {index} to i1")
    return write.let(f"select i1 {odd}, i64 {last}, i64 {half}")


def _use_copies(write: Writer, size: dict[str, str], head: str, pointers: dict[str, str]) -> None:
    """Point k and v to the copies of a head, and make the values' step that of the copies."""
    width = write.add(size["head_dim"], size["value_dim"])
    base = write.at(write.at("%workspace", size["copies_at"]), write.mul(head, write.mul(size["kv_len"], width)))
    pointers["k"] = base
    pointers["v"] = write.at(base, write.mul(size["kv_len"], size["head_dim"]))


def _copy() -> str:
    """Copy the keys and values of heads; a task is one head of one sequence."""
    write = Writer(FIELDS)
    size = {name: write.argument(name) for name in FIELDS[:-1]}
    with write.loop("%begin", "%end") as task:
        head, image = write.i64("urem", task, size["kv_heads"]), write.i64("udiv", task, size["kv_heads"])
        pointers: dict[str, str] = {}
        _use_copies(write, size, task, pointers)
        for name, base, width in (("k", "%w", size["head_dim"]), ("v", "%bias", size["value_dim"])):
            from_ = write.at(write.at(base, write.mul(image, size[f"{name}_image"])),
                             write.mul(head, size[f"{name}_head"]))
            with write.loop(0, size["kv_len"]) as key:
                copy_floats(write, write.at(pointers[name], write.mul(key, width)),
                            write.at(from_, write.mul(key, size[f"{name}_token"])), width)
    return write.function(f"void @copy({ENTRY})")


def _pack(write: Writer, size: dict[str, str], task: str, scratch: str, pointers: dict[str, str]) -> None:
    """Pack keys and values at the first task of a head, and point k and v to them; see `pairs.py`."""
    packed = write.at(scratch, size["copies_at"])
    shared = write.i64("urem", task, write.mul(size["tiles"], size["group"]))
    new = write.let(f"or i1 {write.let(f'icmp eq i64 {task}, %begin')}, {write.let(f'icmp eq i64 {shared}, 0')}")
    with write.when(new):
        write.do(f"call void @seqtune_pack_pairs(ptr {pointers['k']}, ptr {pointers['v']}, ptr {packed}, "
                 f"i64 {size['k_token']}, i64 {size['v_token']}, i64 {size['kv_len']}, i64 {size['head_dim']}, "
                 f"i64 {size['value_dim']})")
    pointers["k"] = packed
    pointers["v"] = write.at(packed, write.mul(size["kv_len"], size["head_dim"]), "i16")
