"""A bucket that answers ListObjectsV2 and nothing else: many keys, a set latency a page, a count of its requests.

Keys grow with time, a partition a day, as pipelines write them. It runs in a process of its own, so that its time is
not counted as a client's.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import datetime as dt
import json
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.client import HTTPConnection
from urllib.parse import parse_qs, quote, urlsplit

__all__ = ["LATENCY", "Stub", "running"]

LATENCY = 0.05
"""Seconds that an answer takes, where nothing else is said."""

_PAGE = 1000
_APART = 96  # seconds between two keys: 900 a day


class Bucket:
    """Keys in order, each with the time of its last modification."""

    def __init__(self, count: int) -> None:
        newest = int(time.time()) - 60
        self.keys: list[str] = []
        self.times: list[int] = []
        for number in range(count):
            self.add(newest - (count - 1 - number) * _APART)

    def add(self, modified: int) -> None:
        """Write one more object."""
        number, when = len(self.keys), dt.datetime.fromtimestamp(modified, dt.UTC)
        self.keys.append(f"events/{when:%Y/%m/%d}/part-{number:09}.parquet")
        self.times.append(modified)

    def page(self, query: dict[str, list[str]]) -> bytes:
        """Answer one request for a listing."""
        prefix = query.get("prefix", [""])[0]
        after = query.get("start-after", [""])[0]
        if token := query.get("continuation-token", [""])[0]:
            after = base64.urlsafe_b64decode(token).decode()
        size = min(int(query.get("max-keys", [str(_PAGE)])[0]), _PAGE)
        start = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after) if after else 0)
        end = bisect_left(self.keys, prefix + "\U0010ffff")
        stop = min(start + size, end)
        entries = "".join(self._entry(number) for number in range(start, stop))
        more = stop < end
        rest = (
            f"<NextContinuationToken>{base64.urlsafe_b64encode(self.keys[stop - 1].encode()).decode()}" if more else ""
        )
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>stub</Name><Prefix>{quote(prefix)}</Prefix><KeyCount>{max(stop - start, 0)}</KeyCount>"
            f"<MaxKeys>{size}</MaxKeys><EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{rest}{'</NextContinuationToken>' if more else ''}{entries}</ListBucketResult>"
        ).encode()

    def _entry(self, number: int) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.times[number]))
        return (
            f"<Contents><Key>{self.keys[number]}</Key><LastModified>{stamp}</LastModified>"
            f"<ETag>&quot;{number:032x}&quot;</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>"
            f"<ChecksumType>FULL_OBJECT</ChecksumType><Size>{number}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        )


class Server:
    """Speaks as much HTTP as S3 clients need."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.latency = LATENCY
        self.listings = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].split(b" ")[1].decode()
                began = time.monotonic()
                url = urlsplit(request)
                query = parse_qs(url.query, keep_blank_values=True)
                body = self._control(query) if url.path == "/-" else self._listing(query)
                if url.path != "/-":
                    await asyncio.sleep(max(self.latency - (time.monotonic() - began), 0.0))
                head = f"HTTP/1.1 200 OK\r\nDate: {formatdate(usegmt=True)}\r\nContent-Type: application/xml\r\n"
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _listing(self, query: dict[str, list[str]]) -> bytes:
        self.listings += 1
        return self.bucket.page(query)

    def _control(self, query: dict[str, list[str]]) -> bytes:
        count, self.listings = self.listings, 0
        self.latency = float(query["latency"][0])
        for _ in range(int(query["add"][0])):
            self.bucket.add(int(time.time()) - 10)
        return json.dumps({"listings": count, "newest": self.bucket.keys[-1]}).encode()


class Stub:
    """The stub as a benchmark sees it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.url = f"http://{address}"

    def reset(self, *, latency: float = 0.0, add: int = 0) -> int:
        """Return the number of listings since the last call, set the latency in seconds, and write more objects."""
        connection = HTTPConnection(self.address)
        try:
            connection.request("GET", f"/-?latency={latency}&add={add}")
            return int(json.load(connection.getresponse())["listings"])
        finally:
            connection.close()


@contextmanager
def running(count: int) -> Iterator[Stub]:
    """Run the stub with so many keys, in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, "--count", str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None or not (address := process.stdout.readline().strip()):
            raise RuntimeError("the listing stub did not start; its error is above")
        yield Stub(address)
    finally:
        process.terminate()
        process.wait()


async def _serve(count: int) -> None:
    server = await asyncio.start_server(Server(Bucket(count)).connected, "127.0.0.1", 0)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, required=True)
    asyncio.run(_serve(parser.parse_args().count))
