"""Writes the corpus: a folder for each target, of small files that are right and some that are nearly so.

    python3 seeds.py FOLDER

Needs nothing but Python: the formats are put together here from their public descriptions.
"""

import io
import json
import pathlib
import struct
import sys
import zipfile
import zlib


def npy(descr, fortran, shape, data, version=1, dictionary=None):
    text = dictionary or f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    body = text.encode()
    start = 10 if version == 1 else 12
    body += b" " * (-(start + len(body) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(body)) + body + data


def npz(entries, method, wide=False):
    out = io.BytesIO()
    limit = zipfile.ZIP64_LIMIT
    zipfile.ZIP64_LIMIT = 8 if wide else limit
    try:
        with zipfile.ZipFile(out, "w", method) as archive:
            for name, data in entries.items():
                archive.writestr(zipfile.ZipInfo(name), data, method)
    finally:
        zipfile.ZIP64_LIMIT = limit
    return out.getvalue()


def safetensors(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def deflate(data, level, strategy=0):
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 8, strategy)
    return struct.pack("<H", len(data)) + packer.compress(data) + packer.flush()


def corpora():
    floats = struct.pack("<6f", *range(6))
    one, matrix = npy("<f4", False, "(6,)", floats), npy(">f4", True, "(2, 3)", floats, 2)
    yield "npy", [
        one, matrix, npy("|b1", False, "()", b"\1", 3), npy("<c16", False, "(0, 5)", b""), npy("|V2", False, "(1,)", b"ab"),
        npy("<U3", False, "(1,)", bytes(12)), npy("|O", False, "(1,)", b"x"), one[:-1], one + b"\0",
        npy("", False, "", b"", 1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"),
        npy("<i8", False, "(9223372036854775807, 3)", b""), npy("<i2", False, "(-1,)", b""),
        npy("", False, "", b"\0\0", 1, '{"shape": (1L,), "fortran_order": False, "descr": "<i2"}'),
    ]
    both = {"a.npy": one, "b.npy": matrix}
    packed = npz(both, zipfile.ZIP_DEFLATED)
    yield "npz", [
        npz(both, zipfile.ZIP_STORED), packed, npz(both, zipfile.ZIP_DEFLATED, True), npz({}, zipfile.ZIP_STORED),
        npz({"../x.npy": one}, zipfile.ZIP_STORED), npz({"readme.txt": b"text"}, zipfile.ZIP_STORED), packed[:-3],
    ]
    texts = [b"", b"a", b"abc" * 300, bytes(range(256)) * 8, bytes(5000), b"the quick brown fox " * 9]
    yield "inflate", [deflate(t, level, how) for t in texts for level in (0, 1, 9) for how in (0, 2, 4)]
    header = {
        "__metadata__": {"format": "pt", "x": "\u00e9\n"},
        "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]},
        "e": {"dtype": "F8_E4M3", "shape": [0, 4], "data_offsets": [26, 26]},
    }
    overlap = {n: {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]} for n in "xy"}
    yield "safetensors", [
        safetensors(header, bytes(26)), safetensors({}, b""), safetensors(overlap, bytes(2)), safetensors(header, bytes(25)),
        safetensors(b'{"a\\u00e9\\ud83d\\ude00":{"shape":[1],"data_offsets":[0,1],"dtype":"BOOL"}}', b"\1"),
        safetensors(b'{"a":{"dtype":"I64","shape":[9223372036854775807,2],"data_offsets":[0,0]}}', b""), bytes([255] * 8) + b"{}",
    ]
    yield "dlpack", [bytes([0, 3, 2, 32, 3, 13, 4, 5]), bytes([128, 2, 0, 64, 8]), bytes([1]) + bytes([255] * 40), bytes(60)]


def main(folder):
    for name, seeds in corpora():
        to = pathlib.Path(folder, name)
        to.mkdir(parents=True, exist_ok=True)
        for i, seed in enumerate(seeds):
            (to / f"seed{i:02}").write_bytes(seed)


if __name__ == "__main__":
    main(sys.argv[1])
