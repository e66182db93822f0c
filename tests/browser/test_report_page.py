"""The report page in a real browser."""

import json
import math
from pathlib import Path

import pytest
from chromium import DESK, PAPER, PHONE, Browser
from made_up import a_machine, failed, made, store_of

from convdyno.report.cells import gather
from convdyno.report.figures import figures
from convdyno.report.page import SECTIONS, page
from convdyno.report.report_model import make_report
from convdyno.store.folder import stored_certificates
from convdyno.store.record import Record
from convdyno.store.training_runs import begin
from convdyno.trial.spec import make_trial
from convdyno.trial.training import Training, Watching

EVIL = "</script><img src=x onerror=\"document.title='owned'\">{{7*7}} & \u2028 'quoted'"
LATER = "2026-11-17T04:00:00.000+00:00"


def cells() -> list[Record]:
    """Something for every section."""
    speed = {"torch": 1.0, "jax": 1.2}
    found = [
        made(rate * factor * batch / (batch + 5), engine=engine, precision=precision, batch=batch)
        for engine, rate in ((name, 60 * value) for name, value in speed.items())
        for precision, factor in (("fp32", 1.0), ("bf16", 1.9))
        for batch in (8, 32)
    ]
    found += [made(20, network="vgg16", run="r2"), made(25, network="vgg16", precision="bf16")]
    found += [made(61, created=LATER, run="r3")]
    found += [
        made(100, cores=1, run="s"),
        made(180, devices=2, cores=1, run="s"),
        made(190, devices=2, cores=1, exchange="independent", run="s"),
    ]
    rungs = {"device": 0.1, "host": 0.104, "decoded": 0.12, "bytes": 0.17, "source": 0.18}
    found += [
        made(32 / seconds, run="l", data="photos", rung=rung) for rung, seconds in rungs.items()
    ]
    found += [failed(EVIL, batch=512), failed(EVIL, status="failed", network=f"mine:{EVIL}")]
    found += [made(50, batch=16, labels={"who": EVIL}, machine=a_machine(f"one{EVIL}"))]
    return found


def train(folder: Path) -> None:
    trial = make_trial(network="deepmnist", engine="torch", batch=50, data="mnist")
    training = Training(trial=trial, recipe="x", epochs=3, until=0.9)
    run = begin(folder, training, Watching(), None, "convdyno train deepmnist", a_machine())
    result = {"seconds": 60.0, "step": 3, "best": 0.95, "reached": True}
    run.ended("finished", "", step=3).model_copy(update={"result": result}).write(folder)
    lines = [
        {"kind": "evaluated", "step": step, "seconds": 20.0 * step, "top1": 1 - math.exp(-step)}
        for step in (1, 2, 3)
    ]
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    store_of(folder / "results", *cells())
    (folder / "run").mkdir()
    train(folder / "run")
    found = gather([folder / "results", folder / "run"])
    content = make_report(found, stored_certificates(found.stores))
    text = page(content, figures(content), f"report {EVIL}")
    (folder / "report.html").write_text(text, encoding="utf-8")
    return folder / "report.html"


def test_it_is_drawn_without_an_error_and_without_the_network(
    browser: Browser, report: Path
) -> None:
    browser.open(report)
    assert browser.console() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [report.as_uri()]
    assert browser.run("return document.querySelectorAll('.chart svg').length") == browser.run(
        "return document.querySelectorAll('figure').length"
    )
    empty = "return [...document.querySelectorAll('.chart svg')].filter(s => !s.textContent).length"
    assert browser.run(empty) == 0
    assert "undefined" not in browser.run(
        "return [...document.querySelectorAll('.chart svg')].map(s => s.textContent).join()"
    )


def test_every_section_is_there(browser: Browser, report: Path) -> None:
    browser.open(report)
    assert browser.texts("section > h2") == [
        "Cells", *(heading for heading, _ in SECTIONS.values()), "Runs of training",
        "What to mind", "Machines and versions", "To repeat a cell",
    ]  # fmt: skip


def test_what_records_say_is_shown_and_never_obeyed(browser: Browser, report: Path) -> None:
    browser.open(report)
    assert browser.run("return document.title") == f"report {EVIL}"
    assert browser.run("return document.images.length") == 0
    shown = browser.run("return document.body.textContent")
    assert "</script><img src=x onerror=" in shown
    assert browser.run("return document.scripts.length") == 3


def test_filters_leave_what_fits_in_the_table_and_in_the_charts(
    browser: Browser, report: Path
) -> None:
    browser.open(report)
    figures_before = len(browser.texts("figure h3"))
    browser.choose("network", "vgg16")
    assert len(browser.texts("#rows tr.cell")) == 2
    assert "2 of " in browser.texts("#count")[0]
    assert all("vgg16" in text for text in browser.texts("#rows tr.cell"))
    assert 0 < len(browser.texts("figure h3")) < figures_before
    assert "Scaling" not in browser.texts("section > h2")
    browser.choose("network", "")
    browser.choose("engine", "jax")
    words = browser.run("return document.querySelector('#ratios svg')?.textContent ?? ''")
    assert "jax / torch" not in words, "torch is filtered away, so the ratio is"
    browser.type("#search", "bf16 32")
    assert {row.split()[2] for row in browser.texts("#rows tr.cell")} <= {"jax", "bf16", "train"}
    assert len(browser.texts("#rows tr.cell")) == 1
    browser.click("button[type=reset]")
    assert browser.run("return document.querySelector('#search').value") == ""
    assert len(browser.texts("figure h3")) == figures_before
    assert browser.console() == []


