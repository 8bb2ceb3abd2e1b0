"""Numbers as people read them."""

from focops.display.numbers import number


def test_zero_has_no_sign():
    assert [number(each) for each in (-0.0, 0.0, -0.25, None)] == ["0", "0", "-0.25", "–"]
