"""Words of the command line become values or a sentence."""

import pytest

from convdyno.errors import UsageError
from convdyno.trial import parse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5m", 90), ("2m30s", 150)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse.duration("--budget")(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5s", "5 minutes", "m", "1.2.3s", "5d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="--budget is a time"):
        parse.duration("--budget")(text)


@pytest.mark.parametrize(("text", "value"), [("3%", 0.03), ("0.03", 0.03), ("0.5%", 0.005)])
def test_shares(text: str, value: float) -> None:
    assert parse.share("--within")(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["3", "150%", "-1%", "x", "nan", "0"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(UsageError, match="--within"):
        parse.share("--within")(text)


@pytest.mark.parametrize(("text", "size"), [("224", (224, 224)), ("224x160", (224, 160))])
def test_image_sizes(text: str, size: tuple[int, int]) -> None:
    assert parse.image_size(text) == size


@pytest.mark.parametrize("text", ["0", "224x", "x", "-3", "1e3", "224x0"])
def test_what_is_no_image_size(text: str) -> None:
    with pytest.raises(UsageError, match="image size"):
        parse.image_size(text)


def test_an_unknown_word_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean 'bf16'"):
        parse.one_of("precision", ("fp32", "bf16"))("bf1")


def test_an_empty_value_in_a_list_is_refused() -> None:
    with pytest.raises(UsageError, match="empty value"):
        parse.several("16,,32", parse.whole("--batch"))
