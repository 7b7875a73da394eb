"""Tables 2, 3 and 4 of [wtd], as printed: Kendall's tau of table 2's numbers is that of tables 3 and 4."""

import numpy as np
import pytest

from eval_engine.statistics.agreement import kendall

STRATEGIES = ("FULL", "REG", "SKEW", "WTD", "WTD_H")
TABLE_2 = {  # recommender: recall@10 on the unbiased test set, percentage differences of the strategies to it
    "CoatShopping": {
        "PosPop": (0.066, (133, 124, 13, 1, -43)),
        "AvgRating": (0.068, (61, 53, 31, 6, 24)),
        "UB_KNN": (0.067, (229, 225, 112, 90, 34)),
        "IB_KNN": (0.073, (236, 227, 105, 82, 26)),
        "MF": (0.063, (180, 176, 179, 123, 102)),
    },
    "Webscope": {
        "PosPop": (0.056, (280, 272, -14, -68, -79)),
        "AvgRating": (0.016, (-77, -77, -50, -51, -49)),
        "UB_KNN": (0.073, (273, 265, 35, -9, -24)),
        "IB_KNN": (0.071, (313, 306, 45, -2, -17)),
        "MF": (0.077, (258, 252, 90, 66, 52)),
    },
}
TABLE_3 = {"CoatShopping": (0.2, 0.2, 0.0, 0.0, 0.0), "Webscope": (0.6, 0.6, 0.8, 0.8, 0.8)}
TABLE_4 = {"CoatShopping": (0.3, 0.3, 0.7, 0.7, 0.7), "Webscope": (0.68,) * 5}  # without MF


def taus(data: str, without: str = "") -> list[float]:
    rows = [row for name, row in TABLE_2[data].items() if name != without]
    truth = np.array([row[0] for row in rows])
    values = truth[:, None] * (1 + np.array([row[1] for row in rows]) / 100)
    return [float(np.squeeze(kendall(truth, values[:, n]))) for n in range(len(STRATEGIES))]


@pytest.mark.parametrize("data", TABLE_2)
def test_table_3_follows_from_table_2(data: str) -> None:
    np.testing.assert_allclose(taus(data), TABLE_3[data], atol=1e-12)


def test_table_4_follows_from_table_2() -> None:
    """Six pairs of four recommenders: tau is a multiple of 1/3. The printed 0.68 is 2/3, but for its second digit."""
    assert [round(tau, 1) for tau in taus("CoatShopping", without="MF")] == list(TABLE_4["CoatShopping"])
    webscope = taus("Webscope", without="MF")
    np.testing.assert_allclose(webscope, [2 / 3] * 5)
    np.testing.assert_allclose(webscope, TABLE_4["Webscope"], atol=0.014)