def test_a_chart_follows_the_filter(browser: Browser, report: Path) -> None:
    browser.open(report)
    points = "return document.querySelectorAll('#throughput figure .mark-symbol path').length"
    before = browser.run(points)
    browser.choose("precision", "bf16")
    browser.run("return new Promise(done => setTimeout(done, 300))")
    assert 0 < browser.run(points) < before


def test_a_chart_follows_a_filter_that_leaves_as_many_points(
    browser: Browser, report: Path
) -> None:
    browser.open(report)
    browser.choose("network", "resnet50")
    browser.choose("precision", "bf16")
    shown = {}
    for engine in ("torch", "jax"):
        browser.choose("engine", engine)
        browser.run("return new Promise(done => setTimeout(done, 300))")
        shown[engine] = browser.run(
            "return [...document.querySelectorAll('#throughput figure .mark-symbol path')]"
            ".map(path => path.getAttribute('aria-label')).join('; ')"
        )
    assert shown["torch"].count(";") == shown["jax"].count(";")
    assert shown["torch"] != shown["jax"]


def test_columns_are_sorted_both_ways(browser: Browser, report: Path) -> None:
    browser.open(report)
    rates = (
        "return [...document.querySelectorAll('#rows td.rate b')].map(b => Number(b.textContent))"
    )
    head = "th[data-column=images_per_second]"
    browser.click(f"{head} button")
    first = browser.run(rates)
    assert first == sorted(first, reverse=True)
    order = browser.run(f"return document.querySelector('{head}').getAttribute('aria-sort')")
    assert order == "descending"
    browser.click(f"{head} button")
    assert browser.run(rates) == sorted(first)
    browser.click("th[data-column=batch] button")
    batches = [int(text.split()[0]) for text in browser.texts("#rows td[data-label=batch]")]
    assert batches == sorted(batches)


def test_headings_sort_by_keys_and_keep_the_focus(browser: Browser, report: Path) -> None:
    browser.open(report)
    head = "th[data-column=images_per_second]"
    order = f"return document.querySelector('{head}').getAttribute('aria-sort')"
    assert browser.run(order) == "none"
    for key, way in (("\ue007", "descending"), (" ", "ascending")):
        browser.type(f"{head} button", key)
        assert browser.run(order) == way
        focused = "return document.activeElement.closest('th')?.dataset.column"
        assert browser.run(focused) == "images_per_second"
    others = "return document.querySelectorAll('#head th[aria-sort=none]').length"
    assert browser.run(others) == len(browser.texts("#head th.sortable")) - 1


def test_headings_look_sortable(browser: Browser, report: Path) -> None:
    browser.open(report)
    sign = (
        "return getComputedStyle(document.querySelector('th[data-column=batch] button'), '::after')"
        ".content"
    )
    assert browser.run(sign) == '"↕"'
    browser.click("th[data-column=batch] button")
    assert browser.run(sign) == '"↑"'
    browser.click("th[data-column=batch] button")
    assert browser.run(sign) == '"↓"'


