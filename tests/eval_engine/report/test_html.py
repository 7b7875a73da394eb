"""The page: self-contained, everything from outside escaped, well-formed, the right cells."""

import base64
from html.parser import HTMLParser

from eval_engine.report.answers import Answers
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.html import save_html

EVIL = '<script>alert("x")</script> & $title'


def rows(names=("a", "b")):
    made = []
    for i, name in enumerate(names):
        made.append(
            EstimateRow(name, "full_macro", "recall", 10, 0.3 - 0.1 * i, None, None, None, 1000, 20, "the mean recall")
        )
        made.append(
            EstimateRow(
                name,
                "traditional",
                "recall",
                5,
                0.5 + 0.1 * i,
                0.01,
                0.48 + 0.1 * i,
                0.52 + 0.1 * i,
                900,
                120,
                "something <else>",
            )
        )
        made.append(
            EstimateRow(
                name,
                "ure_macro",
                "recall",
                10,
                None if i else 0.31,
                None,
                None,
                None,
                900,
                120,
                "mean recall of some users" if i else None,
            )
        )
    return made


def saved(tmp_path, rows, *args, comparisons=()):
    return save_html(Answers(rows, comparisons), *args, tmp_path / "r.html").read_text(encoding="utf-8")


class Balance(HTMLParser):
    """Collects tags and checks that every one is closed."""

    VOID = ("meta", "img")

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    parser = Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def test_names_estimands_and_facts_are_escaped(tmp_path):
    page = saved(tmp_path, rows((EVIL, "b")), {EVIL: EVIL}, None)
    assert "<script" not in page
    parser = parsed(page)
    assert all(tag != "script" for tag, _ in parser.seen)
    assert parser.text.count(EVIL) >= 3  # the model in two tables, the fact's name and value
    assert "something <else>" in parser.text


def test_the_picture_is_inside_and_nothing_is_loaded(tmp_path):
    picture = tmp_path / "p.png"
    picture.write_bytes(b"\x89PNG not really")
    parser = parsed(saved(tmp_path, rows(), {}, picture))
    (image,) = [attrs for tag, attrs in parser.seen if tag == "img"]
    assert base64.b64decode(image["src"].removeprefix("data:image/png;base64,")) == picture.read_bytes()
    assert image["alt"].startswith("Traditional recall@5 puts b above a")
    assert not [
        attrs
        for tag, attrs in parser.seen
        if tag in ("link", "script", "iframe") or "http" in attrs.get("src", "") + attrs.get("href", "")
    ]


def test_cells_orders_estimands_and_users(tmp_path):
    page = saved(tmp_path, rows(), {"run_id": "r1"}, None)
    first = "<td><strong>0.3000</strong><small>–</small></td>"
    assert f'{first}<td>0.5000 <span class="clear">▼1</span><small>0.4800 to 0.5200</small></td>' in page
    assert '<th scope="row">b</th><td>0.2000<small>–</small></td>' in page
    arrows = '<span class="clear">b</span> → <span class="clear">a</span></td>'
    assert f"{arrows}<td>1 of 1 pairs unlike the truth, 1 of them clear" in page
    assert "a; undefined: b" in page
    assert '<th scope="row">truth</th><td>the mean recall</td><td>1,000</td><td>20</td>' in page
    assert '<th scope="row">URE macro</th><td>mean recall of some users</td><td>900</td><td>120</td>' in page
    assert '<th scope="row">URE macro</th><td>–</td><td>900</td><td>120</td>' in page
    assert '<th scope="row">run_id</th><td>r1</td>' in page


def test_same_rows_same_bytes_and_the_old_page_is_replaced(tmp_path):
    first = saved(tmp_path, rows(), {}, None)
    assert saved(tmp_path, rows()[::-1], {}, None) == first
    assert saved(tmp_path, rows(("a", "c")), {}, None) != first
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_no_rows(tmp_path):
    assert "There are no estimates to report." in "".join(parsed(saved(tmp_path, [], {}, None)).text)


def test_reasons_ties_and_left_out_users_are_on_the_page(tmp_path):
    tied = [row._replace(ties_low=0.1, ties_high=0.4, left_out="users <without>") for row in rows()]
    page = saved(tmp_path, [row._replace(reason="no <user>") if row.value is None else row for row in tied], {}, None)
    text = parsed(page).text
    assert text.count("URE macro of b: no <user>.") == 1
    assert "ties 0.1000 to 0.4000" in text
    assert text.count("users <without>") >= 3


def test_an_auc_page_has_no_empty_columns(tmp_path):
    auc = [
        EstimateRow(model, estimator, "auc", 0, value, 0.01, value - 0.02, value + 0.02, 10, 0, "words")
        for estimator in ("full_macro", "full_selected", "ure_macro")
        for model, value in (("a", 0.8), ("b", 0.7))
    ]
    page = saved(tmp_path, auc, {}, None)
    assert "<h2>auc</h2>" in page
    assert "auc@0" not in page
    assert "URE&#x27;s target<small>auc</small>" in page


def test_what_describes_lists_has_no_best_model_and_no_order(tmp_path):
    lists = [
        EstimateRow(model, "lists", "coverage", 10, value, None, None, None, 10, 0, "words")
        for model, value in (("a", 0.8), ("b", 0.7))
    ]
    page = saved(tmp_path, lists, {}, None)
    parsed(page)
    assert "0.8000" in page
    assert "<strong>" not in page
    assert "best first" not in page
