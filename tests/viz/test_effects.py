"""draw_effects: the picture of side effects says what the call really changed, in the order of the replay."""

import pytest
import torch

import minicompile
from minicompile.viz import draw_effects


class Meter:
    def __init__(self):
        self.total, self.last, self.old = 0, None, 1


def track(meter, log, x):
    log.append(x * 2)
    meter.log.append(meter.total)
    meter.total += 1
    meter.last = {"value": log[0]}
    del meter.old


def section(text, title, until):
    lines = text.split("\n")
    start = lines.index(title) + 1
    return lines[start : lines.index(until)] if until else lines[start:]


def test_before_writes_and_after():
    meter, log = Meter(), []
    meter.log = log
    picture = draw_effects(track, meter, log, torch.ones(3))
    assert [entry if isinstance(entry, int) else entry.tolist() for entry in log] == [[2.0, 2.0, 2.0], 0]
    text = repr(picture)
    assert section(text, "before the call", "recorded writes") == [
        "  meter -> #1 Meter",
        "  log -> #2 list",
        "  x -> x: float32[3]",
        "  #1 Meter",
        "      .total = 0",
        "      .last = None",
        "      .old = 1",
        "      .log = #2 list",
        "  #2 list",
    ]
    assert section(text, "recorded writes", "after the replay") == [
        "  1. log[:] = [mul: float32[3], lazy meter.total]",
        "  2. meter.total = 1",
        "  3. meter.last = {'value': mul: float32[3]}",
        "  4. del meter.old",
    ]
    assert section(text, "after the replay", None) == [
        "  meter -> #1 Meter",
        "  log -> #3 list",
        "  x -> x: float32[3]",
        "  #1 Meter",
        "      .total = 1   <- write 2",
        "      .last = #2 dict   <- write 3",
        "      .log = #3 list",
        "  #2 new dict",
        "      ['value'] = mul: float32[3]",
        "  #3 list",
        "      [0] = mul: float32[3]   <- write 1",
        "      [1] = 0   <- write 1",
    ]
    bundle = picture._repr_mimebundle_()
    assert "4 replayed writes" in bundle.get("image/svg+xml", "4 replayed writes")


counter = 0


def test_cells_and_globals():
    def make():
        count = 0

        def bump(x):
            nonlocal count
            global counter
            count += 1
            counter = count
            return x + count

        return bump

    text = repr(draw_effects(make(), torch.ones(3)))
    assert section(text, "recorded writes", "after the replay") == ["  1. count = 1", "  2. counter = 1"]
    assert "      cell_contents = 0" in section(text, "before the call", "recorded writes")
    assert "      cell_contents = 1   <- write 1" in section(text, "after the replay", None)


def test_nothing_to_replay_and_nothing_captured():
    text = repr(draw_effects(lambda x: x + 1, torch.ones(3)))
    assert section(text, "recorded writes", "after the replay") == []
    with pytest.raises(ValueError, match="captured from beginning to end"):
        draw_effects(lambda: 1)


def test_the_film_shows_writes_as_they_are_recorded():
    meter, log = Meter(), []
    meter.log = log
    film = minicompile.step(track, meter, log, torch.ones(3))
    appended = next(step for step in film if step.text == "CALL 1")
    assert appended.effects == ["log[:] = [mul: float32[3]]"]
    assert film[-1].effects[-1] == "del meter.old"
    assert "! meter.total = 1" in repr(film)


def test_a_cell_that_becomes_empty():
    def make(late):
        def drop(x):
            nonlocal late
            del late
            return x + 1

        return drop

    text = repr(draw_effects(make(1), torch.ones(3)))
    assert section(text, "recorded writes", "after the replay") == ["  1. del late"]
    assert "      cell_contents = 1" in section(text, "before the call", "recorded writes")
    assert not [line for line in section(text, "after the replay", None) if "cell_contents" in line]
