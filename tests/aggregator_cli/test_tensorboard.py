"""rounds --tensorboard: read back by protobuf and a checksum that are not Tern's."""
import pathlib
import struct

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from cli import FAILED, USAGE, State, main

FIELD = descriptor_pb2.FieldDescriptorProto

def event_class():
    """Event and Summary, by the field numbers of TensorFlow's event.proto and summary.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="t", syntax="proto3")

    def message(name, *fields):
        kind = file.message_type.add(name=name)
        for number, field, type_, label, type_name in fields:
            kind.field.add(number=number, name=field, type=type_, label=label, type_name=type_name)

    one, many = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED
    message("Value", (1, "tag", FIELD.TYPE_STRING, one, None), (2, "simple_value", FIELD.TYPE_FLOAT, one, None))
    message("Summary", (1, "value", FIELD.TYPE_MESSAGE, many, ".t.Value"))
    message("Event", (1, "wall_time", FIELD.TYPE_DOUBLE, one, None), (2, "step", FIELD.TYPE_INT64, one, None),
            (3, "file_version", FIELD.TYPE_STRING, one, None), (5, "summary", FIELD.TYPE_MESSAGE, one, ".t.Summary"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("t.Event")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(pool).GetPrototype(found)

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF

def check_crc(data, masked):
    crc = crc32c(data)
    assert ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF == masked, "a checksum is wrong"

def events_of(path):
    data, kind = path.read_bytes(), event_class()
    while data:
        length, = struct.unpack("<Q", data[:8])
        check_crc(data[:8], *struct.unpack("<I", data[8:12]))
        event, tail, data = data[12:12 + length], data[12 + length:16 + length], data[16 + length:]
        check_crc(event, *struct.unpack("<I", tail))
        yield kind.FromString(event)

def export(state, folder, *options):
    path = pathlib.Path(state.run("rounds", "--tensorboard", folder, *options).text.strip())
    assert path.parent == folder and "tfevents" in path.name, path
    first, *events = events_of(path)
    assert first.file_version == "brain.Event:2", first
    found = {}
    for event in events:
        assert len(event.summary.value) == 1
        value = event.summary.value[0]
        found[event.step, value.tag] = (event.wall_time, value.simple_value)
    return path, found

def near(found, expected):
    return abs(found - expected) <= 1e-6 * max(1, abs(expected))

def every_figure_comes_back():
    state = State(rounds=3)
    path, found = export(state, state.root / "runs" / "one")
    rounds = state.json("rounds")
    assert {step for step, _ in found} == {1, 2, 3}, found
    for row in rounds:
        step, by = row["round"], row["participants"]
        expected = {"updates": row["applied"], "loss/train": row["mean_loss"],
                    f"accuracy/{row['accuracy_model']}": row["accuracy"],
                    "bytes per client, up/payload": row["payload_up"] / by,
                    "bytes per client, up/wire": row["wire_up"] / by,
                    "bytes per client, down/payload": row["payload_down"] / by,
                    "bytes per client, down/wire": row["wire_down"] / by}
        for tag, value in expected.items():
            wall, shown = found[step, tag]
            assert near(shown, value), (step, tag, shown, value)
            assert near(wall, row["closed_ms"] / 1000), (wall, row)
        assert set(expected) | {"loss/evaluated"} == {tag for at, tag in found if at == step}, found
    again, _ = export(state, state.root / "runs" / "one", "--last", 1)
    assert again == path and {step for step, _ in export(state, path.parent, "--last", 1)[1]} == {3}

def what_cannot_be_written_is_named():
    state = State(rounds=1)
    (state.root / "file").write_text("kept")
    state.run("rounds", "--tensorboard", state.root / "file", code=FAILED, says="cannot write into")
    assert (state.root / "file").read_text() == "kept"
    state.run("rounds", "--tensorboard", state.root / "runs", "--csv", code=USAGE, says="allows only --last")

main(every_figure_comes_back, what_cannot_be_written_is_named)
