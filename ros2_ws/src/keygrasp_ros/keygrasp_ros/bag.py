"""Recordings that ``ros2 bag``, Foxglove and Rerun open: rosbag2 folders with one MCAP file each.

What was written stays readable however the process ends: each second the data on the way is closed into a chunk and
handed to the system, and :func:`repair` gives a recording that was cut off its index and ``metadata.yaml``.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from keygrasp.errors import InputError, StorageError
from keygrasp.extras import require
from keygrasp.files import folders_undone, write_text
from keygrasp_ros.bag_metadata import METADATA_FILE, STORAGE, Channel, metadata_yaml, profiles_of, qos_yaml
from keygrasp_ros.message_types import definition, type_hash

EXTRA = "record"
#: Bytes of messages after which a chunk is closed, and seconds after which it is closed however small it is.
_CHUNK_BYTES, _CHUNK_SECONDS = 1 << 20, 1.0
#: Largest record that is read.
_MOST_BYTES = 1 << 28


class BagWriter:
    """Writes one recording; use as a context manager, from one thread at a time.

    Args:
        folder: The recording's folder, which must not exist yet.

    Raises:
        InputError: If the folder exists.
        StorageError: If it can't be made.
        MissingExtraError: If the package ``mcap`` is not installed.
    """

    def __init__(self, folder: Path) -> None:
        mcap = require("mcap.writer", EXTRA)
        self.folder = folder
        self._file_name = f"{folder.name}_0.mcap"
        self._channels: dict[str, tuple[int, Channel]] = {}
        self._counts: dict[str, int] = {}
        self._schemas: dict[str, int] = {}
        self._first = self._last = 0
        try:
            folder.mkdir(parents=True)
            self._stream = (folder / self._file_name).open("xb")
        except FileExistsError as error:
            raise InputError(f"{folder} exists already", "Choose another place for the recording") from error
        except OSError as error:
            raise self._fault(error) from error
        self._writer = mcap.Writer(self._stream, chunk_size=_CHUNK_BYTES)
        self._next_flush = time.monotonic() + _CHUNK_SECONDS
        with self._writing():
            self._writer.start(profile="ros2", library="keygrasp")

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def count(self) -> int:
        """Messages written so far."""
        return sum(self._counts.values())

    def write(self, channel: Channel, data: bytes, nanoseconds: int) -> None:
        """Write a message.

        Args:
            channel: Its topic; declared when its first message comes.
            data: The serialized message (CDR).
            nanoseconds: When it was received, since 1970.

        Raises:
            StorageError: If the disk is full or broken; what was written before stays readable.
            InputError: If the definition of its type is not installed.
        """
        with self._writing():
            if channel.name not in self._channels:
                self._channels[channel.name] = (self._register(channel), channel)
            number = self._channels[channel.name][0]
            sequence = self._counts.get(channel.name, 0)
            self._writer.add_message(number, nanoseconds, data, nanoseconds, sequence)
            self._counts[channel.name] = sequence + 1
            self._first = min(self._first or nanoseconds, nanoseconds)
            self._last = max(self._last, nanoseconds)
            if time.monotonic() >= self._next_flush:
                self._writer.flush()
                self._next_flush = time.monotonic() + _CHUNK_SECONDS

    def close(self) -> None:
        """Write index and ``metadata.yaml``; a second call does nothing.

        Raises:
            StorageError: If they can't be written; the messages stay readable, see :func:`repair`.
        """
        if self._stream.closed:
            return
        channels = [channel for _, channel in self._channels.values()]
        text = metadata_yaml(self._file_name, channels, self._counts, self._first, self._last)
        with self._writing():
            self._writer.add_metadata("rosbag2", {"serialized_metadata": text})
            self._writer.finish()
            self._stream.close()
        write_text(self.folder / METADATA_FILE, text)

    def _register(self, channel: Channel) -> int:
        if channel.type not in self._schemas:
            text = definition(channel.type).encode()
            self._schemas[channel.type] = self._writer.register_schema(channel.type, "ros2msg", text)
        facts = {"offered_qos_profiles": qos_yaml(channel.qos), "topic_type_hash": type_hash(channel.type)}
        return int(self._writer.register_channel(channel.name, "cdr", self._schemas[channel.type], facts))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        if self._stream.closed:
            raise StorageError(f"the recording {self.folder} is closed", "Begin another one")
        try:
            yield
        except OSError as error:
            with contextlib.suppress(OSError):  # closing flushes, which fails as well
                self._stream.close()
            raise self._fault(error) from error

    def _fault(self, error: OSError) -> StorageError:
        return StorageError(
            f"can't write the recording {self.folder}: {error.strerror or error}",
            "Free some space or choose another place; what was recorded before is readable: keygrasp record --repair",
        )


@dataclass(frozen=True)
class BagMessage:
    """One message of a recording.

    Attributes:
        topic: Full name of its topic.
        type: Name of its message type.
        data: The serialized message (CDR).
        nanoseconds: When it was received, since 1970.
        qos: ``offered_qos_profiles`` of its topic as the recording gives it, YAML.
    """

    topic: str
    type: str
    data: bytes
    nanoseconds: int
    qos: str


def read_bag(path: Path) -> Iterator[BagMessage]:
    """The messages of a recording in the order in which they were written; a file that was cut off is read to its end.

    Args:
        path: The recording's folder, or its MCAP file.

    Raises:
        InputError: If it is none, or keeps its messages in another format.
        MissingExtraError: If the package ``mcap`` is not installed.
    """
    for file in bag_files(path):
        with file.open("rb") as stream:
            yield from _read_file(file, stream)


def bag_files(path: Path) -> list[Path]:
    """The MCAP files of a recording, in order; see :func:`read_bag`."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"there is no recording at {path}", "Check the path")
    files = sorted(path.glob("*.mcap"), key=lambda file: (len(file.name), file.name))
    if not files:
        raise InputError(f"{path} holds no .{STORAGE} file", "Convert other recordings with 'ros2 bag convert'")
    return files