def test_opening_a_cell_by_keys_keeps_the_focus(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.type("#rows .open", "\ue007")
    assert browser.run("return document.activeElement.getAttribute('aria-expanded')") == "true"
    browser.run("document.activeElement.click()")
    assert browser.run("return document.activeElement.getAttribute('aria-expanded')") == "false"


def test_the_conclusion_is_the_first_thing_to_read(browser: Browser, report: Path) -> None:
    browser.open(report, PHONE)
    told = browser.texts(".conclusion li")
    assert 1 <= len(told) <= 5
    assert told[0].startswith("bf16 is faster than fp32")
    assert any("comparisons: " in sentence for sentence in told)
    places = [
        browser.run(f"return document.querySelector('{place}').getBoundingClientRect().top")
        for place in (".conclusion", ".tiles", "nav", "#cells")
    ]
    assert places == sorted(places)


def test_the_history_shows_every_run_and_follows_the_filter(browser: Browser, report: Path) -> None:
    browser.open(report)
    points = (
        "return [...document.querySelectorAll('#history .mark-symbol path')]"
        ".filter(path => (path.getAttribute('aria-label') ?? '').includes('versions')).length"
    )
    assert browser.run(points) == 2
    (row,) = browser.texts("#history tbody tr")
    assert "on 2026-11-16" in row and "on 2026-11-17" in row
    browser.choose("precision", "bf16")
    assert "History" not in browser.texts("section > h2")


def test_a_wide_table_scrolls_by_itself_on_a_phone(browser: Browser, report: Path) -> None:
    browser.open(report, PHONE)
    scrolls = (
        "const box = document.querySelector('#history .wide');"
        "return box.scrollWidth > box.clientWidth && box.clientWidth <= 390 && box.tabIndex === 0"
    )
    assert browser.run(scrolls)
    row = "return document.querySelector('#history tbody tr').getBoundingClientRect().height"
    assert browser.run(row) < 80, "no column is squeezed into a word a line"


def test_the_headline_figure_can_be_seen_without_scrolling(browser: Browser, report: Path) -> None:
    for size in (DESK, PHONE):
        browser.open(report, size)
        right = "return document.querySelector('#rows td.rate b').getBoundingClientRect().right"
        assert browser.run(right) < size[0]


def test_paper_has_no_controls_and_nothing_is_cut(browser: Browser, report: Path) -> None:
    browser.open(report, PAPER, dark=True, media="print")
    assert browser.texts("button, select, input, nav, #count, td.toggle") == browser.texts(
        "th button"
    ), "only the words of headings are left"
    width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(f"return {width}") <= 0
    beyond = (
        "return [...document.querySelectorAll('td, th, .chart svg')].filter("
        "e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length"
    )
    assert browser.run(beyond) == 0
    paper = "return getComputedStyle(document.body).backgroundColor"
    assert browser.run(paper) == "rgb(255, 255, 255)"
    signs = "return getComputedStyle(document.querySelector('th button'), '::after').content"
    assert browser.run(signs) == "none"


def test_only_the_newest_of_each_cell_until_asked_for_all(browser: Browser, report: Path) -> None:
    browser.open(report)
    newest = int(browser.texts("#count")[0].split()[0])
    browser.click("#newest")
    assert int(browser.texts("#count")[0].split()[0]) == newest + 1


def test_a_cell_opens_with_the_command_that_repeats_it(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.choose("network", "vgg16")
    browser.choose("precision", "fp32")
    browser.click("#rows .open")
    (details,) = browser.texts("#rows tr.more")
    assert "convdyno bench vgg16 --engine torch --batch 32 --optimiser sgd --rate 0.001" in details
    assert "torch 1.2.3" in details
    (command,) = browser.texts("#commands code")
    assert command.startswith("convdyno bench vgg16 --engine torch")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [DESK, (768, 1024), PHONE, (320, 640)])
def test_nothing_is_wider_than_the_window(
    browser: Browser, report: Path, size: tuple[int, int], dark: bool
) -> None:
    browser.open(report, size, dark=dark)
    width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.run(f"return {width}") <= 0
    wide = (
        "return [...document.querySelectorAll('.chart')].filter(c => c.querySelector('svg')"
        ".getBoundingClientRect().right > c.getBoundingClientRect().right + 1).length"
    )
    assert browser.run(wide) == 0
    assert browser.console() == []


def test_dark_is_dark_and_light_is_light(browser: Browser, report: Path) -> None:
    colours = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
    text = "return getComputedStyle(document.querySelector('.chart text[fill=\"#24292f\"]')).fill"
    browser.open(report)
    assert browser.run(colours) == ["rgb(255, 255, 255)", "rgb(31, 35, 40)"]
    assert browser.run(text) == "rgb(31, 35, 40)"
    browser.open(report, dark=True)
    assert browser.run(colours) == ["rgb(13, 17, 23)", "rgb(230, 237, 243)"]
    assert browser.run(text) == "rgb(230, 237, 243)"
    browser.click("#theme")
    assert browser.run(colours)[0] == "rgb(255, 255, 255)", (
        "light by the button, whatever the system"
    )


def test_it_can_be_printed(browser: Browser, report: Path) -> None:
    browser.open(report, dark=True)
    assert browser.pages().startswith(b"%PDF")
    assert len(browser.texts("#rows tr.cell")) == len(browser.texts("#commands li")), (
        "all are shown"
    )


def test_a_chart_shows_what_failed_when_it_was_measured_again(
    browser: Browser, tmp_path: Path
) -> None:
    lost = failed("no memory", created=LATER)
    content = make_report(gather([store_of(tmp_path / "two", made(10), lost)]), {})
    file = tmp_path / "two.html"
    file.write_text(page(content, figures(content), "two"), encoding="utf-8")
    browser.open(file)
    assert len(browser.texts("#rows tr.cell")) == 1
    assert "Throughput" in browser.texts("section > h2")


def test_a_single_record_makes_a_page(browser: Browser, tmp_path: Path) -> None:
    found = gather([store_of(tmp_path / "one", made(10, rounds=1))])
    content = make_report(found, {})
    file = tmp_path / "one.html"
    file.write_text(page(content, figures(content), "one"), encoding="utf-8")
    browser.open(file, PHONE)
    assert browser.console() == []
    assert "What is faster" not in browser.texts("section > h2")
    assert any("only one process" in text for text in browser.texts(".minds li"))
