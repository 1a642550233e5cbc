"""nkeys.json: NKeys, for tests/transport/nkey_test.cpp; to be met exactly.

Definitions: Ed25519, RFC 8032, in the affine arithmetic of its section 5.1; an NKey is
base32(prefix, key, CRC-16/XMODEM little-endian) as of github.com/nats-io/nkeys.

Keys: "users", a list of {"seed": hex, "public": hex, "seed_text", "public_text"}.
Asserted: the key of RFC 8032's first test vector, and the pair of keys in the documentation of nats-server.
"""

import base64
import binascii
import hashlib
import json
import struct
from pathlib import Path

P = 2**255 - 19
D = -121665 * pow(121666, P - 2, P) % P


def add(a, b):
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + t, P - 2, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - t, P - 2, P) % P
    return x, y


def times(n, point):
    result = (0, 1)
    while n:
        if n & 1:
            result = add(result, point)
        point = add(point, point)
        n >>= 1
    return result


def base_point():
    y = 4 * pow(5, P - 2, P) % P
    xx = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(xx, (P + 3) // 8, P)
    if x * x % P != xx:
        x = x * pow(2, (P - 1) // 4, P) % P
    return (P - x if x & 1 else x), y


B = base_point()


def pack(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def public(seed):
    h = hashlib.sha512(seed).digest()
    a = int.from_bytes(h[:32], "little") & (2**254 - 8) | 2**254
    return pack(times(a, B))


def nkey(prefix, key):
    raw = prefix + key
    return base64.b32encode(raw + struct.pack("<H", binascii.crc_hqx(raw, 0))).decode().rstrip("=")


def user(seed):
    kind = 20 << 3
    head = bytes([18 << 3 | kind >> 5, (kind & 31) << 3])
    return {
        "seed": seed.hex(),
        "public": public(seed).hex(),
        "seed_text": nkey(head, seed),
        "public_text": nkey(bytes([kind]), public(seed)),
    }


def check():
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert public(seed).hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    text = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
    documented = base64.b32decode(text + "=" * (-len(text) % 8))[2:34]
    assert user(documented)["seed_text"] == text
    assert user(documented)["public_text"] == "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
    return documented


if __name__ == "__main__":
    documented = check()
    seeds = [documented] + [hashlib.sha256(b"user %d" % i).digest() for i in range(4)]
    result = {"users": [user(seed) for seed in seeds]}
    path = Path(__file__).with_name("nkeys.json")
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