def _read_file(file: Path, stream: Any) -> Iterator[BagMessage]:
    mcap, reading = require("mcap.exceptions", EXTRA), require("mcap.stream_reader", EXTRA)
    records = require("mcap.records", EXTRA)
    schemas: dict[int, str] = {}
    channels: dict[int, Any] = {}
    try:
        for record in reading.StreamReader(stream, validate_crcs=True, record_size_limit=_MOST_BYTES).records:
            if isinstance(record, records.Schema):
                schemas[record.id] = record.name
            elif isinstance(record, records.Channel):
                channels[record.id] = record
            elif isinstance(record, records.Message):
                channel = channels[record.channel_id]
                qos = channel.metadata.get("offered_qos_profiles", "")
                yield BagMessage(channel.topic, schemas[channel.schema_id], record.data, record.log_time, qos)
    except mcap.EndOfFile:
        return  # cut off: what comes before is whole
    except Exception as error:  # whatever damaged bytes make the decoders raise
        raise InputError(f"{file} is no readable MCAP file: {error}", "Is it the right file?") from error


def repair(path: Path, folder: Path) -> int:
    """Write a recording that was cut off once more, with index and ``metadata.yaml``.

    Args:
        path: The recording's folder or file, which stays as it is.
        folder: Folder of the new recording.

    Returns:
        How many messages were saved.

    Raises:
        InputError: If there is no readable recording, or the new folder exists.
        StorageError: If the new one can't be written.

    Where it fails, nothing of the new recording is left.
    """
    bag_files(path)  # before anything is made
    with folders_undone(folder):
        writer = BagWriter(folder)
        try:
            with writer:
                for message in read_bag(path):
                    channel = Channel(message.topic, message.type, profiles_of(message.qos))
                    writer.write(channel, message.data, message.nanoseconds)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return writer.count
